//! OS threads of our own, which help the thread that XLA called us on.
//!
//! XLA's own pool must not be waited for from inside a call: that can dead-lock. This one is made at
//! its first use, once per process id, so that the child of a fork starts with its own.
#![allow(unsafe_code, reason = "a job borrows from the call that waits for it")]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Stack of a helper.
const STACK_BYTES: usize = 8 << 20;
/// Helpers a process has at most.
const MAX_HELPERS: usize = 63;

/// Number of threads a call may use unless it says otherwise.
pub(crate) fn available() -> usize {
    // Asking costs dozens of system calls.
    static KNOWN: OnceLock<usize> = OnceLock::new();
    *KNOWN.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs `job` on this thread and on up to `workers - 1` helpers at the same time, each with a number
/// of its own, and returns when all have finished. Helpers that are busy elsewhere do not take part.
///
/// # Panics
/// When the job panics on any of them.
pub(crate) fn run(workers: usize, job: &(dyn Fn(usize) + Sync)) {
    let helpers = workers.saturating_sub(1).min(MAX_HELPERS);
    // SAFETY: only the lifetime changes; `leave` below waits for every helper that has begun, and
    // takes back the invitations that nobody has taken, before the borrow ends.
    let job: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(job) };
    let call = Arc::new(Call { job, state: Mutex::default(), changed: Condvar::new() });
    let team = Team::of_this_process();
    team.invite(&call, helpers);
    let own = catch_unwind(AssertUnwindSafe(|| job(0)));
    team.leave(&call);
    let panic = lock(&call.state).panic.take();
    if let Err(panic) = own {
        resume_unwind(panic);
    }
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// One use of the helpers.
struct Call {
    job: &'static (dyn Fn(usize) + Sync),
    state: Mutex<CallState>,
    changed: Condvar,
}

#[derive(Default)]
struct CallState {
    begun: usize,
    finished: usize,
    panic: Option<Box<dyn std::any::Any + Send>>,
}

/// The helpers of a process.
struct Team {
    process: u32,
    state: Mutex<TeamState>,
    invited: Condvar,
}

#[derive(Default)]
struct TeamState {
    threads: usize,
    idle: usize,
    invitations: VecDeque<Arc<Call>>,
}

static TEAM: AtomicPtr<Team> = AtomicPtr::new(std::ptr::null_mut());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Team {
    /// The team of this process. One inherited through a fork has no threads and may have locks that
    /// are held for ever; it is left alone.
    fn of_this_process() -> &'static Team {
        let process = std::process::id();
        let known = TEAM.load(Ordering::Acquire);
        // SAFETY: the pointer is null or was leaked below.
        if let Some(team) = unsafe { known.as_ref() }
            && team.process == process
        {
            return team;
        }
        let team: &'static Team =
            Box::leak(Box::new(Team { process, state: Mutex::default(), invited: Condvar::new() }));
        let new = std::ptr::from_ref(team).cast_mut();
        match TEAM.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => team,
            Err(_) => Team::of_this_process(),
        }
    }

    fn invite(&'static self, call: &Arc<Call>, helpers: usize) {
        let mut state = lock(&self.state);
        for _ in 0..helpers {
            state.invitations.push_back(Arc::clone(call));
        }
        while state.idle < state.invitations.len() && state.threads < MAX_HELPERS {
            let name = format!("pallas-rs-{}", state.threads);
            let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
            // Without threads the caller does all the work.
            if builder.spawn(|| self.help()).is_err() {
                break;
            }
            state.threads += 1;
            state.idle += 1;
        }
        self.invited.notify_all();
    }

    fn help(&self) {
        let mut state = lock(&self.state);
        loop {
            let Some(call) = state.invitations.pop_front() else {
                state = self.invited.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.idle -= 1;
            // Begun under the team's lock: the caller takes back invitations under it too.
            let number = {
                let mut of_call = lock(&call.state);
                of_call.begun += 1;
                of_call.begun
            };
            drop(state);
            let outcome = catch_unwind(AssertUnwindSafe(|| (call.job)(number)));
            {
                let mut of_call = lock(&call.state);
                of_call.finished += 1;
                if let Err(panic) = outcome {
                    of_call.panic.get_or_insert(panic);
                }
                call.changed.notify_all();
            }
            state = lock(&self.state);
            state.idle += 1;
        }
    }

    /// Takes back what is left of a call's invitations and waits for those who came.
    fn leave(&self, call: &Arc<Call>) {
        lock(&self.state).invitations.retain(|other| !Arc::ptr_eq(other, call));
        let mut state = lock(&call.state);
        while state.finished < state.begun {
            state = call.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn all_the_work_is_done_once_and_waited_for() {
        for workers in [1, 2, 5] {
            let next = AtomicUsize::new(0);
            let sum = AtomicUsize::new(0);
            run(workers, &|_| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= 1000 {
                        return;
                    }
                    sum.fetch_add(i, Ordering::Relaxed);
                }
            });
            assert_eq!(sum.into_inner(), 499_500);
        }
    }

    #[test]
    fn calls_from_several_threads_and_from_helpers() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let count = AtomicUsize::new(0);
                    run(3, &|_| {
                        run(2, &|number| {
                            count.fetch_add(usize::from(number == 0), Ordering::Relaxed);
                        });
                    });
                    assert!(count.into_inner() >= 1);
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let caught = catch_unwind(|| run(2, &|_| panic!("on purpose")));
        assert!(caught.is_err());
    }
}
