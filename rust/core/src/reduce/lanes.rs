//! Reductions of adjacent elements in lanes.

use crate::element::{Element, elements, elements_mut};
use crate::eval::unsupported;
use crate::isa::for_each_isa;
use crate::math::Real;
use crate::strip::{STRIP, is_narrow_float, narrow, narrow_scalar, widen};
use crate::{DType, ReduceKind};

/// How many partial results are kept: four vectors of AVX2, two of AVX-512, so that additions
/// need not wait for one another.
const LANES: usize = 32;
const _: () = assert!(STRIP.is_multiple_of(LANES), "a strip must end on the last lane");

macro_rules! float_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Sum = |a, b| a + b;
        Prod = |a, b| a * b;
        Max = |a, b| Real::max(a, b);
        Min = |a, b| Real::min(a, b);
    } };
}

macro_rules! int_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Sum = |a, b| a.wrapping_add(b);
        Prod = |a, b| a.wrapping_mul(b);
        Max = |a, b| Ord::max(a, b);
        Min = |a, b| Ord::min(a, b);
        And = |a, b| a & b;
        Or = |a, b| a | b;
        Xor = |a, b| a ^ b;
    } };
}

#[inline(always)]
fn fold_row<T: Element>(row: &[T::Bytes], lanes: &mut [T; LANES], f: impl Fn(T, T) -> T) {
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, T::load(*x));
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = f(*lane, T::load(*x));
    }
}

#[inline(always)]
fn join<T: Element>(mut lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = f(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Rows whose lanes are joined together, one row a vector lane.
const BATCH: usize = 16;

#[inline(always)]
fn rows<T: Element>(x: &[u8], len: usize, identity: T, out: &mut [u8], f: impl Fn(T, T) -> T) {
    let (x, out) = (elements::<T>(x), elements_mut::<T>(out));
    let whole = out.len() / BATCH * BATCH;
    let (batches, rest) = x.split_at(whole * len);
    let (out_batches, out_rest) = out.split_at_mut(whole);
    let (out_batches, _) = out_batches.as_chunks_mut::<BATCH>();
    // Joining lanes of one row leaves ever fewer of them to a vector; across rows it does not.
    let mut lanes = [[identity; BATCH]; LANES / 2];
    for (batch, out) in batches.chunks_exact(BATCH * len).zip(out_batches) {
        for (i, row) in batch.chunks_exact(len).enumerate() {
            let mut own = [identity; LANES];
            fold_row::<T>(row, &mut own, &f);
            for lane in 0..LANES / 2 {
                lanes[lane][i] = f(own[lane], own[lane + LANES / 2]);
            }
        }
        let mut width = LANES / 4;
        while width > 0 {
            for lane in 0..width {
                let (low, high) = lanes.split_at_mut(lane + width);
                for (a, b) in low[lane].iter_mut().zip(&high[0]) {
                    *a = f(*a, *b);
                }
            }
            width /= 2;
        }
        *out = lanes[0].map(T::store);
    }
    for (row, out) in rest.chunks_exact(len).zip(out_rest) {
        let mut lanes = [identity; LANES];
        fold_row::<T>(row, &mut lanes, &f);
        *out = join(lanes, &f).store();
    }
}

/// Makes, of one element type: `$rows`, which reduces each row of `len` elements; `$fold`, which
/// adds a row to the lanes; `$join`, which joins the lanes.
macro_rules! instantiate {
    ($rows:ident $fold:ident $join:ident $type:ident $dtype:ident:
     $($kind:ident = $function:expr;)*) => {
        for_each_isa! {
            fn $rows(kind: ReduceKind, x: &[u8], len: usize, identity: $type, out: &mut [u8]) {
                match kind {
                    $(ReduceKind::$kind => rows::<$type>(x, len, identity, out, $function),)*
                    _ => unsupported(kind, DType::$dtype),
                }
            }
        }

        for_each_isa! {
            fn $fold(kind: ReduceKind, row: &[u8], lanes: &mut [$type; LANES]) {
                match kind {
                    $(ReduceKind::$kind => {
                        fold_row::<$type>(elements::<$type>(row), lanes, $function);
                    })*
                    _ => unsupported(kind, DType::$dtype),
                }
            }
        }

        fn $join(kind: ReduceKind, lanes: [$type; LANES]) -> $type {
            match kind {
                $(ReduceKind::$kind => join::<$type>(lanes, $function),)*
                _ => unsupported(kind, DType::$dtype),
            }
        }
    };
}
int_table!(instantiate!(rows_i8 fold_i8 join_i8 i8 I8:));
int_table!(instantiate!(rows_i16 fold_i16 join_i16 i16 I16:));
int_table!(instantiate!(rows_i32 fold_i32 join_i32 i32 I32:));
int_table!(instantiate!(rows_i64 fold_i64 join_i64 i64 I64:));
int_table!(instantiate!(rows_u8 fold_u8 join_u8 u8 U8:));
int_table!(instantiate!(rows_u16 fold_u16 join_u16 u16 U16:));
int_table!(instantiate!(rows_u32 fold_u32 join_u32 u32 U32:));
int_table!(instantiate!(rows_u64 fold_u64 join_u64 u64 U64:));
float_table!(instantiate!(rows_f32 fold_f32 join_f32 f32 F32:));
float_table!(instantiate!(rows_f64 fold_f64 join_f64 f64 F64:));

/// [`rows`] of the larger or smaller of two `float32`, by a comparison alone: what that leaves open,
/// NaNs and the sign of zero, is found afterwards and seldom there.
#[inline(always)]
fn extremes(
    x: &[u8],
    len: usize,
    identity: f32,
    out: &mut [u8],
    plain: impl Fn(f32, f32) -> f32,
    exact: impl Fn(f32, f32) -> f32,
) {
    let rows = elements::<f32>(x).chunks_exact(len);
    for (row, out) in rows.zip(elements_mut::<f32>(out)) {
        let (mut lanes, mut unordered) = ([identity; LANES], [0u32; LANES]);
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for i in 0..LANES {
                let x = f32::load(chunk[i]);
                lanes[i] = plain(lanes[i], x);
                unordered[i] |= x.is_nan() as u32;
            }
        }
        for (i, x) in rest.iter().enumerate() {
            let x = f32::load(*x);
            lanes[i] = plain(lanes[i], x);
            unordered[i] |= x.is_nan() as u32;
        }
        let mut result = join::<f32>(lanes, &plain);
        if result == 0.0 || unordered.iter().fold(0, |any, x| any | x) != 0 {
            let mut lanes = [identity; LANES];
            fold_row::<f32>(row, &mut lanes, &exact);
            result = join(lanes, &exact);
        }
        *out = result.store();
    }
}

for_each_isa! {
    fn extremes_f32(kind: ReduceKind, x: &[u8], len: usize, identity: f32, out: &mut [u8]) {
        match kind {
            ReduceKind::Max => {
                extremes(x, len, identity, out, |a, b| if a > b { a } else { b }, Real::max);
            }
            ReduceKind::Min => {
                extremes(x, len, identity, out, |a, b| if a < b { a } else { b }, Real::min);
            }
            _ => unsupported(kind, DType::F32),
        }
    }
}

/// What sums and products of `bool` are.
fn on_bytes(kind: ReduceKind, dtype: DType) -> ReduceKind {
    match (dtype, kind) {
        (DType::Bool, ReduceKind::Sum) => ReduceKind::Or,
        (DType::Bool, ReduceKind::Prod) => ReduceKind::And,
        _ => kind,
    }
}

/// Reduces each row of `len` elements to one element of `out`.
pub(super) fn fold_rows(kind: ReduceKind, dtype: DType, x: &[u8], len: usize, out: &mut [u8]) {
    macro_rules! run {
        ($rows:ident) => {
            $rows(on_bytes(kind, dtype), x, len, Element::from_register(kind.identity(dtype)), out)
        };
    }
    match dtype {
        DType::I2 | DType::I4 | DType::I8 => run!(rows_i8),
        DType::I16 => run!(rows_i16),
        DType::I32 => run!(rows_i32),
        DType::I64 => run!(rows_i64),
        DType::Bool | DType::U2 | DType::U4 | DType::U8 => run!(rows_u8),
        DType::U16 => run!(rows_u16),
        DType::U32 => run!(rows_u32),
        DType::U64 => run!(rows_u64),
        DType::F32 if matches!(kind, ReduceKind::Max | ReduceKind::Min) => run!(extremes_f32),
        DType::F32 => run!(rows_f32),
        DType::F64 => run!(rows_f64),
        _ if len <= STRIP => fold_narrow_rows(kind, dtype, x, len, out),
        _ => {
            let size = dtype.size();
            for (row, out) in x.chunks_exact(len * size).zip(out.chunks_exact_mut(size)) {
                let mut lanes = Lanes::new(kind, dtype);
                lanes.fold(row);
                out.copy_from_slice(&lanes.finish().to_le_bytes()[..size]);
            }
        }
    }
}

/// [`fold_rows`] of narrow floats whose rows fit a strip: several rows are widened at a time.
fn fold_narrow_rows(kind: ReduceKind, dtype: DType, x: &[u8], len: usize, out: &mut [u8]) {
    let size = dtype.size();
    let rows = STRIP / len;
    let identity = f32::from_register(kind.identity(DType::F32));
    let (mut wide, mut sums) = ([0f32; STRIP], [0f32; STRIP]);
    for (x, out) in x.chunks(rows * len * size).zip(out.chunks_mut(rows * size)) {
        let wide = &mut wide[..x.len() / size];
        let sums = &mut sums[..out.len() / size];
        widen(dtype, x, wide);
        let (wide, bytes) = (bytemuck::cast_slice(wide), bytemuck::cast_slice_mut(sums));
        rows_f32(kind, wide, len, identity, bytes);
        narrow(dtype, sums, out);
    }
}

/// A reduction under way: rows are added one by one.
pub(super) struct Lanes {
    kind: ReduceKind,
    dtype: DType,
    state: State,
}

enum State {
    I8([i8; LANES]),
    I16([i16; LANES]),
    I32([i32; LANES]),
    I64([i64; LANES]),
    U8([u8; LANES]),
    U16([u16; LANES]),
    U32([u32; LANES]),
    U64([u64; LANES]),
    F32([f32; LANES]),
    F64([f64; LANES]),
}

impl Lanes {
    pub(super) fn new(kind: ReduceKind, dtype: DType) -> Self {
        let computed = if is_narrow_float(dtype) { DType::F32 } else { dtype };
        let identity = kind.identity(computed);
        macro_rules! state {
            ($state:ident) => {
                State::$state([Element::from_register(identity); LANES])
            };
        }
        let state = match computed {
            DType::I2 | DType::I4 | DType::I8 => state!(I8),
            DType::I16 => state!(I16),
            DType::I32 => state!(I32),
            DType::I64 => state!(I64),
            DType::Bool | DType::U2 | DType::U4 | DType::U8 => state!(U8),
            DType::U16 => state!(U16),
            DType::U32 => state!(U32),
            DType::U64 => state!(U64),
            DType::F64 => state!(F64),
            _ => state!(F32),
        };
        Lanes { kind: on_bytes(kind, dtype), dtype, state }
    }

    /// Adds a row.
    pub(super) fn fold(&mut self, row: &[u8]) {
        let kind = self.kind;
        match &mut self.state {
            State::I8(lanes) => fold_i8(kind, row, lanes),
            State::I16(lanes) => fold_i16(kind, row, lanes),
            State::I32(lanes) => fold_i32(kind, row, lanes),
            State::I64(lanes) => fold_i64(kind, row, lanes),
            State::U8(lanes) => fold_u8(kind, row, lanes),
            State::U16(lanes) => fold_u16(kind, row, lanes),
            State::U32(lanes) => fold_u32(kind, row, lanes),
            State::U64(lanes) => fold_u64(kind, row, lanes),
            State::F64(lanes) => fold_f64(kind, row, lanes),
            State::F32(lanes) if self.dtype == DType::F32 => fold_f32(kind, row, lanes),
            State::F32(lanes) => {
                let mut wide = [0f32; STRIP];
                for strip in row.chunks(STRIP * self.dtype.size()) {
                    let wide = &mut wide[..strip.len() / self.dtype.size()];
                    widen(self.dtype, strip, wide);
                    fold_f32(kind, bytemuck::cast_slice(wide), lanes);
                }
            }
        }
    }

    /// The result as a scalar register.
    pub(super) fn finish(self) -> u64 {
        let kind = self.kind;
        match self.state {
            State::I8(lanes) => join_i8(kind, lanes).to_register(),
            State::I16(lanes) => join_i16(kind, lanes).to_register(),
            State::I32(lanes) => join_i32(kind, lanes).to_register(),
            State::I64(lanes) => join_i64(kind, lanes).to_register(),
            State::U8(lanes) => join_u8(kind, lanes).to_register(),
            State::U16(lanes) => join_u16(kind, lanes).to_register(),
            State::U32(lanes) => join_u32(kind, lanes).to_register(),
            State::U64(lanes) => join_u64(kind, lanes).to_register(),
            State::F64(lanes) => join_f64(kind, lanes).to_register(),
            State::F32(lanes) => narrow_scalar(self.dtype, join_f32(kind, lanes)),
        }
    }
}
