//! Programs cross from Python as a description and constants, and leave as wire bytes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Version of the wire format; bytes of another version do not load.
pub(crate) const WIRE_VERSION: u32 = 0;

/// Wire bytes of the program described by `json`, whose constants are `blobs`.
#[pyfunction]
pub(crate) fn assemble<'py>(
    py: Python<'py>,
    json: &str,
    blobs: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let _ = (py, json, blobs);
    Err(PyValueError::new_err("no assembler in this build"))
}

/// The text form of a program's wire bytes.
#[pyfunction]
pub(crate) fn disassemble(wire: &[u8]) -> PyResult<String> {
    let _ = wire;
    Err(PyValueError::new_err("no disassembler in this build"))
}
