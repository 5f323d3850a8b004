//! Moving elements: every reordering, broadcast or window of a tile is one strided copy.
//!
//! Offsets and strides count elements. A stride may be zero or negative in the source; two elements
//! of the destination must not share a place.

use crate::DType;
use crate::element::{fill, store_scalar};

/// The most dimensions a shape may have, besides those of size one.
pub const MAX_RANK: usize = 16;

/// The strides of a dense row-major tile.
pub fn dense_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1) as isize;
    }
    strides
}

/// One dimension of `N` tiles walked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dim<const N: usize> {
    size: usize,
    strides: [isize; N],
}

/// Dimensions, outermost first, without those of size one.
#[derive(Clone, Copy)]
struct Dims<const N: usize> {
    dims: [Dim<N>; MAX_RANK],
    rank: usize,
}

impl<const N: usize> Dims<N> {
    /// `None` if there is no element.
    fn new(shape: &[usize], strides: [&[isize]; N]) -> Option<Self> {
        for strides in strides {
            assert_eq!(strides.len(), shape.len(), "a shape needs one stride a dimension");
        }
        let mut dims = Dims { dims: [Dim { size: 1, strides: [0; N] }; MAX_RANK], rank: 0 };
        for (i, &size) in shape.iter().enumerate() {
            match size {
                0 => return None,
                1 => {}
                _ => {
                    assert!(dims.rank < MAX_RANK, "a shape has too many dimensions");
                    dims.dims[dims.rank] = Dim { size, strides: strides.map(|s| s[i]) };
                    dims.rank += 1;
                }
            }
        }
        Some(dims)
    }

    fn as_slice(&self) -> &[Dim<N>] {
        &self.dims[..self.rank]
    }

    /// Merges each dimension with the next one where all tiles step through both evenly.
    fn coalesce(&mut self) {
        let mut kept = 0;
        for i in 1..self.rank {
            let inner = self.dims[i];
            let outer = &mut self.dims[kept];
            let even = (0..N).all(|t| outer.strides[t] == inner.strides[t] * inner.size as isize);
            if even {
                *outer = Dim { size: outer.size * inner.size, strides: inner.strides };
            } else {
                kept += 1;
                self.dims[kept] = inner;
            }
        }
        self.rank = self.rank.min(kept + 1);
    }

    /// Splits off the innermost dimension.
    fn split_inner(mut self) -> (Self, Dim<N>) {
        if self.rank == 0 {
            return (self, Dim { size: 1, strides: [1; N] });
        }
        self.rank -= 1;
        let inner = self.dims[self.rank];
        (self, inner)
    }

    /// Calls `f` with the offsets of every index, in row-major order.
    fn for_each(&self, starts: [isize; N], mut f: impl FnMut([isize; N])) {
        let mut index = [0usize; MAX_RANK];
        let mut offsets = starts;
        loop {
            f(offsets);
            let mut d = self.rank;
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                let dim = &self.dims[d];
                index[d] += 1;
                for (offset, stride) in offsets.iter_mut().zip(dim.strides) {
                    *offset += stride;
                }
                if index[d] < dim.size {
                    break;
                }
                index[d] = 0;
                for (offset, stride) in offsets.iter_mut().zip(dim.strides) {
                    *offset -= stride * dim.size as isize;
                }
            }
        }
    }
}

/// Walks `N` tiles of one shape row by row, in row-major order, with rows as long as the strides
/// allow: `f(length, offsets, steps)`.
pub(crate) fn for_each_row<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
    mut f: impl FnMut(usize, [isize; N], [isize; N]),
) {
    let Some(mut dims) = Dims::new(shape, strides) else { return };
    dims.coalesce();
    let (outer, inner) = dims.split_inner();
    outer.for_each([0; N], |offsets| f(inner.size, offsets, inner.strides));
}

/// `N` tiles walked together as rows of columns; strides are (from row to row, from column to
/// column).
pub(crate) struct Matrix<const N: usize> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) strides: [(isize, isize); N],
}

/// The tiles as matrices, if they have exactly two dimensions that do not merge.
pub(crate) fn as_matrix<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
) -> Option<Matrix<N>> {
    let mut dims = Dims::new(shape, strides)?;
    dims.coalesce();
    match dims.as_slice() {
        [outer, inner] => Some(Matrix {
            rows: outer.size,
            columns: inner.size,
            strides: core::array::from_fn(|t| (outer.strides[t], inner.strides[t])),
        }),
        _ => None,
    }
}

/// Copies `shape` elements of `elem_size` bytes (1, 2, 4, 8 or 16) from `src` to `dst`.
///
/// # Panics
/// If an index leaves a slice, or if the size is none of these.
pub fn copy_strided(
    elem_size: usize,
    shape: &[usize],
    src: &[u8],
    src_offset: isize,
    src_strides: &[isize],
    dst: &mut [u8],
    dst_offset: isize,
    dst_strides: &[isize],
) {
    let Some(mut dims) = Dims::new(shape, [src_strides, dst_strides]) else { return };
    // The order of copies does not matter; this one writes forward and lets more dimensions merge.
    let rank = dims.rank;
    dims.dims[..rank].sort_by_key(|dim| core::cmp::Reverse(dim.strides[1].unsigned_abs()));
    dims.coalesce();
    let offsets = [src_offset, dst_offset];
    match elem_size {
        1 => copy::<[u8; 1]>(dims, offsets, src, dst),
        2 => copy::<[u8; 2]>(dims, offsets, src, dst),
        4 => copy::<[u8; 4]>(dims, offsets, src, dst),
        8 => copy::<[u8; 8]>(dims, offsets, src, dst),
        16 => copy::<[u8; 16]>(dims, offsets, src, dst),
        _ => panic!("elements of {elem_size} bytes do not exist"),
    }
}

fn copy<T: bytemuck::Pod>(mut dims: Dims<2>, offsets: [isize; 2], src: &[u8], dst: &mut [u8]) {
    // A slice may end amid an element that is never reached.
    let whole = |len: usize| len - len % size_of::<T>();
    let src: &[T] = bytemuck::cast_slice(&src[..whole(src.len())]);
    let dst_len = whole(dst.len());
    let dst: &mut [T] = bytemuck::cast_slice_mut(&mut dst[..dst_len]);

    let (outer, inner) = dims.split_inner();
    match inner.strides {
        [1, 1] => outer.for_each(offsets, |[s, d]| {
            dst[d as usize..][..inner.size].copy_from_slice(&src[s as usize..][..inner.size]);
        }),
        [0, 1] => outer.for_each(offsets, |[s, d]| {
            dst[d as usize..][..inner.size].fill(src[s as usize]);
        }),
        [_, 1] => {
            let along_src = outer.as_slice().iter().position(|dim| dim.strides[0] == 1);
            let Some(along_src) = along_src else {
                return outer.for_each(offsets, |at| copy_row(inner, at, src, dst));
            };
            let rows = dims.dims[along_src];
            dims.dims.copy_within(along_src + 1.., along_src);
            dims.rank -= 2;
            dims.for_each(offsets, |at| transpose(rows, inner, at, src, dst));
        }
        _ => outer.for_each(offsets, |at| copy_row(inner, at, src, dst)),
    }
}

fn copy_row<T: Copy>(row: Dim<2>, [mut s, mut d]: [isize; 2], src: &[T], dst: &mut [T]) {
    for _ in 0..row.size {
        dst[d as usize] = src[s as usize];
        s += row.strides[0];
        d += row.strides[1];
    }
}

/// Side of the square that a transposition moves at a time: both its rows and its columns are then
/// few enough to stay in the cache.
const BLOCK: usize = 8;

/// Copies a matrix whose rows are adjacent in the source along `rows`, and in the destination along
/// `columns`.
fn transpose<T: bytemuck::Pod>(
    rows: Dim<2>,
    columns: Dim<2>,
    [s, d]: [isize; 2],
    src: &[T],
    dst: &mut [T],
) {
    let (src_stride, dst_stride) = (columns.strides[0], rows.strides[1]);
    let mut block = [[T::zeroed(); BLOCK]; BLOCK];
    for row in (0..rows.size).step_by(BLOCK) {
        let height = BLOCK.min(rows.size - row);
        for column in (0..columns.size).step_by(BLOCK) {
            let width = BLOCK.min(columns.size - column);
            let s = s + row as isize + column as isize * src_stride;
            let d = d + column as isize + row as isize * dst_stride;
            if width == BLOCK && height == BLOCK {
                for (i, block) in block.iter_mut().enumerate() {
                    let start = (s + i as isize * src_stride) as usize;
                    block.copy_from_slice(&src[start..][..BLOCK]);
                }
                for j in 0..BLOCK {
                    let start = (d + j as isize * dst_stride) as usize;
                    for (dst, column) in dst[start..][..BLOCK].iter_mut().zip(&block) {
                        *dst = column[j];
                    }
                }
                continue;
            }
            for i in 0..width as isize {
                for j in 0..height as isize {
                    dst[(d + i + j * dst_stride) as usize] = src[(s + j + i * src_stride) as usize];
                }
            }
        }
    }
}

/// Fills a dense row-major tile with the index along `dim`, wrapped or rounded to the type.
///
/// # Panics
/// If `out` does not have the shape's size, or if the type is complex.
pub fn iota(dtype: DType, shape: &[usize], dim: usize, out: &mut [u8]) {
    let size = dtype.size();
    assert_eq!(out.len(), shape.iter().product::<usize>() * size, "the result has another size");
    if out.is_empty() {
        return;
    }
    let inner = shape[dim + 1..].iter().product::<usize>();
    let period = shape[dim] * inner * size;
    let (first, rest) = out.split_at_mut(period);
    for (i, run) in first.chunks_mut(inner * size).enumerate() {
        let bits = crate::convert_scalar(DType::I64, dtype, i as u64);
        if inner == 1 {
            store_scalar(size, bits, run, 0);
        } else {
            fill(size, bits, run);
        }
    }
    for copy in rest.chunks_mut(period) {
        copy.copy_from_slice(first);
    }
}
