//! What a call site leaves with XLA between its calls.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pallas_rs_vm::Executable;

use crate::abi::{STAGE_INSTANTIATE, StateArgs, TypeId, TypeInfo};
use crate::agreement::Devices;
use crate::error::Failure;
use crate::frame::Frame;

/// State of one call site; owned by XLA's executable.
#[derive(Debug)]
pub(crate) struct CallSite {
    pub(crate) program: Arc<Executable>,
    pub(crate) kernel: Box<str>,
    pub(crate) devices: Devices,
}

/// The number XLA gives [`CallSite`]; XLA writes it when Python registers the type.
static TYPE_ID: AtomicI64 = AtomicI64::new(0);

static TYPE_INFO: SharedTypeInfo = SharedTypeInfo(TypeInfo {
    struct_size: size_of::<TypeInfo>(),
    extension_start: std::ptr::null_mut(),
    deleter: Some(delete),
});

struct SharedTypeInfo(TypeInfo);

// SAFETY: immutable, and its pointers are null or to code.
unsafe impl Sync for SharedTypeInfo {}

/// Where XLA writes the number of the state's type.
pub fn state_type_id() -> *mut TypeId {
    TYPE_ID.as_ptr().cast()
}

/// What XLA needs to know of the state's type.
pub fn state_type_info() -> *const TypeInfo {
    &raw const TYPE_INFO.0
}

/// The number itself, for the metadata of the handlers.
pub(crate) fn type_id() -> TypeId {
    TypeId { type_id: TYPE_ID.load(Ordering::Relaxed) }
}

/// Called by XLA when the executable that owns the call site is destroyed.
unsafe extern "C" fn delete(state: *mut c_void) {
    // SAFETY: `state` came from `Box::into_raw` in `CallSite::leave` and XLA deletes it once.
    drop(unsafe { Box::from_raw(state.cast::<CallSite>()) });
}

impl CallSite {
    /// Hands the state to XLA.
    pub(crate) fn leave(self, frame: &Frame<'_>) -> Result<(), Failure> {
        let state = Box::into_raw(Box::new(self));
        let mut args = state_args(frame, state.cast());
        let entry = frame.api().state_set.expect("XLA always offers state_set");
        // SAFETY: the arguments are of the layout the entry expects.
        let error = unsafe { entry(&raw mut args) };
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: XLA refused the state, so it is still ours.
        drop(unsafe { Box::from_raw(state) });
        Err(Failure::FromXla(error))
    }

    /// The state of the call site that is being executed.
    pub(crate) fn of<'a>(frame: &Frame<'a>) -> Result<&'a CallSite, Failure> {
        let mut args = state_args(frame, std::ptr::null_mut());
        let entry = frame.api().state_get.expect("XLA always offers state_get");
        // SAFETY: as above.
        let error = unsafe { entry(&raw mut args) };
        if !error.is_null() {
            return Err(Failure::FromXla(error));
        }
        // SAFETY: XLA returns the pointer given in `leave` and keeps it alive for the call; the
        // type number it checked says that it is ours.
        Ok(unsafe { &*args.state.cast::<CallSite>() })
    }
}

fn state_args(frame: &Frame<'_>, state: *mut c_void) -> StateArgs {
    StateArgs {
        struct_size: size_of::<StateArgs>(),
        extension_start: std::ptr::null_mut(),
        ctx: frame.context(),
        stage: STAGE_INSTANTIATE,
        type_id: state_type_id(),
        state,
    }
}
