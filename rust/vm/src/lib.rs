//! The machine: runs a verified program over its grid, without Python and without the GIL.

mod arrays;
mod call;
mod code;
mod defined;
mod exec;
mod frame;
pub mod gmem;
mod grid;
pub mod host;
mod in_order;
mod independence;
mod lanes;
mod launch;
mod limits;
mod log;
mod machine;
mod memory;
mod non_finite;
pub mod observer;
mod race;
pub mod report;
pub mod rules;
mod scheduler;
mod side_by_side;
pub mod stats;
mod sync;
mod trace;
pub mod trap;
mod units;
mod unlaunched;
mod workers;

pub use gmem::GlobalBuffer;
pub use host::{Host, HostArray, HostError, NoHost};

use pallas_rs_ir::Program;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

/// A decoded and verified program, ready to run any number of times, also at the same time.
#[derive(Debug)]
pub struct Executable {
    code: code::Code,
    /// What cannot be done: nothing of it is tried.
    beyond_limits: Vec<trap::Trap>,
    /// Buffers of runs that have ended, for the next ones.
    idle: Mutex<Vec<memory::Pool>>,
    /// What a point took in the first call, very roughly in nanoseconds; 0 before.
    cost_of_a_point: AtomicI64,
}

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
    pub fn load(wire: &[u8]) -> Result<Arc<Executable>, String> {
        let program = pallas_rs_ir::wire::decode(wire).map_err(|e| e.to_string())?;
        pallas_rs_ir::verify(&program).map_err(|e| e.to_string())?;
        Ok(Arc::new(Executable::new(program)))
    }

    /// Compiles a verified program.
    pub fn new(program: Program) -> Executable {
        let beyond_limits = limits::check(&program);
        Executable {
            code: code::Code::new(Arc::new(program)),
            beyond_limits,
            idle: Mutex::default(),
            cost_of_a_point: AtomicI64::new(0),
        }
    }

    /// Runs the grid once. `operands` are the call's operands in order (dynamic grid bounds, scalar
    /// prefetch, inputs), `results` its results.
    pub fn run(
        &self,
        operands: &[GlobalBuffer<'_>],
        results: &[GlobalBuffer<'_>],
        host: &dyn Host,
    ) -> Outcome {
        let report = self.report(operands, results, host);
        Outcome { failure: report.failure(), report_json: report.to_json() }
    }

    /// As [`Executable::run`], with the report itself.
    pub fn report(
        &self,
        operands: &[GlobalBuffer<'_>],
        results: &[GlobalBuffer<'_>],
        host: &dyn Host,
    ) -> report::Report {
        call::run(self, operands, results, host)
    }
}
