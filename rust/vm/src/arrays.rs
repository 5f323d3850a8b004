//! The arrays of a call: operands and results of the custom call as arguments of the kernel.
#![allow(unsafe_code, reason = "copies of arrays are handed to the machine as GMEM")]

use crate::GlobalBuffer;
use crate::code::Code;
use crate::grid::Grid;
use crate::memory::{Contents, Gmem, fill};
use crate::non_finite::number;
use crate::trap::{Trap, TrapKind};
use pallas_rs_core::{DType, load_scalar, pack, unpack};
use pallas_rs_ir::{Binding, Program};

/// Elements a result is filled by at a time.
const FILL_BYTES: usize = 1 << 14;

/// Arguments of a kernel, one byte per sub-byte element.
pub(crate) struct Arrays<'a> {
    program: &'a Program,
    /// By argument, if known: whether what it holds before a run cannot be seen.
    covered: &'a [bool],
    operands: &'a [GlobalBuffer<'a>],
    results: &'a [GlobalBuffer<'a>],
    /// By argument: its elements where XLA stores them packed, or where the kernel writes to what is
    /// not its own.
    copies: Vec<Option<Vec<u8>>>,
    /// By argument: what one that a run changes held when the call came in, if there may be several.
    saved: Vec<Option<Vec<u8>>>,
    contents: Contents,
}

impl<'a> Arrays<'a> {
    /// Checks operands and results against the program's arguments.
    ///
    /// # Errors
    /// When they are not what the program was made for.
    pub(crate) fn new(
        code: &'a Code,
        grid: &Grid,
        operands: &'a [GlobalBuffer<'a>],
        results: &'a [GlobalBuffer<'a>],
    ) -> Result<Arrays<'a>, Box<Trap>> {
        let (program, written) = (&*code.program, &code.written);
        // Several runs start from the same arrays.
        let repeated = program.options.seeds > 1;
        let covered: &[bool] = if grid.points > 0 { &code.tiling.covered } else { &[] };
        let args = program.args.len();
        let contents = program.options.uninitialized_memory.into();
        let mut arrays = Arrays {
            program,
            covered,
            operands,
            results,
            copies: vec![None; args],
            saved: vec![None; args],
            contents,
        };
        for (i, arg) in program.args.iter().enumerate() {
            let elements: usize = arg.shape.iter().product();
            if arg.binding == Binding::Zeroed {
                arrays.copies[i] = Some(vec![0; elements * arg.dtype.size()]);
                continue;
            }
            let buffer = arrays.buffer(i);
            let bytes = (elements * arg.dtype.packed_bits()).div_ceil(8);
            if buffer.is_none_or(|b| b.len() < bytes || b.dtype() != arg.dtype) {
                let message = format!("the call has no array for argument `{}`", arg.name);
                return Err(TrapKind::Internal { message }.into());
            }
            let borrowed = written[i] && matches!(arg.binding, Binding::Operand(_));
            if arg.dtype.is_sub_byte() || borrowed {
                arrays.copies[i] = Some(vec![0; elements * arg.dtype.size()]);
            }
            let aliased = matches!(arg.binding, Binding::Aliased { .. });
            let counted = arg.semaphores && matches!(arg.binding, Binding::Operand(_));
            if let (true, Some(buffer)) = (counted || aliased && repeated, buffer) {
                let mut saved = vec![0; bytes];
                buffer.read(&mut saved);
                arrays.saved[i] = Some(saved);
            }
        }
        Ok(arrays)
    }

    /// The memory of an argument.
    fn buffer(&self, arg: usize) -> Option<&'a GlobalBuffer<'a>> {
        match self.program.args[arg].binding {
            Binding::Operand(i) => self.operands.get(i),
            Binding::Result(i) | Binding::Aliased { result: i, .. } => self.results.get(i),
            Binding::Zeroed => None,
        }
    }

    /// Makes arguments what they are when a run starts.
    pub(crate) fn begin(&mut self) -> Gmem<'a> {
        let mut args = Vec::with_capacity(self.program.args.len());
        for (i, arg) in self.program.args.iter().enumerate() {
            let Some(buffer) = self.buffer(i) else {
                let elements = self.copies[i].as_mut().expect("made with the arrays");
                elements.fill(0);
                args.push(lent(elements, arg.dtype, &[]));
                continue;
            };
            if let Some(saved) = &self.saved[i] {
                buffer.write(saved);
            } else if let Binding::Aliased { operand, .. } = arg.binding {
                let from = &self.operands[operand];
                if from.ptr() != buffer.ptr() {
                    let mut bytes = vec![0; buffer.len().min(from.len())];
                    from.read(&mut bytes);
                    buffer.write(&bytes);
                }
            }
            let covered = self.covered.get(i).is_some_and(|&covered| covered);
            let unwritten = matches!(arg.binding, Binding::Result(_)) && !covered;
            let Some(elements) = &mut self.copies[i] else {
                if unwritten {
                    fill_buffer(buffer, arg.dtype, self.contents);
                }
                args.push(*buffer);
                continue;
            };
            if unwritten {
                fill(arg.dtype, self.contents, elements);
            } else if arg.dtype.is_sub_byte() {
                let mut packed = vec![0; buffer.len()];
                buffer.read(&mut packed);
                unpack(arg.dtype, &packed, elements);
            } else {
                buffer.read(elements);
            }
            args.push(lent(elements, arg.dtype, buffer.dims()));
        }
        Gmem::new(args)
    }

    /// Packs what the caller wants packed, and gives back semaphores that outlive the call.
    pub(crate) fn end(&self) {
        for (i, _) in self.program.args.iter().enumerate().filter(|(_, arg)| arg.semaphores) {
            if let (Some(elements), Some(buffer)) = (&self.copies[i], self.buffer(i)) {
                // As on the device: the semaphores of an operand are changed where they are.
                buffer.write(elements);
            }
        }
        for (i, arg) in self.program.args.iter().enumerate() {
            if let (Some(elements), false) =
                (&self.copies[i], matches!(arg.binding, Binding::Operand(_) | Binding::Zeroed))
            {
                let buffer = self.buffer(i).expect("checked before");
                let mut packed = vec![0; buffer.len()];
                pack(arg.dtype, elements, &mut packed);
                buffer.write(&packed);
            }
        }
    }

    /// Semaphores of the grid that are not zero: argument, index and value.
    pub(crate) fn unsettled(&self) -> Vec<(u32, u64, u32)> {
        let ours = |arg: &pallas_rs_ir::Arg| arg.semaphores && arg.binding == Binding::Zeroed;
        let args = self.program.args.iter().zip(&self.copies).enumerate();
        args.filter(|(_, (arg, _))| ours(arg))
            .flat_map(|(number, (_, elements))| {
                let values = elements.iter().flat_map(|bytes| bytes.chunks_exact(4)).enumerate();
                values.filter_map(move |(index, bytes)| {
                    let value = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
                    (value != 0).then_some((number as u32, index as u64, value))
                })
            })
            .collect()
    }

    /// Whether a result holds a number that is infinite or NaN.
    pub(crate) fn has_non_finite(&self) -> bool {
        self.program.args.iter().enumerate().any(|(i, arg)| {
            let is_result = !matches!(arg.binding, Binding::Operand(_)) && !arg.scratch;
            let Some(buffer) = self.buffer(i).filter(|_| is_result && !arg.dtype.is_sub_byte())
            else {
                return false;
            };
            let mut bytes = vec![0; buffer.len()];
            buffer.read(&mut bytes);
            let size = arg.dtype.size();
            (0..bytes.len() / size)
                .any(|e| size <= 8 && !number(arg.dtype, load_scalar(size, &bytes, e)).is_finite())
        })
    }

    /// Copies of the results.
    pub(crate) fn results(&self) -> Vec<Vec<u8>> {
        let copy = |buffer: &GlobalBuffer<'_>| {
            let mut bytes = vec![0; buffer.len()];
            buffer.read(&mut bytes);
            bytes
        };
        self.results.iter().map(copy).collect()
    }

    /// Overwrites the results.
    pub(crate) fn set_results(&self, results: &[Vec<u8>]) {
        self.results.iter().zip(results).for_each(|(buffer, bytes)| buffer.write(bytes));
    }
}

/// A copy of an argument, for the machine.
fn lent<'a>(elements: &mut [u8], dtype: DType, dims: &'a [i64]) -> GlobalBuffer<'a> {
    // SAFETY: the elements live and stay where they are until the `Arrays` they belong to is dropped,
    // which is after the run, and nobody else touches them meanwhile.
    unsafe { GlobalBuffer::from_raw(elements.as_mut_ptr(), elements.len(), dtype, dims) }
}

fn fill_buffer(buffer: &GlobalBuffer<'_>, dtype: DType, contents: Contents) {
    let mut pattern = vec![0; FILL_BYTES.min(buffer.len())];
    fill(dtype, contents, &mut pattern);
    buffer.fill(&pattern);
}
