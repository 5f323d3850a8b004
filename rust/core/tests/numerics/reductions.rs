//! Reductions against loops over every index.

use pallas_rs_core::{
    BinaryKind, CumulativeKind, DType, ReduceKind, SplitMix64, arg_reduce, binary_scalar, convert,
    convert_scalar, cumulative, dense_strides, load_scalar, reduce,
};
use proptest::prelude::*;

use crate::shapes::{indices, offset};

/// Small numbers of any type, so that sums are exact.
pub(crate) fn small_numbers(dtype: DType, count: usize, seed: u64) -> Vec<u8> {
    let mut rng = SplitMix64::new(seed);
    let signed = dtype.is_float() || dtype.name().starts_with("int");
    let low = if signed { -2 } else { 0 };
    let span = if dtype == DType::Bool { 2 } else { 4 };
    let ints: Vec<u8> =
        (0..count).flat_map(|_| (rng.below(span) as i32 + low).to_le_bytes()).collect();
    let mut out = vec![0; count * dtype.size()];
    convert(DType::I32, dtype, &ints, &mut out);
    out
}

const TYPES: &[DType] = &[
    DType::Bool,
    DType::I4,
    DType::U2,
    DType::I8,
    DType::I32,
    DType::U64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

const KINDS: &[(ReduceKind, BinaryKind)] = &[
    (ReduceKind::Sum, BinaryKind::Add),
    (ReduceKind::Prod, BinaryKind::Mul),
    (ReduceKind::Max, BinaryKind::Max),
    (ReduceKind::Min, BinaryKind::Min),
    (ReduceKind::And, BinaryKind::And),
    (ReduceKind::Or, BinaryKind::Or),
    (ReduceKind::Xor, BinaryKind::Xor),
];

proptest! {
    #[test]
    fn reduction_is_the_fold_over_indices(
        shape in prop::collection::vec(prop_oneof![4 => 1usize..5, 1 => 30usize..70], 1..5),
        mask in 0usize..16,
        dtype in prop::sample::select(TYPES),
        kind in prop::sample::select(KINDS),
        seed in any::<u64>(),
    ) {
        let (kind, combine) = kind;
        prop_assume!(kind.supports(dtype));
        let axes: Vec<usize> = (0..shape.len()).filter(|i| mask >> i & 1 == 1).collect();
        let count = shape.iter().product::<usize>();
        // A product of many numbers overflows in an order-dependent way on floats.
        prop_assume!(kind != ReduceKind::Prod || !dtype.is_float() || count < 60);
        // The sums of a float of few bits are rounded once, not step by step.
        let exact = if dtype.is_float() { DType::F64 } else { dtype };
        let x = small_numbers(dtype, count, seed);
        let kept: Vec<usize> = (0..shape.len()).filter(|i| !axes.contains(i)).collect();
        let out_shape: Vec<usize> = kept.iter().map(|i| shape[*i]).collect();
        let out_strides = dense_strides(&out_shape);
        let results = out_shape.iter().product::<usize>();
        let mut expected = vec![None; results];
        for index in indices(&shape) {
            let place: Vec<usize> = kept.iter().map(|i| index[*i]).collect();
            let place = offset(&place, &out_strides) as usize;
            let at = offset(&index, &dense_strides(&shape)) as usize;
            let value = convert_scalar(dtype, exact, load_scalar(dtype.size(), &x, at));
            expected[place] = Some(match expected[place] {
                None => value,
                Some(so_far) => binary_scalar(combine, exact, so_far, value),
            });
        }
        let mut out = vec![0xaa; results * dtype.size()];
        reduce(kind, dtype, &shape, &axes, &x, &mut out);
        for (i, expected) in expected.into_iter().enumerate() {
            let expected = convert_scalar(exact, dtype, expected.expect("no axis is empty"));
            let ours = load_scalar(dtype.size(), &out, i);
            let zeros = dtype.is_float() && convert_scalar(dtype, DType::Bool, expected) == 0
                && convert_scalar(dtype, DType::Bool, ours) == 0;
            prop_assert!(ours == expected || zeros, "{ours:x} is not {expected:x}");
        }
    }

    #[test]
    fn running_sum_ends_in_the_sum(
        shape in prop::collection::vec(1usize..6, 1..4),
        axis in 0usize..3,
        reverse in any::<bool>(),
        dtype in prop::sample::select(&TYPES[1..]),
        seed in any::<u64>(),
    ) {
        let axis = axis % shape.len();
        let count = shape.iter().product::<usize>();
        let x = small_numbers(dtype, count, seed);
        let mut running = vec![0; x.len()];
        cumulative(CumulativeKind::Sum, dtype, &shape, axis, reverse, &x, &mut running);
        let strides = dense_strides(&shape);
        for index in indices(&shape) {
            let range = if reverse { index[axis]..shape[axis] } else { 0..index[axis] + 1 };
            let sum = range.fold(0, |sum, i| {
                let mut index = index.clone();
                index[axis] = i;
                let at = offset(&index, &strides) as usize;
                binary_scalar(BinaryKind::Add, dtype, sum, load_scalar(dtype.size(), &x, at))
            });
            let at = offset(&index, &strides) as usize;
            let ours = load_scalar(dtype.size(), &running, at);
            let equal = pallas_rs_core::compare_scalar(
                pallas_rs_core::CompareKind::Eq, dtype, ours, sum);
            prop_assert!(equal, "{ours:x} is not {sum:x}");
        }
    }

    #[test]
    fn first_extreme_is_found(
        shape in prop::collection::vec(1usize..6, 1..4),
        axis in 0usize..3,
        largest in any::<bool>(),
        dtype in prop::sample::select(TYPES),
        seed in any::<u64>(),
    ) {
        let axis = axis % shape.len();
        let count = shape.iter().product::<usize>();
        let x = small_numbers(dtype, count, seed);
        let kind = if largest { ReduceKind::ArgMax } else { ReduceKind::ArgMin };
        let extreme = if largest { ReduceKind::Max } else { ReduceKind::Min };
        let mut found = vec![0; count / shape[axis] * 4];
        arg_reduce(kind, dtype, DType::I32, &shape, axis, &x, &mut found);
        let mut best = vec![0; count / shape[axis] * dtype.size()];
        reduce(extreme, dtype, &shape, &[axis], &x, &mut best);
        let inner = shape[axis + 1..].iter().product::<usize>();
        for result in 0..count / shape[axis] {
            let value = load_scalar(dtype.size(), &best, result);
            let first = (0..shape[axis]).position(|i| {
                let at = (result / inner * shape[axis] + i) * inner + result % inner;
                let eq = pallas_rs_core::CompareKind::Eq;
                pallas_rs_core::compare_scalar(eq, dtype, load_scalar(dtype.size(), &x, at), value)
            });
            prop_assert_eq!(Some(load_scalar(4, &found, result) as usize), first);
        }
    }
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

#[test]
fn nan_wins() {
    let x = f32s(&[1.0, f32::NAN, 3.0, f32::NAN]);
    let mut index = [0; 4];
    arg_reduce(ReduceKind::ArgMin, DType::F32, DType::I32, &[4], 0, &x, &mut index);
    assert_eq!(i32::from_le_bytes(index), 1);
    let mut out = [0; 4];
    for kind in [ReduceKind::Max, ReduceKind::Min] {
        reduce(kind, DType::F32, &[4], &[0], &x, &mut out);
        assert!(f32::from_le_bytes(out).is_nan());
    }
}

#[test]
fn nothing_reduces_to_the_identity() {
    let mut out = [7; 4];
    reduce(ReduceKind::Max, DType::I32, &[0], &[0], &[], &mut out);
    assert_eq!(i32::from_le_bytes(out), i32::MIN);
    reduce(ReduceKind::Min, DType::F32, &[0], &[0], &[], &mut out);
    assert_eq!(f32::from_le_bytes(out), f32::INFINITY);
    let mut out = [7];
    reduce(ReduceKind::And, DType::Bool, &[0], &[0], &[], &mut out);
    assert_eq!(out, [1]);
    reduce(ReduceKind::Min, DType::I4, &[0], &[0], &[], &mut out);
    assert_eq!(out, [7]);
}

#[test]
fn lanes_are_summed_in_the_documented_order() {
    let mut rng = SplitMix64::new(3);
    for len in [1, 5, 31, 32, 33, 100, 512, 513, 2000] {
        let x: Vec<f32> = (0..len).map(|_| rng.next_u64() as f32 / 1e19).collect();
        let mut lanes = [0f32; 32];
        for (i, x) in x.iter().enumerate() {
            lanes[i % 32] += x;
        }
        let mut width = 16;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
            width /= 2;
        }
        let mut out = [0; 4];
        reduce(ReduceKind::Sum, DType::F32, &[len], &[0], &f32s(&x), &mut out);
        assert_eq!(f32::from_le_bytes(out), lanes[0]);
    }
}

#[test]
fn running_log_sum_exp_survives_infinities() {
    let x = f32s(&[f32::NEG_INFINITY, 1.0, 2.0, f32::INFINITY, 0.0]);
    let mut out = vec![0; x.len()];
    cumulative(CumulativeKind::LogSumExp, DType::F32, &[5], 0, false, &x, &mut out);
    let out: Vec<f32> = out.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
    assert_eq!(out[..2], [f32::NEG_INFINITY, 1.0]);
    assert!((out[2] - 2.3132617).abs() < 1e-6);
    assert_eq!(out[3..], [f32::INFINITY; 2]);
}
