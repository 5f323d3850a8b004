//! Numbers, shapes and layouts: pure functions on bytes. No IR, no threads.
//!
//! A tile is a byte slice of dense elements, [`DType::size`] bytes each; no alignment is asked for.
//! A scalar register is a `u64` that holds an element's bytes in its low bits and zeros above, see
//! [`mod@element`].

#![allow(
    clippy::inline_always,
    reason = "loops compiled for several instruction sets vectorise only what is inlined into them"
)]

pub mod dtype;
pub mod element;
mod eval;
#[cfg(target_arch = "x86_64")]
mod f16c;
mod float_format;
mod isa;
mod kinds;
mod math;
mod matmul;
mod pack;
mod reduce;
mod rng;
mod shape;
mod strip;

pub use dtype::{Class, DType};
pub use element::{fill, load_scalar, store_scalar};
pub use eval::*;
pub use kinds::{BinaryKind, CompareKind, CumulativeKind, ReduceKind, UnaryKind};
pub use matmul::{
    MatRef, MatmulOpts, MatmulScratch, expand_sparse, matmul, matmul_supports, order_selectors,
    scale_blocks,
};
pub use pack::{pack, unpack};
pub use reduce::{arg_reduce, cumulative, reduce};
pub use rng::SplitMix64;
pub use shape::{MAX_RANK, copy_strided, dense_strides, iota};
