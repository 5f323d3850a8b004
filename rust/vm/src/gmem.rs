//! GMEM as the caller hands it over: raw memory shared with XLA.
#![allow(unsafe_code, reason = "operands of an XLA custom call arrive as raw pointers")]

use pallas_rs_core::DType;

/// One operand or result of a kernel call: dense, row-major, in XLA's packed storage.
///
/// Two buffers may name the same memory (an aliased input and output). Nothing here is ever turned
/// into a long-lived `&mut [u8]`; the machine copies windows in and out.
#[derive(Clone, Copy, Debug)]
pub struct GlobalBuffer<'a> {
    ptr: *mut u8,
    len: usize,
    dtype: DType,
    dims: &'a [i64],
}

// SAFETY: the memory outlives the call and the machine only lets workers touch elements that no
// other worker writes.
unsafe impl Send for GlobalBuffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for GlobalBuffer<'_> {}

impl<'a> GlobalBuffer<'a> {
    /// Wraps the memory of an operand or result.
    ///
    /// # Safety
    /// `ptr` is valid for reads and writes of `len` bytes (or `len` is 0) for as long as the value
    /// and its copies are used, and nobody outside the call accesses it meanwhile.
    pub unsafe fn from_raw(ptr: *mut u8, len: usize, dtype: DType, dims: &'a [i64]) -> Self {
        GlobalBuffer { ptr, len, dtype, dims }
    }

    /// Address of the first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Size in bytes (packed storage).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn dims(&self) -> &'a [i64] {
        self.dims
    }
}
