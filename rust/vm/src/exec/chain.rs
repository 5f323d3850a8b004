//! Chains of elementwise ops, strip by strip.

use crate::code::chain::{ChainCode, Source, Step, StepOp, Target};
use crate::frame::Tile;
use crate::machine::{Ctx, Result};
use crate::memory::{Buffer, TileId};
use crate::observer::Observer;
use pallas_rs_core as core;
use smallvec::SmallVec;

/// Elements of a strip: a few of them stay in the first cache.
const STRIP: usize = 1024;
/// Bytes of a strip of the widest elements, and one strip more than steps write: where a scalar is
/// spread for an op that wants a tile.
const STRIP_BYTES: usize = STRIP * 8;

/// Everything a step can reach.
struct Strips<'a> {
    inputs: SmallVec<[core::Operand<'a>; 8]>,
    lent: Vec<Vec<u8>>,
    outputs: Outputs,
    /// The elements at hand.
    start: usize,
    len: usize,
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn chain(&mut self, chain: &ChainCode) -> Result<()> {
        self.worker.patience -= 32 + (chain.steps.len() * chain.len / 8) as i64;
        if self.worker.patience < 0 {
            self.ask_host()?;
        }
        if chain.inputs.iter().all(|&input| self.splat(input).is_some()) {
            self.chain_of_scalars(chain);
            return Ok(());
        }
        let mut outputs = SmallVec::new();
        for &output in &chain.outputs {
            outputs.push(self.new_tile(self.call.code.tile_type(output).bytes));
        }
        let mut strips = std::mem::take(&mut self.worker.strips);
        if strips.len() <= chain.strips {
            strips.resize_with(chain.strips + 1, || vec![0; STRIP_BYTES]);
        }
        let inputs = chain.inputs.iter().map(|&input| self.elements(input)).collect();
        let at = Strips { inputs, lent: strips, outputs, start: 0, len: 0 };
        let (strips, outputs) = at.run_all(chain);
        self.worker.strips = strips;
        for (&result, (id, buffer)) in chain.outputs.iter().zip(outputs) {
            self.worker.pool.put(id, buffer);
            self.set_tile(result, Tile::Dense(id));
        }
        Ok(())
    }

    /// The same for inputs whose elements are all equal: so are the outputs'.
    fn chain_of_scalars(&mut self, chain: &ChainCode) {
        let inputs: SmallVec<[u64; 8]> =
            chain.inputs.iter().map(|&input| self.splat(input).unwrap_or_default()).collect();
        let mut strips: SmallVec<[u64; 16]> = SmallVec::from_elem(0, chain.strips);
        let mut outputs: SmallVec<[u64; 4]> = SmallVec::from_elem(0, chain.outputs.len());
        for step in &chain.steps {
            let [a, b, c] = step.sources.map(|source| match source {
                Source::Input(i) => inputs[i as usize],
                Source::Strip(i) => strips[i as usize],
                Source::Output(i) => outputs[i as usize],
            });
            let dtype = step.dtype;
            let bits = match step.op {
                StepOp::Unary(kind) => core::unary_scalar(kind, dtype, a),
                StepOp::Binary(kind) => core::binary_scalar(kind, dtype, a, b),
                StepOp::Compare(kind) => u64::from(core::compare_scalar(kind, dtype, a, b)),
                StepOp::IntegerPow(n) => core::integer_pow_scalar(dtype, n, a),
                StepOp::Select => {
                    if a == 0 {
                        b
                    } else {
                        c
                    }
                }
                StepOp::Clamp => core::clamp_scalar(dtype, a, b, c),
                StepOp::Convert(to) if to == dtype => a,
                StepOp::Convert(to) => core::convert_scalar(dtype, to, a),
                StepOp::ReducePrecision { exponent_bits, mantissa_bits } => {
                    core::reduce_precision_scalar(dtype, exponent_bits, mantissa_bits, a)
                }
                StepOp::Expand(_) => a,
            };
            match step.target {
                Target::Strip(i) => strips[i as usize] = bits,
                Target::Output(i) => outputs[i as usize] = bits,
            }
        }
        for (&result, bits) in chain.outputs.iter().zip(outputs) {
            self.set_splat(result, bits);
        }
    }
}

type Outputs = SmallVec<[(TileId, Buffer); 4]>;

impl Strips<'_> {
    /// Runs all steps on all strips; returns what was lent.
    fn run_all(mut self, chain: &ChainCode) -> (Vec<Vec<u8>>, Outputs) {
        while self.start < chain.len {
            self.len = STRIP.min(chain.len - self.start);
            chain.steps.iter().for_each(|step| self.run(step));
            self.start += self.len;
        }
        (self.lent, self.outputs)
    }

    /// The strip of a source.
    fn source(&self, source: Source, size: usize) -> core::Operand<'_> {
        let range = self.start * size..(self.start + self.len) * size;
        match source {
            Source::Input(i) => match self.inputs[i as usize] {
                core::Operand::Slice(tile) => core::Operand::Slice(&tile[range]),
                splat @ core::Operand::Splat(_) => splat,
            },
            Source::Strip(i) => core::Operand::Slice(&self.lent[i as usize][..self.len * size]),
            Source::Output(i) => {
                core::Operand::Slice(&self.outputs[i as usize].1.bytes(range.end)[range])
            }
        }
    }

    fn run(&mut self, step: &Step) {
        // What is written is taken out: a step reads no strip that it writes.
        match step.target {
            Target::Strip(i) => {
                let mut strip = std::mem::take(&mut self.lent[i as usize]);
                self.compute(step, &mut strip[..self.len * step.size]);
                self.lent[i as usize] = strip;
            }
            Target::Output(i) => {
                let mut buffer = std::mem::take(&mut self.outputs[i as usize].1);
                let range = self.start * step.size..(self.start + self.len) * step.size;
                self.compute(step, &mut buffer.bytes_mut(range.end)[range]);
                self.outputs[i as usize].1 = buffer;
            }
        }
    }

    fn compute(&mut self, step: &Step, out: &mut [u8]) {
        let (dtype, size) = (step.dtype, step.dtype.size());
        let [a, b, c] = step.sources;
        match step.op {
            StepOp::Unary(kind) => self.with_tile(a, size, |x| core::unary(kind, dtype, x, out)),
            StepOp::Binary(kind) => {
                core::binary(kind, dtype, self.source(a, size), self.source(b, size), out);
            }
            StepOp::Compare(kind) => {
                core::compare(kind, dtype, self.source(a, size), self.source(b, size), out);
            }
            StepOp::IntegerPow(n) => {
                self.with_tile(a, size, |x| core::integer_pow(dtype, n, x, out));
            }
            StepOp::Select => {
                let (on_false, on_true) = (self.source(b, size), self.source(c, size));
                core::select(self.source(a, 1), size, on_false, on_true, out);
            }
            StepOp::Clamp => {
                let (lo, x, hi) =
                    (self.source(a, size), self.source(b, size), self.source(c, size));
                core::clamp(dtype, lo, x, hi, out);
            }
            StepOp::Convert(to) if to == dtype => {
                self.with_tile(a, size, |x| out.copy_from_slice(x))
            }
            StepOp::Convert(to) => self.with_tile(a, size, |x| core::convert(dtype, to, x, out)),
            StepOp::ReducePrecision { exponent_bits, mantissa_bits } => {
                self.with_tile(a, size, |x| {
                    core::reduce_precision(dtype, exponent_bits, mantissa_bits, x, out);
                })
            }
            StepOp::Expand(expand) => self.expand(a, size, expand.run, expand.period, out),
        }
    }

    /// A strip for an op that wants a tile: a scalar is spread in the last strip.
    fn with_tile(&mut self, source: Source, size: usize, f: impl FnOnce(&[u8])) {
        match self.source(source, size) {
            core::Operand::Slice(x) => f(x),
            core::Operand::Splat(bits) => {
                let spread = self.lent.last_mut().expect("one strip more than steps write");
                let spread = &mut spread[..self.len * size];
                core::fill(size, bits, spread);
                f(spread);
            }
        }
    }

    /// Element `i` of the result is element `i / run % period` of an input.
    fn expand(&self, source: Source, size: usize, run: usize, period: usize, out: &mut [u8]) {
        let Source::Input(i) = source else { unreachable!("a broadcast starts a chain") };
        let tile = match self.inputs[i as usize] {
            core::Operand::Slice(tile) => tile,
            core::Operand::Splat(bits) => return core::fill(size, bits, out),
        };
        let (mut at, end) = (self.start, self.start + self.len);
        while at < end {
            let element = at / run % period;
            // A repeated element, or elements that follow each other up to the end of the operand.
            let stop = if run > 1 { (at / run + 1) * run } else { at + period - element }.min(end);
            let part = &mut out[(at - self.start) * size..(stop - self.start) * size];
            if run > 1 {
                core::fill(size, core::load_scalar(size, tile, element), part);
            } else {
                part.copy_from_slice(&tile[element * size..(element + stop - at) * size]);
            }
            at = stop;
        }
    }
}
