//! Division of many `float32` by one, without a division each.
//!
//! With the correctly rounded reciprocal `r` of the divisor `d`, `q = x r` is off by two ulps at
//! most, and `q` plus `r` times its remainder `x - q d` by less than one. The remainder of that is
//! exact in a fused multiply-add, so a second such step gives the correctly rounded quotient
//! (Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", theorem
//! 5), as long as nothing over- or underflows on the way. Where it might, the elements are divided.
//! So the bits are those of a division, on every machine.

use std::ops::RangeInclusive;

/// Biased exponents of divisors, and of numbers to divide by them, whose quotients are normal and
/// whose remainders end above the last bit of the smallest number.
const DIVISORS: RangeInclusive<u32> = 127 - 25..=127 + 25;
const NUMBERS: RangeInclusive<u32> = 127 - 95..=127 + 95;
/// Elements that are divided if one of them is not safe.
const GROUP: usize = 64;

/// `out = x / d`; `false` if it was not done, because this machine has no fused multiply-add, the
/// divisor is not safe, or there are too few elements.
#[inline]
pub(super) fn divide_by(x: &[u8], d: f32, out: &mut [u8]) -> bool {
    let safe = DIVISORS.contains(&(d.to_bits() >> 23 & 0xff));
    let useful = x.len() >= 4 * GROUP && safe && has_fused_multiply_add();
    if useful {
        divide(x, d, 1.0 / d, out);
    }
    useful
}

#[cfg(target_arch = "x86_64")]
fn has_fused_multiply_add() -> bool {
    is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_fused_multiply_add() -> bool {
    cfg!(target_arch = "aarch64")
}

#[cfg_attr(
    not(debug_assertions),
    multiversion::multiversion(targets(
        "x86_64+avx512f+avx512bw+avx512vl+avx512dq+fma",
        "x86_64+avx2+fma",
    ))
)]
fn divide(x: &[u8], d: f32, r: f32, out: &mut [u8]) {
    let ((x, _), (out, _)) = (x.as_chunks::<4>(), out.as_chunks_mut::<4>());
    let ((groups, x_rest), (out_groups, out_rest)) =
        (x.as_chunks::<GROUP>(), out.as_chunks_mut::<GROUP>());
    for (x, out) in groups.iter().zip(out_groups) {
        // Without an early exit, so that this vectorises.
        let mut widest = 0;
        for x in x {
            let exponent = u32::from_le_bytes(*x) >> 23 & 0xff;
            widest = widest.max(exponent.wrapping_sub(*NUMBERS.start()));
        }
        if widest <= NUMBERS.end() - NUMBERS.start() {
            for i in 0..GROUP {
                let x = f32::from_le_bytes(x[i]);
                let q = x * r;
                let q = (-q).mul_add(d, x).mul_add(r, q);
                out[i] = (-q).mul_add(d, x).mul_add(r, q).to_le_bytes();
            }
        } else {
            plain(x, d, out);
        }
    }
    plain(x_rest, d, out_rest);
}

#[inline(always)]
fn plain(x: &[[u8; 4]], d: f32, out: &mut [[u8; 4]]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = (f32::from_le_bytes(*x) / d).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn bits_are_those_of_a_division() {
        let mut rng = SplitMix64::new(7);
        let mut done = false;
        for round in 0..2000 {
            let d = match round % 4 {
                // Divisors whose reciprocals are hardest to round: close to powers of two.
                0 => f32::from_bits(0x3f80_0000 + rng.below(64) as u32),
                1 => f32::from_bits(0x3fff_ffff - rng.below(64) as u32),
                _ => f32::from_bits((rng.below(1 << 32)) as u32),
            };
            let x: Vec<f32> = (0..GROUP * 5)
                .map(|i| {
                    let wild = f32::from_bits(rng.below(1 << 32) as u32);
                    let tame = f32::from_bits(0x3f00_0000 + rng.below(1 << 25) as u32);
                    if round % 3 == 0 && i < GROUP { wild } else { tame }
                })
                .collect();
            let mut out = vec![0f32; x.len()];
            if !divide_by(bytemuck::cast_slice(&x), d, bytemuck::cast_slice_mut(&mut out)) {
                continue;
            }
            done = true;
            for (x, q) in x.iter().zip(&out) {
                let expected = x / d;
                let same = q.to_bits() == expected.to_bits() || q.is_nan() && expected.is_nan();
                assert!(same, "{x:e} / {d:e}: {q:e} for {expected:e}");
            }
        }
        assert!(done || !has_fused_multiply_add());
    }
}
