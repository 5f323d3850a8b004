//! Operands and results as the machine takes them.

use std::ffi::c_int;

use pallas_rs_core::DType;
use pallas_rs_vm::GlobalBuffer;

use crate::abi::{ARG_BUFFER, Args, Buffer};
use crate::error::{Code, Failure};

/// A slice of `len` elements at `ptr`. XLA passes null for "none", which `from_raw_parts` must not see.
///
/// # Safety
/// `ptr` is null, or valid for reads of `len` elements that nobody changes for `'a`.
pub(crate) unsafe fn raw_slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 || ptr.is_null() {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(ptr, len) }
    }
}

/// XLA's number of an element type, in the order of `xla_data.proto`.
fn dtype(number: c_int) -> Option<DType> {
    Some(match number {
        1 => DType::Bool,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::U8,
        7 => DType::U16,
        8 => DType::U32,
        9 => DType::U64,
        10 => DType::F16,
        11 => DType::F32,
        12 => DType::F64,
        15 => DType::C64,
        16 => DType::BF16,
        18 => DType::C128,
        19 => DType::F8E5M2,
        20 => DType::F8E4M3FN,
        21 => DType::I4,
        22 => DType::U4,
        23 => DType::F8E4M3B11FNUZ,
        24 => DType::F8E5M2FNUZ,
        25 => DType::F8E4M3FNUZ,
        26 => DType::I2,
        27 => DType::U2,
        28 => DType::F8E4M3,
        29 => DType::F8E3M4,
        32 => DType::F4E2M1FN,
        33 => DType::F8E8M0FNU,
        _ => return None,
    })
}

/// Wraps all operands, or all results, of a call.
///
/// # Safety
/// `args` and all it points at are as XLA made them; the memory of every buffer is ours for `'a`.
pub(crate) unsafe fn decode<'a>(
    args: &'a Args,
    what: &str,
) -> Result<Vec<GlobalBuffer<'a>>, Failure> {
    let mut buffers = Vec::with_capacity(args.size as usize);
    for i in 0..args.size as usize {
        // SAFETY: `types` and `args` have `size` entries.
        let (kind, value) = unsafe { (*args.types.add(i), *args.args.add(i)) };
        if kind != ARG_BUFFER {
            return Err(Failure::malformed(format!("{what} {i} is not a buffer")));
        }
        // SAFETY: the kind says what the pointer points at.
        let buffer = unsafe { &*value.cast::<Buffer>() };
        // SAFETY: `rank` dimensions, owned by XLA for the length of the call.
        let dims = unsafe { raw_slice(buffer.dims, buffer.rank as usize) };
        let dtype = dtype(buffer.dtype).ok_or_else(|| {
            Failure::malformed(format!("{what} {i} has an unknown element type {}", buffer.dtype))
        })?;
        let len = packed_len(dims, dtype).ok_or_else(|| {
            Failure::Status(
                Code::InvalidArgument,
                format!(
                    "pallas_rs.InvalidGridError: {what} {i} of shape {dims:?} is too large to address"
                ),
            )
        })?;
        if len > 0 && buffer.data.is_null() {
            return Err(Failure::malformed(format!("{what} {i} has no memory")));
        }
        let ptr = if len == 0 { std::ptr::dangling_mut() } else { buffer.data.cast::<u8>() };
        // SAFETY: XLA's buffer of this type and shape spans `len` bytes and is ours for the call.
        buffers.push(unsafe { GlobalBuffer::from_raw(ptr, len, dtype, dims) });
    }
    Ok(buffers)
}

/// Bytes of a dense array in XLA's packed storage.
fn packed_len(dims: &[i64], dtype: DType) -> Option<usize> {
    let elements =
        dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(usize::try_from(dim).ok()?))?;
    Some(elements.checked_mul(dtype.packed_bits())?.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use pallas_rs_core::DType;

    use super::{decode, dtype, packed_len};
    use crate::testing::{Frame, failure_text};

    #[test]
    fn every_dtype_has_exactly_one_number() {
        for &wanted in DType::ALL {
            assert_eq!((0..64).filter(|&n| dtype(n) == Some(wanted)).count(), 1, "{wanted}");
        }
    }

    #[test]
    fn sub_byte_arrays_are_packed() {
        assert_eq!(packed_len(&[3, 3], DType::I4), Some(5));
        assert_eq!(packed_len(&[5], DType::U2), Some(2));
        assert_eq!(packed_len(&[], DType::F64), Some(8));
        assert_eq!(packed_len(&[0, i64::MAX], DType::F64), Some(0));
        assert_eq!(packed_len(&[i64::MAX, 2], DType::F32), None);
        assert_eq!(packed_len(&[-1], DType::F32), None);
    }

    #[test]
    fn operands_keep_pointer_shape_and_type() {
        let mut data = [1.0f32, 2.0, 3.0, 4.0];
        let ptr = data.as_mut_ptr().cast::<u8>();
        let frame =
            Frame::new().operand(11, ptr.cast(), &[2, 2]).operand(4, std::ptr::null_mut(), &[0, 7]);
        // SAFETY: the frame is well formed and outlives the buffers.
        let buffers = unsafe { decode(frame.args(), "operand") }.unwrap();
        assert_eq!(buffers.len(), 2);
        assert_eq!((buffers[0].ptr(), buffers[0].len()), (ptr, 16));
        assert_eq!((buffers[0].dtype(), buffers[0].dims()), (DType::F32, &[2i64, 2][..]));
        assert!(buffers[1].is_empty());
        assert_eq!(buffers[1].dims(), &[0, 7]);
    }

    #[test]
    fn what_cannot_be_addressed_is_refused() {
        for (number, dims, text) in [
            (17, &[2i64][..], "unknown element type 17"),
            (11, &[2][..], "has no memory"),
            (11, &[i64::MAX, 2][..], "too large"),
        ] {
            let frame = Frame::new().operand(number, std::ptr::null_mut(), dims);
            // SAFETY: as above; nothing is read through the null pointer.
            let failure = unsafe { decode(frame.args(), "operand") }.unwrap_err();
            assert!(failure_text(&failure).contains(text), "{text}");
        }
    }
}
