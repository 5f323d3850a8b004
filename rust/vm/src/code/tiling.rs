//! How the windows of a kernel tile its arguments.
//!
//! Most kernels access an argument through one kind of window, whose place along each dimension is a
//! sum of indices times constants: `(i * threads + w) * 128`. Where these numbers nest like digits,
//! windows of different blocks are disjoint; where the digits leave no gap, the windows cover the
//! array. The first lets blocks run at the same time, the second means that nobody sees what an array
//! held before.

use pallas_rs_core::{BinaryKind, CompareKind, DType};
use pallas_rs_ir::{
    AllocKind, BlockDim, Effect, GridDim, Inst, Op, Program, Region, SliceDim, Space, Start, Type,
    Value,
};
use rustc_hash::FxHashMap;

/// What follows from the windows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// By argument: whether every element is written and none is read.
    pub(crate) covered: Vec<bool>,
    /// Whether no block touches what another one writes, and a run is the same in any order.
    pub(crate) independent: bool,
}

/// An index of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Grid(usize),
    Cluster(usize),
    Thread,
}

/// An index times a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digit {
    axis: Axis,
    /// What the index is below, if that is known.
    bound: Option<usize>,
    scale: usize,
}

/// A dimension of a window: `size` elements from the sum of its digits on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Extent {
    size: usize,
    digits: Vec<Digit>,
}

/// What a view of an argument lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    arg: usize,
    /// `None` where the place is not known.
    extents: Option<Vec<Extent>>,
    /// Whether the view is all of the window.
    whole: bool,
}

/// Looks at a program.
pub(super) fn tiling(program: &Program, written: &[bool]) -> Tiling {
    let mut search = Search {
        program,
        written,
        threads: program.num_threads,
        makers: FxHashMap::default(),
        windows: vec![None; program.args.len()],
        covered: vec![false; program.args.len()],
        read: vec![false; program.args.len()],
        apart: program.args.iter().zip(written).all(|(arg, &w)| {
            // What is changed in place cannot be run again.
            !w || matches!(arg.binding, pallas_rs_ir::Binding::Result(_))
        }),
    };
    search.region(&program.body, true);
    let covered = search.covered.iter().zip(&search.read).map(|(&c, &read)| c && !read).collect();
    Tiling { covered, independent: search.apart && search.blocks_differ() }
}

struct Search<'p> {
    program: &'p Program,
    written: &'p [bool],
    /// What the index of a thread that comes here is below.
    threads: usize,
    /// By value: the instruction that makes it.
    makers: FxHashMap<Value, &'p Inst>,
    /// By written argument: the extents of every window seen so far.
    windows: Vec<Option<Vec<Extent>>>,
    covered: Vec<bool>,
    read: Vec<bool>,
    /// Whether blocks seem to be independent.
    apart: bool,
}

impl<'p> Search<'p> {
    /// `always`: the region is executed by every thread, once or more.
    fn region(&mut self, region: &'p Region, always: bool) {
        for inst in &region.insts {
            self.inst(inst, always);
            for &result in &inst.results {
                self.makers.insert(result, inst);
            }
            let scope = matches!(inst.op, Op::Scope { .. });
            for (i, nested) in inst.regions.iter().enumerate() {
                let outside = self.threads;
                if let (Op::Switch {}, 1) = (&inst.op, i) {
                    self.threads = self.thread_limit(inst.operands[0]).min(outside);
                }
                self.region(nested, always && scope);
                self.threads = outside;
            }
        }
        region.yields.iter().for_each(|&value| self.lost(value));
    }

    fn inst(&mut self, inst: &Inst, always: bool) {
        match &inst.op {
            Op::RefSlice { .. }
            | Op::RefTranspose { .. }
            | Op::RefReshape {}
            | Op::RefBitcast {}
            | Op::BlockWindow { .. } => return,
            // What these do outside is in the order of the blocks.
            op if op.info().effect == Effect::Host && !matches!(op, Op::Check { .. }) => {
                self.apart = false;
            }
            // A cluster takes over what another one would do.
            Op::TryClusterCancel { .. } => self.apart = false,
            Op::Scope { allocs, .. } => {
                let shared = allocs.iter().any(|alloc| {
                    alloc.space == Space::Gmem || matches!(alloc.kind, AllocKind::Semaphore)
                });
                self.apart &= !shared;
            }
            _ => {}
        }
        let target = match inst.op {
            Op::Store {} => Some(0),
            Op::CopySmemToGmem { reduction: None, predicate: false, .. } => Some(1),
            _ => None,
        };
        let loops = matches!(inst.op, Op::ForLoop {} | Op::WhileLoop {} | Op::Switch {});
        for (i, &operand) in inst.operands.iter().enumerate() {
            let Some(window) = self.window(operand) else { continue };
            let arg = window.arg;
            if loops {
                self.lost(operand);
            }
            if Some(i) == target {
                self.covered[arg] |= always && self.covers(&window);
            } else {
                self.read[arg] = true;
            }
            if self.written[arg] {
                let known = self.windows[arg].clone().or_else(|| window.extents.clone());
                self.apart &= known.is_some() && known == window.extents;
                self.windows[arg] = known;
            }
        }
    }

    /// A view goes where it is not followed.
    fn lost(&mut self, value: Value) {
        if let Some(window) = self.window(value) {
            self.read[window.arg] = true;
            self.apart &= !self.written[window.arg];
        }
    }

    /// What a view lies in; `None` if it is not of an argument.
    fn window(&self, view: Value) -> Option<Window> {
        let Type::Ref(_) = self.program.ty(view) else { return None };
        let Some(inst) = self.makers.get(&view) else {
            let arg = self.program.body.params.iter().position(|&param| param == view)?;
            let shape = &self.program.args[arg].shape;
            let extents = shape.iter().map(|&size| Extent { size, digits: Vec::new() }).collect();
            return Some(Window { arg, extents: Some(extents), whole: true });
        };
        let base = self.window(*inst.operands.first()?)?;
        let of_argument = self.program.body.params.get(base.arg) == inst.operands.first();
        let indices = &inst.operands[1..];
        let extents = match &inst.op {
            Op::BlockWindow { dims } if of_argument => self.blocks(dims, indices),
            Op::RefSlice { dims } if of_argument => self.slices(dims, indices),
            Op::RefReshape {} | Op::RefTranspose { .. } | Op::RefBitcast {} => return Some(base),
            // A part of what it is a view of.
            _ => return Some(Window { whole: false, ..base }),
        };
        Some(Window { arg: base.arg, extents, whole: true })
    }

    fn blocks(&self, dims: &[BlockDim], indices: &[Value]) -> Option<Vec<Extent>> {
        let extent = |(dim, &index): (&BlockDim, &Value)| {
            let size = match *dim {
                BlockDim::Blocked(size) => size,
                BlockDim::Squeezed => 1,
                BlockDim::Element { .. } => return None,
            };
            let (digits, rest) = self.digits(index)?;
            let digits = scaled(digits, size)?;
            (rest == 0).then_some(Extent { size, digits })
        };
        dims.iter().zip(indices).map(extent).collect()
    }

    fn slices(&self, dims: &[SliceDim], starts: &[Value]) -> Option<Vec<Extent>> {
        let mut starts = starts.iter();
        let extent = |dim: &SliceDim| {
            let (start, size) = match *dim {
                SliceDim::Index(start) => (start, 1),
                SliceDim::Slice { start, size, stride: 1 } => (start, size),
                SliceDim::Slice { .. } => return None,
            };
            let (digits, rest) = match start {
                Start::Static(start) => (Vec::new(), usize::try_from(start).ok()?),
                Start::Dynamic => self.digits(*starts.next()?)?,
            };
            (rest == 0).then_some(Extent { size, digits })
        };
        dims.iter().map(extent).collect()
    }

    /// A scalar as a sum of indices times constants, and a constant.
    fn digits(&self, value: Value) -> Option<(Vec<Digit>, usize)> {
        let inst = self.makers.get(&value)?;
        let int32 = self.program.ty(value).dtype() == Some(DType::I32);
        let both = || Some((self.digits(inst.operands[0])?, self.digits(inst.operands[1])?));
        match inst.op {
            Op::Constant { bits } if int32 => {
                Some((Vec::new(), usize::try_from(bits as i32).ok()?))
            }
            Op::ProgramId { axis } => Some(self.digit(Axis::Grid(axis))),
            Op::ClusterIndex { axis } => Some(self.digit(Axis::Cluster(axis))),
            Op::ThreadIndex {} => Some(self.digit(Axis::Thread)),
            Op::Binary { kind: BinaryKind::Add } if int32 => {
                let ((mut a, rest), (b, more)) = both()?;
                a.extend(b);
                Some((a, rest.checked_add(more)?))
            }
            Op::Binary { kind: BinaryKind::Mul } if int32 => {
                let ((digits, rest), (none, scale)) = match both()? {
                    (a, b) if b.0.is_empty() => (a, b),
                    (a, b) => (b, a),
                };
                none.is_empty().then_some((scaled(digits, scale)?, rest.checked_mul(scale)?))
            }
            _ => None,
        }
    }

    /// What the index of a thread is below where `condition` is true.
    fn thread_limit(&self, condition: Value) -> usize {
        let limit = self.makers.get(&condition).and_then(|inst| match inst.op {
            Op::Convert {} => Some(self.thread_limit(inst.operands[0])),
            Op::Compare { kind: CompareKind::Lt } => {
                let thread = self.makers.get(&inst.operands[0])?;
                let limit = self.makers.get(&inst.operands[1])?;
                match (&thread.op, &limit.op) {
                    (Op::ThreadIndex {}, &Op::Constant { bits }) => {
                        usize::try_from(bits as i32).ok()
                    }
                    _ => None,
                }
            }
            _ => None,
        });
        limit.unwrap_or(self.threads)
    }

    fn digit(&self, axis: Axis) -> (Vec<Digit>, usize) {
        (vec![Digit { axis, bound: self.bound(axis), scale: 1 }], 0)
    }

    fn bound(&self, axis: Axis) -> Option<usize> {
        match axis {
            Axis::Grid(axis) => match self.program.grid[axis] {
                GridDim::Static(bound) => Some(bound as usize),
                GridDim::Operand(_) => None,
            },
            Axis::Cluster(axis) => Some(self.program.cluster[axis]),
            Axis::Thread => Some(self.threads),
        }
    }

    /// One past the last element that a dimension reaches, if its digits nest; `gaps` says whether
    /// they may leave any.
    fn reach(extent: &Extent, gaps: bool) -> Option<usize> {
        let mut digits = extent.digits.clone();
        digits.sort_by_key(|digit| digit.scale);
        digits.iter().try_fold(extent.size, |reach, &Digit { bound, scale, .. }| {
            let bound = bound?;
            let fits = scale == reach || (gaps && scale > reach);
            (fits || bound == 1).then_some(())?;
            let end = scale.checked_mul(bound.checked_sub(1)?)?.checked_add(reach)?;
            // Else the kernel's arithmetic wraps.
            i32::try_from(end).is_ok().then_some(end)
        })
    }

    /// The axes of a window; `None` if one counts twice.
    fn axes(extents: &[Extent]) -> Option<Vec<Axis>> {
        let mut axes = Vec::new();
        for &Digit { axis, .. } in extents.iter().flat_map(|e| &e.digits) {
            if axes.contains(&axis) {
                return None;
            }
            axes.push(axis);
        }
        Some(axes)
    }

    /// Whether the windows at all points and threads make up the argument.
    fn covers(&self, window: &Window) -> bool {
        let shape = &self.program.args[window.arg].shape;
        window.whole
            && window.extents.as_ref().is_some_and(|extents| {
                let reaches = |(e, &size)| Self::reach(e, false).is_some_and(|end| end >= size);
                Self::axes(extents).is_some() && extents.iter().zip(shape).all(reaches)
            })
    }

    /// Whether no two points share an element of a written argument.
    fn blocks_differ(&self) -> bool {
        let points = (0..self.program.grid.len()).map(Axis::Grid);
        let moving: Vec<Axis> = points.filter(|&axis| self.bound(axis) != Some(1)).collect();
        self.windows.iter().flatten().all(|extents| {
            let nests = extents.iter().all(|e| Self::reach(e, true).is_some());
            let axes = Self::axes(extents);
            nests && axes.is_some_and(|axes| moving.iter().all(|axis| axes.contains(axis)))
        })
    }
}

/// Digits times a constant.
fn scaled(digits: Vec<Digit>, by: usize) -> Option<Vec<Digit>> {
    let scaled = |digit: Digit| Some(Digit { scale: digit.scale.checked_mul(by)?, ..digit });
    digits.into_iter().map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pallas_rs_ir::builder::{Builder, Dim};

    const ROW: [BlockDim; 2] = [BlockDim::Blocked(1), BlockDim::Blocked(8)];

    /// 4 points; `body` gets the builder, the result of 4 x 8 and the grid index. Whether the result
    /// is covered, and the blocks independent.
    fn of(body: impl FnOnce(&mut Builder, Value, Value)) -> (bool, bool) {
        let mut b = Builder::new("rows");
        b.in_order().grid(&[4]);
        let o = b.output("o_ref", DType::I32, &[4, 8]);
        let i = b.program_id(0);
        body(&mut b, o, i);
        let tiling = tiling(&b.finish(), &[true]);
        (tiling.covered[0], tiling.independent)
    }

    fn store(b: &mut Builder, o: Value, indices: &[Value]) -> Value {
        let window = b.block_window(o, &ROW, indices);
        let x = b.constant(DType::I32, &[1, 8], 1);
        b.store(window, x);
        window
    }

    #[test]
    fn blocks_that_tile_their_array() {
        let rows = of(|b, o, i| {
            let zero = b.int(0);
            store(b, o, &[i, zero]);
        });
        assert_eq!(rows, (true, true));
        let diagonal = of(|b, o, i| {
            store(b, o, &[i, i]);
        });
        assert_eq!(diagonal, (false, false));
        let same_row = of(|b, o, _| {
            let zero = b.int(0);
            store(b, o, &[zero, zero]);
        });
        assert_eq!(same_row, (false, false));
        let read_back = of(|b, o, i| {
            let zero = b.int(0);
            let window = store(b, o, &[i, zero]);
            b.load(window);
        });
        assert_eq!(read_back, (false, true));
        let other_row = of(|b, o, i| {
            let zero = b.int(0);
            store(b, o, &[i, zero]);
            let row = b.view(o, &[Dim::At(0)]);
            b.load(row);
        });
        assert_eq!(other_row, (false, false));
    }

    #[test]
    fn what_need_not_happen_covers_nothing() {
        let sometimes = of(|b, o, i| {
            let (zero, one) = (b.int(0), b.int(1));
            let first = b.compare(CompareKind::Lt, i, one);
            b.switch(first, 2, |b, branch| {
                if branch == 1 {
                    store(b, o, &[i, zero]);
                }
                Vec::new()
            });
        });
        assert_eq!(sometimes, (false, true));
        let prints = of(|b, o, i| {
            let zero = b.int(0);
            store(b, o, &[i, zero]);
            b.print("{}", &[i]);
        });
        assert_eq!(prints, (true, false));
    }

    #[test]
    fn numbers_that_nest() {
        let rows = |scale: i32, size: usize| {
            of(|b, o, i| {
                let scale = b.int(scale);
                let start = b.mul(i, scale);
                let view = b.view(o, &[Dim::Window(start, size), Dim::All]);
                let x = b.constant(DType::I32, &[size, 8], 1);
                b.store(view, x);
            })
        };
        assert_eq!(rows(1, 1), (true, true));
        // Too far apart, overlapping, all at one place.
        assert_eq!(rows(2, 1), (false, true));
        assert_eq!(rows(1, 2), (false, false));
        assert_eq!(rows(0, 1), (false, false));
    }

    #[test]
    fn threads_are_digits_too() {
        let mut b = Builder::new("warpgroups");
        b.grid(&[3]).threads(2);
        let o = b.output("o_ref", DType::I32, &[24]);
        let (i, two, four) = (b.program_id(0), b.int(2), b.int(4));
        let thread = b.thread_index();
        let pair = b.mul(i, two);
        let at = b.add(pair, thread);
        let start = b.mul(at, four);
        let view = b.view(o, &[Dim::Window(start, 4)]);
        let x = b.constant(DType::I32, &[4], 1);
        b.store(view, x);
        let expected = Tiling { covered: vec![true], independent: true };
        assert_eq!(tiling(&b.finish(), &[true]), expected);
    }

    #[test]
    fn a_branch_may_be_of_some_threads() {
        let roles = |limit: i32| {
            let mut b = Builder::new("roles");
            b.grid(&[3]).threads(3);
            let o = b.output("o_ref", DType::I32, &[24]);
            let (i, two, four, limit) = (b.program_id(0), b.int(2), b.int(4), b.int(limit));
            let thread = b.thread_index();
            let computes = b.compare(CompareKind::Lt, thread, limit);
            b.when(computes, |b| {
                let pair = b.mul(i, two);
                let at = b.add(pair, thread);
                let start = b.mul(at, four);
                let view = b.view(o, &[Dim::Window(start, 4)]);
                let x = b.constant(DType::I32, &[4], 1);
                b.store(view, x);
            });
            tiling(&b.finish(), &[true])
        };
        assert_eq!(roles(2), Tiling { covered: vec![false], independent: true });
        assert_eq!(roles(3), Tiling { covered: vec![false], independent: false });
    }
}
