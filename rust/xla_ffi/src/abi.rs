//! `repr(C)` mirror of the part of XLA's `xla/ffi/api/c_api.h` that is used, at API version 0.3.
//!
//! Only what is the same in 0.3 (jaxlib 0.10) and 0.5 (jaxlib 0.12) is declared. XLA appends entries
//! at the end of [`Api`], which `struct_size` guards. In XLA a struct's size is counted without tail
//! padding, and XLA accepts anything at least as long, so `size_of` is right for structs passed to it.

use core::ffi::{c_char, c_int, c_void};

/// Major version of the API this file mirrors.
pub const API_MAJOR: c_int = 0;
/// Minor version of the API this file mirrors: the oldest that has every entry used.
pub const API_MINOR: c_int = 3;

/// Head of a linked list of optional parts of a struct.
#[repr(C)]
#[derive(Debug)]
pub struct Extension {
    /// Size of the extension.
    pub struct_size: usize,
    /// Which extension it is.
    pub kind: c_int,
    /// The next one, or null.
    pub next: *mut Extension,
}

/// [`Extension::kind`] of [`MetadataExtension`].
pub const EXTENSION_METADATA: c_int = 1;

/// A version of the API.
#[repr(C)]
#[derive(Debug)]
pub struct ApiVersion {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// Major version.
    pub major: c_int,
    /// Minor version.
    pub minor: c_int,
}

/// XLA's error object, owned by whoever holds the pointer.
#[repr(C)]
#[derive(Debug)]
pub struct Error {
    opaque: [u8; 0],
}

/// XLA's context of one call.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    opaque: [u8; 0],
}

/// XLA's completion of an asynchronous handler; never used here.
#[repr(C)]
#[derive(Debug)]
pub struct Future {
    opaque: [u8; 0],
}

/// Arguments of [`Api::error_create`].
#[repr(C)]
#[derive(Debug)]
pub struct ErrorCreateArgs {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// Text, NUL-terminated; XLA copies it.
    pub message: *const c_char,
    /// Canonical status code.
    pub code: c_int,
}

/// One operand or result.
#[repr(C)]
#[derive(Debug)]
pub struct Buffer {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// Element type (XLA's `PrimitiveType` number).
    pub dtype: c_int,
    /// First byte; may be null when there are none.
    pub data: *mut c_void,
    /// Number of dimensions.
    pub rank: i64,
    /// Dimensions; may be null for rank 0.
    pub dims: *mut i64,
}

/// Kind of an operand or result that is a [`Buffer`].
pub const ARG_BUFFER: c_int = 1;

/// A string that is not NUL-terminated.
#[repr(C)]
#[derive(Debug)]
pub struct ByteSpan {
    /// First byte.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

/// An attribute that is a number.
#[repr(C)]
#[derive(Debug)]
pub struct Scalar {
    /// Element type.
    pub dtype: c_int,
    /// The number.
    pub value: *const c_void,
}

/// An attribute that is an array of scalars.
#[repr(C)]
#[derive(Debug)]
pub struct Array {
    /// Element type.
    pub dtype: c_int,
    /// Number of elements.
    pub size: usize,
    /// First element.
    pub data: *const c_void,
}

/// Kind of an attribute that is an [`Array`].
pub const ATTR_ARRAY: c_int = 1;
/// Kind of an attribute that is a [`Scalar`].
pub const ATTR_SCALAR: c_int = 3;
/// Kind of an attribute that is a string ([`ByteSpan`]).
pub const ATTR_STRING: c_int = 4;

/// Operands, or results: XLA has two types with the same layout.
#[repr(C)]
#[derive(Debug)]
pub struct Args {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// How many there are.
    pub size: i64,
    /// Kind of each.
    pub types: *const c_int,
    /// Pointer to each.
    pub args: *const *mut c_void,
}

/// Attributes, sorted by name.
#[repr(C)]
#[derive(Debug)]
pub struct Attrs {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// How many there are.
    pub size: i64,
    /// Kind of each.
    pub types: *const c_int,
    /// Name of each.
    pub names: *const *const ByteSpan,
    /// Pointer to each.
    pub attrs: *const *const c_void,
}

/// Stage of a handler that runs once per call site.
pub const STAGE_INSTANTIATE: c_int = 0;
/// Stage of a handler that runs once per call.
pub const STAGE_EXECUTE: c_int = 3;

/// Everything a handler is told.
#[repr(C)]
#[derive(Debug)]
pub struct CallFrame {
    /// Size of this struct.
    pub struct_size: usize,
    /// Non-null when XLA asks for metadata.
    pub extension_start: *mut Extension,
    /// Entry points.
    pub api: *const Api,
    /// Context of the call.
    pub ctx: *mut Context,
    /// Which stage.
    pub stage: c_int,
    /// Operands.
    pub args: Args,
    /// Results.
    pub rets: Args,
    /// Attributes.
    pub attrs: Attrs,
    /// Set by asynchronous handlers; not counted in XLA's size of the struct.
    pub future: *mut Future,
}

/// What XLA 0.3 says the size of [`CallFrame`] is.
pub const CALL_FRAME_SIZE: usize = core::mem::offset_of!(CallFrame, future);

/// The number XLA gives a registered type.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TypeId {
    /// The number.
    pub type_id: i64,
}

/// What XLA needs to know of a registered type.
#[repr(C)]
#[derive(Debug)]
pub struct TypeInfo {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// Destroys a value.
    pub deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Arguments of [`Api::state_set`] and [`Api::state_get`], whose types have the same layout.
#[repr(C)]
#[derive(Debug)]
pub struct StateArgs {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// Context of the call.
    pub ctx: *mut Context,
    /// The stage whose state is meant.
    pub stage: c_int,
    /// Type of the state.
    pub type_id: *mut TypeId,
    /// The state, in or out.
    pub state: *mut c_void,
}

/// Arguments of [`Api::run_id_get`].
#[repr(C)]
#[derive(Debug)]
pub struct RunIdArgs {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// The call's context.
    pub ctx: *mut Context,
    /// Number of the launch, the same on all devices that take part; out.
    pub run_id: i64,
}

/// Arguments of [`Api::device_ordinal_get`].
#[repr(C)]
#[derive(Debug)]
pub struct DeviceOrdinalArgs {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// The call's context.
    pub ctx: *mut Context,
    /// Number of the device in this process; out.
    pub device_ordinal: i32,
}

/// What a handler says of itself.
#[repr(C)]
#[derive(Debug)]
pub struct Metadata {
    /// Size of this struct.
    pub struct_size: usize,
    /// Version of the API it was built for.
    pub api_version: ApiVersion,
    /// Bit set of traits.
    pub traits: u32,
    /// Type of its state.
    pub state_type_id: TypeId,
}

/// XLA's question for [`Metadata`].
#[repr(C)]
#[derive(Debug)]
pub struct MetadataExtension {
    /// Head of the list entry.
    pub base: Extension,
    /// Where to write the answer.
    pub metadata: *mut Metadata,
}

/// An entry point of XLA.
pub type Entry<A> = Option<unsafe extern "C" fn(*mut A) -> *mut Error>;

/// XLA's entry points; the ones not used here are opaque.
#[repr(C)]
#[derive(Debug)]
pub struct Api {
    /// Size of this struct.
    pub struct_size: usize,
    /// Unused.
    pub extension_start: *mut Extension,
    /// XLA's own version.
    pub api_version: ApiVersion,
    /// Unused.
    pub internal_api: *const c_void,
    /// Makes an error.
    pub error_create: Entry<ErrorCreateArgs>,
    /// Unused: its arguments differ between versions.
    pub error_get_details: *const c_void,
    /// Unused: an error from XLA is handed back to it.
    pub error_destroy: *const c_void,
    /// Unused: its arguments differ between versions.
    pub handler_register: *const c_void,
    /// Unused.
    pub stream_get: *const c_void,
    /// Unused: Python registers the type.
    pub type_register: *const c_void,
    /// Unused.
    pub context_get: *const c_void,
    /// Hands a call site's state to XLA.
    pub state_set: Entry<StateArgs>,
    /// Asks XLA for a call site's state.
    pub state_get: Entry<StateArgs>,
    /// Unused: memory, XLA's thread pool, asynchronous handlers.
    pub others: [*const c_void; 7],
    /// Asks XLA which launch a call belongs to.
    pub run_id_get: Entry<RunIdArgs>,
    /// Asks XLA which device a call runs on.
    pub device_ordinal_get: Entry<DeviceOrdinalArgs>,
}

/// A handler.
pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Error;

macro_rules! pin {
    ($($ty:ty = $size:literal),* $(,)?) => {
        $(const _: () = assert!(size_of::<$ty>() == $size);)*
    };
    ($($ty:ty, $field:ident @ $offset:literal);* $(;)?) => {
        $(const _: () = assert!(core::mem::offset_of!($ty, $field) == $offset);)*
    };
}

// Sizes and offsets as a C compiler gives them for both headers on a 64-bit target.
pin!(
    Extension = 24,
    ApiVersion = 24,
    ErrorCreateArgs = 32,
    Buffer = 48,
    ByteSpan = 16,
    Array = 24,
    Args = 40,
    Attrs = 48,
    CallFrame = 176,
    TypeInfo = 24,
    StateArgs = 48,
    RunIdArgs = 32,
    DeviceOrdinalArgs = 32,
    Scalar = 16,
    Metadata = 48,
    MetadataExtension = 32,
);
pin!(
    CallFrame, args @ 40;
    CallFrame, rets @ 80;
    CallFrame, attrs @ 120;
    CallFrame, future @ 168;
    Metadata, traits @ 32;
    Metadata, state_type_id @ 40;
    Api, error_create @ 48;
    Api, state_set @ 104;
    Api, state_get @ 112;
    Api, run_id_get @ 176;
    Api, device_ordinal_get @ 184;
);
