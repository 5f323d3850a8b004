//! The bytes inside the custom call: magic, format, version of pallas-rs, postcard.
//!
//! A program is complete in its bytes: an executable from the persistent cache, an export or an
//! AOT compilation runs it in a process that never lowered anything, maybe of another pallas-rs.

use crate::program::Program;
use thiserror::Error;

/// First bytes of every program.
const MAGIC: &[u8; 4] = b"PLRS";

/// Hash of the sources that say what the bytes mean: the same in all builds of a version, on every
/// platform.
pub const FORMAT: &str = env!("PALLAS_RS_FORMAT");

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why bytes are not a program.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// Not ours.
    #[error("these bytes are not a pallas-rs program")]
    Magic,
    /// Another version's.
    #[error(
        "the program was made by pallas-rs {version} (format {format}), and this is pallas-rs \
         {VERSION} (format {FORMAT}): export it again, or install that version"
    )]
    Format {
        /// Version that made the bytes.
        version: String,
        /// Their format.
        format: String,
    },
    /// Damaged.
    #[error("the program is damaged: {0}")]
    Damaged(String),
}

/// Bytes of a program.
pub fn encode(program: &Program) -> Vec<u8> {
    let bytes = MAGIC.to_vec();
    let head = (FORMAT, VERSION);
    let bytes = postcard::to_extend(&head, bytes).expect("strings have a form");
    postcard::to_extend(program, bytes).expect("a program has no type that postcard refuses")
}

/// The program in `bytes`.
///
/// # Errors
/// [`WireError`] when they are something else.
pub fn decode(bytes: &[u8]) -> Result<Program, WireError> {
    let damaged = |e: postcard::Error| WireError::Damaged(e.to_string());
    let rest = bytes.strip_prefix(MAGIC).ok_or(WireError::Magic)?;
    let ((format, version), body): ((&str, &str), _) =
        postcard::take_from_bytes(rest).map_err(damaged)?;
    if format != FORMAT {
        return Err(WireError::Format { version: version.to_owned(), format: format.to_owned() });
    }
    postcard::from_bytes(body).map_err(damaged)
}
