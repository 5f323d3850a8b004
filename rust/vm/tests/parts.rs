//! Operations that are parts of the next one: a value and its tangent arrive and complete together.

mod common;

use common::{f32s, run};
use pallas_rs_core::DType;
use pallas_rs_ir::Program;
use pallas_rs_ir::builder::{Builder, accumulator, barrier, smem};
use pallas_rs_ir::options::AsyncCompletion;

const COMPLETIONS: [AsyncCompletion; 3] =
    [AsyncCompletion::Late, AsyncCompletion::Eager, AsyncCompletion::Random];

fn seeded(program: &Program, completion: AsyncCompletion, seed: u64) -> Program {
    let mut program = program.clone();
    program.options.async_completion = completion;
    program.options.seed = seed;
    program
}

#[test]
fn a_load_of_two_parts_arrives_once_when_both_are_there() {
    let mut b = Builder::new("pair");
    let x = b.input("x", DType::F32, &[4]);
    let t = b.input("t", DType::F32, &[4]);
    let o = b.output("o", DType::F32, &[4]);
    let allocs = vec![
        smem("x_smem", DType::F32, &[4]),
        smem("t_smem", DType::F32, &[4]),
        barrier("bar", &[], 1),
    ];
    b.scope(allocs, |b, refs| {
        for _ in 0..3 {
            b.load_part(t, refs[1], Some(refs[2]));
            b.tma_load(x, refs[0], refs[2]);
            b.barrier_wait(refs[2]);
            let (v, w) = (b.load(refs[0]), b.load(refs[1]));
            let product = b.mul(v, w);
            b.store(o, product);
            let zero = b.constant(DType::F32, &[4], 0);
            b.store(refs[0], zero);
            b.store(refs[1], zero);
        }
        Vec::new()
    });
    let program = b.finish();
    for completion in COMPLETIONS {
        for seed in 0..20 {
            let args = [f32s(&[1.0, 2.0, 3.0, 4.0]), f32s(&[5.0, 6.0, 7.0, 8.0])];
            let ran = run(seeded(&program, completion, seed), &args).ok();
            assert_eq!(ran.f32s(0), [5.0, 12.0, 21.0, 32.0]);
        }
    }
}

/// Two pairs of cp.async copies, and a wait for all but `pending` of them.
fn pairs_of_copies(pending: u32) -> Vec<f32> {
    let mut b = Builder::new("pairs");
    let x = b.input("x", DType::F32, &[2]);
    let o: Vec<_> = (0..4).map(|i| b.output(&format!("o{i}"), DType::F32, &[2])).collect();
    let allocs = (0..4).map(|i| smem(&format!("s{i}"), DType::F32, &[2])).collect();
    b.scope(allocs, |b, refs| {
        for pair in refs.chunks(2) {
            b.load_part(x, pair[0], None);
            b.cp_async(x, pair[1]);
        }
        b.wait_loads(pending);
        for (&from, &to) in refs.iter().zip(&o) {
            let v = b.load(from);
            b.store(to, v);
        }
        Vec::new()
    });
    let ran = run(seeded(&b.finish(), AsyncCompletion::Late, 0), &[f32s(&[1.0, 2.0])]).ok();
    (0..4).map(|i| ran.f32s(i)[0]).collect()
}

#[test]
fn a_wait_counts_a_copy_of_two_parts_once() {
    assert_eq!(pairs_of_copies(0), [1.0; 4]);
    let early = pairs_of_copies(1);
    assert_eq!(early[..2], [1.0; 2]);
    assert!(early[2..].iter().all(|x| x.is_nan()));
}

/// A product of two parts, another one, and a wait for all but one of them.
#[test]
fn a_wait_counts_a_product_of_two_parts_once() {
    let mut b = Builder::new("products");
    let x = b.input("x", DType::F32, &[2, 2]);
    let o: Vec<_> = (0..3).map(|i| b.output(&format!("o{i}"), DType::F32, &[2, 2])).collect();
    b.scope(vec![smem("s", DType::F32, &[2, 2])], |b, refs| {
        let v = b.load(x);
        b.store(refs[0], v);
        b.commit_smem();
        let accs = (0..3).map(|i| accumulator(&format!("acc{i}"), DType::F32, [2, 2])).collect();
        b.scope(accs, |b, accs| {
            b.wgmma_part(accs[0], refs[0], refs[0]);
            b.wgmma(accs[1], refs[0], refs[0]);
            b.wgmma(accs[2], refs[0], refs[0]);
            b.wgmma_wait(1);
            for (&acc, &to) in accs.iter().zip(&o) {
                let v = b.accumulator_load(acc, None);
                b.store(to, v);
            }
            Vec::new()
        });
        Vec::new()
    });
    let args = [f32s(&[1.0, 2.0, 3.0, 4.0])];
    let ran = run(seeded(&b.finish(), AsyncCompletion::Late, 0), &args).ok();
    let product = [7.0, 10.0, 15.0, 22.0];
    assert_eq!((ran.f32s(0), ran.f32s(1)), (product.to_vec(), product.to_vec()));
    assert_ne!(ran.f32s(2), product);
}
