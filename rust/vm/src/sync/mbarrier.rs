//! mbarriers: phases, arrivals, and who has seen which phase.
//!
//! Hardware tells phases apart by one bit, so it only works for a kernel in which every thread that
//! waits observes every phase, and nobody arrives in a phase before somebody has observed the one
//! before. Here phases are counted, and leaving those rules is an error instead of luck.

use crate::trap::BarrierRule;
use smallvec::SmallVec;

/// One barrier of one block.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    /// Number of complete phases; also the index of the phase in progress.
    phase: u64,
    arrived: u32,
    needed: u32,
    /// Copies issued and not landed, each of which is one arrival of the phase in progress.
    in_flight: u32,
    /// Number of phases that some thread has observed.
    observed: u64,
    /// Collective copies that this block has ever issued with this barrier.
    collectives: u64,
}

/// One barrier of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BarrierKey {
    /// Row-major number of its block in the cluster.
    pub(crate) block: u32,
    /// Its allocation within the block.
    pub(crate) alloc: u32,
    /// Row-major index within the allocation.
    pub(crate) index: u32,
}

/// The barriers of one allocation, in one block.
#[derive(Clone, Debug)]
pub(crate) struct Barriers {
    states: Vec<Barrier>,
    /// Phases observed, by barrier and thread, and by warp where warps run by themselves. 0 also stands
    /// for one that never waited.
    seen: Vec<u64>,
    threads: usize,
    /// Entries of `seen` for a thread.
    width: usize,
    /// Whether its block has peers in a cluster.
    peers: bool,
}

/// Who waits: a thread of the block, or one warp of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) thread: u32,
    pub(crate) warp: Option<u8>,
}

/// Warps of a warpgroup.
pub(crate) const WARPS: usize = 4;

impl Barriers {
    /// `count` barriers that need `needed` arrivals a phase, for a block of `threads` threads, whose
    /// warps may wait by themselves if `warps`; of a cluster of several blocks if `peers`.
    pub(crate) fn new(count: usize, needed: u32, threads: usize, warps: bool, peers: bool) -> Self {
        let width = if warps { WARPS } else { 1 };
        let mut barriers = Barriers { states: Vec::new(), seen: Vec::new(), threads, width, peers };
        barriers.reset(count, needed);
        barriers
    }

    /// Makes them new ones of the same block, in the same memory.
    pub(crate) fn reset(&mut self, count: usize, needed: u32) {
        let barrier =
            Barrier { phase: 0, arrived: 0, needed, in_flight: 0, observed: 0, collectives: 0 };
        self.states.clear();
        self.states.resize(count, barrier);
        self.seen.clear();
        self.seen.resize(count * self.threads * self.width, 0);
    }

    /// The barrier at a row-major index.
    pub(crate) fn get(&self, index: usize) -> &Barrier {
        &self.states[index]
    }

    /// This block issued a collective copy with this barrier. Which one of its kind it is: the
    /// blocks of a cluster issue the same ones in the same order.
    pub(crate) fn count_collective(&mut self, index: usize) -> u64 {
        let barrier = &mut self.states[index];
        barrier.collectives += 1;
        barrier.collectives - 1
    }

    /// Arrivals that complete a phase.
    pub(crate) fn needed(&self, index: usize) -> u32 {
        self.states[index].needed
    }

    /// Number of phases that a thread, and each of its warps, has observed.
    pub(crate) fn seen(&self, index: usize, waiter: Waiter) -> u64 {
        self.seen[self.entries(index, waiter)].iter().copied().min().unwrap_or(0)
    }

    /// Entries of `seen`: those of a warp, or of all warps of a thread.
    #[inline]
    fn entries(&self, index: usize, waiter: Waiter) -> std::ops::Range<usize> {
        let first = (index * self.threads + waiter.thread as usize) * self.width;
        match waiter.warp {
            Some(warp) => first + usize::from(warp)..first + usize::from(warp) + 1,
            None => first..first + self.width,
        }
    }

    /// One arrival. Whether it completed the phase.
    #[inline]
    pub(crate) fn arrive(&mut self, index: usize) -> Result<bool, BarrierRule> {
        let barrier = &mut self.states[index];
        if barrier.arrived + barrier.in_flight >= barrier.needed {
            return Err(barrier.too_many());
        }
        self.count_arrival(index)
    }

    /// A copy was issued whose completion arrives here.
    #[inline]
    pub(crate) fn expect(&mut self, index: usize) -> Result<(), BarrierRule> {
        let barrier = &mut self.states[index];
        if barrier.arrived + barrier.in_flight >= barrier.needed {
            return Err(barrier.too_many());
        }
        barrier.in_flight += 1;
        Ok(())
    }

    /// A copy announced by [`Barriers::expect`] has landed. Whether it completed the phase.
    #[inline]
    pub(crate) fn land(&mut self, index: usize) -> Result<bool, BarrierRule> {
        self.states[index].in_flight -= 1;
        self.count_arrival(index)
    }

    #[inline]
    fn count_arrival(&mut self, index: usize) -> Result<bool, BarrierRule> {
        let barrier = &mut self.states[index];
        barrier.arrived += 1;
        if barrier.arrived < barrier.needed {
            return Ok(false);
        }
        // All blocks of a cluster have the same barriers, and often only the leader waits for its own.
        // A thread that comes to wait for such a one after all is late, which is an error then.
        let idle = self.peers && barrier.observed == 0;
        if barrier.observed < barrier.phase && !idle {
            return Err(BarrierRule::Unobserved { phase: barrier.phase });
        }
        barrier.arrived = 0;
        barrier.phase += 1;
        let completed = barrier.phase;
        let row = self.threads * self.width;
        let seen = self.seen[index * row..][..row].chunks(self.width);
        // A thread one of whose warps goes on waiting takes part.
        let latest = |warps: &[u64]| warps.iter().copied().max().unwrap_or(0);
        match seen.map(latest).enumerate().find(|&(_, n)| n != 0 && n + 2 < completed) {
            Some((thread, observed)) => {
                Err(BarrierRule::Missed { thread, observed, phase: completed - 1 })
            }
            None => Ok(true),
        }
    }

    /// Whether the next phase that `waiter` has not observed is complete; if so it counts as
    /// observed.
    #[inline]
    pub(crate) fn observe(&mut self, index: usize, waiter: Waiter) -> Result<bool, BarrierRule> {
        let entries = self.entries(index, waiter);
        let barrier = &mut self.states[index];
        let warps = &mut self.seen[entries];
        let seen = warps[0];
        if warps[1..].iter().any(|&other| other != seen) {
            let (least, most) = (warps.iter().min(), warps.iter().max());
            let [least, most] = [least, most].map(|n| n.copied().unwrap_or(0));
            return Err(BarrierRule::WarpsApart { least, most });
        }
        if seen == barrier.phase {
            return Ok(false);
        }
        if seen + 1 != barrier.phase {
            let completed = barrier.phase;
            return Err(BarrierRule::Late { awaited: seen, completed, first: seen == 0 });
        }
        warps.fill(seen + 1);
        barrier.observed = seen + 1;
        Ok(true)
    }

    /// The first barrier that ends in the middle of a phase. One that no thread of its block has ever
    /// waited for, and that collective copies arrive on, belongs to a block whose leader waits for it.
    pub(crate) fn check_end(&self) -> Option<(usize, BarrierRule)> {
        self.states.iter().enumerate().find_map(|(index, b)| {
            let awaited = b.observed > 0 || b.collectives == 0;
            (b.arrived > 0 && awaited).then_some((
                index,
                BarrierRule::PendingAtEnd { arrived: b.arrived, needed: b.needed },
            ))
        })
    }
}

impl Barrier {
    /// Arrivals of the phase in progress.
    pub(crate) fn arrived(&self) -> u32 {
        self.arrived
    }

    /// Arrivals a phase needs.
    pub(crate) fn needed(&self) -> u32 {
        self.needed
    }

    /// Number of complete phases.
    pub(crate) fn phase(&self) -> u64 {
        self.phase
    }

    /// Copies that have been issued and have not landed.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Collective copies that the block has issued with this barrier.
    pub(crate) fn collectives(&self) -> u64 {
        self.collectives
    }

    fn too_many(&self) -> BarrierRule {
        BarrierRule::TooManyArrivals {
            arrived: self.arrived,
            in_flight: self.in_flight,
            needed: self.needed,
        }
    }
}

/// Arrivals that complete a phase of a cluster barrier: each block's own, and those of the blocks
/// that differ from it along one collective axis. `axes` lists the cluster dimensions of each axis.
pub(crate) fn cluster_arrivals(arrivals: u32, axes: &[Vec<usize>], cluster: &[usize]) -> u32 {
    let peers: usize = axes.iter().map(|axis| axis_size(axis, cluster) - 1).sum();
    arrivals * (1 + peers as u32)
}

/// Blocks along a composite axis.
pub(crate) fn axis_size(axis: &[usize], cluster: &[usize]) -> usize {
    axis.iter().map(|&d| cluster[d]).product()
}

/// The blocks of a cluster, by row-major number, that an arrival by block `from` reaches: those that
/// differ from it in at most one collective axis. With `leader_tracked` only the first block along
/// the axis.
pub(crate) fn arrival_targets(
    from: usize,
    axes: &[Vec<usize>],
    cluster: &[usize],
    leader_tracked: bool,
) -> SmallVec<[u32; 8]> {
    let here = coordinates(from, cluster);
    let collective = |d: usize| axes.iter().any(|axis| axis.contains(&d));
    let reaches = |to: usize| {
        let there = coordinates(to, cluster);
        let differs = |axis: &Vec<usize>| axis.iter().any(|&d| here[d] != there[d]);
        (0..cluster.len()).all(|d| collective(d) || here[d] == there[d])
            && if leader_tracked {
                axes.iter().flatten().all(|&d| there[d] == 0)
            } else {
                axes.iter().filter(|axis| differs(axis)).count() <= 1
            }
    };
    let blocks: usize = cluster.iter().product();
    (0..blocks).filter(|&to| reaches(to)).map(|to| to as u32).collect()
}

/// The blocks that differ from block `from` in the dimensions `axes` alone, in order.
pub(crate) fn peers(from: usize, axes: &[usize], cluster: &[usize]) -> SmallVec<[u32; 8]> {
    let here = coordinates(from, cluster);
    let blocks: usize = cluster.iter().product();
    let is_peer = |to: &usize| {
        let there = coordinates(*to, cluster);
        (0..cluster.len()).all(|d| axes.contains(&d) || here[d] == there[d])
    };
    (0..blocks).filter(is_peer).map(|to| to as u32).collect()
}

/// Row-major coordinates of a block in its cluster.
pub(crate) fn coordinates(mut block: usize, cluster: &[usize]) -> SmallVec<[usize; 4]> {
    let mut at = SmallVec::from_elem(0, cluster.len());
    for (x, &n) in at.iter_mut().zip(cluster).rev() {
        *x = block % n;
        block /= n;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(thread: u32) -> Waiter {
        Waiter { thread, warp: None }
    }

    #[test]
    fn a_phase_completes_with_its_last_arrival_and_is_seen_once_per_thread() {
        let mut b = Barriers::new(2, 2, 2, false, false);
        assert_eq!(b.observe(1, thread(0)), Ok(false));
        assert_eq!(b.arrive(1), Ok(false));
        assert_eq!(b.arrive(1), Ok(true));
        assert_eq!(b.observe(1, thread(0)), Ok(true));
        assert_eq!(b.observe(1, thread(0)), Ok(false));
        assert_eq!(b.observe(1, thread(1)), Ok(true));
        assert_eq!(b.observe(0, thread(1)), Ok(false));
    }

    #[test]
    fn a_phase_nobody_observed_may_not_be_followed_by_another() {
        let mut b = Barriers::new(1, 1, 1, false, false);
        assert_eq!(b.arrive(0), Ok(true));
        assert_eq!(b.arrive(0), Err(BarrierRule::Unobserved { phase: 1 }));
    }

    #[test]
    fn a_block_with_peers_may_leave_a_barrier_to_them() {
        let mut b = Barriers::new(1, 1, 1, false, true);
        for _ in 0..3 {
            assert_eq!(b.arrive(0), Ok(true));
        }
        let late = BarrierRule::Late { awaited: 0, completed: 3, first: true };
        assert_eq!(b.observe(0, thread(0)), Err(late));

        let mut b = Barriers::new(1, 1, 1, false, true);
        assert_eq!((b.arrive(0), b.observe(0, thread(0))), (Ok(true), Ok(true)));
        assert_eq!(b.arrive(0), Ok(true));
        assert_eq!(b.arrive(0), Err(BarrierRule::Unobserved { phase: 2 }));
    }

    #[test]
    fn a_thread_that_skips_phases_is_noticed_when_it_waits_and_when_it_does_not() {
        let mut b = Barriers::new(1, 1, 2, false, false);
        for _ in 0..2 {
            assert_eq!(b.arrive(0), Ok(true));
            assert_eq!(b.observe(0, thread(0)), Ok(true));
        }
        assert_eq!(
            b.clone().observe(0, thread(1)),
            Err(BarrierRule::Late { awaited: 0, completed: 2, first: true })
        );

        let mut b = Barriers::new(1, 1, 2, false, false);
        assert_eq!(b.arrive(0), Ok(true));
        assert_eq!((b.observe(0, thread(0)), b.observe(0, thread(1))), (Ok(true), Ok(true)));
        for _ in 1..3 {
            assert_eq!(b.arrive(0), Ok(true));
            assert_eq!(b.observe(0, thread(0)), Ok(true));
        }
        assert_eq!(
            b.clone().observe(0, thread(1)),
            Err(BarrierRule::Late { awaited: 1, completed: 3, first: false })
        );
        assert_eq!(b.arrive(0), Err(BarrierRule::Missed { thread: 1, observed: 1, phase: 3 }));
    }

    #[test]
    fn warps_of_a_thread_wait_by_themselves_or_all_together() {
        let mut b = Barriers::new(1, 1, 2, true, false);
        let warp = |warp| Waiter { thread: 1, warp: Some(warp) };
        assert_eq!(b.arrive(0), Ok(true));
        assert_eq!(b.observe(0, warp(2)), Ok(true));
        assert_eq!(b.observe(0, warp(2)), Ok(false));
        assert_eq!(b.observe(0, thread(1)), Err(BarrierRule::WarpsApart { least: 0, most: 1 }));
        for w in [0, 1, 3] {
            assert_eq!(b.observe(0, warp(w)), Ok(true));
        }
        assert_eq!(b.arrive(0), Ok(true));
        assert_eq!(b.observe(0, thread(1)), Ok(true));
        assert_eq!(b.seen(0, warp(3)), 2);
    }

    #[test]
    fn one_warp_that_goes_on_waiting_is_enough() {
        let mut b = Barriers::new(1, 1, 1, true, false);
        let warp = Waiter { thread: 0, warp: Some(1) };
        assert_eq!(b.arrive(0), Ok(true));
        assert_eq!(b.observe(0, thread(0)), Ok(true));
        for _ in 0..4 {
            assert_eq!(b.arrive(0), Ok(true));
            assert_eq!(b.observe(0, warp), Ok(true));
        }
    }

    #[test]
    fn copies_in_flight_take_their_place_among_the_arrivals() {
        let mut b = Barriers::new(1, 2, 1, false, false);
        assert_eq!(b.expect(0), Ok(()));
        assert_eq!(b.arrive(0), Ok(false));
        let full = BarrierRule::TooManyArrivals { arrived: 1, in_flight: 1, needed: 2 };
        assert_eq!(b.clone().arrive(0), Err(full));
        assert_eq!(b.expect(0), Err(full));
        assert_eq!(b.observe(0, thread(0)), Ok(false));
        assert_eq!(b.land(0), Ok(true));
        assert_eq!(b.observe(0, thread(0)), Ok(true));
    }

    #[test]
    fn the_end_of_a_scope_wants_whole_phases() {
        let mut b = Barriers::new(2, 2, 1, false, false);
        assert_eq!(b.check_end(), None);
        b.arrive(1).unwrap();
        assert_eq!(b.check_end(), Some((1, BarrierRule::PendingAtEnd { arrived: 1, needed: 2 })));
        b.arrive(1).unwrap();
        assert_eq!(b.check_end(), None);
    }

    #[test]
    fn a_cluster_arrival_reaches_the_cross_of_its_block() {
        let cluster = [2, 3];
        let axes = [vec![0], vec![1]];
        assert_eq!(cluster_arrivals(1, &axes, &cluster), 4);
        assert_eq!(arrival_targets(0, &axes, &cluster, false)[..], [0, 1, 2, 3]);
        assert_eq!(arrival_targets(4, &axes, &cluster, false)[..], [1, 3, 4, 5]);
        let composite = [vec![0, 1]];
        assert_eq!(cluster_arrivals(2, &composite, &cluster), 12);
        assert_eq!(arrival_targets(4, &composite, &cluster, false)[..], [0, 1, 2, 3, 4, 5]);
        assert_eq!(arrival_targets(4, &[vec![1]], &cluster, false)[..], [3, 4, 5]);
        assert_eq!(arrival_targets(5, &[vec![1]], &cluster, true)[..], [3]);
        assert_eq!(peers(4, &[0], &cluster)[..], [1, 4]);
        assert_eq!(peers(4, &[0, 1], &cluster).len(), 6);
    }
}
