//! Warps that run by themselves, and named barriers.

mod common;

use common::run;
use pallas_rs_core::DType;
use pallas_rs_ir::Value;
use pallas_rs_ir::builder::{Builder, Dim, barrier, smem};
use pallas_rs_ir::options::Schedule;

/// Runs a branch of its own in each of `count` threads or warps.
fn each(b: &mut Builder, index: Value, count: usize, mut branch: impl FnMut(&mut Builder, usize)) {
    b.switch(index, count, |b, i| {
        branch(b, i);
        Vec::new()
    });
}

fn put(b: &mut Builder, target: Value, at: i64, value: i32) {
    let (view, value) = (b.view(target, &[Dim::At(at)]), b.int(value));
    b.store(view, value);
}

#[test]
fn a_named_barrier_counts_cuda_threads() {
    // Two warpgroups arrive with 128 CUDA threads each, one warp of the third with 32.
    let mut b = Builder::new("named");
    b.threads(3);
    let o = b.output("o", DType::I32, &[3]);
    b.scope(vec![smem("s", DType::I32, &[2])], |b, refs| {
        let thread = b.thread_index();
        each(b, thread, 3, |b, i| match i {
            2 => b.warps(|b, warp| {
                each(b, warp, 4, |b, w| {
                    if w == 3 {
                        b.named_barrier_sync(5, 288);
                        let both = b.load(refs[0]);
                        let view = b.view(o, &[Dim::Range(0, 2)]);
                        b.store(view, both);
                    }
                });
            }),
            _ => {
                put(b, refs[0], i as i64, 10 + i as i32);
                b.named_barrier_arrive(5, 288);
            }
        });
        Vec::new()
    });
    let mut program = b.finish();
    program.options.detect_races = true;
    for seed in 0..8 {
        program.options.seed = seed;
        program.options.schedule = if seed == 0 { Schedule::RoundRobin } else { Schedule::Random };
        assert_eq!(run(program.clone(), &[]).ok().i32s(0)[..2], [10, 11]);
    }
}

#[test]
fn a_named_barrier_may_be_used_again_at_once() {
    let mut b = Builder::new("turns");
    b.threads(2);
    let o = b.output("o", DType::I32, &[1]);
    b.scope(vec![smem("s", DType::I32, &[1])], |b, refs| {
        let cell = b.view(refs[0], &[Dim::At(0)]);
        let thread = b.thread_index();
        each(b, thread, 2, |b, i| {
            if i == 0 {
                put(b, refs[0], 0, 1);
            }
            b.repeat(6, |b, _| {
                b.named_barrier_sync(1, 256);
                if i == 0 {
                    let v = b.load(cell);
                    let twice = b.add(v, v);
                    b.store(cell, twice);
                }
                b.named_barrier_sync(1, 256);
                if i == 1 {
                    let (v, one) = (b.load(cell), b.int(1));
                    let more = b.add(v, one);
                    b.store(cell, more);
                }
            });
            if i == 1 {
                let v = b.load(cell);
                let view = b.view(o, &[Dim::At(0)]);
                b.store(view, v);
            }
        });
        Vec::new()
    });
    let mut program = b.finish();
    program.options.detect_races = true;
    program.options.schedule = Schedule::Random;
    let expected = (0..6).fold(1, |v, _| 2 * v + 1);
    for seed in 0..8 {
        program.options.seed = seed;
        assert_eq!(run(program.clone(), &[]).ok().i32s(0), [expected]);
    }
}

fn two_threads(body: impl Fn(&mut Builder, usize)) -> String {
    let mut b = Builder::new("two");
    b.threads(2);
    let thread = b.thread_index();
    each(&mut b, thread, 2, body);
    let ran = run(b.finish(), &[]);
    format!("{} {}", ran.code(), ran.failure())
}

#[test]
fn wrong_uses_of_a_named_barrier_have_names() {
    let text = two_threads(|b, _| b.named_barrier_sync(16, 256));
    assert!(text.starts_with("PRS-D11") && text.contains("named barrier 16"), "{text}");
    let text = two_threads(|b, _| b.named_barrier_sync(0, 100));
    assert!(text.starts_with("PRS-D12") && text.contains("100 CUDA threads"), "{text}");
    let text = two_threads(|b, i| b.named_barrier_sync(0, if i == 0 { 256 } else { 384 }));
    assert!(text.contains("says it is 384"), "{text}");
    let text = two_threads(|b, _| b.named_barrier_sync(7, 384));
    assert!(text.starts_with("PRS-E1"), "{text}");
    assert!(text.contains("128 of 384 CUDA threads at named barrier 7"), "{text}");
}

#[test]
fn a_missing_named_barrier_is_a_race() {
    for synced in [true, false] {
        let mut b = Builder::new("race");
        b.threads(2);
        let o = b.output("o", DType::I32, &[1]);
        b.scope(vec![smem("s", DType::I32, &[1])], |b, refs| {
            let thread = b.thread_index();
            each(b, thread, 2, |b, i| {
                if i == 0 {
                    put(b, refs[0], 0, 1);
                }
                if synced {
                    b.named_barrier_sync(1, 256);
                }
                if i == 1 {
                    let v = b.load(refs[0]);
                    b.store(o, v);
                }
            });
            Vec::new()
        });
        let mut program = b.finish();
        program.options.detect_races = true;
        let ran = run(program, &[]);
        let codes: Vec<_> = ran.report.findings.iter().map(|f| f.code).collect();
        assert_eq!(codes, if synced { vec![] } else { vec!["PRS-A1"] });
    }
}

#[test]
fn warps_have_registers_of_their_own_and_end_together() {
    let mut b = Builder::new("warps");
    let o = b.output("o", DType::I32, &[5]);
    let total = b.int(0);
    let sums = {
        let (lo, hi) = (b.int(0), b.int(3));
        b.for_loop(lo, hi, &[total], |b, i, carry| {
            b.warps(|b, warp| {
                let (before, view) = (b.add(carry[0], warp), b.view(o, &[Dim::Index(warp)]));
                b.store(view, before);
            });
            vec![b.add(carry[0], i)]
        })
    };
    let last = b.view(o, &[Dim::At(4)]);
    b.store(last, sums[0]);
    assert_eq!(run(b.finish(), &[]).ok().i32s(0), [1, 2, 3, 4, 3]);
}

#[test]
fn a_warp_that_never_ends_is_a_deadlock_that_names_it() {
    let mut b = Builder::new("stuck");
    b.scope(vec![barrier("never", &[], 1)], |b, refs| {
        b.warps(|b, warp| {
            each(b, warp, 4, |b, w| {
                if w == 2 {
                    b.barrier_wait(refs[0])
                }
            })
        });
        Vec::new()
    });
    let text = run(b.finish(), &[]).failure();
    assert!(text.contains("warp 2"), "{text}");
    assert!(text.contains("waits for its warps (1 have not ended)"), "{text}");
}

#[test]
fn races_between_warps_and_with_their_warpgroup() {
    // Which warp writes what warp 0 reads while both run; afterwards the warpgroup reads it too.
    for writer in [0, 1] {
        let mut b = Builder::new("race");
        let o = b.output("o", DType::I32, &[2]);
        b.scope(vec![smem("s", DType::I32, &[1])], |b, refs| {
            put(b, refs[0], 0, 1);
            b.warps(|b, warp| {
                each(b, warp, 4, |b, w| {
                    if w == writer {
                        put(b, refs[0], 0, 2);
                    }
                    if w == 0 {
                        let (v, view) = (b.load(refs[0]), b.view(o, &[Dim::Range(0, 1)]));
                        b.store(view, v);
                    }
                });
            });
            let (v, view) = (b.load(refs[0]), b.view(o, &[Dim::Range(1, 1)]));
            b.store(view, v);
            Vec::new()
        });
        let mut program = b.finish();
        program.options.detect_races = true;
        let ran = run(program, &[]);
        let codes: Vec<_> = ran.report.findings.iter().map(|f| f.code).collect();
        assert_eq!(codes, if writer == 0 { vec![] } else { vec!["PRS-A1"] });
    }
}
