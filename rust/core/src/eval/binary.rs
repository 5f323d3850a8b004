//! Operations of two operands of one type.

use super::divide::divide_by;
use super::int::Int;
use super::operand::Operand;
use super::unsupported;
use crate::element::{
    Element, elements, elements_mut, fill, sub_byte_int, wrap_sub_byte, wrap_sub_bytes,
};
use crate::isa::for_each_isa;
use crate::math::Real;
use crate::strip::{STRIP, is_narrow_float, narrow, narrow_scalar, widen, widen_scalar};
use crate::{BinaryKind, DType};

/// On floats.
macro_rules! float_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Add = |a, b| a + b;
        Sub = |a, b| a - b;
        Mul = |a, b| a * b;
        Div = |a, b| a / b;
        Rem = |a, b| a % b;
        Max = |a, b| Real::max(a, b);
        Min = |a, b| Real::min(a, b);
        Pow = |a, b| Real::pow(a, b);
        Atan2 = |a, b| Real::atan2(a, b);
        Nextafter = |a, b| Real::nextafter(a, b);
        CopySign = |a, b| a.copysign(b);
    } };
}

/// On signed and unsigned integers.
macro_rules! int_table {
    ($use:ident!($($args:tt)*)) => { sign_table! { $use!($($args)*
        Add = |a, b| a.wrapping_add(b);
        Sub = |a, b| a.wrapping_sub(b);
        Mul = |a, b| a.wrapping_mul(b);
        And = |a, b| a & b;
        Or = |a, b| a | b;
        Xor = |a, b| a ^ b;
        Shl = |a, b| Int::shl(a, b);
        ShrArithmetic = |a, b| Int::shr_arithmetic(a, b);
        ShrLogical = |a, b| Int::shr_logical(a, b);
    ) } };
}

/// The operations on integers whose bits depend on whether the type is signed.
macro_rules! sign_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Div = |a, b| Int::div(a, b);
        Rem = |a, b| Int::rem(a, b);
        Max = |a, b| Ord::max(a, b);
        Min = |a, b| Ord::min(a, b);
    } };
}

/// On `bool`, a byte of 0 or 1.
macro_rules! bool_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Add = |a, b| a | b;
        Mul = |a, b| a & b;
        Max = |a, b| a | b;
        Min = |a, b| a & b;
        And = |a, b| a & b;
        Or = |a, b| a | b;
        Xor = |a, b| a ^ b;
    } };
}

macro_rules! any_of {
    ($value:ident: $($kind:ident = $function:expr;)*) => {
        matches!($value, $(BinaryKind::$kind)|*)
    };
}

impl BinaryKind {
    /// Whether the operation is defined on a type.
    pub fn supports(self, dtype: DType) -> bool {
        match dtype {
            DType::Bool => bool_table!(any_of!(self:)),
            // The neighbours of a narrow float are not those of the `float32` it is computed as.
            _ if is_narrow_float(dtype) && self == BinaryKind::Nextafter => false,
            _ if dtype.is_int() => int_table!(any_of!(self:)),
            _ if dtype.is_float() => float_table!(any_of!(self:)),
            _ => false,
        }
    }
}

/// Whether a signed integer and an unsigned one of the same bits give different bits.
fn depends_on_sign(kind: BinaryKind) -> bool {
    sign_table!(any_of!(kind:))
}

/// Where a loop reads and writes.
enum Tiles<'a> {
    /// `out = a op b`.
    Apart(&'a [u8], &'a [u8], &'a mut [u8]),
    /// `out = a op b`, row by row of so many elements, where `a` has one scalar a row.
    LeftPerRow(usize, &'a [u8], &'a [u8], &'a mut [u8]),
    /// `out = a op b`, row by row of so many elements, where `b` has one scalar a row.
    RightPerRow(usize, &'a [u8], &'a [u8], &'a mut [u8]),
    /// `a = a op b`.
    Left(&'a mut [u8], &'a [u8]),
    /// `a = a op b` with a scalar on the right.
    LeftSplat(&'a mut [u8], u64),
    /// `b = a op b`.
    Right(&'a [u8], &'a mut [u8]),
    /// `b = a op b` with a scalar on the left.
    RightSplat(u64, &'a mut [u8]),
}

#[inline(always)]
fn zip<T: Element>(tiles: Tiles<'_>, f: impl Fn(T, T) -> T) {
    match tiles {
        Tiles::Apart(a, b, out) => {
            let operands = elements::<T>(a).iter().zip(elements::<T>(b));
            for (out, (a, b)) in elements_mut::<T>(out).iter_mut().zip(operands) {
                *out = f(T::load(*a), T::load(*b)).store();
            }
        }
        Tiles::LeftPerRow(len, a, b, out) => {
            let rows = elements::<T>(b).chunks_exact(len).zip(elements::<T>(a));
            for (out, (b, a)) in elements_mut::<T>(out).chunks_exact_mut(len).zip(rows) {
                let a = T::load(*a);
                for (out, b) in out.iter_mut().zip(b) {
                    *out = f(a, T::load(*b)).store();
                }
            }
        }
        Tiles::RightPerRow(len, a, b, out) => {
            let rows = elements::<T>(a).chunks_exact(len).zip(elements::<T>(b));
            for (out, (a, b)) in elements_mut::<T>(out).chunks_exact_mut(len).zip(rows) {
                let b = T::load(*b);
                for (out, a) in out.iter_mut().zip(a) {
                    *out = f(T::load(*a), b).store();
                }
            }
        }
        Tiles::Left(a, b) => {
            for (a, b) in elements_mut::<T>(a).iter_mut().zip(elements::<T>(b)) {
                *a = f(T::load(*a), T::load(*b)).store();
            }
        }
        Tiles::LeftSplat(a, b) => {
            let b = T::from_register(b);
            for a in elements_mut::<T>(a) {
                *a = f(T::load(*a), b).store();
            }
        }
        Tiles::Right(a, b) => {
            for (a, b) in elements::<T>(a).iter().zip(elements_mut::<T>(b)) {
                *b = f(T::load(*a), T::load(*b)).store();
            }
        }
        Tiles::RightSplat(a, b) => {
            let a = T::from_register(a);
            for b in elements_mut::<T>(b) {
                *b = f(a, T::load(*b)).store();
            }
        }
    }
}

#[inline(always)]
fn apply<T: Element>(a: T, b: T, f: impl Fn(T, T) -> T) -> T {
    f(a, b)
}

/// Makes the loops `$tile` of one element type from a table.
macro_rules! tiles {
    ($tile:ident $type:ident $dtype:ident: $($kind:ident = $function:expr;)*) => {
        for_each_isa! {
            fn $tile(kind: BinaryKind, tiles: Tiles<'_>) {
                match kind {
                    $(BinaryKind::$kind => zip::<$type>(tiles, $function),)*
                    _ => unsupported(kind, DType::$dtype),
                }
            }
        }
    };
}
bool_table!(tiles!(tile_bool u8 Bool:));
// Where the sign does not matter, signed types share the loops of unsigned ones.
sign_table!(tiles!(tile_i8 i8 I8:));
sign_table!(tiles!(tile_i16 i16 I16:));
sign_table!(tiles!(tile_i32 i32 I32:));
sign_table!(tiles!(tile_i64 i64 I64:));
int_table!(tiles!(tile_u8 u8 U8:));
int_table!(tiles!(tile_u16 u16 U16:));
int_table!(tiles!(tile_u32 u32 U32:));
int_table!(tiles!(tile_u64 u64 U64:));
float_table!(tiles!(tile_f32 f32 F32:));
float_table!(tiles!(tile_f64 f64 F64:));

/// Makes the scalar function `$value` of one element type from a table.
macro_rules! values {
    ($value:ident $type:ident $dtype:ident: $($kind:ident = $function:expr;)*) => {
        #[inline]
        fn $value(kind: BinaryKind, a: $type, b: $type) -> $type {
            match kind {
                $(BinaryKind::$kind => apply::<$type>(a, b, $function),)*
                _ => unsupported(kind, DType::$dtype),
            }
        }
    };
}
bool_table!(values!(value_bool u8 Bool:));
int_table!(values!(value_i8 i8 I8:));
int_table!(values!(value_i16 i16 I16:));
int_table!(values!(value_i32 i32 I32:));
int_table!(values!(value_i64 i64 I64:));
int_table!(values!(value_u8 u8 U8:));
int_table!(values!(value_u16 u16 U16:));
int_table!(values!(value_u32 u32 U32:));
int_table!(values!(value_u64 u64 U64:));
float_table!(values!(value_f32 f32 F32:));
float_table!(values!(value_f64 f64 F64:));

/// Runs a type whose elements are computed as they are stored.
fn run(kind: BinaryKind, dtype: DType, tiles: Tiles<'_>) {
    match dtype {
        DType::Bool => tile_bool(kind, tiles),
        DType::I8 if depends_on_sign(kind) => tile_i8(kind, tiles),
        DType::I16 if depends_on_sign(kind) => tile_i16(kind, tiles),
        DType::I32 if depends_on_sign(kind) => tile_i32(kind, tiles),
        DType::I64 if depends_on_sign(kind) => tile_i64(kind, tiles),
        DType::I8 | DType::U8 => tile_u8(kind, tiles),
        DType::I16 | DType::U16 => tile_u16(kind, tiles),
        DType::I32 | DType::U32 => tile_u32(kind, tiles),
        DType::I64 | DType::U64 => tile_u64(kind, tiles),
        DType::F32 => tile_f32(kind, tiles),
        DType::F64 => tile_f64(kind, tiles),
        _ => unsupported(kind, dtype),
    }
}

/// `out = a op b`.
///
/// # Panics
/// If the kind does not support the type, or the lengths differ.
pub fn binary(kind: BinaryKind, dtype: DType, a: Operand<'_>, b: Operand<'_>, out: &mut [u8]) {
    match (a, b) {
        (Operand::Slice(a), Operand::Slice(b)) => {
            assert_eq!(a.len(), out.len(), "an operand's length differs from the result's");
            assert_eq!(b.len(), out.len(), "an operand's length differs from the result's");
            if is_native(dtype) {
                return run(kind, dtype, Tiles::Apart(a, b, out));
            }
            let strip = STRIP * dtype.size();
            for ((a, b), out) in a.chunks(strip).zip(b.chunks(strip)).zip(out.chunks_mut(strip)) {
                out.copy_from_slice(a);
                binary_in_place(kind, dtype, out, Operand::Slice(b));
            }
        }
        (Operand::Slice(a), b @ Operand::Splat(bits)) => {
            assert_eq!(a.len(), out.len(), "an operand's length differs from the result's");
            if is_native(dtype) && !out.is_empty() {
                let (len, size) = (out.len() / dtype.size(), dtype.size());
                if (kind, dtype) == (BinaryKind::Div, DType::F32)
                    && divide_by(a, f32::from_bits(bits as u32), out)
                {
                    return;
                }
                let bits = bits.to_le_bytes();
                return run(kind, dtype, Tiles::RightPerRow(len, a, &bits[..size], out));
            }
            for (a, out) in a.chunks(4096).zip(out.chunks_mut(4096)) {
                out.copy_from_slice(a);
                binary_in_place(kind, dtype, out, b);
            }
        }
        (a @ Operand::Splat(bits), Operand::Slice(b)) => {
            assert_eq!(b.len(), out.len(), "an operand's length differs from the result's");
            if is_native(dtype) && !out.is_empty() {
                let (len, size) = (out.len() / dtype.size(), dtype.size());
                let bits = bits.to_le_bytes();
                return run(kind, dtype, Tiles::LeftPerRow(len, &bits[..size], b, out));
            }
            for (b, out) in b.chunks(4096).zip(out.chunks_mut(4096)) {
                out.copy_from_slice(b);
                binary_in_place_rhs(kind, dtype, a, out);
            }
        }
        (Operand::Splat(a), Operand::Splat(b)) => {
            fill(dtype.size(), binary_scalar(kind, dtype, a, b), out);
        }
    }
}

/// `out = a op b` on rows of `len` elements, of which one operand has one scalar a row; `false` if
/// the type needs another way.
pub(super) fn binary_per_row(
    kind: BinaryKind,
    dtype: DType,
    len: usize,
    a: &[u8],
    b: &[u8],
    right_is_scalar: bool,
    out: &mut [u8],
) -> bool {
    if is_native(dtype) {
        let tiles = if right_is_scalar {
            Tiles::RightPerRow(len, a, b, out)
        } else {
            Tiles::LeftPerRow(len, a, b, out)
        };
        run(kind, dtype, tiles);
    }
    is_native(dtype)
}

/// `a = a op b`.
///
/// # Panics
/// If the kind does not support the type, or the lengths differ.
pub fn binary_in_place(kind: BinaryKind, dtype: DType, a: &mut [u8], b: Operand<'_>) {
    if let Operand::Slice(b) = b {
        assert_eq!(a.len(), b.len(), "the operands differ in length");
    }
    if is_native(dtype) {
        let tiles = match b {
            Operand::Slice(b) => Tiles::Left(a, b),
            Operand::Splat(b) => Tiles::LeftSplat(a, b),
        };
        return run(kind, dtype, tiles);
    }
    in_place_by_strips(kind, dtype, a, b, false);
}

/// `b = a op b`.
///
/// # Panics
/// If the kind does not support the type, or the lengths differ.
pub fn binary_in_place_rhs(kind: BinaryKind, dtype: DType, a: Operand<'_>, b: &mut [u8]) {
    if let Operand::Slice(a) = a {
        assert_eq!(a.len(), b.len(), "the operands differ in length");
    }
    if is_native(dtype) {
        let tiles = match a {
            Operand::Slice(a) => Tiles::Right(a, b),
            Operand::Splat(a) => Tiles::RightSplat(a, b),
        };
        return run(kind, dtype, tiles);
    }
    in_place_by_strips(kind, dtype, b, a, true);
}

/// Whether elements are computed as they are stored.
fn is_native(dtype: DType) -> bool {
    !is_narrow_float(dtype) && !dtype.is_sub_byte()
}

/// `x = x op y`, or `x = y op x` when swapped, of a type that is widened or wrapped.
fn in_place_by_strips(kind: BinaryKind, dtype: DType, x: &mut [u8], y: Operand<'_>, swapped: bool) {
    if !kind.supports(dtype) {
        unsupported(kind, dtype);
    }
    let strip = STRIP * dtype.size();
    if let Some((bits, _)) = sub_byte_int(dtype) {
        let mut other = [0; STRIP];
        for (i, x) in x.chunks_mut(strip).enumerate() {
            let other = &mut other[..x.len()];
            match y {
                Operand::Slice(y) => other.copy_from_slice(&y[i * strip..][..x.len()]),
                Operand::Splat(y) => other.fill(y as u8),
            }
            if swapped {
                sub_byte(kind, dtype, bits, other, x);
                x.copy_from_slice(other);
            } else {
                sub_byte(kind, dtype, bits, x, other);
            }
        }
        return;
    }
    let mut wide = [0f32; STRIP];
    let mut other = [0f32; STRIP];
    let splat = match y {
        Operand::Splat(y) => Some(widen_scalar(dtype, y).to_bits() as u64),
        Operand::Slice(_) => None,
    };
    for (i, x) in x.chunks_mut(strip).enumerate() {
        let len = x.len() / dtype.size();
        let (wide, other) = (&mut wide[..len], &mut other[..len]);
        widen(dtype, x, wide);
        if let Operand::Slice(y) = y {
            widen(dtype, &y[i * strip..][..x.len()], other);
        }
        let (own, other) = (bytemuck::cast_slice_mut(wide), bytemuck::cast_slice(other));
        let tiles = match (splat, swapped) {
            (None, false) => Tiles::Left(own, other),
            (Some(y), false) => Tiles::LeftSplat(own, y),
            (None, true) => Tiles::Right(other, own),
            (Some(y), true) => Tiles::RightSplat(y, own),
        };
        tile_f32(kind, tiles);
        narrow(dtype, wide, x);
    }
}

/// `a = a op b` on sub-byte integers: computed in the byte, then wrapped. A right shift must see the
/// sign where it fills with it, and zeros where it does not, whatever the type's own signedness.
fn sub_byte(kind: BinaryKind, dtype: DType, bits: u32, a: &mut [u8], b: &[u8]) {
    match kind {
        BinaryKind::ShrLogical => a.iter_mut().for_each(|a| *a = wrap_sub_byte(bits, false, *a)),
        BinaryKind::ShrArithmetic => a.iter_mut().for_each(|a| *a = wrap_sub_byte(bits, true, *a)),
        _ => {}
    }
    let byte = if matches!(dtype, DType::I2 | DType::I4) { DType::I8 } else { DType::U8 };
    run(kind, byte, Tiles::Left(a, b));
    wrap_sub_bytes(dtype, a);
}

/// [`binary`] of two scalar registers.
///
/// # Panics
/// If the kind does not support the type.
#[inline]
pub fn binary_scalar(kind: BinaryKind, dtype: DType, a: u64, b: u64) -> u64 {
    macro_rules! value {
        ($value:ident) => {
            $value(kind, Element::from_register(a), Element::from_register(b)).to_register()
        };
    }
    match dtype {
        DType::I32 => value!(value_i32),
        DType::I64 => value!(value_i64),
        DType::Bool => value!(value_bool),
        DType::F32 => value!(value_f32),
        DType::U32 => value!(value_u32),
        DType::U64 => value!(value_u64),
        DType::I8 => value!(value_i8),
        DType::I16 => value!(value_i16),
        DType::U8 => value!(value_u8),
        DType::U16 => value!(value_u16),
        DType::F64 => value!(value_f64),
        _ => binary_scalar_rare(kind, dtype, a, b),
    }
}

#[inline(never)]
fn binary_scalar_rare(kind: BinaryKind, dtype: DType, a: u64, b: u64) -> u64 {
    if is_narrow_float(dtype) && kind.supports(dtype) {
        let value = value_f32(kind, widen_scalar(dtype, a), widen_scalar(dtype, b));
        return narrow_scalar(dtype, value);
    }
    if !dtype.fits_scalar() {
        unsupported(kind, dtype);
    }
    let mut out = a.to_le_bytes();
    binary_in_place(kind, dtype, &mut out[..dtype.size()], Operand::Splat(b));
    u64::from_le_bytes(out)
}
