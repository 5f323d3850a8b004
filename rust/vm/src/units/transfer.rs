//! A strided copy from one view to another, planned when it is issued.

use crate::memory::area::{self, Source, Steps, Target};
use crate::memory::{Base, RefVal};
use smallvec::SmallVec;

/// One side of a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) base: Base,
    pub(crate) offset: i64,
    pub(crate) strides: SmallVec<[i64; 3]>,
    /// One past the last element touched.
    pub(crate) end: i64,
}

/// The elements that exist on both sides, with dimensions that are contiguous on both joined: mostly
/// one run, or rows of runs.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) shape: SmallVec<[i64; 3]>,
    pub(crate) from: Side,
    pub(crate) to: Side,
}

impl Side {
    fn empty() -> Side {
        Side { base: Base::Global(0), offset: 0, strides: SmallVec::new(), end: 0 }
    }

    fn begin(&mut self, view: &RefVal) {
        (self.base, self.offset) = (view.base, view.offset);
        self.strides.clear();
    }

    fn finish(&mut self, shape: &[i64]) {
        self.strides.reverse();
        let reach = shape.iter().zip(&self.strides).map(|(&n, &s)| ((n - 1) * s).max(0));
        self.end = self.offset + reach.sum::<i64>() + 1;
    }

    pub(crate) fn steps(&self) -> Steps<'_> {
        Steps { offset: self.offset, strides: &self.strides }
    }
}

impl Transfer {
    /// From one view to another of its shape; `None` if there is nothing to copy. `spare` is one
    /// that is done, whose memory is used again.
    pub(crate) fn new(
        spare: Option<Box<Transfer>>,
        source: &RefVal,
        target: &RefVal,
    ) -> Option<Box<Transfer>> {
        debug_assert_eq!(source.dims.len(), target.dims.len());
        if source.void || target.void {
            return None;
        }
        let mut transfer = spare.unwrap_or_else(|| {
            let (from, to) = (Side::empty(), Side::empty());
            Box::new(Transfer { shape: SmallVec::new(), from, to })
        });
        let Transfer { shape, from, to } = &mut *transfer;
        shape.clear();
        from.begin(source);
        to.begin(target);
        // Innermost first; turned round at the end.
        for (s, t) in source.dims.iter().zip(&target.dims).rev() {
            let lo = s.lo.max(t.lo);
            let n = s.hi.min(t.hi) - lo;
            if n <= 0 {
                return None;
            }
            from.offset += lo * s.stride;
            to.offset += lo * t.stride;
            if n == 1 {
                continue;
            }
            match (shape.last_mut(), from.strides.last(), to.strides.last()) {
                (Some(inner), Some(f), Some(g))
                    if s.stride == *inner * f && t.stride == *inner * g =>
                {
                    *inner *= n;
                }
                _ => {
                    shape.push(n);
                    from.strides.push(s.stride);
                    to.strides.push(t.stride);
                }
            }
        }
        if shape.is_empty() {
            shape.push(1);
            from.strides.push(1);
            to.strides.push(1);
        }
        shape.reverse();
        from.finish(shape);
        to.finish(shape);
        Some(transfer)
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// Row-major strides over the elements of the transfer.
    pub(crate) fn dense(&self) -> SmallVec<[i64; 3]> {
        let mut strides: SmallVec<[i64; 3]> = SmallVec::from_elem(1, self.shape.len());
        for d in (1..self.shape.len()).rev() {
            strides[d - 1] = strides[d] * self.shape[d];
        }
        strides
    }

    /// Copies from source to target.
    pub(crate) fn copy(&self, elem: usize, source: Source<'_>, target: Target<'_>) {
        area::copy(elem, &self.shape, source, self.from.steps(), target, self.to.steps());
    }

    /// Copies from the source to dense bytes.
    pub(crate) fn gather(&self, elem: usize, source: Source<'_>, dense: &mut [u8]) {
        let strides = self.dense();
        let steps = Steps { offset: 0, strides: &strides };
        area::copy(elem, &self.shape, source, self.from.steps(), dense.into(), steps);
    }

    /// Copies dense bytes to the target.
    pub(crate) fn scatter(&self, elem: usize, dense: &[u8], target: Target<'_>) {
        let strides = self.dense();
        let steps = Steps { offset: 0, strides: &strides };
        area::copy(elem, &self.shape, dense.into(), steps, target, self.to.steps());
    }

    /// Copies what the target holds to dense bytes.
    pub(crate) fn gather_target(&self, elem: usize, target: Source<'_>, dense: &mut [u8]) {
        let strides = self.dense();
        let steps = Steps { offset: 0, strides: &strides };
        area::copy(elem, &self.shape, target, self.to.steps(), dense.into(), steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pallas_rs_ir::{SliceDim, Start};

    fn view(number: u32, shape: &[usize], window: &[(i64, usize)]) -> RefVal {
        let dims: Vec<SliceDim> = window
            .iter()
            .map(|&(start, size)| SliceDim::Slice { start: Start::Static(start), size, stride: 1 })
            .collect();
        RefVal::whole(Base::Global(number), shape).slice(&dims, [])
    }

    #[test]
    fn contiguous_dimensions_become_one_run() {
        let t = Transfer::new(
            None,
            &view(0, &[8, 4, 4], &[(2, 3), (0, 4), (0, 4)]),
            &view(1, &[3, 4, 4], &[(0, 3), (0, 4), (0, 4)]),
        )
        .unwrap();
        assert_eq!((&t.shape[..], t.from.offset, t.from.end, t.len()), (&[48][..], 32, 80, 48));
        let t = Transfer::new(
            None,
            &view(0, &[8, 8], &[(1, 2), (2, 4)]),
            &view(1, &[2, 4], &[(0, 2), (0, 4)]),
        )
        .unwrap();
        assert_eq!(
            (&t.shape[..], &t.from.strides[..], &t.to.strides[..]),
            (&[2, 4][..], &[8, 1][..], &[4, 1][..])
        );
        assert_eq!((t.from.end, t.to.end), (8 + 2 + 8 + 3 + 1, 8));
    }

    #[test]
    fn only_what_exists_on_both_sides() {
        let t = Transfer::new(None, &view(0, &[6], &[(-2, 4)]), &view(1, &[4], &[(0, 4)])).unwrap();
        assert_eq!((&t.shape[..], t.from.offset, t.to.offset), (&[2][..], 0, 2));
        assert!(
            Transfer::new(None, &view(0, &[6], &[(6, 4)]), &view(1, &[4], &[(0, 4)])).is_none()
        );
        let t = Transfer::new(None, &view(0, &[6], &[(3, 1)]), &view(1, &[1], &[(0, 1)])).unwrap();
        assert_eq!((&t.shape[..], t.from.offset, t.to.end), (&[1][..], 3, 1));
    }

    #[test]
    fn dense_bytes_in_between() {
        let t = Transfer::new(
            None,
            &view(0, &[2, 4], &[(0, 2), (1, 2)]),
            &view(1, &[4, 2], &[(1, 2), (0, 2)]),
        )
        .unwrap();
        let source: Vec<u8> = (0..8).collect();
        let mut dense = [0; 4];
        t.gather(1, source[..].into(), &mut dense);
        assert_eq!(dense, [1, 2, 5, 6]);
        let mut target = [0; 8];
        t.scatter(1, &dense, (&mut target[..]).into());
        assert_eq!(target, [0, 0, 1, 2, 5, 6, 0, 0]);
        t.gather_target(1, target[..].into(), &mut dense);
        assert_eq!(dense, [1, 2, 5, 6]);
        let mut direct = [0; 8];
        t.copy(1, source[..].into(), (&mut direct[..]).into());
        assert_eq!(direct, target);
    }
}
