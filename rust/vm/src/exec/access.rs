//! What every op needs: operands, memory behind views, and what to say when an access goes wrong.

use crate::code::Operand;
use crate::frame::Tile;
use crate::machine::{Ctx, Result};
use crate::memory::area::{Source, Target};
use crate::memory::{self, Base, Buffer, Contents, RefVal, TileId};
use crate::observer::{AccessKind, BaseId, Observer, Proxy, Window};
use crate::trap::{Access, Extent, Place, TrapKind};
use pallas_rs_core::{self as core, Class, DType};
use pallas_rs_ir::{AllocKind, Space};
use smallvec::SmallVec;

/// The number an integer register holds.
pub(crate) fn as_integer(dtype: DType, bits: u64) -> i64 {
    let unused = 64 - 8 * dtype.size() as u32;
    match dtype.class() {
        Class::Signed => ((bits << unused) as i64) >> unused,
        Class::Bool | Class::Unsigned | Class::Float | Class::Complex => bits as i64,
    }
}

impl<O: Observer> Ctx<'_, O> {
    /// Bits of a scalar operand.
    #[inline]
    pub(crate) fn scalar(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Scalar { register, .. } => self.thread.frame.scalars[register as usize],
            _ => unreachable!("the verifier saw a scalar"),
        }
    }

    /// The number in an integer scalar operand.
    #[inline]
    pub(crate) fn integer(&self, operand: Operand) -> i64 {
        match operand {
            Operand::Scalar { register, dtype } => {
                as_integer(dtype, self.thread.frame.scalars[register as usize])
            }
            _ => unreachable!("the verifier saw a scalar"),
        }
    }

    /// Whether an optional predicate lets the op happen.
    #[inline]
    pub(crate) fn predicate(&self, operand: Option<&Operand>) -> bool {
        operand.is_none_or(|&p| self.scalar(p) != 0)
    }

    /// The view in a ref operand.
    #[inline]
    pub(crate) fn view(&self, operand: Operand) -> &RefVal {
        match operand {
            Operand::Ref { register, .. } => &self.thread.frame.refs[register as usize],
            _ => unreachable!("the verifier saw a ref"),
        }
    }

    /// A tile operand.
    #[inline]
    pub(crate) fn tile(&self, operand: Operand) -> Tile {
        match operand {
            Operand::Tile { register, .. } => self.thread.frame.tiles[register as usize],
            _ => unreachable!("the verifier saw a tile"),
        }
    }

    /// A tile operand as dense bytes of its own; what is not is written out into its register first.
    #[inline]
    pub(crate) fn tile_bytes(&mut self, operand: Operand) -> &[u8] {
        let ty = self.call.code.tile_type(operand);
        let id = match self.tile(operand) {
            Tile::Dense(id) => id,
            Tile::Splat(bits) => {
                let id = self.worker.pool.alloc(ty.bytes);
                core::fill(ty.dtype.size(), bits, self.worker.pool.bytes_mut(id, ty.bytes));
                let Operand::Tile { register, .. } = operand else { unreachable!() };
                self.thread.frame.set_tile(&mut self.worker.pool, register, Tile::Dense(id));
                id
            }
            Tile::Lent { .. } => self.keep(operand),
            Tile::Empty => unreachable!("a tile is written before it is read"),
        };
        self.worker.pool.bytes(id, ty.bytes)
    }

    /// Copies a lent tile into a buffer of its own.
    fn keep(&mut self, operand: Operand) -> TileId {
        let Operand::Tile { register, bytes, .. } = operand else {
            unreachable!("only tiles are lent")
        };
        let bytes = bytes as usize;
        let (id, mut buffer) = self.new_tile(bytes);
        if let core::Operand::Slice(lent) = self.elements(operand) {
            buffer.bytes_mut(bytes).copy_from_slice(lent);
        }
        self.worker.pool.put(id, buffer);
        self.thread.frame.set_tile(&mut self.worker.pool, register, Tile::Dense(id));
        id
    }

    /// Sets a scalar result.
    #[inline]
    pub(crate) fn set_scalar(&mut self, result: Operand, bits: u64) {
        match result {
            Operand::Scalar { register, .. } => self.thread.frame.scalars[register as usize] = bits,
            _ => unreachable!("the verifier saw a scalar"),
        }
    }

    /// Sets a tile result, which becomes the owner.
    #[inline]
    pub(crate) fn set_tile(&mut self, result: Operand, tile: Tile) {
        match result {
            Operand::Tile { register, .. } => {
                self.thread.frame.set_tile(&mut self.worker.pool, register, tile);
            }
            _ => unreachable!("the verifier saw a tile"),
        }
    }

    /// Sets a ref result.
    #[inline]
    pub(crate) fn set_ref(&mut self, result: Operand, view: RefVal) {
        match result {
            Operand::Ref { register, .. } => self.thread.frame.refs[register as usize] = view,
            _ => unreachable!("the verifier saw a ref"),
        }
    }

    /// A new tile of `bytes` bytes, taken out of the pool to be written.
    #[inline]
    pub(crate) fn new_tile(&mut self, bytes: usize) -> (TileId, Buffer) {
        let id = self.worker.pool.alloc(bytes);
        (id, self.worker.pool.take(id))
    }

    /// The storage of a block's or thread's data.
    pub(crate) fn storage(&self, base: Base) -> Option<TileId> {
        match base {
            Base::Global(_) => None,
            Base::Block { block, index } => {
                self.cluster.blocks[block as usize].buffers[index as usize].map(|a| a.tile)
            }
            Base::Thread(index) => self.thread.accumulators[index as usize].map(|a| a.tile),
            Base::Barrier { .. } => unreachable!("the verifier keeps barriers and data apart"),
        }
    }

    /// Memory behind a view, to read.
    pub(crate) fn source(&self, base: Base, elem: usize, end: i64) -> Source<'_> {
        match (base, self.storage(base)) {
            (Base::Global(arg), _) => self.call.gmem.source(arg),
            (_, Some(tile)) => self.worker.pool.bytes(tile, end as usize * elem).into(),
            (_, None) => unreachable!("a ref does not outlive its scope"),
        }
    }

    /// Memory behind a view, to write.
    pub(crate) fn target(&mut self, base: Base, elem: usize, end: i64) -> Target<'_> {
        match (base, self.storage(base)) {
            (Base::Global(arg), _) => self.call.gmem.target(arg),
            (_, Some(tile)) => self.worker.pool.bytes_mut(tile, end as usize * elem).into(),
            (_, None) => unreachable!("a ref does not outlive its scope"),
        }
    }

    /// Reads a view into dense bytes; elements that do not exist become `missing`. No check, no
    /// observation.
    #[inline]
    pub(crate) fn read(&self, view: &RefVal, dtype: DType, missing: Contents, tile: &mut [u8]) {
        let source = match self.storage(view.base) {
            None => self.whole_argument(view.base),
            Some(tile) => self.worker.pool.whole(tile).into(),
        };
        memory::read_view(source, view, dtype, missing, tile);
    }

    /// Writes dense bytes to a view; elements that do not exist are dropped. No check, no
    /// observation.
    #[inline]
    pub(crate) fn write(&mut self, view: &RefVal, dtype: DType, tile: &[u8]) {
        let target = match (view.base, self.storage(view.base)) {
            (Base::Global(arg), _) => self.call.gmem.target(arg),
            (_, Some(tile)) => self.worker.pool.whole_mut(tile).into(),
            (_, None) => unreachable!("a ref does not outlive its scope"),
        };
        memory::write_view(target, view, dtype.size(), tile);
    }

    fn whole_argument(&self, base: Base) -> Source<'_> {
        match base {
            Base::Global(arg) => self.call.gmem.source(arg),
            Base::Block { .. } | Base::Barrier { .. } | Base::Thread(_) => {
                unreachable!("a ref does not outlive its scope")
            }
        }
    }

    /// Tells the observer about an access to the existing elements of a view.
    #[inline]
    pub(crate) fn observe(
        &mut self,
        view: &RefVal,
        elem_size: usize,
        kind: AccessKind,
        proxy: Proxy,
    ) -> Result<()> {
        if !O::WATCHES || view.bounds().is_none() {
            return Ok(());
        }
        let mut offset = view.offset;
        let mut sizes = SmallVec::<[usize; 4]>::new();
        let mut strides = SmallVec::<[i64; 4]>::new();
        for dim in &view.dims {
            offset += dim.lo * dim.stride;
            sizes.push((dim.hi - dim.lo) as usize);
            strides.push(dim.stride);
        }
        let (base, block) = self.base_id(view.base);
        let window = Window { base, block, offset, sizes: &sizes, strides: &strides, elem_size };
        let at = self.at();
        self.worker.observer.on_access(at, window, kind, proxy)
    }

    pub(crate) fn base_id(&self, base: Base) -> (BaseId, u32) {
        let here = self.thread.block;
        match base {
            Base::Global(number) => (BaseId { space: Space::Gmem, number }, here),
            Base::Block { block, index } => {
                let space = self.alloc_of(base).map_or(Space::Smem, |a| a.space);
                (BaseId { space, number: index }, block)
            }
            Base::Barrier { block, index } => (BaseId { space: Space::Smem, number: index }, block),
            Base::Thread(number) => (BaseId { space: Space::Regs, number }, here),
        }
    }

    /// The allocation of a scope that a view looks at.
    pub(super) fn alloc_of(&self, base: Base) -> Option<&pallas_rs_ir::Alloc> {
        let number = match base {
            Base::Global(_) => None,
            Base::Block { block, index } => {
                self.cluster.blocks[block as usize].buffers[index as usize].map(|a| a.alloc)
            }
            Base::Barrier { block, index } => self.cluster.blocks[block as usize].barriers
                [index as usize]
                .as_ref()
                .map(|a| a.alloc),
            Base::Thread(index) => self.thread.accumulators[index as usize].map(|a| a.alloc),
        };
        number.map(|n| &self.call.code.allocs[n as usize])
    }

    /// A view, for people.
    pub(crate) fn place(&self, view: &RefVal) -> Place {
        let (name, space, dtype, shape) = match (view.base, self.alloc_of(view.base)) {
            (Base::Global(arg), _) => {
                let arg = &self.call.code.program.args[arg as usize];
                (arg.name.clone(), Space::Gmem, Some(arg.dtype), arg.shape.clone())
            }
            (_, Some(alloc)) => {
                let dtype = match alloc.kind {
                    AllocKind::Data { dtype, .. } => Some(dtype),
                    AllocKind::Barrier { .. }
                    | AllocKind::ClusterBarrier { .. }
                    | AllocKind::Semaphore => None,
                };
                (alloc.name.clone(), alloc.space, dtype, alloc.shape.clone())
            }
            (_, None) => (String::new(), Space::Smem, None, Vec::new()),
        };
        let window = extents(view, &shape).unwrap_or_default();
        Place { name, space, dtype, shape, window }
    }

    /// The error of an access that leaves its array.
    #[cold]
    pub(crate) fn out_of_bounds(&self, view: &RefVal, access: Access) -> Box<crate::trap::Trap> {
        TrapKind::OutOfBounds { access, place: self.place(view) }.into()
    }

    /// The policy of generic accesses: leaving the array is an error, a ragged block is not.
    #[inline]
    pub(crate) fn check_inside(&self, view: &RefVal, access: Access) -> Result<()> {
        let allowed = access == Access::Read && self.call.reads_outside;
        if view.escape.is_some() && !allowed {
            return Err(self.out_of_bounds(view, access));
        }
        self.check_peer(view)
    }
}

/// The box of a row-major array of this shape that a view covers; `None` when it is no box.
fn extents(view: &RefVal, shape: &[usize]) -> Option<Vec<Extent>> {
    let whole = RefVal::whole(view.base, shape);
    let mut offset = view.offset;
    let mut window: Vec<Extent> =
        whole.dims.iter().map(|_| Extent { start: 0, size: 1, stride: 1 }).collect();
    // What an escaped slice adds cannot be told from the offset.
    if let Some(e) = view.escape {
        let axis = whole.dims.iter().rposition(|d| d.stride == e.stride && d.size == e.limit)?;
        window[axis] = Extent { start: e.start, size: (e.end - e.start) as usize, stride: 1 };
        offset -= e.start * e.stride;
    }
    for (extent, dim) in window.iter_mut().zip(&whole.dims) {
        if dim.stride > 0 {
            extent.start += offset.div_euclid(dim.stride);
            offset = offset.rem_euclid(dim.stride);
        }
    }
    for dim in view.dims.iter().filter(|d| d.size != 1) {
        let axis = whole.dims.iter().position(|d| {
            d.stride > 0
                && d.size > 1
                && dim.stride % d.stride == 0
                && dim.stride.abs() / d.stride < d.size
        })?;
        let stride = dim.stride / whole.dims[axis].stride;
        window[axis] = Extent { size: dim.size as usize, stride, ..window[axis] };
    }
    Some(window)
}
