//! What each op does.

pub(crate) mod access;
mod copies;
mod sync;
mod tensor_core;
