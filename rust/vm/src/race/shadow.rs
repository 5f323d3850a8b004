//! What was done to memory: a table of the distinct windows that were accessed.
//!
//! The usual shadow keeps the last access per byte, or splits boxes where accesses meet. Tile code
//! touches the same few windows again and again, so here a window is an entry that is never split:
//! when it is first seen it is compared, exactly, with the windows of its allocation, and both
//! remember which overlap. From then on an access looks at its own entry and at those neighbours.
//! State is bounded by the number of distinct windows, cost by the number of neighbours. An old entry
//! of a neighbour does no harm after a newer access has covered it: order is transitive, so whoever is
//! ordered after the newer one is ordered after the old one.

use super::clock::{Component, Tick};
use super::window::ByteWindow;
use crate::observer::{AccessKind, At, BaseId, Proxy};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// One access, as later ones need to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past {
    /// Its cluster; components belong to it.
    pub(crate) cluster: u64,
    /// What has to be known of it ...
    pub(crate) component: Component,
    /// ... and how far.
    pub(crate) tick: Tick,
    /// The own tick of the thread that made or issued it, at that moment.
    pub(crate) issued: Tick,
    /// The allocation it named: members of a union share a shadow.
    pub(crate) base: BaseId,
    pub(crate) kind: AccessKind,
    pub(crate) proxy: Proxy,
    pub(crate) at: At,
}

/// A window and what happened to it.
#[derive(Debug)]
struct Entry {
    window: ByteWindow,
    /// Newest access per component, kind and proxy.
    past: SmallVec<[Past; 4]>,
    /// Other entries that overlap it.
    neighbours: SmallVec<[u32; 4]>,
}

/// Hulls wider than this many buckets are looked up linearly.
const WIDE: i64 = 64;
/// Bytes per bucket.
const BUCKET: i64 = 4096;

/// The shadow of one allocation.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    entries: Vec<Entry>,
    by_window: FxHashMap<ByteWindow, u32>,
    buckets: BTreeMap<i64, Vec<u32>>,
    wide: Vec<u32>,
    /// The entry of the latest access.
    latest: u32,
}

impl Shadow {
    /// Visits every access recorded so far that shares a byte with `window`, then records `access`.
    /// `live`: whether a cluster is still running.
    pub(crate) fn access(
        &mut self,
        window: ByteWindow,
        access: Past,
        live: impl Fn(u64) -> bool,
        mut visit: impl FnMut(&Past),
    ) {
        let at = self.entry(window);
        let entry = &self.entries[at as usize];
        entry.past.iter().for_each(&mut visit);
        for &neighbour in &entry.neighbours {
            self.entries[neighbour as usize].past.iter().for_each(&mut visit);
        }
        let past = &mut self.entries[at as usize].past;
        let same = past.iter_mut().find(|p| {
            p.cluster == access.cluster
                && p.component == access.component
                && p.kind == access.kind
                && p.proxy == access.proxy
        });
        match same {
            // The newest access of a component dominates its older ones.
            Some(old) => *old = access,
            None => {
                thin(past, access.kind, live);
                past.push(access);
            }
        }
    }

    /// Every access that is remembered.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = &Past> {
        self.entries.iter().flat_map(|entry| &entry.past)
    }

    fn entry(&mut self, window: ByteWindow) -> u32 {
        if self.entries.get(self.latest as usize).is_some_and(|e| e.window == window) {
            return self.latest;
        }
        if let Some(&at) = self.by_window.get(&window) {
            self.latest = at;
            return at;
        }
        let at = self.entries.len() as u32;
        let neighbours = self.overlapping(&window);
        for &n in &neighbours {
            self.entries[n as usize].neighbours.push(at);
        }
        let (from, to) = window.hull();
        let (first, last) = (from.div_euclid(BUCKET), (to - 1).div_euclid(BUCKET));
        if last - first >= WIDE {
            self.wide.push(at);
        } else {
            for bucket in first..=last {
                self.buckets.entry(bucket).or_default().push(at);
            }
        }
        self.by_window.insert(window.clone(), at);
        self.entries.push(Entry { window, past: SmallVec::new(), neighbours });
        self.latest = at;
        at
    }

    fn overlapping(&self, window: &ByteWindow) -> SmallVec<[u32; 4]> {
        let (from, to) = window.hull();
        let buckets = self.buckets.range(from.div_euclid(BUCKET)..=(to - 1).div_euclid(BUCKET));
        let mut found: SmallVec<[u32; 4]> =
            buckets.flat_map(|(_, entries)| entries).chain(&self.wide).copied().collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|&mut i| {
            let other = &self.entries[i as usize].window;
            let (other_from, other_to) = other.hull();
            from < other_to && other_from < to && window.overlaps(other)
        });
        found
    }
}

/// Of the clusters that have ended, two accesses of a kind say all: whoever comes next is of another
/// cluster than at least one of them. Without this, what every cluster reads would cost ever more.
fn thin(past: &mut SmallVec<[Past; 4]>, kind: AccessKind, live: impl Fn(u64) -> bool) {
    let mut kept: SmallVec<[u64; 2]> = SmallVec::new();
    past.retain(|p| {
        if p.kind != kind || live(p.cluster) {
            return true;
        }
        let keep = kept.len() < 2 && !kept.contains(&p.cluster);
        if keep {
            kept.push(p.cluster);
        }
        keep
    });
}
