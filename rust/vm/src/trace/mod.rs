//! Timelines: what each thread and each engine did, and who released whom.
//!
//! An observer takes notes ([`Tracer`]), and [`chrome`] turns them into the trace event format that
//! Perfetto and `chrome://tracing` open.
//!
//! # Time
//! Logical: the machine has no clock, and one unit is one thing that was observed. The order is that
//! of the run; lengths mean nothing but that something happened in between.
//!
//! # Not shown
//! Arithmetic between two observed things belongs to the slice before it. A run over more than
//! [`MAX_NOTES`] things is cut there, which the file says.

mod chrome;
mod lanes;
mod tracer;

pub(crate) use tracer::Tracer;

use crate::report::{Finding, ThreadLine};
use pallas_rs_ir::{Program, SpanId};

/// Notes that a trace holds: about 100 MB of JSON would be more than a viewer likes.
const MAX_NOTES: usize = 200_000;

/// Logical time.
type Time = u64;

/// Where a slice is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Lane {
    /// A warpgroup, or one of its warps.
    Thread { thread: u32, warp: Option<u8> },
    /// Copies of TMA, loads and stores.
    Tma,
    /// Copies that threads wait for themselves.
    CpAsync,
    /// Products of the tensor core, and what goes to and from its memory.
    TensorCore,
}

/// A lane of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    cluster: u64,
    block: u32,
    lane: Lane,
}

/// Something that took a while.
#[derive(Clone, Copy, Debug)]
struct Slice {
    place: Place,
    what: What,
    span: SpanId,
    begin: Time,
    end: Time,
}

/// What a slice shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Access,
    Arrive,
    Wait,
    GroupWait,
    Fence,
    Issue,
    Load,
    Store,
    Copy,
    Wgmma,
    Tcgen05,
    Commit,
    TmemCopy,
    TmemLoad,
    TmemStore,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Access => "access",
            What::Arrive => "arrive",
            What::Wait => "wait",
            What::GroupWait => "wait for copies",
            What::Fence => "commit_smem",
            What::Issue => "issue",
            What::Load => "TMA load",
            What::Store => "TMA store",
            What::Copy => "cp.async",
            What::Wgmma => "wgmma",
            What::Tcgen05 => "tcgen05",
            What::Commit => "commit",
            What::TmemCopy => "copy to TMEM",
            What::TmemLoad => "TMEM load",
            What::TmemStore => "TMEM store",
        }
    }
}

/// What led to a wait's end: from a slice to another one, both by number.
#[derive(Clone, Copy, Debug)]
struct Arrow {
    from: usize,
    to: usize,
}

/// A number that changes over time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    cluster: u64,
    block: u32,
    counter: Counter,
    at: Time,
    value: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    SmemBytes,
    BytesInFlight,
}

/// A thread that will not go on.
#[derive(Debug)]
struct Stuck<'a> {
    place: Place,
    line: &'a ThreadLine,
}

impl Tracer {
    /// The trace as JSON. Threads that a finding says are stuck wait to the end of it.
    pub(crate) fn to_json(
        &self,
        program: &Program,
        bounds: &[u64],
        findings: &[Finding],
    ) -> String {
        chrome::render(self, program, bounds, findings)
    }
}

#[cfg(test)]
mod tests;
