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

    /// Copies the first `out.len()` bytes out.
    ///
    /// # Panics
    /// When there are not that many.
    pub fn read(&self, out: &mut [u8]) {
        assert!(out.len() <= self.len, "a buffer is shorter than its type says");
        // SAFETY: `len` bytes can be read, and `out` is not among them: it is borrowed.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, out.as_mut_ptr(), out.len()) };
    }

    /// Overwrites the first `bytes.len()` bytes.
    ///
    /// # Panics
    /// When there are not that many.
    pub fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "a buffer is shorter than its type says");
        // SAFETY: `len` bytes can be written, and `bytes` is not among them: it is borrowed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr, bytes.len()) };
    }

    /// Repeats `pattern` over all bytes.
    pub(crate) fn fill(&self, pattern: &[u8]) {
        let mut at = 0;
        while at < self.len {
            let n = pattern.len().min(self.len - at);
            // SAFETY: `at + n` is at most `len`.
            unsafe { std::ptr::copy_nonoverlapping(pattern.as_ptr(), self.ptr.add(at), n) };
            at += n;
        }
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
