//! Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010).
//!
//! Every thread has a random priority and the highest one that can run, runs. At `depth - 1` points
//! drawn in advance the running thread falls below all others. A bug that needs `depth` ordering
//! constraints among `n` threads and `k` points is met with probability `1 / (n * k^(depth - 1))` at
//! least.

use super::{Ready, Scheduler, Slot};
use pallas_rs_core::SplitMix64;

/// The length of a run is not known in advance, so change points are drawn with a uniform logarithm,
/// up to two to this.
const HORIZON_BITS: u64 = 16;

/// Priorities and change points.
#[derive(Debug)]
pub(crate) struct Pct {
    rng: SplitMix64,
    /// By slot; higher runs first.
    priorities: Vec<i64>,
    /// Scheduling points at which the running thread falls, the next one last.
    changes: Vec<u64>,
    points: u64,
    lowest: i64,
    running: Slot,
}

impl Pct {
    /// The schedule of a seed for bugs of a depth.
    pub(crate) fn new(seed: u64, depth: u32) -> Self {
        let mut rng = SplitMix64::new(seed);
        let mut changes: Vec<u64> = (1..depth)
            .map(|_| {
                let octave = 1 << rng.below(HORIZON_BITS);
                octave + rng.below(octave)
            })
            .collect();
        changes.sort_unstable();
        changes.reverse();
        Pct { rng, priorities: Vec::new(), changes, points: 0, lowest: 0, running: 0 }
    }

    fn sink(&mut self, slot: Slot) {
        self.lowest -= 1;
        self.priorities[slot as usize] = self.lowest;
    }
}

impl Scheduler for Pct {
    fn next(&mut self, ready: &Ready) -> Slot {
        let slot = ready
            .live()
            .iter()
            .copied()
            .filter(|&slot| ready.is_ready(slot))
            .max_by_key(|&slot| self.priorities[slot as usize])
            .expect("asked only while some thread is ready");
        self.running = slot;
        slot
    }

    fn preempts(&mut self) -> bool {
        self.points += 1;
        let change = self.changes.last().is_some_and(|&at| at <= self.points);
        if change {
            self.changes.pop();
            self.sink(self.running);
        }
        change
    }

    fn preemptive(&self) -> bool {
        true
    }

    fn started(&mut self, slot: Slot) {
        let slot = slot as usize;
        if self.priorities.len() <= slot {
            self.priorities.resize(slot + 1, 0);
        }
        self.priorities[slot] = (self.rng.next_u64() >> 1) as i64;
    }

    fn yielded(&mut self, slot: Slot) {
        // A thread that polls would otherwise keep the one it waits for from running.
        self.sink(slot);
    }
}
