//! Programs as `pl.pallas_call` makes them: index maps, block windows, one thread per block.

mod common;

use common::{Array, bytes, f32s, i32s, run};
use pallas_rs_core::{BinaryKind, CompareKind, DType, ReduceKind, UnaryKind};
use pallas_rs_ir::builder::Builder;
use pallas_rs_ir::options::{OutOfBounds, Uninitialized};
use pallas_rs_ir::{BlockDim, Program};

const B: fn(usize) -> BlockDim = BlockDim::Blocked;

/// `o[block] = x[block] + y[block]` over one dimension of blocks.
fn add(rows: usize, cols: usize, block: usize) -> Program {
    let mut b = Builder::new("add");
    b.in_order().grid(&[rows.div_ceil(block) as u64]);
    let x = b.input("x_ref", DType::F32, &[rows, cols]);
    let y = b.input("y_ref", DType::F32, &[rows, cols]);
    let o = b.output("o_ref", DType::F32, &[rows, cols]);
    let (i, zero) = (b.program_id(0), b.int(0));
    let [x, y, o] = [x, y, o].map(|a| b.block_window(a, &[B(block), B(cols)], &[i, zero]));
    let (x, y) = (b.load(x), b.load(y));
    let sum = b.add(x, y);
    b.store(o, sum);
    b.finish()
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

#[test]
fn blocks_of_an_array() {
    let (x, y) = (ramp(64 * 16), ramp(64 * 16));
    let ran = run(add(64, 16, 8), &[f32s(&x), f32s(&y)]).ok();
    assert_eq!(ran.f32s(0), x.iter().map(|x| x + x).collect::<Vec<_>>());
    assert_eq!(ran.report.stats.blocks, 8);
}

#[test]
fn the_last_block_may_hang_over_the_edge() {
    let x = ramp(10 * 3);
    let ran = run(add(10, 3, 4), &[f32s(&x), f32s(&x)]).ok();
    assert_eq!(ran.f32s(0), x.iter().map(|x| x + x).collect::<Vec<_>>());
}

#[test]
fn blocks_visited_again_see_what_was_written() {
    let mut b = Builder::new("reduce");
    b.in_order().grid(&[3, 4]);
    let x = b.input("x_ref", DType::F32, &[3, 4]);
    let o = b.output("o_ref", DType::F32, &[3]);
    let (i, j) = (b.program_id(0), b.program_id(1));
    let x = b.block_window(x, &[BlockDim::Squeezed, BlockDim::Squeezed], &[i, j]);
    let o = b.block_window(o, &[BlockDim::Squeezed], &[i]);
    let zero = b.int(0);
    let first = b.compare(CompareKind::Eq, j, zero);
    b.when(first, |b| {
        let zero = b.float(0.0);
        b.store(o, zero);
    });
    let (x, old) = (b.load(x), b.load(o));
    let sum = b.add(old, x);
    b.store(o, sum);
    let ran = run(b.finish(), &[f32s(&ramp(12))]).ok();
    assert_eq!(ran.f32s(0), [6.0, 22.0, 38.0]);
}

fn dynamic(bounds: usize) -> Program {
    let mut b = Builder::new("dynamic");
    b.in_order();
    for _ in 0..bounds {
        b.dynamic_grid();
    }
    let o = b.output("o_ref", DType::I32, &[4]);
    let i = b.program_id(0);
    let n = b.num_programs(0);
    let o = b.block_window(o, &[BlockDim::Squeezed], &[i]);
    b.store(o, n);
    b.finish()
}

#[test]
fn bounds_may_come_at_run_time() {
    let ran = run(dynamic(1), &[i32s(&[3])]).ok();
    assert_eq!(ran.i32s(0), [3, 3, 3, i32::MAX]);
    let ran = run(dynamic(1), &[bytes(DType::U8, &[2])]).ok();
    assert_eq!(ran.i32s(0)[..3], [2, 2, i32::MAX]);
    let ran = run(dynamic(1), &[Array(DType::I64, 1_i64.to_le_bytes().to_vec())]).ok();
    assert_eq!(ran.i32s(0)[..2], [1, i32::MAX]);
}

#[test]
fn an_empty_grid_runs_nothing() {
    let ran = run(dynamic(2), &[i32s(&[0]), i32s(&[4])]).ok();
    assert_eq!(ran.i32s(0), [i32::MAX; 4]);
    assert_eq!(ran.report.stats.blocks, 0);
    let mut program = dynamic(1);
    program.options.uninitialized_memory = Uninitialized::Zero;
    assert_eq!(run(program, &[i32s(&[0])]).ok().i32s(0), [0; 4]);
}

#[test]
fn bounds_that_make_no_grid() {
    let failure = run(dynamic(1), &[i32s(&[-1])]).failure();
    assert!(failure.contains("InvalidGridError") && failure.contains("-1"), "{failure}");
    let failure =
        run(dynamic(2), &[i32s(&[2]), Array(DType::I64, i64::MAX.to_le_bytes().to_vec())]);
    assert!(failure.failure().contains("InvalidGridError"));
    let big = i32s(&[i32::MAX]);
    let operands: Vec<Array> = (0..3).map(|_| Array(big.0, big.1.clone())).collect();
    assert!(run(dynamic(3), &operands).failure().contains("InvalidGridError"));
}

#[test]
fn a_block_that_misses_its_array_is_named() {
    let failure = run(dynamic(1), &[i32s(&[6])]).failure();
    assert!(failure.contains("OutOfBoundsError") && failure.contains("o_ref"), "{failure}");
}

#[test]
fn an_access_outside_names_array_and_line() {
    let outside = |reads: OutOfBounds| {
        let mut b = Builder::new("outside");
        b.options().out_of_bounds_reads = reads;
        let x = b.input("x_ref", DType::I32, &[4]);
        let o = b.output("o_ref", DType::I32, &[2]);
        let start = b.int(3);
        b.at(17);
        let view = b.view(x, &[pallas_rs_ir::builder::Dim::Window(start, 2)]);
        let x = b.load(view);
        b.store(o, x);
        b.finish()
    };
    let operands = [i32s(&[1, 2, 3, 4])];
    let failure = run(outside(OutOfBounds::Raise), &operands).failure();
    assert!(failure.contains("x_ref") && failure.contains("kernel.py:17"), "{failure}");
    let ran = run(outside(OutOfBounds::Uninitialized), &operands).ok();
    assert_eq!(ran.i32s(0), [4, i32::MAX]);
}

#[test]
fn softmax_by_rows() {
    let (rows, cols, block) = (16, 32, 8);
    let mut b = Builder::new("softmax");
    b.in_order().grid(&[(rows / block) as u64]);
    let x = b.input("x_ref", DType::F32, &[rows, cols]);
    let o = b.output("o_ref", DType::F32, &[rows, cols]);
    let (i, zero) = (b.program_id(0), b.int(0));
    let [x, o] = [x, o].map(|a| b.block_window(a, &[B(block), B(cols)], &[i, zero]));
    let x = b.load(x);
    let max = b.reduce(ReduceKind::Max, x, &[1]);
    let max = b.broadcast(max, &[block, cols], &[0]);
    let shifted = b.sub(x, max);
    let exp = b.unary(UnaryKind::Exp, shifted);
    let sum = b.reduce(ReduceKind::Sum, exp, &[1]);
    let sum = b.broadcast(sum, &[block, cols], &[0]);
    let out = b.binary(BinaryKind::Div, exp, sum);
    b.store(o, out);
    let x: Vec<f32> = (0..rows * cols).map(|i| (i * 37 % 101) as f32 / 10.0).collect();
    let ran = run(b.finish(), &[f32s(&x)]).ok();
    for (x, o) in x.chunks(cols).zip(ran.f32s(0).chunks(cols)) {
        let max = x.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = x.iter().map(|x| (x - max).exp()).sum();
        for (x, o) in x.iter().zip(o) {
            assert!(((x - max).exp() / sum - o).abs() < 1e-6);
        }
    }
}

#[test]
fn aliased_arrays_are_changed_in_place() {
    let mut b = Builder::new("increment");
    let x = b.in_out("x_ref", DType::I32, &[3]);
    let v = b.load(x);
    let one = b.constant(DType::I32, &[3], 1);
    let v = b.add(v, one);
    b.store(x, v);
    assert_eq!(run(b.finish(), &[i32s(&[5, 6, 7])]).ok().i32s(0), [6, 7, 8]);
}

#[test]
fn packed_arrays_are_unpacked_at_the_edge() {
    let mut b = Builder::new("packed");
    let x = b.input("x_ref", DType::I4, &[3]);
    let o = b.output("o_ref", DType::I4, &[3]);
    let v = b.load(x);
    let v = b.unary(UnaryKind::Neg, v);
    b.store(o, v);
    // 1, -2, 3 low bits first, with garbage behind.
    let ran = run(b.finish(), &[bytes(DType::I4, &[0xe1, 0xf3])]).ok();
    assert_eq!(ran.results[0], [0x2f, 0x0d]);
}

#[test]
fn scalars_come_by_value() {
    let mut b = Builder::new("by_value");
    let n = b.scalar_input("n", DType::I32);
    let x = b.input("x_ref", DType::I32, &[4]);
    let o = b.output("o_ref", DType::I32, &[]);
    let at = b.view(x, &[pallas_rs_ir::builder::Dim::Index(n)]);
    let v = b.load(at);
    b.store(o, v);
    let ran = run(b.finish(), &[i32s(&[2]), i32s(&[10, 11, 12, 13])]).ok();
    assert_eq!(ran.i32s(0), [12]);
}
