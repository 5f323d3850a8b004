//! The bit formats of the floating types narrower than `float32`, as `ml_dtypes` and IEEE define
//! them. Decoding is exact; encoding rounds once, to nearest, ties to even.
//!
//! Where `ml_dtypes` and XLA differ, XLA is followed: a NaN becomes `float4_e2m1fn` -0.

use crate::DType;

/// What a format does with its topmost codes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// An exponent of all ones means infinity or NaN, as in IEEE 754.
    Ieee,
    /// Only an exponent and mantissa of all ones is NaN; there is no infinity.
    NanOnly,
    /// The code of -0 is the only NaN; there is no infinity and no negative zero.
    NanIsNegativeZero,
    /// Neither infinity nor NaN: what is too large becomes the largest.
    Saturate,
}

/// A sign, `exponent_bits` and `mantissa_bits`, from the highest bit down.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: u32,
    special: Special,
}

const fn format(exponent_bits: u32, mantissa_bits: u32, bias: u32, special: Special) -> Format {
    Format { exponent_bits, mantissa_bits, bias, special }
}

pub(crate) const F4E2M1FN: Format = format(2, 1, 1, Special::Saturate);
pub(crate) const F8E3M4: Format = format(3, 4, 3, Special::Ieee);
pub(crate) const F8E4M3: Format = format(4, 3, 7, Special::Ieee);
pub(crate) const F8E4M3B11FNUZ: Format = format(4, 3, 11, Special::NanIsNegativeZero);
pub(crate) const F8E4M3FN: Format = format(4, 3, 7, Special::NanOnly);
pub(crate) const F8E4M3FNUZ: Format = format(4, 3, 8, Special::NanIsNegativeZero);
pub(crate) const F8E5M2: Format = format(5, 2, 15, Special::Ieee);
pub(crate) const F8E5M2FNUZ: Format = format(5, 2, 16, Special::NanIsNegativeZero);

const F32_MANTISSA_BITS: u32 = 23;
const F32_BIAS: u32 = 127;
const F32_INFINITY: u32 = 0x7f80_0000;
const F32_QUIET_NAN: u32 = 0x7fc0_0000;

impl Format {
    const fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The largest finite code, without the sign.
    const fn max_finite(self) -> u32 {
        let all_ones = self.sign_bit() - 1;
        match self.special {
            Special::Ieee => all_ones - (1 << self.mantissa_bits),
            Special::NanOnly => all_ones - 1,
            Special::NanIsNegativeZero | Special::Saturate => all_ones,
        }
    }

    /// What an infinity or an overflow becomes, without the sign.
    const fn overflow(self) -> u32 {
        match self.special {
            Special::Ieee | Special::NanOnly => self.max_finite() + 1,
            Special::NanIsNegativeZero => self.sign_bit(),
            Special::Saturate => self.max_finite(),
        }
    }

    /// What a NaN becomes, without the sign.
    const fn nan(self) -> u32 {
        match self.special {
            Special::Ieee => self.max_finite() + 1 + (1 << (self.mantissa_bits - 1)),
            Special::NanOnly => self.max_finite() + 1,
            Special::NanIsNegativeZero | Special::Saturate => self.sign_bit(),
        }
    }

    /// The code of the number nearest to `x`. Free of branches, so that a loop over it vectorises.
    #[inline(always)]
    pub(crate) fn encode(self, x: f32) -> u8 {
        let bits = x.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let dropped = F32_MANTISSA_BITS - self.mantissa_bits;

        // Exponent and mantissa are adjacent, so a carry out of the mantissa is the right one.
        let ties_to_even = (magnitude >> dropped) & 1;
        let rounded = (magnitude + (1 << (dropped - 1)) - 1 + ties_to_even) >> dropped;
        let normal = rounded.wrapping_sub((F32_BIAS - self.bias) << self.mantissa_bits);

        // Adding a number whose last place is the smallest subnormal rounds to a multiple of it.
        let shifter = (F32_BIAS + 1 - self.bias + dropped) << F32_MANTISSA_BITS;
        let shifted = f32::from_bits(magnitude) + f32::from_bits(shifter);
        let subnormal = shifted.to_bits().wrapping_sub(shifter);

        let min_normal = (F32_BIAS + 1 - self.bias) << F32_MANTISSA_BITS;
        let code = if magnitude < min_normal { subnormal } else { normal };
        // The normal code of a large number wraps nowhere: it only grows past the largest.
        let code = if code > self.max_finite() { self.overflow() } else { code };
        let code = if magnitude > F32_INFINITY { self.nan() } else { code };

        let sign = (bits >> 31) << (self.exponent_bits + self.mantissa_bits);
        // Without a negative zero, a sign without magnitude would mean NaN.
        let unsigned = self.special == Special::NanIsNegativeZero && code == 0;
        (if unsigned { 0 } else { code | sign }) as u8
    }

    /// The bits of the `float32` a code stands for.
    const fn decode_bits(self, code: u32) -> u32 {
        let sign = if code & self.sign_bit() != 0 { 1 << 31 } else { 0 };
        let magnitude = code & (self.sign_bit() - 1);
        if magnitude > self.max_finite() {
            let infinite = matches!(self.special, Special::Ieee) && magnitude == self.overflow();
            return sign | if infinite { F32_INFINITY } else { F32_QUIET_NAN };
        }
        if matches!(self.special, Special::NanIsNegativeZero) && code == self.sign_bit() {
            return sign | F32_QUIET_NAN;
        }
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let exponent = magnitude >> self.mantissa_bits;
        if exponent > 0 {
            let exponent = exponent + F32_BIAS - self.bias;
            let mantissa = mantissa << (F32_MANTISSA_BITS - self.mantissa_bits);
            return sign | exponent << F32_MANTISSA_BITS | mantissa;
        }
        if mantissa == 0 {
            return sign;
        }
        let leading = mantissa.ilog2();
        let exponent = leading + F32_BIAS + 1 - self.bias - self.mantissa_bits;
        let mantissa = (mantissa << (F32_MANTISSA_BITS - leading)) & ((1 << F32_MANTISSA_BITS) - 1);
        sign | exponent << F32_MANTISSA_BITS | mantissa
    }

    /// Every value; codes wider than the format repeat.
    const fn table(self) -> [f32; 256] {
        let mut values = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            values[code] = f32::from_bits(self.decode_bits(code as u32 % (2 * self.sign_bit())));
            code += 1;
        }
        values
    }
}

/// `float8_e8m0fnu`: a power of two and nothing else; negative numbers and zero are NaN. Ties go up
/// here, save the smallest, as `ml_dtypes` has it.
#[inline(always)]
pub(crate) fn encode_e8m0(x: f32) -> u8 {
    let bits = x.to_bits();
    let ties_up = (bits >= 1 << F32_MANTISSA_BITS) as u32;
    let rounded = bits.wrapping_add(0x3f_ffff + ties_up) >> F32_MANTISSA_BITS;
    if bits == 0 || bits >= F32_INFINITY { 0xff } else { rounded as u8 }
}

const fn e8m0_table() -> [f32; 256] {
    let mut values = [0.0; 256];
    values[0] = f32::from_bits(1 << (F32_MANTISSA_BITS - 1));
    let mut code = 1;
    while code < 255 {
        values[code] = f32::from_bits((code as u32) << F32_MANTISSA_BITS);
        code += 1;
    }
    values[255] = f32::from_bits(F32_QUIET_NAN);
    values
}

/// The values of an 8-bit (or narrower) floating type by code.
pub(crate) fn decode_table(dtype: DType) -> &'static [f32; 256] {
    macro_rules! tables {
        ($($name:ident)*) => {
            match dtype {
                $(DType::$name => {
                    static TABLE: [f32; 256] = $name.table();
                    &TABLE
                })*
                DType::F8E8M0FNU => {
                    static TABLE: [f32; 256] = e8m0_table();
                    &TABLE
                }
                _ => unreachable!("{dtype} is no 8-bit float"),
            }
        };
    }
    tables! { F4E2M1FN F8E3M4 F8E4M3 F8E4M3B11FNUZ F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ }
}

/// The value of an IEEE half. A NaN keeps its payload and becomes quiet.
#[inline(always)]
pub(crate) fn decode_f16(bits: u16) -> f32 {
    let sign = (bits as u32 & 0x8000) << 16;
    let magnitude = (bits as u32 & 0x7fff) << 13;
    let normal = magnitude + ((F32_BIAS - 15) << F32_MANTISSA_BITS);
    // A subnormal read as if it had the implicit bit is too large by exactly that bit.
    let implicit = (F32_BIAS - 14) << F32_MANTISSA_BITS;
    let subnormal = (f32::from_bits(magnitude + implicit) - f32::from_bits(implicit)).to_bits();
    let infinite = magnitude | F32_INFINITY;
    let quiet = if magnitude > 0x0f80_0000 { 0x40_0000 } else { 0 };
    let value = if magnitude < 1 << F32_MANTISSA_BITS { subnormal } else { normal };
    let value = if magnitude >= 0x0f80_0000 { infinite | quiet } else { value };
    f32::from_bits(sign | value)
}

/// The IEEE half nearest to `x`.
#[inline(always)]
pub(crate) fn encode_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let rounded = (magnitude + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    let normal = rounded.wrapping_sub((F32_BIAS - 15) << 10);
    let shifter = (F32_BIAS - 14 + 13) << F32_MANTISSA_BITS;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(shifter)).to_bits() - shifter;
    let min_normal = (F32_BIAS - 14) << F32_MANTISSA_BITS;
    let code = if magnitude < min_normal { subnormal } else { normal };
    let code = if code > 0x7bff { 0x7c00 } else { code };
    let nan = 0x7e00 | ((magnitude >> 13) & 0x1ff);
    let code = if magnitude > F32_INFINITY { nan } else { code };
    ((bits >> 16) & 0x8000 | code) as u16
}

/// The value of a `bfloat16`: the upper half of a `float32`.
#[inline(always)]
pub(crate) fn decode_bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// The `bfloat16` nearest to `x`.
#[inline(always)]
pub(crate) fn encode_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 31) << 15 | 0x7fc0;
    (if bits & 0x7fff_ffff > F32_INFINITY { nan } else { rounded }) as u16
}

/// `x` as `float32` such that rounding the result to at most 22 bits equals rounding `x` itself:
/// truncated, with the last bit set if anything was lost (rounding to odd).
#[inline(always)]
pub(crate) fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let bits = nearest.to_bits();
    let back = nearest as f64;
    // The nearest neighbour lies beyond `x` (step back towards zero) or before it.
    let beyond = (back.abs() > x.abs()) as u32;
    let inexact = (back != x && !x.is_nan()) as u32;
    f32::from_bits(bits.wrapping_sub(beyond) | inexact)
}
