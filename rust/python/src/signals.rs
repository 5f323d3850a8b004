//! Ctrl-C while a kernel runs.
//!
//! Python's own handler only notes the signal; Python code that reacts to it runs on the main
//! thread, once that holds the GIL again. While a kernel runs, the main thread is inside XLA: it
//! either runs the machine itself, and reacts when the call has returned, or waits for another
//! thread that does. So a handler that counts is put before Python's; a run that sees the count
//! change stops, and Python does the rest.
#![allow(unsafe_code, reason = "signal handlers are installed through libc")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Interrupts seen so far.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The handler that was there before ours.
static PREVIOUS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
/// Whether it takes three arguments.
static PREVIOUS_TAKES_INFO: AtomicBool = AtomicBool::new(false);
static INSTALLING: Mutex<()> = Mutex::new(());

/// Interrupts seen so far.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
type Plain = extern "C" fn(libc::c_int);

extern "C" fn on_interrupt(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let previous = PREVIOUS.load(Ordering::Acquire);
    if PREVIOUS_TAKES_INFO.load(Ordering::Acquire) {
        // SAFETY: it was installed as a handler of three arguments.
        let handler = unsafe { std::mem::transmute::<usize, WithInfo>(previous) };
        handler(signal, info, context);
    } else {
        // SAFETY: it was installed as a handler of one argument; SIG_DFL and SIG_IGN never get here.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(previous) };
        handler(signal);
    }
}

/// Puts the counter before the handler of SIGINT, unless it is there, or nobody handles the signal.
///
/// Asked at every run: `signal.signal` in Python replaces the handler.
pub(crate) fn watch() {
    let ours = on_interrupt as WithInfo as usize;
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: an all-zero sigaction is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks, into a live local.
    let asked = unsafe { libc::sigaction(libc::SIGINT, std::ptr::null(), &raw mut action) };
    let unhandled = [ours, libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
    if asked != 0 || unhandled {
        return;
    }
    PREVIOUS_TAKES_INFO.store(action.sa_flags & libc::SA_SIGINFO != 0, Ordering::Release);
    PREVIOUS.store(action.sa_sigaction, Ordering::Release);
    action.sa_sigaction = ours;
    action.sa_flags |= libc::SA_SIGINFO;
    // SAFETY: the handler touches atomics and calls the previous one, both allowed in a handler.
    unsafe { libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut()) };
}
