//! Numbers, shapes and layouts: pure functions on bytes. No IR, no threads.

pub mod dtype;
pub use dtype::{Class, DType};
