//! The detector on sequences of events, each wrong one beside a right one that differs by one event.

use super::*;
use crate::observer::{
    AccessKind, Allocated, At, BarrierId, BaseId, Engine, Observer, Operation, Proxy, ThreadId,
    Window,
};
use pallas_rs_ir::{Space, SpanId};

const BAR: BarrierId = BarrierId { block: 0, base: 0, index: 0 };
const SLOT: &[usize] = &[64];

struct Kernel {
    detector: RaceDetector,
    line: u32,
    ticket: u64,
    phase: u64,
}

fn base(space: Space) -> BaseId {
    BaseId { space, number: 0 }
}

fn window(space: Space) -> Window<'static> {
    Window { base: base(space), block: 0, offset: 0, sizes: SLOT, strides: &[1], elem_size: 4 }
}

impl Kernel {
    fn new() -> Kernel {
        let mut detector = RaceDetector::new(1, 2, false);
        detector.on_block_start(0, 0);
        Kernel { detector, line: 0, ticket: 0, phase: 0 }
    }

    fn at(&mut self, thread: u32) -> At {
        self.line += 1;
        At {
            thread: ThreadId { cluster: 0, block: 0, thread, warp: None },
            span: SpanId(self.line),
        }
    }

    fn access(&mut self, thread: u32, kind: AccessKind) {
        let at = self.at(thread);
        self.detector.on_access(at, window(Space::Smem), kind, Proxy::Generic).unwrap();
    }

    fn read(&mut self, thread: u32) {
        self.access(thread, AccessKind::Read);
    }

    fn write(&mut self, thread: u32) {
        self.access(thread, AccessKind::Write);
    }

    /// An arrival that completes a phase.
    fn arrive(&mut self, thread: u32) {
        let at = self.at(thread);
        self.detector.on_arrive(at, BAR, self.phase, true).unwrap();
        self.phase += 1;
    }

    fn wait(&mut self, thread: u32, phase: u64) {
        let at = self.at(thread);
        self.detector.on_wait(at, BAR, phase).unwrap();
    }

    fn fence(&mut self, thread: u32) {
        let at = self.at(thread);
        self.detector.on_fence(at);
    }

    fn issue(
        &mut self,
        thread: u32,
        engine: Engine,
        reads: &[Window<'_>],
        writes: &[Window<'_>],
    ) -> u64 {
        let at = self.at(thread);
        self.ticket += 1;
        let barrier = (engine == Engine::TmaLoad).then_some(BAR);
        let ticket = self.ticket;
        let operation = Operation {
            engine,
            ticket,
            reads,
            writes,
            accumulates: false,
            barrier,
            multicast: &[],
            tracked: None,
        };
        self.detector.on_issue(at, operation).unwrap();
        ticket
    }

    fn load(&mut self, thread: u32) -> u64 {
        self.issue(thread, Engine::TmaLoad, &[window(Space::Gmem)], &[window(Space::Smem)])
    }

    fn land(&mut self, thread: u32, ticket: u64) {
        self.detector.on_complete(0, Engine::TmaLoad, ticket);
        self.arrive(thread);
    }

    fn store(&mut self, thread: u32) {
        self.issue(thread, Engine::TmaStore, &[window(Space::Smem)], &[window(Space::Gmem)]);
        let at = self.at(thread);
        self.detector.on_commit_group(at);
    }

    fn drain(&mut self, thread: u32, engine: Engine, pending: u32, read_only: bool) {
        let at = self.at(thread);
        self.detector.on_group_wait(at, engine, pending, read_only);
    }

    fn codes(mut self) -> Vec<Code> {
        self.detector.on_block_end(0, 0);
        self.detector.into_races().iter().map(|race| race.code).collect()
    }
}

#[test]
fn message_through_a_barrier() {
    for (synchronised, want) in [(true, vec![]), (false, vec![Code::A1])] {
        let mut k = Kernel::new();
        k.write(0);
        k.arrive(0);
        if synchronised {
            k.wait(1, 0);
        }
        k.read(1);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn writing_after_the_arrival_is_not_published() {
    let mut k = Kernel::new();
    k.arrive(0);
    k.write(0);
    k.wait(1, 0);
    k.read(1);
    assert_eq!(k.codes(), [Code::A1]);
}

#[test]
fn a_tma_load_is_complete_once_its_barrier_was_waited_for() {
    for (waits, want) in [(true, vec![]), (false, vec![Code::C1, Code::C14])] {
        let mut k = Kernel::new();
        let ticket = k.load(0);
        k.land(0, ticket);
        if waits {
            k.wait(0, 0);
        }
        k.read(0);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn what_the_issuer_does_after_the_issue_is_not_published_by_the_copy() {
    let mut k = Kernel::new();
    let ticket = k.issue(0, Engine::TmaLoad, &[window(Space::Gmem)], &[]);
    k.write(0);
    k.land(0, ticket);
    k.wait(1, 0);
    k.read(1);
    assert_eq!(k.codes(), [Code::A1]);
}

#[test]
fn a_store_needs_a_fence_before_and_a_wait_after() {
    for (fence, wait, want) in [
        (true, true, vec![]),
        (false, true, vec![Code::B1]),
        (true, false, vec![Code::C3, Code::C14]),
    ] {
        let mut k = Kernel::new();
        k.write(0);
        if fence {
            k.fence(0);
        }
        k.store(0);
        if wait {
            k.drain(0, Engine::TmaStore, 0, true);
        }
        k.write(0);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn a_fence_before_the_write_does_not_help() {
    let mut k = Kernel::new();
    k.fence(0);
    k.write(0);
    k.store(0);
    k.drain(0, Engine::TmaStore, 0, true);
    assert_eq!(k.codes(), [Code::B1]);
}

#[test]
fn a_refill_after_a_read_needs_a_fence() {
    for (fence, want) in [(true, vec![]), (false, vec![Code::B2])] {
        let mut k = Kernel::new();
        let first = k.load(0);
        k.land(0, first);
        k.wait(0, 0);
        k.read(0);
        if fence {
            k.fence(0);
        }
        let second = k.load(0);
        k.land(0, second);
        k.wait(0, 1);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn an_operand_of_wgmma_is_busy_until_the_wait_that_covers_it() {
    for (pending, want) in [(0, vec![]), (1, vec![Code::C7])] {
        let mut k = Kernel::new();
        let acc = window(Space::Regs);
        k.issue(0, Engine::Wgmma, &[window(Space::Smem)], &[acc]);
        k.drain(0, Engine::Wgmma, pending, false);
        k.write(0);
        k.drain(0, Engine::Wgmma, 0, false);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn products_of_one_thread_accumulate_in_order() {
    let mut k = Kernel::new();
    let acc = [window(Space::Regs)];
    k.issue(0, Engine::Wgmma, &[], &acc);
    k.issue(0, Engine::Wgmma, &[], &acc);
    k.drain(0, Engine::Wgmma, 0, false);
    assert_eq!(k.codes(), []);
}

#[test]
fn an_arrival_has_to_come_after_a_wait_for_the_phase_before() {
    for (handshake, want) in [(true, vec![]), (false, vec![Code::D1])] {
        let mut k = Kernel::new();
        k.arrive(0);
        k.wait(u32::from(!handshake), 0);
        k.arrive(0);
        k.wait(u32::from(!handshake), 1);
        let codes: Vec<Code> = k.codes().into_iter().filter(|&c| c == Code::D1).collect();
        assert_eq!(codes, want);
    }
}

#[test]
fn clusters_are_never_ordered() {
    let mut k = Kernel::new();
    let at = |cluster| At {
        thread: ThreadId { cluster, block: 0, thread: 0, warp: None },
        span: SpanId(1),
    };
    for cluster in 0..100 {
        k.detector
            .on_access(at(cluster), window(Space::Gmem), AccessKind::Read, Proxy::Generic)
            .unwrap();
        k.detector.on_block_end(cluster, 0);
    }
    k.detector.on_access(at(100), window(Space::Gmem), AccessKind::Write, Proxy::Generic).unwrap();
    k.detector.on_block_end(100, 0);
    let races = k.detector.into_races();
    assert_eq!(races.len(), 1);
    assert_eq!(races[0].code, Code::A5);
    // The shadow of what all clusters read stays small.
    assert!(races[0].count <= 3, "{}", races[0].count);
}

fn smem_alloc() -> Allocated {
    Allocated::Data(base(Space::Smem))
}

impl Kernel {
    fn begin(&mut self, what: Allocated) {
        let at = self.at(0);
        self.detector.on_alloc(at, what, 0);
    }

    fn end(&mut self, what: Allocated) {
        let at = self.at(0);
        self.detector.on_free(at, what);
    }
}

#[test]
fn a_group_that_nobody_commits_is_in_no_wait() {
    for (commit, want) in [(true, vec![]), (false, vec![Code::C5])] {
        let mut k = Kernel::new();
        k.issue(0, Engine::TmaStore, &[window(Space::Smem)], &[window(Space::Gmem)]);
        let at = k.at(0);
        if commit {
            k.detector.on_commit_group(at);
        }
        k.drain(0, Engine::TmaStore, 0, false);
        k.write(0);
        if !commit {
            k.detector.on_commit_group(at);
        }
        k.drain(0, Engine::TmaStore, 0, false);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn a_scope_ends_when_nobody_is_at_work_on_its_memory() {
    for (waits, want) in [(true, vec![]), (false, vec![Code::C15])] {
        let mut k = Kernel::new();
        k.begin(smem_alloc());
        k.store(0);
        if waits {
            k.drain(0, Engine::TmaStore, 0, true);
        }
        k.end(smem_alloc());
        k.begin(smem_alloc());
        k.drain(0, Engine::TmaStore, 0, true);
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn a_block_outlives_the_accesses_of_its_peers() {
    for (waits, want) in [(true, 0), (false, 1)] {
        let mut detector = RaceDetector::new(2, 1, false);
        let at = |block, line| At {
            thread: ThreadId { cluster: 0, block, thread: 0, warp: None },
            span: SpanId(line),
        };
        (0..2).for_each(|block| detector.on_block_start(0, block));
        detector.on_alloc(at(0, 1), smem_alloc(), 0);
        let peer = Window { block: 0, ..window(Space::Smem) };
        detector.on_access(at(1, 2), peer, AccessKind::Write, Proxy::Generic).unwrap();
        detector.on_arrive(at(1, 3), BAR, 0, true).unwrap();
        if waits {
            detector.on_wait(at(0, 4), BAR, 0).unwrap();
        }
        detector.on_free(at(0, 5), smem_alloc());
        let races = detector.into_races();
        assert_eq!(races.iter().filter(|race| race.code == Code::F1).count(), want);
    }
}

#[test]
fn a_last_phase_wants_to_be_seen() {
    for (waits, want) in [(true, vec![]), (false, vec![Code::D9])] {
        let mut k = Kernel::new();
        k.begin(Allocated::Barriers(0));
        k.arrive(0);
        if waits {
            k.wait(1, 0);
        }
        k.end(Allocated::Barriers(0));
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn cost_is_that_of_the_neighbours() {
    // As many accesses as a long kernel makes, to a few windows: what is remembered stays small.
    let mut k = Kernel::new();
    for _ in 0..20_000 {
        k.write(0);
        k.read(0);
    }
    assert_eq!(k.codes(), []);
    let mut detector = RaceDetector::new(1, 1, false);
    detector.on_block_start(0, 0);
    let at =
        At { thread: ThreadId { cluster: 0, block: 0, thread: 0, warp: None }, span: SpanId(1) };
    for i in 0..20_000 {
        let tile = Window { offset: i * 64, ..window(Space::Gmem) };
        detector.on_access(at, tile, AccessKind::Write, Proxy::Generic).unwrap();
    }
    assert_eq!(detector.into_races().len(), 0);
}

#[test]
fn barriers_are_left_in_a_phase_that_was_seen() {
    for (again, want) in [(false, vec![Code::D9]), (true, vec![Code::D9, Code::D8])] {
        let mut k = Kernel::new();
        k.begin(Allocated::Barriers(0));
        k.arrive(0);
        k.end(Allocated::Barriers(0));
        if again {
            k.begin(Allocated::Barriers(1));
            k.end(Allocated::Barriers(1));
        }
        assert_eq!(k.codes(), want);
    }
}

#[test]
fn a_wait_counts_groups_and_not_their_parts() {
    for (groups, want) in [(2, vec![]), (1, vec![Code::C7])] {
        let mut k = Kernel::new();
        k.issue(0, Engine::Wgmma, &[window(Space::Smem)], &[window(Space::Regs)]);
        let at = k.at(0);
        k.detector.on_more(at, Engine::Wgmma);
        for _ in 0..groups {
            k.issue(0, Engine::Wgmma, &[], &[window(Space::Regs)]);
        }
        k.drain(0, Engine::Wgmma, 1, false);
        k.write(0);
        k.drain(0, Engine::Wgmma, 0, false);
        assert_eq!(k.codes(), want);
    }
}
