//! Call frames as XLA makes them, for tests.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null, null_mut};

use crate::abi::{
    ARG_BUFFER, ATTR_ARRAY, ATTR_SCALAR, ATTR_STRING, Api, ApiVersion, Args, Array, Attrs, Buffer,
    ByteSpan, CALL_FRAME_SIZE, CallFrame, EXTENSION_METADATA, Error, ErrorCreateArgs, Extension,
    Metadata, MetadataExtension, STAGE_EXECUTE, Scalar, StateArgs, TypeId,
};
use crate::attributes::{I32, U8};
use crate::error::Failure;

/// The text of a failure of ours.
pub(crate) fn failure_text(failure: &Failure) -> &str {
    match failure {
        Failure::Status(_, text) => text,
        Failure::FromXla(_) => panic!("an error of XLA"),
    }
}

/// Code and text of the error a handler returned.
pub(crate) fn take_error(error: *mut Error) -> Option<(c_int, String)> {
    if error.is_null() {
        return None;
    }
    // SAFETY: errors in tests come from `error_create` below.
    Some(*unsafe { Box::from_raw(error.cast::<(c_int, String)>()) })
}

unsafe extern "C" fn error_create(args: *mut ErrorCreateArgs) -> *mut Error {
    // SAFETY: called with valid arguments.
    let args = unsafe { &*args };
    // SAFETY: a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(args.message) }.to_str().unwrap().to_owned();
    Box::into_raw(Box::new((args.code, text))).cast()
}

/// The fake context is a slot for the state.
unsafe extern "C" fn state_set(args: *mut StateArgs) -> *mut Error {
    // SAFETY: called with valid arguments, and the context is the slot of a `Frame`.
    unsafe { *(*args).ctx.cast::<*mut c_void>() = (*args).state };
    null_mut()
}

unsafe extern "C" fn state_get(args: *mut StateArgs) -> *mut Error {
    // SAFETY: as above.
    unsafe { (*args).state = *(*args).ctx.cast::<*mut c_void>() };
    null_mut()
}

/// Owns a frame and everything in it. Pointers are set when the frame is asked for.
pub(crate) struct Frame {
    api: Box<Api>,
    state: Box<*mut c_void>,
    buffers: Vec<(Box<Buffer>, Vec<i64>)>,
    kinds: Vec<c_int>,
    pointers: Vec<*mut c_void>,
    attributes: Vec<(&'static str, Vec<u8>, c_int)>,
    names: Vec<ByteSpan>,
    values: Vec<(ByteSpan, Array, Scalar)>,
    attribute_kinds: Vec<c_int>,
    name_pointers: Vec<*const ByteSpan>,
    value_pointers: Vec<*const c_void>,
    metadata: Box<Metadata>,
    extension: Option<Box<MetadataExtension>>,
    raw: Box<CallFrame>,
}

impl Frame {
    pub(crate) fn new() -> Frame {
        let version =
            || ApiVersion { struct_size: 24, extension_start: null_mut(), major: 0, minor: 5 };
        let api = Box::new(Api {
            struct_size: 208,
            extension_start: null_mut(),
            api_version: version(),
            internal_api: null(),
            error_create: Some(error_create),
            error_get_details: null(),
            error_destroy: null(),
            handler_register: null(),
            stream_get: null(),
            type_register: null(),
            context_get: null(),
            state_set: Some(state_set),
            state_get: Some(state_get),
            others: [null(); 7],
            run_id_get: None,
            device_ordinal_get: None,
        });
        let args = || Args {
            struct_size: size_of::<Args>(),
            extension_start: null_mut(),
            size: 0,
            types: null(),
            args: null(),
        };
        let mut state = Box::new(null_mut::<c_void>());
        let raw = Box::new(CallFrame {
            struct_size: CALL_FRAME_SIZE,
            extension_start: null_mut(),
            api: &raw const *api,
            ctx: (&raw mut *state).cast(),
            stage: STAGE_EXECUTE,
            args: args(),
            rets: args(),
            attrs: Attrs {
                struct_size: size_of::<Attrs>(),
                extension_start: null_mut(),
                size: 0,
                types: null(),
                names: null(),
                attrs: null(),
            },
            future: null_mut(),
        });
        let metadata = Box::new(Metadata {
            struct_size: size_of::<Metadata>(),
            api_version: version(),
            traits: 0,
            state_type_id: TypeId { type_id: 0 },
        });
        Frame {
            api,
            state,
            buffers: Vec::new(),
            kinds: Vec::new(),
            pointers: Vec::new(),
            attributes: Vec::new(),
            names: Vec::new(),
            values: Vec::new(),
            attribute_kinds: Vec::new(),
            name_pointers: Vec::new(),
            value_pointers: Vec::new(),
            metadata,
            extension: None,
            raw,
        }
        .linked()
    }

    pub(crate) fn operand(mut self, dtype: c_int, data: *mut c_void, dims: &[i64]) -> Frame {
        let mut dims = dims.to_vec();
        let buffer = Buffer {
            struct_size: size_of::<Buffer>(),
            extension_start: null_mut(),
            dtype,
            data,
            rank: dims.len() as i64,
            dims: dims.as_mut_ptr(),
        };
        self.buffers.push((Box::new(buffer), dims));
        self.linked()
    }

    pub(crate) fn program(mut self, bytes: &[u8], as_array: bool) -> Frame {
        let kind = if as_array { ATTR_ARRAY } else { ATTR_STRING };
        self.attributes.push(("program", bytes.to_vec(), kind));
        self.linked()
    }

    pub(crate) fn kernel(mut self, name: &str) -> Frame {
        self.attributes.push(("kernel", name.as_bytes().to_vec(), ATTR_STRING));
        self.linked()
    }

    pub(crate) fn devices(mut self, count: i32) -> Frame {
        self.attributes.push(("devices", count.to_ne_bytes().to_vec(), ATTR_SCALAR));
        self.linked()
    }

    pub(crate) fn of_size(mut self, size: usize) -> Frame {
        self.raw.struct_size = size;
        self
    }

    pub(crate) fn asking_for_metadata(mut self) -> Frame {
        let mut extension = Box::new(MetadataExtension {
            base: Extension {
                struct_size: size_of::<MetadataExtension>(),
                kind: EXTENSION_METADATA,
                next: null_mut(),
            },
            metadata: &raw mut *self.metadata,
        });
        self.raw.extension_start = (&raw mut *extension).cast();
        self.extension = Some(extension);
        self
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn attrs(&self) -> &Attrs {
        &self.raw.attrs
    }

    pub(crate) fn args(&self) -> &Args {
        &self.raw.args
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut CallFrame {
        &raw mut *self.raw
    }

    /// Points the frame at what this value now owns.
    fn linked(mut self) -> Frame {
        self.kinds = vec![ARG_BUFFER; self.buffers.len()];
        self.pointers =
            self.buffers.iter_mut().map(|(buffer, _)| (&raw mut **buffer).cast()).collect();
        self.raw.args.size = self.buffers.len() as i64;
        self.raw.args.types = self.kinds.as_ptr();
        self.raw.args.args = self.pointers.as_ptr();

        let span = |bytes: &[u8]| ByteSpan { ptr: bytes.as_ptr(), len: bytes.len() };
        self.names = self.attributes.iter().map(|(name, ..)| span(name.as_bytes())).collect();
        self.values = self
            .attributes
            .iter()
            .map(|(_, bytes, _)| {
                let data = bytes.as_ptr().cast();
                let array = Array { dtype: U8, size: bytes.len(), data };
                (span(bytes), array, Scalar { dtype: I32, value: data })
            })
            .collect();
        self.attribute_kinds = self.attributes.iter().map(|&(.., kind)| kind).collect();
        self.name_pointers = self.names.iter().map(|name| &raw const *name).collect();
        self.value_pointers = self
            .values
            .iter()
            .zip(&self.attribute_kinds)
            .map(|((span, array, scalar), &kind)| match kind {
                ATTR_ARRAY => (&raw const *array).cast(),
                ATTR_SCALAR => (&raw const *scalar).cast(),
                _ => (&raw const *span).cast(),
            })
            .collect();
        self.raw.attrs.size = self.attributes.len() as i64;
        self.raw.attrs.types = self.attribute_kinds.as_ptr();
        self.raw.attrs.names = self.name_pointers.as_ptr();
        self.raw.attrs.attrs = self.value_pointers.as_ptr();
        self
    }
}

impl Drop for Frame {
    /// What XLA does with the state of a destroyed executable.
    fn drop(&mut self) {
        // SAFETY: the static type info.
        let info = unsafe { &*crate::state_type_info() };
        if !self.state.is_null() {
            // SAFETY: the state was left by a handler and is deleted once.
            unsafe { info.deleter.unwrap()(*self.state) };
        }
        let _ = &self.api;
    }
}
