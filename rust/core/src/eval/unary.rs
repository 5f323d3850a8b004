//! Operations of one operand.

use super::int::Int;
use super::unsupported;
use crate::element::{
    Element, elements, elements_mut, sub_byte_int, wrap_sub_byte, wrap_sub_bytes,
};
use crate::isa::for_each_isa;
use crate::math::{Real, fast};
use crate::strip::{STRIP, is_narrow_float, narrow, narrow_scalar, widen, widen_scalar};
use crate::{DType, UnaryKind};

/// On floats. [`UnaryKind::IsFinite`] has its own function, as its result is `bool`.
macro_rules! float_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Neg = |x| -x;
        Abs = |x| x.abs();
        Sign = |x| Real::sign(x);
        Exp = |x| Real::exp(x);
        Exp2 = |x| Real::exp2(x);
        Expm1 = |x| Real::expm1(x);
        Log = |x| Real::log(x);
        Log2 = |x| Real::log2(x);
        Log1p = |x| Real::log1p(x);
        Sqrt = |x| x.sqrt();
        Rsqrt = |x| Real::rsqrt(x);
        Cbrt = |x| Real::cbrt(x);
        Sin = |x| Real::sin(x);
        Cos = |x| Real::cos(x);
        Tan = |x| Real::tan(x);
        Asin = |x| Real::asin(x);
        Acos = |x| Real::acos(x);
        Atan = |x| Real::atan(x);
        Sinh = |x| Real::sinh(x);
        Cosh = |x| Real::cosh(x);
        Tanh = |x| Real::tanh(x);
        Asinh = |x| Real::asinh(x);
        Acosh = |x| Real::acosh(x);
        Atanh = |x| Real::atanh(x);
        Logistic = |x| Real::logistic(x);
        Erf = |x| Real::erf(x);
        Erfc = |x| Real::erfc(x);
        ErfInv = |x| Real::erf_inv(x);
        Lgamma = |x| Real::lgamma(x);
        Digamma = |x| Real::digamma(x);
        Floor = |x| x.floor();
        Ceil = |x| x.ceil();
        RoundHalfEven = |x| x.round_ties_even();
        RoundHalfAway = |x| x.round();
        Square = |x| x * x;
        OneMinusSquare = |x| 1.0 - x * x;
    } };
}

/// On signed and unsigned integers.
macro_rules! int_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Neg = |x| x.wrapping_neg();
        Abs = |x| Int::abs(x);
        Sign = |x| Int::sign(x);
        Not = |x| !x;
        Square = |x| x.wrapping_mul(x);
        OneMinusSquare = |x| (1 as _Self).wrapping_sub(x.wrapping_mul(x));
        PopulationCount = |x| Int::population_count(x);
        Clz = |x| Int::clz(x);
    } };
}

/// On `bool`, a byte of 0 or 1.
macro_rules! bool_table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Not = |x| x ^ 1;
    } };
}

macro_rules! any_of {
    ($value:ident: $($kind:ident = $function:expr;)*) => {
        matches!($value, $(UnaryKind::$kind)|*)
    };
}

impl UnaryKind {
    /// Whether the operation is defined on a type.
    pub fn supports(self, dtype: DType) -> bool {
        match dtype {
            DType::Bool => bool_table!(any_of!(self:)),
            _ if dtype.is_int() => int_table!(any_of!(self:)),
            _ if dtype.is_float() => self == UnaryKind::IsFinite || float_table!(any_of!(self:)),
            _ => false,
        }
    }

    /// The type of the result.
    pub fn result(self, operand: DType) -> DType {
        if self == UnaryKind::IsFinite { DType::Bool } else { operand }
    }
}

#[inline(always)]
fn map<T: Element>(x: &mut [u8], f: impl Fn(T) -> T) {
    for x in elements_mut::<T>(x) {
        *x = f(T::load(*x)).store();
    }
}

#[inline(always)]
fn apply<T: Element>(x: T, f: impl Fn(T) -> T) -> T {
    f(x)
}

/// Makes the loop `$tile` and the scalar function `$value` of one element type from a table.
macro_rules! instantiate {
    ($tile:ident $value:ident $type:ident $dtype:ident: $($kind:ident = $function:expr;)*) => {
        for_each_isa! {
            fn $tile(kind: UnaryKind, x: &mut [u8]) {
                #[allow(dead_code, reason = "only some tables name their type")]
                type _Self = $type;
                match kind {
                    $(UnaryKind::$kind => map::<$type>(x, $function),)*
                    _ => unsupported(kind, DType::$dtype),
                }
            }
        }

        #[inline]
        fn $value(kind: UnaryKind, x: $type) -> $type {
            #[allow(dead_code, reason = "only some tables name their type")]
            type _Self = $type;
            match kind {
                $(UnaryKind::$kind => apply::<$type>(x, $function),)*
                _ => unsupported(kind, DType::$dtype),
            }
        }
    };
}
bool_table!(instantiate!(tile_bool value_bool u8 Bool:));
int_table!(instantiate!(tile_i8 value_i8 i8 I8:));
int_table!(instantiate!(tile_i16 value_i16 i16 I16:));
int_table!(instantiate!(tile_i32 value_i32 i32 I32:));
int_table!(instantiate!(tile_i64 value_i64 i64 I64:));
int_table!(instantiate!(tile_u8 value_u8 u8 U8:));
int_table!(instantiate!(tile_u16 value_u16 u16 U16:));
int_table!(instantiate!(tile_u32 value_u32 u32 U32:));
int_table!(instantiate!(tile_u64 value_u64 u64 U64:));
float_table!(instantiate!(tile_f32 value_f32 f32 F32:));
float_table!(instantiate!(tile_f64 value_f64 f64 F64:));

fn unary_f32(kind: UnaryKind, x: &mut [u8]) {
    match kind {
        UnaryKind::Sin | UnaryKind::Cos => tile_angles(kind, x),
        UnaryKind::Exp => tile_exp(x),
        _ => tile_f32(kind, x),
    }
}

for_each_isa! {
    /// Sine or cosine, vectorised where no angle of a strip is huge.
    fn tile_angles(kind: UnaryKind, x: &mut [u8]) {
        for strip in x.chunks_mut(4 * STRIP) {
            let angles = elements::<f32>(strip).iter().map(|x| f32::load(*x));
            // Without an early exit, so that this vectorises as well.
            let moderate = angles.fold(true, |all, x| all & fast::is_moderate_angle(x));
            match kind {
                UnaryKind::Sin if moderate => map::<f32>(strip, fast::sin_moderate),
                UnaryKind::Cos if moderate => map::<f32>(strip, fast::cos_moderate),
                _ => tile_f32(kind, strip),
            }
        }
    }
}

/// Elements that take the long way together if one of them is not moderate.
const EXP_GROUP: usize = 128;

for_each_isa! {
    /// Exponentials, with fewer operations where no result of a group is close to overflow or
    /// underflow.
    fn tile_exp(x: &mut [u8]) {
        let (groups, rest) = x.as_chunks_mut::<{ 4 * EXP_GROUP }>();
        for group in groups {
            let exponents = elements::<f32>(group).iter().map(|x| f32::load(*x));
            // Without an early exit, so that this vectorises as well.
            let moderate = exponents.fold(true, |all, x| all & fast::is_moderate_exponent(x));
            if moderate {
                map::<f32>(group, fast::exp_moderate);
            } else {
                map::<f32>(group, Real::exp);
            }
        }
        map::<f32>(rest, Real::exp);
    }
}

/// `out = kind(x)`; `out` has the type [`UnaryKind::result`].
///
/// # Panics
/// If the kind does not support the type, or the lengths differ.
pub fn unary(kind: UnaryKind, dtype: DType, x: &[u8], out: &mut [u8]) {
    if kind == UnaryKind::IsFinite {
        return is_finite(dtype, x, out);
    }
    assert_eq!(x.len(), out.len(), "operand and result differ in length");
    for (x, out) in x.chunks(4096).zip(out.chunks_mut(4096)) {
        out.copy_from_slice(x);
        unary_in_place(kind, dtype, out);
    }
}

/// `x = kind(x)`, where the result has the operand's type.
///
/// # Panics
/// If the kind does not support the type, or is [`UnaryKind::IsFinite`].
pub fn unary_in_place(kind: UnaryKind, dtype: DType, x: &mut [u8]) {
    match dtype {
        DType::Bool => tile_bool(kind, x),
        DType::I2 | DType::I4 | DType::U2 | DType::U4 => sub_byte_in_place(kind, dtype, x),
        DType::I8 => tile_i8(kind, x),
        DType::I16 => tile_i16(kind, x),
        DType::I32 => tile_i32(kind, x),
        DType::I64 => tile_i64(kind, x),
        DType::U8 => tile_u8(kind, x),
        DType::U16 => tile_u16(kind, x),
        DType::U32 => tile_u32(kind, x),
        DType::U64 => tile_u64(kind, x),
        DType::F32 => unary_f32(kind, x),
        DType::F64 => tile_f64(kind, x),
        DType::C64 | DType::C128 => unsupported(kind, dtype),
        _ => {
            let mut wide = [0f32; STRIP];
            for strip in x.chunks_mut(STRIP * dtype.size()) {
                let wide = &mut wide[..strip.len() / dtype.size()];
                widen(dtype, strip, wide);
                unary_f32(kind, bytemuck::cast_slice_mut(wide));
                narrow(dtype, wide, strip);
            }
        }
    }
}

/// Computes in the byte and wraps. Counting bits must not see the copies of the sign.
fn sub_byte_in_place(kind: UnaryKind, dtype: DType, x: &mut [u8]) {
    let Some((bits, signed)) = sub_byte_int(dtype) else { unsupported(kind, dtype) };
    match kind {
        UnaryKind::PopulationCount | UnaryKind::Clz => {
            let unused = if kind == UnaryKind::Clz { 8 - bits as u8 } else { 0 };
            for x in &mut *x {
                *x = wrap_sub_byte(bits, false, *x);
            }
            tile_u8(kind, x);
            for x in &mut *x {
                *x -= unused;
            }
        }
        _ if signed => tile_i8(kind, x),
        _ => tile_u8(kind, x),
    }
    wrap_sub_bytes(dtype, x);
}

fn is_finite(dtype: DType, x: &[u8], out: &mut [u8]) {
    assert_eq!(x.len(), out.len() * dtype.size(), "operand and result differ in length");
    if dtype == DType::F64 {
        for (x, out) in x.as_chunks().0.iter().zip(out) {
            *out = f64::from_le_bytes(*x).is_finite() as u8;
        }
        return;
    }
    if !dtype.is_float() {
        unsupported(UnaryKind::IsFinite, dtype);
    }
    let mut wide = [0f32; STRIP];
    for (x, out) in x.chunks(STRIP * dtype.size()).zip(out.chunks_mut(STRIP)) {
        let wide = &mut wide[..out.len()];
        widen(dtype, x, wide);
        for (x, out) in wide.iter().zip(out) {
            *out = x.is_finite() as u8;
        }
    }
}

/// [`unary`] of one scalar register.
///
/// # Panics
/// If the kind does not support the type.
#[inline]
pub fn unary_scalar(kind: UnaryKind, dtype: DType, x: u64) -> u64 {
    macro_rules! value {
        ($value:ident) => {
            $value(kind, Element::from_register(x)).to_register()
        };
    }
    match dtype {
        DType::I32 => value!(value_i32),
        DType::I64 => value!(value_i64),
        DType::Bool => value!(value_bool),
        DType::F32 if kind != UnaryKind::IsFinite => value!(value_f32),
        DType::U32 => value!(value_u32),
        DType::U64 => value!(value_u64),
        DType::I8 => value!(value_i8),
        DType::I16 => value!(value_i16),
        DType::U8 => value!(value_u8),
        DType::U16 => value!(value_u16),
        DType::F64 if kind != UnaryKind::IsFinite => value!(value_f64),
        _ => unary_scalar_rare(kind, dtype, x),
    }
}

#[inline(never)]
fn unary_scalar_rare(kind: UnaryKind, dtype: DType, x: u64) -> u64 {
    if is_narrow_float(dtype) && kind != UnaryKind::IsFinite {
        return narrow_scalar(dtype, value_f32(kind, widen_scalar(dtype, x)));
    }
    if !dtype.fits_scalar() {
        unsupported(kind, dtype);
    }
    let size = dtype.size();
    let mut out = [0; 8];
    let out_size = kind.result(dtype).size();
    unary(kind, dtype, &x.to_le_bytes()[..size], &mut out[..out_size]);
    u64::from_le_bytes(out)
}
