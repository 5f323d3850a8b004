//! Special functions of `f64` that `libm` lacks or treats otherwise than XLA.

use core::f64::consts::PI;

/// `log |gamma(x)|`; infinite at the poles.
pub(super) fn lgamma(x: f64) -> f64 {
    if x.is_infinite() { f64::INFINITY } else { libm::lgamma(x) }
}

/// Inverse hyperbolic cosine; `libm`'s is wrong below one.
pub(super) fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// Bernoulli numbers `B_2k / 2k`: the coefficients of [`digamma`]'s asymptotic series.
const SERIES: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 120.0,
    1.0 / 252.0,
    -1.0 / 240.0,
    1.0 / 132.0,
    -691.0 / 32760.0,
    1.0 / 12.0,
    -3617.0 / 8160.0,
];

/// The derivative of [`lgamma`]: reflection for negative arguments, the recurrence up to 12, then
/// the asymptotic series, whose first neglected term is below 1e-17 there. NaN at the poles but
/// that at zero.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x < 0.0 && x == x.floor() {
        return f64::NAN;
    }
    if x < 0.0 {
        // The tangent has period one in units of pi: reduce first, while it is exact.
        return digamma(1.0 - x) - PI / libm::tan(PI * (x - x.round()));
    }
    let mut x = x;
    let mut shift = 0.0;
    while x < 12.0 {
        shift -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let tail = SERIES.iter().rev().fold(0.0, |sum, term| sum * z + term) * z;
    shift + libm::log(x) - 0.5 / x - tail
}

/// The inverse of the error function: Winitzki's closed form, then Halley's method, which triples
/// the correct digits with each step.
pub(super) fn erf_inv(y: f64) -> f64 {
    if y.is_nan() || y.abs() > 1.0 {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    let magnitude = y.abs();
    let log = libm::log1p(-magnitude * magnitude);
    let a = 0.147;
    let b = 2.0 / (PI * a) + log / 2.0;
    let mut x = ((b * b - log / a).sqrt() - b).max(0.0).sqrt();
    for _ in 0..3 {
        // Near one the difference of the functions cancels; that of their complements does not.
        let error = if magnitude > 0.5 {
            (1.0 - magnitude) - libm::erfc(x)
        } else {
            libm::erf(x) - magnitude
        };
        let newton = error * libm::exp(x * x) * (PI.sqrt() / 2.0);
        x -= newton / (1.0 + x * newton);
    }
    x.copysign(y)
}
