//! `pallas_rs._core`: what Python sees of the machine. No semantics live here.

mod arrays;
mod handlers;
mod host;
mod program;
mod progress;
mod rules;
mod runs;
mod signals;

#[pyo3::pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::handlers::{handlers, state_type};
    #[pymodule_export]
    use super::host::inside_callback;
    #[pymodule_export]
    use super::program::{assemble, disassemble};
    #[pymodule_export]
    use super::rules::rules;
    #[pymodule_export]
    use super::runs::{close, last_run_id, reports, wait_idle};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const FORMAT: &str = pallas_rs_ir::wire::FORMAT;

    #[pymodule_init]
    #[allow(clippy::unnecessary_wraps, reason = "PyO3 asks for a result")]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        pallas_rs_xla_ffi::set_process(Box::new(super::host::PythonProcess));
        Ok(())
    }
}
