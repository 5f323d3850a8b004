//! The kernel's arguments.
#![allow(unsafe_code, reason = "GMEM is raw memory that the caller lends")]

use super::area::{Source, Target, within};
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

    /// `len` bytes of an argument from an element of `elem` bytes on. They are not written before
    /// the last use of the slice: see [`crate::code::lend`].
    ///
    /// # Panics
    /// When they leave the argument.
    pub(crate) fn lend(&self, arg: u32, elem: usize, first: i64, len: usize) -> &[u8] {
        let buffer = &self.args[arg as usize];
        let start = within(elem, first, len, buffer.len());
        // SAFETY: the bytes lie within the buffer, which the caller lends for the call. This thread
        // writes nothing while a tile is lent, and other workers do not write what this one reads.
        unsafe { std::slice::from_raw_parts(buffer.ptr().add(start), len) }
    }

    /// As [`Gmem::lend`], to write; `None` where one of `readers`, which are alive meanwhile, looks
    /// at some of the bytes.
    ///
    /// # Panics
    /// When they leave the argument.
    #[allow(clippy::mut_from_ref, reason = "GMEM is shared; who writes where is checked here")]
    pub(crate) fn lend_mut<'r>(
        &self,
        arg: u32,
        elem: usize,
        first: i64,
        len: usize,
        readers: impl IntoIterator<Item = &'r [u8]>,
    ) -> Option<&mut [u8]> {
        let buffer = &self.args[arg as usize];
        let start = within(elem, first, len, buffer.len());
        let begin = buffer.ptr() as usize + start;
        let apart = |x: &[u8]| {
            let at = x.as_ptr() as usize;
            at + x.len() <= begin || begin + len <= at
        };
        // SAFETY: the bytes lie within the buffer, no slice that is alive shares any of them, and
        // other workers do not access what this one writes.
        let bytes = || unsafe { std::slice::from_raw_parts_mut(buffer.ptr().add(start), len) };
        readers.into_iter().all(apart).then(bytes)
    }

    /// An argument, to write.
    pub(crate) fn target(&self, arg: u32) -> Target<'_> {
        let buffer = &self.args[arg as usize];
        // SAFETY: as above; the verifier has seen that nothing writes an argument bound to an
        // operand alone.
        unsafe { Target::from_raw(buffer.ptr(), buffer.len()) }
    }
}
