//! Loops, branches and scopes: registers, moves and what dies where.

mod common;

use common::{f32s, i32s, run};
use pallas_rs_core::{CompareKind, DType};
use pallas_rs_ir::Value;
use pallas_rs_ir::builder::{Builder, Dim, smem};

/// A kernel of one int32 input array and one int32 output array.
fn kernel(
    n: usize,
    m: usize,
    body: impl FnOnce(&mut Builder, Value, Value),
) -> pallas_rs_ir::Program {
    let mut b = Builder::new("kernel");
    let x = b.input("x_ref", DType::I32, &[n]);
    let o = b.output("o_ref", DType::I32, &[m]);
    body(&mut b, x, o);
    b.finish()
}

fn store_at(b: &mut Builder, o: Value, at: i64, x: Value) {
    let view = b.view(o, &[Dim::At(at)]);
    b.store(view, x);
}

#[test]
fn a_loop_carries_scalars_that_change_places() {
    let program = kernel(1, 3, |b, _, o| {
        let (lo, hi) = (b.int(0), b.int(10));
        let (zero, one) = (b.int(0), b.int(1));
        // Fibonacci, and a counter.
        let out = b.for_loop(lo, hi, &[zero, one, zero], |b, i, carry| {
            let next = b.add(carry[0], carry[1]);
            let count = b.add(carry[2], i);
            vec![carry[1], next, count]
        });
        (0..3).for_each(|k| store_at(b, o, k, out[k as usize]));
    });
    assert_eq!(run(program, &[i32s(&[0])]).ok().i32s(0), [55, 89, 45]);
}

#[test]
fn a_loop_carries_tiles() {
    let program = kernel(4, 4, |b, x, o| {
        let x = b.load(x);
        let (lo, hi) = (b.int(0), b.int(3));
        let one = b.constant(DType::I32, &[4], 1);
        let out = b.for_loop(lo, hi, &[x, one], |b, _, carry| {
            let sum = b.add(carry[0], carry[1]);
            vec![carry[1], sum]
        });
        let both = b.add(out[0], out[1]);
        let all = b.add(both, x);
        b.store(o, all);
    });
    // (x, 1) -> (1, x+1) -> (x+1, x+2) -> (x+2, 2x+3)
    assert_eq!(run(program, &[i32s(&[0, 1, 2, 3])]).ok().i32s(0), [5, 9, 13, 17]);
}

#[test]
fn a_loop_without_rounds_returns_what_it_started_with() {
    let program = kernel(2, 2, |b, x, o| {
        let x = b.load(x);
        let (lo, hi) = (b.int(5), b.int(5));
        let out = b.for_loop(lo, hi, &[x], |b, _, carry| vec![b.add(carry[0], carry[0])]);
        b.store(o, out[0]);
    });
    assert_eq!(run(program, &[i32s(&[7, 8])]).ok().i32s(0), [7, 8]);
}

#[test]
fn nested_loops_and_values_from_outside() {
    let program = kernel(3, 3, |b, x, o| {
        let x = b.load(x);
        let zeros = b.constant(DType::I32, &[3], 0);
        let (lo, hi) = (b.int(0), b.int(4));
        let out = b.for_loop(lo, hi, &[zeros], |b, i, carry| {
            b.for_loop(lo, i, &[carry[0]], |b, j, carry| {
                let j = b.broadcast(j, &[3], &[]);
                let scaled = b.mul(x, j);
                vec![b.add(carry[0], scaled)]
            })
        });
        b.store(o, out[0]);
    });
    // Σ_{i<4} Σ_{j<i} j = 0 + 0 + 1 + 3
    assert_eq!(run(program, &[i32s(&[1, 10, 100])]).ok().i32s(0), [4, 40, 400]);
}

#[test]
fn while_loops() {
    let program = kernel(1, 2, |b, x, o| {
        let x = b.view(x, &[Dim::At(0)]);
        let x = b.load(x);
        let (one, two) = (b.int(1), b.int(2));
        let zero = b.int(0);
        // Collatz: steps down to 1.
        let out = b.while_loop(
            &[x, zero],
            |b, carry| b.compare(CompareKind::Ne, carry[0], one),
            |b, carry| {
                let rest = b.binary(pallas_rs_core::BinaryKind::Rem, carry[0], two);
                let odd = b.compare(CompareKind::Ne, rest, zero);
                let next = b.switch(odd, 2, |b, branch| {
                    if branch == 0 {
                        vec![b.binary(pallas_rs_core::BinaryKind::Div, carry[0], two)]
                    } else {
                        let three = b.int(3);
                        let tripled = b.mul(carry[0], three);
                        vec![b.add(tripled, one)]
                    }
                });
                vec![next[0], b.add(carry[1], one)]
            },
        );
        store_at(b, o, 0, out[0]);
        store_at(b, o, 1, out[1]);
    });
    assert_eq!(run(program, &[i32s(&[27])]).ok().i32s(0), [1, 111]);
}

#[test]
fn a_loop_that_never_ends_is_stopped() {
    let mut program = kernel(1, 1, |b, _, _| {
        let zero = b.int(0);
        b.at(42);
        b.while_loop(&[zero], |b, _| b.bool(true), |_, carry| carry.to_vec());
    });
    program.options.max_steps = Some(100_000);
    let failure = run(program, &[i32s(&[0])]).failure();
    assert!(failure.contains("kernel.py:42"), "{failure}");
}

#[test]
fn branches_and_what_only_some_of_them_read() {
    for (index, expected) in [(-5, 3), (0, 3), (1, 4), (2, 12), (9, 12)] {
        let program = kernel(2, 2, |b, x, o| {
            let at = b.view(x, &[Dim::At(0)]);
            let index = b.load(at);
            let tile = b.load(x);
            let other = b.constant(DType::I32, &[2], 3);
            let sum = b.add(tile, other);
            let product = b.mul(tile, other);
            let zero = b.constant(DType::I32, &[2], 0);
            let out = b.switch(index, 3, |b, branch| match branch {
                0 => vec![other, sum],
                1 => {
                    let one = b.constant(DType::I32, &[2], 1);
                    vec![b.add(other, one), product]
                }
                _ => vec![b.mul(sum, zero), product],
            });
            let both = b.add(out[0], zero);
            let minus = b.sub(out[1], out[1]);
            let both = b.add(both, minus);
            let twelve = b.constant(DType::I32, &[2], 12);
            let is_zero = b.compare(CompareKind::Eq, both, zero);
            let both = b.select_n(is_zero, &[both, twelve]);
            b.store(o, both);
        });
        assert_eq!(run(program, &[i32s(&[index, 1])]).ok().i32s(0), [expected; 2], "{index}");
    }
}

#[test]
fn scratch_lives_as_long_as_its_scope() {
    let mut b = Builder::new("scratch");
    b.in_order().grid(&[3]);
    let x = b.input("x_ref", DType::F32, &[4]);
    let o = b.output("o_ref", DType::F32, &[4]);
    b.scope(vec![smem("acc", DType::F32, &[4])], |b, refs| {
        let unwritten = b.load(refs[0]);
        let x = b.load(x);
        b.store(refs[0], x);
        let old = b.swap(refs[0], unwritten);
        let is_nan = b.compare(CompareKind::Ne, unwritten, unwritten);
        let zero = b.constant(DType::F32, &[4], 0);
        let out = b.select_n(is_nan, &[zero, old]);
        b.store(o, out);
        Vec::new()
    });
    let ran = run(b.finish(), &[f32s(&[1.0, 2.0, 3.0, 4.0])]).ok();
    assert_eq!(ran.f32s(0), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn division_by_zero_is_an_error() {
    for tile in [false, true] {
        let program = kernel(2, 2, |b, x, o| {
            let x = b.load(x);
            if tile {
                let q = b.binary(pallas_rs_core::BinaryKind::Div, x, x);
                b.store(o, q);
            } else {
                let at = b.slice(x, &[0], &[1]);
                let at = b.reshape(at, &[]);
                let q = b.binary(pallas_rs_core::BinaryKind::Rem, at, at);
                store_at(b, o, 0, q);
            }
        });
        let failure = run(program, &[i32s(&[0, 3])]).failure();
        assert!(failure.contains("ArithmeticFaultError"), "{failure}");
    }
}
