//! Several workers give what one gives.

mod common;

use common::{Array, Ran, f32s, i32s, run, run_with};
use pallas_rs_core::{BinaryKind, CompareKind, DType, UnaryKind};
use pallas_rs_ir::builder::{Builder, Dim, barrier, smem};
use pallas_rs_ir::{BlockDim, Program, Value};
use pallas_rs_vm::{Host, HostArray, HostError};
use std::sync::Mutex;

const B: fn(usize) -> BlockDim = BlockDim::Blocked;

fn with_workers(program: &Program, workers: u32, operands: &[Array]) -> Ran {
    let mut program = program.clone();
    program.options.num_workers = Some(workers);
    let copies: Vec<Array> = operands.iter().map(|Array(d, b)| Array(*d, b.clone())).collect();
    run(program, &copies)
}

/// Enough arithmetic that the machine thinks sharing is worth it.
fn heavy(b: &mut Builder, x: Value) -> Value {
    (0..8).fold(x, |x, _| {
        let sin = b.unary(UnaryKind::Sin, x);
        b.add(x, sin)
    })
}

/// `o[i, j] += heavy(x[i, k])` over a grid (i, j, k), each `o` block visited once per k.
fn accumulate(n: usize, size: usize) -> Program {
    let mut b = Builder::new("accumulate");
    b.in_order().grid(&[n as u64, n as u64, 3]);
    let x = b.input("x_ref", DType::F32, &[n * size, 3 * size]);
    let o = b.output("o_ref", DType::F32, &[n * size, n * size]);
    let (i, j, k) = (b.program_id(0), b.program_id(1), b.program_id(2));
    let x = b.block_window(x, &[B(size), B(size)], &[i, k]);
    let o = b.block_window(o, &[B(size), B(size)], &[i, j]);
    let zero = b.int(0);
    let first = b.compare(CompareKind::Eq, k, zero);
    b.when(first, |b| {
        let zeros = b.constant(DType::F32, &[size, size], 0);
        b.store(o, zeros);
    });
    let x = b.load(x);
    let x = heavy(&mut b, x);
    let old = b.load(o);
    let half = b.constant(DType::F32, &[size, size], f32::to_bits(0.5).into());
    let old = b.mul(old, half);
    let sum = b.add(old, x);
    b.store(o, sum);
    b.finish()
}

#[test]
fn blocks_visited_again_stay_in_order() {
    let (n, size) = (6, 64);
    let program = accumulate(n, size);
    let x: Vec<f32> = (0..n * size * 3 * size).map(|i| (i % 1009) as f32 / 100.0).collect();
    let alone = with_workers(&program, 1, &[f32s(&x)]).ok();
    for workers in [2, 5] {
        let shared = with_workers(&program, workers, &[f32s(&x)]).ok();
        assert!(shared.results == alone.results);
        assert_eq!(shared.report.stats, alone.report.stats);
    }
}

/// Rows whose index map reads a table; each row `rows[i]` is divided by `d[i]`.
fn table(rows: usize, cols: usize) -> Program {
    let mut b = Builder::new("table");
    b.in_order().grid(&[rows as u64]);
    let t = b.input("t_ref", DType::I32, &[rows]);
    let d = b.input("d_ref", DType::I32, &[rows]);
    let x = b.input("x_ref", DType::F32, &[rows, cols]);
    let o = b.output("o_ref", DType::F32, &[rows, cols]);
    let (i, zero) = (b.program_id(0), b.int(0));
    let at = b.view(t, &[Dim::Index(i)]);
    let row = b.load(at);
    let x = b.block_window(x, &[B(1), B(cols)], &[i, zero]);
    let o = b.block_window(o, &[B(1), B(cols)], &[row, zero]);
    let d = b.view(d, &[Dim::Index(i)]);
    let d = b.load(d);
    let hundred = b.int(100);
    let q = b.binary(BinaryKind::Div, hundred, d);
    let q = b.convert(q, DType::F32);
    let q = b.broadcast(q, &[1, cols], &[]);
    let x = b.load(x);
    let x = heavy(&mut b, x);
    let x = b.mul(x, q);
    b.store(o, x);
    b.finish()
}

fn rows(n: usize, cols: usize) -> Array {
    f32s(&(0..n * cols).map(|i| i as f32 / 50.0).collect::<Vec<_>>())
}

#[test]
fn index_maps_may_read_tables() {
    let (n, cols) = (40, 4096);
    let program = table(n, cols);
    // A permutation, and one in which two points write the same row: the later one wins.
    let permuted: Vec<i32> = (0..n as i32).map(|i| (i * 7) % n as i32).collect();
    let mut twice = permuted.clone();
    twice[30] = twice[3];
    for table in [permuted, twice] {
        let operands = [i32s(&table), i32s(&[5; 40]), rows(n, cols)];
        let alone = with_workers(&program, 1, &operands).ok();
        assert!(with_workers(&program, 4, &operands).ok().results == alone.results);
    }
}

#[test]
fn the_first_error_is_the_one_reported() {
    let (n, cols) = (40, 4096);
    let program = table(n, cols);
    let identity: Vec<i32> = (0..n as i32).collect();
    let mut divisors = [5; 40];
    (divisors[17], divisors[19], divisors[38]) = (0, 0, 0);
    let operands = [i32s(&identity), i32s(&divisors), rows(n, cols)];
    for workers in [1, 2, 4] {
        let report = with_workers(&program, workers, &operands).report;
        let who = report.findings[0].who.as_ref().expect("a division belongs to a thread");
        assert_eq!(who.point, [17]);
    }
    // A block that misses its array ends it all, at its turn.
    let mut outside = identity;
    outside[5] = 99;
    let operands = [i32s(&outside), i32s(&[5; 40]), rows(n, cols)];
    for workers in [1, 4] {
        let failure = with_workers(&program, workers, &operands).failure();
        assert!(failure.contains("OutOfBoundsError") && failure.contains("o_ref"), "{failure}");
    }
}

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Host for Lines {
    fn xla_call(&self, _: &str, _: &[u8], _: &[HostArray]) -> Result<Vec<HostArray>, HostError> {
        Err(HostError("no".to_owned()))
    }

    fn print(&self, prefix: &str, _: &str, _: &[HostArray]) -> Result<(), HostError> {
        self.0.lock().unwrap().push(prefix.to_owned());
        Ok(())
    }

    fn callback(&self, _: u64, _: &[HostArray]) -> Result<Vec<HostArray>, HostError> {
        Err(HostError("no".to_owned()))
    }

    fn interrupted(&self) -> bool {
        false
    }
}

#[test]
fn prints_are_in_order() {
    let (n, cols) = (16, 4096);
    let mut b = Builder::new("printing");
    b.in_order().grid(&[n as u64]);
    b.options().num_workers = Some(4);
    let x = b.in_out("x_ref", DType::F32, &[n, cols]);
    let (i, zero) = (b.program_id(0), b.int(0));
    let x = b.block_window(x, &[B(1), B(cols)], &[i, zero]);
    let v = b.load(x);
    let v = heavy(&mut b, v);
    b.print("here", &[]);
    b.store(x, v);
    let lines = Lines::default();
    run_with(b.finish(), &[rows(n, cols)], &lines).ok();
    let expected: Vec<String> = (0..n).map(|i| format!("[({i})] ")).collect();
    assert_eq!(lines.0.into_inner().unwrap(), expected);
}

#[test]
fn what_is_not_the_kernels_own_is_not_written() {
    let mut b = Builder::new("scribble");
    let x = b.input("x_ref", DType::I32, &[2]);
    let o = b.output("o_ref", DType::I32, &[2]);
    let v = b.load(x);
    let doubled = b.add(v, v);
    b.store(x, doubled);
    let v = b.load(x);
    b.store(o, v);
    let program = b.finish();
    let executable = pallas_rs_vm::Executable::new(program.clone());
    let operands = [i32s(&[1, 2])];
    for _ in 0..2 {
        let ran = common::call(&executable, &program, &operands, &pallas_rs_vm::NoHost).ok();
        assert_eq!(ran.i32s(0), [2, 4]);
    }
}

/// Blocks of two threads, each of which passes its rows through SMEM. `checked`: a grid index that
/// must not be reached.
fn blocks(n: usize, size: usize, checked: Option<i32>) -> Program {
    let mut b = Builder::new("blocks");
    b.grid(&[n as u64]).threads(2);
    let x = b.input("x_ref", DType::F32, &[2 * n * size, size]);
    let o = b.output("o_ref", DType::F32, &[2 * n * size, size]);
    let (i, thread) = (b.program_id(0), b.thread_index());
    let (two, rows) = (b.int(2), b.int(size as i32));
    let pair = b.mul(i, two);
    let which = b.add(pair, thread);
    let start = b.mul(which, rows);
    let [x, o] = [x, o].map(|a| b.view(a, &[Dim::Window(start, size), Dim::All]));
    if let Some(limit) = checked {
        let limit = b.int(limit);
        let below = b.compare(CompareKind::Lt, i, limit);
        b.check(below, "too far", &[i]);
    }
    b.scope(vec![smem("s_ref", DType::F32, &[2, size, size]), barrier("b", &[2], 1)], |b, refs| {
        let [s, ready] = [refs[0], refs[1]].map(|r| b.view(r, &[Dim::Index(thread)]));
        b.tma_load(x, s, ready);
        b.barrier_wait(ready);
        let loaded = b.load(s);
        let computed = heavy(b, loaded);
        b.store(s, computed);
        b.tma_store(s, o);
        b.wait_stores(0);
        Vec::new()
    });
    b.finish()
}

#[test]
fn blocks_that_cannot_observe_each_other() {
    let (n, size) = (24, 32);
    let program = blocks(n, size, None);
    let x: Vec<f32> = (0..2 * n * size * size).map(|i| (i % 997) as f32 / 100.0).collect();
    let alone = with_workers(&program, 1, &[f32s(&x)]).ok();
    for workers in [2, 5] {
        let shared = with_workers(&program, workers, &[f32s(&x)]).ok();
        assert!(shared.results == alone.results);
        assert_eq!(shared.report.stats, alone.report.stats);
    }
}

#[test]
fn the_report_of_a_failure_does_not_depend_on_who_was_faster() {
    let (n, size) = (24, 32);
    let program = blocks(n, size, Some(9));
    let x = vec![1.0; 2 * n * size * size];
    let alone = with_workers(&program, 1, &[f32s(&x)]).failure();
    assert!(alone.contains("too far"), "{alone}");
    for workers in [2, 5] {
        assert_eq!(with_workers(&program, workers, &[f32s(&x)]).failure(), alone);
    }
}
