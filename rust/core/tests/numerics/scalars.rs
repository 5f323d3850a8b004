//! Scalar registers agree with tiles, in every form an operation can be called.

use pallas_rs_core::{
    BinaryKind, CompareKind, DType, Operand, SplitMix64, UnaryKind, binary, binary_in_place,
    binary_in_place_rhs, binary_scalar, compare, compare_scalar, convert, convert_scalar,
    convert_supports, load_scalar, select, select_n, store_scalar, unary, unary_scalar,
};

const COUNT: usize = 700;

/// Random codes of a type, in the form it is kept in.
fn codes(dtype: DType, seed: u64) -> Vec<u8> {
    let mut rng = SplitMix64::new(seed);
    let size = dtype.size();
    let mut out = vec![0; COUNT * size];
    for i in 0..COUNT {
        let mut bits = rng.next_u64();
        // Many small numbers: shifts, divisors and equal operands are then met.
        if dtype.is_int() && bits & 7 < 3 {
            bits = (bits >> 8) % 5;
        }
        let bits = if size == 8 { bits } else { bits & ((1 << (8 * size)) - 1) };
        let packed = [bits as u8];
        let mut byte = [0];
        let bits = if dtype == DType::Bool {
            bits & 1
        } else if dtype.is_sub_byte() {
            pallas_rs_core::unpack(dtype, &packed, &mut byte);
            byte[0] as u64
        } else {
            bits
        };
        store_scalar(size, bits, &mut out, i);
    }
    out
}

/// Equal codes, or both NaN: which of two NaNs an operation passes on is left to the compiler.
fn assert_same(dtype: DType, ours: &[u8], expected: &[u8], kind: impl std::fmt::Debug) {
    assert_eq!(ours.len(), expected.len());
    for i in 0..ours.len() / dtype.size() {
        let (ours, expected) =
            (load_scalar(dtype.size(), ours, i), load_scalar(dtype.size(), expected, i));
        let is_nan = |x| !compare_scalar(CompareKind::Eq, dtype, x, x);
        let same = ours == expected || is_nan(ours) && is_nan(expected);
        assert!(same, "{kind:?} {dtype}: {ours:#x} is not {expected:#x}");
    }
}

fn scalar_types() -> impl Iterator<Item = DType> {
    DType::ALL.iter().copied().filter(|d| d.fits_scalar())
}

#[test]
fn unary_scalars_agree_with_tiles() {
    for dtype in scalar_types() {
        let x = codes(dtype, 1);
        for kind in UnaryKind::ALL.iter().copied().filter(|kind| kind.supports(dtype)) {
            let size = kind.result(dtype).size();
            let mut out = vec![0; COUNT * size];
            unary(kind, dtype, &x, &mut out);
            let mut expected = vec![0; COUNT * size];
            for i in 0..COUNT {
                let value = unary_scalar(kind, dtype, load_scalar(dtype.size(), &x, i));
                store_scalar(size, value, &mut expected, i);
            }
            assert_same(kind.result(dtype), &out, &expected, kind);
        }
    }
}

#[test]
fn all_forms_of_a_binary_operation_agree() {
    for dtype in scalar_types() {
        let (a, b) = (codes(dtype, 1), codes(dtype, 2));
        let size = dtype.size();
        let (a0, b0) = (load_scalar(size, &a, 0), load_scalar(size, &b, 0));
        for kind in BinaryKind::ALL.iter().copied().filter(|kind| kind.supports(dtype)) {
            let scalars = |a: &dyn Fn(usize) -> u64, b: &dyn Fn(usize) -> u64| {
                let mut out = vec![0; COUNT * size];
                for i in 0..COUNT {
                    store_scalar(size, binary_scalar(kind, dtype, a(i), b(i)), &mut out, i);
                }
                out
            };
            let at_a = |i| load_scalar(size, &a, i);
            let at_b = |i| load_scalar(size, &b, i);
            let cases = [
                (Operand::Slice(&a), Operand::Slice(&b), scalars(&at_a, &at_b)),
                (Operand::Slice(&a), Operand::Splat(b0), scalars(&at_a, &|_| b0)),
                (Operand::Splat(a0), Operand::Slice(&b), scalars(&|_| a0, &at_b)),
                (Operand::Splat(a0), Operand::Splat(b0), scalars(&|_| a0, &|_| b0)),
            ];
            for (left, right, expected) in cases {
                let mut out = vec![0; COUNT * size];
                binary(kind, dtype, left, right, &mut out);
                assert_same(dtype, &out, &expected, kind);
                if let Operand::Slice(a) = left {
                    let mut a = a.to_vec();
                    binary_in_place(kind, dtype, &mut a, right);
                    assert_same(dtype, &a, &expected, kind);
                }
                if let Operand::Slice(b) = right {
                    let mut b = b.to_vec();
                    binary_in_place_rhs(kind, dtype, left, &mut b);
                    assert_same(dtype, &b, &expected, kind);
                }
            }
        }
    }
}

#[test]
fn comparisons_agree_and_the_total_order_is_total() {
    for dtype in scalar_types() {
        let (a, b) = (codes(dtype, 1), codes(dtype, 2));
        let size = dtype.size();
        for kind in CompareKind::ALL.iter().copied() {
            let (mut out, mut mixed) = (vec![0; COUNT], vec![0; COUNT]);
            compare(kind, dtype, Operand::Slice(&a), Operand::Slice(&b), &mut out);
            let first = load_scalar(size, &b, 0);
            compare(kind, dtype, Operand::Slice(&a), Operand::Splat(first), &mut mixed);
            for i in 0..COUNT {
                let (a, b) = (load_scalar(size, &a, i), load_scalar(size, &b, i));
                assert_eq!(compare_scalar(kind, dtype, a, b) as u8, out[i], "{kind:?} {dtype}");
                assert_eq!(compare_scalar(kind, dtype, a, first) as u8, mixed[i]);
                let total = |kind, a, b| compare_scalar(kind, dtype, a, b);
                assert_ne!(total(CompareKind::LtTo, a, b), total(CompareKind::LeTo, b, a));
            }
        }
    }
}

#[test]
fn conversions_agree() {
    for from in scalar_types() {
        let x = codes(from, 3);
        for to in scalar_types() {
            assert!(convert_supports(from, to));
            let mut out = vec![0; COUNT * to.size()];
            convert(from, to, &x, &mut out);
            for i in 0..COUNT {
                let x = load_scalar(from.size(), &x, i);
                let expected = load_scalar(to.size(), &out, i);
                assert_eq!(convert_scalar(from, to, x), expected, "{from} to {to}: {x:#x}");
            }
        }
    }
}

#[test]
fn every_kind_is_defined_somewhere() {
    assert!(UnaryKind::ALL.iter().all(|kind| scalar_types().any(|dtype| kind.supports(dtype))));
    assert!(BinaryKind::ALL.iter().all(|kind| scalar_types().any(|dtype| kind.supports(dtype))));
    assert!(!UnaryKind::Neg.supports(DType::C64));
    assert!(!BinaryKind::And.supports(DType::F32));
}

#[test]
fn selection_takes_every_mixture() {
    for size in [1, 2, 4, 8] {
        let x: Vec<u8> = (0..900 * size).map(|i| i as u8).collect();
        let pred: Vec<u8> = (0..900).map(|i| (i % 3 == 0) as u8).collect();
        let splat = 0x1122_3344_5566_7788;
        let mut out = vec![0; x.len()];
        select(Operand::Slice(&pred), size, Operand::Splat(splat), Operand::Slice(&x), &mut out);
        for i in 0..900 {
            let expected = if pred[i] == 1 { &x[i * size..] } else { &u64::to_le_bytes(splat) };
            assert_eq!(out[i * size..][..size], expected[..size]);
        }
        select(Operand::Splat(1), size, Operand::Splat(0), Operand::Slice(&x), &mut out);
        assert_eq!(out, x);
        let which: Vec<u8> = (0..900i32).flat_map(|i| (i % 5 - 1).to_le_bytes()).collect();
        let cases = [Operand::Splat(0), Operand::Slice(&x), Operand::Splat(splat)];
        select_n(DType::I32, Operand::Slice(&which), size, &cases, &mut out);
        for i in 0..900 {
            let expected = match i % 5 {
                0 | 1 => &[0; 8],
                2 => &x[i * size..],
                _ => &u64::to_le_bytes(splat)[..],
            };
            assert_eq!(out[i * size..][..size], expected[..size]);
        }
    }
}
