//! Tiles that stay in memory between a load and its use, and chains that write straight into it.

mod common;

use common::{Array, f32s, run};
use pallas_rs_core::{BinaryKind, DType, ReduceKind, UnaryKind};
use pallas_rs_ir::builder::{Builder, Dim, smem};
use pallas_rs_ir::options::Schedule;

const N: usize = 8;

fn numbers() -> (Vec<f32>, Array) {
    let x: Vec<f32> = (0..N).map(|i| i as f32 + 0.5).collect();
    let array = f32s(&x);
    (x, array)
}

#[test]
fn a_tile_keeps_what_was_loaded_when_its_memory_is_overwritten() {
    let (x, array) = numbers();
    let mut b = Builder::new("overwritten");
    let x_ref = b.in_out("x_ref", DType::F32, &[N]);
    let o = b.output("o_ref", DType::F32, &[N]);
    let loaded = b.load(x_ref);
    let zero = b.constant(DType::F32, &[N], 0);
    b.store(x_ref, zero);
    let negative = b.unary(UnaryKind::Neg, loaded);
    let square = b.mul(negative, loaded);
    b.store(o, square);
    let ran = run(b.finish(), &[array]).ok();
    assert_eq!(ran.f32s(0), vec![0.0; N]);
    assert_eq!(ran.f32s(1), x.iter().map(|x| -x * x).collect::<Vec<_>>());
}

#[test]
fn a_chain_may_store_where_it_reads() {
    let (x, array) = numbers();
    let mut b = Builder::new("in_place");
    let x_ref = b.in_out("x_ref", DType::F32, &[N]);
    b.scope(vec![smem("s_ref", DType::F32, &[N])], |b, refs| {
        let loaded = b.load(x_ref);
        b.store(refs[0], loaded);
        for _ in 0..2 {
            let loaded = b.load(refs[0]);
            let negative = b.unary(UnaryKind::Neg, loaded);
            let sum = b.binary(BinaryKind::Sub, negative, loaded);
            b.store(refs[0], sum);
        }
        let (s, x) = (b.load(refs[0]), b.load(x_ref));
        let sum = b.add(s, x);
        let twice = b.add(sum, sum);
        b.store(x_ref, twice);
        Vec::new()
    });
    let ran = run(b.finish(), &[array]).ok();
    assert_eq!(ran.f32s(0), x.iter().map(|x| 10.0 * x).collect::<Vec<_>>());
}

#[test]
fn windows_that_overlap_are_read_before_they_are_written() {
    let (x, array) = numbers();
    for chained in [false, true] {
        let mut b = Builder::new("shifted");
        let x_ref = b.in_out("x_ref", DType::F32, &[N]);
        let from = b.view(x_ref, &[Dim::Range(0, N - 1)]);
        let to = b.view(x_ref, &[Dim::Range(1, N - 1)]);
        let mut loaded = b.load(from);
        if chained {
            for _ in 0..2 {
                loaded = b.unary(UnaryKind::Neg, loaded);
            }
        }
        b.store(to, loaded);
        let array = Array(array.0, array.1.clone());
        let ran = run(b.finish(), &[array]).ok();
        let mut shifted = vec![x[0]];
        shifted.extend_from_slice(&x[..N - 1]);
        assert_eq!(ran.f32s(0), shifted);
    }
}

#[test]
fn a_thread_that_gives_way_after_a_load_keeps_what_it_loaded() {
    // Both threads write to what both read; each compares a tile with itself, before and after a
    // load at which it may have to give way.
    for seed in 0..40 {
        let mut b = Builder::new("turns");
        b.threads(2);
        b.options().schedule = Schedule::Random;
        b.options().seed = seed;
        let o = b.output("o_ref", DType::F32, &[2]);
        let thread = b.thread_index();
        b.scope(vec![smem("s_ref", DType::F32, &[N])], |b, refs| {
            let number = b.convert(thread, DType::F32);
            let mine = b.broadcast(number, &[N], &[]);
            b.store(refs[0], mine);
            let kept = b.load(refs[0]);
            let before = b.reduce(ReduceKind::Sum, kept, &[0]);
            b.load(refs[0]);
            let after = b.reduce(ReduceKind::Sum, kept, &[0]);
            let difference = b.sub(before, after);
            let view = b.view(o, &[Dim::Index(thread)]);
            b.store(view, difference);
            Vec::new()
        });
        assert_eq!(run(b.finish(), &[]).ok().f32s(0), [0.0; 2]);
    }
}
