//! The process around the handlers: it offers the machine its services and keeps the reports.

use std::sync::OnceLock;

use pallas_rs_vm::report::Report;
use pallas_rs_vm::{Host, NoHost};

/// One kernel call in flight. Dropped when the call is over, also after a panic.
pub trait Call: Host {
    /// The run ended; called once, before XLA learns of it. There is no report after a panic.
    fn finish(&self, failure: Option<&str>, report: Option<Report>);
}

/// Whoever registered the handlers.
pub trait Process: Send + Sync {
    /// A call of `kernel` begins.
    fn begin(&self, kernel: &str) -> Box<dyn Call>;
}

static PROCESS: OnceLock<Box<dyn Process>> = OnceLock::new();

/// Names the process; the first one stays.
pub fn set_process(process: Box<dyn Process>) {
    let _already_set = PROCESS.set(process);
}

pub(crate) fn begin(kernel: &str) -> Box<dyn Call> {
    PROCESS.get().map_or_else(|| Box::new(NoHost) as Box<dyn Call>, |process| process.begin(kernel))
}

impl Call for NoHost {
    fn finish(&self, _: Option<&str>, _: Option<Report>) {}
}
