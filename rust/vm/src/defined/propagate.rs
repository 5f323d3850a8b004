//! What the tags of a result are, given those of the operands: one arm per op without memory.

use super::memory::unravel;
use super::shade::{Shade, either};

/// The tags of a result of this shape whose element `index` comes from the operand element that
/// `from` names; `None`: from none.
pub(super) fn moved(
    shape: &[usize],
    operand: &Shade,
    operand_shape: &[usize],
    from: impl Fn(&[usize]) -> Option<Vec<usize>>,
) -> Shade {
    match operand {
        Shade::All(0) => Shade::All(0),
        _ => Shade::from_fn(shape.iter().product(), |i| {
            from(&unravel(i, shape)).map_or(0, |index| operand.at(ravel(&index, operand_shape)))
        }),
    }
}

/// The number of an element, counted row-major.
pub(super) fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + i)
}

/// A result element depends on all operand elements that agree with it in the dimensions that stay.
pub(super) fn reduced(operand: &Shade, shape: &[usize], axes: &[usize]) -> Shade {
    let Shade::Each(tags) = operand else { return operand.clone() };
    let kept: Vec<usize> = (0..shape.len()).filter(|d| !axes.contains(d)).collect();
    let result: Vec<usize> = kept.iter().map(|&d| shape[d]).collect();
    let mut out = vec![0; result.iter().product()];
    for (i, &tag) in tags.iter().enumerate() {
        let index = unravel(i, shape);
        let target: Vec<usize> = kept.iter().map(|&d| index[d]).collect();
        let at = ravel(&target, &result);
        out[at] = either(out[at], tag);
    }
    Shade::new(out)
}

/// A result element depends on those before it along an axis.
pub(super) fn accumulated(operand: &Shade, shape: &[usize], axis: usize, reverse: bool) -> Shade {
    let Shade::Each(tags) = operand else { return operand.clone() };
    let mut out = tags.to_vec();
    let stride: usize = shape[axis + 1..].iter().product();
    let along = |i: usize| i / stride % shape[axis];
    let mut carry = |i: usize, before: usize| out[i] = either(out[i], out[before]);
    if reverse {
        for i in (0..tags.len()).rev().filter(|&i| along(i) + 1 < shape[axis]) {
            carry(i, i + stride);
        }
    } else {
        for i in (0..tags.len()).filter(|&i| along(i) > 0) {
            carry(i, i - stride);
        }
    }
    Shade::new(out)
}

/// `lhs @ rhs` for matrices of `m` rows and `n` columns: garbage in a row or column spoils all that
/// is made from it.
pub(super) fn product(lhs: &Shade, rhs: &Shade, [m, k, n]: [usize; 3]) -> Shade {
    if lhs.is_defined() && rhs.is_defined() {
        return Shade::All(0);
    }
    let rows = reduced(lhs, &[m, k], &[1]);
    let cols = reduced(rhs, &[k, n], &[0]);
    Shade::from_fn(m * n, |i| either(rows.at(i / n), cols.at(i % n)))
}
