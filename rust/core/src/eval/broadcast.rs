//! Operations on tiles of which some are broadcast: operands with element strides that may be zero.

use super::binary::{binary, binary_per_row};
use super::compare::compare;
use super::operand::Operand;
use crate::element::load_scalar;
use crate::shape::{Matrix, as_matrix, for_each_row};
use crate::{BinaryKind, CompareKind, DType, copy_strided};

/// `out = a op b` with element strides for the operands, row-major and dense for `out`.
///
/// # Panics
/// If an index leaves an operand, if `out` has another size than `shape`, or if the kind does not
/// support the type.
pub fn binary_bcast(
    kind: BinaryKind,
    dtype: DType,
    a: &[u8],
    a_strides: &[isize],
    b: &[u8],
    b_strides: &[isize],
    shape: &[usize],
    out: &mut [u8],
) {
    // A tile and a column, as in softmax: one call for all rows.
    if let Some(matrix) = as_matrix(shape, [a_strides, b_strides]) {
        let Matrix { rows, columns, strides } = matrix;
        let (tile, column) = ((columns as isize, 1), (1, 0));
        let right_is_scalar = match strides {
            [a, b] if (a, b) == (tile, column) => Some(true),
            [a, b] if (a, b) == (column, tile) => Some(false),
            _ => None,
        };
        if let Some(right_is_scalar) = right_is_scalar {
            let size = dtype.size();
            let (whole, scalars) = (rows * columns * size, rows * size);
            let (a_len, b_len) = if right_is_scalar { (whole, scalars) } else { (scalars, whole) };
            let (a, b) = (&a[..a_len], &b[..b_len]);
            assert_eq!(out.len(), whole, "the result does not have the shape's size");
            if binary_per_row(kind, dtype, columns, a, b, right_is_scalar, out) {
                return;
            }
        }
    }
    let mut rows = Rows::default();
    rows.run(dtype.size(), dtype.size(), a, a_strides, b, b_strides, shape, out, |a, b, out| {
        binary(kind, dtype, a, b, out);
    });
}

/// `out = a op b` as `bool`, with strides as in [`binary_bcast`].
///
/// # Panics
/// As [`binary_bcast`].
pub fn compare_bcast(
    kind: CompareKind,
    dtype: DType,
    a: &[u8],
    a_strides: &[isize],
    b: &[u8],
    b_strides: &[isize],
    shape: &[usize],
    out: &mut [u8],
) {
    let mut rows = Rows::default();
    rows.run(dtype.size(), 1, a, a_strides, b, b_strides, shape, out, |a, b, out| {
        compare(kind, dtype, a, b, out);
    });
}

/// Room for rows whose elements do not lie side by side.
#[derive(Default)]
struct Rows {
    a: Vec<u8>,
    b: Vec<u8>,
}

impl Rows {
    fn run(
        &mut self,
        size: usize,
        out_size: usize,
        a: &[u8],
        a_strides: &[isize],
        b: &[u8],
        b_strides: &[isize],
        shape: &[usize],
        out: &mut [u8],
        mut row: impl FnMut(Operand<'_>, Operand<'_>, &mut [u8]),
    ) {
        let elements = shape.iter().product::<usize>();
        assert_eq!(out.len(), elements * out_size, "the result does not have the shape's size");
        let mut written = 0;
        for_each_row(shape, [a_strides, b_strides], |len, [a_start, b_start], [a_step, b_step]| {
            let a = gather(size, a, a_start, a_step, len, &mut self.a);
            let b = gather(size, b, b_start, b_step, len, &mut self.b);
            row(a, b, &mut out[written..][..len * out_size]);
            written += len * out_size;
        });
    }
}

/// A row as an operand: in place if its elements are adjacent, a scalar if they are all one.
fn gather<'a>(
    size: usize,
    x: &'a [u8],
    start: isize,
    step: isize,
    len: usize,
    room: &'a mut Vec<u8>,
) -> Operand<'a> {
    match step {
        1 => Operand::Slice(&x[start as usize * size..][..len * size]),
        0 => Operand::Splat(load_scalar(size, x, start as usize)),
        _ => {
            room.resize(len * size, 0);
            copy_strided(size, &[len], x, start, &[step], room, 0, &[1]);
            Operand::Slice(room)
        }
    }
}
