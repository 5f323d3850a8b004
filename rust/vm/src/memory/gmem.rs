//! The kernel's arguments.
#![allow(unsafe_code, reason = "GMEM is raw memory that the caller lends")]

use super::area::{Source, Target};
use crate::GlobalBuffer;

/// The arguments of a call, one byte per sub-byte element.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gmem<'a> {
    args: Vec<GlobalBuffer<'a>>,
}

impl<'a> Gmem<'a> {
    /// Arguments in the order of the program's.
    pub(crate) fn new(args: Vec<GlobalBuffer<'a>>) -> Gmem<'a> {
        Gmem { args }
    }

    /// An argument, to read.
    pub(crate) fn source(&self, arg: u32) -> Source<'_> {
        let buffer = &self.args[arg as usize];
        // SAFETY: the caller lends the buffer for the call, and workers get elements that no other
        // worker writes.
        unsafe { Source::from_raw(buffer.ptr(), buffer.len()) }
    }

    /// An argument, to write.
    pub(crate) fn target(&self, arg: u32) -> Target<'_> {
        let buffer = &self.args[arg as usize];
        // SAFETY: as above; the verifier has seen that nothing writes an argument bound to an
        // operand alone.
        unsafe { Target::from_raw(buffer.ptr(), buffer.len()) }
    }
}
