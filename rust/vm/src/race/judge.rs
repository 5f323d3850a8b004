//! Whether two accesses to the same bytes race, and what would have ordered them.

use super::clock::{Component, Tick};
use super::cluster::{ClusterClock, Meaning};
use super::finding::{Code, Missing, Side};
use super::shadow::Past;
use crate::observer::{AccessKind, Engine, Proxy, Window};
use pallas_rs_ir::Space;

/// An access about to be checked.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) component: Component,
    pub(super) tick: Tick,
    /// The own tick of the thread that makes or issues it.
    pub(super) issued: Tick,
    pub(super) side: Side,
}

/// Why two accesses race.
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) missing: Missing,
    pub(super) known: Tick,
}

/// Whether the tensor core carries out an access after the earlier one without a wait. PTX ISA,
/// tcgen05 pipelined instructions: products into one accumulator, and a product after the copies
/// that bring its operands; of another thread, if its issue comes before.
pub(super) fn is_pipelined(cluster: &ClusterClock, earlier: &Past, access: &Access) -> bool {
    let later = access.side;
    if later.engine != Some(Engine::Tcgen05) || earlier.cluster != later.at.thread.cluster {
        return false;
    }
    let (wrote, writes) = (earlier.kind != AccessKind::Read, later.kind != AccessKind::Read);
    let issuer = match cluster.meaning(earlier.component) {
        Meaning::TmemCopy(t) => t,
        Meaning::Tcgen05(t) if wrote && writes => t,
        _ => return false,
    };
    let thread = cluster.thread(later.at);
    let view = &cluster.threads[thread as usize].view;
    let issuing = cluster.component(Meaning::Thread(issuer));
    issuer == thread || view.tensor.get(issuing) >= earlier.issued
}

/// Whether an access races with an earlier one that it overlaps.
pub(super) fn judge(
    cluster: &ClusterClock,
    earlier: &Past,
    access: &Access,
    window: &Window<'_>,
) -> Option<Fault> {
    let later = access.side;
    match (earlier.kind, later.kind) {
        (AccessKind::Read, AccessKind::Read) => return None,
        (AccessKind::Atomic, AccessKind::Atomic) if earlier.proxy == later.proxy => return None,
        _ => {}
    }
    let one_atomic = (earlier.kind == AccessKind::Atomic) != (later.kind == AccessKind::Atomic);
    let plain = |code| if one_atomic { Code::A7 } else { code };
    if earlier.cluster != later.at.thread.cluster {
        let view = &cluster.threads[cluster.thread(later.at) as usize].view;
        let known = view.others.get(&earlier.cluster);
        if known.is_some_and(|clock| clock.get(earlier.component) >= earlier.tick) {
            return None;
        }
        let fault = Fault { code: plain(Code::A5), missing: Missing::OtherCluster, known: 0 };
        return Some(fault);
    }
    let thread = cluster.thread(later.at);
    let clock = &cluster.threads[thread as usize];
    let known = clock.view.known.get(earlier.component);
    let meaning = cluster.meaning(earlier.component);
    let in_tmem = window.base.space == Space::Tmem;
    let issuer = cluster.thread(earlier.at);
    if known >= earlier.tick {
        if in_tmem && issuer != thread && clock.view.tensor.get(earlier.component) < earlier.tick {
            return Some(Fault { code: Code::C13, missing: Missing::TensorBarrier, known });
        }
        return fence_missing(cluster, earlier, access, window).map(|(code, missing)| Fault {
            code,
            missing,
            known,
        });
    }
    // The blocks of a cluster write what they multicast together.
    let elsewhere = earlier.at.thread.block != later.at.thread.block;
    let together = (earlier.component, earlier.tick) == (access.component, access.tick);
    if elsewhere && together && later.engine == Some(Engine::TmaLoad) {
        return None;
    }
    // Products of one thread are carried out in the order in which they were issued.
    if meaning == Meaning::Wgmma(thread) && later.engine == Some(Engine::Wgmma) {
        return None;
    }
    if is_pipelined(cluster, earlier, access) {
        return None;
    }
    let issue = cluster.component(Meaning::Thread(issuer));
    let of_thread =
        matches!(meaning, Meaning::Thread(_) | Meaning::TmemLoad(_) | Meaning::TmemStore(_));
    if in_tmem && of_thread && issuer != thread && clock.view.known.get(issue) < earlier.issued {
        return Some(Fault { code: Code::A3, missing: Missing::Synchronisation, known });
    }
    let writes = earlier.kind != AccessKind::Read;
    let wait = |engine, issued: Tick, read_only| {
        if earlier.tick > issued {
            Missing::Commit
        } else {
            Missing::GroupWait { engine, pending: (issued - earlier.tick) as u32, read_only }
        }
    };
    let own = |t: u32| t == thread;
    let copy = match (writes, later.kind) {
        (false, _) => Code::C16,
        (true, AccessKind::Read) => Code::C1,
        (true, AccessKind::Write | AccessKind::Atomic) => Code::C2,
    };
    let (code, missing) = match meaning {
        Meaning::Barrier(id) => (copy, Missing::BarrierWait(cluster.barrier_ref(id))),
        Meaning::StoreRead(t) if own(t) => (Code::C3, wait(Engine::TmaStore, clock.stores, true)),
        Meaning::StoreWrite(t) if own(t) => (Code::C4, wait(Engine::TmaStore, clock.stores, false)),
        Meaning::Wgmma(t) if own(t) => {
            let code = if window.base.space == Space::Regs { Code::C8 } else { Code::C7 };
            (code, wait(Engine::Wgmma, clock.products, false))
        }
        Meaning::CpAsync(t) if own(t) => (copy, wait(Engine::CpAsync, clock.copies, false)),
        Meaning::Tcgen05(_) | Meaning::TmemCopy(_) => {
            let engine = if matches!(meaning, Meaning::Tcgen05(_)) {
                Engine::Tcgen05
            } else {
                Engine::TmemCopy
            };
            let missing = Missing::GroupWait { engine, pending: 0, read_only: false };
            (if in_tmem { Code::C10 } else { Code::C7 }, missing)
        }
        Meaning::TmemLoad(_) => {
            let (engine, pending, read_only) = (Engine::TmemLoad, 0, false);
            (Code::C11, Missing::GroupWait { engine, pending, read_only })
        }
        Meaning::TmemStore(_) => {
            let (engine, pending, read_only) = (Engine::TmemStore, 0, false);
            (Code::C11, Missing::GroupWait { engine, pending, read_only })
        }
        Meaning::StoreRead(_) => (Code::C3, Missing::Synchronisation),
        Meaning::StoreWrite(_) => (Code::C4, Missing::Synchronisation),
        Meaning::Wgmma(_) => (Code::C7, Missing::Synchronisation),
        Meaning::CpAsync(_) => (copy, Missing::Synchronisation),
        Meaning::Thread(_) => {
            let code = match window.base.space {
                Space::Gmem => Code::A4,
                Space::Regs => Code::C8,
                Space::Tmem => Code::A3,
                Space::Smem if earlier.at.thread.block == later.at.thread.block => Code::A1,
                Space::Smem => Code::A2,
            };
            (plain(code), Missing::Synchronisation)
        }
    };
    let code = if missing == Missing::Commit { Code::C5 } else { code };
    Some(Fault { code, missing, known })
}

/// Ordered, but across proxies without a fence.
fn fence_missing(
    cluster: &ClusterClock,
    earlier: &Past,
    access: &Access,
    window: &Window<'_>,
) -> Option<(Code, Missing)> {
    if earlier.proxy != Proxy::Generic || access.side.proxy != Proxy::Async {
        return None;
    }
    let (wrote, writes) = (earlier.kind != AccessKind::Read, access.side.kind != AccessKind::Read);
    match window.base.space {
        Space::Gmem if wrote && !writes => Some((Code::B4, Missing::GmemFence)),
        Space::Smem => {
            let thread = cluster.thread(access.side.at);
            let fenced = cluster.threads[thread as usize].view.fenced.get(earlier.component);
            let code = match (wrote, writes) {
                (true, true) => Code::B3,
                (true, false) => Code::B1,
                (false, _) => Code::B2,
            };
            (fenced < earlier.tick).then_some((code, Missing::Fence))
        }
        Space::Gmem | Space::Tmem | Space::Regs => None,
    }
}
