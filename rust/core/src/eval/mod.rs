//! What the operations mean, and how they run over tiles.
//!
//! Each family has one table a number class: a line gives a kind and its pure function of numbers.
//! Everything else is made from the tables: which types a kind supports, the value in scalar
//! registers, and the loops over tiles, compiled for several instruction sets.
//!
//! Semantics are those of XLA on a CPU. In particular integers wrap, division by zero is defined,
//! and floats narrower than `float32` are computed as `float32` and rounded after every operation.

mod binary;
mod broadcast;
mod clamp;
mod compare;
mod convert;
mod divide;
mod int;
mod integer_pow;
mod operand;
mod precision;
mod select;
mod unary;

pub use binary::{binary, binary_in_place, binary_in_place_rhs, binary_scalar};
pub use broadcast::{binary_bcast, compare_bcast};
pub use clamp::{clamp, clamp_scalar};
pub use compare::{compare, compare_scalar};
pub use convert::{convert, convert_scalar, convert_supports};
pub use integer_pow::{integer_pow, integer_pow_scalar};
pub use operand::Operand;
pub use precision::{reduce_precision, reduce_precision_scalar};
pub use select::{select, select_n};
pub use unary::{unary, unary_in_place, unary_scalar};

use crate::DType;

#[cold]
#[inline(never)]
pub(crate) fn unsupported(what: impl core::fmt::Debug, dtype: DType) -> ! {
    panic!("{what:?} is not defined on {dtype}; callers check `supports` first")
}
