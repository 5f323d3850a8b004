//! Reads and writes by index arrays.
//!
//! An indexer picks, for each of its points, a sub-view: array dimensions are fixed by the indices,
//! the others are sliced. In the value, the indexer's dimensions stand together at dimension `at`.

use super::access::as_integer;
use super::memory::lane;
use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{self, RefVal, TileId};
use crate::observer::{AccessKind, Observer};
use crate::trap::{Access, Extent, TrapKind};
use pallas_rs_core::{self as core, DType};
use pallas_rs_ir::{GatherDim, SliceDim, Start};
use smallvec::SmallVec;

/// Operands and attributes of an indexed access.
pub(crate) struct Indexer<'a> {
    pub(crate) dims: &'a [GatherDim],
    pub(crate) at: usize,
    pub(crate) starts: &'a [Operand],
    pub(crate) indices: &'a [Operand],
    pub(crate) mask: Option<Operand>,
}

/// Where the elements of a value are: for each, its element in the allocation, if it exists.
struct Located {
    elements: Vec<Option<i64>>,
    /// A lane that is not masked off and does not exist.
    outside: Option<SmallVec<[i64; 6]>>,
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn gather(
        &mut self,
        indexer: &Indexer<'_>,
        source: Operand,
        other: Option<Operand>,
        result: Operand,
    ) -> Result {
        let dtype = source.dtype();
        self.check_peer(self.view(source))?;
        let located = self.locate(indexer, source);
        if let (Some(index), false) = (&located.outside, self.call.reads_outside) {
            return Err(self.outside(source, indexer, index, Access::Gather));
        }
        self.observe_located(source, &located, dtype, AccessKind::Read)?;
        let size = dtype.size();
        let unwritten = self.call.unwritten;
        if let Some(other) = other {
            self.densify(other);
        }
        self.produce(result, |c, out| {
            match other {
                Some(other) => c.write_out(other, out),
                None => memory::fill(dtype, unwritten, out),
            }
            let lanes = indexer.mask.map(|mask| c.elements(mask));
            let base = c.view(source).base;
            let end = located.elements.iter().flatten().max().map_or(0, |&e| e + 1);
            let from = c.source(base, size, end);
            for (i, (out, element)) in out.chunks_exact_mut(size).zip(&located.elements).enumerate()
            {
                if !lanes.is_none_or(|lanes| lane(lanes, i)) {
                    continue;
                }
                match element {
                    Some(element) => from.read(size, *element, out),
                    None => memory::fill(dtype, unwritten, out),
                }
            }
        });
        Ok(Flow::Next)
    }

    pub(super) fn scatter(
        &mut self,
        indexer: &Indexer<'_>,
        target: Operand,
        x: Operand,
        result: Option<Operand>,
    ) -> Result {
        let dtype = target.dtype();
        self.check_peer(self.view(target))?;
        let located = self.locate(indexer, target);
        if let Some(index) = &located.outside {
            return Err(self.outside(target, indexer, index, Access::Scatter));
        }
        self.observe_located(target, &located, dtype, AccessKind::Write)?;
        let size = dtype.size();
        let (values_id, values) = self.spread(x, located.elements.len() * size);
        let base = self.view(target).base;
        let end = located.elements.iter().flatten().max().map_or(0, |&e| e + 1);
        if let Some(result) = result {
            let unwritten = self.call.unwritten;
            self.produce(result, |c, out| {
                let from = c.source(base, size, end);
                for (out, element) in out.chunks_exact_mut(size).zip(&located.elements) {
                    match element {
                        Some(element) => from.read(size, *element, out),
                        None => memory::fill(dtype, unwritten, out),
                    }
                }
            });
        }
        let mut to = self.target(base, size, end);
        let elements = values.bytes(located.elements.len() * size).chunks_exact(size);
        for (value, element) in elements.zip(&located.elements) {
            if let Some(element) = element {
                to.write(size, *element, value);
            }
        }
        self.worker.pool.put(values_id, values);
        self.worker.pool.release(values_id);
        Ok(Flow::Next)
    }

    /// A copy of a value, dense.
    fn spread(&mut self, x: Operand, bytes: usize) -> (TileId, memory::Buffer) {
        let (id, mut buffer) = self.new_tile(bytes);
        self.write_out(x, buffer.bytes_mut(bytes));
        (id, buffer)
    }

    fn observe_located(
        &mut self,
        operand: Operand,
        located: &Located,
        dtype: DType,
        kind: AccessKind,
    ) -> Result<()> {
        if !O::WATCHES {
            return Ok(());
        }
        let elements: Vec<i64> = located.elements.iter().flatten().copied().collect();
        let view = self.view(operand).clone();
        self.observe_elements(&view, &elements, dtype, kind)
    }

    /// The element of every lane, if it has one.
    pub(crate) fn located(&self, indexer: &Indexer<'_>, operand: Operand) -> Vec<Option<i64>> {
        self.locate(indexer, operand).elements
    }

    /// Finds the element of every lane; lanes that are masked off have none.
    fn locate(&self, indexer: &Indexer<'_>, operand: Operand) -> Located {
        let view = self.view(operand);
        let points = self.shape(indexer.indices[0]).iter().product::<usize>();
        let (sliced, before) = self.sliced(indexer, view);
        let inner: usize = sliced[before..].iter().map(|d| d.size as usize).product();
        let outer: usize = sliced[..before].iter().map(|d| d.size as usize).product();
        let lanes = indexer.mask.map(|mask| self.elements(mask));
        let mut located =
            Located { elements: Vec::with_capacity(outer * points * inner), outside: None };
        for o in 0..outer {
            for point in 0..points {
                let fixed = self.point(indexer, view, point);
                for i in 0..inner {
                    let position = located.elements.len();
                    if !lanes.is_none_or(|lanes| lane(lanes, position)) {
                        located.elements.push(None);
                        continue;
                    }
                    let slices = offset(&sliced[..before], o).zip(offset(&sliced[before..], i));
                    let element = fixed.zip(slices).map(|(a, (b, c))| a + b + c);
                    let exists = element.filter(|_| !view.void);
                    if exists.is_none()
                        && located.outside.is_none()
                        && view_promises(view, indexer, self, point)
                    {
                        located.outside = Some(self.point_index(indexer, point));
                    }
                    located.elements.push(exists);
                }
            }
        }
        located
    }

    /// The sliced dimensions, and how many of them stand before the indexer's.
    fn sliced(&self, indexer: &Indexer<'_>, view: &RefVal) -> (Vec<memory::RefDim>, usize) {
        let mut starts = indexer.starts.iter().map(|&s| self.integer(s));
        let mut dims = Vec::new();
        for (spec, dim) in indexer.dims.iter().zip(&view.dims) {
            let GatherDim::Slice { start, size, stride } = *spec else { continue };
            let start = match start {
                Start::Static(i) => i,
                Start::Dynamic => starts.next().expect("the verifier counted the starts"),
            };
            let one = RefVal { dims: SmallVec::from_slice(&[*dim]), offset: 0, ..view.clone() };
            let spec = SliceDim::Slice { start: Start::Static(start), size, stride };
            dims.push(one.slice(&[spec], []).dims[0]);
        }
        (dims, indexer.at)
    }

    /// What the array dimensions of a point add to the offset, if they exist.
    fn point(&self, indexer: &Indexer<'_>, view: &RefVal, point: usize) -> Option<i64> {
        let mut starts = indexer.starts.iter().map(|&s| self.integer(s));
        let mut arrays = indexer.indices.iter();
        let mut at = view.offset;
        for (spec, dim) in indexer.dims.iter().zip(&view.dims) {
            match *spec {
                GatherDim::Array => {
                    let index = self.index(*arrays.next()?, point);
                    if index < dim.lo || index >= dim.hi {
                        return None;
                    }
                    at += index * dim.stride;
                }
                GatherDim::Slice { start, .. } => {
                    let start = match start {
                        Start::Static(i) => i,
                        Start::Dynamic => starts.next().expect("the verifier counted the starts"),
                    };
                    at = at.wrapping_add(start.wrapping_mul(dim.stride));
                }
            }
        }
        Some(at)
    }

    fn index(&self, array: Operand, point: usize) -> i64 {
        let dtype = array.dtype();
        let bits = match self.elements(array) {
            core::Operand::Splat(bits) => bits,
            core::Operand::Slice(bytes) => core::load_scalar(dtype.size(), bytes, point),
        };
        as_integer(dtype, bits)
    }

    fn point_index(&self, indexer: &Indexer<'_>, point: usize) -> SmallVec<[i64; 6]> {
        indexer.indices.iter().map(|&array| self.index(array, point)).collect()
    }

    /// The error of an index outside its array.
    fn outside(
        &self,
        operand: Operand,
        indexer: &Indexer<'_>,
        index: &[i64],
        access: Access,
    ) -> Box<crate::trap::Trap> {
        let mut place = self.place(self.view(operand));
        let mut starts = indexer.starts.iter().map(|&s| self.integer(s));
        let mut index = index.iter();
        if place.shape.len() == indexer.dims.len() {
            place.window = (indexer.dims.iter())
                .map(|spec| match *spec {
                    GatherDim::Array => {
                        Extent { start: *index.next().expect("one per array"), size: 1, stride: 1 }
                    }
                    GatherDim::Slice { start, size, stride } => {
                        let start = match start {
                            Start::Static(i) => i,
                            Start::Dynamic => starts.next().expect("counted by the verifier"),
                        };
                        Extent { start, size, stride: stride as i64 }
                    }
                })
                .collect();
        }
        TrapKind::OutOfBounds { access, place }.into()
    }
}

/// What index `i`, counted row-major through `dims`, adds to the offset, if it exists.
fn offset(dims: &[memory::RefDim], mut i: usize) -> Option<i64> {
    let mut at = 0;
    for dim in dims.iter().rev() {
        let index = (i % dim.size as usize) as i64;
        i /= dim.size as usize;
        if index < dim.lo || index >= dim.hi {
            return None;
        }
        at += index * dim.stride;
    }
    Some(at)
}

/// Whether an element that does not exist is an error: not where a block hangs over the edge of its
/// array.
fn view_promises<O: Observer>(
    view: &RefVal,
    indexer: &Indexer<'_>,
    ctx: &Ctx<'_, O>,
    point: usize,
) -> bool {
    let mut arrays = indexer.indices.iter();
    let mut starts = indexer.starts.iter().map(|&s| ctx.integer(s));
    indexer.dims.iter().zip(&view.dims).any(|(spec, dim)| match *spec {
        GatherDim::Array => {
            let index = ctx.index(*arrays.next().expect("one per array"), point);
            index < 0 || index >= dim.size
        }
        GatherDim::Slice { start, size, stride } => {
            let start = match start {
                Start::Static(i) => i,
                Start::Dynamic => starts.next().expect("the verifier counted the starts"),
            };
            let last = start.saturating_add((size as i64 - 1).saturating_mul(stride as i64));
            size > 0 && (start < 0 || last >= dim.size)
        }
    }) || view.escape.is_some()
}
