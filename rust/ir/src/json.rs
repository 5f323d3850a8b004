//! How the Python lowering hands a program over: JSON for the structure, byte strings beside it.
//!
//! JSON because both sides have a fast, well-kept implementation and a lowering test can read it;
//! it never travels further than this function.

use crate::program::Program;
use crate::verify::verify;
use crate::wire;

/// Turns the lowering's JSON and byte strings into wire bytes.
///
/// # Errors
/// When the JSON does not describe a program, or the program does not verify. Either is a bug of
/// the lowering: a kernel that is not supported is refused before.
pub fn assemble(json: &str, blobs: Vec<Vec<u8>>) -> Result<Vec<u8>, String> {
    let mut program: Program = serde_json::from_str(json).map_err(|e| e.to_string())?;
    program.blobs = blobs;
    verify(&program).map_err(|e| e.to_string())?;
    Ok(wire::encode(&program))
}
