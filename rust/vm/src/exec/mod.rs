//! What each op does.

pub(crate) mod access;
