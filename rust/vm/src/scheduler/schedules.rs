//! Several schedules of one call.

use pallas_rs_ir::Options;
use pallas_rs_ir::options::{AsyncCompletion, Schedule as Strategy, WorkStealing};

use super::{Pct, Random, Replay, RoundRobin, Scheduler};
use crate::trap::Trap;

/// Separates what the engines draw from what the scheduler draws, so that a replayed schedule meets
/// the same completions.
const ENGINE_STREAM: u64 = 0x5851_f42d_4c95_7f2d;
/// Depth of the bugs that the schedules after the first look for.
const PCT_DEPTH: u32 = 3;

/// How one run is scheduled; enough to repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Seed of everything drawn.
    pub(crate) seed: u64,
    /// Choice of threads.
    pub(crate) strategy: Strategy,
    /// Completion of asynchronous operations.
    pub(crate) completion: AsyncCompletion,
    /// Which requests for clusters are granted.
    pub(crate) work_stealing: WorkStealing,
}

impl Schedule {
    /// The first schedule of a call: what its options say.
    pub(crate) fn first(options: &Options) -> Self {
        Schedule {
            seed: options.seed,
            strategy: options.schedule.clone(),
            completion: options.async_completion,
            work_stealing: options.work_stealing,
        }
    }

    /// The scheduler.
    ///
    /// # Errors
    /// The part of a recorded schedule that makes no sense.
    pub(crate) fn scheduler(&self) -> Result<Box<dyn Scheduler>, String> {
        Ok(match &self.strategy {
            Strategy::RoundRobin => Box::new(RoundRobin::default()),
            Strategy::Random => Box::new(Random::new(self.seed)),
            Strategy::Pct(depth) => Box::new(Pct::new(self.seed, *depth)),
            Strategy::Replay(turns) => Box::new(Replay::parse(turns)?),
        })
    }

    /// Whether threads may have to give way where they could go on.
    pub(crate) fn preempts(&self) -> bool {
        !matches!(self.strategy, Strategy::RoundRobin)
    }

    /// Seed of what the engines draw.
    pub(crate) fn engine_seed(&self) -> u64 {
        self.seed ^ ENGINE_STREAM
    }
}

/// The schedules of a call: the first as the options say, the others with the seeds that follow. A
/// choice that no seed influences is drawn in those.
pub(crate) fn schedules_of(options: &Options) -> impl Iterator<Item = Schedule> {
    let first = Schedule::first(options);
    (0..u64::from(options.seeds.max(1))).map(move |i| {
        let mut schedule = first.clone();
        schedule.seed = first.seed.wrapping_add(i);
        if i > 0 {
            match schedule.strategy {
                Strategy::RoundRobin if i % 2 == 1 => schedule.strategy = Strategy::Random,
                Strategy::RoundRobin => schedule.strategy = Strategy::Pct(PCT_DEPTH),
                Strategy::Random | Strategy::Pct(_) | Strategy::Replay(_) => {}
            }
            if schedule.completion == AsyncCompletion::Late {
                schedule.completion = AsyncCompletion::Random;
            }
        }
        schedule
    })
}

/// A call that can be run again and again.
pub(crate) trait Rerun {
    /// Runs it once, from the arrays as they were when the call came in.
    fn run(&mut self, schedule: &Schedule) -> Result<(), Box<Trap>>;

    /// The results of the run that has just ended, one dense array each.
    fn results(&self) -> Vec<Vec<u8>>;

    /// Makes these the results of the call.
    fn set_results(&mut self, results: &[Vec<u8>]);
}

/// What the schedules of a call had to say.
#[derive(Debug, Default)]
pub(crate) struct Explored {
    /// The runs that failed, and how.
    pub(crate) failures: Vec<(Schedule, Box<Trap>)>,
    /// The first run whose results differ from those of the first schedule, and where.
    pub(crate) difference: Option<(Schedule, Difference)>,
    /// Number of schedules run.
    pub(crate) runs: u32,
}

/// Where two runs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Result of the call.
    pub(crate) result: usize,
    /// The first byte that differs.
    pub(crate) byte: usize,
    /// How many bytes differ.
    pub(crate) bytes: usize,
}

/// Runs all schedules of a call; the results of the first one are the call's.
pub(crate) fn run_schedules(call: &mut impl Rerun, options: &Options) -> Explored {
    let mut explored = Explored::default();
    let alone = options.seeds <= 1;
    let mut expected = None;
    for schedule in schedules_of(options) {
        explored.runs += 1;
        if let Err(trap) = call.run(&schedule) {
            let interrupted = matches!(trap.kind, crate::trap::TrapKind::Interrupted);
            explored.failures.push((schedule, trap));
            if interrupted {
                break;
            }
            continue;
        }
        if alone {
            break;
        }
        let results = call.results();
        match &expected {
            None => expected = Some(results),
            Some(expected) if explored.difference.is_none() => {
                explored.difference = difference(expected, &results).map(|d| (schedule, d));
            }
            Some(_) => {}
        }
    }
    if let Some(expected) = expected {
        call.set_results(&expected);
    }
    explored
}

fn difference(expected: &[Vec<u8>], results: &[Vec<u8>]) -> Option<Difference> {
    expected.iter().zip(results).enumerate().find_map(|(result, (a, b))| {
        let byte = a.iter().zip(b).position(|(x, y)| x != y)?;
        let bytes = a.iter().zip(b).filter(|(x, y)| x != y).count();
        Some(Difference { result, byte, bytes })
    })
}
