//! The attributes of a kernel call.

use std::ffi::c_int;

use crate::abi::{ATTR_ARRAY, ATTR_SCALAR, ATTR_STRING, Array, Attrs, ByteSpan, Scalar};
use crate::buffer::raw_slice;
use crate::error::Failure;

/// XLA's number for u8, the only element type an array attribute of ours has.
pub(crate) const U8: c_int = 6;
/// XLA's number for i32, the type of the numbers among our attributes.
pub(crate) const I32: c_int = 4;

/// What the call site of a kernel says.
#[derive(Debug)]
pub(crate) struct Attributes<'a> {
    /// The program's wire bytes.
    pub(crate) program: &'a [u8],
    /// The kernel's name.
    pub(crate) kernel: &'a str,
    /// How many devices run the computation, of which each makes the call.
    pub(crate) devices: usize,
}

impl<'a> Attributes<'a> {
    /// Reads `program`, `kernel` and `devices`; other attributes are none of our business.
    ///
    /// # Safety
    /// `attrs` and all it points at are as XLA made them and outlive `'a`.
    pub(crate) unsafe fn decode(attrs: &'a Attrs) -> Result<Attributes<'a>, Failure> {
        let (mut program, mut kernel, mut devices) = (None, None, 1);
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
                ATTR_SCALAR => {
                    // SAFETY: the kind says what the pointer points at.
                    let scalar = unsafe { &*value.cast::<Scalar>() };
                    if name == b"devices" && scalar.dtype == I32 {
                        // SAFETY: the type says what the pointer points at.
                        devices = unsafe { *scalar.value.cast::<i32>() }.max(1) as usize;
                    }
                    continue;
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
        Ok(Attributes { program, kernel, devices })
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
            assert_eq!((attributes.kernel, attributes.devices), ("add", 1));
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
    fn the_number_of_devices_is_read() {
        let frame = Frame::new().program(b"", true).devices(4);
        // SAFETY: as above.
        assert_eq!(unsafe { Attributes::decode(frame.attrs()) }.unwrap().devices, 4);
    }

    #[test]
    fn missing_program_is_refused() {
        let frame = Frame::new().kernel("add");
        // SAFETY: as above.
        let failure = unsafe { Attributes::decode(frame.attrs()) }.unwrap_err();
        assert!(failure_text(&failure).contains("no attribute `program`"));
    }
}
