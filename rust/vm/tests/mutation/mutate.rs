//! One change of one synchronisation.

use pallas_rs_ir::{AllocKind, Inst, Op, Program, Region, SliceDim, Start};

/// A changed program.
pub(crate) struct Mutant {
    /// What was changed, and where.
    pub(crate) name: String,
    pub(crate) program: Program,
}

/// A change of the instruction at `at` in a region.
type Change = fn(&mut Region, usize) -> bool;

/// Every operator at every place where it changes something.
pub(crate) fn mutants(program: &Program) -> Vec<Mutant> {
    const OPERATORS: &[(&str, Change)] = &[
        ("drop", drop_op),
        ("one op later", swap_with_next),
        ("wait for one group less", wait_for_less),
        ("wait for reads only", flip_read_only),
        ("do not commit the group", do_not_commit),
        ("next slot", next_slot),
    ];
    let mut mutants = Vec::new();
    for &(operator, change) in OPERATORS {
        let mut target = 0;
        loop {
            let mut changed = program.clone();
            let mut left = target;
            let spans = &program.spans;
            let name = visit(&mut changed.body, &mut |region, at| {
                let before = region.insts[at].clone();
                let mut copy = region.clone();
                if !change(&mut copy, at) {
                    return None;
                }
                if left > 0 {
                    left -= 1;
                    return None;
                }
                *region = copy;
                let span = &spans[before.span.0 as usize];
                Some(format!("{operator}: {} (line {})", before.op.mnemonic(), span.line))
            });
            let Some(name) = name else { break };
            target += 1;
            if pallas_rs_ir::verify(&changed).is_ok() {
                mutants.push(Mutant { name: format!("{name} #{target}"), program: changed });
            }
        }
    }
    mutants.extend(with_other_arrivals(program));
    mutants
}

/// Each barrier with one arrival more, and with one less.
fn with_other_arrivals(program: &Program) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (word, by) in [("more", 1), ("less", -1)] {
        for target in 0.. {
            let mut changed = program.clone();
            let mut left = target;
            let name = visit(&mut changed.body, &mut |region, at| {
                let Op::Scope { allocs, .. } = &mut region.insts[at].op else { return None };
                for alloc in allocs {
                    let (AllocKind::Barrier { arrivals, .. }
                    | AllocKind::ClusterBarrier { arrivals, .. }) = &mut alloc.kind
                    else {
                        continue;
                    };
                    if left == 0 {
                        *arrivals = arrivals.saturating_add_signed(by);
                        return Some(alloc.name.clone());
                    }
                    left -= 1;
                }
                None
            });
            let Some(name) = name else { break };
            // A barrier without arrivals does not exist.
            if pallas_rs_ir::verify(&changed).is_ok() {
                let name = format!("one arrival {word}: {name} #{}", target + 1);
                mutants.push(Mutant { name, program: changed });
            }
        }
    }
    mutants
}

/// Calls `f` at every instruction until it has an answer.
fn visit(
    region: &mut Region,
    f: &mut impl FnMut(&mut Region, usize) -> Option<String>,
) -> Option<String> {
    for at in 0..region.insts.len() {
        if let Some(found) = f(region, at) {
            return Some(found);
        }
        for inner in 0..region.insts[at].regions.len() {
            if let Some(found) = visit(&mut region.insts[at].regions[inner], f) {
                return Some(found);
            }
        }
    }
    None
}

fn synchronises(inst: &Inst) -> bool {
    matches!(
        inst.op,
        Op::BarrierArrive { .. }
            | Op::BarrierWait {}
            | Op::CommitSmem {}
            | Op::CommitGroup {}
            | Op::WaitSmemToGmem { .. }
            | Op::WaitGmemToSmem { .. }
            | Op::WgmmaWait { .. }
            | Op::Tcgen05CommitArrive { .. }
            | Op::CommitTmem {}
            | Op::WaitLoadTmem {}
    )
}

fn drop_op(region: &mut Region, at: usize) -> bool {
    let found = synchronises(&region.insts[at]);
    if found {
        region.insts.remove(at);
    }
    found
}

/// Behind the next op that touches memory or synchronises.
fn swap_with_next(region: &mut Region, at: usize) -> bool {
    use pallas_rs_ir::Effect;
    if !synchronises(&region.insts[at]) {
        return false;
    }
    let acts = |inst: &Inst| inst.op.info().effect != Effect::Pure;
    let Some(next) = region.insts[at + 1..].iter().position(acts) else { return false };
    let inst = region.insts.remove(at);
    region.insts.insert(at + 1 + next, inst);
    true
}

fn wait_for_less(region: &mut Region, at: usize) -> bool {
    match &mut region.insts[at].op {
        Op::WaitSmemToGmem { n, .. } | Op::WgmmaWait { n } | Op::WaitGmemToSmem { n } => *n += 1,
        Op::AccumulatorLoad { wait } if wait.is_some() => *wait = None,
        _ => return false,
    }
    true
}

fn flip_read_only(region: &mut Region, at: usize) -> bool {
    match &mut region.insts[at].op {
        Op::WaitSmemToGmem { read_only, .. } => *read_only = !*read_only,
        _ => return false,
    }
    true
}

fn do_not_commit(region: &mut Region, at: usize) -> bool {
    match &mut region.insts[at].op {
        Op::CopySmemToGmem { commit, .. } if *commit => *commit = false,
        _ => return false,
    }
    true
}

/// A wait or arrival that indexes a barrier takes the other slot.
fn next_slot(region: &mut Region, at: usize) -> bool {
    let Op::RefSlice { dims } = &mut region.insts[at].op else { return false };
    match &mut dims[..] {
        [SliceDim::Index(start @ Start::Static(_))] => {
            let Start::Static(slot) = *start else { return false };
            *start = Start::Static(1 - slot.min(1));
            true
        }
        _ => false,
    }
}
