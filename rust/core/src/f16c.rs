//! Conversions of `float16` by the CPU's own instructions. They give what
//! [`crate::float_format`] gives, NaNs included.
#![allow(unsafe_code, reason = "calls functions compiled for features found at run time")]

use core::arch::x86_64::{
    __m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph,
};

use crate::float_format::{decode_f16, encode_f16};

fn available() -> bool {
    is_x86_feature_detected!("f16c") && is_x86_feature_detected!("avx")
}

/// Widens a strip; `false` if the CPU cannot.
pub(crate) fn widen(x: &[u8], out: &mut [f32]) -> bool {
    #[target_feature(enable = "avx,f16c")]
    fn vectors(x: &[u8], out: &mut [f32]) {
        let (x, x_rest) = x.as_chunks::<16>();
        let (out, out_rest) = out.as_chunks_mut::<8>();
        for (x, out) in x.iter().zip(out) {
            let wide: __m256 = _mm256_cvtph_ps(bytemuck::cast::<[u8; 16], __m128i>(*x));
            *out = bytemuck::cast(wide);
        }
        for (x, out) in x_rest.as_chunks().0.iter().zip(out_rest) {
            *out = decode_f16(u16::from_le_bytes(*x));
        }
    }
    if available() {
        // SAFETY: the features the function is compiled for were just found.
        unsafe { vectors(x, out) };
    }
    available()
}

/// Rounds a strip; `false` if the CPU cannot.
pub(crate) fn narrow(x: &[f32], out: &mut [u8]) -> bool {
    #[target_feature(enable = "avx,f16c")]
    fn vectors(x: &[f32], out: &mut [u8]) {
        let (x, x_rest) = x.as_chunks::<8>();
        let (out, out_rest) = out.as_chunks_mut::<16>();
        for (x, out) in x.iter().zip(out) {
            let wide = bytemuck::cast::<[f32; 8], __m256>(*x);
            let half: __m128i = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
            *out = bytemuck::cast(half);
        }
        for (x, out) in x_rest.iter().zip(out_rest.as_chunks_mut().0) {
            *out = encode_f16(*x).to_le_bytes();
        }
    }
    if available() {
        // SAFETY: the features the function is compiled for were just found.
        unsafe { vectors(x, out) };
    }
    available()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_agree_with_the_plain_functions() {
        if !available() {
            return;
        }
        let every: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut wide = vec![0f32; 1 << 16];
        assert!(widen(&every, &mut wide));
        for (code, wide) in (0..=u16::MAX).zip(&wide) {
            assert_eq!(wide.to_bits(), decode_f16(code).to_bits(), "{code:#x}");
        }
        // Every half and its neighbourhood: ties, overflow, subnormals, payloads of NaNs.
        for nudge in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff] {
            let x: Vec<f32> = wide.iter().map(|x| f32::from_bits(x.to_bits() ^ nudge)).collect();
            let mut out = vec![0; every.len()];
            assert!(narrow(&x, &mut out));
            for (x, out) in x.iter().zip(out.as_chunks().0) {
                assert_eq!(u16::from_le_bytes(*out), encode_f16(*x), "{:#x}", x.to_bits());
            }
        }
    }
}
