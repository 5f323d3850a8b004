//! What the machine may ask of the process around it: an op that only XLA knows, a print, a signal.

use pallas_rs_core::DType;

/// A dense array handed to or received from the host, one byte per sub-byte element.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<usize>,
    /// Row-major elements in the machine's storage ([`DType::size`] bytes each).
    pub data: Vec<u8>,
}

/// Why the host could not do what was asked; the text goes into the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostError(pub String);

/// Services of the surrounding process. Called on the worker that runs the block, never with a
/// lock held.
pub trait Host: Sync {
    /// Runs a serialized `StableHLO` module on `args` (an op the machine does not implement).
    ///
    /// # Errors
    /// When the module does not compile or run.
    fn xla_call(
        &self,
        name: &str,
        module: &[u8],
        args: &[HostArray],
    ) -> Result<Vec<HostArray>, HostError>;

    /// Prints one line of a `debug_print`: `fmt` is a Python format string for `args`; `prefix`
    /// says which grid point and thread prints.
    ///
    /// # Errors
    /// When formatting fails.
    fn print(&self, prefix: &str, fmt: &str, args: &[HostArray]) -> Result<(), HostError>;

    /// Calls a Python function kept under `id` in the process (a `debug_callback`).
    ///
    /// # Errors
    /// When the callback raises or is not known in this process.
    fn callback(&self, id: u64, args: &[HostArray]) -> Result<Vec<HostArray>, HostError>;

    /// Writes a file, for what a run is asked to leave behind.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&self, path: &str, contents: &[u8]) -> Result<(), HostError> {
        let _ = contents;
        Err(HostError(format!("no file system here for `{path}`")))
    }

    /// Takes the lines of a log, for runs that were asked to keep one.
    ///
    /// # Errors
    /// When the log cannot be written to.
    fn log(&self, lines: &[String]) -> Result<(), HostError> {
        let _ = lines;
        Ok(())
    }

    /// Since this was called last, `blocks` more of all blocks have ended. Called about as often as
    /// [`Host::interrupted`], unless the options forbid it.
    fn advanced(&self, blocks: u64, all: u64) {
        let _ = (blocks, all);
    }

    /// Whether the user asked to stop (Ctrl-C). Polled at most every few milliseconds.
    fn interrupted(&self) -> bool;
}

/// A host that offers nothing: for tests and benchmarks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn xla_call(&self, name: &str, _: &[u8], _: &[HostArray]) -> Result<Vec<HostArray>, HostError> {
        Err(HostError(format!("no XLA here to run `{name}`")))
    }

    fn print(&self, _: &str, _: &str, _: &[HostArray]) -> Result<(), HostError> {
        Ok(())
    }

    fn callback(&self, _: u64, _: &[HostArray]) -> Result<Vec<HostArray>, HostError> {
        Err(HostError("no Python here to call back".to_owned()))
    }

    fn interrupted(&self) -> bool {
        false
    }
}
