//! Runs programs on plain vectors.
#![allow(unsafe_code, reason = "the machine takes arrays as XLA hands them over")]
#![allow(dead_code, reason = "every test file uses its part")]

use pallas_rs_core::DType;
use pallas_rs_ir::{Binding, GridDim, Program};
use pallas_rs_vm::report::Report;
use pallas_rs_vm::{Executable, GlobalBuffer, Host, NoHost};

/// An operand: element type and bytes.
pub(crate) struct Array(pub(crate) DType, pub(crate) Vec<u8>);

pub(crate) fn f32s(values: &[f32]) -> Array {
    Array(DType::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect())
}

pub(crate) fn i32s(values: &[i32]) -> Array {
    Array(DType::I32, values.iter().flat_map(|x| x.to_le_bytes()).collect())
}

pub(crate) fn bytes(dtype: DType, values: &[u8]) -> Array {
    Array(dtype, values.to_vec())
}

/// What a run left behind.
pub(crate) struct Ran {
    pub(crate) report: Report,
    pub(crate) results: Vec<Vec<u8>>,
}

impl Ran {
    /// The results; panics if the run failed.
    pub(crate) fn ok(self) -> Ran {
        assert_eq!(self.report.failure(), None);
        self
    }

    pub(crate) fn f32s(&self, result: usize) -> Vec<f32> {
        let elements = self.results[result].chunks_exact(4);
        elements.map(|e| f32::from_le_bytes(e.try_into().unwrap())).collect()
    }

    pub(crate) fn i32s(&self, result: usize) -> Vec<i32> {
        let elements = self.results[result].chunks_exact(4);
        elements.map(|e| i32::from_le_bytes(e.try_into().unwrap())).collect()
    }

    /// The code of the failure.
    pub(crate) fn code(&self) -> &'static str {
        self.report.findings.first().expect("the run should have failed").code
    }

    pub(crate) fn failure(&self) -> String {
        self.report.failure().expect("the run should have failed")
    }
}

pub(crate) fn run(program: Program, operands: &[Array]) -> Ran {
    run_with(program, operands, &NoHost)
}

/// Runs a program; `operands` are those of the call, results start with rubbish.
pub(crate) fn run_with(mut program: Program, operands: &[Array], host: &dyn Host) -> Ran {
    // Small shapes show the same as those of real kernels.
    program.options.check_limits = false;
    let executable = Executable::new(program.clone());
    call(&executable, &program, operands, host)
}

/// Runs a compiled program.
pub(crate) fn call(
    executable: &Executable,
    program: &Program,
    operands: &[Array],
    host: &dyn Host,
) -> Ran {
    let bounds = program.grid.iter().filter(|dim| matches!(dim, GridDim::Operand(_))).count();
    let aliased = |operand| {
        program.args.iter().find_map(|arg| match arg.binding {
            Binding::Aliased { operand: o, result } if o == operand => Some(result),
            _ => None,
        })
    };
    let mut results: Vec<(DType, Vec<u8>)> = Vec::new();
    for arg in &program.args {
        if let Binding::Result(i) | Binding::Aliased { result: i, .. } = arg.binding {
            let bits = arg.shape.iter().product::<usize>() * arg.dtype.packed_bits();
            results.resize(results.len().max(i + 1), (DType::U8, Vec::new()));
            results[i] = (arg.dtype, vec![0xcd; bits.div_ceil(8)]);
        }
    }
    let mut inputs: Vec<Vec<u8>> = operands.iter().map(|Array(_, bytes)| bytes.clone()).collect();
    for (i, input) in inputs.iter().enumerate() {
        if let Some(result) = aliased(i) {
            results[result].1.clone_from(input);
        }
    }
    assert!(operands.len() >= bounds, "every run-time bound is an operand");
    let in_buffers: Vec<GlobalBuffer<'_>> = (inputs.iter_mut().zip(operands).enumerate())
        .map(|(i, (input, Array(dtype, _)))| {
            let memory = match aliased(i) {
                Some(result) => &mut results[result].1,
                None => input,
            };
            // SAFETY: the vectors outlive the run and nothing else touches them meanwhile.
            unsafe { GlobalBuffer::from_raw(memory.as_mut_ptr(), memory.len(), *dtype, &[]) }
        })
        .collect();
    let out_buffers: Vec<GlobalBuffer<'_>> = (results.iter_mut())
        // SAFETY: as above.
        .map(|(dtype, r)| unsafe { GlobalBuffer::from_raw(r.as_mut_ptr(), r.len(), *dtype, &[]) })
        .collect();
    let report = executable.report(&in_buffers, &out_buffers, host);
    Ran { report, results: results.into_iter().map(|(_, bytes)| bytes).collect() }
}
