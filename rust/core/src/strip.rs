//! Strips: tiles of narrow floats are computed a strip at a time, as `float32` on the stack.

use crate::DType;
use crate::float_format as format;
use crate::isa::for_each_isa;

/// Elements a strip. 2 kB of `float32` stay in the first-level cache with their neighbours and cost
/// little to reserve for a small tile.
pub(crate) const STRIP: usize = 512;

/// Whether a type is computed as `float32` and rounded after every operation.
#[inline(always)]
pub(crate) fn is_narrow_float(dtype: DType) -> bool {
    dtype.is_float() && dtype.size() <= 2
}

/// Exact values of a strip of narrow floats, or a copy of one of `float32`.
pub(crate) fn widen(dtype: DType, x: &[u8], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if dtype == DType::F16 && crate::f16c::widen(x, out) {
        return;
    }
    widen_plain(dtype, x, out);
}

/// Rounds a strip to a narrow float type, or copies it to `float32`.
pub(crate) fn narrow(dtype: DType, x: &[f32], out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if dtype == DType::F16 && crate::f16c::narrow(x, out) {
        return;
    }
    narrow_plain(dtype, x, out);
}

for_each_isa! {
    fn widen_plain(dtype: DType, x: &[u8], out: &mut [f32]) {
        match dtype {
            DType::F32 => bytemuck::cast_slice_mut::<f32, u8>(out).copy_from_slice(x),
            DType::F16 => {
                for (out, x) in out.iter_mut().zip(x.as_chunks().0) {
                    *out = format::decode_f16(u16::from_le_bytes(*x));
                }
            }
            DType::BF16 => {
                for (out, x) in out.iter_mut().zip(x.as_chunks().0) {
                    *out = format::decode_bf16(u16::from_le_bytes(*x));
                }
            }
            _ => {
                let table = format::decode_table(dtype);
                for (out, x) in out.iter_mut().zip(x) {
                    *out = table[*x as usize];
                }
            }
        }
    }
}

for_each_isa! {
    fn narrow_plain(dtype: DType, x: &[f32], out: &mut [u8]) {
        macro_rules! bytes {
            ($encode:expr) => {
                for (out, x) in out.iter_mut().zip(x) {
                    *out = $encode(*x);
                }
            };
        }
        macro_rules! halves {
            ($encode:path) => {
                for (out, x) in out.as_chunks_mut().0.iter_mut().zip(x) {
                    *out = $encode(*x).to_le_bytes();
                }
            };
        }
        match dtype {
            DType::F32 => out.copy_from_slice(bytemuck::cast_slice(x)),
            DType::F16 => halves!(format::encode_f16),
            DType::BF16 => halves!(format::encode_bf16),
            DType::F4E2M1FN => bytes!(|x| format::F4E2M1FN.encode(x)),
            DType::F8E3M4 => bytes!(|x| format::F8E3M4.encode(x)),
            DType::F8E4M3 => bytes!(|x| format::F8E4M3.encode(x)),
            DType::F8E4M3B11FNUZ => bytes!(|x| format::F8E4M3B11FNUZ.encode(x)),
            DType::F8E4M3FN => bytes!(|x| format::F8E4M3FN.encode(x)),
            DType::F8E4M3FNUZ => bytes!(|x| format::F8E4M3FNUZ.encode(x)),
            DType::F8E5M2 => bytes!(|x| format::F8E5M2.encode(x)),
            DType::F8E5M2FNUZ => bytes!(|x| format::F8E5M2FNUZ.encode(x)),
            DType::F8E8M0FNU => bytes!(format::encode_e8m0),
            _ => unreachable!("{dtype} is not computed as float32"),
        }
    }
}

/// The value of a narrow float, or of a `float32`, in a scalar register.
#[inline]
pub(crate) fn widen_scalar(dtype: DType, bits: u64) -> f32 {
    match dtype {
        DType::F32 => f32::from_bits(bits as u32),
        DType::F16 => format::decode_f16(bits as u16),
        DType::BF16 => format::decode_bf16(bits as u16),
        _ => format::decode_table(dtype)[bits as u8 as usize],
    }
}

/// Rounds to a narrow float, or to nothing for `float32`, into a scalar register.
#[inline]
pub(crate) fn narrow_scalar(dtype: DType, x: f32) -> u64 {
    let mut bytes = [0; 4];
    match dtype {
        DType::F32 => return x.to_bits() as u64,
        DType::F16 => return format::encode_f16(x) as u64,
        DType::BF16 => return format::encode_bf16(x) as u64,
        _ => narrow(dtype, &[x], &mut bytes[..1]),
    }
    bytes[0] as u64
}
