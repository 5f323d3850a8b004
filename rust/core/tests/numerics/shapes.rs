//! Strided copies and broadcast operations against a loop over every index.

use pallas_rs_core::{
    BinaryKind, CompareKind, DType, Operand, binary, binary_bcast, compare_bcast, copy_strided,
    dense_strides, iota,
};
use proptest::prelude::*;

/// Every index of a shape, in row-major order.
pub(crate) fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |indices, &size| {
        let extend = |index: Vec<usize>| (0..size).map(move |i| [&index[..], &[i]].concat());
        indices.into_iter().flat_map(extend).collect()
    })
}

pub(crate) fn offset(index: &[usize], strides: &[isize]) -> isize {
    index.iter().zip(strides).map(|(i, stride)| *i as isize * stride).sum()
}

/// A destination with its dimensions in any order and gaps between; a source with any strides.
#[derive(Clone, Debug)]
struct Copy {
    size: usize,
    shape: Vec<usize>,
    src_strides: Vec<isize>,
    dst_strides: Vec<isize>,
}

fn copies() -> impl Strategy<Value = Copy> {
    let shape = prop::collection::vec(prop_oneof![3 => 0usize..6, 1 => 6usize..20], 0..5);
    let sizes = prop_oneof![Just(1usize), Just(2), Just(4), Just(8), Just(16)];
    (shape, sizes).prop_flat_map(|(shape, size)| {
        let rank = shape.len();
        let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
        let source = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
        let tweak = prop::collection::vec(0..5u8, rank);
        (Just(shape), Just(size), order, source, tweak, 1..3isize).prop_map(
            |(shape, size, order, source, tweak, gap)| {
                let along = |order: &[usize], first: isize| {
                    let mut strides = vec![0; shape.len()];
                    let mut step = first;
                    for &dim in order {
                        strides[dim] = step;
                        step *= shape[dim].max(1) as isize;
                    }
                    strides
                };
                let dst_strides = along(&order, gap);
                let mut src_strides = along(&source, 1);
                for (stride, tweak) in src_strides.iter_mut().zip(tweak) {
                    match tweak {
                        0 => *stride = 0,
                        1 => *stride = -*stride,
                        _ => {}
                    }
                }
                Copy { size, shape, src_strides, dst_strides }
            },
        )
    })
}

fn reach(shape: &[usize], strides: &[isize]) -> (isize, isize) {
    let ends = shape.iter().zip(strides).map(|(n, s)| n.saturating_sub(1) as isize * s);
    ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)))
}

proptest! {
    #[test]
    fn strided_copy_is_the_loop_over_indices(copy in copies()) {
        let Copy { size, shape, src_strides, dst_strides } = copy;
        let (low, high) = reach(&shape, &src_strides);
        let (_, dst_high) = reach(&shape, &dst_strides);
        let src: Vec<u8> =
            (0..(high - low + 1) as usize * size).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut dst = vec![0xee; (dst_high + 3) as usize * size];
        let mut expected = dst.clone();
        for index in indices(&shape) {
            let from = (offset(&index, &src_strides) - low) as usize * size;
            let to = (offset(&index, &dst_strides) + 2) as usize * size;
            expected[to..to + size].copy_from_slice(&src[from..from + size]);
        }
        copy_strided(size, &shape, &src, -low, &src_strides, &mut dst, 2, &dst_strides);
        prop_assert_eq!(dst, expected);
    }

    #[test]
    fn broadcast_is_the_operation_on_copies(
        shape in prop::collection::vec(1usize..7, 1..4),
        kept in prop::collection::vec((any::<bool>(), any::<bool>()), 4),
    ) {
        let count = shape.iter().product::<usize>();
        let strides = dense_strides(&shape);
        let masked = |second: bool| -> Vec<isize> {
            let keep = |i: usize| if second { kept[i].1 } else { kept[i].0 };
            strides.iter().enumerate().map(|(i, s)| if keep(i) { *s } else { 0 }).collect()
        };
        let (a_strides, b_strides) = (masked(false), masked(true));
        let data = |seed: usize| -> Vec<u8> {
            (0..count).flat_map(|i| ((i * seed) as f32 * 0.37 - 3.0).to_le_bytes()).collect()
        };
        let (a, b) = (data(5), data(11));
        let spread = |x: &[u8], from: &[isize]| {
            let mut out = vec![0; count * 4];
            copy_strided(4, &shape, x, 0, from, &mut out, 0, &strides);
            out
        };
        let (wide_a, wide_b) = (spread(&a, &a_strides), spread(&b, &b_strides));
        let (wide_a, wide_b) = (Operand::Slice(&wide_a), Operand::Slice(&wide_b));
        let (mut out, mut expected) = (vec![0; count * 4], vec![0; count * 4]);
        let f32 = DType::F32;
        binary_bcast(BinaryKind::Sub, f32, &a, &a_strides, &b, &b_strides, &shape, &mut out);
        binary(BinaryKind::Sub, f32, wide_a, wide_b, &mut expected);
        prop_assert_eq!(&out, &expected);
        let (mut less, mut expected) = (vec![0; count], vec![0; count]);
        compare_bcast(CompareKind::Lt, f32, &a, &a_strides, &b, &b_strides, &shape, &mut less);
        pallas_rs_core::compare(CompareKind::Lt, f32, wide_a, wide_b, &mut expected);
        prop_assert_eq!(less, expected);
    }
}

#[test]
fn iota_counts_along_its_dimension() {
    let mut out = [9; 12];
    iota(DType::I8, &[2, 3, 2], 1, &mut out);
    assert_eq!(out, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
    let mut out = [9; 6];
    iota(DType::U8, &[6], 0, &mut out);
    assert_eq!(out, [0, 1, 2, 3, 4, 5]);
    let mut out = [9; 8];
    iota(DType::F16, &[2, 2], 0, &mut out);
    assert_eq!(out, [0, 0, 0, 0, 0, 0x3c, 0, 0x3c]);
}
