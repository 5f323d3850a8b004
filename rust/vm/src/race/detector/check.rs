//! Accesses, ends of scopes and arrivals against what is known; what is wrong becomes a finding.

use super::RaceDetector;
use crate::observer::{AccessKind, Allocated, At, BarrierId, BaseId, Engine, Proxy, Window};
use crate::race::clock::{Component, Tick};
use crate::race::cluster::{ClusterClock, Leftover, Meaning};
use crate::race::finding::{BarrierRef, Code, FlatWindow, Memory, Missing, Race, Side};
use crate::race::judge::{Access, Fault, is_pipelined, judge};
use crate::race::shadow::{Past, Shadow};
use crate::race::window::ByteWindow;
use pallas_rs_ir::Space;
use rustc_hash::FxHashMap;

impl RaceDetector {
    /// Reports a race, or counts it; its number.
    pub(super) fn report(&mut self, race: Race) -> usize {
        let key = (race.code, race.earlier.map(|s| s.at.span), race.later.at.span);
        let at = *self.known.entry(key).or_insert(self.races.len());
        match self.races.get_mut(at) {
            Some(known) => known.count += 1,
            None => self.races.push(race),
        }
        at
    }

    pub(super) fn check(&mut self, window: &Window<'_>, access: Access) {
        let at = access.side.at;
        let number = at.thread.cluster;
        self.cluster(number);
        let owner = match window.base.space {
            Space::Gmem => None,
            Space::Smem | Space::Tmem => Some(window.block),
            Space::Regs => Some(self.clusters[&number].thread(at)),
        };
        let placed = match owner {
            None => ByteWindow::new(window).map(|bytes| (window.base, bytes)),
            Some(o) => self.clusters[&number].unions.place(window, o),
        };
        let Some((base, bytes)) = placed else { return };
        if let Some(o) = owner {
            let unions = &mut self.cluster(number).unions;
            if unions.is_foreign(window, &bytes, access.side.kind, o) {
                self.report_foreign(window, o, access.side);
            }
        }
        let mut shadow = match owner {
            None => self.gmem.remove(&window.base.number).unwrap_or_default(),
            Some(o) => self.cluster(number).memory.remove(&(base, o)).unwrap_or_default(),
        };
        let past = Past {
            cluster: number,
            component: access.component,
            tick: access.tick,
            issued: access.issued,
            base: window.base,
            kind: access.side.kind,
            proxy: access.side.proxy,
            at,
        };
        let mut bad: Vec<(Past, Fault)> = Vec::new();
        let mut parents: Vec<(Component, Tick)> = Vec::new();
        let (clusters, order) = (&self.clusters, &self.order);
        shadow.access(
            bytes,
            past,
            |c| clusters.contains_key(&c),
            |earlier| {
                if is_pipelined(&clusters[&number], earlier, &access) {
                    parents.push((earlier.component, earlier.tick));
                }
                if !order.is_in_order(earlier.cluster, number)
                    && let Some(mut fault) = judge(&clusters[&number], earlier, &access, window)
                {
                    // The number of an argument is that of its array in every cluster.
                    if owner.is_some() && earlier.base != window.base {
                        fault.code = Code::A8;
                    }
                    bad.push((*earlier, fault));
                }
            },
        );
        match owner {
            None => drop(self.gmem.insert(window.base.number, shadow)),
            Some(o) => drop(self.cluster(number).memory.insert((base, o), shadow)),
        }
        if !parents.is_empty() {
            let clock = self.cluster(number);
            let thread = clock.thread(at);
            let all = &mut clock.threads[thread as usize].tensor_parents;
            for (component, tick) in parents {
                match all.iter_mut().find(|(c, _)| *c == component) {
                    Some((_, known)) => *known = tick.max(*known),
                    None => all.push((component, tick)),
                }
            }
        }
        for (earlier, fault) in bad {
            let engine = self.engine_of(&earlier);
            let earlier_side =
                Side { at: earlier.at, kind: earlier.kind, proxy: earlier.proxy, engine };
            let alloc = owner.and_then(|o| {
                self.clusters[&number].allocs.get(&(Allocated::Data(window.base), o)).copied()
            });
            let writes = [earlier.kind, access.side.kind] == [AccessKind::Write; 2];
            let number = self.report(Race {
                code: fault.code,
                earlier: Some(earlier_side),
                later: access.side,
                memory: Some(match alloc {
                    Some(alloc) => Memory::Alloc(alloc),
                    None => Memory::Arg(window.base.number),
                }),
                window: Some(FlatWindow {
                    offset: window.offset,
                    sizes: window.sizes.to_vec(),
                    strides: window.strides.to_vec(),
                }),
                barrier: None,
                missing: fault.missing,
                ticks: (fault.known, earlier.tick),
                same_value: false,
                count: 1,
            });
            if writes && access.side.engine.is_none() {
                self.undecided = Some(number);
            }
        }
    }

    /// A read of what was last written through another member of a union.
    fn report_foreign(&mut self, window: &Window<'_>, owner: u32, side: Side) {
        let clock = &self.clusters[&side.at.thread.cluster];
        let alloc = clock.allocs.get(&(Allocated::Data(window.base), owner)).copied();
        self.report(Race {
            code: Code::A8,
            earlier: None,
            later: side,
            memory: alloc.map(Memory::Alloc),
            window: Some(FlatWindow {
                offset: window.offset,
                sizes: window.sizes.to_vec(),
                strides: window.strides.to_vec(),
            }),
            barrier: None,
            missing: Missing::WriteThroughMember,
            ticks: (0, 0),
            same_value: false,
            count: 1,
        });
    }

    /// The memory of a scope is about to be freed. Whoever of another block is at work on it comes too
    /// late; what an engine does is late once the memory is given to somebody else.
    pub(super) fn check_end(&mut self, at: At, base: BaseId, owner: u32, shadow: &Shadow) {
        if base.space == Space::Regs {
            return;
        }
        let clock = self.cluster(at.thread.cluster);
        let alloc = clock.allocs.get(&(Allocated::Data(base), owner)).copied();
        let block = at.thread.block;
        let known = clock.known_in(block);
        let mut late: Vec<Past> = Vec::new();
        for past in shadow.accesses().filter(|p| known.get(p.component) < p.tick) {
            match clock.meaning(past.component) {
                Meaning::Thread(_) if past.at.thread.block != block => late.push(*past),
                Meaning::Thread(_) => {}
                _ => {
                    let code = if base.space == Space::Tmem { Code::F3 } else { Code::C15 };
                    clock.leftovers.push(Leftover { block, past: *past, code, alloc });
                }
            }
        }
        for past in late {
            self.report_late(Code::F1, &past, alloc, Missing::Synchronisation);
        }
    }

    /// SMEM or TMEM of a block is given to a scope: nobody may be at work on it any more.
    pub(super) fn check_begin(&mut self, at: At) {
        let clock = self.cluster(at.thread.cluster);
        if clock.leftovers.is_empty() {
            return;
        }
        let known = clock.known_in(at.thread.block);
        let (here, elsewhere): (Vec<Leftover>, Vec<Leftover>) =
            std::mem::take(&mut clock.leftovers)
                .into_iter()
                .partition(|l| l.block == at.thread.block);
        clock.leftovers = elsewhere;
        for Leftover { past, code, alloc, .. } in here {
            if known.get(past.component) < past.tick {
                let clock = self.cluster(at.thread.cluster);
                let missing = end_wait(clock, clock.meaning(past.component));
                self.report_late(code, &past, alloc, missing);
            }
        }
    }

    fn report_late(&mut self, code: Code, past: &Past, alloc: Option<u32>, missing: Missing) {
        let side =
            Side { at: past.at, kind: past.kind, proxy: past.proxy, engine: self.engine_of(past) };
        self.report(Race {
            code,
            earlier: None,
            later: side,
            memory: alloc.map(Memory::Alloc),
            window: None,
            barrier: None,
            missing,
            ticks: (0, past.tick),
            same_value: false,
            count: 1,
        });
    }

    fn engine_of(&self, past: &Past) -> Option<Engine> {
        match clusters_meaning(&self.clusters, past) {
            Some(Meaning::StoreRead(_) | Meaning::StoreWrite(_)) => Some(Engine::TmaStore),
            Some(Meaning::Wgmma(_)) => Some(Engine::Wgmma),
            Some(Meaning::CpAsync(_)) => Some(Engine::CpAsync),
            Some(Meaning::Tcgen05(_)) => Some(Engine::Tcgen05),
            Some(Meaning::TmemCopy(_)) => Some(Engine::TmemCopy),
            Some(Meaning::TmemLoad(_)) => Some(Engine::TmemLoad),
            Some(Meaning::TmemStore(_)) => Some(Engine::TmemStore),
            Some(Meaning::Barrier(_)) => Some(Engine::TmaLoad),
            Some(Meaning::Thread(_)) | None => None,
        }
    }

    /// D1: an arrival in phase `phase` has to come after some successful wait for the one before. A
    /// block with peers may leave a barrier to them, as in [`Barriers`](crate::sync).
    pub(super) fn check_arrival(&mut self, at: At, barrier: BarrierId, phase: Tick) {
        let peers = self.blocks > 1;
        let cluster = self.cluster(at.thread.cluster);
        let state = cluster.barrier(barrier);
        let (component, idle) = (state.component, peers && !state.awaited);
        let thread = cluster.thread(at);
        let known = cluster.threads[thread as usize].view.known.get(component);
        if known < phase && !idle {
            let barrier = cluster.barrier_ref(barrier);
            self.report(barrier_rule(Code::D1, at, None, barrier, (known, phase)));
        }
    }
}

fn clusters_meaning(clusters: &FxHashMap<u64, ClusterClock>, past: &Past) -> Option<Meaning> {
    clusters.get(&past.cluster).map(|c| c.meaning(past.component))
}

/// What makes sure that an engine is done when its memory ends.
pub(super) fn end_wait(clock: &ClusterClock, meaning: Meaning) -> Missing {
    let wait = |engine, read_only| Missing::GroupWait { engine, pending: 0, read_only };
    match meaning {
        Meaning::Barrier(id) => Missing::BarrierWait(clock.barrier_ref(id)),
        Meaning::StoreRead(_) | Meaning::StoreWrite(_) => wait(Engine::TmaStore, true),
        Meaning::Wgmma(_) => wait(Engine::Wgmma, false),
        Meaning::CpAsync(_) => wait(Engine::CpAsync, false),
        Meaning::Tcgen05(_) => wait(Engine::Tcgen05, false),
        Meaning::TmemCopy(_) => wait(Engine::TmemCopy, false),
        Meaning::TmemLoad(_) => wait(Engine::TmemLoad, false),
        Meaning::TmemStore(_) => wait(Engine::TmemStore, false),
        Meaning::Thread(_) => Missing::Synchronisation,
    }
}

pub(super) fn barrier_rule(
    code: Code,
    at: At,
    other: Option<At>,
    barrier: BarrierRef,
    ticks: (Tick, Tick),
) -> Race {
    let side = |at| Side { at, kind: AccessKind::Read, proxy: Proxy::Generic, engine: None };
    Race {
        code,
        earlier: other.map(side),
        later: side(at),
        memory: None,
        window: None,
        barrier: Some(barrier),
        missing: Missing::BarrierWait(barrier),
        ticks,
        same_value: false,
        count: 1,
    }
}
