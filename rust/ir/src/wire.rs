//! The bytes inside the custom call: magic, format version, postcard.
//!
//! A program is complete in its bytes: an executable from the persistent cache, an export or an
//! AOT compilation runs it in a process that never lowered anything.

use crate::program::Program;
use thiserror::Error;

/// First bytes of every program.
const MAGIC: &[u8; 4] = b"PLRS";

/// Version of the format; it changes with every change of the op table or of [`Program`].
pub const WIRE_VERSION: u32 = 1;

/// Why bytes are not a program.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// Not ours.
    #[error("these bytes are not a pallas-rs program")]
    Magic,
    /// Another version's.
    #[error(
        "this program has wire format {found}, this pallas-rs reads format {WIRE_VERSION}: it was \
         compiled by another version of pallas-rs; clear the compilation cache or export it again"
    )]
    Version {
        /// Format of the bytes.
        found: u32,
    },
    /// Damaged.
    #[error("the program is damaged: {0}")]
    Damaged(String),
}

/// Bytes of a program.
pub fn encode(program: &Program) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&WIRE_VERSION.to_le_bytes());
    postcard::to_extend(program, bytes).expect("a program has no type that postcard refuses")
}

/// The program in `bytes`.
///
/// # Errors
/// [`WireError`] when they are something else.
pub fn decode(bytes: &[u8]) -> Result<Program, WireError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(WireError::Magic)?;
    let (version, body) = rest.split_first_chunk::<4>().ok_or(WireError::Magic)?;
    let found = u32::from_le_bytes(*version);
    if found != WIRE_VERSION {
        return Err(WireError::Version { found });
    }
    postcard::from_bytes(body).map_err(|e| WireError::Damaged(e.to_string()))
}
