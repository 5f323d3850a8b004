//! What each race is called and how it is explained.

use super::words::barrier_name;
use super::{Finding, Severity, ThreadLine, schedule, source as source_of};
use crate::observer::{AccessKind, At, BarrierId, Engine};
use crate::race::{BarrierRef, Code, FlatWindow, Memory, Missing, Race, Side};
use crate::rules::{self, Rule};
use crate::scheduler::Schedule;
use crate::trap::{BarrierName, Extent, Place, Who};
use pallas_rs_core::DType;
use pallas_rs_ir::options::Severity as OnRace;
use pallas_rs_ir::{AllocKind, Op, Program, Region, Space};

impl Finding {
    /// What a race means. `bounds`: the grid's, to name its points.
    pub(crate) fn from_race(
        program: &Program,
        bounds: &[u64],
        schedule: &Schedule,
        race: &Race,
    ) -> Finding {
        let place = race.memory.map(|memory| place(program, memory, race.window.as_ref()));
        let name = place.as_ref().map_or_else(String::new, |p| format!("`{}`", p.name));
        let barrier = race.barrier.map(|b| barrier_words(program, b)).unwrap_or_default();
        let threads = race.earlier.iter().map(|side| ThreadLine {
            who: who(program, bounds, side.at),
            source: source_of(program, side.at.span),
            state: match race.barrier {
                Some(_) => format!("waits on {barrier}"),
                None => did(side),
            },
        });
        let (message, hint) = sentence(race, &name, &barrier);
        let source = source_of(program, race.later.at.span);
        let helper = source.as_ref().and_then(|s| s.via.as_deref());
        let hint = match (race.code, helper) {
            (Code::B2, Some(helper)) => Some(format!(
                "the refill comes from `{helper}`: call commit_smem() at the end of the body"
            )),
            _ => hint.map(str::to_owned),
        };
        let message = if race.same_value { format!("{message} (same value)") } else { message };
        Finding {
            code: rule(race.code).code,
            class: rule(race.code).class,
            severity: severity(program, race.code),
            kernel: program.name.clone(),
            message,
            who: Some(who(program, bounds, race.later.at)),
            source,
            threads: threads.collect(),
            missing: Some(missing(program, race, place.as_ref())),
            place,
            hint,
            same_value: race.same_value,
            fatal: false,
            seed: schedule.seed,
            seeds: vec![schedule.seed],
            replay: schedule::replay(&program.options, schedule),
            count: race.count,
        }
    }
}

fn rule(code: Code) -> &'static Rule {
    match code {
        Code::A1 => &rules::A1,
        Code::A2 => &rules::A2,
        Code::A3 => &rules::A3,
        Code::A4 => &rules::A4,
        Code::A5 => &rules::A5,
        Code::A7 => &rules::A7,
        Code::A8 => &rules::A8,
        Code::B1 => &rules::B1,
        Code::B2 => &rules::B2,
        Code::B3 => &rules::B3,
        Code::B4 => &rules::B4,
        Code::C1 => &rules::C1,
        Code::C2 => &rules::C2,
        Code::C3 => &rules::C3,
        Code::C4 => &rules::C4,
        Code::C5 => &rules::C5,
        Code::C7 => &rules::C7,
        Code::C8 => &rules::C8,
        Code::C10 => &rules::C10,
        Code::C11 => &rules::C11,
        Code::C13 => &rules::C13,
        Code::C14 => &rules::C14,
        Code::C15 => &rules::C15,
        Code::C16 => &rules::C16,
        Code::D1 => &rules::D1,
        Code::D2 => &rules::D2,
        Code::D8 => &rules::D8,
        Code::D9 => &rules::D9,
        Code::F1 => &rules::F1,
        Code::F3 => &rules::F3,
        Code::L2 => &rules::L2,
    }
}

/// B2 and B4 follow from the letter of the memory model, but JAX's own helpers break them and
/// hardware rarely shows it.
fn severity(program: &Program, code: Code) -> Severity {
    if rule(code).severity == Severity::Lint {
        return Severity::Lint;
    }
    let strict = program.options.strict_proxy && matches!(code, Code::B2 | Code::B4);
    let lenient = rule(code).severity == Severity::Warning && !strict;
    let raises = program.options.on_race == OnRace::Raise;
    if raises && !lenient { Severity::Error } else { Severity::Warning }
}

fn sentence(race: &Race, name: &str, barrier: &str) -> (String, Option<&'static str>) {
    let (text, hint) = match race.code {
        Code::A1 => (format!("two threads of a block race on {name}"), None),
        Code::A2 => (format!("two blocks of a cluster race on {name}"), None),
        Code::A3 => (format!("two threads race on {name}, which is in tensor memory"), None),
        Code::A4 => (format!("two threads of a cluster race on {name}"), None),
        Code::A5 => (
            format!("different grid points race on {name}"),
            Some("a GPU runs the points of a grid at the same time, in any order"),
        ),
        Code::A7 => (format!("an atomic operation and a plain access race on {name}"), None),
        Code::A8 => match race.earlier {
            Some(_) => (
                format!("{name} and another member of its union are used at the same time"),
                Some("the members of a `RefUnion` are the same bytes"),
            ),
            None => (
                format!("{name} is read, but its bytes were last written through another member"),
                Some(
                    "the members of a `RefUnion` are the same bytes; each is read as it was written",
                ),
            ),
        },
        Code::B1 => (
            format!("an asynchronous engine reads {name} before a write to it is visible to it"),
            Some("TMA and tensor cores see SMEM through another proxy than loads and stores do"),
        ),
        Code::B2 => (
            format!(
                "cross-proxy WAR: an asynchronous engine overwrites {name} after a read without a fence"
            ),
            Some("call commit_smem() after the last read of the buffer, before it is refilled"),
        ),
        Code::B3 => (
            format!(
                "an asynchronous engine overwrites {name} before an earlier write is visible to it"
            ),
            None,
        ),
        Code::B4 => (
            format!("a TMA load reads what the same kernel wrote to {name}"),
            Some("write it with a TMA store, or read it in a second kernel"),
        ),
        Code::C1 => (format!("{name} is used before the copy that fills it has completed"), None),
        Code::C2 => (format!("{name} is overwritten while a copy into it is in flight"), None),
        Code::C3 => (format!("{name} is overwritten while a TMA store still reads it"), None),
        Code::C4 => (format!("{name} is accessed while a TMA store to it is in flight"), None),
        Code::C5 => (
            format!(
                "{name} is used although the TMA store is in a group that nobody has committed"
            ),
            Some("a wait covers committed groups only"),
        ),
        Code::C15 | Code::F3 => {
            let what = race.later.engine.map_or("an operation", engine);
            (
                format!(
                    "the memory of {name} is given to another scope while {what} may still be at work on it"
                ),
                None,
            )
        }
        Code::F1 => (
            format!("a block may end while another block of the cluster still accesses its {name}"),
            Some("SMEM of a block is gone when the block ends: a last cluster barrier keeps it"),
        ),
        Code::D8 => (
            format!(
                "nobody observes the last phase of {barrier}, and a later scope has barriers too"
            ),
            Some("the next scope is given the same barriers without a new start, in that phase"),
        ),
        Code::D9 => (format!("nobody observes the last phase of {barrier}"), None),
        Code::L2 => (
            format!("semaphore {name} is {} at the end, and nobody waits for it", race.ticks.1),
            Some("semaphores have to end at zero: the next kernel starts with what is left"),
        ),
        Code::C7 => (format!("{name} is overwritten while a tensor core still reads it"), None),
        Code::C8 => (format!("accumulator {name} is accessed while wgmma is in flight"), None),
        Code::C10 => (
            format!("{name} is used while a tensor core operation on it is in flight"),
            Some(
                "only a product into the same accumulator, or one of what a copy to tensor memory brings, may follow without a wait",
            ),
        ),
        Code::C11 => (
            format!("{name} is used while a load or store of tensor memory is in flight"),
            Some(
                "wait_load_tmem() ends loads, commit_tmem() ends stores, and only a barrier with orders_tensor_core=True hands tensor memory to another thread",
            ),
        ),
        Code::C13 => (
            format!(
                "{name} is handed to another thread by a barrier that does not order the tensor core"
            ),
            None,
        ),
        Code::C14 => {
            let what = race.later.engine.map_or("an operation", engine);
            (format!("the block ends while {what} may still be in flight"), None)
        }
        Code::C16 => (format!("{name} is overwritten while a copy from it is in flight"), None),
        Code::D1 => (
            format!("an arrival on {barrier} does not come after a wait for the phase before it"),
            Some(
                "between two phases of a barrier somebody has to observe the first one, and the next arrival has to come after that",
            ),
        ),
        Code::D2 => (
            format!(
                "a phase of {barrier} can complete before a waiting thread has seen the one before"
            ),
            Some("a thread that waits on a barrier has to observe every phase of it"),
        ),
    };
    (text, hint)
}

fn missing(program: &Program, race: &Race, place: Option<&Place>) -> String {
    match race.missing {
        Missing::Synchronisation => {
            "an arrive after the earlier access and a wait on it before the later one".to_owned()
        }
        Missing::OtherCluster => match place {
            Some(place) => format!(
                "nothing orders two grid points: keep their parts of `{}` apart",
                place.name
            ),
            None => "nothing orders two grid points".to_owned(),
        },
        Missing::Fence => {
            "commit_smem() between the two, before the arrive if they are in different threads"
                .to_owned()
        }
        Missing::GmemFence => "a proxy fence for GMEM, which Pallas does not have".to_owned(),
        Missing::BarrierWait(barrier) => {
            format!("barrier_wait on {}", barrier_words(program, barrier))
        }
        Missing::SemaphoreWait => "a semaphore_wait for what is left".to_owned(),
        Missing::TensorBarrier => {
            "orders_tensor_core=True on the barrier between the two".to_owned()
        }
        Missing::WriteThroughMember => match place {
            Some(place) => format!("a write to `{}` before this read", place.name),
            None => "a write before this read".to_owned(),
        },
        Missing::Commit => "commit_group(), then a wait for that group".to_owned(),
        Missing::GroupWait { engine, pending, read_only } => match engine {
            Engine::TmaStore if read_only => {
                format!("wait_smem_to_gmem({pending}, wait_read_only=True) or stronger")
            }
            Engine::TmaStore => format!("wait_smem_to_gmem({pending})"),
            Engine::Wgmma => format!("wgmma_wait({pending})"),
            Engine::CpAsync => format!("wait_gmem_to_smem({pending})"),
            Engine::TmaLoad | Engine::PeerStore => {
                "barrier_wait on the barrier of the copy".to_owned()
            }
            Engine::Tcgen05 | Engine::TmemCopy | Engine::Commit => {
                "tcgen05_commit_arrive on a barrier that orders the tensor core, and a wait on it"
                    .to_owned()
            }
            Engine::TmemLoad => "wait_load_tmem()".to_owned(),
            Engine::TmemStore => "commit_tmem()".to_owned(),
        },
    }
}

pub(super) fn engine(engine: Engine) -> &'static str {
    match engine {
        Engine::TmaLoad => "a TMA load",
        Engine::PeerStore => "an asynchronous store",
        Engine::TmaStore => "a TMA store",
        Engine::CpAsync => "a cp.async copy",
        Engine::Wgmma => "wgmma",
        Engine::Tcgen05 => "tcgen05_mma",
        Engine::TmemCopy => "a copy to tensor memory",
        Engine::Commit => "tcgen05_commit_arrive",
        Engine::TmemLoad => "async_load_tmem",
        Engine::TmemStore => "async_store_tmem",
    }
}

fn did(side: &Side) -> String {
    let what = match side.kind {
        AccessKind::Read => "reads it",
        AccessKind::Write => "writes it",
        AccessKind::Atomic => "updates it atomically",
    };
    match side.engine {
        Some(e) => format!("{what} by {}", engine(e)),
        None => what.to_owned(),
    }
}

pub(super) fn who(program: &Program, bounds: &[u64], at: At) -> Who {
    let unravel = |mut rest: u64, sizes: &mut dyn DoubleEndedIterator<Item = u64>| {
        let mut out: Vec<u64> = Vec::new();
        for n in sizes.rev() {
            out.push(rest % n.max(1));
            rest /= n.max(1);
        }
        out.reverse();
        out
    };
    let point = unravel(at.thread.cluster, &mut bounds.iter().copied());
    let block = unravel(at.thread.block.into(), &mut program.cluster.iter().map(|&n| n as u64));
    Who {
        point,
        block: block.into_iter().map(|n| n as usize).collect(),
        thread: (program.num_threads > 1).then_some(at.thread.thread as usize),
        warp: at.thread.warp.map(usize::from),
    }
}

pub(super) fn barrier_words(program: &Program, barrier: BarrierRef) -> String {
    if barrier.named && barrier.index == BarrierId::SCOPE {
        return "the entry of a collective scope".to_owned();
    }
    if barrier.named && barrier.index == BarrierId::END {
        return "the end of a scope with TMEM of two blocks".to_owned();
    }
    if barrier.named {
        return format!("named barrier {}", barrier.index);
    }
    let Some(alloc) = barrier.alloc.and_then(|n| nth_alloc(program, n)) else {
        return "its barrier".to_owned();
    };
    let mut index = vec![0; alloc.shape.len()];
    let mut rest = barrier.index as usize;
    for (x, &n) in index.iter_mut().zip(&alloc.shape).rev() {
        *x = rest % n.max(1);
        rest /= n.max(1);
    }
    barrier_name(&BarrierName { name: alloc.name.clone(), index })
}

/// Entry `n` of the program's allocations, in the order of its text.
pub(super) fn nth_alloc(program: &Program, n: u32) -> Option<&pallas_rs_ir::Alloc> {
    fn find<'p>(region: &'p Region, n: &mut u32) -> Option<&'p pallas_rs_ir::Alloc> {
        for inst in &region.insts {
            if let Op::Scope { allocs, .. } = &inst.op {
                if let Some(alloc) = allocs.get(*n as usize) {
                    return Some(alloc);
                }
                *n -= allocs.len() as u32;
            }
            for region in &inst.regions {
                if let Some(found) = find(region, n) {
                    return Some(found);
                }
            }
        }
        None
    }
    let mut n = n;
    find(&program.body, &mut n)
}

pub(super) fn place(program: &Program, memory: Memory, window: Option<&FlatWindow>) -> Place {
    let (name, space, dtype, shape): (String, Space, Option<DType>, Vec<usize>) = match memory {
        Memory::Arg(n) => {
            let arg = &program.args[n as usize];
            (arg.name.clone(), Space::Gmem, Some(arg.dtype), arg.shape.clone())
        }
        Memory::Alloc(n) => match nth_alloc(program, n) {
            Some(alloc) => {
                let dtype = match alloc.kind {
                    AllocKind::Data { dtype, .. } => Some(dtype),
                    AllocKind::Barrier { .. }
                    | AllocKind::ClusterBarrier { .. }
                    | AllocKind::Semaphore => None,
                };
                (alloc.name.clone(), alloc.space, dtype, alloc.shape.clone())
            }
            None => (String::new(), Space::Smem, None, Vec::new()),
        },
    };
    let window = window.and_then(|w| extents(w, &shape)).unwrap_or_default();
    Place { name, space, dtype, shape, window }
}

/// The box of a row-major array that a window covers; `None` when it is no box.
fn extents(window: &FlatWindow, shape: &[usize]) -> Option<Vec<Extent>> {
    let mut strides = vec![1i64; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1] * shape[d + 1] as i64;
    }
    let mut rest = window.offset;
    let mut out: Vec<Extent> = Vec::new();
    for &stride in &strides {
        out.push(Extent { start: rest.div_euclid(stride.max(1)), size: 1, stride: 1 });
        rest = rest.rem_euclid(stride.max(1));
    }
    for (&size, &stride) in window.sizes.iter().zip(&window.strides).filter(|&(&n, _)| n != 1) {
        let d = (0..shape.len()).find(|&d| {
            shape[d] > 1 && stride % strides[d] == 0 && stride.abs() / strides[d] < shape[d] as i64
        })?;
        out[d] = Extent { size, stride: stride / strides[d], ..out[d] };
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::words::place_box;
    use super::*;

    #[test]
    fn windows_become_boxes() {
        let window = FlatWindow { offset: 2 * 32 + 8, sizes: vec![4, 8], strides: vec![32, 1] };
        let place = Place {
            name: "x".to_owned(),
            space: Space::Smem,
            dtype: Some(DType::F32),
            shape: vec![16, 32],
            window: extents(&window, &[16, 32]).unwrap(),
        };
        assert_eq!(place_box(&place), "`x[2:6, 8:16]`");
    }
}
