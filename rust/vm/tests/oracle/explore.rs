//! Every execution of a skeleton.

use super::skeleton::{Skeleton, Step};
use rustc_hash::FxHashSet;

/// More states than this are too many.
const LIMIT: usize = 200_000;
/// Memory that is not written, and a buffer without a write on its way.
const NOTHING: u8 = 255;

/// What can happen.
#[derive(Debug)]
pub(crate) struct Truth {
    /// Different ends.
    pub(crate) outcomes: usize,
    /// Some execution does not end, or does what hardware leaves undefined.
    pub(crate) stuck: bool,
}

/// A copy in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Copy {
    /// Whether it writes to the buffer.
    load: bool,
    thread: u8,
    pc: u8,
    barrier: u8,
    buffer: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    pcs: Vec<u8>,
    phases: Vec<u8>,
    pending: Vec<u8>,
    transfers: Vec<u8>,
    /// By thread and barrier: waits that have succeeded.
    seen: Vec<Vec<u8>>,
    /// What the async proxy sees.
    memory: Vec<u8>,
    /// Writes that only generic accesses see.
    dirty: Vec<u8>,
    copies: Vec<Copy>,
    /// What was read, by thread and step.
    log: Vec<(u8, u8, u8)>,
}

impl State {
    fn count(&mut self, skeleton: &Skeleton, barrier: usize, arrivals: u8, transfers: i8) {
        self.pending[barrier] -= arrivals;
        self.transfers[barrier] = self.transfers[barrier].wrapping_add_signed(transfers);
        if self.pending[barrier] == 0 && self.transfers[barrier] == 0 {
            self.phases[barrier] += 1;
            self.pending[barrier] = skeleton.barriers[barrier] as u8;
        }
    }

    fn record(&mut self, thread: u8, pc: u8, value: u8) {
        self.log.push((thread, pc, value));
        self.log.sort_unstable();
    }
}

/// A value nobody else writes.
fn value(thread: usize, pc: usize) -> u8 {
    (thread * 40 + pc) as u8
}

/// Visits all states; `None` if there are too many.
pub(crate) fn explore(skeleton: &Skeleton) -> Option<Truth> {
    let (threads, barriers) = (skeleton.threads.len(), skeleton.barriers.len());
    let start = State {
        pcs: vec![0; threads],
        phases: vec![0; barriers],
        pending: skeleton.barriers.iter().map(|&n| n as u8).collect(),
        transfers: vec![0; barriers],
        seen: vec![vec![0; barriers]; threads],
        memory: vec![NOTHING; skeleton.buffers],
        dirty: vec![NOTHING; skeleton.buffers],
        copies: Vec::new(),
        log: Vec::new(),
    };
    let mut known = FxHashSet::from_iter([start.clone()]);
    let mut open = vec![start];
    let mut ends = FxHashSet::default();
    let mut stuck = false;
    while let Some(state) = open.pop() {
        if known.len() > LIMIT {
            return None;
        }
        let mut next = Vec::new();
        for t in 0..threads {
            stuck |= step(skeleton, &state, t, &mut next);
        }
        completions(skeleton, &state, &mut next);
        if next.is_empty() {
            if (0..threads).all(|t| usize::from(state.pcs[t]) == skeleton.threads[t].len()) {
                ends.insert((state.memory.clone(), state.log.clone()));
            } else {
                stuck = true;
            }
        }
        for state in next {
            if known.insert(state.clone()) {
                open.push(state);
            }
        }
    }
    Some(Truth { outcomes: ends.len(), stuck })
}

/// What a thread can do next. Whether it does something undefined.
fn step(skeleton: &Skeleton, state: &State, t: usize, next: &mut Vec<State>) -> bool {
    let pc = usize::from(state.pcs[t]);
    let Some(&step) = skeleton.threads[t].get(pc) else { return false };
    let mut after = state.clone();
    after.pcs[t] += 1;
    let copy = |load, barrier: usize, buffer: usize| Copy {
        load,
        thread: t as u8,
        pc: pc as u8,
        barrier: barrier as u8,
        buffer: buffer as u8,
    };
    match step {
        Step::Write(buffer) => after.dirty[buffer] = value(t, pc),
        Step::Read(buffer) => {
            let dirty = state.dirty[buffer];
            let seen = if dirty == NOTHING { state.memory[buffer] } else { dirty };
            after.record(t as u8, pc as u8, seen);
        }
        Step::Fence => {
            for buffer in 0..skeleton.buffers {
                if state.dirty[buffer] != NOTHING {
                    after.memory[buffer] = state.dirty[buffer];
                    after.dirty[buffer] = NOTHING;
                }
            }
        }
        Step::Arrive(barrier) | Step::Load { barrier, .. } if state.pending[barrier] == 0 => {
            // The phase only waits for bytes: in which one this arrival counts is undefined.
            return true;
        }
        Step::Arrive(barrier) => after.count(skeleton, barrier, 1, 0),
        Step::Wait(barrier) => {
            // Hardware compares one bit.
            if state.phases[barrier] % 2 == state.seen[t][barrier] % 2 {
                return false;
            }
            after.seen[t][barrier] += 1;
        }
        Step::Load { barrier, buffer } => {
            after.count(skeleton, barrier, 1, 1);
            after.copies.push(copy(true, barrier, buffer));
            after.copies.sort_unstable();
        }
        Step::Store(buffer) => {
            after.copies.push(copy(false, 0, buffer));
            after.copies.sort_unstable();
        }
        Step::Drain(left) => {
            let is_store = |&i: &usize| matches!(skeleton.threads[t][i], Step::Store(_));
            let issued: Vec<usize> = (0..pc).filter(is_store).collect();
            let covered = &issued[..issued.len().saturating_sub(left)];
            let pending = |c: &Copy| {
                !c.load && usize::from(c.thread) == t && covered.contains(&usize::from(c.pc))
            };
            if state.copies.iter().any(pending) {
                return false;
            }
        }
    }
    next.push(after);
    false
}

/// What the engines and the memory system can do next.
fn completions(skeleton: &Skeleton, state: &State, next: &mut Vec<State>) {
    for (i, copy) in state.copies.iter().enumerate() {
        let mut after = state.clone();
        after.copies.remove(i);
        let buffer = usize::from(copy.buffer);
        if copy.load {
            after.count(skeleton, usize::from(copy.barrier), 0, -1);
            after.memory[buffer] = 120 + value(usize::from(copy.thread), usize::from(copy.pc));
        } else {
            let earlier = |c: &Copy| !c.load && c.thread == copy.thread && c.pc < copy.pc;
            if state.copies.iter().any(earlier) {
                continue;
            }
            after.record(copy.thread, copy.pc, state.memory[buffer]);
        }
        next.push(after);
    }
    for (buffer, &dirty) in state.dirty.iter().enumerate() {
        if dirty != NOTHING {
            let mut after = state.clone();
            after.memory[buffer] = dirty;
            after.dirty[buffer] = NOTHING;
            next.push(after);
        }
    }
}
