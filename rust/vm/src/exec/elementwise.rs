//! Arithmetic, element by element.

use super::values::Element;
use crate::code::Operand;
use crate::frame::Tile;
use crate::machine::{Ctx, Flow, Result};
use crate::observer::Observer;
use crate::trap::TrapKind;
use pallas_rs_core::{self as core, BinaryKind, CompareKind, DType, UnaryKind};
use smallvec::SmallVec;

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn unary(&mut self, kind: UnaryKind, x: Operand, result: Operand) -> Result {
        let dtype = x.dtype();
        if let Some(bits) = self.splat(x) {
            self.set_splat(result, core::unary_scalar(kind, dtype, bits));
        } else if let (false, Some(mut own)) =
            (kind == UnaryKind::IsFinite, self.reuse_for(x, result))
        {
            let bytes = tile_bytes(x);
            core::unary_in_place(kind, dtype, own.1.bytes_mut(bytes));
            self.give(result, own);
        } else {
            self.produce(result, |c, out| core::unary(kind, dtype, c.dense(x), out));
        }
        Ok(Flow::Next)
    }

    /// As [`Ctx::reuse`], where the result is as large as the operand.
    fn reuse_for(
        &mut self,
        operand: Operand,
        result: Operand,
    ) -> Option<(crate::memory::TileId, crate::memory::Buffer)> {
        let same = operand.dtype().size() == result.dtype().size();
        if same { self.reuse(operand) } else { None }
    }

    pub(super) fn binary(
        &mut self,
        kind: BinaryKind,
        a: Operand,
        b: Operand,
        result: Operand,
    ) -> Result {
        let dtype = a.dtype();
        if matches!(kind, BinaryKind::Div | BinaryKind::Rem) && dtype.is_int() {
            self.check_divisor(kind, dtype, b)?;
        }
        if let (Some(a), Some(b)) = (self.splat(a), self.splat(b)) {
            self.set_splat(result, core::binary_scalar(kind, dtype, a, b));
            return Ok(Flow::Next);
        }
        // A tile that is both operands cannot be written while it is read.
        let same = matches!((a, b), (Operand::Tile { register: r, .. }, Operand::Tile { register: s, .. }) if r == s);
        if !same && let Some(mut own) = self.reuse(a) {
            let bytes = tile_bytes(a);
            core::binary_in_place(kind, dtype, own.1.bytes_mut(bytes), self.elements(b));
            self.give(result, own);
        } else if !same && let Some(mut own) = self.reuse(b) {
            let bytes = tile_bytes(b);
            core::binary_in_place_rhs(kind, dtype, self.elements(a), own.1.bytes_mut(bytes));
            self.give(result, own);
        } else {
            self.produce(result, |c, out| {
                core::binary(kind, dtype, c.elements(a), c.elements(b), out)
            });
        }
        Ok(Flow::Next)
    }

    fn check_divisor(&self, kind: BinaryKind, dtype: DType, divisor: Operand) -> Result<()> {
        let zero = match self.elements(divisor) {
            core::Operand::Splat(bits) => bits == 0,
            core::Operand::Slice(x) => {
                x.chunks_exact(dtype.size()).any(|e| e.iter().all(|b| *b == 0))
            }
        };
        if zero {
            return Err(TrapKind::DivisionByZero { remainder: kind == BinaryKind::Rem }.into());
        }
        Ok(())
    }

    pub(super) fn compare(
        &mut self,
        kind: CompareKind,
        a: Operand,
        b: Operand,
        result: Operand,
    ) -> Result {
        let dtype = a.dtype();
        match (self.splat(a), self.splat(b)) {
            (Some(a), Some(b)) => {
                self.set_splat(result, u64::from(core::compare_scalar(kind, dtype, a, b)));
            }
            _ => self.produce(result, |c, out| {
                core::compare(kind, dtype, c.elements(a), c.elements(b), out)
            }),
        }
        Ok(Flow::Next)
    }

    pub(super) fn integer_pow(&mut self, exponent: i32, x: Operand, result: Operand) -> Result {
        let dtype = x.dtype();
        match self.splat(x) {
            Some(bits) => self.set_splat(result, core::integer_pow_scalar(dtype, exponent, bits)),
            None => {
                self.produce(result, |c, out| core::integer_pow(dtype, exponent, c.dense(x), out))
            }
        }
        Ok(Flow::Next)
    }

    pub(super) fn select_n(
        &mut self,
        which: Operand,
        cases: &[Operand],
        result: Operand,
    ) -> Result {
        let which_dtype = which.dtype();
        if let Some(bits) = self.splat(which) {
            let index = super::access::as_integer(which_dtype, bits);
            let case = cases[index.clamp(0, cases.len() as i64 - 1) as usize];
            self.forward_kept(case, result);
            return Ok(Flow::Next);
        }
        let size = result.dtype().size();
        if size > 8 {
            cases.iter().for_each(|&case| self.densify(case));
        }
        self.produce(result, |c, out| {
            let cases: SmallVec<[_; 4]> = cases.iter().map(|&case| c.elements(case)).collect();
            let which = c.elements(which);
            match cases[..] {
                [on_false, on_true] if which_dtype == DType::Bool => {
                    core::select(which, size, on_false, on_true, out);
                }
                _ => core::select_n(which_dtype, which, size, &cases, out),
            }
        });
        Ok(Flow::Next)
    }

    /// As [`Ctx::forward`] for one of several operands: the op drops its operands in the end.
    fn forward_kept(&mut self, from: Operand, result: Operand) {
        let from = match from {
            Operand::Tile { register, ty, bytes, dtype, .. } => {
                Operand::Tile { register, ty, bytes, dtype, last: false }
            }
            Operand::Scalar { .. } | Operand::Ref { .. } => from,
        };
        self.forward(from, result);
    }

    pub(super) fn clamp(
        &mut self,
        lo: Operand,
        x: Operand,
        hi: Operand,
        result: Operand,
    ) -> Result {
        let dtype = x.dtype();
        if let (Some(lo), Some(x), Some(hi)) = (self.splat(lo), self.splat(x), self.splat(hi)) {
            self.set_splat(result, core::clamp_scalar(dtype, lo, x, hi));
        } else {
            self.produce(result, |c, out| {
                core::clamp(dtype, c.elements(lo), c.elements(x), c.elements(hi), out);
            });
        }
        Ok(Flow::Next)
    }

    pub(super) fn convert(&mut self, x: Operand, result: Operand) -> Result {
        let (from, to) = (x.dtype(), result.dtype());
        if from == to {
            self.forward(x, result);
        } else if let Some(bits) = self.splat(x) {
            self.set_splat(result, core::convert_scalar(from, to, bits));
        } else {
            self.produce(result, |c, out| core::convert(from, to, c.dense(x), out));
        }
        Ok(Flow::Next)
    }

    pub(super) fn bitcast(&mut self, x: Operand, result: Operand) -> Result {
        let (from, to) = (x.dtype(), result.dtype());
        if !from.is_sub_byte() || from == to {
            self.forward(x, result);
            return Ok(Flow::Next);
        }
        // A sub-byte element's byte depends on its sign: go by way of integers of its width.
        let (from, to) = (bits_of(from), bits_of(to));
        match self.splat(x) {
            Some(bits) => self.set_splat(result, core::convert_scalar(from, to, bits)),
            None => self.produce(result, |c, out| {
                if from == to {
                    out.copy_from_slice(c.dense(x));
                } else {
                    core::convert(from, to, c.dense(x), out);
                }
            }),
        }
        Ok(Flow::Next)
    }

    pub(super) fn reduce_precision(
        &mut self,
        exponent_bits: u32,
        mantissa_bits: u32,
        x: Operand,
        result: Operand,
    ) -> Result {
        let dtype = x.dtype();
        match self.splat(x) {
            Some(bits) => {
                let bits = core::reduce_precision_scalar(dtype, exponent_bits, mantissa_bits, bits);
                self.set_splat(result, bits);
            }
            None => self.produce(result, |c, out| {
                core::reduce_precision(dtype, exponent_bits, mantissa_bits, c.dense(x), out);
            }),
        }
        Ok(Flow::Next)
    }

    /// Writes a value into `out`, element by element if it is a splat.
    pub(super) fn write_out(&self, operand: Operand, out: &mut [u8]) {
        match self.elements(operand) {
            core::Operand::Slice(bytes) => out.copy_from_slice(bytes),
            core::Operand::Splat(bits) => core::fill(operand.dtype().size(), bits, out),
        }
    }

    /// A value as dense bytes in a buffer of its own or in `element`, lent to `f`.
    pub(super) fn with_dense<R>(
        &mut self,
        operand: Operand,
        f: impl FnOnce(&mut Self, &[u8]) -> R,
    ) -> R {
        match operand {
            Operand::Scalar { dtype, .. } => {
                let element: Element = {
                    let mut bytes = [0; 16];
                    bytes[..8].copy_from_slice(&self.scalar(operand).to_le_bytes());
                    bytes
                };
                f(self, &element[..dtype.size()])
            }
            Operand::Tile { bytes, .. } => {
                self.tile_bytes(operand);
                let bytes = bytes as usize;
                let Tile::Dense(id) = self.tile(operand) else { unreachable!("made dense before") };
                let buffer = self.worker.pool.take(id);
                let result = f(self, buffer.bytes(bytes));
                self.worker.pool.put(id, buffer);
                result
            }
            Operand::Ref { .. } => unreachable!("the verifier saw a value"),
        }
    }
}

/// Bytes of a tile operand.
#[inline]
fn tile_bytes(operand: Operand) -> usize {
    match operand {
        Operand::Tile { bytes, .. } => bytes as usize,
        Operand::Scalar { .. } | Operand::Ref { .. } => unreachable!("the verifier saw a tile"),
    }
}

/// The integer type whose bytes hold the same bits.
fn bits_of(dtype: DType) -> DType {
    if dtype == DType::F4E2M1FN { DType::U4 } else { dtype }
}
