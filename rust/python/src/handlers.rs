//! The handlers and their state's type, in the form `jax.ffi` registers.
#![allow(unsafe_code, reason = "capsules carry raw pointers")]

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use pallas_rs_xla_ffi::abi::Handler;
use pallas_rs_xla_ffi::{execute, instantiate, state_type_id, state_type_info};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

const NAME: &CStr = c"pallas_rs._core";

/// The stages of the custom call, for `jax.ffi.register_ffi_target`.
#[pyfunction]
pub(crate) fn handlers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let stages = PyDict::new(py);
    for (stage, handler) in [("instantiate", instantiate as Handler), ("execute", execute)] {
        stages.set_item(stage, capsule(py, handler as *mut c_void)?)?;
    }
    Ok(stages)
}

/// The type of a call site's state, for `jax.ffi.register_ffi_type`.
#[pyfunction]
pub(crate) fn state_type(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let registration = PyDict::new(py);
    registration.set_item("type_id", capsule(py, state_type_id().cast())?)?;
    registration.set_item("type_info", capsule(py, state_type_info().cast_mut().cast())?)?;
    Ok(registration)
}

fn capsule(py: Python<'_>, pointer: *mut c_void) -> PyResult<Bound<'_, PyCapsule>> {
    let pointer = NonNull::new(pointer).expect("the address of a function or static");
    // SAFETY: the pointer is to a function or static and so outlives every capsule.
    unsafe { PyCapsule::new_with_pointer(py, pointer, NAME) }
}
