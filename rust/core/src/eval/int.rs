//! Integer operations that Rust spells differently for signed and unsigned types.

use crate::element::Element;

/// A machine integer.
pub(crate) trait Int: Element + Ord {
    fn shl(self, amount: Self) -> Self;
    fn shr_arithmetic(self, amount: Self) -> Self;
    fn shr_logical(self, amount: Self) -> Self;
    fn div(self, divisor: Self) -> Self;
    fn rem(self, divisor: Self) -> Self;
    fn abs(self) -> Self;
    fn sign(self) -> Self;
    fn population_count(self) -> Self;
    fn clz(self) -> Self;
}

macro_rules! int {
    ($($int:ident, $signed:ident, $unsigned:ident, $abs:expr, $sign:expr;)*) => { $(
        impl Int for $int {
            #[inline(always)]
            fn shl(self, amount: Self) -> Self {
                let shifted = self.wrapping_shl(amount as u32);
                if (amount as $unsigned) < $unsigned::BITS as $unsigned { shifted } else { 0 }
            }

            #[inline(always)]
            fn shr_arithmetic(self, amount: Self) -> Self {
                let last = ($unsigned::BITS - 1) as $unsigned;
                let amount = amount as $unsigned;
                let amount = if amount < last { amount } else { last };
                (self as $signed).wrapping_shr(amount as u32) as $int
            }

            #[inline(always)]
            fn shr_logical(self, amount: Self) -> Self {
                let shifted = (self as $unsigned).wrapping_shr(amount as u32) as $int;
                if (amount as $unsigned) < $unsigned::BITS as $unsigned { shifted } else { 0 }
            }

            #[inline(always)]
            fn div(self, divisor: Self) -> Self {
                if divisor == 0 { !0 } else { self.wrapping_div(divisor) }
            }

            #[inline(always)]
            fn rem(self, divisor: Self) -> Self {
                if divisor == 0 { self } else { self.wrapping_rem(divisor) }
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $abs(self)
            }

            #[inline(always)]
            fn sign(self) -> Self {
                $sign(self)
            }

            #[inline(always)]
            fn population_count(self) -> Self {
                self.count_ones() as $int
            }

            #[inline(always)]
            fn clz(self) -> Self {
                self.leading_zeros() as $int
            }
        }
    )* };
}
int! {
    i8, i8, u8, i8::wrapping_abs, i8::signum;
    i16, i16, u16, i16::wrapping_abs, i16::signum;
    i32, i32, u32, i32::wrapping_abs, i32::signum;
    i64, i64, u64, i64::wrapping_abs, i64::signum;
    u8, i8, u8, core::convert::identity, |x: u8| (x != 0) as u8;
    u16, i16, u16, core::convert::identity, |x: u16| (x != 0) as u16;
    u32, i32, u32, core::convert::identity, |x: u32| (x != 0) as u32;
    u64, i64, u64, core::convert::identity, |x: u64| (x != 0) as u64;
}
