//! Programs cross from Python as a description and constants, and leave as wire bytes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Wire bytes of the program described by `json`, whose constants are `blobs`.
#[pyfunction]
pub(crate) fn assemble<'py>(
    py: Python<'py>,
    json: &str,
    blobs: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let wire = pallas_rs_ir::assemble(json, blobs).map_err(PyValueError::new_err)?;
    Ok(PyBytes::new(py, &wire))
}

/// The text form of a program's wire bytes.
#[pyfunction]
pub(crate) fn disassemble(wire: &[u8]) -> PyResult<String> {
    let program =
        pallas_rs_ir::wire::decode(wire).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(program.to_string())
}
