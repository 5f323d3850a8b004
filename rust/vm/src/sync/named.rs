//! Named barriers: sixteen of a block, counted in CUDA threads.
//!
//! PTX `barrier.sync` and `barrier.arrive` (chapter "Parallel synchronization"): a barrier is
//! complete when as many threads as its instructions say have arrived, whether they wait or not, and
//! may be used again at once. There is no phase that a thread could miss: whoever waits has arrived.

use crate::observer::At;
use crate::trap::BarrierRule;
use smallvec::SmallVec;

/// Named barriers of a block.
pub(crate) const COUNT: usize = 16;
/// CUDA threads that arrive together at least.
pub(crate) const WARP: u32 = 32;

/// One named barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedBarrier {
    /// CUDA threads that have arrived since it was last complete.
    arrived: u32,
    /// CUDA threads it takes, as the first of them said.
    needed: u32,
    /// How often it has been complete.
    completions: u64,
    /// Those of the threads that have arrived which wait.
    waiting: SmallVec<[At; 4]>,
}

/// The named barriers of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedBarriers([NamedBarrier; COUNT]);

impl NamedBarriers {
    /// A barrier, if there is one of this number.
    pub(crate) fn get(&self, id: i64) -> Result<&NamedBarrier, BarrierRule> {
        let found = usize::try_from(id).ok().and_then(|id| self.0.get(id));
        found.ok_or(BarrierRule::NoSuchName { id, names: COUNT })
    }

    /// `threads` CUDA threads arrive together at one that takes `count`; `waits` if they will wait.
    /// Those who waited, if that completes it.
    pub(crate) fn arrive(
        &mut self,
        id: i64,
        count: i64,
        threads: u32,
        waits: Option<At>,
    ) -> Result<Option<SmallVec<[At; 4]>>, BarrierRule> {
        self.get(id)?;
        let barrier = &mut self.0[id as usize];
        let needed = u32::try_from(count).ok().filter(|n| *n > 0 && n % WARP == 0);
        let Some(needed) = needed else { return Err(BarrierRule::BadCount { count }) };
        if barrier.arrived > 0 && needed != barrier.needed {
            return Err(BarrierRule::CountsDiffer { needed: barrier.needed, count: needed });
        }
        if barrier.arrived + threads > needed {
            return Err(BarrierRule::TooManyThreads { arrived: barrier.arrived, threads, needed });
        }
        barrier.needed = needed;
        barrier.arrived += threads;
        barrier.waiting.extend(waits);
        if barrier.arrived < needed {
            return Ok(None);
        }
        barrier.arrived = 0;
        barrier.completions += 1;
        Ok(Some(std::mem::take(&mut barrier.waiting)))
    }
}

impl NamedBarrier {
    /// How often it has been complete.
    pub(crate) fn completions(&self) -> u64 {
        self.completions
    }

    /// CUDA threads that have arrived, and how many it takes.
    pub(crate) fn progress(&self) -> (u32, u32) {
        (self.arrived, self.needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_count_of_whole_warps() {
        let mut named = NamedBarriers::default();
        assert_eq!(named.arrive(3, 288, 128, None), Ok(None));
        assert_eq!(named.arrive(3, 288, 128, None), Ok(None));
        assert_eq!(named.get(3).unwrap().progress(), (256, 288));
        assert!(named.arrive(3, 288, 32, None).unwrap().is_some());
        assert_eq!(named.get(3).unwrap().completions(), 1);
        assert_eq!(named.arrive(3, 64, 32, None), Ok(None));
    }

    #[test]
    fn what_hardware_leaves_undefined_is_an_error() {
        let mut named = NamedBarriers::default();
        let none = BarrierRule::NoSuchName { id: 16, names: 16 };
        assert_eq!(named.arrive(16, 128, 128, None), Err(none));
        assert_eq!(named.arrive(0, 100, 128, None), Err(BarrierRule::BadCount { count: 100 }));
        named.arrive(0, 256, 128, None).unwrap();
        let differ = BarrierRule::CountsDiffer { needed: 256, count: 384 };
        assert_eq!(named.arrive(0, 384, 128, None), Err(differ));
        let many = BarrierRule::TooManyThreads { arrived: 128, threads: 160, needed: 256 };
        assert_eq!(named.arrive(0, 256, 160, None), Err(many));
    }
}
