//! Which element of a ref lies at which byte of the tiled, swizzled view that a body addresses.

use pallas_rs_core::DType;
use pallas_rs_ir::lane::LaneView;

/// No element: padding between rows, or past the end.
pub(super) const PADDING: u32 = u32::MAX;
/// Bytes that swizzling repeats within at most.
const SWIZZLE_PERIOD: usize = 1024;

/// A view.
#[derive(Debug)]
pub(crate) struct ViewMap {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// Bits of an element in memory.
    pub(super) bits: usize,
    /// Number of elements.
    pub(super) len: usize,
    /// By element of physical memory: its row-major number in the logical shape. None where the two
    /// are the same.
    table: Option<Vec<u32>>,
}

impl ViewMap {
    pub(super) fn new(view: &LaneView) -> ViewMap {
        let bits = view.dtype.packed_bits();
        let len = view.shape.iter().product();
        let dense: Vec<i64> = (0..view.shape.len())
            .map(|d| view.shape[d + 1..].iter().product::<usize>() as i64)
            .collect();
        if view.tilings.is_empty() && view.swizzle <= 16 && view.strides == dense {
            return ViewMap {
                dtype: view.dtype,
                shape: view.shape.clone(),
                bits,
                len,
                table: None,
            };
        }
        let (shape, numbers) = tiled(view);
        let mut places = vec![0usize; numbers.len()];
        let mut inner = places.len();
        for (&n, &stride) in shape.iter().zip(&view.strides) {
            // Index of this dimension at each position of the tiled shape, row-major.
            inner /= n.max(1);
            for (position, place) in places.iter_mut().enumerate() {
                *place += position / inner.max(1) % n.max(1) * stride as usize;
            }
        }
        let end = places.iter().max().map_or(0, |last| last + 1);
        let period = SWIZZLE_PERIOD * 8 / bits;
        let mut flat = vec![PADDING; end.next_multiple_of(period)];
        for (place, number) in places.into_iter().zip(numbers) {
            flat[place] = number;
        }
        let logical = if view.swizzle > 16 {
            let chunk = 128 / bits;
            (0..flat.len())
                .map(|at| {
                    let (unit, within) = (at / chunk, at % chunk);
                    // Units of 16 bytes, exclusive-ored with the number of their row of 128 bytes.
                    let row = (unit / 8) % (view.swizzle as usize / 16);
                    flat[(unit ^ row) * chunk + within]
                })
                .collect()
        } else {
            flat
        };
        let table = Some(logical);
        ViewMap { dtype: view.dtype, shape: view.shape.clone(), bits, len, table }
    }

    /// Row-major strides of the last dimensions of the logical shape.
    pub(super) fn inner_strides(&self, rank: usize) -> Vec<i64> {
        let lead = self.shape.len() - rank;
        let behind = |d: usize| self.shape[d + 1..].iter().product::<usize>() as i64;
        (lead..self.shape.len()).map(behind).collect()
    }

    /// The logical number of the element that starts at a byte.
    pub(super) fn number_at(&self, byte: i64) -> Option<u32> {
        let bit = usize::try_from(byte).ok()? * 8;
        let found = self.logical(bit / self.bits)?;
        (bit.is_multiple_of(self.bits) && found != PADDING).then_some(found)
    }

    /// The logical number of an element of physical memory, or [`PADDING`]; `None` past the end.
    #[inline]
    pub(super) fn logical(&self, physical: usize) -> Option<u32> {
        match &self.table {
            Some(table) => table.get(physical).copied(),
            None => (physical < self.len).then_some(physical as u32),
        }
    }
}

/// The tiled shape, and the logical number of each of its elements in row-major order.
fn tiled(view: &LaneView) -> (Vec<usize>, Vec<u32>) {
    let len: usize = view.shape.iter().product();
    let mut shape = view.shape.clone();
    let mut numbers: Vec<u32> = (0..len as u32).collect();
    for tiling in &view.tilings {
        let k = tiling.len();
        let lead = shape.len() - k;
        let outer: Vec<usize> = shape[lead..].iter().zip(tiling).map(|(n, t)| n / t).collect();
        let mut next: Vec<usize> = shape[..lead].to_vec();
        next.extend(&outer);
        next.extend(tiling);
        let mut reordered = Vec::with_capacity(len);
        let mut index = vec![0; next.len()];
        for _ in 0..len {
            let mut at = 0;
            for d in 0..shape.len() {
                let i = match d.checked_sub(lead) {
                    None => index[d],
                    Some(t) => index[d] * tiling[t] + index[d + k],
                };
                at = at * shape[d] + i;
            }
            reordered.push(numbers[at]);
            for d in (0..next.len()).rev() {
                index[d] += 1;
                if index[d] < next[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        (shape, numbers) = (next, reordered);
    }
    (shape, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_and_swizzle() {
        let view = LaneView {
            dtype: DType::BF16,
            shape: vec![16, 128],
            tilings: vec![vec![8, 64]],
            strides: vec![1024, 512, 64, 1],
            swizzle: 128,
        };
        let map = ViewMap::new(&view);
        let at = |physical| map.logical(physical).unwrap();
        assert_eq!(at(0), 0);
        // Row 1 of the first tile: its first 16 bytes stand in the second unit.
        assert_eq!(at(64 + 8), 128);
        assert_eq!(at(64), 128 + 8);
        // The second tile of the first row.
        assert_eq!(at(512), 64);
        let mut all: Vec<u32> = (0..2048).map(at).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..2048));
        assert_eq!(map.logical(2048), None);
    }

    #[test]
    fn padding_is_no_element() {
        let view = LaneView {
            dtype: DType::F32,
            shape: vec![2, 3],
            tilings: vec![],
            strides: vec![4, 1],
            swizzle: 16,
        };
        let map = ViewMap::new(&view);
        let found: Vec<u32> = (0..8).map(|at| map.logical(at).unwrap()).collect();
        assert_eq!(found, [0, 1, 2, PADDING, 3, 4, 5, PADDING]);
    }
}
