//! Arrays handed to Python and back, as `(dtype name, shape, bytes)`.

use pallas_rs_core::DType;
use pallas_rs_vm::{HostArray, HostError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

type Triple<'py> = (&'static str, Vec<usize>, Bound<'py, PyBytes>);

/// The arrays as Python takes them.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    arrays: &[HostArray],
) -> PyResult<Bound<'py, PyList>> {
    let triple = |a: &HostArray| -> Triple<'py> {
        (a.dtype.name(), a.shape.clone(), PyBytes::new(py, &a.data))
    };
    PyList::new(py, arrays.iter().map(triple))
}

/// The arrays Python returned; checked, since a callback is the user's code.
pub(crate) fn from_python(returned: &Bound<'_, PyAny>) -> Result<Vec<HostArray>, HostError> {
    let triples: Vec<(String, Vec<usize>, Vec<u8>)> =
        returned.extract().map_err(|e: PyErr| HostError(e.to_string()))?;
    triples
        .into_iter()
        .map(|(name, shape, data)| {
            let dtype = DType::from_name(&name)
                .ok_or_else(|| HostError(format!("an array of unknown element type {name}")))?;
            let wanted = shape.iter().product::<usize>() * dtype.size();
            if data.len() != wanted {
                return Err(HostError(format!(
                    "an array {name}{shape:?} of {} bytes instead of {wanted}",
                    data.len()
                )));
            }
            Ok(HostArray { dtype, shape, data })
        })
        .collect()
}
