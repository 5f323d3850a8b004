//! A call frame of XLA, checked.

use pallas_rs_vm::GlobalBuffer;

use crate::abi::{
    API_MAJOR, API_MINOR, Api, ApiVersion, CALL_FRAME_SIZE, CallFrame, Context, DeviceOrdinalArgs,
    EXTENSION_METADATA, Extension, MetadataExtension, RunIdArgs,
};
use crate::attributes::Attributes;
use crate::error::Failure;
use crate::{buffer, state};

/// A frame of at least the size this crate was written for.
#[derive(Debug)]
pub(crate) struct Frame<'a>(&'a CallFrame);

impl<'a> Frame<'a> {
    /// Wraps what XLA passed to a handler.
    ///
    /// # Safety
    /// `frame` is a frame XLA made, valid for `'a`.
    pub(crate) unsafe fn new(frame: *mut CallFrame) -> Result<Frame<'a>, Failure> {
        // SAFETY: every version of a frame starts with its size and has a valid `api`.
        let frame = unsafe { &*frame };
        if frame.struct_size < CALL_FRAME_SIZE || frame.api().struct_size < size_of::<Api>() {
            return Err(Failure::malformed("this jaxlib is older than the oldest one supported"));
        }
        Ok(Frame(frame))
    }

    pub(crate) fn api(&self) -> &'a Api {
        self.0.api()
    }

    pub(crate) fn context(&self) -> *mut Context {
        self.0.ctx
    }

    /// Number of the launch that the call belongs to, the same on all devices.
    pub(crate) fn run_id(&self) -> Result<i64, Failure> {
        let mut args = RunIdArgs {
            struct_size: size_of::<RunIdArgs>(),
            extension_start: std::ptr::null_mut(),
            ctx: self.context(),
            run_id: 0,
        };
        let entry = self.api().run_id_get.expect("XLA always offers run_id_get");
        // SAFETY: the arguments are of the layout the entry expects.
        let error = unsafe { entry(&raw mut args) };
        if error.is_null() { Ok(args.run_id) } else { Err(Failure::FromXla(error)) }
    }

    /// The device that the call runs on.
    pub(crate) fn device(&self) -> Result<i32, Failure> {
        let mut args = DeviceOrdinalArgs {
            struct_size: size_of::<DeviceOrdinalArgs>(),
            extension_start: std::ptr::null_mut(),
            ctx: self.context(),
            device_ordinal: 0,
        };
        let entry = self.api().device_ordinal_get.expect("XLA always offers device_ordinal_get");
        // SAFETY: the arguments are of the layout the entry expects.
        let error = unsafe { entry(&raw mut args) };
        if error.is_null() { Ok(args.device_ordinal) } else { Err(Failure::FromXla(error)) }
    }

    pub(crate) fn attributes(&self) -> Result<Attributes<'a>, Failure> {
        // SAFETY: the frame is XLA's and valid for `'a`.
        unsafe { Attributes::decode(&self.0.attrs) }
    }

    pub(crate) fn operands(&self) -> Result<Vec<GlobalBuffer<'a>>, Failure> {
        // SAFETY: as above; XLA lends operands and results for the length of the call.
        unsafe { buffer::decode(&self.0.args, "operand") }
    }

    pub(crate) fn results(&self) -> Result<Vec<GlobalBuffer<'a>>, Failure> {
        // SAFETY: as above.
        unsafe { buffer::decode(&self.0.rets, "result") }
    }

    /// Answers XLA's question for metadata, if the frame is one: then nothing else in it is valid.
    pub(crate) fn answer_metadata(&self) -> bool {
        let mut extension: *mut Extension = self.0.extension_start;
        while !extension.is_null() {
            // SAFETY: a non-null entry of XLA's list.
            let head = unsafe { &*extension };
            if head.kind == EXTENSION_METADATA {
                // SAFETY: the kind says what the entry is, and it points at room for the answer.
                let metadata = unsafe { &mut *(*extension.cast::<MetadataExtension>()).metadata };
                metadata.api_version = ApiVersion {
                    struct_size: size_of::<ApiVersion>(),
                    extension_start: std::ptr::null_mut(),
                    major: API_MAJOR,
                    minor: API_MINOR,
                };
                metadata.traits = 0;
                metadata.state_type_id = state::type_id();
                return true;
            }
            extension = head.next;
        }
        false
    }
}

impl CallFrame {
    /// XLA's entry points.
    pub(crate) fn api<'a>(&self) -> &'a Api {
        // SAFETY: XLA's table of entry points is static.
        unsafe { &*self.api }
    }
}
