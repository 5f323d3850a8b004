//! Running blocks that cannot observe each other, on several workers where that is worth it.

use crate::Executable;
use crate::exec::run::PATIENCE;
use crate::grid::Grid;
use crate::in_order::PARTS;
use crate::launch::run_together;
use crate::machine::{Call, Result, Worker};
use crate::observer::NoObserver;
use crate::scheduler::{RoundRobin, Schedule};
use crate::stats::Stats;
use crate::workers;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Work that is worth waking a helper for, in units of about a nanosecond.
const WORTH_SHARING: i64 = 60_000;

/// Runs all points.
///
/// # Errors
/// What stopped some point: not always the same one.
pub(crate) fn run(
    executable: &Executable,
    call: &Call<'_>,
    grid: &Grid,
    schedule: &Schedule,
    stats: &mut Stats,
) -> Result<()> {
    let mut worker = Worker::new(executable.take_pool(), NoObserver);
    let part = |worker: &mut Worker<NoObserver>, points: Range<u64>| {
        run_together(call, worker, grid, schedule, &mut RoundRobin::default(), points)
    };
    let spent = |worker: &Worker<NoObserver>| worker.asked * PATIENCE + PATIENCE - worker.patience;
    // What the first point of the first call costs says what all others will. Results do not depend
    // on who runs what, so a call may know of an earlier one.
    let mut cost = executable.cost_of_a_point.load(Ordering::Relaxed);
    let mut first = 0;
    if cost == 0 && grid.points > 0 {
        first = 1;
        part(&mut worker, 0..first)?;
        cost = spent(&worker);
        executable.cost_of_a_point.store(cost, Ordering::Relaxed);
    }
    let rest = grid.points - first;
    let wanted =
        call.code.program.options.num_workers.map_or_else(workers::available, |n| n as usize);
    let wanted = wanted.min(usize::try_from(rest).unwrap_or(usize::MAX));
    if wanted < 2 || cost.saturating_mul(rest as i64) < WORTH_SHARING {
        part(&mut worker, first..grid.points)?;
        stats.merge(&worker.stats);
        executable.give_pool(worker.pool);
        return Ok(());
    }
    stats.merge(&worker.stats);
    executable.give_pool(worker.pool);
    let size = (rest / (wanted as u64 * PARTS)).max(1);
    let next = AtomicU64::new(first);
    let outcome = Mutex::new((Stats::default(), Ok(())));
    let one_worker = |_| {
        let mut worker = Worker::new(executable.take_pool(), NoObserver);
        let mut done = Ok(());
        while done.is_ok() {
            let start = next.fetch_add(size, Ordering::Relaxed);
            if start >= grid.points {
                break;
            }
            done = part(&mut worker, start..grid.points.min(start + size));
        }
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.0.merge(&worker.stats);
        if done.is_ok() {
            executable.give_pool(worker.pool);
        } else {
            // The others need not go on.
            next.store(grid.points, Ordering::Relaxed);
            outcome.1 = done;
        }
    };
    workers::run(wanted, &one_worker);
    let (counted, done) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    stats.merge(&counted);
    done
}
