//! Chains of elementwise ops, strip by strip.

use crate::code::Record;
use crate::code::chain::{ChainCode, Source, Step, StepOp, Target};
use crate::frame::Tile;
use crate::machine::{Ctx, Result};
use crate::memory::{Base, Buffer, TileId};
use crate::observer::{AccessKind, Observer, Proxy};
use crate::trap::Access;
use pallas_rs_core as core;
use smallvec::SmallVec;

/// Elements of a strip: a few of them stay in the first cache.
const STRIP: usize = 1024;
/// Bytes of a strip of the widest elements, and one strip more than steps write: where a scalar is
/// spread for an op that wants a tile.
const STRIP_BYTES: usize = STRIP * 8;

/// Everything a step can reach.
struct Strips<'a> {
    chain: &'a ChainCode,
    inputs: Inputs<'a>,
    lent: &'a mut [Vec<u8>],
    outputs: SmallVec<[&'a mut [u8]; 4]>,
    /// The elements at hand.
    start: usize,
    len: usize,
}

type Inputs<'a> = SmallVec<[core::Operand<'a>; 8]>;

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn chain(&mut self, chain: &ChainCode) -> Result<()> {
        self.spend(chain)?;
        if chain.inputs.iter().all(|&input| self.splat(input).is_some()) {
            self.chain_of_scalars(chain);
            return Ok(());
        }
        let mut made: SmallVec<[(TileId, Buffer); 4]> = SmallVec::new();
        let sizes: SmallVec<[usize; 4]> =
            chain.outputs.iter().map(|&o| self.call.code.tile_type(o).bytes).collect();
        for &bytes in &sizes {
            made.push(self.new_tile(bytes));
        }
        let mut strips = self.take_strips(chain);
        let outputs = made.iter_mut().zip(&sizes).map(|((_, b), &n)| b.bytes_mut(n)).collect();
        Strips::run_all(chain, self.inputs(chain), &mut strips, outputs);
        self.worker.strips = strips;
        for (&result, (id, buffer)) in chain.outputs.iter().zip(made) {
            self.worker.pool.put(id, buffer);
            self.set_tile(result, Tile::Dense(id));
        }
        Ok(())
    }

    /// A chain whose only output is stored: straight into memory if it is dense there and no input
    /// is still in the same memory.
    pub(super) fn chain_store(&mut self, chain: &ChainCode, store: &Record) -> Result<()> {
        let target = store.operands[0];
        let view = self.view(target);
        let lands = view.dense_len().is_some()
            && view.escape.is_none()
            && chain.inputs.iter().any(|&input| self.splat(input).is_none())
            && !chain.inputs.iter().any(|&input| match self.tile_or_empty(input) {
                Tile::Lent { base, .. } => base == view.base,
                Tile::Splat(_) | Tile::Dense(_) | Tile::Empty => false,
            });
        if !lands {
            self.chain(chain)?;
            return self.store(target, store.operands[1]).map(|_| ());
        }
        self.spend(chain)?;
        self.check_inside(self.view(target), Access::Write)?;
        let (dtype, bytes) = (target.dtype(), self.call.code.tile_type(chain.outputs[0]).bytes);
        if O::WATCHES {
            let view = self.view(target).clone();
            self.observe(&view, dtype.size(), AccessKind::Write, Proxy::Generic)?;
        }
        let (base, offset) = (self.view(target).base, self.view(target).offset);
        let mut strips = self.take_strips(chain);
        let done = match (base, self.storage(base)) {
            (Base::Global(arg), _) => {
                let inputs = self.inputs(chain);
                let slices = inputs.iter().filter_map(|input| match input {
                    core::Operand::Slice(bytes) => Some(*bytes),
                    core::Operand::Splat(_) => None,
                });
                let out = self.call.gmem.lend_mut(arg, dtype.size(), offset, bytes, slices);
                let found = out.is_some();
                if let Some(out) = out {
                    Strips::run_all(chain, inputs, &mut strips, SmallVec::from_iter([out]));
                }
                found
            }
            (_, Some(tile)) => {
                let mut buffer = self.worker.pool.take(tile);
                let start = offset as usize * dtype.size();
                let out = &mut buffer.bytes_mut(start + bytes)[start..];
                let outputs = SmallVec::from_iter([out]);
                Strips::run_all(chain, self.inputs(chain), &mut strips, outputs);
                self.worker.pool.put(tile, buffer);
                true
            }
            (_, None) => unreachable!("a ref does not outlive its scope"),
        };
        self.worker.strips = strips;
        if done {
            return Ok(());
        }
        // Two arguments of the kernel share memory.
        self.chain(chain)?;
        self.store(target, store.operands[1]).map(|_| ())
    }

    fn spend(&mut self, chain: &ChainCode) -> Result<()> {
        self.worker.patience -= 32 + (chain.steps.len() * chain.len / 8) as i64;
        if self.worker.patience < 0 {
            self.ask_host()?;
        }
        Ok(())
    }

    fn inputs(&self, chain: &ChainCode) -> Inputs<'_> {
        chain.inputs.iter().map(|&input| self.elements(input)).collect()
    }

    fn take_strips(&mut self, chain: &ChainCode) -> Vec<Vec<u8>> {
        let mut strips = std::mem::take(&mut self.worker.strips);
        if strips.len() <= chain.strips {
            strips.resize_with(chain.strips + 1, || vec![0; STRIP_BYTES]);
        }
        strips
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
                Source::Row(i) => inputs[chain.rows[i as usize].input as usize],
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

impl<'a> Strips<'a> {
    /// Runs all steps on all strips.
    fn run_all(
        chain: &'a ChainCode,
        inputs: Inputs<'a>,
        lent: &'a mut [Vec<u8>],
        outputs: SmallVec<[&'a mut [u8]; 4]>,
    ) {
        let mut strips = Strips { chain, inputs, lent, outputs, start: 0, len: 0 };
        while strips.start < chain.len {
            strips.len = STRIP.min(chain.len - strips.start);
            for rows in &chain.rows {
                let run = rows.expand.run;
                strips.len = strips.len.min(run - strips.start % run);
            }
            chain.steps.iter().for_each(|step| strips.run(step));
            strips.start += strips.len;
        }
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
            Source::Output(i) => core::Operand::Slice(&self.outputs[i as usize][range]),
            Source::Row(i) => {
                let rows = self.chain.rows[i as usize];
                match self.inputs[rows.input as usize] {
                    core::Operand::Slice(tile) => {
                        let element = self.start / rows.expand.run % rows.expand.period;
                        core::Operand::Splat(core::load_scalar(size, tile, element))
                    }
                    splat @ core::Operand::Splat(_) => splat,
                }
            }
        }
    }

    fn run(&mut self, step: &Step) {
        // What is written is taken out: a step reads no strip that it writes, unless in place.
        match step.target {
            Target::Strip(i) => {
                let mut strip = std::mem::take(&mut self.lent[i as usize]);
                let out = &mut strip[..self.len * step.size];
                match step.in_place {
                    Some(operand) => self.compute_in_place(step, operand, out),
                    None => self.compute(step, out),
                }
                self.lent[i as usize] = strip;
            }
            Target::Output(i) => {
                let output = std::mem::take(&mut self.outputs[i as usize]);
                let out = &mut output[self.start * step.size..(self.start + self.len) * step.size];
                match step.in_place {
                    Some(operand) => self.compute_in_place(step, operand, out),
                    None => self.compute(step, out),
                }
                self.outputs[i as usize] = output;
            }
        }
    }

    /// A step that writes over its operand number `operand`.
    fn compute_in_place(&mut self, step: &Step, operand: usize, x: &mut [u8]) {
        let (dtype, size) = (step.dtype, step.dtype.size());
        match (step.op, operand) {
            (StepOp::Unary(kind), _) => core::unary_in_place(kind, dtype, x),
            (StepOp::Binary(kind), 0) => {
                core::binary_in_place(kind, dtype, x, self.source(step.sources[1], size));
            }
            (StepOp::Binary(kind), _) => {
                core::binary_in_place_rhs(kind, dtype, self.source(step.sources[0], size), x);
            }
            _ => unreachable!("only these are done in place"),
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
