//! What the machine is made of: products of tiles, chains, programs as bytes.
//!
//! `cargo bench -p pallas_rs_vm --bench parts`. Only ratios within one run mean anything.
#![allow(unsafe_code, reason = "the machine takes arrays as XLA hands them over")]
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pallas_rs_core::{BinaryKind, DType, MatRef, MatmulOpts, MatmulScratch, UnaryKind, matmul};
use pallas_rs_ir::builder::Builder;
use pallas_rs_ir::{Program, wire};
use pallas_rs_vm::{Executable, GlobalBuffer, NoHost};
use std::hint::black_box;

/// Products as a warpgroup makes them: 128 x 128 x 64, of every type of operands and accumulator.
fn tile_products(c: &mut Criterion) {
    const M: usize = 128;
    const N: usize = 128;
    const K: usize = 64;
    let pairs = [
        (DType::F32, DType::F32),
        (DType::F16, DType::F32),
        (DType::F16, DType::F16),
        (DType::BF16, DType::F32),
        (DType::F8E4M3FN, DType::F32),
        (DType::F8E5M2, DType::F32),
        (DType::I8, DType::I32),
        (DType::U8, DType::I32),
        (DType::F64, DType::F64),
    ];
    let mut group = c.benchmark_group("tile_product");
    group.throughput(Throughput::Elements((2 * M * N * K) as u64));
    for (dtype, acc_dtype) in pairs {
        let data = vec![0x11; M.max(N) * K * dtype.size()];
        let of = |columns: usize| {
            let (row_stride, col_stride) = (columns as isize, 1);
            MatRef { dtype, data: &data, offset: 0, row_stride, col_stride }
        };
        let mut acc = vec![0; M * N * acc_dtype.size()];
        let (opts, mut scratch) = (MatmulOpts::default(), MatmulScratch::default());
        group.bench_function(format!("{dtype}_{acc_dtype}"), |b| {
            let (a, b_matrix) = (of(K), of(N));
            b.iter(|| {
                let out = black_box(&mut acc[..]);
                matmul(M, N, K, &a, &b_matrix, out, N, acc_dtype, true, opts, &mut scratch);
            });
        });
    }
    group.finish();
}

/// `o = exp(x * y - x) / y` on one tile.
fn chain(rows: usize, cols: usize) -> Program {
    let mut b = Builder::new("chain");
    b.in_order().grid(&[1]);
    let x = b.input("x_ref", DType::F32, &[rows, cols]);
    let y = b.input("y_ref", DType::F32, &[rows, cols]);
    let o = b.output("o_ref", DType::F32, &[rows, cols]);
    let (x, y) = (b.load(x), b.load(y));
    let product = b.mul(x, y);
    let shifted = b.sub(product, x);
    let exp = b.unary(UnaryKind::Exp, shifted);
    let out = b.binary(BinaryKind::Div, exp, y);
    b.store(o, out);
    b.finish()
}

fn fused_chain(c: &mut Criterion) {
    const ROWS: usize = 64;
    const COLS: usize = 512;
    let executable = Executable::new(chain(ROWS, COLS));
    let mut arrays: [Vec<f32>; 3] = std::array::from_fn(|_| vec![1.5; ROWS * COLS]);
    let mut group = c.benchmark_group("chain");
    group.throughput(Throughput::Elements((ROWS * COLS) as u64));
    group.bench_function("mul_sub_exp_div", |b| {
        b.iter(|| {
            let [x, y, o] = arrays.each_mut().map(|array| {
                let (ptr, len) = (array.as_mut_ptr().cast(), array.len() * 4);
                // SAFETY: the vector outlives the run and nobody else touches it meanwhile.
                unsafe { GlobalBuffer::from_raw(ptr, len, DType::F32, &[]) }
            });
            let outcome = executable.run(&[x, y], &[o], &NoHost);
            assert_eq!(black_box(outcome.failure), None);
        });
    });
    group.finish();
}

/// What the first call of an executable pays: bytes to a program, program to code.
fn first_call(c: &mut Criterion) {
    const STEPS: u64 = 200;
    let mut b = Builder::new("long");
    let x = b.input("x_ref", DType::F32, &[8, 128]);
    let o = b.output("o_ref", DType::F32, &[8, 128]);
    let mut value = b.load(x);
    for _ in 0..STEPS {
        value = b.add(value, value);
    }
    b.store(o, value);
    let program = b.finish();
    let bytes = wire::encode(&program);
    let mut group = c.benchmark_group("first_call");
    group.throughput(Throughput::Elements(STEPS));
    group.bench_function("decode", |b| {
        b.iter(|| wire::decode(black_box(&bytes)).expect("encoded above"));
    });
    group.bench_function("compile", |b| b.iter(|| Executable::new(black_box(program.clone()))));
    group.finish();
}

criterion_group!(parts, tile_products, fused_chain, first_call);
criterion_main!(parts);
