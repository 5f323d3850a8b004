//! The two handlers XLA calls.

use crate::abi::{CallFrame, Error};
use crate::agreement::Devices;
use crate::error::{Code, Failure};
use crate::float_mode::PlainFloatMode;
use crate::frame::Frame;
use crate::state::CallSite;
use crate::{cache, panics, process};

/// Once per call site and executable: decodes the program.
///
/// # Safety
/// For XLA: `frame` is a valid call frame.
pub unsafe extern "C" fn instantiate(frame: *mut CallFrame) -> *mut Error {
    // SAFETY: the caller's promise.
    unsafe { enter(frame, instantiate_frame) }
}

/// Once per call: runs the program.
///
/// # Safety
/// For XLA: `frame` is a valid call frame.
pub unsafe extern "C" fn execute(frame: *mut CallFrame) -> *mut Error {
    // SAFETY: the caller's promise.
    unsafe { enter(frame, execute_frame) }
}

fn instantiate_frame(frame: &Frame<'_>) -> Result<(), Failure> {
    let attributes = frame.attributes()?;
    let program = cache::load(attributes.program).map_err(|text| {
        Failure::Status(
            Code::InvalidArgument,
            format!(
                "pallas_rs.InternalError: cannot load the program of `{}`: {text}",
                attributes.kernel
            ),
        )
    })?;
    let devices = Devices::new(attributes.devices);
    CallSite { program, kernel: attributes.kernel.into(), devices }.leave(frame)
}

fn execute_frame(frame: &Frame<'_>) -> Result<(), Failure> {
    let site = CallSite::of(frame)?;
    let operands = frame.operands()?;
    let results = frame.results()?;
    let turn = site.devices.enter(frame)?;
    let call = process::begin(&site.kernel);
    let run = panics::guard(|| {
        let _mode = PlainFloatMode::enter();
        site.program.report(&operands, &results, &*call)
    });
    let (code, failure, report) = match run {
        Ok(report) => (Code::InvalidArgument, report.failure(), Some(report)),
        Err(bug) => (Code::Internal, Some(bug), None),
    };
    call.finish(failure.as_deref(), report);
    turn.agree(failure.map(|text| (code, text))).map_err(|(code, text)| Failure::Status(code, text))
}

/// The edge: checks the frame, answers questions about the handler, stops panics.
///
/// # Safety
/// `frame` is a valid call frame of XLA.
unsafe fn enter(
    frame: *mut CallFrame,
    stage: impl FnOnce(&Frame<'_>) -> Result<(), Failure>,
) -> *mut Error {
    // SAFETY: the caller's promise.
    let api = unsafe { (*frame).api() };
    let result = panics::guard(|| {
        // SAFETY: the caller's promise.
        let frame = unsafe { Frame::new(frame) }?;
        if frame.answer_metadata() { Ok(()) } else { stage(&frame) }
    });
    let result = result.unwrap_or_else(|bug| Err(Failure::Status(Code::Internal, bug)));
    match result {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: `api` is from the frame.
        Err(failure) => unsafe { failure.into_xla(api) },
    }
}

#[cfg(test)]
mod tests {
    use super::{execute, instantiate};
    use crate::testing::{Frame, take_error};

    #[test]
    fn metadata_names_the_version() {
        let mut frame = Frame::new().asking_for_metadata();
        // SAFETY: a well-formed frame.
        assert!(unsafe { instantiate(frame.as_mut_ptr()) }.is_null());
        let metadata = frame.metadata();
        assert_eq!((metadata.api_version.major, metadata.api_version.minor), (0, 3));
    }

    #[test]
    fn a_frame_of_an_older_jaxlib_is_refused() {
        let mut frame = Frame::new().program(b"", true).of_size(160);
        // SAFETY: a well-formed frame, but for the size it claims.
        let error = take_error(unsafe { execute(frame.as_mut_ptr()) }).unwrap();
        assert_eq!(error.0, 13);
        assert!(error.1.contains("older than the oldest one supported"), "{}", error.1);
    }

    #[test]
    fn a_call_without_program_is_an_error_of_ours() {
        let mut frame = Frame::new();
        // SAFETY: a well-formed frame.
        let error = take_error(unsafe { instantiate(frame.as_mut_ptr()) }).unwrap();
        assert!(
            error.1.starts_with("pallas_rs.InternalError: malformed kernel call"),
            "{}",
            error.1
        );
    }

    #[test]
    fn bytes_that_are_no_program_are_refused_with_the_kernels_name() {
        let mut frame = Frame::new().program(b"not a program", true).kernel("attention");
        // SAFETY: a well-formed frame.
        let error = take_error(unsafe { instantiate(frame.as_mut_ptr()) }).unwrap();
        assert!(error.1.contains("cannot load the program of `attention`"), "{}", error.1);
    }
}
