//! Tensor memory and the tensor cores that work on it.

use super::check::{Check, Rule, ensure};
use super::sync::{data_in, one_barrier};
use crate::attrs::TmemFormat;
use crate::types::{RefType, Space, Type};
use pallas_rs_core::{DType, matmul_supports};

/// Blocks along the minor dimension of the cluster come in pairs.
fn pairs(c: &Check<'_>, pair: bool) -> Rule {
    let minor = c.program.cluster.last().copied().unwrap_or(1);
    ensure(!pair || minor == 2, "minor cluster dimension", 2, minor)
}

pub(super) fn async_load_tmem(c: &Check<'_>) -> Rule {
    let (source, dtype) = data_in(c, 0, Space::Tmem)?;
    c.returns(Type::value(dtype, source.shape.clone()))
}

pub(super) fn async_store_tmem(c: &Check<'_>) -> Rule {
    let (target, dtype) = data_in(c, 0, Space::Tmem)?;
    c.is(1, &Type::value(dtype, target.shape.clone()))?;
    c.results(&[])
}

pub(super) fn async_copy_smem_to_tmem(c: &Check<'_>, format: TmemFormat, pair: bool) -> Rule {
    pairs(c, pair)?;
    let (source, dtype) = data_in(c, 0, Space::Smem)?;
    let (target, _) = data_in(c, 1, Space::Tmem)?;
    let shape = match (format, &source.shape[..]) {
        (TmemFormat::Plain, shape) => shape.to_vec(),
        (TmemFormat::Scales, &[rows, columns, 32, 16]) => vec![128 * rows, 4 * columns],
        (TmemFormat::PairScales, &[1, columns, 64, 16]) => vec![256, 4 * columns],
        (TmemFormat::Metadata, &[rows, columns, 128, 64]) => vec![128 * rows, 64 * columns],
        (TmemFormat::Scales | TmemFormat::PairScales | TmemFormat::Metadata, _) => {
            return ensure(false, "source", format_args!("the shape of {format:?}"), source);
        }
    };
    let expected = RefType::data(Space::Tmem, dtype, shape);
    ensure(*target == expected, "target", &expected, target)?;
    c.results(&[])
}

pub(super) fn tcgen05_mma(c: &Check<'_>, pair: bool) -> Rule {
    pairs(c, pair)?;
    let (acc, acc_dtype) = data_in(c, 0, Space::Tmem)?;
    let (a, a_dtype) = c.data(1)?;
    let reachable = matches!(a.space, Space::Smem | Space::Tmem);
    ensure(reachable, "a", "a ref to smem or tmem", a)?;
    let (b, b_dtype) = data_in(c, 2, Space::Smem)?;
    let scales = c.optional(4).zip(c.optional(5));
    let metadata = c.optional(6);
    let (blocks, halves) = (if pair { 2 } else { 1 }, if metadata.is_some() { 2 } else { 1 });
    let (&[m, n], &[am, ak], &[k, bn]) = (&acc.shape[..], &a.shape[..], &b.shape[..]) else {
        return ensure(false, "operands", "matrices", format_args!("{acc}, {a}, {b}"));
    };
    let fits = m == am && n == blocks * bn && k == halves * ak;
    let got = format_args!("{:?} += {:?} @ {:?}", acc.shape, a.shape, b.shape);
    let expected = format_args!("[m, {blocks} n] += [m, k / {halves}] @ [k, n]");
    ensure(fits, "shapes", expected, got)?;

    let got = format_args!("{a_dtype} by {b_dtype} to {acc_dtype}");
    let supported = matmul_supports(a_dtype, b_dtype, acc_dtype);
    ensure(supported, "dtypes", "a product that exists", got)?;
    if let Some((a_scale, b_scale)) = scales {
        ensure(acc_dtype == DType::F32, "dtypes", "a float32 accumulator", got)?;
        for (what, scale, rows) in [("a_scale", a_scale, m), ("b_scale", b_scale, n)] {
            let fits = scale.as_ref().is_some_and(|r| {
                let float = r.dtype().is_some_and(DType::is_float);
                let shape = matches!(r.shape[..], [r, s] if r >= rows && s > 0 && k % s == 0);
                float && shape && r.space == Space::Tmem
            });
            let expected = format_args!("a ref to tmem, {rows} rows of scales that divide {k}");
            ensure(fits, what, expected, scale)?;
        }
        let columns = |ty: &Type| ty.shape()[1];
        ensure(columns(a_scale) == columns(b_scale), "b_scale", a_scale, b_scale)?;
    }
    if let Some(metadata) = metadata {
        // Two elements of four are kept, and of narrow types two pairs of eight.
        let per_selector = if a_dtype.packed_bits() < 8 { 2 } else { 1 };
        let expected = RefType::data(Space::Tmem, DType::U2, [m, ak / per_selector]);
        ensure(metadata.as_ref() == Some(&expected), "metadata", &expected, metadata)?;
        let whole = ak.is_multiple_of(2 * per_selector);
        ensure(whole, "a", "whole groups", a)?;
    }
    c.is(3, &Type::Scalar(DType::Bool))?;
    c.results(&[])
}

pub(super) fn tcgen05_commit_arrive(c: &Check<'_>, pair: bool) -> Rule {
    pairs(c, pair)?;
    one_barrier("barrier", c.ty(0))?;
    c.mask(1, &[])?;
    c.results(&[])
}
