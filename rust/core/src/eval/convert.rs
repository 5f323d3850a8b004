//! Conversions between element types.
//!
//! To an integer from a float: truncated towards zero and saturated, NaN becomes zero. Between
//! integers: wrapped. To `bool`: whether it differs from zero (a NaN does). To a float: rounded
//! once, to nearest, ties to even, save that narrow floats are reached from integers, and `bfloat16`
//! and `float8_e8m0fnu` from `float64`, through `float32`.

use crate::element::{Element, elements, elements_mut, sub_byte_int, wrap_sub_bytes};
use crate::float_format::round_to_odd;
use crate::isa::for_each_isa;
use crate::strip::{STRIP, is_narrow_float, narrow, narrow_scalar, widen, widen_scalar};
use crate::{Class, DType};

use super::unsupported;

/// The Rust number a type is converted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repr {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

fn repr(dtype: DType) -> Repr {
    match dtype {
        DType::I2 | DType::I4 | DType::I8 => Repr::I8,
        DType::I16 => Repr::I16,
        DType::I32 => Repr::I32,
        DType::I64 => Repr::I64,
        DType::Bool | DType::U2 | DType::U4 | DType::U8 => Repr::U8,
        DType::U16 => Repr::U16,
        DType::U32 => Repr::U32,
        DType::U64 => Repr::U64,
        DType::F64 => Repr::F64,
        _ => Repr::F32,
    }
}

/// Whether [`convert`] is defined: between all types that are not complex, and from each to itself.
pub fn convert_supports(from: DType, to: DType) -> bool {
    from == to || (from.fits_scalar() && to.fits_scalar())
}

#[inline(always)]
fn map<T: Element, U: Element>(x: &[u8], out: &mut [u8], f: impl Fn(T) -> U) {
    for (x, out) in elements::<T>(x).iter().zip(elements_mut::<U>(out)) {
        *out = f(T::load(*x)).store();
    }
}

/// What a cast is for where the number alone does not say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Rust's `as`, which saturates floats and wraps integers.
    Plain,
    /// Whether the number differs from zero.
    NonZero,
    /// `float64` to be rounded again, to a narrower type than `float32`.
    ToOdd,
}

macro_rules! casts {
    ($($name:ident $from:ident;)*) => { $(
        for_each_isa! {
            fn $name(to: Repr, purpose: Purpose, x: &[u8], out: &mut [u8]) {
                match (purpose, to) {
                    (Purpose::NonZero, _) => {
                        map::<$from, u8>(x, out, |x| (x != <$from>::default()) as u8);
                    }
                    (Purpose::ToOdd, _) => {
                        map::<$from, f32>(x, out, |x| round_to_odd(x as f64));
                    }
                    (_, Repr::I8) => map::<$from, i8>(x, out, |x| x as i8),
                    (_, Repr::I16) => map::<$from, i16>(x, out, |x| x as i16),
                    (_, Repr::I32) => map::<$from, i32>(x, out, |x| x as i32),
                    (_, Repr::I64) => map::<$from, i64>(x, out, |x| x as i64),
                    (_, Repr::U8) => map::<$from, u8>(x, out, |x| x as u8),
                    (_, Repr::U16) => map::<$from, u16>(x, out, |x| x as u16),
                    (_, Repr::U32) => map::<$from, u32>(x, out, |x| x as u32),
                    (_, Repr::U64) => map::<$from, u64>(x, out, |x| x as u64),
                    (_, Repr::F32) => map::<$from, f32>(x, out, |x| x as f32),
                    (_, Repr::F64) => map::<$from, f64>(x, out, |x| x as f64),
                }
            }
        }
    )* };
}
casts! {
    from_i8 i8;
    from_i16 i16;
    from_i32 i32;
    from_i64 i64;
    from_u8 u8;
    from_u16 u16;
    from_u32 u32;
    from_u64 u64;
    from_f32 f32;
    from_f64 f64;
}

fn cast(from: Repr, to: Repr, purpose: Purpose, x: &[u8], out: &mut [u8]) {
    match from {
        Repr::I8 => from_i8(to, purpose, x, out),
        Repr::I16 => from_i16(to, purpose, x, out),
        Repr::I32 => from_i32(to, purpose, x, out),
        Repr::I64 => from_i64(to, purpose, x, out),
        Repr::U8 => from_u8(to, purpose, x, out),
        Repr::U16 => from_u16(to, purpose, x, out),
        Repr::U32 => from_u32(to, purpose, x, out),
        Repr::U64 => from_u64(to, purpose, x, out),
        Repr::F32 => from_f32(to, purpose, x, out),
        Repr::F64 => from_f64(to, purpose, x, out),
    }
}

/// Converts a tile.
///
/// # Panics
/// If the conversion is not one of [`convert_supports`], or the tiles differ in length.
pub fn convert(from: DType, to: DType, x: &[u8], out: &mut [u8]) {
    let (from_size, to_size) = (from.size(), to.size());
    assert_eq!(x.len() * to_size, out.len() * from_size, "operand and result differ in length");
    if from == to {
        return out.copy_from_slice(x);
    }
    if !convert_supports(from, to) {
        unsupported(format_args!("conversion to {to}"), from);
    }
    // The direct ways need no strips: nothing is widened before or narrowed after.
    let (decode, encode) = (is_narrow_float(from), is_narrow_float(to));
    let purpose = match (from, to) {
        (_, DType::Bool) => Purpose::NonZero,
        (DType::F64, DType::BF16 | DType::F8E8M0FNU) => Purpose::Plain,
        (DType::F64, _) if encode => Purpose::ToOdd,
        _ => Purpose::Plain,
    };
    let mut decoded = [0f32; STRIP];
    let mut rounded = [0f32; STRIP];
    for (x, out) in x.chunks(STRIP * from_size).zip(out.chunks_mut(STRIP * to_size)) {
        let len = x.len() / from_size;
        let decoded = &mut decoded[..len];
        if decode {
            widen(from, x, decoded);
        }
        if decode && encode {
            narrow(to, decoded, out);
            continue;
        }
        let source = if decode { bytemuck::cast_slice(decoded) } else { x };
        if encode {
            let rounded = &mut rounded[..len];
            let target = bytemuck::cast_slice_mut(rounded);
            cast(repr(from), Repr::F32, purpose, source, target);
            narrow(to, rounded, out);
            continue;
        }
        cast(repr(from), repr(to), purpose, source, out);
        match sub_byte_int(to) {
            Some((bits, signed)) if from.is_float() => saturate_sub_byte(bits, signed, out),
            _ => wrap_sub_bytes(to, out),
        }
    }
}

/// Narrows what saturated to a byte to fewer bits.
fn saturate_sub_byte(bits: u32, signed: bool, x: &mut [u8]) {
    if signed {
        let high = (1i8 << (bits - 1)) - 1;
        for x in x {
            *x = (*x as i8).clamp(!high, high) as u8;
        }
    } else {
        let high = (1u8 << bits) - 1;
        for x in x {
            *x = (*x).min(high);
        }
    }
}

/// [`convert`] of one scalar register.
///
/// # Panics
/// If the conversion is not one of [`convert_supports`].
#[inline]
pub fn convert_scalar(from: DType, to: DType, x: u64) -> u64 {
    match (from, to) {
        (DType::I32, DType::I64) => x as i32 as i64 as u64,
        (DType::I64 | DType::U64 | DType::U32, DType::I32 | DType::U32) => x as u32 as u64,
        (DType::I32, DType::U32)
        | (DType::U32, DType::I64 | DType::U64)
        | (DType::Bool, DType::I32 | DType::U32 | DType::I64 | DType::U64) => x,
        (DType::I32 | DType::I64 | DType::U32, DType::Bool) => (x != 0) as u64,
        (DType::I32, DType::F32) => (x as i32 as f32).to_bits() as u64,
        (DType::F32, DType::I32) => f32::from_bits(x as u32) as i32 as u32 as u64,
        _ if from == to => x,
        _ if is_narrow_float(from) && to == DType::F32 => widen_scalar(from, x).to_bits() as u64,
        _ if is_narrow_float(to) && from == DType::F32 => {
            narrow_scalar(to, f32::from_bits(x as u32))
        }
        _ => convert_scalar_rare(from, to, x),
    }
}

#[inline(never)]
fn convert_scalar_rare(from: DType, to: DType, x: u64) -> u64 {
    if from.class() == Class::Complex || to.class() == Class::Complex {
        unsupported(format_args!("conversion to {to}"), from);
    }
    let mut out = [0; 8];
    convert(from, to, &x.to_le_bytes()[..from.size()], &mut out[..to.size()]);
    u64::from_le_bytes(out)
}
