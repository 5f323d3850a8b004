//! Operands in the numbers they are multiplied as.

use super::MatRef;
use crate::strip::{is_narrow_float, widen};
use crate::{DType, convert, copy_strided};

/// A matrix of numbers: element (r, c) lies at `data[offset + r * row_stride + c * col_stride]`. The
/// constructor has checked that all of them lie within.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dense<'a, T> {
    pub(super) data: &'a [T],
    pub(super) offset: usize,
    pub(super) row_stride: isize,
    pub(super) col_stride: isize,
}

/// Room for one operand.
#[derive(Debug, Default)]
pub(super) struct Room {
    f32: Vec<f32>,
    f64: Vec<f64>,
    i32: Vec<i32>,
    i64: Vec<i64>,
    bytes: Vec<u8>,
}

/// Panics unless every element of a `rows` × `columns` matrix lies within its data.
fn check(x: &MatRef<'_>, rows: usize, columns: usize) {
    if rows == 0 || columns == 0 {
        return;
    }
    let reach = |size: usize, stride: isize| (size - 1) as isize * stride;
    let (by_row, by_column) = (reach(rows, x.row_stride), reach(columns, x.col_stride));
    let first = x.offset as isize + by_row.min(0) + by_column.min(0);
    let last = x.offset as isize + by_row.max(0) + by_column.max(0);
    let len = x.data.len() / x.dtype.size();
    assert!(first >= 0 && last < len as isize, "a matrix operand leaves its tile");
}

/// Calls `f(from, to, bytes)` so that runs of source bytes, element `to` and on of the result, cover
/// a matrix once; returns the result's strides. Runs follow the source's own order.
fn for_each_run(
    x: &MatRef<'_>,
    rows: usize,
    columns: usize,
    room: &mut Vec<u8>,
    mut f: impl FnMut(usize, &[u8]),
) -> (isize, isize) {
    let size = x.dtype.size();
    let (outer, inner, outer_stride, strides) = if x.col_stride == 1 || x.row_stride != 1 {
        (rows, columns, x.row_stride, (columns as isize, 1))
    } else {
        (columns, rows, x.col_stride, (1, rows as isize))
    };
    if x.col_stride != 1 && x.row_stride != 1 {
        room.resize(rows * columns * size, 0);
        let (from, to) = ([x.row_stride, x.col_stride], [columns as isize, 1]);
        copy_strided(size, &[rows, columns], x.data, x.offset as isize, &from, room, 0, &to);
        f(0, room);
    } else if outer_stride == inner as isize {
        f(0, &x.data[x.offset * size..][..rows * columns * size]);
    } else {
        for i in 0..outer {
            let start = (x.offset as isize + i as isize * outer_stride) as usize;
            f(i * inner, &x.data[start * size..][..inner * size]);
        }
    }
    strides
}

macro_rules! operand {
    ($($(#[$doc:meta])* $name:ident $number:ident $dtype:ident;)*) => { $(
        $(#[$doc])*
        pub(super) fn $name<'a>(
            x: &MatRef<'a>,
            rows: usize,
            columns: usize,
            room: &'a mut Room,
        ) -> Dense<'a, $number> {
            check(x, rows, columns);
            let out = &mut room.$number;
            out.resize(rows * columns, Default::default());
            let (row_stride, col_stride) =
                for_each_run(x, rows, columns, &mut room.bytes, |to, run| {
                    let out = &mut out[to..][..run.len() / x.dtype.size()];
                    convert(x.dtype, DType::$dtype, run, bytemuck::cast_slice_mut(out));
                });
            Dense { data: out, offset: 0, row_stride, col_stride }
        }
    )* };
}
operand! {
    /// As `float64`.
    as_f64 f64 F64;
    /// As `int32`, wrapped.
    as_i32 i32 I32;
    /// As `int64`, wrapped.
    as_i64 i64 I64;
    /// As `float32`, by the general conversion.
    converted_f32 f32 F32;
}

/// As `float32`: in place if that is what the matrix holds.
pub(super) fn as_f32<'a>(
    x: &MatRef<'a>,
    rows: usize,
    columns: usize,
    tf32: bool,
    room: &'a mut Room,
) -> Dense<'a, f32> {
    let cut = tf32 && x.dtype == DType::F32;
    if x.dtype == DType::F32
        && !cut
        && let Ok(data) = bytemuck::try_cast_slice(x.data)
    {
        check(x, rows, columns);
        let MatRef { offset, row_stride, col_stride, .. } = *x;
        return Dense { data, offset, row_stride, col_stride };
    }
    if !is_narrow_float(x.dtype) && x.dtype != DType::F32 {
        return converted_f32(x, rows, columns, room);
    }
    check(x, rows, columns);
    let out = &mut room.f32;
    out.resize(rows * columns, 0.0);
    let (row_stride, col_stride) = for_each_run(x, rows, columns, &mut room.bytes, |to, run| {
        widen(x.dtype, run, &mut out[to..][..run.len() / x.dtype.size()]);
    });
    if cut {
        for x in out.iter_mut() {
            *x = f32::from_bits(x.to_bits() & !0x1fff);
        }
    }
    Dense { data: out, offset: 0, row_stride, col_stride }
}
