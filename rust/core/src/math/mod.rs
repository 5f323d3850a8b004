//! Elementary functions of `f32` and `f64`, the same to the last bit on every platform.
//!
//! [`fast`] holds the `f32` functions that kernels spend their time in, written so that loops over
//! them vectorise. Everything else is computed in `f64` by the `libm` crate, which is plain Rust,
//! and for `f32` rounded once more; that is the correctly rounded result but for a few arguments in
//! a million.

pub(crate) mod fast;
mod special;

/// Float functions by the names of the operations. (Inherent methods of the same name exist; call
/// these as `Real::exp(x)`.)
pub(crate) trait Real: Copy {
    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn expm1(self) -> Self;
    fn log(self) -> Self;
    fn log2(self) -> Self;
    fn log1p(self) -> Self;
    fn rsqrt(self) -> Self;
    fn cbrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn tanh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    fn logistic(self) -> Self;
    fn erf(self) -> Self;
    fn erfc(self) -> Self;
    fn erf_inv(self) -> Self;
    fn lgamma(self) -> Self;
    fn digamma(self) -> Self;
    fn sign(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    fn atan2(self, x: Self) -> Self;
    fn nextafter(self, towards: Self) -> Self;
    fn log_add_exp(self, other: Self) -> Self;
}

/// Functions that mean the same in both precisions.
macro_rules! common {
    () => {
        #[inline(always)]
        fn rsqrt(self) -> Self {
            1.0 / self.sqrt()
        }

        #[inline(always)]
        fn logistic(self) -> Self {
            // Of the two equal forms, the one that cannot overflow.
            let e = Real::exp(-self.abs());
            (if self < 0.0 { e } else { 1.0 }) / (1.0 + e)
        }

        #[inline(always)]
        fn sign(self) -> Self {
            let magnitude = if self.is_nan() { self } else { 1.0 };
            if self == 0.0 || self.is_nan() { self } else { magnitude.copysign(self) }
        }

        /// IEEE 754's `maximum`: a NaN wins, and zero is larger than negative zero.
        #[inline(always)]
        fn max(self, other: Self) -> Self {
            let a = if self > other { self } else { other };
            let b = if other > self { other } else { self };
            // These differ only where the operands are equal or unordered.
            let both = Self::from_bits(a.to_bits() & b.to_bits());
            if self.is_nan() || other.is_nan() { self + other } else { both }
        }

        /// IEEE 754's `minimum`.
        #[inline(always)]
        fn min(self, other: Self) -> Self {
            let a = if self < other { self } else { other };
            let b = if other < self { other } else { self };
            let either = Self::from_bits(a.to_bits() | b.to_bits());
            if self.is_nan() || other.is_nan() { self + other } else { either }
        }

        #[inline(always)]
        fn nextafter(self, towards: Self) -> Self {
            if self.is_nan() || towards.is_nan() {
                return self + towards;
            }
            if self == towards {
                return towards;
            }
            if self == 0.0 {
                return Self::from_bits(1).copysign(towards);
            }
            let away_from_zero = (towards > self) == (self > 0.0);
            let bits = self.to_bits();
            Self::from_bits(if away_from_zero { bits + 1 } else { bits - 1 })
        }

        #[inline(always)]
        fn log_add_exp(self, other: Self) -> Self {
            let larger = Real::max(self, other);
            let difference = -(self - other).abs();
            // Equal infinities have no difference.
            let infinite = larger.is_infinite() || difference.is_nan();
            let sum = larger + Real::log1p(Real::exp(difference));
            if infinite { larger } else { sum }
        }
    };
}

macro_rules! through_f64 {
    ($($name:ident = $function:path;)*) => { $(
        #[inline]
        fn $name(self) -> f32 {
            $function(self as f64) as f32
        }
    )* };
}

impl Real for f32 {
    common!();

    #[inline(always)]
    fn exp(self) -> f32 {
        fast::exp(self)
    }

    #[inline(always)]
    fn exp2(self) -> f32 {
        fast::exp2(self)
    }

    #[inline(always)]
    fn expm1(self) -> f32 {
        fast::expm1(self)
    }

    #[inline(always)]
    fn log(self) -> f32 {
        fast::log(self)
    }

    #[inline(always)]
    fn log2(self) -> f32 {
        fast::log2(self)
    }

    #[inline(always)]
    fn log1p(self) -> f32 {
        fast::log1p(self)
    }

    #[inline(always)]
    fn tanh(self) -> f32 {
        fast::tanh(self)
    }

    #[inline(always)]
    fn erf(self) -> f32 {
        fast::erf(self)
    }

    #[inline(always)]
    fn sin(self) -> f32 {
        fast::sin(self)
    }

    #[inline(always)]
    fn cos(self) -> f32 {
        fast::cos(self)
    }

    through_f64! {
        cbrt = libm::cbrt;
        tan = libm::tan;
        asin = libm::asin;
        acos = libm::acos;
        atan = libm::atan;
        sinh = libm::sinh;
        cosh = libm::cosh;
        asinh = libm::asinh;
        acosh = special::acosh;
        atanh = libm::atanh;
        erfc = libm::erfc;
        erf_inv = special::erf_inv;
        lgamma = special::lgamma;
        digamma = special::digamma;
    }

    #[inline]
    fn pow(self, exponent: f32) -> f32 {
        libm::pow(self as f64, exponent as f64) as f32
    }

    #[inline]
    fn atan2(self, x: f32) -> f32 {
        libm::atan2(self as f64, x as f64) as f32
    }
}

macro_rules! from_libm {
    ($($name:ident = $function:path;)*) => { $(
        #[inline]
        fn $name(self) -> f64 {
            $function(self)
        }
    )* };
}

impl Real for f64 {
    common!();

    from_libm! {
        exp = libm::exp;
        exp2 = libm::exp2;
        expm1 = libm::expm1;
        log = libm::log;
        log2 = libm::log2;
        log1p = libm::log1p;
        cbrt = libm::cbrt;
        sin = libm::sin;
        cos = libm::cos;
        tan = libm::tan;
        asin = libm::asin;
        acos = libm::acos;
        atan = libm::atan;
        sinh = libm::sinh;
        cosh = libm::cosh;
        tanh = libm::tanh;
        asinh = libm::asinh;
        acosh = special::acosh;
        atanh = libm::atanh;
        erf = libm::erf;
        erfc = libm::erfc;
        erf_inv = special::erf_inv;
        lgamma = special::lgamma;
        digamma = special::digamma;
    }

    #[inline]
    fn pow(self, exponent: f64) -> f64 {
        libm::pow(self, exponent)
    }

    #[inline]
    fn atan2(self, x: f64) -> f64 {
        libm::atan2(self, x)
    }
}
