//! Operands that are stored as less than they are: 2:4 sparse, or scaled block by block.

use crate::{DType, convert};

/// The dense form of a sparse matrix: of every four elements of a row two are stored, of types
/// narrower than a byte two pairs of every eight. `selectors` holds two numbers below four for every
/// group: where its stored elements (or pairs) stand. Dense bytes throughout.
///
/// # Panics
/// If the lengths do not fit each other.
pub fn expand_sparse(dtype: DType, stored: &[u8], selectors: &[u8], out: &mut [u8]) {
    let unit = if dtype.packed_bits() < 8 { 2 } else { 1 } * dtype.size();
    assert!(stored.len() == selectors.len() * unit && out.len() == 2 * stored.len());
    out.fill(0);
    let groups = stored.chunks_exact(2 * unit).zip(selectors.chunks_exact(2));
    for ((stored, selectors), out) in groups.zip(out.chunks_exact_mut(4 * unit)) {
        for (unit_bytes, &selector) in stored.chunks_exact(unit).zip(selectors) {
            let at = usize::from(selector & 3) * unit;
            out[at..at + unit].copy_from_slice(unit_bytes);
        }
    }
}

/// The selectors of a sparse operand in their order, from the order in which tensor memory keeps
/// them. For types of 16 bits, bit 3 of the row and bit 3 of the column are exchanged (PTX ISA,
/// sparsity selector of `.kind::f16`); all others are in order already.
///
/// # Panics
/// If the matrix does not consist of blocks of 16 by 16 where it has to.
pub fn order_selectors(dtype: DType, columns: usize, kept: &[u8], out: &mut [u8]) {
    if dtype.packed_bits() != 16 {
        return out.copy_from_slice(kept);
    }
    let rows = kept.len() / columns;
    assert!(rows.is_multiple_of(16) && columns.is_multiple_of(16));
    for row in 0..rows {
        for column in 0..columns {
            let (from_row, from_column) = (row & !8 | column & 8, column & !8 | row & 8);
            out[row * columns + column] = kept[from_row * columns + from_column];
        }
    }
}

/// `out[r, c] = x[r, c] * scales[r, c / block]` in `float32`. `x` has `columns` columns, the scales
/// `columns / block`; all are dense.
///
/// # Panics
/// If the lengths do not fit each other.
pub fn scale_blocks(
    (dtype, x): (DType, &[u8]),
    (scale_dtype, scales): (DType, &[u8]),
    block: usize,
    out: &mut [u8],
) {
    let mut factors = vec![0.0f32; scales.len() / scale_dtype.size()];
    convert(scale_dtype, DType::F32, scales, bytemuck::cast_slice_mut(&mut factors));
    convert(dtype, DType::F32, x, out);
    let out = out.as_chunks_mut::<4>().0;
    assert_eq!(out.len(), factors.len() * block, "the scales do not cover the matrix");
    for (out, factor) in out.chunks_exact_mut(block).zip(factors) {
        for x in out {
            *x = (f32::from_le_bytes(*x) * factor).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_place_elements_and_pairs() {
        let mut out = [9; 8];
        expand_sparse(DType::I8, &[1, 2, 3, 4], &[0, 3, 1, 2], &mut out);
        assert_eq!(out, [1, 0, 0, 2, 0, 3, 4, 0]);
        let mut out = [9; 8];
        expand_sparse(DType::F4E2M1FN, &[1, 2, 3, 4], &[1, 3], &mut out);
        assert_eq!(out, [0, 0, 1, 2, 0, 0, 3, 4]);
    }

    #[test]
    fn the_order_of_selectors_is_its_own_inverse() {
        let kept: Vec<u8> = (0..=255).collect();
        let (mut once, mut twice) = ([0; 256], [0; 256]);
        order_selectors(DType::F16, 16, &kept, &mut once);
        assert_eq!((once[8], once[8 * 16], once[8 * 16 + 8]), (8 * 16, 8, 8 * 16 + 8));
        order_selectors(DType::BF16, 16, &once, &mut twice);
        assert_eq!(twice[..], kept[..]);
        order_selectors(DType::F8E5M2, 16, &kept, &mut once);
        assert_eq!(once[..], kept[..]);
    }

    #[test]
    fn scales_count_along_the_columns() {
        // 1, 2 | 3, 4 in e2m1; scales 2 and 1/2 in e8m0.
        let mut out = [0; 16];
        let x = [0b010, 0b100, 0b101, 0b110];
        scale_blocks((DType::F4E2M1FN, &x), (DType::F8E8M0FNU, &[128, 126]), 2, &mut out);
        let out: Vec<f32> = out.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        assert_eq!(out, [2.0, 4.0, 1.5, 2.0]);
    }
}
