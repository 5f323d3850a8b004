//! One call: from operands and results to a report.

use crate::arrays::Arrays;
use crate::code::Code;
use crate::defined::{Definedness, Garbage};
use crate::grid::Grid;
use crate::host::Host;
use crate::in_order;
use crate::launch;
use crate::log::Log;
use crate::machine::{Call, Worker};
use crate::memory::Pool;
use crate::non_finite::Search;
use crate::observer::{NoObserver, Observer, SemaphoreId};
use crate::race::{Race, RaceDetector};
use crate::report::{self, Differs, Finding, Report};
use crate::scheduler::{Rerun, Schedule, run_schedules};
use crate::side_by_side;
use crate::stats::Stats;
use crate::trace::Tracer;
use crate::trap::{Trap, TrapKind};
use crate::{Executable, GlobalBuffer};
use pallas_rs_ir::options::{OutOfBounds, Severity};
use std::sync::PoisonError;

/// Rounds of loops without a known end that a thread may make, unless the options say otherwise.
const MAX_ROUNDS: u64 = 100_000_000;
/// A pool that holds more bytes than this is not kept for the next call.
const IDLE_BYTES: usize = 64 << 20;

/// Runs a call.
pub(crate) fn run(
    executable: &Executable,
    operands: &[GlobalBuffer<'_>],
    results: &[GlobalBuffer<'_>],
    host: &dyn Host,
) -> Report {
    let code = &executable.code;
    let program = &*code.program;
    let options = &program.options;
    let prepared = Grid::new(program, operands).and_then(|grid| {
        let arrays = Arrays::new(code, &grid, operands, results)?;
        Ok(Runs {
            executable,
            code,
            arrays,
            grid,
            host,
            stats: Stats::default(),
            races: Vec::new(),
            traced: None,
            garbage: Vec::new(),
            searches: Vec::new(),
        })
    });
    let mut runs = match prepared {
        Ok(runs) => runs,
        Err(trap) => {
            let finding = Finding::from_trap(program, &Schedule::first(options), &trap);
            return Report::new(program, 0, vec![finding], Stats::default());
        }
    };
    if !executable.beyond_limits.is_empty() {
        let schedule = Schedule::first(options);
        let findings = executable.beyond_limits.iter();
        let findings = findings.map(|trap| Finding::from_trap(program, &schedule, trap)).collect();
        return Report::new(program, 0, findings, Stats::default());
    }
    let explored = run_schedules(&mut runs, options);
    let mut findings: Vec<Finding> = (explored.failures.iter())
        .map(|(schedule, trap)| Finding::from_trap(program, schedule, trap))
        .collect();
    let first = Schedule::first(options);
    findings.extend(options.left_out.iter().map(|what| Finding::from_gap(program, &first, what)));
    let bounds = &runs.grid.bounds;
    findings.extend(
        (runs.races.iter())
            .map(|(schedule, race)| Finding::from_race(program, bounds, schedule, race)),
    );
    for (schedule, garbage) in &runs.garbage {
        findings.extend(Finding::from_garbage(program, bounds, schedule, garbage));
    }
    for (schedule, search) in runs.searches.iter().filter(|_| runs.arrays.has_non_finite()) {
        findings.push(Finding::from_search(program, bounds, schedule, search));
    }
    if let Some((schedule, difference)) = &explored.difference {
        findings.push(Finding::from_difference(program, schedule, &differs(program, *difference)));
    }
    if let (Some(path), Some(traced)) = (&options.trace, &runs.traced) {
        let json = traced.tracer.to_json(program, bounds, &findings);
        if let Err(error) = host.save(path, json.as_bytes()) {
            let kind = TrapKind::Host { call: "trace".to_owned(), message: error.0 };
            let schedule = Schedule::first(options);
            findings.push(Finding::from_trap(program, &schedule, &kind.into()));
        }
    }
    Report::new(program, explored.runs, findings, runs.stats)
}

fn differs(program: &pallas_rs_ir::Program, d: crate::scheduler::Difference) -> Differs {
    use pallas_rs_ir::Binding;
    let arg = program.args.iter().find(|arg| match arg.binding {
        Binding::Result(r) | Binding::Aliased { result: r, .. } => r == d.result,
        Binding::Operand(_) | Binding::Zeroed => false,
    });
    let bits = arg.map_or(8, |arg| arg.dtype.packed_bits());
    Differs { result: d.result, element: d.byte * 8 / bits, bytes: d.bytes }
}

/// The runs of one call.
struct Runs<'a> {
    executable: &'a Executable,
    code: &'a Code,
    arrays: Arrays<'a>,
    grid: Grid,
    host: &'a dyn Host,
    stats: Stats,
    races: Vec<(Schedule, Race)>,
    garbage: Vec<(Schedule, Garbage)>,
    searches: Vec<(Schedule, Search)>,
    traced: Option<Traced>,
}

/// The timeline of one run: the first one, or the first that failed.
struct Traced {
    tracer: Tracer,
    failed: bool,
}

impl Rerun for Runs<'_> {
    fn run(&mut self, schedule: &Schedule) -> Result<(), Box<Trap>> {
        let program = &self.code.program;
        let options = &program.options;
        let call = Call {
            code: self.code,
            gmem: self.arrays.begin(),
            grid: self.grid.bounds.clone(),
            unwritten: options.uninitialized_memory.into(),
            reads_outside: options.out_of_bounds_reads == OutOfBounds::Uninitialized,
            lends: !schedule.preempts(),
            host: self.host,
            max_rounds: options.max_steps.unwrap_or(MAX_ROUNDS),
        };
        let judged = options.detect_races
            || options.explain_nan
            || options.uninitialized_reads != Severity::Ignore;
        let told = options.trace.is_some() || !options.logging.is_empty();
        let done = match (judged, told) {
            (false, false) if self.alone() => {
                in_order::run(self.executable, &call, &self.grid, schedule, &mut self.stats)
            }
            (false, false) if self.side_by_side(schedule) => {
                let mut stats = Stats::default();
                match side_by_side::run(self.executable, &call, &self.grid, schedule, &mut stats) {
                    Ok(()) => {
                        self.stats.merge(&stats);
                        Ok(())
                    }
                    Err(trap) if matches!(trap.kind, TrapKind::Interrupted) => Err(trap),
                    // Once more, from the start and in order: what is reported shall not depend on
                    // who was faster.
                    Err(_) => {
                        let call = Call { gmem: self.arrays.begin(), ..call };
                        self.go(&call, schedule, NoObserver).0
                    }
                }
            }
            (false, false) => self.go(&call, schedule, NoObserver).0,
            (true, false) => {
                let (done, detector) = self.go(&call, schedule, self.detector());
                self.found(schedule, detector, done.is_ok());
                done
            }
            (_, true) => {
                let observers = (self.detector(), (self.tracer(), self.log()));
                let (done, (detector, (tracer, log))) = self.go(&call, schedule, observers);
                self.found(schedule, detector, done.is_ok());
                self.traced(tracer, done.is_err());
                let told = self.tell(log);
                done.and(told)
            }
        };
        self.arrays.end();
        done
    }

    fn results(&self) -> Vec<Vec<u8>> {
        self.arrays.results()
    }

    fn set_results(&mut self, results: &[Vec<u8>]) {
        self.arrays.set_results(results);
    }
}

impl Runs<'_> {
    fn detector(&self) -> Option<RaceDetector> {
        let program = &self.code.program;
        let new =
            || RaceDetector::of(program, &self.code.allocs, &self.grid.bounds, self.code.warps);
        program.options.detect_races.then(new)
    }

    fn found(&mut self, schedule: &Schedule, mut detector: Option<RaceDetector>, ended: bool) {
        for (base, index, value) in self.arrays.unsettled() {
            if ended {
                detector.on_unsettled(SemaphoreId { owner: None, base, index }, value);
            }
        }
        let races = detector.map(RaceDetector::into_races).unwrap_or_default().into_iter();
        self.races.extend(races.map(|race| (schedule.clone(), race)));
    }

    fn tracer(&self) -> Option<Tracer> {
        let wanted = self.code.program.options.trace.is_some();
        wanted.then(|| Tracer::new(&self.code.allocs))
    }

    fn log(&self) -> Option<Log> {
        let logging = &self.code.program.options.logging;
        (!logging.is_empty()).then(|| Log::new(logging))
    }

    /// Hands the lines of a run's log to the host.
    fn tell(&self, log: Option<Log>) -> Result<(), Box<Trap>> {
        let Some(log) = log else { return Ok(()) };
        let lines = report::log::lines(&self.code.program, &self.grid.bounds, &log);
        self.host.log(&lines).map_err(|error| {
            Box::new(TrapKind::Host { call: "logging".to_owned(), message: error.0 }.into())
        })
    }

    fn traced(&mut self, tracer: Option<Tracer>, failed: bool) {
        let Some(tracer) = tracer else { return };
        if self.traced.as_ref().is_none_or(|known| failed && !known.failed) {
            self.traced = Some(Traced { tracer, failed });
        }
    }

    /// Whether points run one after another, each by a single thread.
    fn alone(&self) -> bool {
        let program = &self.code.program;
        let blocks: usize = program.cluster.iter().product();
        program.in_order && program.num_threads == 1 && blocks == 1 && !self.code.warps
    }

    /// Whether blocks may run at the same time, and any order is as good as another.
    fn side_by_side(&self, schedule: &Schedule) -> bool {
        let in_order = self.code.program.in_order;
        self.code.tiling.independent && !in_order && !schedule.preempts()
    }

    /// One run, watched.
    fn go<O: Observer>(
        &mut self,
        call: &Call<'_>,
        schedule: &Schedule,
        observer: O,
    ) -> (Result<(), Box<Trap>>, O) {
        let mut worker = Worker::new(self.executable.take_pool(), observer);
        let program = &self.code.program;
        if O::WATCHES && program.options.uninitialized_reads != Severity::Ignore {
            worker.defined = Some(Box::new(Definedness::of(program)));
        }
        if O::WATCHES && program.options.explain_nan {
            worker.search = Some(Search::default());
        }
        let done = if self.alone() {
            let points = 0..self.grid.points;
            launch::run_in_order(call, &mut worker, &self.grid, schedule, points, |_| {})
                .map_err(|(_, trap)| trap)
        } else {
            match schedule.scheduler() {
                Ok(mut scheduler) => {
                    let (grid, points) = (&self.grid, 0..self.grid.points);
                    let scheduler = &mut *scheduler;
                    launch::run_together(call, &mut worker, grid, schedule, scheduler, points)
                }
                Err(message) => Err(TrapKind::Internal { message }.into()),
            }
        };
        self.stats.merge(&worker.stats);
        if let Some(defined) = worker.defined.take() {
            let garbage = defined.into_garbage(program, done.is_ok());
            self.garbage.push((schedule.clone(), garbage));
        }
        if let Some(search) = worker.search.take() {
            self.searches.push((schedule.clone(), search));
        }
        if done.is_ok() {
            self.executable.give_pool(worker.pool);
        }
        (done, worker.observer)
    }
}

impl Executable {
    /// Buffers for one worker.
    pub(crate) fn take_pool(&self) -> Pool {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes back the buffers of a worker whose run has ended well.
    pub(crate) fn give_pool(&self, pool: Pool) {
        debug_assert_eq!(pool.in_use(), 0, "a run leaves no tile behind");
        if pool.total() <= IDLE_BYTES && pool.in_use() == 0 {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(pool);
        }
    }
}
