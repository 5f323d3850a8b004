//! Elementary functions against `f64` over dense sweeps.

use pallas_rs_core::{DType, UnaryKind, unary, unary_scalar};

/// The largest error of `kind` over every `step`-th `float32`, in units in the last place of the
/// result. Subnormal results count in units of the smallest one.
fn largest_error(kind: UnaryKind, step: usize, exact: fn(f64) -> f64) -> f64 {
    let mut worst = (0.0, 0.0f32);
    for chunk in 0..(1u64 << 32).div_ceil((step * 4096) as u64) {
        let start = chunk * (step * 4096) as u64;
        let bits = (0..4096).map(|i| (start + (i * step) as u64) as u32);
        let x: Vec<f32> = bits.map(f32::from_bits).collect();
        let mut out = vec![0u8; x.len() * 4];
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        unary(kind, DType::F32, &bytes, &mut out);
        for (x, out) in x.iter().zip(out.as_chunks().0) {
            let ours = f32::from_le_bytes(*out);
            let expected = exact(*x as f64);
            let error = error_in_ulp(ours, expected);
            if error > worst.0 {
                worst = (error, *x);
            }
        }
    }
    assert!(worst.0.is_finite(), "{kind:?}({}) is wrong altogether", worst.1);
    worst.0
}

fn error_in_ulp(ours: f32, expected: f64) -> f64 {
    let nearest = expected as f32;
    if nearest.is_nan() || ours.is_nan() {
        return if nearest.is_nan() && ours.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if ours == nearest {
        // The sign of a zero counts.
        return if ours.is_sign_negative() == nearest.is_sign_negative() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = (nearest.abs().to_bits() >> 23).clamp(1, 254) as i32 - 127;
    let ulp = 2f64.powi(exponent - 23);
    let finite =
        |x: f32| if x.is_infinite() { 2f64.powi(128).copysign(x as f64) } else { x as f64 };
    (finite(ours) - expected.clamp(-(2f64.powi(128)), 2f64.powi(128))).abs() / ulp
}

macro_rules! within {
    ($($name:ident $kind:ident $ulp:literal $exact:expr;)*) => { $(
        #[test]
        fn $name() {
            let error = largest_error(UnaryKind::$kind, 4099, $exact);
            assert!(error < $ulp, "largest error {error} ulp");
        }
    )* };
}
within! {
    exp Exp 1.5 libm::exp;
    exp2 Exp2 1.5 libm::exp2;
    expm1 Expm1 2.0 libm::expm1;
    log Log 1.5 libm::log;
    log2 Log2 1.5 libm::log2;
    log1p Log1p 2.0 libm::log1p;
    tanh Tanh 2.0 libm::tanh;
    logistic Logistic 3.0 |x| 1.0 / (1.0 + libm::exp(-x));
    erf Erf 1.0 libm::erf;
    sin Sin 0.6 libm::sin;
    cos Cos 0.6 libm::cos;
    rsqrt Rsqrt 1.5 |x| 1.0 / x.sqrt();
    atan Atan 0.6 libm::atan;
    cbrt Cbrt 0.6 libm::cbrt;
}

#[test]
fn inverse_error_function_inverts() {
    for i in -999..1000 {
        let y = i as f64 / 1000.0;
        let x = f64::from_bits(unary_scalar(UnaryKind::ErfInv, DType::F64, y.to_bits()));
        assert!((libm::erf(x) - y).abs() <= 4e-16, "{y}");
    }
    let tiny = unary_scalar(UnaryKind::ErfInv, DType::F64, 1e-30f64.to_bits());
    assert!((f64::from_bits(tiny) / 1e-30 - 0.886226925452758).abs() < 1e-14);
}

#[test]
fn digamma_is_the_slope_of_lgamma() {
    for x in [-2.5f64, -0.3, 0.01, 0.5, 1.0, 1.4616321449683623, 3.7, 40.0, 1e6] {
        let value = |kind, x: f64| f64::from_bits(unary_scalar(kind, DType::F64, x.to_bits()));
        let h = 1e-5 * x.abs().min(1.0);
        let rise = value(UnaryKind::Lgamma, x + h) - value(UnaryKind::Lgamma, x - h);
        let digamma = value(UnaryKind::Digamma, x);
        assert!((rise / (2.0 * h) - digamma).abs() < 1e-4 * (1.0 + digamma.abs()), "{x}");
    }
}

#[test]
fn every_half_is_the_rounded_float32_result() {
    let every: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in [DType::F16, DType::BF16] {
        let mut wide = vec![0; 4 << 16];
        pallas_rs_core::convert(dtype, DType::F32, &every, &mut wide);
        for kind in [UnaryKind::Exp, UnaryKind::Log, UnaryKind::Tanh, UnaryKind::Sin] {
            let (mut out, mut expected) = (vec![0; every.len()], vec![0; every.len()]);
            unary(kind, dtype, &every, &mut out);
            let mut result = wide.clone();
            pallas_rs_core::unary_in_place(kind, DType::F32, &mut result);
            pallas_rs_core::convert(DType::F32, dtype, &result, &mut expected);
            assert_eq!(out, expected, "{kind:?} {dtype}");
        }
    }
}
