//! Vector clocks over components.
//!
//! A *component* is anything whose progress is totally ordered: a thread, a barrier (its completed
//! phases), a queue of asynchronous operations (its groups). An access carries one component and one
//! value of it, whoever made it; a thread that knows at least that value knows that the access is
//! over. There are no pseudo-threads and nothing is shared between operations, so no order is seen
//! that is not there.

use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A component, by number within its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Component(pub(crate) u32);

/// How far something has come in a component.
pub(crate) type Tick = u64;

/// Knowledge about components. Those past the end are at 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VClock(SmallVec<[Tick; 16]>);

impl VClock {
    /// What is known of a component.
    #[inline]
    pub(crate) fn get(&self, component: Component) -> Tick {
        self.0.get(component.0 as usize).copied().unwrap_or(0)
    }

    /// Learns that a component has come to `tick`, at least.
    #[inline]
    pub(crate) fn learn(&mut self, component: Component, tick: Tick) {
        let at = component.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = self.0[at].max(tick);
    }

    /// Learns everything another clock knows.
    #[inline]
    pub(crate) fn join(&mut self, other: &VClock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Forgets everything; keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a thread knows, and what it has made visible to the async proxy.
///
/// Asynchronous units read SMEM through another proxy: a generic access is ordered before theirs only
/// if a `commit_smem` lies between (PTX: causality order between proxies needs a proxy fence). The
/// completion of an asynchronous operation carries such a fence itself, so only generic components
/// matter in `fenced`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Everything it knows.
    pub(crate) known: VClock,
    /// The part of it that is visible to the async proxy.
    pub(crate) fenced: VClock,
    /// The part of it that orders tensor memory: what came by way of barriers that order the tensor
    /// core. Kept only where a kernel has tensor memory.
    pub(crate) tensor: VClock,
    /// What it knows of other clusters, by way of semaphores. Components belong to their cluster.
    pub(crate) others: BTreeMap<u64, VClock>,
}

impl View {
    /// Learns everything another view knows.
    #[inline]
    pub(crate) fn join(&mut self, other: &View) {
        self.known.join(&other.known);
        self.fenced.join(&other.fenced);
        self.tensor.join(&other.tensor);
        self.join_others(other);
    }

    fn join_others(&mut self, other: &View) {
        for (&cluster, clock) in &other.others {
            self.others.entry(cluster).or_default().join(clock);
        }
    }

    /// What the threads of cluster `theirs` learn that know this, a view of cluster `mine`.
    pub(crate) fn seen_from(&self, mine: u64, theirs: u64) -> View {
        if mine == theirs {
            return View { tensor: VClock::default(), ..self.clone() };
        }
        let mut view = View { others: self.others.clone(), ..View::default() };
        view.others.entry(mine).or_default().join(&self.known);
        view.known = view.others.remove(&theirs).unwrap_or_default();
        view
    }

    /// A proxy fence: all that is known becomes visible to the async proxy.
    pub(crate) fn fence(&mut self) {
        self.fenced.join(&self.known);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.fenced.clear();
        self.tensor.clear();
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_is_the_least_upper_bound() {
        let (mut a, mut b) = (VClock::default(), VClock::default());
        a.learn(Component(0), 3);
        b.learn(Component(2), 5);
        b.learn(Component(0), 1);
        a.join(&b);
        assert_eq!((a.get(Component(0)), a.get(Component(1)), a.get(Component(2))), (3, 0, 5));
    }

    #[test]
    fn a_fence_covers_what_is_known_and_nothing_later() {
        let mut view = View::default();
        view.known.learn(Component(0), 1);
        view.fence();
        view.known.learn(Component(0), 2);
        assert_eq!(view.fenced.get(Component(0)), 1);
    }
}
