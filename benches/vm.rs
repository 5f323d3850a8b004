//! What the machine costs beside the arithmetic: tiny blocks, thread switches, barriers.
//!
//! `cargo bench -p pallas_rs_vm --bench vm`. Only ratios within one run mean anything.
#![allow(unsafe_code, reason = "the machine takes arrays as XLA hands them over")]
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pallas_rs_core::{BinaryKind, CompareKind, DType, ReduceKind, UnaryKind};
use pallas_rs_ir::builder::{Builder, barrier, smem};
use pallas_rs_ir::{BlockDim, Program, Value};
use pallas_rs_vm::{Executable, GlobalBuffer, NoHost};
use std::hint::black_box;

/// A compiled program with float32 arrays of `elements` elements.
struct Bench {
    executable: Executable,
    operands: Vec<Vec<f32>>,
    results: Vec<Vec<f32>>,
}

impl Bench {
    fn new(program: Program, operands: usize, elements: usize) -> Bench {
        let array = || vec![1.5; elements];
        Bench {
            executable: Executable::new(program),
            operands: (0..operands).map(|_| array()).collect(),
            results: vec![array()],
        }
    }

    fn run(&mut self) {
        let buffer = |array: &mut Vec<f32>| {
            let (ptr, len) = (array.as_mut_ptr().cast(), array.len() * 4);
            // SAFETY: the vector outlives the run and nobody else touches it meanwhile.
            unsafe { GlobalBuffer::from_raw(ptr, len, DType::F32, &[]) }
        };
        let operands: Vec<_> = self.operands.iter_mut().map(buffer).collect();
        let results: Vec<_> = self.results.iter_mut().map(buffer).collect();
        let outcome = self.executable.run(&operands, &results, &NoHost);
        assert_eq!(black_box(outcome.failure), None);
    }
}

/// `o = x + y` by blocks of one row.
fn add(blocks: usize, cols: usize) -> Program {
    let mut b = Builder::new("add");
    b.in_order().grid(&[blocks as u64]);
    let x = b.input("x_ref", DType::F32, &[blocks, cols]);
    let y = b.input("y_ref", DType::F32, &[blocks, cols]);
    let o = b.output("o_ref", DType::F32, &[blocks, cols]);
    let (i, zero) = (b.program_id(0), b.int(0));
    let dims = [BlockDim::Blocked(1), BlockDim::Blocked(cols)];
    let [x, y, o] = [x, y, o].map(|a| b.block_window(a, &dims, &[i, zero]));
    let (x, y) = (b.load(x), b.load(y));
    let sum = b.add(x, y);
    b.store(o, sum);
    b.finish()
}

/// Rows of a softmax, `block` at a time.
fn softmax(rows: usize, cols: usize, block: usize) -> Program {
    let mut b = Builder::new("softmax");
    b.in_order().grid(&[(rows / block) as u64]);
    let x = b.input("x_ref", DType::F32, &[rows, cols]);
    let o = b.output("o_ref", DType::F32, &[rows, cols]);
    let (i, zero) = (b.program_id(0), b.int(0));
    let dims = [BlockDim::Blocked(block), BlockDim::Blocked(cols)];
    let [x, o] = [x, o].map(|a| b.block_window(a, &dims, &[i, zero]));
    let x = b.load(x);
    let along = |b: &mut Builder, kind, x| {
        let reduced = b.reduce(kind, x, &[1]);
        let column = b.reshape(reduced, &[block, 1]);
        b.broadcast(column, &[block, cols], &[0, 1])
    };
    let max = along(&mut b, ReduceKind::Max, x);
    let shifted = b.sub(x, max);
    let exp = b.unary(UnaryKind::Exp, shifted);
    let sum = along(&mut b, ReduceKind::Sum, exp);
    let out = b.binary(BinaryKind::Div, exp, sum);
    b.store(o, out);
    b.finish()
}

/// `rounds` rounds of index arithmetic.
fn scalars(rounds: i32) -> Program {
    let mut b = Builder::new("scalars");
    let _ = b.output("o_ref", DType::F32, &[1]);
    let (lo, hi, three) = (b.int(0), b.int(rounds), b.int(3));
    b.for_loop(lo, hi, &[lo], |b, i, carry| {
        let scaled = b.mul(i, three);
        let sum = b.add(carry[0], scaled);
        vec![b.binary(BinaryKind::Max, sum, i)]
    });
    b.finish()
}

/// Two threads that hand a turn to each other, `rounds` times.
fn ping_pong(rounds: i32) -> Program {
    let mut b = Builder::new("ping_pong");
    b.threads(2);
    let _ = b.output("o_ref", DType::F32, &[1]);
    let thread = b.thread_index();
    let first = b.int(0);
    let is_first = b.compare(CompareKind::Eq, thread, first);
    b.scope(vec![barrier("ping", &[], 1), barrier("pong", &[], 1)], |b, barriers| {
        let turns = |b: &mut Builder, waits_first: bool, mine: Value, theirs: Value| {
            b.repeat(rounds, |b, _| {
                if waits_first {
                    b.barrier_wait(theirs);
                    b.barrier_arrive(mine);
                } else {
                    b.barrier_arrive(mine);
                    b.barrier_wait(theirs);
                }
            });
        };
        b.switch(is_first, 2, |b, branch| {
            if branch == 1 {
                turns(b, false, barriers[0], barriers[1]);
            } else {
                turns(b, true, barriers[1], barriers[0]);
            }
            Vec::new()
        });
        Vec::new()
    });
    b.finish()
}

/// One thread that arrives and waits, `rounds` times.
fn arrive_wait(rounds: i32) -> Program {
    let mut b = Builder::new("arrive_wait");
    let _ = b.output("o_ref", DType::F32, &[1]);
    b.scope(vec![barrier("barrier", &[], 1)], |b, barriers| {
        b.repeat(rounds, |b, _| {
            b.barrier_arrive(barriers[0]);
            b.barrier_wait(barriers[0]);
        });
        Vec::new()
    });
    b.finish()
}

/// Blocks that pass their row through SMEM.
fn through_smem(blocks: usize, cols: usize) -> Program {
    let mut b = Builder::new("through_smem");
    b.grid(&[blocks as u64]);
    let x = b.input("x_ref", DType::F32, &[blocks, cols]);
    let o = b.output("o_ref", DType::F32, &[blocks, cols]);
    let i = b.program_id(0);
    let [x, o] = [x, o].map(|a| b.view(a, &[pallas_rs_ir::builder::Dim::Index(i)]));
    let allocs = vec![smem("in", DType::F32, &[cols]), barrier("ready", &[], 1)];
    b.scope(allocs, |b, refs| {
        b.tma_load(x, refs[0], refs[1]);
        b.barrier_wait(refs[1]);
        b.tma_store(refs[0], o);
        b.wait_stores(0);
        Vec::new()
    });
    b.finish()
}

fn benches(c: &mut Criterion) {
    let mut bench = |name: &str, n: u64, mut bench: Bench| {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(n));
        group.bench_function(n.to_string(), |b| b.iter(|| bench.run()));
        group.finish();
    };
    bench("blocks/add", 64, Bench::new(add(64, 8), 2, 64 * 8));
    bench("blocks/add", 4096, Bench::new(add(4096, 8), 2, 4096 * 8));
    bench("blocks/tma", 4096, Bench::new(through_smem(4096, 8), 1, 4096 * 8));
    bench("softmax", 512, Bench::new(softmax(512, 512, 8), 1, 512 * 512));
    bench("scalar_rounds", 100_000, Bench::new(scalars(100_000), 0, 1));
    bench("arrive_wait", 10_000, Bench::new(arrive_wait(10_000), 0, 1));
    bench("ping_pong", 10_000, Bench::new(ping_pong(10_000), 0, 1));
}

criterion_group!(vm, benches);
criterion_main!(vm);
