//! Running an in-order grid, on several workers where that cannot be seen.

use crate::Executable;
use crate::exec::run::PATIENCE;
use crate::grid::Grid;
use crate::independence::{Groups, groups};
use crate::launch::run_in_order;
use crate::machine::{Call, Worker};
use crate::observer::NoObserver;
use crate::scheduler::Schedule;
use crate::stats::Stats;
use crate::trap::{Trap, TrapKind};
use crate::workers;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Work that is worth waking a helper for, in units of about a nanosecond.
const WORTH_SHARING: i64 = 150_000;
/// Parts that a worker takes, if all are equally fast.
pub(crate) const PARTS: u64 = 8;
/// Points cheaper than this stay on one worker: looking at their windows costs as much.
const WORTH_LOOKING: i64 = 1_000;

/// Runs all points.
///
/// # Errors
/// What stopped the first point, in order, that cannot be run.
pub(crate) fn run(
    executable: &Executable,
    call: &Call<'_>,
    grid: &Grid,
    schedule: &Schedule,
    stats: &mut Stats,
) -> Result<(), Box<Trap>> {
    let mut worker = Worker::new(executable.take_pool(), NoObserver);
    let done = points(executable, call, grid, schedule, &mut worker, stats);
    stats.merge(&worker.stats);
    if done.is_ok() {
        executable.give_pool(worker.pool);
    }
    done.map_err(|(_, trap)| trap)
}

fn points(
    executable: &Executable,
    call: &Call<'_>,
    grid: &Grid,
    schedule: &Schedule,
    worker: &mut Worker<NoObserver>,
    stats: &mut Stats,
) -> Result<(), (u64, Box<Trap>)> {
    let first = grid.points.min(1);
    run_in_order(call, worker, grid, schedule, 0..first, |_| {})?;
    // What the first point cost says what the others will.
    let cost = worker.asked * PATIENCE + PATIENCE - worker.patience;
    let rest = grid.points - first;
    let wanted =
        call.code.program.options.num_workers.map_or_else(workers::available, |n| n as usize);
    let shared = wanted > 1
        && rest > 1
        && cost >= WORTH_LOOKING
        && cost.saturating_mul(rest as i64) >= WORTH_SHARING;
    let windows = call.code.windows.as_deref().filter(|_| shared);
    let parts = if shared && call.code.tiling.independent {
        let size = (rest / (wanted as u64 * PARTS)).max(1);
        Some(Parts::Ranges { start: first, end: grid.points, size })
    } else {
        windows.and_then(|windows| groups(call, worker, windows, grid, schedule)).map(Parts::Groups)
    };
    match parts {
        Some(parts) if parts.len() > 1 => {
            share(executable, call, grid, schedule, &parts, wanted.min(parts.len()), stats)
        }
        _ => run_in_order(call, worker, grid, schedule, first..grid.points, |_| {}),
    }
}

/// Points that do not touch what those of another part write.
enum Parts {
    /// As the windows of this call say.
    Groups(Groups),
    /// Any, as those of every call do not.
    Ranges { start: u64, end: u64, size: u64 },
}

impl Parts {
    fn len(&self) -> usize {
        match self {
            Parts::Groups(groups) => groups.len(),
            Parts::Ranges { start, end, size } => (end - start).div_ceil(*size) as usize,
        }
    }

    /// The points of a part, ascending: a list and a range, one of which is empty.
    fn points(&self, part: usize) -> (&[u64], Range<u64>) {
        match self {
            Parts::Groups(groups) => (groups.group(part), 0..0),
            Parts::Ranges { start, end, size } => {
                let from = start + part as u64 * size;
                (&[], from..(from + size).min(*end))
            }
        }
    }
}

/// Runs all points but the first, which has been run, part by part on several workers.
fn share(
    executable: &Executable,
    call: &Call<'_>,
    grid: &Grid,
    schedule: &Schedule,
    parts: &Parts,
    wanted: usize,
    stats: &mut Stats,
) -> Result<(), (u64, Box<Trap>)> {
    let next = AtomicUsize::new(0);
    // Points from this one on need not be run: an earlier one has failed.
    let end = AtomicU64::new(u64::MAX);
    let outcome = Mutex::new((Stats::default(), None::<(u64, Box<Trap>)>));
    let one_worker = |_| {
        let mut worker = Worker::new(executable.take_pool(), NoObserver);
        let mut healthy = true;
        while let Some(part) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < parts.len())
        {
            let (listed, range) = parts.points(part);
            let points = listed.iter().copied().chain(range);
            let points = points.filter(|&p| p > 0).take_while(|&p| p < end.load(Ordering::Relaxed));
            if let Err((point, trap)) =
                run_in_order(call, &mut worker, grid, schedule, points, |_| {})
            {
                healthy = false;
                let stop = if matches!(trap.kind, TrapKind::Interrupted) { 0 } else { point };
                end.fetch_min(stop, Ordering::Relaxed);
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                if outcome.1.as_ref().is_none_or(|(earlier, _)| stop < *earlier) {
                    outcome.1 = Some((stop, trap));
                }
            }
        }
        outcome.lock().unwrap_or_else(PoisonError::into_inner).0.merge(&worker.stats);
        if healthy {
            executable.give_pool(worker.pool);
        }
    };
    workers::run(wanted, &one_worker);
    let (counted, failure) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    stats.merge(&counted);
    failure.map_or(Ok(()), Err)
}
