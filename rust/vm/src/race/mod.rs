//! The race detector: happens-before over components, two views per thread, a window shadow.
//!
//! # Model
//! Two accesses *conflict* if they share a byte and one of them writes (two atomics of one proxy do
//! not). They *race* if neither happens before the other. Happens-before is the PTX memory model's
//! causality order as Pallas exposes it: program order of a thread; arrivals on a barrier before the
//! waits that observe their phase; the completion of a TMA load before the waits on its phase; the
//! completion of a group before the wait that covers it; a signal of a semaphore before the waits it
//! satisfies, which alone orders clusters. Between the generic and the async proxy it also takes a
//! `commit_smem`.
//!
//! An access of an engine is over when its component says so, not when the machine performed it, so
//! the verdict does not depend on the schedule: in a kernel that only uses barriers and waits, a run
//! without findings has none in any schedule (`docs/memory-model.md` has the argument).
//!
//! # Not modelled
//! Races with other kernels. The CUDA threads of a warpgroup are
//! told apart only in inline bodies (`crate::lanes`), its warps only where they run by themselves.
//!
//! # Sources
//! `FastTrack` (Flanagan and Freund, PLDI 2009) for epochs; PTX ISA 9.1 sections 8.7 to 8.9, 9.7.9.25,
//! 9.7.13.15 and 9.7.15 for what orders what.

mod clock;
mod cluster;
mod detector;
mod finding;
mod judge;
mod order;
mod shadow;
#[cfg(test)]
mod tests;
mod union;
mod window;

pub(crate) use detector::RaceDetector;
pub(crate) use finding::{BarrierRef, Code, FlatWindow, Memory, Missing, Race, Side};
