//! Operands of tile operations.

use crate::element::fill;

/// A dense tile, or one scalar in the place of every element.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// One element after another.
    Slice(&'a [u8]),
    /// A scalar register (see [`crate::element`]); for types of up to eight bytes.
    Splat(u64),
}

/// Bytes of a strip of a splat operand.
pub(super) const STRIP_BYTES: usize = 2048;

/// An operand that can be read strip by strip: a splat is spread over one strip once.
pub(super) struct Strips<'a> {
    operand: Operand<'a>,
    splat: [u8; STRIP_BYTES],
}

impl<'a> Strips<'a> {
    /// Strips of at most `STRIP_BYTES / size` elements, of a tile of `len` elements.
    pub(super) fn new(operand: Operand<'a>, size: usize, len: usize) -> Self {
        let mut splat = [0; STRIP_BYTES];
        match operand {
            Operand::Slice(x) => {
                assert_eq!(x.len(), size * len, "an operand's length differs from the result's");
            }
            Operand::Splat(bits) => fill(size, bits, &mut splat[..STRIP_BYTES.min(size * len)]),
        }
        Strips { operand, splat }
    }

    /// The bytes from `start` on.
    #[inline]
    pub(super) fn get(&self, start: usize, len: usize) -> &[u8] {
        match self.operand {
            Operand::Slice(x) => &x[start..start + len],
            Operand::Splat(_) => &self.splat[..len],
        }
    }

    /// Writes the whole tile.
    pub(super) fn copy_to(&self, out: &mut [u8]) {
        for (i, out) in out.chunks_mut(STRIP_BYTES).enumerate() {
            out.copy_from_slice(self.get(i * STRIP_BYTES, out.len()));
        }
    }
}
