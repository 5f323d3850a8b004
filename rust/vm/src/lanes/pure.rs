//! Ops that depend on their operands and on which thread it is, alone.

use super::Mask;
use pallas_rs_core::{self as core, Class, DType, Operand};
use pallas_rs_ir::LaneOp;
use pallas_rs_ir::lane::LaneType;
use std::borrow::Cow;

/// Where a machine thread is in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// Index of its first CUDA thread.
    pub(super) first: u32,
    /// CUDA threads of the block.
    pub(super) size: u32,
    /// Its CUDA threads.
    pub(super) lanes: usize,
}

/// An operand.
#[derive(Clone, Copy)]
pub(super) struct In<'a> {
    pub(super) data: Operand<'a>,
    pub(super) ty: LaneType,
}

impl<'a> In<'a> {
    /// The elements of all lanes, one after another.
    pub(super) fn dense(self, lanes: usize) -> Cow<'a, [u8]> {
        match self.data {
            Operand::Slice(bytes) => Cow::Borrowed(bytes),
            Operand::Splat(bits) => {
                let size = self.ty.dtype.size();
                let mut out = vec![0; size * self.ty.len as usize * lanes];
                core::fill(size, bits, &mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Element `index` of the elements of all lanes, as a register's bits.
    pub(super) fn element(self, index: usize) -> u64 {
        match self.data {
            Operand::Slice(bytes) => core::load_scalar(self.ty.dtype.size(), bytes, index),
            Operand::Splat(bits) => bits,
        }
    }
}

/// Computes an op into `out`. Whether it could: an address may be out of range in an active lane.
pub(super) fn eval(
    op: &LaneOp,
    ins: &[In<'_>],
    ty: LaneType,
    at: &Position,
    active: Mask,
    out: &mut [u8],
) -> bool {
    let (lanes, dtype) = (at.lanes, ty.dtype);
    let operand = |i: usize| ins[i].ty.dtype;
    match op {
        LaneOp::Constant { bits } => core::fill(dtype.size(), *bits, out),
        LaneOp::ConstantVector { bits } => {
            each(dtype, out, |i| bits[i % bits.len()]);
        }
        LaneOp::ThreadIndex { axis } => {
            let first = u64::from(at.first);
            each(dtype, out, |lane| if *axis == 0 { first + lane as u64 } else { 0 });
        }
        LaneOp::BlockSize { axis } => {
            core::fill(8, if *axis == 0 { u64::from(at.size) } else { 1 }, out);
        }
        LaneOp::LaneIndex {} => each(dtype, out, |lane| (lane % super::WARP) as u64),
        LaneOp::Unary { kind } => core::unary(*kind, operand(0), &ins[0].dense(lanes), out),
        LaneOp::Binary { kind } => core::binary(*kind, dtype, ins[0].data, ins[1].data, out),
        LaneOp::Extremum { max } => extremum(*max, ins, lanes, dtype, out),
        LaneOp::MultiplyHigh {} => {
            let bits = dtype.packed_bits();
            each(dtype, out, |i| {
                let [a, b] = [0, 1].map(|k| wide(operand(0), ins[k].element(i)));
                ((a * b) >> bits) as u64 & low_bits(bits)
            });
        }
        LaneOp::FusedMultiplyAdd {} => fused(ins, lanes, dtype, out),
        LaneOp::Compare { kind } => core::compare(*kind, operand(0), ins[0].data, ins[1].data, out),
        LaneOp::Select {} => {
            let len = ty.len as usize;
            let which = match ins[0].data {
                Operand::Slice(which) if ins[0].ty.len == 1 && len > 1 => {
                    Cow::Owned(which.iter().flat_map(|&w| std::iter::repeat_n(w, len)).collect())
                }
                Operand::Slice(which) => Cow::Borrowed(which),
                Operand::Splat(bits) => {
                    core::select(Operand::Splat(bits), dtype.size(), ins[2].data, ins[1].data, out);
                    return true;
                }
            };
            let which = Operand::Slice(&which);
            core::select(which, dtype.size(), ins[2].data, ins[1].data, out);
        }
        LaneOp::Convert {} => core::convert(operand(0), dtype, &ins[0].dense(lanes), out),
        LaneOp::RoundUpToScale {} => {
            each(dtype, out, |i| round_up_to_scale(f32::from_bits(ins[0].element(i) as u32)).into())
        }
        LaneOp::Bitcast {} => bitcast(&ins[0].dense(lanes), ins[0].ty, out, ty),
        LaneOp::BytePermute {} => each(dtype, out, |i| {
            let [a, b, selector] = [0, 1, 2].map(|k| ins[k].element(i));
            byte_permute(a | b << 32, selector)
        }),
        LaneOp::Lop3 { table } => each(dtype, out, |i| {
            let [a, b, c] = [0, 1, 2].map(|k| ins[k].element(i) as u32);
            u64::from(lop3(*table, a, b, c))
        }),
        LaneOp::Elements { pick } => elements(pick, ins, ty, out),
        LaneOp::ElementAt {} => {
            let len = u64::from(ins[0].ty.len);
            each(dtype, out, |lane| {
                let index = ins[1].element(lane).min(len - 1);
                ins[0].element(lane * len as usize + index as usize)
            });
        }
        LaneOp::WithElement {} => {
            out.copy_from_slice(&ins[0].dense(lanes));
            let len = ty.len as usize;
            for lane in 0..lanes {
                let index = ins[2].element(lane).min(len as u64 - 1) as usize;
                core::store_scalar(dtype.size(), ins[1].element(lane), out, lane * len + index);
            }
        }
        LaneOp::ViewPointer { view } => core::fill(8, pointer(*view), out),
        LaneOp::Address { sizes, strides, bits } => {
            return address(sizes, strides, *bits, ins, active, out);
        }
        LaneOp::BlockIndex { .. }
        | LaneOp::GridSize { .. }
        | LaneOp::Exchange { .. }
        | LaneOp::Vote { .. }
        | LaneOp::WarpReduce { .. }
        | LaneOp::Elect {}
        | LaneOp::LoadMatrix { .. }
        | LaneOp::StoreMatrix { .. }
        | LaneOp::Load { .. }
        | LaneOp::Store { .. }
        | LaneOp::Atomic { .. }
        | LaneOp::Barrier { .. }
        | LaneOp::Fence { .. }
        | LaneOp::Copy { .. }
        | LaneOp::WaitCopies { .. }
        | LaneOp::If {}
        | LaneOp::For {}
        | LaneOp::While {} => unreachable!("not a pure op"),
    }
    true
}

/// Bytes between the pointers to two views: an address tells its view.
const VIEW_SPACE: u32 = 40;

/// A pointer to the first byte of a view.
pub(super) fn pointer(view: usize) -> u64 {
    (view as u64 + 1) << VIEW_SPACE
}

/// The view and the byte of a pointer; the byte is negative where it lies before the view.
pub(super) fn resolve(pointer: u64) -> (usize, i64) {
    let half = 1 << (VIEW_SPACE - 1);
    let view = (pointer.wrapping_add(half) >> VIEW_SPACE) as usize;
    (view.wrapping_sub(1), pointer.wrapping_sub((view as u64) << VIEW_SPACE) as i64)
}

/// The first lane of an address that is out of range: with it, which dimension, and the index.
pub(super) fn escape(sizes: &[i64], ins: &[In<'_>], active: Mask) -> Option<(usize, Vec<i64>)> {
    super::lanes(active).find_map(|lane| {
        let index: Vec<i64> = ins[1..].iter().map(|x| x.element(lane) as i64).collect();
        let inside = index.iter().zip(sizes).all(|(i, n)| (0..*n).contains(i));
        (!inside).then_some((lane, index))
    })
}

fn address(
    sizes: &[i64],
    strides: &[i64],
    bits: u32,
    ins: &[In<'_>],
    active: Mask,
    out: &mut [u8],
) -> bool {
    if escape(sizes, ins, active).is_some() {
        return false;
    }
    each(DType::I64, out, |lane| {
        let indices = ins[1..].iter().zip(strides);
        let offset = indices.fold(0i64, |sum, (x, stride)| {
            sum.wrapping_add((x.element(lane) as i64).wrapping_mul(*stride))
        });
        let bytes = offset.wrapping_mul(i64::from(bits)).div_euclid(8);
        ins[0].element(lane).wrapping_add(bytes as u64)
    });
    true
}

/// Sets every element to a register's bits.
pub(super) fn each(dtype: DType, out: &mut [u8], value: impl Fn(usize) -> u64) {
    fn fill<const SIZE: usize>(out: &mut [u8], value: impl Fn(usize) -> u64) {
        for (i, element) in out.as_chunks_mut::<SIZE>().0.iter_mut().enumerate() {
            element.copy_from_slice(&value(i).to_le_bytes()[..SIZE]);
        }
    }
    match dtype.size() {
        1 => fill::<1>(out, value),
        2 => fill::<2>(out, value),
        4 => fill::<4>(out, value),
        _ => fill::<8>(out, value),
    }
}

fn low_bits(bits: usize) -> u64 {
    u64::MAX >> (64 - bits)
}

/// An integer register's number.
fn wide(dtype: DType, bits: u64) -> i128 {
    match dtype.class() {
        Class::Signed => i128::from(crate::exec::access::as_integer(dtype, bits)),
        _ => i128::from(bits),
    }
}

fn extremum(max: bool, ins: &[In<'_>], lanes: usize, dtype: DType, out: &mut [u8]) {
    let kind = if max { core::BinaryKind::Max } else { core::BinaryKind::Min };
    core::binary(kind, dtype, ins[0].data, ins[1].data, out);
    let size = dtype.size();
    let [a, b] = [ins[0].dense(lanes), ins[1].dense(lanes)];
    let mut numbers = vec![0; a.len() / size];
    for (x, other) in [(&a, &b), (&b, &a)] {
        let operand = Operand::Slice(x);
        core::compare(core::CompareKind::Eq, dtype, operand, operand, &mut numbers);
        let pairs = out.chunks_exact_mut(size).zip(other.chunks_exact(size));
        for ((out, other), number) in pairs.zip(&numbers) {
            if *number == 0 {
                out.copy_from_slice(other);
            }
        }
    }
}

fn fused(ins: &[In<'_>], lanes: usize, dtype: DType, out: &mut [u8]) {
    if dtype == DType::F64 {
        return each(dtype, out, |i| {
            let [a, b, c] = [0, 1, 2].map(|k| f64::from_bits(ins[k].element(i)));
            a.mul_add(b, c).to_bits()
        });
    }
    if dtype == DType::F32 {
        return each(dtype, out, |i| {
            let [a, b, c] = [0, 1, 2].map(|k| f32::from_bits(ins[k].element(i) as u32));
            a.mul_add(b, c).to_bits().into()
        });
    }
    // A product of two narrow floats is exact in double precision, and so nearly is the sum.
    let [a, b, c] = [0, 1, 2].map(|k| {
        let x = ins[k].dense(lanes);
        let mut wide = vec![0; x.len() / dtype.size() * 8];
        core::convert(dtype, DType::F64, &x, &mut wide);
        wide
    });
    let mut sums = vec![0; a.len()];
    each(DType::F64, &mut sums, |i| {
        let [a, b, c] = [&a, &b, &c].map(|x| f64::from_bits(core::load_scalar(8, x, i)));
        a.mul_add(b, c).to_bits()
    });
    core::convert(DType::F64, dtype, &sums, out);
}

/// The e8m0 scale at or above a number: `2^(bits - 127)`.
fn round_up_to_scale(x: f32) -> u8 {
    if x.is_nan() {
        return 255;
    }
    let bits = x.abs().to_bits();
    let exponent = (bits >> 23) + u32::from(bits & 0x7f_ffff != 0);
    exponent.min(254) as u8
}

/// `prmt.b32` in its plain mode: four bits per byte, the highest one replicates the byte's sign.
fn byte_permute(bytes: u64, selector: u64) -> u64 {
    (0..4).fold(0, |word, i| {
        let pick = selector >> (4 * i) & 15;
        let byte = bytes >> (8 * (pick & 7)) & 255;
        let byte = match (pick & 8, byte & 128) {
            (0, _) => byte,
            (_, 0) => 0,
            _ => 255,
        };
        word | byte << (8 * i)
    })
}

fn lop3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..8).filter(|i| table >> i & 1 == 1).fold(0, |word, i| {
        let [a, b, c] = [(a, 4), (b, 2), (c, 1)].map(|(x, bit)| if i & bit == 0 { !x } else { x });
        word | a & b & c
    })
}

fn elements(pick: &[u32], ins: &[In<'_>], ty: LaneType, out: &mut [u8]) {
    match ty.dtype.size() {
        1 => elements_of::<1>(pick, ins, out),
        2 => elements_of::<2>(pick, ins, out),
        4 => elements_of::<4>(pick, ins, out),
        _ => elements_of::<8>(pick, ins, out),
    }
}

fn elements_of<const SIZE: usize>(pick: &[u32], ins: &[In<'_>], out: &mut [u8]) {
    let out = out.as_chunks_mut::<SIZE>().0;
    for (i, &element) in pick.iter().enumerate() {
        let mut element = element as usize;
        let mut source = 0;
        while element >= ins[source].ty.len as usize {
            element -= ins[source].ty.len as usize;
            source += 1;
        }
        let targets = out[i..].iter_mut().step_by(pick.len());
        match ins[source].data {
            Operand::Splat(bits) => {
                let mut one = [0; SIZE];
                one.copy_from_slice(&bits.to_le_bytes()[..SIZE]);
                targets.for_each(|target| *target = one);
            }
            Operand::Slice(x) => {
                let x = &x.as_chunks::<SIZE>().0[element..];
                let stride = ins[source].ty.len as usize;
                for (target, x) in targets.zip(x.iter().step_by(stride)) {
                    *target = *x;
                }
            }
        }
    }
}

/// Bits of an element as a GPU's registers hold it.
pub(super) fn packed_bits(dtype: DType) -> usize {
    if dtype == DType::Bool { 1 } else { dtype.packed_bits() }
}

/// Repacks each lane's bits as elements of another width.
fn bitcast(x: &[u8], from: LaneType, out: &mut [u8], to: LaneType) {
    let (from_len, to_len) = (from.len as usize, to.len as usize);
    let (from_bits, to_bits) = (packed_bits(from.dtype), packed_bits(to.dtype));
    let (from_size, to_size) = (from.dtype.size(), to.dtype.size());
    if from_bits == 8 * from_size && to_bits == 8 * to_size {
        return out.copy_from_slice(x);
    }
    let mut packed = [0u64; 128];
    for (x, out) in x.chunks_exact(from_size * from_len).zip(out.chunks_exact_mut(to_size * to_len))
    {
        packed[..(from.bits()).div_ceil(64)].fill(0);
        for i in 0..from_len {
            let bits = core::load_scalar(from_size, x, i) & low_bits(from_bits);
            packed[i * from_bits / 64] |= bits << (i * from_bits % 64);
        }
        for i in 0..to_len {
            let bits = packed[i * to_bits / 64] >> (i * to_bits % 64) & low_bits(to_bits);
            core::store_scalar(to_size, extend(to.dtype, bits), out, i);
        }
    }
}

/// A sub-byte element as the machine keeps it: a signed one with its sign in the whole byte.
pub(super) fn extend(dtype: DType, bits: u64) -> u64 {
    let unused = 8u32.saturating_sub(dtype.packed_bits() as u32);
    if dtype.class() == Class::Signed && unused > 0 {
        u64::from((((bits << unused) as u8 as i8) >> unused) as u8)
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_permuted_as_ptx_says() {
        assert_eq!(byte_permute(0x8877_6655_4433_2211, 0x7531), 0x8866_4422);
        assert_eq!(byte_permute(0x0000_0000_0000_80f1, 0x9889), 0xffff_ffff);
        assert_eq!(byte_permute(0x0000_0000_0000_7f11, 0x9889), 0);
    }

    #[test]
    fn any_function_of_three_bits() {
        let (a, b, c) = (0xff00_ff00, 0xf0f0_f0f0, 0xcccc_aaaa);
        assert_eq!(lop3(0x3c, a, b, c), a ^ b);
        assert_eq!(lop3(0x80, a, b, c), a & b & c);
        assert_eq!(lop3(0xca, a, b, c), (a & b) | (!a & c));
    }

    #[test]
    fn nibbles_travel_in_words() {
        let word = LaneType { dtype: DType::U32, len: 1 };
        let nibbles = LaneType { dtype: DType::I4, len: 8 };
        let mut out = [0; 8];
        bitcast(&0xfedc_ba98u32.to_le_bytes(), word, &mut out, nibbles);
        assert_eq!(out, [-8i8, -7, -6, -5, -4, -3, -2, -1].map(|x| x as u8));
        let mut back = [0; 4];
        bitcast(&out, nibbles, &mut back, word);
        assert_eq!(u32::from_le_bytes(back), 0xfedc_ba98);
    }

    #[test]
    fn pointers_tell_their_view() {
        assert_eq!(resolve(pointer(2) + 17), (2, 17));
        assert_eq!(resolve(pointer(0).wrapping_sub(4)), (0, -4));
    }

    #[test]
    fn scales_round_up() {
        assert_eq!(round_up_to_scale(1.0), 127);
        assert_eq!(round_up_to_scale(1.5), 128);
        assert_eq!(round_up_to_scale(0.0), 0);
    }
}
