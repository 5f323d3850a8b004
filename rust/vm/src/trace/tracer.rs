//! The observer: takes a note of everything, as slices on lanes.

use super::{Arrow, Counter, Lane, MAX_NOTES, Place, Sample, Slice, Time, What};
use crate::observer::{
    AccessKind, Allocated, At, BarrierId, Engine, Observer, Operation, Proxy, Window,
};
use crate::trap::Trap;
use pallas_rs_ir::attrs::Alloc;
use pallas_rs_ir::{Elem, Space};
use rustc_hash::FxHashMap;

/// An operation that an engine has been given.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    at: At,
    issued: usize,
    bytes: i64,
}

/// Takes notes of a run.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Bytes of SMEM of each allocation of the program.
    smem: Vec<i64>,
    now: Time,
    pub(super) slices: Vec<Slice>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) samples: Vec<Sample>,
    /// Whether notes had to be left out.
    pub(super) cut: bool,
    /// When each lane was last seen.
    last: FxHashMap<Place, Time>,
    in_flight: FxHashMap<(u64, u64), InFlight>,
    /// The slice of a copy that is about to arrive on its barrier, by cluster.
    landing: FxHashMap<u64, usize>,
    /// What completed a phase of a barrier.
    completed: FxHashMap<(u64, BarrierId, u64), usize>,
    /// Value of each counter, by block.
    smem_now: FxHashMap<(u64, u32), i64>,
    in_flight_now: FxHashMap<(u64, u32), i64>,
}

impl Tracer {
    pub(crate) fn new(allocs: &[Alloc]) -> Tracer {
        Tracer {
            smem: allocs.iter().map(smem_bytes).collect(),
            now: 0,
            slices: Vec::new(),
            arrows: Vec::new(),
            samples: Vec::new(),
            cut: false,
            last: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            landing: FxHashMap::default(),
            completed: FxHashMap::default(),
            smem_now: FxHashMap::default(),
            in_flight_now: FxHashMap::default(),
        }
    }

    /// The time after everything that was seen.
    pub(super) fn end(&self) -> Time {
        self.now + 1
    }

    /// When a lane was last seen.
    pub(super) fn last_seen(&self, place: Place) -> Time {
        self.last.get(&place).copied().unwrap_or(0)
    }

    fn full(&mut self) -> bool {
        let notes = self.slices.len() + self.samples.len() + self.arrows.len();
        self.cut |= notes >= MAX_NOTES;
        self.cut
    }

    /// A slice of a thread that begins where the thread was last seen if it `waited`.
    fn step(&mut self, at: At, what: What, waited: bool) -> usize {
        let place = thread(at);
        let seen = self.last_seen(place);
        let begin = if waited { seen } else { self.now };
        self.now += 1;
        self.last.insert(place, self.now);
        if self.full() {
            return usize::MAX;
        }
        // Accesses of one line, one after another, are one slice.
        if what == What::Access
            && let Some(previous) = self.slices.last_mut()
            && (previous.place, previous.what, previous.span) == (place, what, at.span)
        {
            previous.end = self.now;
            return self.slices.len() - 1;
        }
        self.slices.push(Slice { place, what, span: at.span, begin, end: self.now });
        self.slices.len() - 1
    }

    fn arrow(&mut self, from: usize, to: usize) {
        if from != usize::MAX && to != usize::MAX {
            self.arrows.push(Arrow { from, to });
        }
    }

    fn sample(&mut self, cluster: u64, block: u32, counter: Counter, change: i64) {
        let values = match counter {
            Counter::SmemBytes => &mut self.smem_now,
            Counter::BytesInFlight => &mut self.in_flight_now,
        };
        let value = values.entry((cluster, block)).or_default();
        *value += change;
        let value = *value;
        if change != 0 && !self.full() {
            self.samples.push(Sample { cluster, block, counter, at: self.now, value });
        }
    }
}

fn thread(at: At) -> Place {
    let lane = Lane::Thread { thread: at.thread.thread, warp: at.thread.warp };
    Place { cluster: at.thread.cluster, block: at.thread.block, lane }
}

fn smem_bytes(alloc: &Alloc) -> i64 {
    let elements = alloc.shape.iter().product::<usize>();
    match (alloc.space, alloc.ref_type().elem) {
        (Space::Smem, Elem::Data(dtype)) => (elements * dtype.packed_bits()).div_ceil(8) as i64,
        _ => 0,
    }
}

fn bytes(windows: &[Window<'_>]) -> i64 {
    windows.iter().map(|w| (w.sizes.iter().product::<usize>() * w.elem_size) as i64).sum()
}

impl Observer for Tracer {
    fn on_alloc(&mut self, at: At, what: Allocated, alloc: u32) {
        let size = self.smem.get(alloc as usize).copied().unwrap_or(0);
        if let Allocated::Data(_) = what {
            self.sample(at.thread.cluster, at.thread.block, Counter::SmemBytes, size);
        }
    }

    fn on_block_end(&mut self, cluster: u64, block: u32) {
        let used = self.smem_now.get(&(cluster, block)).copied().unwrap_or(0);
        self.sample(cluster, block, Counter::SmemBytes, -used);
        self.smem_now.remove(&(cluster, block));
        self.in_flight_now.remove(&(cluster, block));
        self.completed.retain(|&(c, id, _), _| (c, id.block) != (cluster, block));
        self.last.retain(|place, _| (place.cluster, place.block) != (cluster, block));
    }

    fn on_access(
        &mut self,
        at: At,
        _: Window<'_>,
        _: AccessKind,
        _: Proxy,
    ) -> Result<(), Box<Trap>> {
        self.step(at, What::Access, false);
        Ok(())
    }

    fn on_arrive(
        &mut self,
        at: At,
        barrier: BarrierId,
        phase: u64,
        completes: bool,
    ) -> Result<(), Box<Trap>> {
        let slice = match self.landing.remove(&at.thread.cluster) {
            Some(copy) => copy,
            None => self.step(at, What::Arrive, false),
        };
        if completes {
            self.completed.insert((at.thread.cluster, barrier, phase), slice);
        }
        Ok(())
    }

    fn on_wait(&mut self, at: At, barrier: BarrierId, phase: u64) -> Result<(), Box<Trap>> {
        let wait = self.step(at, What::Wait, true);
        if let Some(&cause) = self.completed.get(&(at.thread.cluster, barrier, phase)) {
            self.arrow(cause, wait);
        }
        Ok(())
    }

    fn on_fence(&mut self, at: At) {
        self.step(at, What::Fence, false);
    }

    fn on_issue(&mut self, at: At, operation: Operation<'_>) -> Result<(), Box<Trap>> {
        let issued = self.step(at, What::Issue, false);
        let bytes = match operation.engine {
            Engine::TmaLoad | Engine::TmaStore | Engine::CpAsync | Engine::PeerStore => {
                bytes(operation.writes)
            }
            Engine::Wgmma
            | Engine::Tcgen05
            | Engine::Commit
            | Engine::TmemCopy
            | Engine::TmemLoad
            | Engine::TmemStore => 0,
        };
        let flight = InFlight { at, issued, bytes };
        self.in_flight.insert((at.thread.cluster, operation.ticket), flight);
        self.sample(at.thread.cluster, at.thread.block, Counter::BytesInFlight, bytes);
        Ok(())
    }

    fn on_complete(&mut self, cluster: u64, engine: Engine, ticket: u64) {
        let Some(flight) = self.in_flight.remove(&(cluster, ticket)) else { return };
        let (lane, what) = match engine {
            Engine::TmaLoad => (Lane::Tma, What::Load),
            Engine::TmaStore | Engine::PeerStore => (Lane::Tma, What::Store),
            Engine::CpAsync => (Lane::CpAsync, What::Copy),
            Engine::Wgmma => (Lane::TensorCore, What::Wgmma),
            Engine::Tcgen05 => (Lane::TensorCore, What::Tcgen05),
            Engine::Commit => (Lane::TensorCore, What::Commit),
            Engine::TmemCopy => (Lane::TensorCore, What::TmemCopy),
            Engine::TmemLoad => (Lane::TensorCore, What::TmemLoad),
            Engine::TmemStore => (Lane::TensorCore, What::TmemStore),
        };
        let At { thread, span } = flight.at;
        let place = Place { cluster, block: thread.block, lane };
        let issued = self.slices.get(flight.issued).map_or(self.now, |slice| slice.end);
        let begin = issued.max(self.last_seen(place));
        self.now = self.now.max(begin) + 1;
        self.last.insert(place, self.now);
        self.sample(cluster, thread.block, Counter::BytesInFlight, -flight.bytes);
        if self.full() {
            return;
        }
        self.slices.push(Slice { place, what, span, begin, end: self.now });
        let slice = self.slices.len() - 1;
        self.arrow(flight.issued, slice);
        if matches!(engine, Engine::TmaLoad | Engine::PeerStore | Engine::Commit) {
            self.landing.insert(cluster, slice);
        }
    }

    fn on_group_wait(&mut self, at: At, _: Engine, _: u32, _: bool) {
        self.step(at, What::GroupWait, true);
    }
}
