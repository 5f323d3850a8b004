//! How a program is to be run: the Rust side of `pallas_rs.Params`.

use crate::program::SpanId;
use serde::{Deserialize, Serialize};

/// What to do about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The run fails.
    Raise,
    /// It is reported and the run goes on.
    Warn,
    /// Nothing.
    Ignore,
}

/// What a generic read outside its array gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutOfBounds {
    /// An error.
    Raise,
    /// Unwritten memory.
    Uninitialized,
}

/// What memory holds before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uninitialized {
    /// NaN, the largest integer, `True`.
    Nan,
    /// Zeros.
    Zero,
}

/// A kind of events that can be logged, as JAX's `LoggingMode` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Logged {
    /// Barriers: allocation, arrivals, waits.
    Barrier,
    /// Semaphores: signals and waits.
    Semaphore,
    /// Memory other than registers: allocation, accesses, what engines are given.
    SharedMemory,
}

/// Code of the user's that is not in the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeftOut {
    /// What it is, in words.
    pub what: String,
    /// Where it stood.
    pub span: SpanId,
}

/// When an asynchronous operation completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsyncCompletion {
    /// As late as a wait allows.
    Late,
    /// At once.
    Eager,
    /// At a moment drawn from the seed.
    Random,
}

/// Which requests for a cluster that is not launched yet are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStealing {
    /// None.
    Never,
    /// All: the first cluster that asks gets the next one.
    First,
    /// Those of clusters that are not ahead of another one that runs.
    RoundRobin,
    /// Those that a draw from the seed lets pass.
    Random,
}

/// How the next thread to run is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Each in turn, until it blocks.
    RoundRobin,
    /// Drawn from the seed at every scheduling point.
    Random,
    /// Probabilistic concurrency testing with this depth.
    Pct(u32),
    /// A recorded schedule.
    Replay(String),
}

/// A finding that is not to be reported: every one of a rule, or those at one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Suppression {
    /// `PRS-B2`.
    pub code: String,
    /// Where, as the end of a file's path and a line in it; none: everywhere.
    pub at: Option<(String, u32)>,
}

/// Options of a run. Every field is fixed when the kernel is lowered.
#[allow(clippy::struct_excessive_bools, reason = "independent switches, as in `Params`")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Look for races.
    pub detect_races: bool,
    /// What a race does.
    pub on_race: Severity,
    /// Generic reads outside their array.
    pub out_of_bounds_reads: OutOfBounds,
    /// Memory before it is written.
    pub uninitialized_memory: Uninitialized,
    /// Reads of memory before it is written.
    pub uninitialized_reads: Severity,
    /// Cross-proxy findings are errors.
    pub strict_proxy: bool,
    /// Findings that are counted and not reported.
    pub suppress: Vec<Suppression>,
    /// Say where the first number came from that is infinite or NaN, if one reaches a result.
    pub explain_nan: bool,
    /// Report lints too.
    pub lints: bool,
    /// Check the target's limits before running.
    pub check_limits: bool,
    /// Target device (`h100`), or none: from the kernel's own ops.
    pub target: Option<String>,
    /// Completion of asynchronous operations.
    pub async_completion: AsyncCompletion,
    /// Choice of the next thread.
    pub schedule: Schedule,
    /// Which requests for clusters that are not launched yet are granted.
    pub work_stealing: WorkStealing,
    /// Seed of everything drawn.
    pub seed: u64,
    /// Number of schedules to run in one call, seeds `seed..seed + seeds`.
    pub seeds: u32,
    /// OS threads; none: the machine chooses. Results do not depend on it.
    pub num_workers: Option<u32>,
    /// Clusters at the same time; none: what the target holds.
    pub resident_clusters: Option<u32>,
    /// Steps after which a run without an end is stopped.
    pub max_steps: Option<u64>,
    /// Float-only ops are skipped; their results are infinity.
    pub skip_floating_point_ops: bool,
    /// Log these kinds of events.
    pub logging: Vec<Logged>,
    /// What was left out of the program on request.
    pub left_out: Vec<LeftOut>,
    /// Timeline file.
    pub trace: Option<String>,
    /// Tell the host how far a long run is.
    pub progress: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            detect_races: false,
            on_race: Severity::Raise,
            out_of_bounds_reads: OutOfBounds::Raise,
            uninitialized_memory: Uninitialized::Nan,
            uninitialized_reads: Severity::Ignore,
            strict_proxy: false,
            suppress: Vec::new(),
            explain_nan: false,
            lints: false,
            check_limits: true,
            target: None,
            async_completion: AsyncCompletion::Late,
            schedule: Schedule::RoundRobin,
            work_stealing: WorkStealing::First,
            seed: 0,
            seeds: 1,
            num_workers: None,
            resident_clusters: None,
            max_steps: None,
            skip_floating_point_ops: false,
            logging: Vec::new(),
            left_out: Vec::new(),
            trace: None,
            progress: true,
        }
    }
}
