//! Matrix products against a triple loop in `f64` or wrapping integers.

use pallas_rs_core::{
    DType, MatRef, MatmulOpts, MatmulScratch, convert, copy_strided, load_scalar, matmul,
    matmul_supports,
};
use proptest::prelude::*;

use crate::reductions::small_numbers;

/// How a matrix of so many rows and columns lies in memory.
fn layout(kind: u8, rows: usize, columns: usize) -> (isize, isize, usize, usize) {
    let (r, c) = (rows as isize, columns as isize);
    match kind {
        0 => (c, 1, 0, rows * columns),
        1 => (1, r, 0, rows * columns),
        2 => (c + 3, 1, 2, rows * (columns + 3) + 2),
        3 => (2 * c, 2, 1, 2 * rows * columns + 1),
        _ => (-c, 1, (rows.max(1) - 1) * columns, rows * columns),
    }
}

fn as_f64(dtype: DType, x: &[u8]) -> Vec<f64> {
    let mut out = vec![0; x.len() / dtype.size() * 8];
    convert(dtype, DType::F64, x, &mut out);
    out.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect()
}

const OPERANDS: &[DType] = &[
    DType::F16,
    DType::BF16,
    DType::F8E4M3FN,
    DType::F8E5M2,
    DType::F4E2M1FN,
    DType::F32,
    DType::F64,
    DType::I8,
    DType::U8,
    DType::I4,
    DType::I32,
    DType::I64,
];
const RESULTS: &[DType] =
    &[DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::I64, DType::I8];

proptest! {
    #[test]
    fn product_is_the_triple_loop(
        (m, n, k) in (0usize..40, 0usize..70, 0usize..40),
        (a_type, b_type) in (prop::sample::select(OPERANDS), prop::sample::select(OPERANDS)),
        acc_type in prop::sample::select(RESULTS),
        (a_layout, b_layout, gap) in (0u8..5, 0u8..5, 0usize..3),
        accumulate in any::<bool>(),
        seed in any::<u64>(),
    ) {
        prop_assume!(matmul_supports(a_type, b_type, acc_type));
        let matrix = |dtype: DType, rows: usize, columns: usize, kind, seed| {
            let (row_stride, col_stride, offset, len) = layout(kind, rows, columns);
            (small_numbers(dtype, len, seed), offset, row_stride, col_stride)
        };
        let (a, a_at, a_row, a_col) = matrix(a_type, m, k, a_layout, seed);
        let (b, b_at, b_row, b_col) = matrix(b_type, k, n, b_layout, seed ^ 1);
        let stride = n + gap;
        let mut acc = small_numbers(acc_type, m * stride, seed ^ 2);
        let before = as_f64(acc_type, &acc);
        let (wide_a, wide_b) = (as_f64(a_type, &a), as_f64(b_type, &b));
        let a = MatRef { dtype: a_type, data: &a, offset: a_at, row_stride: a_row, col_stride: a_col };
        let b = MatRef { dtype: b_type, data: &b, offset: b_at, row_stride: b_row, col_stride: b_col };
        let mut scratch = MatmulScratch::default();
        // Twice, so that the second call meets a scratch in use.
        let mut again = acc.clone();
        let opts = MatmulOpts::default();
        matmul(m, n, k, &a, &b, &mut acc, stride, acc_type, accumulate, opts, &mut scratch);
        matmul(m, n, k, &a, &b, &mut again, stride, acc_type, accumulate, opts, &mut scratch);
        prop_assert_eq!(&acc, &again);
        let after = as_f64(acc_type, &acc);
        for i in 0..m {
            for j in 0..stride {
                if i * stride + j >= before.len() {
                    continue;
                }
                let mut sum = before[i * stride + j];
                if j < n {
                    if !accumulate {
                        sum = 0.0;
                    }
                    for l in 0..k as isize {
                        let a = wide_a[(a_at as isize + i as isize * a_row + l * a_col) as usize];
                        let b = wide_b[(b_at as isize + l * b_row + j as isize * b_col) as usize];
                        sum += a * b;
                    }
                }
                // Sums of such small numbers are exact in every type but int8, which wraps.
                let sum = if acc_type == DType::I8 { sum as i64 as i8 as f64 } else { sum };
                prop_assert_eq!(after[i * stride + j], sum, "({}, {})", i, j);
            }
        }
    }
}

#[test]
fn real_numbers_come_close() {
    let (m, n, k) = (64, 48, 200);
    let mut rng = pallas_rs_core::SplitMix64::new(11);
    let mut random = |count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|_| (((rng.next_u64() >> 40) as f32) / (1 << 23) as f32 - 1.0).to_le_bytes())
            .collect()
    };
    let (a, b) = (random(m * k), random(k * n));
    let dense = |data, columns| MatRef {
        dtype: DType::F32,
        data,
        offset: 0,
        row_stride: columns as isize,
        col_stride: 1,
    };
    for tf32 in [false, true] {
        let cut = |x: &[u8]| -> Vec<f64> {
            as_f64(DType::F32, x)
                .into_iter()
                .map(|x| {
                    let mask = if tf32 { !0x1fff } else { !0 };
                    f32::from_bits((x as f32).to_bits() & mask) as f64
                })
                .collect()
        };
        let (wide_a, wide_b) = (cut(&a), cut(&b));
        let mut acc = vec![0; m * n * 4];
        let mut scratch = MatmulScratch::default();
        let opts = MatmulOpts { tf32 };
        let (a, b) = (dense(&a, k), dense(&b, n));
        matmul(m, n, k, &a, &b, &mut acc, n, DType::F32, false, opts, &mut scratch);
        for i in 0..m {
            for j in 0..n {
                let sum: f64 = (0..k).map(|l| wide_a[i * k + l] * wide_b[l * n + j]).sum();
                let ours = f32::from_bits(load_scalar(4, &acc, i * n + j) as u32) as f64;
                assert!((ours - sum).abs() < 2e-5, "{ours} is not {sum}");
            }
        }
    }
}

#[test]
fn unaligned_tiles_multiply() {
    let (m, n, k) = (8, 8, 8);
    let x = small_numbers(DType::F32, m * k, 5);
    let shifted: Vec<u8> = [&[0u8][..], &x].concat();
    let product = |data: &[u8], out: &mut [u8]| {
        let x = MatRef { dtype: DType::F32, data, offset: 0, row_stride: 8, col_stride: 1 };
        let mut scratch = MatmulScratch::default();
        let opts = MatmulOpts::default();
        matmul(m, n, k, &x, &x, out, n, DType::F32, false, opts, &mut scratch);
    };
    let (mut expected, mut out) = (vec![0; 256], vec![0; 257]);
    product(&x, &mut expected);
    product(&shifted[1..], &mut out[1..]);
    assert_eq!(out[1..], expected[..]);
    let mut copy = vec![0; 256];
    copy_strided(4, &[64], &out[1..], 0, &[1], &mut copy, 0, &[1]);
    assert_eq!(copy, expected);
}

#[test]
fn deep_integer_products_stay_exact() {
    let (m, n, k) = (3, 5, 1500);
    for (dtype, extreme) in
        [(DType::I8, 0x80u64), (DType::U8, 0xff), (DType::I16, 0x8000), (DType::U16, 0xffff)]
    {
        let size = dtype.size();
        let mut x = vec![0; k * n * size];
        pallas_rs_core::fill(size, extreme, &mut x);
        let mut wide = [0; 8];
        convert(dtype, DType::I64, &x[..size], &mut wide);
        let value = i64::from_le_bytes(wide);
        let a = MatRef { dtype, data: &x, offset: 0, row_stride: k as isize, col_stride: 1 };
        let b = MatRef { dtype, data: &x, offset: 0, row_stride: n as isize, col_stride: 1 };
        let mut acc = vec![0; m * n * 4];
        let (opts, mut scratch) = (MatmulOpts::default(), MatmulScratch::default());
        matmul(m, n, k, &a, &b, &mut acc, n, DType::I32, false, opts, &mut scratch);
        for i in 0..m * n {
            let sum = (value * value * k as i64) as i32;
            assert_eq!(load_scalar(4, &acc, i) as u32 as i32, sum, "{dtype}");
        }
    }
}
