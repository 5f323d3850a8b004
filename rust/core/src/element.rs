//! How an element is stored, and how a scalar register holds one.
//!
//! **Scalar registers.** A register is a `u64` whose low `8 * dtype.size()` bits are the element's
//! bytes, read as a little-endian number, and whose other bits are zero. So `int32` -1 is
//! `0xffff_ffff`, `int4` -1 is `0xff` (a sub-byte element is kept sign-extended in its byte) and
//! `bool` is 0 or 1. Every function of this crate that returns a register keeps this rule.

use crate::{Class, DType};

/// A Rust number that an element is computed as. `Bytes` has no alignment, so that any byte slice
/// of the right length is a slice of elements; LLVM turns the loads into plain vector loads.
pub(crate) trait Element: Copy + Default + 'static {
    type Bytes: bytemuck::Pod;

    fn load(bytes: Self::Bytes) -> Self;
    fn store(self) -> Self::Bytes;
    fn from_register(bits: u64) -> Self;
    fn to_register(self) -> u64;
}

macro_rules! int_element {
    ($($int:ty, $unsigned:ty;)*) => { $(
        impl Element for $int {
            type Bytes = [u8; size_of::<$int>()];

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> Self {
                <$int>::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn from_register(bits: u64) -> Self {
                bits as $int
            }

            #[inline(always)]
            fn to_register(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )* };
}
int_element! {
    i8, u8; i16, u16; i32, u32; i64, u64;
    u8, u8; u16, u16; u32, u32; u64, u64;
}

macro_rules! float_element {
    ($($float:ty, $bits:ty;)*) => { $(
        impl Element for $float {
            type Bytes = [u8; size_of::<$float>()];

            #[inline(always)]
            fn load(bytes: Self::Bytes) -> Self {
                <$float>::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn store(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn from_register(bits: u64) -> Self {
                <$float>::from_bits(bits as $bits)
            }

            #[inline(always)]
            fn to_register(self) -> u64 {
                self.to_bits() as u64
            }
        }
    )* };
}
float_element! { f32, u32; f64, u64; }

/// The elements of a byte slice. Panics unless the length is a multiple of the element's size.
#[inline(always)]
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> &[T::Bytes] {
    bytemuck::cast_slice(bytes)
}

/// As [`elements`], to be written.
#[inline(always)]
pub(crate) fn elements_mut<T: Element>(bytes: &mut [u8]) -> &mut [T::Bytes] {
    bytemuck::cast_slice_mut(bytes)
}

/// Brings the low bits of a byte into the form a sub-byte integer is kept in.
#[inline(always)]
pub(crate) fn wrap_sub_byte(bits: u32, signed: bool, byte: u8) -> u8 {
    let unused = 8 - bits;
    let high = byte << unused;
    if signed { ((high as i8) >> unused) as u8 } else { high >> unused }
}

/// Wraps every byte of a tile of `int2`, `int4`, `uint2` or `uint4`; any other type is left alone.
pub(crate) fn wrap_sub_bytes(dtype: DType, x: &mut [u8]) {
    if let Some((bits, signed)) = sub_byte_int(dtype) {
        for byte in x {
            *byte = wrap_sub_byte(bits, signed, *byte);
        }
    }
}

/// Width and signedness of a sub-byte integer type.
#[inline(always)]
pub(crate) fn sub_byte_int(dtype: DType) -> Option<(u32, bool)> {
    (dtype.is_sub_byte() && dtype.is_int())
        .then(|| (dtype.packed_bits() as u32, matches!(dtype.class(), Class::Signed)))
}

/// The register holding element `index` of dense elements of `size` bytes (1, 2, 4 or 8).
///
/// # Panics
/// If the element lies outside `x` or the size is none of these.
#[inline]
pub fn load_scalar(size: usize, x: &[u8], index: usize) -> u64 {
    fn at<const N: usize>(x: &[u8], index: usize) -> [u8; N] {
        x.as_chunks().0[index]
    }
    match size {
        1 => x[index] as u64,
        2 => u16::from_le_bytes(at(x, index)) as u64,
        4 => u32::from_le_bytes(at(x, index)) as u64,
        8 => u64::from_le_bytes(at(x, index)),
        _ => panic!("an element of {size} bytes does not fit a register"),
    }
}

/// Stores a register as element `index` of dense elements of `size` bytes (1, 2, 4 or 8).
///
/// # Panics
/// If the element lies outside `out` or the size is none of these.
#[inline]
pub fn store_scalar(size: usize, bits: u64, out: &mut [u8], index: usize) {
    match size {
        1 => out[index] = bits as u8,
        2 => out.as_chunks_mut().0[index] = (bits as u16).to_le_bytes(),
        4 => out.as_chunks_mut().0[index] = (bits as u32).to_le_bytes(),
        8 => out.as_chunks_mut().0[index] = bits.to_le_bytes(),
        _ => panic!("an element of {size} bytes does not fit a register"),
    }
}

/// Sets every element of `out` to the register `bits`; elements of 1, 2, 4 or 8 bytes.
///
/// # Panics
/// If the size is none of these or does not divide the length of `out`.
pub fn fill(size: usize, bits: u64, out: &mut [u8]) {
    match size {
        1 => out.fill(bits as u8),
        2 => elements_mut::<u16>(out).fill((bits as u16).to_le_bytes()),
        4 => elements_mut::<u32>(out).fill((bits as u32).to_le_bytes()),
        8 => elements_mut::<u64>(out).fill(bits.to_le_bytes()),
        _ => panic!("an element of {size} bytes does not fit a register"),
    }
}
