//! Choosing between tiles element by element.

use super::operand::{Operand, STRIP_BYTES, Strips};
use crate::DType;
use crate::element::{Element, elements, elements_mut, load_scalar};
use crate::isa::for_each_isa;

for_each_isa! {
    fn select_slices(size: usize, pred: &[u8], on_false: &[u8], on_true: &[u8], out: &mut [u8]) {
        match size {
            1 => choose::<u8>(pred, on_false, on_true, out),
            2 => choose::<u16>(pred, on_false, on_true, out),
            4 => choose::<u32>(pred, on_false, on_true, out),
            8 => choose::<u64>(pred, on_false, on_true, out),
            _ => {
                let (on_false, on_true) = (on_false.chunks(size), on_true.chunks(size));
                let cases = pred.iter().zip(on_false.zip(on_true));
                for (out, (pred, (on_false, on_true))) in out.chunks_mut(size).zip(cases) {
                    out.copy_from_slice(if *pred == 0 { on_false } else { on_true });
                }
            }
        }
    }
}

#[inline(always)]
fn choose<T: Element>(pred: &[u8], on_false: &[u8], on_true: &[u8], out: &mut [u8]) {
    let cases = elements::<T>(on_false).iter().zip(elements::<T>(on_true));
    for ((out, pred), (on_false, on_true)) in elements_mut::<T>(out).iter_mut().zip(pred).zip(cases)
    {
        let (on_false, on_true) = (T::load(*on_false), T::load(*on_true));
        *out = (if *pred == 0 { on_false } else { on_true }).store();
    }
}

/// `out = pred ? on_true : on_false` for elements of `size` bytes; `pred` is `bool`.
///
/// # Panics
/// If the lengths differ, or for a splat of more than eight bytes.
pub fn select(
    pred: Operand<'_>,
    size: usize,
    on_false: Operand<'_>,
    on_true: Operand<'_>,
    out: &mut [u8],
) {
    if let Operand::Splat(pred) = pred {
        return (if pred == 0 { on_false } else { on_true }).copy_to(size, out);
    }
    let len = out.len() / size;
    let pred = Strips::new(pred, 1, len);
    let (on_false, on_true) = (Strips::new(on_false, size, len), Strips::new(on_true, size, len));
    let strip = STRIP_BYTES / size;
    for (i, out) in out.chunks_mut(strip * size).enumerate() {
        let (start, bytes) = (i * strip * size, out.len());
        select_slices(
            size,
            pred.get(i * strip, bytes / size),
            on_false.get(start, bytes),
            on_true.get(start, bytes),
            out,
        );
    }
}

/// `out = cases[which]`; `which` is `bool` or `int32`, and is clamped to the cases there are.
///
/// # Panics
/// If there is no case, the lengths differ, or a splat has more than eight bytes.
pub fn select_n(
    which_dtype: DType,
    which: Operand<'_>,
    size: usize,
    cases: &[Operand<'_>],
    out: &mut [u8],
) {
    assert!(matches!(which_dtype, DType::Bool | DType::I32), "{which_dtype} selects nothing");
    if let (DType::Bool, [on_false, on_true]) = (which_dtype, cases) {
        return select(which, size, *on_false, *on_true, out);
    }
    let last = cases.len() - 1;
    let pick = |bits: u64| (bits as i32).clamp(0, last as i32) as usize;
    let which = match which {
        Operand::Splat(bits) => return cases[pick(bits)].copy_to(size, out),
        Operand::Slice(which) => which,
    };
    for (i, out) in out.chunks_mut(size).enumerate() {
        match cases[pick(load_scalar(which_dtype.size(), which, i))] {
            Operand::Slice(x) => out.copy_from_slice(&x[i * size..][..size]),
            Operand::Splat(bits) => out.copy_from_slice(&bits.to_le_bytes()[..size]),
        }
    }
}
