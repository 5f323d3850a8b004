//! The attributes of a kernel call.

use std::ffi::c_int;

use crate::abi::{ATTR_ARRAY, ATTR_STRING, Array, Attrs, ByteSpan};
use crate::buffer::raw_slice;
use crate::error::Failure;

/// XLA's number for u8, the only element type an array attribute of ours has.
pub(crate) const U8: c_int = 6;

/// What the call site of a kernel says.
#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    /// The program's wire bytes.
    pub(crate) program: &'a [u8],
    /// The kernel's name.
    pub(crate) kernel: &'a str,
}

impl<'a> Attributes<'a> {
    /// Reads `program` and `kernel`; other attributes are none of our business.
    ///
    /// # Safety
    /// `attrs` and all it points at are as XLA made them and outlive `'a`.
    pub(crate) unsafe fn decode(attrs: &'a Attrs) -> Result<Attributes<'a>, Failure> {
        let (mut program, mut kernel) = (None, None);
        for i in 0..attrs.size as usize {
            // SAFETY: `types`, `names` and `attrs` have `size` entries, and names are spans.
            let (kind, name, value) = unsafe {
                let name = &**attrs.names.add(i);
                (*attrs.types.add(i), raw_slice(name.ptr, name.len), *attrs.attrs.add(i))
            };
            let bytes = match kind {
                ATTR_STRING => {
                    // SAFETY: the kind says what the pointer points at.
                    let span = unsafe { &*value.cast::<ByteSpan>() };
                    // SAFETY: XLA's string of `len` bytes.
                    unsafe { raw_slice(span.ptr, span.len) }
                }
                ATTR_ARRAY => {
                    // SAFETY: the kind says what the pointer points at.
                    let array = unsafe { &*value.cast::<Array>() };
                    if array.dtype != U8 {
                        continue;
                    }
                    // SAFETY: an array of `size` one-byte elements.
                    unsafe { raw_slice(array.data.cast::<u8>(), array.size) }
                }
                _ => continue,
            };
            match name {
                b"program" => program = Some(bytes),
                b"kernel" => kernel = Some(bytes),
                _ => {}
            }
        }
        let program =
            program.ok_or_else(|| Failure::malformed("no attribute `program` of bytes"))?;
        let kernel = std::str::from_utf8(kernel.unwrap_or_default())
            .map_err(|_| Failure::malformed("the attribute `kernel` is not UTF-8"))?;
        Ok(Attributes { program, kernel })
    }
}

#[cfg(test)]
mod tests {
    use super::Attributes;
    use crate::testing::{Frame, failure_text};

    #[test]
    fn program_comes_as_array_or_string() {
        for as_array in [true, false] {
            let frame = Frame::new().program(b"PRS\0\xff", as_array).kernel("add");
            // SAFETY: the frame is well formed and outlives the attributes.
            let attributes = unsafe { Attributes::decode(frame.attrs()) }.unwrap();
            assert_eq!(attributes.program, b"PRS\0\xff");
            assert_eq!(attributes.kernel, "add");
        }
    }

    #[test]
    fn empty_program_is_empty() {
        let frame = Frame::new().program(b"", true);
        // SAFETY: as above.
        let attributes = unsafe { Attributes::decode(frame.attrs()) }.unwrap();
        assert_eq!(attributes.program, b"");
        assert_eq!(attributes.kernel, "");
    }

    #[test]
    fn missing_program_is_refused() {
        let frame = Frame::new().kernel("add");
        // SAFETY: as above.
        let failure = unsafe { Attributes::decode(frame.attrs()) }.unwrap_err();
        assert!(failure_text(&failure).contains("no attribute `program`"));
    }
}
