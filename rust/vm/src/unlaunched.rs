//! The clusters of a grid that have not been launched, and who may claim one.

use crate::scheduler::Schedule;
use pallas_rs_core::SplitMix64;
use pallas_rs_ir::options::WorkStealing;
use std::collections::BTreeMap;
use std::ops::Range;

/// Of so many requests, one is refused where chance decides.
const REFUSED: u64 = 4;
/// Separates these draws from those of engines and schedulers.
const STREAM: u64 = 0x9e6c_63d0_876a_3f6b;

/// Clusters `next..end`, in the order in which they are launched or claimed.
#[derive(Debug)]
pub(crate) struct Unlaunched {
    next: u64,
    end: u64,
    policy: WorkStealing,
    /// What each cluster that runs has claimed.
    claims: BTreeMap<u64, u64>,
    rng: SplitMix64,
}

impl Default for Unlaunched {
    fn default() -> Self {
        let (claims, rng) = (BTreeMap::new(), SplitMix64::new(0));
        Unlaunched { next: 0, end: 0, policy: WorkStealing::Never, claims, rng }
    }
}

impl Unlaunched {
    /// The clusters of these points.
    pub(crate) fn new(points: Range<u64>, schedule: &Schedule) -> Unlaunched {
        let (rng, policy) = (SplitMix64::new(schedule.seed ^ STREAM), schedule.work_stealing);
        Unlaunched { next: points.start, end: points.end, policy, rng, ..Unlaunched::default() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.end - self.next
    }

    /// The next one is launched.
    pub(crate) fn launch(&mut self) -> Option<u64> {
        let cluster = self.take()?;
        self.claims.insert(cluster, 0);
        Some(cluster)
    }

    /// A cluster has ended.
    pub(crate) fn finish(&mut self, cluster: u64) {
        self.claims.remove(&cluster);
    }

    /// Cluster `by` asks for one.
    pub(crate) fn claim(&mut self, by: u64) -> Option<u64> {
        let own = self.claims.get(&by).copied().unwrap_or(0);
        let granted = match self.policy {
            WorkStealing::Never => false,
            WorkStealing::First => true,
            WorkStealing::RoundRobin => self.claims.values().all(|&others| own <= others),
            WorkStealing::Random => self.rng.below(REFUSED) != 0,
        };
        let claimed = if granted { self.take()? } else { return None };
        self.claims.insert(by, own + 1);
        Some(claimed)
    }

    /// Whether several clusters are to run from the start, so that there is somebody to share with.
    pub(crate) fn shares(&self) -> bool {
        matches!(self.policy, WorkStealing::RoundRobin | WorkStealing::Random)
    }

    fn take(&mut self) -> Option<u64> {
        let cluster = Some(self.next).filter(|next| *next < self.end)?;
        self.next += 1;
        Some(cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pallas_rs_ir::Options;

    fn unlaunched(policy: WorkStealing) -> Unlaunched {
        let options = Options { work_stealing: policy, ..Options::default() };
        let mut all = Unlaunched::new(0..6, &Schedule::first(&options));
        assert_eq!((all.launch(), all.launch()), (Some(0), Some(1)));
        all
    }

    #[test]
    fn every_policy_hands_out_each_cluster_once() {
        let mut first = unlaunched(WorkStealing::First);
        let claimed: Vec<_> = std::iter::from_fn(|| first.claim(0)).collect();
        assert_eq!(claimed, [2, 3, 4, 5]);
        assert_eq!(unlaunched(WorkStealing::Never).claim(0), None);
        let mut turns = unlaunched(WorkStealing::RoundRobin);
        assert_eq!((turns.claim(0), turns.claim(0), turns.claim(1)), (Some(2), None, Some(3)));
        assert_eq!(turns.claim(0), Some(4));
        turns.finish(1);
        assert_eq!(turns.launch(), Some(5));
        let mut random = unlaunched(WorkStealing::Random);
        let granted: Vec<_> = (0..40).filter_map(|i| random.claim(i % 2)).collect();
        assert_eq!(granted, [2, 3, 4, 5]);
        assert_eq!(random.len(), 0);
    }
}
