//! A skeleton as a program, and what the machine says of it.

use super::common::{i32s, run as run_program};
use super::skeleton::{Skeleton, Step};
use pallas_rs_core::DType;
use pallas_rs_ir::builder::{Builder, Dim, barrier, smem};
use pallas_rs_ir::{Program, Value};
use pallas_rs_vm::report::Severity;

/// Elements of a buffer.
const WIDTH: usize = 4;

/// A finding, and the schedules in which it was made.
pub(crate) struct Found {
    pub(crate) code: &'static str,
    pub(crate) seeds: Vec<u64>,
}

/// The program of a skeleton. Every read and every TMA store has a row of the output for itself.
pub(crate) fn program(skeleton: &Skeleton) -> Program {
    let steps = skeleton.threads.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let rows = skeleton.threads.len() * steps;
    let mut b = Builder::new("skeleton");
    b.threads(skeleton.threads.len());
    let x = b.input("x", DType::I32, &[rows, WIDTH]);
    let o = b.output("o", DType::I32, &[rows, WIDTH]);
    let mut allocs = Vec::new();
    for i in 0..skeleton.buffers {
        allocs.push(smem(&format!("buffer{i}"), DType::I32, &[WIDTH]));
    }
    for (i, &arrivals) in skeleton.barriers.iter().enumerate() {
        allocs.push(barrier(&format!("barrier{i}"), &[], arrivals));
    }
    b.scope(allocs, |b, refs| {
        let (buffers, barriers) = refs.split_at(skeleton.buffers);
        let thread = b.thread_index();
        b.switch(thread, skeleton.threads.len(), |b, t| {
            for (pc, &step) in skeleton.threads[t].iter().enumerate() {
                emit(b, step, t * steps + pc, [x, o], buffers, barriers);
            }
            Vec::new()
        });
        Vec::new()
    });
    b.finish()
}

fn emit(
    b: &mut Builder,
    step: Step,
    row: usize,
    [x, o]: [Value; 2],
    buffers: &[Value],
    barriers: &[Value],
) {
    b.at(row as u32 + 1);
    let place = |b: &mut Builder, array| b.view(array, &[Dim::At(row as i64), Dim::All]);
    match step {
        Step::Write(buffer) => {
            let value = b.constant(DType::I32, &[WIDTH], row as u64 + 1000);
            b.store(buffers[buffer], value);
        }
        Step::Read(buffer) => {
            let value = b.load(buffers[buffer]);
            let target = place(b, o);
            b.store(target, value);
        }
        Step::Fence => b.commit_smem(),
        Step::Arrive(barrier) => b.barrier_arrive(barriers[barrier]),
        Step::Wait(barrier) => b.barrier_wait(barriers[barrier]),
        Step::Load { barrier, buffer } => {
            let source = place(b, x);
            b.tma_load(source, buffers[buffer], barriers[barrier]);
        }
        Step::Store(buffer) => {
            let target = place(b, o);
            b.tma_store(buffers[buffer], target);
        }
        Step::Drain(left) => b.wait_stores(left as u32),
    }
}

/// What the machine finds under `seeds` schedules.
pub(crate) fn run(skeleton: &Skeleton, seeds: u32) -> Vec<Found> {
    let mut program = program(skeleton);
    program.options.detect_races = true;
    program.options.seeds = seeds;
    let rows = program.args[0].shape[0];
    let ramp: Vec<i32> = (0..(rows * WIDTH) as i32).collect();
    let report = run_program(program, &[i32s(&ramp)]).report;
    let found = report.findings.into_iter().filter(|f| f.severity != Severity::Lint);
    found.map(|f| Found { code: f.code, seeds: f.seeds }).collect()
}
