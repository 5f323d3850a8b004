//! Constants and elementwise arithmetic.

use super::check::{Check, Problem, Rule, element_count, ensure};
use crate::types::Type;
use pallas_rs_core::{BinaryKind, CompareKind, DType, UnaryKind, convert_supports};

pub(super) fn constant(c: &Check<'_>, bits: u64) -> Rule {
    let (dtype, _) = c.result_value()?;
    ensure(dtype.fits_scalar(), "result", "a dtype of at most 64 bits", dtype)?;
    let largest = match dtype {
        DType::Bool => 1,
        _ => u64::MAX >> (64 - 8 * dtype.size()),
    };
    ensure(bits <= largest, "bits", format_args!("at most {largest:#x}"), format_args!("{bits:#x}"))
}

pub(super) fn constant_array(c: &Check<'_>, blob: usize) -> Rule {
    let (dtype, shape) = c.result_value()?;
    let tile = matches!(c.result()?, Type::Tile(..));
    ensure(tile, "result", "a tile", c.result()?)?;
    let bytes = blob_len(c, blob)?;
    let expected = element_count(shape) * dtype.size();
    ensure(bytes == expected, "blob", format_args!("{expected} bytes"), bytes)
}

pub(super) fn blob_len(c: &Check<'_>, blob: usize) -> Rule<usize> {
    let blobs = &c.program.blobs;
    let found = blobs.get(blob).map(Vec::len);
    found.ok_or_else(|| Problem::new("blob", format_args!("less than {}", blobs.len()), blob))
}

/// An elementwise function is defined on a dtype.
fn defined(what: &str, on: DType, holds: bool) -> Rule {
    ensure(holds, what, "a dtype it is defined on", on)
}

pub(super) fn unary(c: &Check<'_>, kind: UnaryKind) -> Rule {
    let (dtype, shape) = c.value(0)?;
    defined(&format!("{kind:?}"), dtype, kind.supports(dtype))?;
    c.returns(Type::value(kind.result(dtype), shape))
}

pub(super) fn binary(c: &Check<'_>, kind: BinaryKind) -> Rule {
    let (dtype, _) = c.value(0)?;
    defined(&format!("{kind:?}"), dtype, kind.supports(dtype))?;
    c.is(1, c.ty(0))?;
    c.returns(c.ty(0).clone())
}

pub(super) fn compare(c: &Check<'_>, kind: CompareKind) -> Rule {
    let (dtype, shape) = c.value(0)?;
    defined(&format!("{kind:?}"), dtype, kind.supports(dtype))?;
    c.is(1, c.ty(0))?;
    c.returns(Type::value(DType::Bool, shape))
}

pub(super) fn integer_pow(c: &Check<'_>, exponent: i32) -> Rule {
    let (dtype, _) = c.value(0)?;
    let holds = dtype.is_float() || (dtype.is_int() && exponent >= 0);
    defined(&format!("power {exponent}"), dtype, holds)?;
    c.returns(c.ty(0).clone())
}

pub(super) fn select_n(c: &Check<'_>) -> Rule {
    let (which, shape) = c.value(0)?;
    let cases = c.types(1);
    let Some(case) = cases.first() else {
        return Err(Problem::new("cases", "at least one", 0));
    };
    for other in &cases {
        ensure(other == case, "case", case, other)?;
    }
    let fits = match which {
        DType::Bool => cases.len() == 2,
        DType::I32 => true,
        _ => false,
    };
    let expected = format_args!("bool for two cases, or int32");
    ensure(fits, "which", expected, format_args!("{which} for {}", cases.len()))?;
    let fits = shape.is_empty() || shape == case.shape();
    ensure(fits, "which", "a scalar or the cases' shape", c.ty(0))?;
    c.returns((*case).clone())
}

pub(super) fn clamp(c: &Check<'_>) -> Rule {
    let (dtype, shape) = c.value(1)?;
    defined("clamp", dtype, BinaryKind::Min.supports(dtype))?;
    for bound in [0, 2] {
        let (bound_dtype, bound_shape) = c.value(bound)?;
        let fits = bound_dtype == dtype && (bound_shape.is_empty() || bound_shape == shape);
        ensure(fits, c.name(bound), format_args!("{} or its scalar", c.ty(1)), c.ty(bound))?;
    }
    c.returns(c.ty(1).clone())
}

pub(super) fn convert(c: &Check<'_>) -> Rule {
    let (from, shape) = c.value(0)?;
    let (to, _) = c.result_value()?;
    ensure(
        convert_supports(from, to),
        "dtypes",
        "a conversion that exists",
        format_args!("{from} to {to}"),
    )?;
    c.returns(Type::value(to, shape))
}

pub(super) fn bitcast(c: &Check<'_>) -> Rule {
    let (from, shape) = c.value(0)?;
    let (to, _) = c.result_value()?;
    let same = from.packed_bits() == to.packed_bits();
    ensure(same, "dtypes", "equal widths", format_args!("{from} to {to}"))?;
    c.returns(Type::value(to, shape))
}

pub(super) fn reduce_precision(c: &Check<'_>, exponent_bits: u32, mantissa_bits: u32) -> Rule {
    let (dtype, _) = c.value(0)?;
    defined("reduce_precision", dtype, dtype.is_float())?;
    let fits = (1..=11).contains(&exponent_bits) && mantissa_bits <= 52;
    let got = format_args!("{exponent_bits} and {mantissa_bits}");
    ensure(fits, "bits", "1 to 11 for the exponent and at most 52 for the mantissa", got)?;
    c.returns(c.ty(0).clone())
}
