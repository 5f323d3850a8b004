//! Failures on their way to XLA.

use std::ffi::{CString, c_int};

use crate::abi::{Api, Error, ErrorCreateArgs};

/// Canonical status codes, as far as they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The kernel, or what it was given, is wrong.
    InvalidArgument = 3,
    /// A bug of ours.
    Internal = 13,
}

/// Why a handler failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A status of ours.
    Status(Code, String),
    /// An error XLA made itself, to be handed back as it is.
    FromXla(*mut Error),
}

impl Failure {
    /// The call is not what our Python side sends: versions that do not belong together, or a bug.
    pub(crate) fn malformed(text: impl Into<String>) -> Failure {
        Failure::Status(
            Code::Internal,
            format!("pallas_rs.InternalError: malformed kernel call: {}", text.into()),
        )
    }

    /// Turns the failure into the error object XLA takes over.
    ///
    /// # Safety
    /// `api` is what XLA passed in the frame of the call that failed.
    pub(crate) unsafe fn into_xla(self, api: &Api) -> *mut Error {
        match self {
            Failure::FromXla(error) => error,
            // SAFETY: the caller's promise.
            Failure::Status(code, text) => unsafe { create(api, code, &text) },
        }
    }
}

/// Has XLA make an error object.
///
/// # Safety
/// `api` is what XLA passed in a call frame.
unsafe fn create(api: &Api, code: Code, text: &str) -> *mut Error {
    let text = CString::new(text.replace('\0', "\\0")).expect("no NUL is left");
    let mut args = ErrorCreateArgs {
        struct_size: size_of::<ErrorCreateArgs>(),
        extension_start: std::ptr::null_mut(),
        message: text.as_ptr(),
        code: code as c_int,
    };
    let entry = api.error_create.expect("XLA always offers error_create");
    // SAFETY: the arguments are of the layout the entry expects; XLA copies the text.
    unsafe { entry(&raw mut args) }
}
