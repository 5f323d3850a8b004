//! How fast the hot functions are on this machine: `cargo run --release --example speed`.

use std::time::Instant;

use pallas_rs_core::{
    BinaryKind, DType, MatRef, MatmulOpts, MatmulScratch, Operand, ReduceKind, UnaryKind, binary,
    binary_bcast, binary_in_place, convert, copy_strided, matmul, reduce, select, unary,
    unary_in_place,
};

/// Nanoseconds of the best of many runs.
#[allow(clippy::disallowed_methods, reason = "a clock is what this program is about")]
fn best(mut f: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let start = Instant::now();
    while start.elapsed().as_millis() < 200 {
        let run = Instant::now();
        for _ in 0..4 {
            f();
        }
        best = best.min(run.elapsed().as_nanos() as f64 / 4.0);
    }
    best
}

#[allow(clippy::print_stdout, reason = "printing is what this program is for")]
fn main() {
    let count = 8 * 512;
    let per_element =
        |name: &str, ns: f64| println!("{name:32} {:8.3} ns/element", ns / count as f64);
    let x: Vec<u8> =
        (0..count).flat_map(|i| ((i % 1000) as f32 * 0.01 - 5.0).to_le_bytes()).collect();
    let mut out = vec![0; x.len()];
    for kind in [
        UnaryKind::Neg,
        UnaryKind::Exp,
        UnaryKind::Exp2,
        UnaryKind::Expm1,
        UnaryKind::Log,
        UnaryKind::Log2,
        UnaryKind::Log1p,
        UnaryKind::Tanh,
        UnaryKind::Logistic,
        UnaryKind::Erf,
        UnaryKind::Sin,
        UnaryKind::Rsqrt,
        UnaryKind::Atan,
        UnaryKind::RoundHalfEven,
    ] {
        per_element(&format!("{kind:?} f32"), best(|| unary(kind, DType::F32, &x, &mut out)));
    }
    let mut y = x.clone();
    let neg = best(|| unary_in_place(UnaryKind::Neg, DType::F32, &mut y));
    per_element("Neg f32 in place", neg);
    for dtype in [DType::F16, DType::BF16, DType::F8E4M3FN, DType::F8E5M2] {
        let mut narrow = vec![0; count * dtype.size()];
        let to = best(|| convert(DType::F32, dtype, &x, &mut narrow));
        per_element(&format!("f32 to {dtype}"), to);
        let from = best(|| convert(dtype, DType::F32, &narrow, &mut out));
        per_element(&format!("{dtype} to f32"), from);
        let mut result = narrow.clone();
        let add = best(|| {
            let (a, b) = (Operand::Slice(&narrow), Operand::Slice(&narrow));
            binary(BinaryKind::Add, dtype, a, b, &mut result);
        });
        per_element(&format!("Add {dtype}"), add);
    }
    for kind in [BinaryKind::Add, BinaryKind::Div, BinaryKind::Max, BinaryKind::Pow] {
        let apart = best(|| {
            binary(kind, DType::F32, Operand::Slice(&x), Operand::Slice(&x), &mut out);
        });
        per_element(&format!("{kind:?} f32"), apart);
    }
    let one = 1f32.to_bits() as u64;
    let mul = BinaryKind::Mul;
    per_element(
        "Mul f32 in place by a scalar",
        best(|| binary_in_place(mul, DType::F32, &mut y, Operand::Splat(one))),
    );
    per_element(
        "Mul f32 by a scalar",
        best(|| binary(mul, DType::F32, Operand::Slice(&x), Operand::Splat(one), &mut out)),
    );
    let by_row = best(|| {
        binary_bcast(BinaryKind::Sub, DType::F32, &x, &[512, 1], &x, &[1, 0], &[8, 512], &mut out);
    });
    per_element("Sub f32, [8, 512] - [8, 1]", by_row);
    let by_row = best(|| {
        binary_bcast(BinaryKind::Sub, DType::F32, &x, &[64, 1], &x, &[1, 0], &[64, 64], &mut out);
    });
    per_element("Sub f32, [64, 64] - [64, 1]", by_row);
    let pred: Vec<u8> = (0..count).map(|i| (i % 3 == 0) as u8).collect();
    let chosen = best(|| {
        select(Operand::Slice(&pred), 4, Operand::Splat(0), Operand::Slice(&x), &mut out);
    });
    per_element("select f32", chosen);
    for kind in [ReduceKind::Sum, ReduceKind::Max] {
        for (shape, axis) in [([8, 512], 1), ([64, 64], 1), ([64, 64], 0)] {
            let mut sums = vec![0; count / shape[axis] * 4];
            let ns = best(|| reduce(kind, DType::F32, &shape, &[axis], &x, &mut sums));
            per_element(&format!("{kind:?} f32 {shape:?} axis {axis}"), ns);
        }
    }
    let transpose = best(|| {
        copy_strided(4, &[64, 64], &x, 0, &[1, 64], &mut out, 0, &[64, 1]);
    });
    per_element("transpose f32 64x64", transpose);
    let transpose = best(|| {
        copy_strided(2, &[64, 64], &x, 0, &[1, 64], &mut out, 0, &[64, 1]);
    });
    per_element("transpose f16 64x64", transpose);
    let tile = best(|| {
        copy_strided(2, &[64, 32], &x, 0, &[128, 1], &mut out, 0, &[32, 1]);
    });
    println!("{:32} {tile:8.1} ns", "copy a 64x32 f16 tile");

    let mut scratch = MatmulScratch::default();
    for (m, n, k) in [(16, 16, 16), (64, 64, 16), (64, 64, 64), (128, 128, 64), (256, 256, 64)] {
        for (dtype, acc) in [
            (DType::F32, DType::F32),
            (DType::F16, DType::F32),
            (DType::BF16, DType::F32),
            (DType::F8E4M3FN, DType::F32),
            (DType::I8, DType::I32),
        ] {
            let a = vec![0u8; m * k * dtype.size()];
            let b = vec![0u8; n * k * dtype.size()];
            let mut sums = vec![0u8; m * n * 4];
            let left = MatRef { dtype, data: &a, offset: 0, row_stride: k as isize, col_stride: 1 };
            for (order, strides) in [("nn", (n as isize, 1)), ("nt", (1, k as isize))] {
                let right = MatRef {
                    dtype,
                    data: &b,
                    offset: 0,
                    row_stride: strides.0,
                    col_stride: strides.1,
                };
                let ns = best(|| {
                    let opts = MatmulOpts::default();
                    matmul(m, n, k, &left, &right, &mut sums, n, acc, true, opts, &mut scratch);
                });
                let rate = 2.0 * (m * n * k) as f64 / ns;
                println!("{m:4}x{n:4}x{k:4} {order} {dtype:14} {rate:8.1} GFLOP/s {ns:10.0} ns");
            }
        }
    }
}
