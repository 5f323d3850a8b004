//! Which programs leave nothing to the schedule.

use pallas_rs_ir::{Effect, Op, Program, Region};

/// Whether the only things that threads of a program do to each other are arrivals and waits. Then a
/// run without races and without broken barrier rules is the same in every schedule: each arrival
/// belongs to the same phase, each wait observes the same one, each read has one possible writer
/// (`docs/memory-model.md`).
pub(crate) fn is_choice_free(program: &Program) -> bool {
    fn all(region: &Region) -> bool {
        region.insts.iter().all(|inst| is_free(&inst.op) && inst.regions.iter().all(all))
    }
    all(&program.body)
}

/// Only ops that are known to be free count: what is missing here makes a verdict weaker, not wrong.
fn is_free(op: &Op) -> bool {
    match op.info().effect {
        Effect::Pure | Effect::Control => true,
        Effect::Memory => !matches!(op, Op::AtomicRmw { .. } | Op::AtomicCas {}),
        Effect::Async | Effect::Sync | Effect::Host => matches!(
            op,
            Op::BarrierArrive { .. }
                | Op::BarrierWait {}
                | Op::CopyGmemToSmem { .. }
                | Op::CopySmemToGmem { reduction: None, .. }
                | Op::CommitGroup {}
                | Op::WaitSmemToGmem { .. }
                | Op::WaitGmemToSmem { .. }
                | Op::CommitSmem {}
                | Op::Wgmma { .. }
                | Op::WgmmaWait { .. }
                | Op::AccumulatorLoad { .. }
                | Op::XlaCall { .. }
                | Op::Print { .. }
                | Op::Check { .. }
        ),
    }
}
