//! `f32` functions free of branches and calls, so that loops over them vectorise.
//!
//! No operation is fused: targets without a fused multiply-add would call a slow routine, and the
//! bits would depend on the target. Largest errors, found by the sweeps in `tests`, in units in the
//! last place: `exp`, `exp2`, `expm1`, `log`, `log2`, `log1p` below 2, `tanh` below 2, `erf`, `sin`
//! and `cos` below 1. Subnormal results and arguments are handled; NaNs propagate.
//!
//! The polynomials are Chebyshev fits of the functions named beside them, made for this crate.

use core::f32::consts::{LN_2, LOG2_E};

/// Adding and subtracting this rounds to an integer, which the low bits then hold.
const ROUND: f32 = 12_582_912.0;

/// The logarithm of two in two parts: the first has so few bits that multiples of it by exponents
/// are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// Horner's rule, lowest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + coefficients[i];
    }
    sum
}

/// `(e^r - 1 - r) / r^2` for `|r|` up to half the logarithm of two.
const EXP: [f32; 5] = [0.5, 0.166_665_73, 0.041_666_456, 0.008_363_777, 0.001_393_454_5];

/// `2^n` in two factors whose product may be subnormal or infinite; `n` within ±252.
#[inline(always)]
fn scale(n: i32) -> (f32, f32) {
    let half = n >> 1;
    let power = |n: i32| f32::from_bits(((n + 127) as u32) << 23);
    (power(half), power(n - half))
}

/// The nearest integer to `x`, as a float and as an integer; `|x|` below 2^22.
#[inline(always)]
fn round(x: f32) -> (f32, i32) {
    let shifted = x + ROUND;
    (shifted - ROUND, shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32)
}

/// Keeps `x` between the bounds; a NaN stays.
#[inline(always)]
fn limit(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `e^r - 1` for `|r|` up to half the logarithm of two.
#[inline(always)]
fn expm1_reduced(r: f32) -> f32 {
    r + r * r * polynomial(r, EXP)
}

/// `x` as a multiple of the logarithm of two and a rest.
#[inline(always)]
fn reduce_exp(x: f32) -> (f32, i32) {
    let (n, n_int) = round(x * LOG2_E);
    (x - n * LN_2_HIGH - n * LN_2_LOW, n_int)
}

/// `e^x`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Beyond these the result is zero or infinite.
    let (r, n) = reduce_exp(limit(x, -105.0, 90.0));
    let (low, high) = scale(n);
    (1.0 + expm1_reduced(r)) * low * high
}

/// Whether [`exp_moderate`] serves: neither the result nor a factor of it is subnormal or infinite.
#[inline(always)]
pub(crate) fn is_moderate_exponent(x: f32) -> bool {
    x.abs() <= 87.0
}

/// [`exp`] of a moderate exponent, bit for bit: the power of two is added to the exponent.
#[inline(always)]
pub(crate) fn exp_moderate(x: f32) -> f32 {
    let (r, n) = reduce_exp(x);
    let mantissa = 1.0 + expm1_reduced(r);
    f32::from_bits(mantissa.to_bits().wrapping_add((n << 23) as u32))
}

/// `2^x`.
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    let x = limit(x, -151.0, 129.0);
    let (n, n_int) = round(x);
    let (low, high) = scale(n_int);
    (1.0 + expm1_reduced((x - n) * LN_2)) * low * high
}

/// `e^x - 1`.
#[inline(always)]
pub(super) fn expm1(x: f32) -> f32 {
    // Above, the result is infinite; the exponent must not pass that of the largest number.
    let (r, n) = reduce_exp(limit(x, -20.0, 88.8));
    // `2^n` itself may overflow where the result does not.
    let half = f32::from_bits(((n + 126) as u32) << 23);
    let result = (half * expm1_reduced(r) + (half - 0.5)) * 2.0;
    if x == 0.0 { x } else { result }
}

/// `(log(1 + f) - f + f^2 / 2) / f^3` for `1 + f` from the root of a half to the root of two.
const LOG: [f32; 9] = [
    0.333_333_3,
    -0.249_999_9,
    0.200_007_08,
    -0.166_684_8,
    0.142_499_37,
    -0.124_110_505,
    0.116_615_11,
    -0.115_712_01,
    0.071_497_54,
];

/// A positive finite `x` as `2^e * (1 + f)`: returns `e`, `f`.
#[inline(always)]
fn reduce_log(x: f32) -> (f32, f32) {
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let normal = if subnormal { x * 8_388_608.0 } else { x };
    let correction = if subnormal { 23 } else { 0 };
    let offset = normal.to_bits().wrapping_sub(ROOT_HALF);
    let exponent = (offset as i32) >> 23;
    let mantissa = f32::from_bits((offset & 0x7f_ffff) + ROOT_HALF);
    ((exponent - correction) as f32, mantissa - 1.0)
}

/// The results that the logarithms of any base share: of zero, of negative numbers, of infinity.
#[inline(always)]
fn log_special(x: f32, result: f32) -> f32 {
    let result = if x == f32::INFINITY { x } else { result };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    // Catches NaN as well.
    if x >= 0.0 { result } else { f32::NAN }
}

/// The part of `log(1 + f)` beyond `f`.
#[inline(always)]
fn log_tail(f: f32) -> f32 {
    let square = f * f;
    square * f * polynomial(f, LOG) - 0.5 * square
}

/// Natural logarithm.
#[inline(always)]
pub(super) fn log(x: f32) -> f32 {
    let (e, f) = reduce_log(x);
    log_special(x, e * LN_2_HIGH + (f + (log_tail(f) + e * LN_2_LOW)))
}

/// Logarithm to base two.
#[inline(always)]
pub(super) fn log2(x: f32) -> f32 {
    // One is split off the factor, so that the large part of the product is exact.
    const LOG2_E_MINUS_1: f32 = 0.442_695_04;
    let (e, f) = reduce_log(x);
    let tail = log_tail(f);
    log_special(x, e + (f + (tail + (f * LOG2_E_MINUS_1 + tail * LOG2_E_MINUS_1))))
}

/// `log(1 + x)`.
#[inline(always)]
pub(super) fn log1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    // What the sum lost, to first order.
    let lost = if x > 1.0 { 1.0 - (sum - x) } else { x - (sum - 1.0) };
    let (e, f) = reduce_log(sum);
    let tail = log_tail(f) + lost / sum;
    let result = log_special(sum, e * LN_2_HIGH + (f + (tail + e * LN_2_LOW)));
    if x == 0.0 { x } else { result }
}

/// `(tanh(x) / x - 1) / x^2` by the square of `x`, up to 0.64.
const TANH: [f32; 6] =
    [-0.333_333_34, 0.133_332_97, -0.053_957_775, 0.021_756_927, -0.008_305_101, 0.002_249_316_5];

/// Hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    let small = x + x * square * polynomial(square, TANH);
    let large = (1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0)).copysign(x);
    if magnitude < 0.625 { small } else { large }
}

/// `erf(x) / x` by the square of `x`, up to 3.95. Evaluated in `f64`, as the terms cancel.
const ERF: [f64; 19] = [
    1.128379166972984,
    -0.37612638323202036,
    0.11283787094618783,
    -0.026866026899439628,
    0.005223738092325068,
    -0.0008545879728945099,
    0.00012038617858611607,
    -1.4844873988691759e-05,
    1.6174782727185858e-06,
    -1.5591568483542814e-07,
    1.3191851656612879e-08,
    -9.63598128705548e-10,
    5.934841429859006e-11,
    -2.9930878397395447e-12,
    1.1927530913084585e-13,
    -3.586253484366546e-15,
    7.602416369226044e-17,
    -1.0085147606755853e-18,
    6.277831539209603e-21,
];

/// Horner's rule in `f64`.
#[inline(always)]
fn polynomial_f64<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + coefficients[i];
    }
    sum
}

/// Error function.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    // From here on the nearest number is one.
    let limited = limit(x, -3.94, 3.94) as f64;
    let result = (limited * polynomial_f64(limited * limited, &ERF)) as f32;
    if x.abs() > 3.92 { 1f32.copysign(x) } else { result }
}

/// `(sin(r) / r - 1) / r^2` and `(cos(r) - 1 + r^2 / 2) / r^4` by the square of `r`, up to a quarter
/// of pi.
const SIN: [f64; 4] =
    [-0.166666666636259, 0.00833333178609519, -0.00019840039244343728, 2.724382079351951e-06];
const COS: [f64; 4] =
    [0.041666666664129416, -0.0013888887597955037, 2.4800560695672515e-05, -2.729585897937038e-07];

/// The largest angle whose reduction in [`sin_of_quadrant`] is exact enough.
const LARGEST_ANGLE: f32 = 1_000_000.0;

/// Whether [`sin_moderate`] and [`cos_moderate`] serve.
#[inline(always)]
pub(crate) fn is_moderate_angle(x: f32) -> bool {
    x.abs() <= LARGEST_ANGLE
}

/// The sine of `x` plus so many quarter turns. Reduction and polynomial are `f64`'s.
#[inline(always)]
fn sin_of_quadrant(x: f32, quarter_turns: i32) -> f32 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
    const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;
    let x = x as f64;
    let shifted = x * core::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    let quadrant = (shifted.to_bits() as i32).wrapping_add(quarter_turns);
    let r = x - n * HALF_PI_HIGH - n * HALF_PI_LOW;
    let square = r * r;
    let sin = r + r * square * polynomial_f64(square, &SIN);
    let cos = 1.0 - 0.5 * square + square * square * polynomial_f64(square, &COS);
    let value = (if quadrant & 1 == 0 { sin } else { cos }) as f32;
    f32::from_bits(value.to_bits() ^ ((quadrant as u32 & 2) << 30))
}

/// Sine of a moderate angle, or of a NaN.
#[inline(always)]
pub(crate) fn sin_moderate(x: f32) -> f32 {
    let result = sin_of_quadrant(x, 0);
    if x == 0.0 { x } else { result }
}

/// Cosine of a moderate angle, or of a NaN.
#[inline(always)]
pub(crate) fn cos_moderate(x: f32) -> f32 {
    sin_of_quadrant(x, 1)
}

/// Sine.
#[inline]
pub(super) fn sin(x: f32) -> f32 {
    if is_moderate_angle(x) { sin_moderate(x) } else { libm::sin(x as f64) as f32 }
}

/// Cosine.
#[inline]
pub(super) fn cos(x: f32) -> f32 {
    if is_moderate_angle(x) { cos_moderate(x) } else { libm::cos(x as f64) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moderate_exponents_have_the_bits_of_all_others() {
        let moderate = (0..1u64 << 32).step_by(1021).map(|bits| f32::from_bits(bits as u32));
        for x in moderate.chain([87.0, -87.0, 0.0, -0.0]).filter(|&x| is_moderate_exponent(x)) {
            assert_eq!(exp_moderate(x).to_bits(), exp(x).to_bits(), "e^{x:e}");
        }
    }
}
