//! XLA's foreign function interface: a kernel call arrives here as one custom call.
//!
//! XLA knows a pair of handlers. *Instantiate* runs once per call site of an executable: it decodes
//! the program in the call's attributes and leaves it with XLA as the call site's state. *Execute*
//! runs once per call: it wraps the operands and results and runs the machine. All raw pointers that
//! cross the border between XLA and the machine live in this crate.
//!
//! The ABI is written by hand in [`abi`], against API version 0.3; a newer XLA accepts an older
//! handler. Python registers the handlers (XLA's own registration entry changed its layout between
//! the versions that are served).
#![allow(
    unsafe_code,
    reason = "XLA's C interface is made of raw pointers; every block says why it holds"
)]

pub mod abi;
mod agreement;
mod attributes;
mod buffer;
mod cache;
mod error;
mod float_mode;
mod frame;
mod handler;
mod panics;
mod process;
mod state;

pub use handler::{execute, instantiate};
pub use process::{Call, Process, set_process};
pub use state::{state_type_id, state_type_info};

#[cfg(test)]
mod testing;
