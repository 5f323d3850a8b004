//! Which points of an in-order grid may run at the same time.

use crate::code::Windows;
use crate::frame::Frame;
use crate::grid::Grid;
use crate::launch;
use crate::machine::{Call, Worker};
use crate::observer::NoObserver;
use crate::scheduler::Schedule;
use rustc_hash::FxHashMap;

/// Grids with more points than this stay on one worker: their plan would take too much memory.
const MAX_POINTS: u64 = 1 << 22;

/// Groups of points. Points of one group run in order, on one worker; groups do not touch what
/// another one writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Points, group by group, in ascending order within each.
    points: Vec<u64>,
    /// Where each group ends. Groups are in the order of their first points.
    ends: Vec<usize>,
}

impl Groups {
    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The points of a group.
    pub(crate) fn group(&self, index: usize) -> &[u64] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.points[start..self.ends[index]]
    }

    /// Joins points that share something. `leader` gives for each point an earlier one that it
    /// belongs with, or itself.
    fn new(mut leader: Vec<u64>) -> Groups {
        for point in 0..leader.len() {
            leader[point] = leader[leader[point] as usize];
        }
        let mut sizes: FxHashMap<u64, usize> = FxHashMap::default();
        for &first in &leader {
            *sizes.entry(first).or_default() += 1;
        }
        let mut points: Vec<u64> = (0..leader.len() as u64).collect();
        if sizes.len() < points.len() {
            points.sort_by_key(|&point| leader[point as usize]);
        }
        let mut ends = Vec::with_capacity(sizes.len());
        for (i, &point) in points.iter().enumerate() {
            let next = points.get(i + 1);
            if next.is_none_or(|&next| leader[next as usize] != leader[point as usize]) {
                ends.push(i + 1);
            }
        }
        Groups { points, ends }
    }
}

/// Follows leaders to the first point of a group.
fn find(leader: &mut [u64], mut point: u64) -> u64 {
    while leader[point as usize] != point {
        let above = leader[leader[point as usize] as usize];
        leader[point as usize] = above;
        point = above;
    }
    point
}

/// Evaluates the windows of every point. `None` where a block misses its array: then the error is to
/// be found in order.
pub(crate) fn groups(
    call: &Call<'_>,
    worker: &mut Worker<NoObserver>,
    windows: &Windows,
    grid: &Grid,
    schedule: &Schedule,
) -> Option<Groups> {
    if grid.points > MAX_POINTS {
        return None;
    }
    let mut leader: Vec<u64> = (0..grid.points).collect();
    let mut owners: FxHashMap<(u32, i64), u64> = FxHashMap::default();
    let call = Call { code: &windows.code, ..call.clone() };
    let stats = std::mem::take(&mut worker.stats);
    let mut point = 0;
    let look = |frame: &Frame| {
        for &(arg, register) in &windows.windows {
            let offset = frame.refs[register as usize].offset;
            let owner = *owners.entry((arg, offset)).or_insert(point);
            if owner != point {
                let (a, b) = (find(&mut leader, owner), find(&mut leader, point));
                leader[a.max(b) as usize] = a.min(b);
            }
        }
        point += 1;
    };
    let evaluated = launch::run_in_order(&call, worker, grid, schedule, 0..grid.points, look);
    worker.stats = stats;
    evaluated.ok()?;
    Some(Groups::new(leader))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_ordered_by_their_first_points() {
        let groups = Groups::new(vec![0, 1, 0, 1, 4, 2]);
        let all: Vec<&[u64]> = (0..groups.len()).map(|i| groups.group(i)).collect();
        assert_eq!(all, [&[0, 2, 5][..], &[1, 3], &[4]]);
        let apart = Groups::new(vec![0, 1, 2]);
        assert_eq!((apart.len(), apart.group(2)), (3, &[2][..]));
    }

    #[test]
    fn a_point_can_join_two_groups() {
        let mut leader = vec![0, 1, 2, 3];
        for (a, b) in [(1, 2), (0, 3), (3, 2)] {
            let (a, b) = (find(&mut leader, a), find(&mut leader, b));
            leader[a.max(b) as usize] = a.min(b);
        }
        assert_eq!(Groups::new(leader).len(), 1);
    }
}
