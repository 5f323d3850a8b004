//! Numbers, shapes and layouts: pure functions on bytes. No IR, no threads.

pub mod dtype;
mod kinds;
mod skel;

pub use dtype::{Class, DType};
pub use kinds::{BinaryKind, CompareKind, CumulativeKind, ReduceKind, UnaryKind};
pub use skel::*;
