//! The bytes an access touches, in a form that can be compared and intersected exactly.

use crate::observer;
use smallvec::SmallVec;

/// Bytes of an allocation: runs of `run` bytes, repeated `count` times every `stride` bytes per
/// dimension, outermost first. Canonical: two accesses of the same elements through differently
/// shaped views have equal windows wherever their runs are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ByteWindow {
    start: i64,
    run: i64,
    dims: SmallVec<[(i64, i64); 3]>,
}

impl ByteWindow {
    /// The bytes of a view; none if it is empty.
    pub(crate) fn new(window: &observer::Window<'_>) -> Option<ByteWindow> {
        let elem = window.elem_size as i64;
        let mut start = window.offset * elem;
        let mut dims: SmallVec<[(i64, i64); 6]> = SmallVec::new();
        for (&size, &stride) in window.sizes.iter().zip(window.strides) {
            let (size, mut stride) = (size as i64, stride * elem);
            match size {
                0 => return None,
                1 => continue,
                _ if stride == 0 => continue,
                _ => {}
            }
            if stride < 0 {
                start += stride * (size - 1);
                stride = -stride;
            }
            dims.push((size, stride));
        }
        dims.sort_unstable_by_key(|&(_, stride)| std::cmp::Reverse(stride));
        let mut run = elem;
        while let Some(&(size, stride)) = dims.last() {
            if stride > run {
                break;
            }
            // A stride within the run (a bitcast view) covers no gap either.
            run += (size - 1) * stride;
            dims.pop();
        }
        let mut merged: SmallVec<[(i64, i64); 3]> = SmallVec::new();
        for (size, stride) in dims {
            match merged.last_mut() {
                Some((outer, above)) if *above == size * stride => {
                    *outer *= size;
                    *above = stride;
                }
                _ => merged.push((size, stride)),
            }
        }
        Some(ByteWindow { start, run, dims: merged })
    }

    /// The same bytes, further on.
    pub(crate) fn shifted(self, bytes: i64) -> ByteWindow {
        ByteWindow { start: self.start + bytes, ..self }
    }

    /// First byte, and the byte after the last one.
    pub(crate) fn hull(&self) -> (i64, i64) {
        (self.start, self.start + self.extent(0))
    }

    /// Bytes from the first to the last one of what dimensions `from..` repeat.
    fn extent(&self, from: usize) -> i64 {
        self.run + self.dims[from..].iter().map(|&(size, stride)| (size - 1) * stride).sum::<i64>()
    }

    /// Whether two windows of one allocation share a byte.
    pub(crate) fn overlaps(&self, other: &ByteWindow) -> bool {
        let runs = |w: &ByteWindow| w.dims.iter().map(|&(size, _)| size).product::<i64>();
        let (few, many) = if runs(self) <= runs(other) { (self, other) } else { (other, self) };
        few.any_run(0, few.start, &mut |from, to| many.touches(0, many.start, from, to))
    }

    fn any_run(&self, dim: usize, at: i64, test: &mut impl FnMut(i64, i64) -> bool) -> bool {
        match self.dims.get(dim) {
            None => test(at, at + self.run),
            Some(&(size, stride)) => {
                (0..size).any(|i| self.any_run(dim + 1, at + i * stride, test))
            }
        }
    }

    /// Whether it has a byte in `from..to`.
    fn touches(&self, dim: usize, at: i64, from: i64, to: i64) -> bool {
        if at >= to || at + self.extent(dim) <= from {
            return false;
        }
        let Some(&(size, stride)) = self.dims.get(dim) else { return true };
        let inner = self.extent(dim + 1);
        let first = (from - at - inner + 1).max(0).div_euclid(stride)
            + i64::from((from - at - inner + 1).max(0).rem_euclid(stride) != 0);
        let last = (to - 1 - at).div_euclid(stride).min(size - 1);
        (first..=last).any(|i| self.touches(dim + 1, at + i * stride, from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::{BaseId, Window};
    use pallas_rs_ir::Space;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn window<'a>(offset: i64, sizes: &'a [usize], strides: &'a [i64], elem: usize) -> Window<'a> {
        let base = BaseId { space: Space::Smem, number: 0 };
        Window { base, block: 0, offset, sizes, strides, elem_size: elem }
    }

    fn bytes(offset: i64, sizes: &[usize], strides: &[i64], elem: usize) -> BTreeSet<i64> {
        let mut all = vec![offset];
        for (&n, &s) in sizes.iter().zip(strides) {
            all = all.iter().flat_map(|&a| (0..n as i64).map(move |i| a + i * s)).collect();
        }
        all.iter().flat_map(|&a| (0..elem as i64).map(move |b| a * elem as i64 + b)).collect()
    }

    #[test]
    fn differently_shaped_views_of_the_same_bytes_are_equal() {
        let whole = ByteWindow::new(&window(0, &[64, 64], &[64, 1], 2)).unwrap();
        let flat = ByteWindow::new(&window(0, &[4096], &[1], 2)).unwrap();
        let turned = ByteWindow::new(&window(0, &[64, 64], &[1, 64], 2)).unwrap();
        assert_eq!(whole, flat);
        assert_eq!(whole, turned);
    }

    #[test]
    fn neighbouring_tiles_do_not_overlap() {
        let tile = |r: i64, c: i64| {
            ByteWindow::new(&window(r * 8 * 64 + c * 16, &[8, 16], &[64, 1], 4)).unwrap()
        };
        assert!(!tile(0, 0).overlaps(&tile(0, 1)));
        assert!(!tile(0, 0).overlaps(&tile(1, 0)));
        assert!(tile(1, 1).overlaps(&tile(1, 1)));
    }

    #[test]
    fn interleaved_strides_do_not_overlap() {
        let even = ByteWindow::new(&window(0, &[8], &[2], 4)).unwrap();
        let odd = ByteWindow::new(&window(1, &[8], &[2], 4)).unwrap();
        assert!(!even.overlaps(&odd));
        assert!(even.overlaps(&ByteWindow::new(&window(2, &[2], &[1], 4)).unwrap()));
    }

    proptest! {
        #[test]
        fn overlap_is_exact(
            a in (0i64..40, prop::collection::vec((0usize..4, -9i64..9), 0..4), 1usize..4),
            b in (0i64..40, prop::collection::vec((0usize..4, -9i64..9), 0..4), 1usize..4),
        ) {
            let view = |(offset, dims, elem): &(i64, Vec<(usize, i64)>, usize)| {
                let sizes: Vec<_> = dims.iter().map(|d| d.0).collect();
                let strides: Vec<_> = dims.iter().map(|d| d.1).collect();
                (ByteWindow::new(&window(*offset, &sizes, &strides, *elem)), bytes(*offset, &sizes, &strides, *elem))
            };
            let ((wa, ba), (wb, bb)) = (view(&a), view(&b));
            let want = !ba.is_disjoint(&bb);
            let got = wa.zip(wb).is_some_and(|(x, y)| x.overlaps(&y) && y.overlaps(&x));
            prop_assert_eq!(got, want);
        }
    }
}
