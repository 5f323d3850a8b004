//! Each thread in turn, until it blocks.

use super::{Ready, Scheduler, Slot};

/// The default. Threads go in the order of their blocks and of their number within a block.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    /// Position of the thread after the one that ran last.
    next: usize,
}

impl Scheduler for RoundRobin {
    fn next(&mut self, ready: &Ready) -> Slot {
        let (at, slot) = ready.from(self.next);
        self.next = at + 1;
        slot
    }
}
