//! The rules, for whoever explains a code.

use pyo3::prelude::*;

/// All rules as JSON: a list of objects with `code`, `title`, `severity`, `class`, `checked`,
/// `source`, `explanation`, `bad` and `good`.
#[pyfunction]
pub(crate) fn rules() -> String {
    pallas_rs_vm::rules::to_json()
}
