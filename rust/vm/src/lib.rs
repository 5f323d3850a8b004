//! The machine: runs a verified program over its grid, without Python and without the GIL.

mod code;
mod exec;
mod frame;
pub mod gmem;
pub mod host;
mod machine;
mod memory;
pub mod observer;
pub mod report;
mod scheduler;
pub mod stats;
mod sync;
pub mod trap;
mod units;

pub use gmem::GlobalBuffer;
pub use host::{Host, HostArray, HostError, NoHost};

use std::sync::Arc;

/// A decoded and verified program, ready to run any number of times, also at the same time.
#[derive(Debug)]
pub struct Executable {}

/// How one call ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Text of the failure, when the run failed: first line `pallas_rs.<Class>[<code>]: ...`.
    pub failure: Option<String>,
    /// The structured report as JSON.
    pub report_json: String,
}

impl Executable {
    /// Decodes and verifies a program (wire bytes).
    ///
    /// # Errors
    /// Text that says what is wrong with the bytes.
    pub fn load(_wire: &[u8]) -> Result<Arc<Executable>, String> {
        Ok(Arc::new(Executable {}))
    }

    /// Runs the grid once. `operands` are the call's operands in order (dynamic grid bounds, scalar
    /// prefetch, inputs), `results` its results.
    pub fn run(
        &self,
        _operands: &[GlobalBuffer<'_>],
        _results: &[GlobalBuffer<'_>],
        _host: &dyn Host,
    ) -> Outcome {
        Outcome { failure: None, report_json: String::from("{}") }
    }
}
