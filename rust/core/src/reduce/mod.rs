//! Reductions and running reductions.
//!
//! **Order of float sums and products.** Fixed, whatever the instruction set:
//!
//! - Where the innermost dimension is reduced, element `i` of each row goes to lane `i mod 32`, row
//!   after row; at the end the upper half of the lanes is added to the lower half until one is left.
//! - Otherwise rows are added one after another.
//!
//! Dimensions of size one do not count, and adjacent dimensions that are both reduced or both kept
//! count as one. Floats narrower than `float32` are summed as `float32` and rounded at the end.

mod arg;
mod cumulative;
mod lanes;

pub use arg::arg_reduce;
pub use cumulative::cumulative;

use self::lanes::{Lanes, fold_rows};
use crate::element::{fill, sub_byte_int, wrap_sub_bytes};
use crate::eval::unsupported;
use crate::shape::MAX_RANK;
use crate::strip::{STRIP, is_narrow_float, narrow, widen};
use crate::{
    BinaryKind, Class, CumulativeKind, DType, Operand, ReduceKind, binary_in_place, convert_scalar,
};

impl ReduceKind {
    /// Whether the reduction gives an index; such a kind is for [`arg_reduce`].
    pub fn is_arg(self) -> bool {
        matches!(self, ReduceKind::ArgMax | ReduceKind::ArgMin)
    }

    /// Whether the reduction is defined on a type.
    pub fn supports(self, dtype: DType) -> bool {
        self.combine().supports(dtype)
    }

    /// The operation that joins two elements, or decides between them.
    fn combine(self) -> BinaryKind {
        match self {
            ReduceKind::Sum => BinaryKind::Add,
            ReduceKind::Prod => BinaryKind::Mul,
            ReduceKind::Max | ReduceKind::ArgMax => BinaryKind::Max,
            ReduceKind::Min | ReduceKind::ArgMin => BinaryKind::Min,
            ReduceKind::And => BinaryKind::And,
            ReduceKind::Or => BinaryKind::Or,
            ReduceKind::Xor => BinaryKind::Xor,
        }
    }

    /// What a reduction of nothing gives, as a scalar register.
    fn identity(self, dtype: DType) -> u64 {
        let number = |x: i64| convert_scalar(DType::I64, dtype, x as u64);
        let infinity = |x: f32| convert_scalar(DType::F32, dtype, x.to_bits() as u64);
        let sign_bit = 1 << (dtype.packed_bits() - 1);
        let (least, largest) = match dtype.class() {
            Class::Float => (infinity(f32::NEG_INFINITY), infinity(f32::INFINITY)),
            Class::Signed => (number(sign_bit), number(!sign_bit)),
            Class::Bool | Class::Unsigned | Class::Complex => (0, number(-1)),
        };
        match self {
            ReduceKind::Sum | ReduceKind::Or | ReduceKind::Xor => 0,
            ReduceKind::Prod => number(1),
            ReduceKind::And => number(-1),
            ReduceKind::Max | ReduceKind::ArgMax => least,
            ReduceKind::Min | ReduceKind::ArgMin => largest,
        }
    }
}

impl CumulativeKind {
    /// Whether the running reduction is defined on a type.
    pub fn supports(self, dtype: DType) -> bool {
        match self {
            CumulativeKind::LogSumExp => dtype.is_float(),
            _ => dtype.is_int() || dtype.is_float(),
        }
    }
}

/// A run of dimensions that are all reduced or all kept.
#[derive(Clone, Copy, Default)]
struct Group {
    reduced: bool,
    size: usize,
    stride: usize,
}

/// The groups of a dense tile, outermost first.
fn groups(shape: &[usize], axes: &[usize]) -> ([Group; MAX_RANK], usize) {
    let mut groups = [Group::default(); MAX_RANK];
    let mut count = 0;
    let mut stride = 1;
    for (dim, &size) in shape.iter().enumerate().rev() {
        let reduced = axes.contains(&dim);
        if size != 1 {
            if count > 0 && groups[count - 1].reduced == reduced {
                groups[count - 1].size *= size;
            } else {
                assert!(count < MAX_RANK, "a shape has too many dimensions");
                groups[count] = Group { reduced, size, stride };
                count += 1;
            }
        }
        stride *= size;
    }
    groups[..count].reverse();
    (groups, count)
}

/// Calls `f` with the offset of every index of the groups that pass `filter`, in row-major order.
fn for_each_offset(groups: &[Group], reduced: bool, f: &mut dyn FnMut(usize)) {
    fn walk(groups: &[Group], reduced: bool, offset: usize, f: &mut dyn FnMut(usize)) {
        match groups.split_first() {
            None => f(offset),
            Some((group, rest)) if group.reduced == reduced => {
                for i in 0..group.size {
                    walk(rest, reduced, offset + i * group.stride, f);
                }
            }
            Some((_, rest)) => walk(rest, reduced, offset, f),
        }
    }
    walk(groups, reduced, 0, f);
}

/// Reduces `axes` of a dense tile; `out` holds the dimensions that are left. Which `out` held
/// before does not matter.
///
/// # Panics
/// If the kind gives indices or does not support the type, or if a tile does not have its size.
pub fn reduce(
    kind: ReduceKind,
    dtype: DType,
    shape: &[usize],
    axes: &[usize],
    x: &[u8],
    out: &mut [u8],
) {
    if kind.is_arg() || !kind.supports(dtype) {
        unsupported(kind, dtype);
    }
    let size = dtype.size();
    let kept = shape.iter().enumerate().filter(|(dim, _)| !axes.contains(dim));
    let results = kept.map(|(_, size)| size).product::<usize>();
    assert_eq!(x.len(), shape.iter().product::<usize>() * size, "the operand has another size");
    assert_eq!(out.len(), results * size, "the result has another size");
    if x.is_empty() {
        return fill(size, kind.identity(dtype), out);
    }
    let (groups, count) = groups(shape, axes);
    match &groups[..count] {
        [] | [Group { reduced: false, .. }] => out.copy_from_slice(x),
        [Group { reduced: true, size, .. }]
        | [Group { reduced: false, .. }, Group { reduced: true, size, .. }] => {
            fold_rows(kind, dtype, x, *size, out);
        }
        [outer @ .., inner] if inner.reduced => {
            reduce_inner(kind, dtype, outer, inner.size, x, out);
        }
        [outer @ .., inner] => reduce_outer(kind, dtype, outer, inner.size, x, out),
    }
    if sub_byte_int(dtype).is_some() {
        wrap_sub_bytes(dtype, out);
    }
}

/// Reduces rows of `len` adjacent elements and some of the dimensions around them.
fn reduce_inner(
    kind: ReduceKind,
    dtype: DType,
    outer: &[Group],
    len: usize,
    x: &[u8],
    out: &mut [u8],
) {
    let size = dtype.size();
    let mut out = out.chunks_exact_mut(size);
    for_each_offset(outer, false, &mut |kept| {
        let mut lanes = Lanes::new(kind, dtype);
        for_each_offset(outer, true, &mut |reduced| {
            lanes.fold(&x[(kept + reduced) * size..][..len * size]);
        });
        let out = out.next().expect("as many results as kept indices");
        out.copy_from_slice(&lanes.finish().to_le_bytes()[..size]);
    });
}

/// Adds up rows of `len` adjacent elements.
fn reduce_outer(
    kind: ReduceKind,
    dtype: DType,
    outer: &[Group],
    len: usize,
    x: &[u8],
    out: &mut [u8],
) {
    let size = dtype.size();
    let combine = kind.combine();
    let mut rows = out.chunks_exact_mut(len * size);
    for_each_offset(outer, false, &mut |kept| {
        let out = rows.next().expect("as many rows as kept indices");
        if !is_narrow_float(dtype) {
            let mut first = true;
            for_each_offset(outer, true, &mut |reduced| {
                let row = &x[(kept + reduced) * size..][..len * size];
                if core::mem::take(&mut first) {
                    out.copy_from_slice(row);
                } else {
                    binary_in_place(combine, dtype, out, Operand::Slice(row));
                }
            });
            return;
        }
        let mut sums = [0f32; STRIP];
        let mut wide = [0f32; STRIP];
        for (i, out) in out.chunks_mut(STRIP * size).enumerate() {
            let (sums, wide) = (&mut sums[..out.len() / size], &mut wide[..out.len() / size]);
            let mut first = true;
            for_each_offset(outer, true, &mut |reduced| {
                let row = &x[(kept + reduced + i * STRIP) * size..][..out.len()];
                if core::mem::take(&mut first) {
                    widen(dtype, row, sums);
                } else {
                    widen(dtype, row, wide);
                    let wide = Operand::Slice(bytemuck::cast_slice(wide));
                    binary_in_place(combine, DType::F32, bytemuck::cast_slice_mut(sums), wide);
                }
            });
            narrow(dtype, sums, out);
        }
    });
}
