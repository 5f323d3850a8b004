//! Ops on tiles and memory, each against what it should give.

mod common;

use common::{Array, Ran, bytes, f32s, i32s, run, run_with};
use pallas_rs_core::{BinaryKind, CompareKind, CumulativeKind, DType, ReduceKind};
use pallas_rs_ir::builder::{Builder, Dim};
use pallas_rs_ir::{GatherDim, Op, RmwKind, Start, Type, Value};
use pallas_rs_vm::{Host, HostArray, HostError};
use std::sync::Mutex;

/// Runs `body` on a loaded int32 tile and stores the tile it returns.
fn on_tile(
    shape: &[usize],
    x: &[i32],
    body: impl FnOnce(&mut Builder, Value) -> Value,
) -> Vec<i32> {
    let mut b = Builder::new("on_tile");
    let input = b.input("x_ref", DType::I32, shape);
    let x_value = b.load(input);
    let out = body(&mut b, x_value);
    let out_shape = b.ty(out).shape().to_vec();
    // Arguments come first: build again with the result's shape known.
    let o = b.output("o_ref", DType::I32, &out_shape);
    b.store(o, out);
    run(b.finish(), &[i32s(x)]).ok().i32s(0)
}

fn iota(n: usize) -> Vec<i32> {
    (0..n as i32).collect()
}

#[test]
fn shapes() {
    let transposed = on_tile(&[2, 3], &iota(6), |b, x| b.transpose(x, &[1, 0]));
    assert_eq!(transposed, [0, 3, 1, 4, 2, 5]);
    assert_eq!(on_tile(&[2, 3], &iota(6), |b, x| b.slice(x, &[0, 1], &[2, 2])), [1, 2, 4, 5]);
    assert_eq!(on_tile(&[2, 3], &iota(6), |b, x| b.reshape(x, &[3, 2])), iota(6));
    let rows = on_tile(&[2], &[7, 8], |b, x| b.broadcast(x, &[2, 3], &[0]));
    assert_eq!(rows, [7, 7, 7, 8, 8, 8]);
    let cols = on_tile(&[3], &[7, 8, 9], |b, x| b.broadcast(x, &[2, 3], &[1]));
    assert_eq!(cols, [7, 8, 9, 7, 8, 9]);
    let joined = on_tile(&[2, 1], &[1, 2], |b, x| b.concatenate(&[x, x, x], 1));
    assert_eq!(joined, [1, 1, 1, 2, 2, 2]);
    let reversed = on_tile(&[2, 2], &iota(4), |b, x| {
        b.push_one(Op::Rev { dims: vec![1] }, &[x], Type::Tile(DType::I32, vec![2, 2]))
    });
    assert_eq!(reversed, [1, 0, 3, 2]);
    assert_eq!(on_tile(&[1], &[0], |b, _| b.iota(DType::I32, &[2, 3], 1)), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn padding() {
    let pad = |lo: i64, hi: i64, interior: usize, size: usize| {
        on_tile(&[3], &[1, 2, 3], |b, x| {
            let nine = b.int(9);
            let op = Op::Pad { lo: vec![lo], hi: vec![hi], interior: vec![interior] };
            b.push_one(op, &[x, nine], Type::Tile(DType::I32, vec![size]))
        })
    };
    assert_eq!(pad(1, 2, 0, 6), [9, 1, 2, 3, 9, 9]);
    assert_eq!(pad(0, 0, 1, 5), [1, 9, 2, 9, 3]);
    assert_eq!(pad(-1, 1, 0, 3), [2, 3, 9]);
    assert_eq!(pad(-1, -1, 1, 3), [9, 2, 9]);
    assert_eq!(pad(-2, -1, 1, 2), [2, 9]);
    assert_eq!(pad(-4, 4, 0, 3), [9, 9, 9]);
}

#[test]
fn windows_of_tiles_are_moved_so_that_they_fit() {
    let window = |start: i32| {
        on_tile(&[5], &iota(5), |b, x| {
            let start = b.int(start);
            b.push_one(Op::DynamicSlice {}, &[x, start], Type::Tile(DType::I32, vec![2]))
        })
    };
    assert_eq!([window(1), window(-3), window(4)], [[1, 2], [0, 1], [3, 4]]);
    let update = |start: i32| {
        on_tile(&[5], &iota(5), |b, x| {
            let start = b.int(start);
            let nine = b.constant(DType::I32, &[2], 9);
            let ty = Type::Tile(DType::I32, vec![5]);
            b.push_one(Op::DynamicUpdateSlice {}, &[x, nine, start], ty)
        })
    };
    assert_eq!(update(1), [0, 9, 9, 3, 4]);
    assert_eq!(update(7), [0, 1, 2, 9, 9]);
}

#[test]
fn reductions() {
    assert_eq!(on_tile(&[2, 3], &iota(6), |b, x| b.reduce(ReduceKind::Sum, x, &[1])), [3, 12]);
    assert_eq!(on_tile(&[2, 3], &iota(6), |b, x| b.reduce(ReduceKind::Max, x, &[0, 1])), [5]);
    let argmax = on_tile(&[2, 3], &[3, 9, 9, -1, -5, -1], |b, x| {
        let op = Op::Reduce { kind: ReduceKind::ArgMax, axes: vec![1] };
        b.push_one(op, &[x], Type::Tile(DType::I32, vec![2]))
    });
    assert_eq!(argmax, [1, 0]);
    let sums = on_tile(&[4], &[1, 2, 3, 4], |b, x| b.cumulative(CumulativeKind::Sum, x, 0));
    assert_eq!(sums, [1, 3, 6, 10]);
}

#[test]
fn products_with_batches_and_any_order_of_dimensions() {
    let dot = |lhs: &[usize], rhs: &[usize], op: Op, out: &[usize]| {
        let mut b = Builder::new("dot");
        let (l, r) = (b.input("l", DType::F32, lhs), b.input("r", DType::F32, rhs));
        let o = b.output("o", DType::F32, out);
        let (l, r) = (b.load(l), b.load(r));
        let v = b.push_one(op, &[l, r], Type::Tile(DType::F32, out.to_vec()));
        b.store(o, v);
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        let ramp = |n: usize| (0..n).map(|i| i as f32).collect::<Vec<_>>();
        run(b.finish(), &[f32s(&ramp(count(lhs))), f32s(&ramp(count(rhs)))]).ok().f32s(0)
    };
    let general = |lc: &[usize], rc: &[usize], lb: &[usize], rb: &[usize]| Op::DotGeneral {
        lhs_contract: lc.to_vec(),
        rhs_contract: rc.to_vec(),
        lhs_batch: lb.to_vec(),
        rhs_batch: rb.to_vec(),
        tf32: false,
    };
    assert_eq!(
        dot(&[2, 2], &[2, 2], general(&[1], &[0], &[], &[]), &[2, 2]),
        [2.0, 3.0, 6.0, 11.0]
    );
    assert_eq!(
        dot(&[2, 2], &[2, 2], general(&[0], &[1], &[], &[]), &[2, 2]),
        [2.0, 6.0, 3.0, 11.0]
    );
    // b: l[i, b, k] r[k, j, b]
    let out = dot(&[2, 2, 3], &[3, 1, 2], general(&[2], &[0], &[1], &[2]), &[2, 2, 1]);
    let l = |i: usize, b: usize, k: usize| (i * 6 + b * 3 + k) as f32;
    let r = |k: usize, b: usize| (k * 2 + b) as f32;
    for b in 0..2 {
        for i in 0..2 {
            let expected: f32 = (0..3).map(|k| l(i, b, k) * r(k, b)).sum();
            assert_eq!(out[b * 2 + i], expected);
        }
    }
    // Two contracted dimensions in the wrong order, two free ones apart.
    let out = dot(&[2, 3, 2], &[3, 2], general(&[1, 0], &[0, 1], &[], &[]), &[2]);
    let l = |i: usize, k: usize, f: usize| (i * 6 + k * 2 + f) as f32;
    for (f, out) in out.iter().enumerate() {
        let expected: f32 = (0..6).map(|n| l(n / 3, n % 3, f) * (n % 3 * 2 + n / 3) as f32).sum();
        assert_eq!(*out, expected);
    }
}

#[test]
fn arithmetic_in_place_keeps_what_is_still_needed() {
    let out = on_tile(&[4], &[1, 2, 3, 4], |b, x| {
        let doubled = b.add(x, x);
        let squared = b.mul(doubled, doubled);
        let difference = b.sub(squared, doubled);
        let limit = b.constant(DType::I32, &[4], 12);
        let small = b.compare(CompareKind::Lt, difference, limit);
        let chosen = b.select_n(small, &[x, difference]);
        let (lo, hi) = (b.int(2), b.int(3));
        let clamped = b.clamp(lo, chosen, hi);
        b.add(clamped, doubled)
    });
    assert_eq!(out, [4, 6, 9, 11]);
}

fn masked(n: usize, body: impl FnOnce(&mut Builder, Value, Value, Value)) -> Ran {
    let mut b = Builder::new("masked");
    let x = b.input("x_ref", DType::I32, &[4]);
    let m = b.input("m_ref", DType::Bool, &[n]);
    let o = b.in_out("o_ref", DType::I32, &[4]);
    let m = b.load(m);
    body(&mut b, x, m, o);
    let mask: Vec<u8> = (0..n as u8).map(|i| u8::from(i % 2 == 0)).collect();
    run(b.finish(), &[i32s(&[1, 2, 3, 4]), bytes(DType::Bool, &mask), i32s(&[10, 20, 30, 40])])
}

#[test]
fn masks() {
    let ran = masked(4, |b, x, m, o| {
        let other = b.constant(DType::I32, &[4], 0);
        let v = b.load_masked(x, m, Some(other));
        b.store(o, v);
    });
    assert_eq!(ran.ok().i32s(0), [1, 0, 3, 0]);
    let ran = masked(4, |b, x, m, o| {
        let v = b.load(x);
        b.store_masked(o, v, m);
    });
    assert_eq!(ran.ok().i32s(0), [1, 20, 3, 40]);
}

#[test]
fn lanes_that_are_masked_off_may_lie_outside() {
    let ran = masked(3, |b, x, m, o| {
        // Lanes 0 and 2 are on: elements -1 (off the end) is lane 1.
        let start = b.int(2);
        let source = b.view(x, &[Dim::Window(start, 3)]);
        let v = b.load_masked(source, m, None);
        let target = b.view(o, &[Dim::Range(0, 3)]);
        b.store(target, v);
    });
    assert!(ran.failure().contains("x_ref"));
    let ran = masked(2, |b, x, m, o| {
        let start = b.int(3);
        let source = b.view(x, &[Dim::Window(start, 2)]);
        let zero = b.constant(DType::I32, &[2], 0);
        let v = b.load_masked(source, m, Some(zero));
        let target = b.view(o, &[Dim::Range(0, 2)]);
        b.store(target, v);
    });
    assert_eq!(ran.ok().i32s(0), [4, 0, 30, 40]);
}

#[test]
fn atomics_return_what_was_there() {
    let mut b = Builder::new("atomics");
    let o = b.in_out("o_ref", DType::I32, &[4]);
    let p = b.output("p_ref", DType::I32, &[4]);
    let five = b.constant(DType::I32, &[4], 5);
    let old = b.atomic_rmw(RmwKind::Max, o, five);
    let nine = b.constant(DType::I32, &[4], 9);
    let seen = b.atomic_cas(o, five, nine);
    let sum = b.add(old, seen);
    b.store(p, sum);
    let ran = run(b.finish(), &[i32s(&[1, 6, 5, 4])]).ok();
    assert_eq!(ran.i32s(0), [9, 6, 9, 9]);
    assert_eq!(ran.i32s(1), [6, 12, 10, 9]);
}

fn gather(indices: &[i32], dims: Vec<GatherDim>, at: usize, out: &[usize]) -> Ran {
    let mut b = Builder::new("gather");
    let x = b.input("x_ref", DType::I32, &[3, 4]);
    let i = b.input("i_ref", DType::I32, &[indices.len()]);
    let o = b.output("o_ref", DType::I32, out);
    let i = b.load(i);
    let op = Op::Gather { dims, at, mask: false, other: false };
    let v = b.push_one(op, &[x, i], Type::Tile(DType::I32, out.to_vec()));
    b.store(o, v);
    run(b.finish(), &[i32s(&iota(12)), i32s(indices)])
}

const ALL_COLUMNS: GatherDim = GatherDim::Slice { start: Start::Static(0), size: 4, stride: 1 };

#[test]
fn gathers() {
    let rows = gather(&[2, 0], vec![GatherDim::Array, ALL_COLUMNS], 0, &[2, 4]).ok();
    assert_eq!(rows.i32s(0), [8, 9, 10, 11, 0, 1, 2, 3]);
    let two = GatherDim::Slice { start: Start::Static(1), size: 2, stride: 1 };
    let columns = gather(&[3, 1, 1], vec![two, GatherDim::Array], 1, &[2, 3]).ok();
    assert_eq!(columns.i32s(0), [7, 5, 5, 11, 9, 9]);
    let first = gather(&[3, 1, 1], vec![two, GatherDim::Array], 0, &[3, 2]).ok();
    assert_eq!(first.i32s(0), [7, 11, 5, 9, 5, 9]);
    let outside = gather(&[3, 0], vec![GatherDim::Array, ALL_COLUMNS], 0, &[2, 4]);
    assert!(outside.failure().contains("x_ref"));
}

#[test]
fn scatters() {
    let mut b = Builder::new("scatter");
    let i = b.input("i_ref", DType::I32, &[2]);
    let m = b.input("m_ref", DType::Bool, &[2]);
    let o = b.in_out("o_ref", DType::I32, &[4]);
    let (i, m) = (b.load(i), b.load(m));
    let nine = b.constant(DType::I32, &[2], 9);
    let op = Op::Scatter { dims: vec![GatherDim::Array], at: 0, mask: true };
    b.push_none(op, &[o, nine, i, m]);
    let operands = [i32s(&[1, 70]), bytes(DType::Bool, &[1, 0]), i32s(&[0; 4])];
    assert_eq!(run(b.finish(), &operands).ok().i32s(0), [0, 9, 0, 0]);
}

#[test]
fn complex_numbers_are_moved() {
    let mut b = Builder::new("complex");
    let x = b.input("x_ref", DType::C64, &[2]);
    let o = b.output("o_ref", DType::C64, &[2]);
    let v = b.load(x);
    let v = b.push_one(Op::Rev { dims: vec![0] }, &[v], Type::Tile(DType::C64, vec![2]));
    b.store(o, v);
    let x: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let ran = run(b.finish(), &[Array(DType::C64, x)]).ok();
    assert_eq!(ran.f32s(0), [3.0, 4.0, 1.0, 2.0]);
}

/// Doubles what it is given and notes what it prints.
#[derive(Default)]
struct Doubling(Mutex<Vec<String>>);

impl Host for Doubling {
    fn xla_call(&self, _: &str, _: &[u8], args: &[HostArray]) -> Result<Vec<HostArray>, HostError> {
        let mut out = args[0].clone();
        for e in out.data.chunks_exact_mut(4) {
            let x = i32::from_le_bytes(e.try_into().unwrap());
            e.copy_from_slice(&(2 * x).to_le_bytes());
        }
        Ok(vec![out])
    }

    fn print(&self, prefix: &str, format: &str, args: &[HostArray]) -> Result<(), HostError> {
        self.0.lock().unwrap().push(format!("{prefix}{format} {:?}", args[0].data));
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
fn the_host_is_asked_and_told() {
    let mut b = Builder::new("host");
    b.in_order().grid(&[2]);
    let x = b.input("x_ref", DType::I32, &[2]);
    let o = b.output("o_ref", DType::I32, &[2]);
    let v = b.load(x);
    let blob = b.blob(vec![1]);
    let ty = Type::Tile(DType::I32, vec![2]);
    let v = b.push_one(Op::XlaCall { name: "sort".to_owned(), blob }, &[v], ty);
    let i = b.program_id(0);
    b.print("i={}", &[i]);
    b.store(o, v);
    let host = Doubling::default();
    let ran = run_with(b.finish(), &[i32s(&[4, 5])], &host).ok();
    assert_eq!(ran.i32s(0), [8, 10]);
    assert_eq!(ran.report.stats.fallback_calls, [("sort".to_owned(), 2)]);
    let lines = host.0.into_inner().unwrap();
    assert_eq!(lines, ["[(0)] i={} [0, 0, 0, 0]", "[(1)] i={} [1, 0, 0, 0]"]);
}

#[test]
fn a_check_that_fails_says_what_the_user_said() {
    let mut b = Builder::new("check");
    let x = b.input("x_ref", DType::I32, &[]);
    let v = b.load(x);
    let three = b.int(3);
    let ok = b.compare(CompareKind::Lt, v, three);
    b.check(ok, "x is {} now", &[v]);
    let failure = run(b.finish(), &[i32s(&[7])]).failure();
    assert!(failure.contains("x is 7 now"), "{failure}");
}

#[test]
fn floats_that_are_skipped_are_infinite() {
    let mut b = Builder::new("skipped");
    b.options().skip_floating_point_ops = true;
    let x = b.input("x_ref", DType::F32, &[2]);
    let o = b.output("o_ref", DType::F32, &[2]);
    let v = b.load(x);
    let v = b.binary(BinaryKind::Add, v, v);
    b.store(o, v);
    assert_eq!(run(b.finish(), &[f32s(&[1.0, 2.0])]).ok().f32s(0), [f32::INFINITY; 2]);
}
