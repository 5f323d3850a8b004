//! XLA's packed storage of sub-byte types: several elements a byte, the first in the low bits.

use crate::DType;
use crate::element::wrap_sub_byte;

/// One byte an element from packed bytes. `out` says how many elements there are.
///
/// # Panics
/// If `packed` is too short, or if the type is not a sub-byte one.
pub fn unpack(dtype: DType, packed: &[u8], out: &mut [u8]) {
    let bits = sub_byte_bits(dtype);
    let per_byte = 8 / bits as usize;
    assert!(packed.len() * per_byte >= out.len(), "too few packed bytes for the elements");
    let signed = matches!(dtype, DType::I2 | DType::I4);
    for (byte, elements) in packed.iter().zip(out.chunks_mut(per_byte)) {
        for (i, element) in elements.iter_mut().enumerate() {
            *element = wrap_sub_byte(bits, signed, byte >> (bits * i as u32));
        }
    }
}

/// Packed bytes from one byte an element; unused bits of the last byte become zero.
///
/// # Panics
/// If `packed` is too short, or if the type is not a sub-byte one.
pub fn pack(dtype: DType, x: &[u8], packed: &mut [u8]) {
    let bits = sub_byte_bits(dtype);
    let per_byte = 8 / bits as usize;
    assert!(packed.len() * per_byte >= x.len(), "too few packed bytes for the elements");
    for (elements, byte) in x.chunks(per_byte).zip(packed) {
        *byte = elements.iter().enumerate().fold(0, |byte, (i, element)| {
            byte | wrap_sub_byte(bits, false, *element) << (bits * i as u32)
        });
    }
}

fn sub_byte_bits(dtype: DType) -> u32 {
    assert!(dtype.is_sub_byte(), "{dtype} is not a packed type");
    dtype.packed_bits() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_element_takes_the_low_bits() {
        let mut packed = [0xff; 2];
        pack(DType::I4, &[1, 0xff, 7], &mut packed);
        assert_eq!(packed, [0xf1, 0x07]);
        let mut x = [0; 3];
        unpack(DType::I4, &packed, &mut x);
        assert_eq!(x, [1, 0xff, 7]);
        unpack(DType::U4, &packed, &mut x);
        assert_eq!(x, [1, 15, 7]);
    }

    #[test]
    fn every_byte_survives_the_round_trip() {
        for dtype in DType::ALL.iter().copied().filter(|d| d.is_sub_byte()) {
            for byte in 0..=255 {
                let mut x = vec![0; 8 / dtype.packed_bits()];
                unpack(dtype, &[byte], &mut x);
                let mut back = [0];
                pack(dtype, &x, &mut back);
                assert_eq!(back, [byte], "{dtype}");
            }
        }
    }
}
