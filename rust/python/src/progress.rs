//! The line that says how far a long run is.
//!
//! It is for a person at a terminal: it appears after a while, rewrites itself, and is gone when the
//! run ends. Where standard error is no terminal there is none.
#![allow(
    clippy::disallowed_methods,
    reason = "it is shown, and no part of what a run computes or reports"
)]

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Runs that end within this time say nothing.
const SILENCE: Duration = Duration::from_secs(3);
/// Between two lines.
const INTERVAL: Duration = Duration::from_millis(250);
/// Back to the start of the line, and clear it.
const CLEAR: &str = "\r\x1b[2K";

/// How far a run is.
#[derive(Debug)]
pub(crate) struct Progress {
    kernel: String,
    begun: Instant,
    next: Instant,
    done: u64,
    shown: bool,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(kernel: &str) -> Progress {
        let begun = Instant::now();
        Progress {
            kernel: kernel.to_owned(),
            begun,
            next: begun + SILENCE,
            done: 0,
            shown: false,
            terminal: stderr().is_terminal(),
        }
    }

    /// `blocks` more of `all` are done.
    pub(crate) fn advance(&mut self, blocks: u64, all: u64) {
        self.done += blocks;
        let now = Instant::now();
        if !self.terminal || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.shown = true;
        let text = line(&self.kernel, self.done, all, now - self.begun);
        // A terminal that cannot be written to is nobody's concern.
        let _ = write!(stderr(), "{CLEAR}{text}").and_then(|()| stderr().flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "{CLEAR}").and_then(|()| stderr().flush());
        }
    }
}

fn line(kernel: &str, done: u64, all: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = done as f64 / seconds;
    let left = if done == 0 {
        String::new()
    } else {
        format!(", {:.0} s left", all.saturating_sub(done) as f64 / rate)
    };
    format!("{kernel}: {done} of {all} blocks, {rate:.1} a second, {seconds:.0} s{left}")
}
