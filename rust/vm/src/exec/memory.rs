//! Generic reads and writes of views.

use crate::code::Operand;
use crate::frame::Tile;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{self, Base, RefVal};
use crate::observer::{AccessKind, Observer, Proxy};
use crate::trap::Access;
use crate::units::rmw;
use pallas_rs_core::{self as core, DType};
use pallas_rs_ir::RmwKind;

impl<O: Observer> Ctx<'_, O> {
    /// Reads a view. `lends`: the tile may stay where it is, if it is dense there.
    pub(super) fn load(&mut self, source: Operand, result: Operand, lends: bool) -> Result {
        self.check_inside(self.view(source), Access::Read)?;
        let dtype = source.dtype();
        if O::WATCHES {
            let view = self.view(source).clone();
            self.observe(&view, dtype.size(), AccessKind::Read, Proxy::Generic)?;
        }
        let Operand::Ref { register, .. } = source else { unreachable!("the verifier saw a ref") };
        let view = &self.thread.frame.refs[register as usize];
        if let (true, Some(_)) = (lends && self.call.lends, view.dense_len()) {
            let lent = Tile::Lent { base: view.base, offset: view.offset };
            self.set_tile(result, lent);
            return Ok(Flow::Next);
        }
        if let (Operand::Tile { bytes, .. }, Base::Global(arg), Some(_)) =
            (result, view.base, view.dense_len())
        {
            // By far the most frequent load.
            let (pool, bytes) = (&mut self.worker.pool, bytes as usize);
            let id = pool.alloc(bytes);
            let source = self.call.gmem.source(arg);
            source.read(dtype.size(), view.offset, pool.bytes_mut(id, bytes));
            self.set_tile(result, Tile::Dense(id));
            return Ok(Flow::Next);
        }
        let missing = self.call.unwritten;
        self.produce(result, |c, out| c.read(c.view(source), dtype, missing, out));
        Ok(Flow::Next)
    }

    pub(super) fn store(&mut self, target: Operand, x: Operand) -> Result {
        self.check_inside(self.view(target), Access::Write)?;
        self.write_value(target, x, AccessKind::Write)?;
        Ok(Flow::Next)
    }

    /// Writes a value to a view that was checked.
    fn write_value(&mut self, target: Operand, x: Operand, kind: AccessKind) -> Result<()> {
        let dtype = target.dtype();
        if O::WATCHES {
            let view = self.view(target).clone();
            self.observe(&view, dtype.size(), kind, Proxy::Generic)?;
            if self.worker.observer.wants_value() {
                let unchanged = self.is_there(&view, dtype, x);
                self.worker.observer.on_value(unchanged);
            }
        }
        // Source and target may be the same memory.
        if let (Operand::Tile { .. }, Tile::Lent { .. }) = (x, self.tile_or_empty(x)) {
            self.tile_bytes(x);
        }
        let view = self.view(target);
        if let (Base::Global(arg), core::Operand::Slice(bytes)) = (view.base, self.elements(x)) {
            memory::write_view(self.call.gmem.target(arg), view, dtype.size(), bytes);
            return Ok(());
        }
        let view = view.clone();
        if let (Operand::Tile { .. }, Some(bits)) = (x, self.splat(x)) {
            self.write_splat(&view, dtype, bits);
        } else {
            self.with_dense(x, |c, bytes| c.write(&view, dtype, bytes));
        }
        Ok(())
    }

    /// Whether a view holds a value already.
    #[cold]
    fn is_there(&mut self, view: &RefVal, dtype: DType, x: Operand) -> bool {
        let missing = self.call.unwritten;
        let mut old = vec![0; view.len() as usize * dtype.size()];
        self.read(view, dtype, missing, &mut old);
        let mut new = vec![0; old.len()];
        self.write_out(x, &mut new);
        old == new
    }

    /// Writes the same element everywhere in a view.
    fn write_splat(&mut self, view: &RefVal, dtype: DType, bits: u64) {
        let Some((_, end)) = view.bounds() else { return };
        let elem = dtype.size();
        if let Some(len) = view.dense_len() {
            let mut target = self.target(view.base, elem, end);
            return target.fill(elem, bits, view.offset, len);
        }
        let bytes = view.len() as usize * elem;
        let (id, mut buffer) = self.new_tile(bytes);
        core::fill(elem, bits, buffer.bytes_mut(bytes));
        self.write(view, dtype, buffer.bytes(bytes));
        self.worker.pool.put(id, buffer);
        self.worker.pool.release(id);
    }

    pub(super) fn swap(&mut self, target: Operand, x: Operand, result: Operand) -> Result {
        self.check_inside(self.view(target), Access::ReadWrite)?;
        let dtype = target.dtype();
        if O::WATCHES {
            let view = self.view(target).clone();
            self.observe(&view, dtype.size(), AccessKind::Read, Proxy::Generic)?;
        }
        let old = self.read_new(target, dtype);
        self.write_value(target, x, AccessKind::Write)?;
        self.set_read(result, old);
        Ok(Flow::Next)
    }

    /// What a view holds, as a tile with one owner.
    fn read_new(&mut self, source: Operand, dtype: DType) -> (Tile, usize) {
        let bytes = self.view(source).len() as usize * dtype.size();
        let (id, mut buffer) = self.new_tile(bytes);
        self.read(self.view(source), dtype, self.call.unwritten, buffer.bytes_mut(bytes));
        self.worker.pool.put(id, buffer);
        (Tile::Dense(id), bytes)
    }

    /// Makes a tile a result, which may be a scalar.
    pub(super) fn set_read(&mut self, result: Operand, (tile, bytes): (Tile, usize)) {
        match (result, tile) {
            (Operand::Scalar { dtype, .. }, Tile::Dense(id)) => {
                let bits = core::load_scalar(dtype.size(), self.worker.pool.bytes(id, bytes), 0);
                self.worker.pool.release(id);
                self.set_scalar(result, bits);
            }
            _ => self.set_tile(result, tile),
        }
    }

    fn discard(&mut self, tile: Tile) {
        if let Tile::Dense(id) = tile {
            self.worker.pool.release(id);
        }
    }

    pub(super) fn load_masked(
        &mut self,
        source: Operand,
        mask: Operand,
        other: Option<Operand>,
        result: Operand,
    ) -> Result {
        let dtype = source.dtype();
        self.check_masked(source, mask, Access::Read)?;
        self.observe_masked(source, mask, dtype, AccessKind::Read)?;
        let size = dtype.size();
        let (tile, bytes) = self.read_new(source, dtype);
        let Tile::Dense(id) = tile else { unreachable!("just read") };
        // Where the mask is false, `other` or unwritten memory.
        let mut buffer = self.worker.pool.take(id);
        let spare = self.worker.pool.alloc(bytes);
        let mut loaded = self.worker.pool.take(spare);
        loaded.bytes_mut(bytes).copy_from_slice(buffer.bytes(bytes));
        let out = buffer.bytes_mut(bytes);
        match other {
            Some(other) => self.write_out(other, out),
            None => memory::fill(dtype, self.call.unwritten, out),
        }
        let lanes = self.elements(mask);
        choose(lanes, size, loaded.bytes(bytes), out);
        self.worker.pool.put(spare, loaded);
        self.worker.pool.release(spare);
        self.worker.pool.put(id, buffer);
        self.set_read(result, (tile, bytes));
        Ok(Flow::Next)
    }

    pub(super) fn store_masked(
        &mut self,
        target: Operand,
        x: Operand,
        mask: Operand,
        result: Option<Operand>,
    ) -> Result {
        let dtype = target.dtype();
        let access = if result.is_some() { Access::ReadWrite } else { Access::Write };
        self.check_masked(target, mask, access)?;
        self.observe_masked(target, mask, dtype, AccessKind::Write)?;
        self.update(target, x, Some(mask), dtype, result, |_, old, new, lanes, size| {
            choose(lanes, size, new, old);
        });
        Ok(Flow::Next)
    }

    pub(super) fn atomic_rmw(
        &mut self,
        kind: RmwKind,
        target: Operand,
        x: Operand,
        mask: Option<Operand>,
        result: Option<Operand>,
    ) -> Result {
        let dtype = target.dtype();
        match mask {
            Some(mask) => {
                self.check_masked(target, mask, Access::Atomic)?;
                self.observe_masked(target, mask, dtype, AccessKind::Atomic)?;
            }
            None => {
                self.check_inside(self.view(target), Access::Atomic)?;
                let view = self.view(target).clone();
                self.observe(&view, dtype.size(), AccessKind::Atomic, Proxy::Generic)?;
            }
        }
        self.update(target, x, mask, dtype, result, |pool, old, new, lanes, size| {
            let id = pool.alloc(old.len());
            let mut combined = pool.take(id);
            combined.bytes_mut(old.len()).copy_from_slice(old);
            rmw::combine(kind, dtype, combined.bytes_mut(old.len()), core::Operand::Slice(new));
            choose(lanes, size, combined.bytes(old.len()), old);
            pool.put(id, combined);
            pool.release(id);
        });
        Ok(Flow::Next)
    }

    pub(super) fn atomic_cas(
        &mut self,
        target: Operand,
        expected: Operand,
        new: Operand,
        result: Operand,
    ) -> Result {
        self.check_inside(self.view(target), Access::Atomic)?;
        let dtype = target.dtype();
        let view = self.view(target).clone();
        self.observe(&view, dtype.size(), AccessKind::Atomic, Proxy::Generic)?;
        let size = dtype.size();
        let bytes = view.len() as usize * size;
        let (wanted_id, mut wanted) = self.new_tile(bytes);
        self.write_out(expected, wanted.bytes_mut(bytes));
        self.update(target, new, None, dtype, Some(result), |_, old, new, _, size| {
            let elements = old.chunks_exact_mut(size).zip(new.chunks_exact(size));
            for ((old, new), expected) in elements.zip(wanted.bytes(bytes).chunks_exact(size)) {
                if old == expected {
                    old.copy_from_slice(new);
                }
            }
        });
        self.worker.pool.put(wanted_id, wanted);
        self.worker.pool.release(wanted_id);
        Ok(Flow::Next)
    }

    /// Reads a view, lets `change` turn old bytes into new ones, writes them, returns the old ones.
    /// One step of the thread, so nobody is in between.
    fn update(
        &mut self,
        target: Operand,
        x: Operand,
        mask: Option<Operand>,
        dtype: DType,
        result: Option<Operand>,
        change: impl FnOnce(&mut memory::Pool, &mut [u8], &[u8], core::Operand<'_>, usize),
    ) {
        let size = dtype.size();
        let (tile, bytes) = self.read_new(target, dtype);
        let Tile::Dense(id) = tile else { unreachable!("just read") };
        let (changed_id, mut changed) = self.new_tile(bytes);
        changed.bytes_mut(bytes).copy_from_slice(self.worker.pool.bytes(id, bytes));
        let (new_id, mut new) = self.new_tile(bytes);
        self.write_out(x, new.bytes_mut(bytes));
        let lanes_id = self.worker.pool.alloc(bytes / size);
        let mut lanes = self.worker.pool.take(lanes_id);
        match mask {
            Some(mask) => self.write_out(mask, lanes.bytes_mut(bytes / size)),
            None => lanes.bytes_mut(bytes / size).fill(1),
        }
        let every = core::Operand::Slice(lanes.bytes(bytes / size));
        change(&mut self.worker.pool, changed.bytes_mut(bytes), new.bytes(bytes), every, size);
        let view = self.view(target).clone();
        self.write(&view, dtype, changed.bytes(bytes));
        for (id, buffer) in [(changed_id, changed), (new_id, new), (lanes_id, lanes)] {
            self.worker.pool.put(id, buffer);
            self.worker.pool.release(id);
        }
        match result {
            Some(result) => self.set_read(result, (tile, bytes)),
            None => self.discard(tile),
        }
    }

    /// Leaving the array is an error only where the mask lets the access happen.
    fn check_masked(&self, operand: Operand, mask: Operand, access: Access) -> Result<()> {
        let view = self.view(operand);
        self.check_peer(view)?;
        if view.escape.is_none() || (access == Access::Read && self.call.reads_outside) {
            return Ok(());
        }
        let mut outside = false;
        for_each_index(view, |i, index| {
            outside |= lane(self.elements(mask), i) && memory::element(view, index).is_none();
        });
        if outside { Err(self.out_of_bounds(view, access)) } else { Ok(()) }
    }

    /// Tells the observer about the elements that the mask selects.
    fn observe_masked(
        &mut self,
        operand: Operand,
        mask: Operand,
        dtype: DType,
        kind: AccessKind,
    ) -> Result<()> {
        if !O::WATCHES {
            return Ok(());
        }
        let view = self.view(operand).clone();
        let mut selected = Vec::new();
        for_each_index(&view, |i, index| {
            if lane(self.elements(mask), i) {
                selected.extend(memory::element(&view, index));
            }
        });
        if selected.len() as i64 == view.len() {
            return self.observe(&view, dtype.size(), kind, Proxy::Generic);
        }
        self.observe_elements(&view, &selected, dtype, kind)
    }

    /// Tells the observer about single elements of an allocation.
    pub(super) fn observe_elements(
        &mut self,
        view: &RefVal,
        elements: &[i64],
        dtype: DType,
        kind: AccessKind,
    ) -> Result<()> {
        for &offset in elements {
            let mut one = RefVal::whole(view.base, &[]);
            one.offset = offset;
            self.observe(&one, dtype.size(), kind, Proxy::Generic)?;
        }
        Ok(())
    }
}

/// `out = new` where the mask is true.
fn choose(lanes: core::Operand<'_>, size: usize, new: &[u8], out: &mut [u8]) {
    match lanes {
        core::Operand::Splat(0) => {}
        core::Operand::Splat(_) => out.copy_from_slice(new),
        core::Operand::Slice(lanes) => match size {
            1 => choose_each::<1>(lanes, new, out),
            2 => choose_each::<2>(lanes, new, out),
            4 => choose_each::<4>(lanes, new, out),
            8 => choose_each::<8>(lanes, new, out),
            _ => choose_each::<16>(lanes, new, out),
        },
    }
}

/// The size is a constant so that the loop has no branches and no calls.
fn choose_each<const SIZE: usize>(lanes: &[u8], new: &[u8], out: &mut [u8]) {
    let elements = out.as_chunks_mut::<SIZE>().0.iter_mut().zip(new.as_chunks::<SIZE>().0);
    for ((out, new), lane) in elements.zip(lanes) {
        *out = if *lane != 0 { *new } else { *out };
    }
}

/// Lane `i` of a mask.
pub(super) fn lane(mask: core::Operand<'_>, i: usize) -> bool {
    match mask {
        core::Operand::Splat(bits) => bits != 0,
        core::Operand::Slice(lanes) => lanes[i] != 0,
    }
}

/// Calls `f` with every index of a view, counted row-major.
fn for_each_index(view: &RefVal, mut f: impl FnMut(usize, &[i64])) {
    let mut index = vec![0; view.dims.len()];
    for i in 0..view.len() as usize {
        f(i, &index);
        for (x, dim) in index.iter_mut().zip(&view.dims).rev() {
            *x += 1;
            if *x < dim.size {
                break;
            }
            *x = 0;
        }
    }
}
