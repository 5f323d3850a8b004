//! Views of memory: a base allocation, an offset and, per dimension, a stride and what is valid.
//!
//! Every transform of a view is a pure function from one [`RefVal`] to another. A view may reach
//! beyond its base; then the part that exists is `lo..hi` of each dimension, and whoever accesses
//! the view decides what the rest means.

use pallas_rs_ir::{BlockDim, SliceDim, Start};
use smallvec::SmallVec;

/// The allocation a view looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    /// An argument of the kernel.
    Global(u32),
    /// Data of a block (SMEM, TMEM): entry of [`crate::machine::Block::buffers`].
    Block {
        /// Block within the cluster.
        block: u32,
        /// Allocation within the block.
        index: u32,
    },
    /// Barriers of a block: entry of [`crate::machine::Block::barriers`].
    Barrier {
        /// Block within the cluster.
        block: u32,
        /// Allocation within the block.
        index: u32,
    },
    /// Data of one thread (accumulators): entry of [`crate::machine::Thread::accumulators`].
    Thread(u32),
}

/// One dimension of a view: index `i` stands for element `offset + i * stride`, and exists for
/// `lo <= i < hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefDim {
    pub(crate) size: i64,
    pub(crate) stride: i64,
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl RefDim {
    #[inline]
    fn full(size: i64, stride: i64) -> RefDim {
        RefDim { size, stride, lo: 0, hi: size }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.lo == 0 && self.hi == self.size
    }

    fn nothing(mut self) -> RefDim {
        (self.lo, self.hi) = (0, 0);
        self
    }
}

/// A slice that left its base: what a report says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Escape {
    /// Dimension of the sliced view.
    pub(crate) axis: u32,
    /// First index asked for.
    pub(crate) start: i64,
    /// One past the last index asked for.
    pub(crate) end: i64,
    /// Size of that dimension.
    pub(crate) limit: i64,
    /// Elements of the allocation from one index of that dimension to the next.
    pub(crate) stride: i64,
}

/// A view transform that no offset and strides can express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAView;

/// A view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefVal {
    pub(crate) base: Base,
    /// Element 0 of every dimension, in elements of the allocation. Outside it where the view
    /// starts before its base.
    pub(crate) offset: i64,
    pub(crate) dims: SmallVec<[RefDim; 4]>,
    /// No element exists, though no dimension may be left to say so.
    pub(crate) void: bool,
    /// The first slice that left its base, other than a block window.
    pub(crate) escape: Option<Escape>,
}

impl RefVal {
    /// A whole allocation, row-major.
    pub(crate) fn whole(base: Base, shape: &[usize]) -> RefVal {
        let mut dims: SmallVec<[RefDim; 4]> =
            shape.iter().map(|&n| RefDim::full(n as i64, 0)).collect();
        let mut stride = 1;
        for dim in dims.iter_mut().rev() {
            dim.stride = stride;
            stride *= dim.size;
        }
        RefVal { base, offset: 0, dims, void: false, escape: None }
    }

    /// Whether every element exists.
    pub(crate) fn is_full(&self) -> bool {
        !self.void && self.dims.iter().all(RefDim::is_full)
    }

    /// Number of elements, existing or not.
    pub(crate) fn len(&self) -> i64 {
        self.dims.iter().map(|d| d.size).product()
    }

    /// The first and one past the last element of the allocation that exist in the view; `None`
    /// when none does.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        if self.void {
            return None;
        }
        let (mut first, mut last) = (self.offset, self.offset);
        for d in &self.dims {
            if d.lo >= d.hi {
                return None;
            }
            let (a, b) = (d.lo * d.stride, (d.hi - 1) * d.stride);
            first += a.min(b);
            last += a.max(b);
        }
        Some((first, last + 1))
    }

    /// Number of elements of a view that lies in memory as a tile does: nothing missing, dense,
    /// row-major.
    #[inline]
    pub(crate) fn dense_len(&self) -> Option<i64> {
        let mut len = 1;
        for d in self.dims.iter().rev() {
            if !d.is_full() || (d.stride != len && d.size != 1) {
                return None;
            }
            len *= d.size;
        }
        if self.void { None } else { Some(len) }
    }

    /// Appends elements `start, start + step, …` of dimension `axis` of the view that `self` was
    /// started from.
    // Each branch writes its dimension where it is to be: one that is chosen first and stored then
    // takes a detour through the stack which costs more than all the rest.
    #[inline]
    fn push_cut(&mut self, axis: usize, dim: &RefDim, start: i64, size: i64, step: i64) {
        if dim.is_full() && start >= 0 && step == 1 && start <= dim.size - size {
            self.offset += start * dim.stride;
            self.dims.push(RefDim { size, stride: dim.stride, lo: 0, hi: size });
        } else {
            let cut = self.cut_edge(axis, *dim, start, size, step);
            self.dims.push(cut);
        }
    }

    /// Fixes dimension `axis` at an index.
    #[inline]
    fn cut_index(&mut self, axis: usize, dim: &RefDim, index: i64) {
        if dim.is_full() && index >= 0 && index < dim.size {
            self.offset += index * dim.stride;
        } else {
            let one = self.cut_edge(axis, *dim, index, 1, 1);
            self.void |= !one.is_full();
        }
    }

    /// What is left of dimension `axis` where an edge may be in the way.
    fn cut_edge(&mut self, axis: usize, dim: RefDim, start: i64, size: i64, step: i64) -> RefDim {
        let last = start.saturating_add((size - 1).saturating_mul(step));
        if size > 0 && (start < 0 || last >= dim.size) && self.escape.is_none() {
            let end = last.saturating_add(1);
            let (limit, stride) = (dim.size, dim.stride);
            self.escape = Some(Escape { axis: axis as u32, start, end, limit, stride });
        }
        self.offset = self.offset.wrapping_add(start.wrapping_mul(dim.stride));
        // start + i * step within dim.lo..dim.hi.
        let first_at_least = |bound: i64| {
            let gap = bound.saturating_sub(start);
            if step == 1 {
                gap
            } else {
                gap.div_euclid(step) + i64::from(gap.rem_euclid(step) != 0)
            }
        };
        let lo = first_at_least(dim.lo).clamp(0, size);
        let hi = first_at_least(dim.hi).clamp(lo, size);
        RefDim { size, stride: dim.stride.wrapping_mul(step), lo, hi }
    }

    /// Indexes and slices; `starts` are the dynamic ones in order.
    pub(crate) fn slice(&self, dims: &[SliceDim], starts: impl IntoIterator<Item = i64>) -> RefVal {
        let mut out = RefVal::nothing();
        self.slice_into(dims, starts, &mut out);
        out
    }

    /// As [`RefVal::slice`], over a view that is there already.
    #[inline]
    pub(crate) fn slice_into(
        &self,
        dims: &[SliceDim],
        starts: impl IntoIterator<Item = i64>,
        out: &mut RefVal,
    ) {
        out.restart(self);
        let mut starts = starts.into_iter();
        let mut resolve = |start: Start| match start {
            Start::Static(i) => i,
            Start::Dynamic => starts.next().expect("the verifier counted the starts"),
        };
        for (axis, (spec, dim)) in dims.iter().zip(&self.dims).enumerate() {
            match *spec {
                SliceDim::Index(start) => out.cut_index(axis, dim, resolve(start)),
                SliceDim::Slice { start, size, stride } => {
                    out.push_cut(axis, dim, resolve(start), size as i64, stride as i64);
                }
            }
        }
        out.settle();
    }

    /// The block a `BlockSpec` selects. Elements past the array's edge do not exist, which is not an
    /// escape.
    ///
    /// # Errors
    /// The dimension along which the block misses the array.
    pub(crate) fn block_window(
        &self,
        dims: &[BlockDim],
        indices: impl IntoIterator<Item = i64>,
    ) -> Result<RefVal, Escape> {
        let mut out = RefVal::nothing();
        self.block_window_into(dims, indices, &mut out)?;
        Ok(out)
    }

    /// As [`RefVal::block_window`], over a view that is there already.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn block_window_into(
        &self,
        dims: &[BlockDim],
        indices: impl IntoIterator<Item = i64>,
        out: &mut RefVal,
    ) -> Result<(), Escape> {
        out.restart(self);
        let mut indices = indices.into_iter();
        for (axis, (spec, dim)) in dims.iter().zip(&self.dims).enumerate() {
            let index = indices.next().expect("the verifier counted the indices");
            let (start, size, before, behind) = match *spec {
                BlockDim::Blocked(b) => (index.saturating_mul(b as i64), b as i64, 0, 0),
                BlockDim::Squeezed => (index, 1, 0, 0),
                BlockDim::Element { size, lo, hi } => {
                    (index.saturating_sub(lo as i64), size as i64, lo as i64, hi as i64)
                }
            };
            let starts_inside = -before <= start && start < dim.size + behind;
            if size > 0 && !starts_inside {
                let (end, limit, stride) = (start.saturating_add(size), dim.size, dim.stride);
                return Err(Escape { axis: axis as u32, start, end, limit, stride });
            }
            match spec {
                BlockDim::Squeezed => out.cut_index(axis, dim, start),
                BlockDim::Blocked(_) | BlockDim::Element { .. } => {
                    out.push_cut(axis, dim, start, size, 1);
                }
            }
        }
        out.escape = self.escape;
        out.settle();
        Ok(())
    }

    /// Result dimension `i` is dimension `perm[i]`.
    pub(crate) fn transpose(&self, perm: &[usize]) -> RefVal {
        let mut out = self.header();
        out.dims.extend(perm.iter().map(|&p| self.dims[p]));
        out
    }

    /// The same elements in row-major order at another shape.
    ///
    /// # Errors
    /// When offset and strides cannot say it, or an edge would cut through a new dimension.
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<RefVal, NotAView> {
        let mut out = self.header();
        if self.len() == 0 {
            out.dims.extend(shape.iter().map(|&n| RefDim::full(n as i64, 0)));
            return Ok(out);
        }
        let mut old: &[RefDim] = &self.dims;
        let mut new = shape;
        while !new.is_empty() || !old.is_empty() {
            // The shortest runs of old and new dimensions with as many elements.
            let (mut taken, mut made) = (1, 1);
            let (mut i, mut j) = (0, 0);
            loop {
                if i < old.len() && (i == 0 || taken < made) {
                    taken *= old[i].size;
                    i += 1;
                } else if j < new.len() && (j == 0 || made < taken) {
                    made *= new[j] as i64;
                    j += 1;
                } else {
                    break;
                }
            }
            if taken != made {
                return Err(NotAView);
            }
            regroup(&old[..i], &new[..j], &mut out)?;
            (old, new) = (&old[i..], &new[j..]);
        }
        out.settle();
        Ok(out)
    }

    /// The same bytes as elements of another size; `shape` is the result's.
    ///
    /// # Errors
    /// When the dimension whose size changes is not dense.
    pub(crate) fn bitcast(
        &self,
        from: usize,
        to: usize,
        shape: &[usize],
    ) -> Result<RefVal, NotAView> {
        let (from, to) = (from as i64, to as i64);
        if from == to {
            return Ok(self.clone());
        }
        let changed = (0..self.dims.len()).find(|&i| self.dims[i].size != shape[i] as i64);
        let mut out = self.header();
        let rescale = |elements: i64| {
            let bytes = elements * from;
            (bytes % to == 0).then_some(bytes / to).ok_or(NotAView)
        };
        out.offset = rescale(self.offset)?;
        for (axis, dim) in self.dims.iter().enumerate() {
            out.dims.push(if Some(axis) == changed {
                if dim.stride != 1 {
                    return Err(NotAView);
                }
                RefDim {
                    size: shape[axis] as i64,
                    stride: 1,
                    lo: rescale(dim.lo)?,
                    hi: rescale(dim.hi)?,
                }
            } else if dim.size == 1 {
                RefDim { stride: 0, ..*dim }
            } else {
                RefDim { stride: rescale(dim.stride)?, ..*dim }
            });
        }
        Ok(out)
    }

    /// A view of nothing, to be made into another.
    pub(crate) fn nothing() -> RefVal {
        RefVal { base: Base::Global(0), offset: 0, dims: SmallVec::new(), void: true, escape: None }
    }

    /// Starts over as a view of what `base` is a view of, without dimensions yet.
    fn restart(&mut self, base: &RefVal) {
        self.base = base.base;
        self.offset = base.offset;
        self.dims.clear();
        self.void = base.void;
        self.escape = base.escape;
    }

    fn header(&self) -> RefVal {
        RefVal {
            base: self.base,
            offset: self.offset,
            dims: SmallVec::new(),
            void: self.void,
            escape: self.escape,
        }
    }

    /// A void view has no existing index in any dimension.
    fn settle(&mut self) {
        if self.void {
            for dim in &mut self.dims {
                *dim = dim.nothing();
            }
        }
    }
}

/// Appends to `out` the dimensions `new` that take the place of `old`, of as many elements.
fn regroup(old: &[RefDim], new: &[usize], out: &mut RefVal) -> Result<(), NotAView> {
    for unit in old.iter().filter(|d| d.size == 1) {
        out.void |= !unit.is_full();
        // Whatever its stride, its only index is 0.
    }
    let mut wide = old.iter().filter(|d| d.size != 1);
    let Some(outer) = wide.next() else {
        out.dims.extend(new.iter().map(|_| RefDim::full(1, 0)));
        return Ok(());
    };
    let (mut inner, mut stride) = (1, outer.stride);
    for dim in wide {
        if stride != dim.stride * dim.size || !dim.is_full() {
            return Err(NotAView);
        }
        inner *= dim.size;
        stride = dim.stride;
    }
    // Existing elements, counted through the group.
    let (lo, hi) = (outer.lo * inner, outer.hi * inner);
    let mut below: i64 = new.iter().map(|&n| n as i64).product();
    let mut outermost = true;
    for &n in new {
        let size = n as i64;
        below /= size;
        let mut dim = RefDim::full(size, below * stride);
        if size != 1 && outermost {
            outermost = false;
            if !outer.is_full() {
                if lo % below != 0 || hi % below != 0 {
                    return Err(NotAView);
                }
                (dim.lo, dim.hi) = (lo / below, hi / below);
            }
        }
        out.dims.push(dim);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(shape: &[usize]) -> RefVal {
        RefVal::whole(Base::Global(0), shape)
    }

    fn span(start: i64, size: usize) -> SliceDim {
        SliceDim::Slice { start: Start::Static(start), size, stride: 1 }
    }

    #[test]
    fn a_slice_inside_is_full() {
        let v = whole(&[8, 16]).slice(&[SliceDim::Index(Start::Dynamic), span(4, 8)], [3]);
        assert_eq!((v.offset, v.dims.len(), v.is_full()), (3 * 16 + 4, 1, true));
        assert_eq!(v.bounds(), Some((52, 60)));
        assert!(v.escape.is_none() && v.dense_len().is_some());
    }

    #[test]
    fn a_slice_that_leaves_its_base_remembers_it_and_keeps_what_exists() {
        let v = whole(&[10]).slice(&[span(-2, 16)], []);
        assert_eq!((v.dims[0].lo, v.dims[0].hi), (2, 12));
        assert_eq!(v.escape, Some(Escape { axis: 0, start: -2, end: 14, limit: 10, stride: 1 }));
        assert_eq!(v.bounds(), Some((0, 10)));
        let strided = SliceDim::Slice { start: Start::Static(1), size: 5, stride: 3 };
        let v = whole(&[10]).slice(&[strided], []);
        assert_eq!((v.dims[0].lo, v.dims[0].hi, v.dims[0].stride), (0, 3, 3));
        assert_eq!(whole(&[10]).slice(&[SliceDim::Index(Start::Static(10))], []).bounds(), None);
        assert_eq!(whole(&[10]).slice(&[span(i64::MIN, 4)], []).bounds(), None);
    }

    #[test]
    fn a_ragged_block_is_no_escape_and_a_missing_block_is_an_error() {
        let dims = [BlockDim::Blocked(8), BlockDim::Squeezed];
        let v = whole(&[10, 3]).block_window(&dims, [1, 2]).unwrap();
        assert_eq!((v.dims[0].size, v.dims[0].lo, v.dims[0].hi), (8, 0, 2));
        assert!(v.escape.is_none() && !v.is_full());
        let miss = whole(&[10, 3]).block_window(&dims, [2, 0]).unwrap_err();
        assert_eq!(miss, Escape { axis: 0, start: 16, end: 24, limit: 10, stride: 3 });
        assert!(whole(&[10, 3]).block_window(&dims, [0, -1]).is_err());
    }

    #[test]
    fn padding_of_an_element_window_does_not_exist() {
        let dims = [BlockDim::Element { size: 4, lo: 2, hi: 1 }];
        let v = whole(&[6]).block_window(&dims, [0]).unwrap();
        assert_eq!((v.offset, v.dims[0].lo, v.dims[0].hi), (-2, 2, 4));
        assert_eq!(v.bounds(), Some((0, 2)));
        assert!(whole(&[6]).block_window(&dims, [8]).is_ok());
        assert!(whole(&[6]).block_window(&dims, [9]).is_err());
    }

    #[test]
    fn reshape_merges_and_splits_what_is_dense() {
        let v = whole(&[4, 6]).reshape(&[2, 2, 3, 2]).unwrap();
        let strides: Vec<i64> = v.dims.iter().map(|d| d.stride).collect();
        assert_eq!(strides, [12, 6, 2, 1]);
        assert_eq!(whole(&[4, 6]).transpose(&[1, 0]).reshape(&[24]), Err(NotAView));
        let rows = whole(&[8, 6]).slice(&[span(2, 4), span(0, 3)], []);
        assert_eq!(rows.reshape(&[12]), Err(NotAView));
        assert_eq!(rows.reshape(&[2, 2, 1, 3]).unwrap().dims[0].stride, 12);
        assert_eq!(whole(&[1, 1]).reshape(&[]).unwrap().dims.len(), 0);
        assert_eq!(whole(&[]).reshape(&[1]).unwrap().dims.len(), 1);
    }

    #[test]
    fn reshape_keeps_the_edge_where_it_can() {
        let ragged =
            whole(&[10, 4]).block_window(&[BlockDim::Blocked(8), BlockDim::Blocked(4)], [1, 0]);
        let ragged = ragged.unwrap();
        let flat = ragged.reshape(&[32]).unwrap();
        assert_eq!((flat.dims[0].lo, flat.dims[0].hi), (0, 8));
        assert_eq!(flat.reshape(&[4, 8]).unwrap().dims[0].hi, 1);
        assert_eq!(flat.reshape(&[2, 16]), Err(NotAView));
    }

    #[test]
    fn bitcast_scales_the_dense_dimension() {
        let v = whole(&[4, 8]).bitcast(4, 2, &[4, 16]).unwrap();
        assert_eq!((v.dims[0].stride, v.dims[1].size, v.dims[1].stride), (16, 16, 1));
        let back = v.bitcast(2, 4, &[4, 8]).unwrap();
        assert_eq!(back, whole(&[4, 8]));
        let odd = v.slice(&[span(0, 4), span(1, 8)], []);
        assert_eq!(odd.bitcast(2, 4, &[4, 4]), Err(NotAView));
        assert_eq!(whole(&[4, 8]).transpose(&[1, 0]).bitcast(4, 2, &[8, 8]), Err(NotAView));
    }
}
