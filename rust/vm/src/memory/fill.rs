//! What memory holds where nothing was written.

use pallas_rs_core::DType;
use pallas_rs_ir::options::Uninitialized;

/// What to put where there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// NaN, the largest integer, `True`: what shows that nobody wrote it.
    Unwritten,
    /// Zeros.
    Zero,
}

impl From<Uninitialized> for Contents {
    fn from(option: Uninitialized) -> Self {
        match option {
            Uninitialized::Nan => Contents::Unwritten,
            Uninitialized::Zero => Contents::Zero,
        }
    }
}

/// Fills `bytes`, elements of `dtype`.
pub(crate) fn fill(dtype: DType, contents: Contents, bytes: &mut [u8]) {
    match contents {
        Contents::Zero => bytes.fill(0),
        Contents::Unwritten => {
            let (pattern, size) = unwritten(dtype);
            if pattern[..size].iter().all(|b| *b == pattern[0]) {
                bytes.fill(pattern[0]);
            } else {
                pallas_rs_core::fill(size, u64::from_le_bytes(pattern), bytes);
            }
        }
    }
}

/// One element and its repeating size: NaN (or the largest value of a format without one), the
/// largest integer, `True`.
fn unwritten(dtype: DType) -> ([u8; 8], usize) {
    let bits: u64 = match dtype {
        DType::Bool | DType::I2 => 1,
        DType::I4 => 0x7,
        DType::I8 => i8::MAX as u64,
        DType::I16 => i16::MAX as u64,
        DType::I32 => i32::MAX as u64,
        DType::I64 => i64::MAX as u64,
        DType::U2 => 0x3,
        DType::U4 => 0xf,
        DType::U8 | DType::F8E8M0FNU => 0xff,
        DType::U16 => 0xffff,
        DType::U32 => 0xffff_ffff,
        DType::U64 => u64::MAX,
        DType::F4E2M1FN => 0x7,
        DType::F8E3M4 => 0x78,
        DType::F8E4M3 => 0x7c,
        DType::F8E4M3FN => 0x7f,
        DType::F8E4M3B11FNUZ | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ => 0x80,
        DType::F8E5M2 => 0x7e,
        DType::F16 => 0x7e00,
        DType::BF16 => 0x7fc0,
        DType::F32 => u64::from(f32::NAN.to_bits()),
        DType::F64 | DType::C128 => f64::NAN.to_bits(),
        DType::C64 => u64::from(f32::NAN.to_bits()) << 32 | u64::from(f32::NAN.to_bits()),
    };
    (bits.to_le_bytes(), dtype.size().min(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritten_memory_shows() {
        let mut bytes = [0; 8];
        fill(DType::F32, Contents::Unwritten, &mut bytes);
        assert!(f32::from_le_bytes(bytes[4..].try_into().unwrap()).is_nan());
        fill(DType::I16, Contents::Unwritten, &mut bytes);
        assert_eq!(bytes[6..], i16::MAX.to_le_bytes());
        let mut complex = [0; 32];
        fill(DType::C128, Contents::Unwritten, &mut complex);
        assert!(f64::from_le_bytes(complex[24..].try_into().unwrap()).is_nan());
        fill(DType::C128, Contents::Zero, &mut complex);
        assert_eq!(complex, [0; 32]);
    }
}
