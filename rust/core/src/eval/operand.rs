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

impl Operand<'_> {
    /// Writes the operand to a tile of elements of `size` bytes.
    pub(super) fn copy_to(self, size: usize, out: &mut [u8]) {
        match self {
            Operand::Slice(x) => out.copy_from_slice(x),
            Operand::Splat(bits) => fill(size, bits, out),
        }
    }
}

/// Bytes of a strip.
pub(super) const STRIP_BYTES: usize = 2048;

/// An operand that can be read strip by strip: a splat is spread over one strip, once.
#[allow(clippy::large_enum_variant, reason = "lives on the stack of one call")]
pub(super) enum Strips<'a> {
    Slice(&'a [u8]),
    Splat([u8; STRIP_BYTES]),
}

impl<'a> Strips<'a> {
    /// Strips of at most `STRIP_BYTES / size` elements, of a tile of `len` elements.
    pub(super) fn new(operand: Operand<'a>, size: usize, len: usize) -> Self {
        match operand {
            Operand::Slice(x) => {
                assert_eq!(x.len(), size * len, "an operand's length differs from the result's");
                Strips::Slice(x)
            }
            Operand::Splat(bits) => {
                let mut splat = [0; STRIP_BYTES];
                fill(size, bits, &mut splat[..STRIP_BYTES.min(size * len)]);
                Strips::Splat(splat)
            }
        }
    }

    /// The bytes from `start` on.
    #[inline]
    pub(super) fn get(&self, start: usize, len: usize) -> &[u8] {
        match self {
            Strips::Slice(x) => &x[start..start + len],
            Strips::Splat(splat) => &splat[..len],
        }
    }
}
