//! Who runs next.
//!
//! A thread runs until it blocks, gives way or ends; then a [`Scheduler`] names the next one. Which
//! threads could go on is not tracked by conditions but found by trying: a thread that was tried
//! without getting anywhere is left alone until some other thread has got somewhere. When all have
//! been tried, whatever is in flight is asked to complete, then another cluster is launched, and when
//! there is none, nothing can ever happen again: a deadlock.

mod choice;
mod pct;
mod random;
mod replay;
mod round_robin;
mod schedules;

pub(crate) use choice::is_choice_free;
pub(crate) use pct::Pct;
pub(crate) use random::Random;
#[cfg(test)]
pub(crate) use replay::Recorder;
pub(crate) use replay::Replay;
pub(crate) use round_robin::RoundRobin;
pub(crate) use schedules::{Difference, Rerun, Schedule, run_schedules};

use crate::trap::Trap;

/// A resident thread: a number that is free again once the thread has ended.
pub(crate) type Slot = u32;

/// A strategy.
pub(crate) trait Scheduler {
    /// The next thread to run, one of `ready`, which has one at least.
    fn next(&mut self, ready: &Ready) -> Slot;

    /// Whether the running thread gives way at the scheduling point it has reached.
    fn preempts(&mut self) -> bool {
        false
    }

    /// Whether [`Scheduler::preempts`] wants to be asked, and as many clusters as fit are to be
    /// resident from the start.
    fn preemptive(&self) -> bool {
        false
    }

    /// A thread has become resident.
    fn started(&mut self, slot: Slot) {
        let _ = slot;
    }

    /// A thread gave way of its own accord: it polls, or has run for long.
    fn yielded(&mut self, slot: Slot) {
        let _ = slot;
    }
}

/// Why a thread stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It waits. `advanced`: it executed something first.
    Blocked {
        /// Whether it got anywhere.
        advanced: bool,
    },
    /// It could go on.
    Yielded,
    /// It has started others: [`Crew::started`] names them.
    Forked,
    /// It has ended.
    Ended,
}

/// What the scheduler drives.
pub(crate) trait Crew {
    /// Runs a thread; at its scheduling points it asks [`Scheduler::preempts`] if that is wanted.
    fn run(&mut self, slot: Slot, scheduler: &mut dyn Scheduler) -> Result<Turn, Box<Trap>>;

    /// Appends the threads that the thread in `slot`, which has just forked, has started.
    fn started(&mut self, slot: Slot, slots: &mut Vec<Slot>) {
        let (_, _) = (slot, slots);
    }

    /// Whether as many clusters as fit are to be resident from the start, whatever the scheduler.
    fn crowded(&self) -> bool {
        false
    }

    /// Makes the threads of the next cluster resident, appending them to `slots`. `crowd` asks for
    /// one only if it fits beside the others at no one's cost. Whether there was one.
    fn launch(&mut self, crowd: bool, slots: &mut Vec<Slot>) -> Result<bool, Box<Trap>>;

    /// Completes something that is in flight. Whether there was anything.
    fn complete(&mut self) -> Result<bool, Box<Trap>>;

    /// What every thread waits for.
    fn deadlock(&mut self) -> Box<Trap>;
}

/// The resident threads, and which of them are worth trying.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    live: Vec<Slot>,
    /// By slot: its position in `live`, and the round in which it last got nowhere.
    entries: Vec<Entry>,
    /// Rounds begin whenever a thread gets somewhere.
    round: u64,
    /// Threads that got nowhere in this round.
    stuck: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    position: u32,
    stuck_in: u64,
}

impl Ready {
    fn add(&mut self, slot: Slot) {
        if self.entries.len() <= slot as usize {
            self.entries.resize(slot as usize + 1, Entry::default());
        }
        self.entries[slot as usize] =
            Entry { position: self.live.len() as u32, stuck_in: u64::MAX };
        self.live.push(slot);
    }

    /// Keeps the order of the others, by which round robin goes.
    fn remove(&mut self, slot: Slot) {
        let at = self.entries[slot as usize].position as usize;
        self.live.remove(at);
        for &later in &self.live[at..] {
            self.entries[later as usize].position -= 1;
        }
    }

    fn advanced(&mut self) {
        self.round += 1;
        self.stuck = 0;
    }

    fn got_nowhere(&mut self, slot: Slot) {
        self.entries[slot as usize].stuck_in = self.round;
        self.stuck += 1;
    }

    fn none_ready(&self) -> bool {
        self.stuck == self.live.len()
    }

    /// The resident threads, in the order in which they came.
    pub(crate) fn live(&self) -> &[Slot] {
        &self.live
    }

    /// Whether a resident thread is worth trying.
    pub(crate) fn is_ready(&self, slot: Slot) -> bool {
        self.entries[slot as usize].stuck_in != self.round
    }

    /// The first thread worth trying, looking from position `start` on and around.
    pub(crate) fn from(&self, start: usize) -> (usize, Slot) {
        let (before, behind) = self.live.split_at(start.min(self.live.len()));
        let at = behind
            .iter()
            .chain(before)
            .position(|&slot| self.is_ready(slot))
            .expect("asked only while some thread is ready");
        let at = (before.len() + at) % self.live.len();
        (at, self.live[at])
    }
}

/// Runs everything to its end.
///
/// # Errors
/// What stopped a thread, or the deadlock.
pub(crate) fn drive(crew: &mut impl Crew, scheduler: &mut dyn Scheduler) -> Result<(), Box<Trap>> {
    let mut ready = Ready::default();
    let mut launched = Vec::new();
    let crowd = scheduler.preemptive() || crew.crowded();
    // A thread that polls may wait for a cluster that is not there yet.
    let mut polled = false;
    loop {
        while ready.none_ready() || crowd || std::mem::take(&mut polled) {
            let only_if_it_fits = !ready.none_ready();
            if !only_if_it_fits && !ready.live.is_empty() && crew.complete()? {
                ready.advanced();
                continue;
            }
            if !crew.launch(only_if_it_fits, &mut launched)? {
                break;
            }
            for slot in launched.drain(..) {
                ready.add(slot);
                scheduler.started(slot);
            }
        }
        if ready.live.is_empty() {
            return Ok(());
        }
        if ready.none_ready() {
            return Err(crew.deadlock());
        }
        let slot = scheduler.next(&ready);
        match crew.run(slot, scheduler)? {
            Turn::Blocked { advanced } => {
                if advanced {
                    ready.advanced();
                }
                ready.got_nowhere(slot);
            }
            Turn::Yielded => {
                ready.advanced();
                scheduler.yielded(slot);
                polled = true;
            }
            Turn::Forked => {
                ready.advanced();
                crew.started(slot, &mut launched);
                for slot in launched.drain(..) {
                    ready.add(slot);
                    scheduler.started(slot);
                }
            }
            Turn::Ended => {
                ready.remove(slot);
                ready.advanced();
            }
        }
    }
}

#[cfg(test)]
mod tests;
