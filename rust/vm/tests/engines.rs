//! Programs as `plgpu.kernel` makes them: threads, barriers, copies and tensor cores.

mod common;

use common::{Array, f32s, i32s, run};
use pallas_rs_core::DType;
use pallas_rs_ir::builder::{Builder, Dim, accumulator, barrier, cluster_barrier, smem};
use pallas_rs_ir::options::{AsyncCompletion, Schedule};
use pallas_rs_ir::{Collective, OobMode, Op, Partition, Program, RmwKind, Value};
use pallas_rs_vm::report::Severity;

/// Runs a branch of its own in each thread.
fn in_threads(b: &mut Builder, count: usize, branch: impl FnMut(&mut Builder, usize)) {
    let mut branch = branch;
    let thread = b.thread_index();
    b.switch(thread, count, |b, i| {
        branch(b, i);
        Vec::new()
    });
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32).collect()
}

fn times(x: &[f32], factor: f32) -> Vec<f32> {
    x.iter().map(|x| x * factor).collect()
}

/// The kernel under every completion and several schedules.
fn under_all_schedules(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    for completion in [AsyncCompletion::Late, AsyncCompletion::Eager, AsyncCompletion::Random] {
        for (schedule, seed) in [
            (Schedule::RoundRobin, 0),
            (Schedule::Random, 1),
            (Schedule::Random, 2),
            (Schedule::Pct(3), 3),
            (Schedule::Pct(2), 4),
        ] {
            let mut program = program.clone();
            program.options.async_completion = completion;
            program.options.schedule = schedule;
            program.options.seed = seed;
            all.push(program);
        }
    }
    all
}

/// `o = 2 x` by way of SMEM, one TMA load and one TMA store.
fn load_compute_store(wait: bool) -> Program {
    let mut b = Builder::new("load_compute_store");
    let x = b.input("x_gmem", DType::F32, &[4, 8]);
    let o = b.output("o_gmem", DType::F32, &[4, 8]);
    let allocs = vec![smem("x_smem", DType::F32, &[4, 8]), barrier("loaded", &[], 1)];
    b.scope(allocs, |b, refs| {
        b.at(10).tma_load(x, refs[0], refs[1]);
        b.at(11).barrier_wait(refs[1]);
        let v = b.load(refs[0]);
        let sum = b.add(v, v);
        b.at(12).store(refs[0], sum);
        b.commit_smem();
        b.at(13).tma_store(refs[0], o);
        if wait {
            b.wait_stores(0);
        }
        let zero = b.constant(DType::F32, &[4, 8], 0);
        b.at(14).store(refs[0], zero);
        Vec::new()
    });
    b.finish()
}

#[test]
fn a_tile_goes_in_and_out() {
    let x = ramp(32);
    for program in under_all_schedules(&load_compute_store(true)) {
        let ran = run(program, &[f32s(&x)]).ok();
        assert_eq!(ran.f32s(0), times(&x, 2.0));
        assert_eq!(ran.report.stats.tma_bytes, 2 * 32 * 4);
    }
}

#[test]
fn a_store_that_nobody_waits_for_reads_what_came_later_unless_it_was_early() {
    let x = ramp(32);
    let mut program = load_compute_store(false);
    assert_eq!(run(program.clone(), &[f32s(&x)]).ok().f32s(0), [0.0; 32]);
    program.options.async_completion = AsyncCompletion::Eager;
    assert_eq!(run(program, &[f32s(&x)]).ok().f32s(0), times(&x, 2.0));
}

#[test]
fn waiting_for_the_read_frees_smem_but_does_not_show_the_write() {
    let mut b = Builder::new("read_only");
    let o = b.output("o_gmem", DType::F32, &[4]);
    let seen = b.output("seen", DType::F32, &[4]);
    b.scope(vec![smem("s", DType::F32, &[4])], |b, refs| {
        let first = b.constant(DType::F32, &[4], u64::from(1.0f32.to_bits()));
        b.store(o, first);
        let second = b.constant(DType::F32, &[4], u64::from(2.0f32.to_bits()));
        b.store(refs[0], second);
        b.commit_smem();
        b.tma_store(refs[0], o);
        b.push_none(Op::WaitSmemToGmem { n: 0, read_only: true }, &[]);
        b.store(refs[0], first);
        let early = b.load(o);
        b.store(seen, early);
        b.wait_stores(0);
        Vec::new()
    });
    let ran = run(b.finish(), &[]).ok();
    assert_eq!((ran.f32s(0), ran.f32s(1)), (vec![2.0; 4], vec![1.0; 4]));
}

#[test]
fn a_wait_covers_committed_groups_only() {
    let mut b = Builder::new("groups");
    let o = b.output("o_gmem", DType::F32, &[2, 4]);
    b.scope(vec![smem("s", DType::F32, &[4])], |b, refs| {
        let one = b.constant(DType::F32, &[4], u64::from(1.0f32.to_bits()));
        let two = b.constant(DType::F32, &[4], u64::from(2.0f32.to_bits()));
        b.store(refs[0], one);
        let rows = [0, 1].map(|i| b.view(o, &[Dim::At(i)]));
        b.tma_store(refs[0], rows[0]);
        let op = Op::CopySmemToGmem { reduction: None, commit: false, predicate: false };
        b.push_none(op, &[refs[0], rows[1]]);
        b.wait_stores(0);
        b.store(refs[0], two);
        b.push_none(Op::CommitGroup {}, &[]);
        b.wait_stores(0);
        Vec::new()
    });
    let ran = run(b.finish(), &[]).ok();
    assert_eq!(ran.f32s(0), [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
}

/// Two threads hand a number back and forth, each adding one.
fn ping_pong(rounds: i32) -> Program {
    let mut b = Builder::new("ping_pong");
    b.threads(2);
    let o = b.output("o_gmem", DType::I32, &[]);
    let allocs =
        vec![smem("ball", DType::I32, &[]), barrier("ping", &[], 1), barrier("pong", &[], 1)];
    b.scope(allocs, |b, refs| {
        let (ball, ping, pong) = (refs[0], refs[1], refs[2]);
        let add_one = |b: &mut Builder| {
            let (v, one) = (b.load(ball), b.int(1));
            let v = b.add(v, one);
            b.store(ball, v);
        };
        in_threads(b, 2, |b, thread| {
            if thread == 0 {
                let zero = b.int(0);
                b.store(ball, zero);
                b.repeat(rounds, |b, _| {
                    add_one(b);
                    b.barrier_arrive(ping);
                    b.barrier_wait(pong);
                });
                let v = b.load(ball);
                b.store(o, v);
            } else {
                b.repeat(rounds, |b, _| {
                    b.barrier_wait(ping);
                    add_one(b);
                    b.barrier_arrive(pong);
                });
            }
        });
        Vec::new()
    });
    b.finish()
}

#[test]
fn two_threads_hand_over() {
    for program in under_all_schedules(&ping_pong(100)) {
        assert_eq!(run(program, &[]).ok().i32s(0), [200]);
    }
}

/// `o[i] = x[i] + 1` for eight tiles through two slots; the next load is issued ahead.
fn double_buffered() -> Program {
    let mut b = Builder::new("double_buffered");
    let x = b.input("x_gmem", DType::F32, &[8, 16]);
    let o = b.output("o_gmem", DType::F32, &[8, 16]);
    let allocs = vec![
        smem("x_smem", DType::F32, &[2, 16]),
        smem("o_smem", DType::F32, &[2, 16]),
        barrier("loaded", &[2], 1),
    ];
    b.scope(allocs, |b, refs| {
        let (x_smem, o_smem, loaded) = (refs[0], refs[1], refs[2]);
        let load = move |b: &mut Builder, tile: Value, slot: Value| {
            let from = b.view(x, &[Dim::Index(tile)]);
            let to = b.view(x_smem, &[Dim::Index(slot)]);
            let on = b.view(loaded, &[Dim::Index(slot)]);
            b.tma_load(from, to, on);
        };
        let zero = b.int(0);
        load(b, zero, zero);
        b.repeat(8, |b, i| {
            let (one, two, last) = (b.int(1), b.int(2), b.int(7));
            let slot = b.binary(pallas_rs_core::BinaryKind::Rem, i, two);
            let next = b.add(i, one);
            let more = b.compare(pallas_rs_core::CompareKind::Lt, i, last);
            b.when(more, |b| {
                let slot = b.binary(pallas_rs_core::BinaryKind::Rem, next, two);
                load(b, next, slot);
            });
            let on = b.view(loaded, &[Dim::Index(slot)]);
            b.barrier_wait(on);
            let from = b.view(x_smem, &[Dim::Index(slot)]);
            let v = b.load(from);
            let ones = b.constant(DType::F32, &[16], u64::from(1.0f32.to_bits()));
            let v = b.add(v, ones);
            b.wait_stores(1);
            let to = b.view(o_smem, &[Dim::Index(slot)]);
            b.store(to, v);
            b.commit_smem();
            let out = b.view(o, &[Dim::Index(i)]);
            b.tma_store(to, out);
        });
        b.wait_stores(0);
        Vec::new()
    });
    b.finish()
}

#[test]
fn a_double_buffered_pipeline() {
    let x = ramp(128);
    let expected: Vec<f32> = x.iter().map(|x| x + 1.0).collect();
    for program in under_all_schedules(&double_buffered()) {
        assert_eq!(run(program, &[f32s(&x)]).ok().f32s(0), expected);
    }
}

/// A producer thread loads tiles of two matrices, a consumer multiplies them.
fn warp_specialized() -> Program {
    let (m, n, k, steps) = (4, 6, 8, 5);
    let mut b = Builder::new("warp_specialized");
    b.threads(2);
    let a = b.input("a_gmem", DType::F32, &[m, k * steps]);
    let w = b.input("b_gmem", DType::F32, &[k * steps, n]);
    let o = b.output("o_gmem", DType::F32, &[m, n]);
    let allocs = vec![
        smem("a_smem", DType::F32, &[2, m, k]),
        smem("b_smem", DType::F32, &[2, k, n]),
        barrier("full", &[2], 2),
        barrier("empty", &[2], 1),
    ];
    b.scope(allocs, |b, refs| {
        let (a_smem, b_smem, full, empty) = (refs[0], refs[1], refs[2], refs[3]);
        in_threads(b, 2, |b, thread| {
            if thread == 0 {
                b.repeat(steps as i32, |b, i| {
                    let two = b.int(2);
                    let slot = b.binary(pallas_rs_core::BinaryKind::Rem, i, two);
                    let reused = b.compare(pallas_rs_core::CompareKind::Ge, i, two);
                    b.when(reused, |b| {
                        let free = b.view(empty, &[Dim::Index(slot)]);
                        b.at(30).barrier_wait(free);
                    });
                    let width = b.int(k as i32);
                    let start = b.mul(i, width);
                    let on = b.view(full, &[Dim::Index(slot)]);
                    let from = b.view(a, &[Dim::All, Dim::Window(start, k)]);
                    let to = b.view(a_smem, &[Dim::Index(slot)]);
                    b.tma_load(from, to, on);
                    let from = b.view(w, &[Dim::Window(start, k)]);
                    let to = b.view(b_smem, &[Dim::Index(slot)]);
                    b.tma_load(from, to, on);
                });
            } else {
                b.thread_scope(vec![accumulator("acc", DType::F32, [m, n])], |b, accs| {
                    b.repeat(steps as i32, |b, i| {
                        let two = b.int(2);
                        let slot = b.binary(pallas_rs_core::BinaryKind::Rem, i, two);
                        let on = b.view(full, &[Dim::Index(slot)]);
                        b.barrier_wait(on);
                        let (left, right) = (
                            b.view(a_smem, &[Dim::Index(slot)]),
                            b.view(b_smem, &[Dim::Index(slot)]),
                        );
                        b.wgmma(accs[0], left, right);
                        b.wgmma_wait(0);
                        let free = b.view(empty, &[Dim::Index(slot)]);
                        b.barrier_arrive(free);
                    });
                    let v = b.accumulator_load(accs[0], Some(0));
                    b.store(o, v);
                    Vec::new()
                });
            }
        });
        Vec::new()
    });
    b.finish()
}

fn product(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f32> {
    (0..m * n).map(|i| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum()).collect()
}

fn small(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

#[test]
fn a_producer_and_a_consumer_with_tensor_cores() {
    let (a, b) = (small(4 * 40, 1), small(40 * 6, 2));
    let expected = product(&a, &b, 4, 6, 40);
    for program in under_all_schedules(&warp_specialized()) {
        let ran = run(program, &[f32s(&a), f32s(&b)]).ok();
        assert_eq!(ran.f32s(0), expected);
        assert_eq!(ran.report.stats.tensor_core_flops, 2 * 4 * 6 * 40);
    }
}

#[test]
fn many_schedules_in_one_call_agree() {
    let mut program = warp_specialized();
    program.options.seeds = 12;
    let (a, b) = (small(4 * 40, 1), small(40 * 6, 2));
    let ran = run(program, &[f32s(&a), f32s(&b)]).ok();
    assert_eq!(ran.f32s(0), product(&a, &b, 4, 6, 40));
    assert_eq!((ran.report.runs, ran.report.findings.len()), (12, 0));
}

#[test]
fn schedules_that_disagree_are_a_finding() {
    let mut b = Builder::new("who_is_last");
    b.threads(2);
    let o = b.output("o_gmem", DType::I32, &[]);
    let thread = b.thread_index();
    b.store(o, thread);
    b.options().seeds = 10;
    let ran = run(b.finish(), &[]);
    assert_eq!(ran.i32s(0), [1], "the results are those of the first schedule");
    let finding = &ran.report.findings[0];
    assert_eq!((finding.code, finding.severity), ("PRS-K1", Severity::Error));
    assert_eq!(finding.seeds[0], 0);
    assert!(finding.message.contains("`o_gmem` differs from element []"), "{}", finding.message);
    assert!(finding.replay.starts_with("Params(limits=\"ignore\", seed="), "{}", finding.replay);
}

#[test]
fn crossed_waits() {
    let mut b = Builder::new("crossed");
    b.threads(3).grid(&[2]);
    b.scope(vec![barrier("a", &[], 1), barrier("b", &[2], 2)], |b, refs| {
        in_threads(b, 3, |b, thread| match thread {
            0 => {
                b.at(20).barrier_wait(refs[0]);
                let second = b.view(refs[1], &[Dim::At(1)]);
                b.barrier_arrive(second);
            }
            1 => {
                let second = b.view(refs[1], &[Dim::At(1)]);
                b.at(30).barrier_arrive(second);
                b.at(31).barrier_wait(second);
                b.barrier_arrive(refs[0]);
            }
            _ => {}
        });
        Vec::new()
    });
    let expected = "\
pallas_rs.DeadlockError[PRS-E1]: 4 threads wait for each other, or for something that nobody is left to do
  kernel   crossed
  thread   grid point (0,), thread 0: waits on `a` for phase 0 (0 of 1 arrivals), at kernel.py:20 in crossed
  thread   grid point (0,), thread 1: waits on `b[1]` for phase 0 (1 of 2 arrivals), at kernel.py:31 in crossed
  thread   grid point (0,), thread 2: has ended
  thread   grid point (1,), thread 0: waits on `a` for phase 0 (0 of 1 arrivals), at kernel.py:20 in crossed
  thread   grid point (1,), thread 1: waits on `b[1]` for phase 0 (1 of 2 arrivals), at kernel.py:31 in crossed
  thread   grid point (1,), thread 2: has ended
  missing  1 of 1 arrival on `a`, 1 of 2 arrivals on `b[1]`
replay: Params(limits=\"ignore\")";
    assert_eq!(run(b.finish(), &[]).failure(), expected);
}

#[test]
fn a_load_that_is_never_issued() {
    let mut b = Builder::new("forgotten");
    b.scope(vec![barrier("loaded", &[], 1)], |b, refs| {
        b.at(5).barrier_wait(refs[0]);
        Vec::new()
    });
    let failure = run(b.finish(), &[]).failure();
    assert!(
        failure.contains("one thread waits for something that nobody is left to do"),
        "{failure}"
    );
    assert!(failure.contains("missing  1 of 1 arrival on `loaded`"), "{failure}");
}

#[test]
fn broken_barrier_rules() {
    let one_barrier = |body: &dyn Fn(&mut Builder, Value, Value, Value)| {
        let mut b = Builder::new("rules");
        let x = b.input("x", DType::F32, &[4]);
        let allocs = vec![barrier("bar", &[], 1), smem("s", DType::F32, &[4])];
        b.scope(allocs, |b, refs| {
            body(b, refs[0], x, refs[1]);
            Vec::new()
        });
        run(b.finish(), &[f32s(&[0.0; 4])]).code()
    };
    let unobserved = one_barrier(&|b, bar, _, _| {
        b.barrier_arrive(bar);
        b.barrier_arrive(bar);
    });
    assert_eq!(unobserved, "PRS-D1");
    let twice = one_barrier(&|b, bar, x, s| {
        b.tma_load(x, s, bar);
        b.tma_load(x, s, bar);
    });
    assert_eq!(twice, "PRS-D4");
    let mut b = Builder::new("half");
    b.scope(vec![barrier("bar", &[], 2)], |b, refs| {
        b.barrier_arrive(refs[0]);
        Vec::new()
    });
    assert_eq!(run(b.finish(), &[]).code(), "PRS-D8");
    let mut b = Builder::new("index");
    let i = b.scalar_input("i", DType::I32);
    b.scope(vec![barrier("bar", &[2], 1)], |b, refs| {
        let far = b.view(refs[0], &[Dim::Index(i)]);
        b.barrier_arrive(far);
        Vec::new()
    });
    let failure = run(b.finish(), &[i32s(&[5])]).failure();
    let first = failure.lines().next().unwrap();
    assert_eq!(
        first,
        "pallas_rs.BarrierError[PRS-D11]: a barrier index leaves `bar` at 5 of size 2"
    );
}

/// Loads a window of 8 elements of `x`, 6 long, from `start`, and returns it.
fn window(start: i32, oob: OobMode) -> common::Ran {
    let mut b = Builder::new("window");
    let i = b.scalar_input("i", DType::I32);
    let x = b.input("x", DType::F32, &[6]);
    let o = b.output("o", DType::F32, &[8]);
    b.scope(vec![smem("s", DType::F32, &[8]), barrier("bar", &[], 1)], |b, refs| {
        let from = b.view(x, &[Dim::Window(i, 8)]);
        let (collective, more) = (None, false);
        let op = Op::CopyGmemToSmem { oob, barrier: true, predicate: false, collective, more };
        b.push_none(op, &[from, refs[0], refs[1]]);
        b.barrier_wait(refs[1]);
        let v = b.load(refs[0]);
        b.store(o, v);
        Vec::new()
    });
    run(b.finish(), &[i32s(&[start]), f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])])
}

#[test]
fn loads_over_the_edge() {
    let zeros = |start| window(start, OobMode::Zeros).ok().f32s(0);
    assert_eq!(zeros(-3), [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(zeros(4), [5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(zeros(100), [0.0; 8]);
    let undefined = window(4, OobMode::Undefined).ok().f32s(0);
    assert!(undefined[..2] == [5.0, 6.0] && undefined[2..].iter().all(|x| x.is_nan()));
    assert_eq!(window(4, OobMode::PromiseInBounds).code(), "PRS-H6");
}

#[test]
fn stores_over_the_edge_and_reductions() {
    let store = |start: i32, reduction| {
        let mut b = Builder::new("store");
        let i = b.scalar_input("i", DType::I32);
        let o = b.in_out("o", DType::F32, &[6]);
        b.scope(vec![smem("s", DType::F32, &[4])], |b, refs| {
            let v = b.f32_tile(&[4], &[1.0, 2.0, 3.0, 4.0]);
            b.store(refs[0], v);
            b.commit_smem();
            let to = b.view(o, &[Dim::Window(i, 4)]);
            let op = Op::CopySmemToGmem { reduction, commit: true, predicate: false };
            b.push_none(op, &[refs[0], to]);
            b.wait_stores(0);
            Vec::new()
        });
        run(b.finish(), &[i32s(&[start]), f32s(&[2.5; 6])])
    };
    assert_eq!(store(4, None).ok().f32s(0), [2.5, 2.5, 2.5, 2.5, 1.0, 2.0]);
    assert_eq!(store(-1, None).code(), "PRS-H5");
    assert_eq!(store(1, Some(RmwKind::Add)).ok().f32s(0), [2.5, 3.5, 4.5, 5.5, 6.5, 2.5]);
    assert_eq!(store(3, Some(RmwKind::Max)).ok().f32s(0), [2.5, 2.5, 2.5, 2.5, 2.5, 3.0]);
}

#[test]
fn a_false_predicate_neither_copies_nor_arrives() {
    let mut b = Builder::new("predicate");
    let x = b.input("x", DType::F32, &[4]);
    let o = b.in_out("o", DType::F32, &[4]);
    b.scope(vec![smem("s", DType::F32, &[4]), barrier("bar", &[], 1)], |b, refs| {
        let (yes, no) = (b.bool(true), b.bool(false));
        let load = |b: &mut Builder, predicate| {
            let op = Op::CopyGmemToSmem {
                oob: OobMode::Zeros,
                barrier: true,
                predicate: true,
                collective: None,
                more: false,
            };
            b.push_none(op, &[x, refs[0], refs[1], predicate]);
        };
        load(b, no);
        load(b, yes);
        b.push_none(Op::BarrierArrive { predicate: true }, &[refs[1], no]);
        b.barrier_wait(refs[1]);
        b.commit_smem();
        let op = Op::CopySmemToGmem { reduction: None, commit: true, predicate: true };
        b.push_none(op, &[refs[0], o, no]);
        b.wait_stores(0);
        Vec::new()
    });
    assert_eq!(run(b.finish(), &[f32s(&ramp(4)), f32s(&[9.0; 4])]).ok().f32s(0), [9.0; 4]);
}

#[test]
fn cp_async_and_polling() {
    let mut b = Builder::new("cp_async");
    b.threads(2);
    let x = b.input("x", DType::F32, &[2, 4]);
    let o = b.output("o", DType::F32, &[2, 4]);
    let allocs = vec![smem("s", DType::F32, &[2, 4]), barrier("bar", &[], 1)];
    b.scope(allocs, |b, refs| {
        in_threads(b, 2, |b, thread| {
            if thread == 0 {
                let yes = b.bool(true);
                b.while_loop(
                    &[yes],
                    |_, carry| carry[0],
                    |b, _| {
                        let done = b.barrier_test(refs[1]);
                        vec![b.unary(pallas_rs_core::UnaryKind::Not, done)]
                    },
                );
                let v = b.load(refs[0]);
                b.store(o, v);
            } else {
                for row in [0, 1] {
                    let (from, to) = (b.view(x, &[Dim::At(row)]), b.view(refs[0], &[Dim::At(row)]));
                    b.cp_async(from, to);
                }
                b.wait_loads(0);
                b.barrier_arrive(refs[1]);
            }
        });
        Vec::new()
    });
    for program in under_all_schedules(&b.finish()) {
        assert_eq!(run(program, &[f32s(&ramp(8))]).ok().f32s(0), ramp(8));
    }
}

#[test]
fn products_from_registers_transposed_and_read_too_early() {
    let half = |values: &[f32]| {
        let high = |x: &f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
        Array(DType::BF16, values.iter().flat_map(high).collect())
    };
    let (m, n, k) = (4, 3, 5);
    let (a, w) = (small(m * k, 3), small(n * k, 4));
    let transposed: Vec<f32> = (0..k * n).map(|i| w[i % n * k + i / n]).collect();
    let expected = product(&a, &transposed, m, n, k);
    let mut b = Builder::new("registers");
    let x = b.input("x", DType::BF16, &[m, k]);
    let y = b.input("y", DType::BF16, &[n, k]);
    let o = b.output("o", DType::F32, &[m, n]);
    let early = b.output("early", DType::F32, &[m, n]);
    let allocs = vec![smem("s", DType::BF16, &[n, k]), barrier("bar", &[], 1)];
    b.scope(allocs, |b, refs| {
        b.tma_load(y, refs[0], refs[1]);
        b.barrier_wait(refs[1]);
        b.thread_scope(vec![accumulator("acc", DType::F32, [m, n])], |b, accs| {
            let left = b.load(x);
            let right = b.ref_transpose(refs[0], &[1, 0]);
            b.wgmma(accs[0], left, right);
            let v = b.accumulator_load(accs[0], None);
            b.store(early, v);
            let v = b.accumulator_load(accs[0], Some(0));
            b.store(o, v);
            Vec::new()
        });
        Vec::new()
    });
    let ran = run(b.finish(), &[half(&a), half(&w)]).ok();
    assert_eq!((ran.f32s(0), ran.f32s(1)), (expected, vec![0.0; m * n]));
}

/// Each of two blocks writes its row, tells the other, and waits to be told, `rounds` times.
fn cluster_rounds(rounds: i32) -> Program {
    let mut b = Builder::new("cluster");
    b.cluster(&[2]).grid(&[3]);
    let o = b.output("o", DType::I32, &[3, 2]);
    b.scope(vec![cluster_barrier("met", 0, 1)], |b, refs| {
        b.repeat(rounds, |b, _| {
            b.barrier_arrive(refs[0]);
            b.barrier_wait(refs[0]);
        });
        let (i, block, n) = (b.program_id(0), b.cluster_index(0), b.int(rounds));
        let to = b.view(o, &[Dim::Index(i), Dim::Index(block)]);
        b.store(to, n);
        Vec::new()
    });
    b.finish()
}

#[test]
fn blocks_of_a_cluster_meet() {
    for program in under_all_schedules(&cluster_rounds(20)) {
        assert_eq!(run(program, &[]).ok().i32s(0), [20; 6]);
    }
}

/// Both blocks load with one collective copy; block 0 reports for both in the modes it leads.
fn collective(partition: Partition, forget: bool) -> Program {
    let rows = if matches!(partition, Partition::Partitioned(_)) { 2 } else { 4 };
    let leads = !matches!(partition, Partition::Multicast);
    let mut b = Builder::new("collective");
    b.cluster(&[2]);
    let x = b.input("x", DType::F32, &[4, 4]);
    let o = b.output("o", DType::F32, &[2, rows, 4]);
    let allocs = vec![
        smem("s", DType::F32, &[rows, 4]),
        barrier("loaded", &[], 1),
        cluster_barrier("met", 0, 1),
    ];
    b.scope(allocs, |b, refs| {
        let block = b.cluster_index(0);
        b.switch(block, 2, |b, i| {
            if i == 0 || !forget {
                let together = Collective { axes: vec![0], partition };
                b.at(7).tma_load_collective(x, refs[0], refs[1], Some(together));
            }
            if i == 0 || !leads {
                b.at(8).barrier_wait(refs[1]);
            }
            b.at(9).barrier_arrive(refs[2]);
            b.barrier_wait(refs[2]);
            let v = b.load(refs[0]);
            let to = b.view(o, &[Dim::At(i as i64)]);
            b.store(to, v);
            Vec::new()
        });
        Vec::new()
    });
    b.finish()
}

#[test]
fn collective_copies() {
    let x = ramp(16);
    let twice: Vec<f32> = x.iter().chain(&x).copied().collect();
    for (partition, expected) in [
        (Partition::Multicast, &twice),
        (Partition::Replicated, &twice),
        (Partition::Partitioned(0), &x),
    ] {
        for program in under_all_schedules(&collective(partition, false)) {
            assert_eq!(&run(program, &[f32s(&x)]).ok().f32s(0), expected);
        }
        let failure = run(collective(partition, true), &[f32s(&x)]).failure();
        assert!(failure.contains("1 collective copy not issued by every block"), "{failure}");
    }
}
