//! The machine's host: services that need Python, given under the GIL.
//!
//! No lock is held when the GIL is taken, and it is not taken any more once the interpreter ends.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pallas_rs_vm::report::Report;
use pallas_rs_vm::{Host, HostArray, HostError};
use pallas_rs_xla_ffi::{Call, Process};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::progress::Progress;
use crate::runs::Run;
use crate::{arrays, signals};

/// The Python module that gives the services.
const SERVICES: &str = "pallas_rs._host";

static CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static INSIDE_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Refuses all further wishes.
pub(crate) fn close() {
    CLOSED.store(true, Ordering::SeqCst);
}

/// Whether this thread is in Python on behalf of a run.
#[pyfunction]
pub(crate) fn inside_callback() -> bool {
    INSIDE_CALLBACK.get()
}

/// The Python process that registered the handlers.
#[derive(Debug)]
pub(crate) struct PythonProcess;

impl Process for PythonProcess {
    fn begin(&self, kernel: &str) -> Box<dyn Call> {
        signals::watch();
        Box::new(PythonCall {
            run: Run::begin(kernel),
            progress: Mutex::new(Progress::new(kernel)),
            interrupts_seen: AtomicUsize::new(signals::count()),
        })
    }
}

/// One call in flight.
#[derive(Debug)]
struct PythonCall {
    run: Run,
    progress: Mutex<Progress>,
    interrupts_seen: AtomicUsize,
}

impl Call for PythonCall {
    fn finish(&self, failure: Option<&str>, report: Option<Report>) {
        self.run.record(failure, report);
    }
}

impl Host for PythonCall {
    fn xla_call(
        &self,
        name: &str,
        module: &[u8],
        args: &[HostArray],
    ) -> Result<Vec<HostArray>, HostError> {
        serve(|services| {
            let py = services.py();
            let args = (name, PyBytes::new(py, module), arrays::to_python(py, args)?);
            services.call_method1("xla_call", args)
        })
    }

    fn print(&self, prefix: &str, fmt: &str, args: &[HostArray]) -> Result<(), HostError> {
        serve(|services| {
            let args = arrays::to_python(services.py(), args)?;
            services.call_method1("print_line", (prefix, fmt, args))?;
            Ok(PyList::empty(services.py()).into_any())
        })
        .map(drop)
    }

    fn callback(&self, id: u64, args: &[HostArray]) -> Result<Vec<HostArray>, HostError> {
        serve(|services| {
            let args = arrays::to_python(services.py(), args)?;
            services.call_method1("callback", (id, args))
        })
    }

    fn save(&self, path: &str, contents: &[u8]) -> Result<(), HostError> {
        std::fs::write(path, contents).map_err(|e| HostError(format!("cannot write {path}: {e}")))
    }

    fn log(&self, lines: &[String]) -> Result<(), HostError> {
        serve(|services| {
            services.call_method1("log_lines", (lines,))?;
            Ok(PyList::empty(services.py()).into_any())
        })
        .map(drop)
    }

    fn advanced(&self, blocks: u64, all: u64) {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).advance(blocks, all);
    }

    fn interrupted(&self) -> bool {
        let count = signals::count();
        if count == self.interrupts_seen.load(Ordering::Relaxed) {
            return false;
        }
        let stop = attached(python_will_raise).unwrap_or(true);
        if !stop {
            self.interrupts_seen.store(count, Ordering::Relaxed);
        }
        stop
    }
}

/// Whether Python answers the interrupt with an exception.
///
/// On the main thread it can be asked: that runs the user's handler. On another one its default
/// handler is known to raise, and a handler of the user's is given the benefit of the doubt.
fn python_will_raise(py: Python<'_>) -> bool {
    if py.check_signals().is_err() {
        raise_again();
        return true;
    }
    let default = || -> PyResult<bool> {
        let signal = py.import("signal")?;
        let current = signal.call_method1("getsignal", (libc::SIGINT,))?;
        Ok(current.is(&signal.getattr("default_int_handler")?))
    };
    default().unwrap_or(true)
}

/// Lets Python see the interrupt anew: the exception it raised cannot travel through XLA.
#[allow(unsafe_code, reason = "PyO3 has no safe name for it")]
fn raise_again() {
    // SAFETY: allowed at any time, even without the GIL.
    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
}

/// Asks the Python side for a service that returns arrays.
fn serve<F>(service: F) -> Result<Vec<HostArray>, HostError>
where
    F: for<'py> FnOnce(&Bound<'py, PyModule>) -> PyResult<Bound<'py, PyAny>>,
{
    attached(|py| {
        let outer = INSIDE_CALLBACK.replace(true);
        let returned = py
            .import(SERVICES)
            .and_then(|services| service(&services))
            .map_err(|e| HostError(text_of(py, &e)))
            .and_then(|returned| arrays::from_python(&returned));
        INSIDE_CALLBACK.set(outer);
        returned
    })
    .unwrap_or_else(|| Err(HostError("the Python interpreter has ended".to_owned())))
}

/// Takes the GIL, unless the interpreter ends.
fn attached<R>(f: impl for<'py> FnOnce(Python<'py>) -> R) -> Option<R> {
    if CLOSED.load(Ordering::SeqCst) {
        return None;
    }
    Python::try_attach(f)
}

/// An exception as one text, with its traceback when there is one: it may come from user code.
fn text_of(py: Python<'_>, error: &PyErr) -> String {
    let mut text = error.to_string();
    if let Some(trace) = error.traceback(py).and_then(|t| t.format().ok()) {
        text.push('\n');
        text.push_str(trace.trim_end());
    }
    text
}
