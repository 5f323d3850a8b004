//! The process's runs: which are in flight, and how the last ones ended.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pallas_rs_vm::report::Report;
use pyo3::prelude::*;

use crate::host;

/// How many ended runs are remembered.
const KEPT: usize = 64;

/// Between two looks at pending signals while waiting.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// An ended run.
#[derive(Clone, Debug)]
struct Ended {
    id: u64,
    kernel: String,
    failure: Option<String>,
    /// Text is made of it when somebody asks. None: a panic left nothing to report.
    report: Option<Report>,
    /// How long it took.
    seconds: f64,
}

#[derive(Debug)]
struct Runs {
    next_id: u64,
    /// Ids of runs in flight, with the process that runs them: a fork copies entries that will
    /// never end in the child.
    in_flight: Vec<(u64, u32)>,
    ended: VecDeque<Ended>,
}

static RUNS: Mutex<Runs> =
    Mutex::new(Runs { next_id: 1, in_flight: Vec::new(), ended: VecDeque::new() });
static ONE_ENDED: Condvar = Condvar::new();

/// A run in flight; ends when dropped.
#[derive(Debug)]
pub(crate) struct Run {
    id: u64,
    kernel: String,
    begun: Instant,
}

impl Run {
    #[allow(clippy::disallowed_methods, reason = "how long a run took is no part of its report")]
    pub(crate) fn begin(kernel: &str) -> Run {
        let mut runs = lock();
        let id = runs.next_id;
        runs.next_id += 1;
        runs.in_flight.push((id, std::process::id()));
        Run { id, kernel: kernel.to_owned(), begun: Instant::now() }
    }

    /// Keeps what is known of the run.
    pub(crate) fn record(&self, failure: Option<&str>, report: Option<Report>) {
        let ended = Ended {
            id: self.id,
            kernel: self.kernel.clone(),
            failure: failure.map(str::to_owned),
            report,
            seconds: self.begun.elapsed().as_secs_f64(),
        };
        let mut runs = lock();
        if runs.ended.len() == KEPT {
            runs.ended.pop_front();
        }
        runs.ended.push_back(ended);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        lock().in_flight.retain(|&(id, _)| id != self.id);
        ONE_ENDED.notify_all();
    }
}

fn lock() -> MutexGuard<'static, Runs> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last ended runs, oldest first: run id, kernel name, failure text or None, report as JSON,
/// seconds.
#[pyfunction]
pub(crate) fn reports() -> Vec<(u64, String, Option<String>, String, f64)> {
    let ended = lock().ended.clone();
    let json = |report: Option<Report>| report.map_or_else(|| "{}".to_owned(), |r| r.to_json());
    ended.into_iter().map(|e| (e.id, e.kernel, e.failure, json(e.report), e.seconds)).collect()
}

/// Id of the run that began last, 0 before the first.
#[pyfunction]
pub(crate) fn last_run_id() -> u64 {
    lock().next_id - 1
}

/// Waits until no run is in flight; a signal handler that raises ends the wait.
///
/// Returns at once inside a callback of a run, which would wait for itself.
#[pyfunction]
pub(crate) fn wait_idle(py: Python<'_>) -> PyResult<()> {
    if host::inside_callback() {
        return Ok(());
    }
    while !py.detach(idle_soon) {
        py.check_signals()?;
    }
    Ok(())
}

/// Whether all runs ended within one signal interval.
fn idle_soon() -> bool {
    let mine = std::process::id();
    let busy = |runs: &mut Runs| runs.in_flight.iter().any(|&(_, process)| process == mine);
    let (mut runs, _) = ONE_ENDED
        .wait_timeout_while(lock(), SIGNAL_INTERVAL, busy)
        .unwrap_or_else(PoisonError::into_inner);
    !busy(&mut runs)
}

/// Closes Python to runs, for the end of the interpreter: lets those in flight end, then refuses
/// their wishes, for a thread that asks for the GIL of a dying interpreter takes the process down.
#[pyfunction]
pub(crate) fn close(py: Python<'_>) -> PyResult<()> {
    let waited = wait_idle(py);
    host::close();
    waited
}
