//! A thread drawn anew at every scheduling point.

use super::{Ready, Scheduler, Slot};
use pallas_rs_core::SplitMix64;

/// One preemption in so many scheduling points, on average: threads also need room to run ahead of
/// each other.
const RARITY: u64 = 4;

/// Uniform choice.
#[derive(Debug)]
pub(crate) struct Random {
    rng: SplitMix64,
}

impl Random {
    /// The schedule of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Random { rng: SplitMix64::new(seed) }
    }
}

impl Scheduler for Random {
    fn next(&mut self, ready: &Ready) -> Slot {
        ready.from(self.rng.below(ready.live().len() as u64) as usize).1
    }

    fn preempts(&mut self) -> bool {
        self.rng.below(RARITY) == 0
    }

    fn preemptive(&self) -> bool {
        true
    }
}
