//! Copies between GMEM and SMEM: TMA loads and stores, cp.async.

use super::rmw;
use super::transfer::{Side, Transfer};
use crate::machine::Ctx;
use crate::memory::{Base, Contents, RefVal, TileId, area, fill};
use crate::observer::{At, Engine, Observer};
use crate::sync::BarrierKey;
use pallas_rs_core::{DType, Operand};
use pallas_rs_ir::RmwKind;
use smallvec::SmallVec;

/// A copy from GMEM, or of a value, to SMEM.
#[derive(Debug)]
pub(crate) struct Load {
    /// What exists at its source; `None` if nothing does.
    pub(crate) transfer: Option<Box<Transfer>>,
    /// What the rest of its target becomes, where the source leaves its array.
    pub(crate) rest: Option<Box<(RefVal, Contents)>>,
    /// What it moves where that is a value and not what is at its source, and how.
    pub(crate) data: Option<(TileId, Option<RmwKind>)>,
    /// Whether it asks for a cluster: what it moves is known when it lands.
    pub(crate) claims: bool,
    pub(crate) dtype: DType,
    pub(crate) engine: Engine,
    /// The barrier it was issued with.
    pub(crate) barrier: Option<BarrierKey>,
    /// Whether its completion arrives there: not so for the blocks that a leader tracks.
    pub(crate) arrives: bool,
    /// The blocks that issue it together, and which collective copy on this barrier it is. Empty
    /// for a copy of one block.
    pub(crate) peers: Box<[u32]>,
    pub(crate) ordinal: u64,
    /// The one of them whose barrier tracks the copies of all, if it is not each its own.
    pub(crate) leader: Option<u32>,
    pub(crate) at: At,
    pub(crate) ticket: u64,
    /// Copies that complete with it and do not arrive themselves.
    pub(crate) parts: Vec<Load>,
}

impl Load {
    /// Whether it writes to an allocation.
    pub(crate) fn writes(&self, base: Base) -> bool {
        let transfer = self.transfer.as_ref().is_some_and(|t| t.to.base == base);
        transfer
            || self.rest.as_ref().is_some_and(|r| r.0.base == base)
            || self.parts.iter().any(|part| part.writes(base))
    }
}

/// A copy or reduction from SMEM to GMEM.
#[derive(Debug)]
pub(crate) struct Store {
    /// What exists at its target.
    pub(crate) transfer: Box<Transfer>,
    pub(crate) dtype: DType,
    pub(crate) reduction: Option<RmwKind>,
    /// What was read from SMEM, dense, once it has been read.
    pub(crate) captured: Option<TileId>,
    pub(crate) ticket: u64,
}

impl<O: Observer> Ctx<'_, O> {
    /// Moves the bytes of a load that have not been moved, and completes it.
    pub(crate) fn perform_load(&mut self, mut load: Load) {
        self.move_load(&mut load);
        self.complete_load(&load);
    }

    fn complete_load(&mut self, load: &Load) {
        load.parts.iter().for_each(|part| self.complete_load(part));
        self.worker.observer.on_complete(self.cluster.index, load.engine, load.ticket);
    }

    /// Moves the bytes of a load, once.
    pub(crate) fn move_load(&mut self, load: &mut Load) {
        for part in &mut load.parts {
            self.move_load(part);
        }
        let elem = load.dtype.size();
        if self.tracks() {
            self.track_transfer(load.transfer.as_deref(), load.rest.as_deref(), elem);
        }
        if let Some(rest) = load.rest.take() {
            self.fill_view(&rest.0, load.dtype, rest.1);
        }
        if let Some(transfer) = load.transfer.take() {
            if let Some((id, reduction)) = load.data {
                match reduction {
                    Some(kind) => self.reduce(kind, &transfer, load.dtype, Some(id)),
                    None => self.scatter_tile(&transfer, elem, id),
                }
            } else if let Base::Global(arg) = transfer.from.base {
                let source = self.call.gmem.source(arg);
                let target = self.target(transfer.to.base, elem, transfer.to.end);
                transfer.copy(elem, source, target);
            } else {
                self.move_within(&transfer, elem);
            }
            self.worker.stats.tma_bytes += (transfer.len() * elem) as u64;
            self.cluster.engines.spare.push(transfer);
        }
    }

    /// Moves the bytes of a store.
    pub(crate) fn perform_store(&mut self, store: Store) {
        let Store { transfer, dtype, reduction, captured, ticket } = store;
        let elem = dtype.size();
        if self.tracks() && captured.is_none() {
            self.track_transfer(Some(&transfer), None, elem);
        }
        match (reduction, transfer.to.base, captured) {
            (Some(kind), _, _) => self.reduce(kind, &transfer, dtype, captured),
            (None, Base::Global(arg), None) => {
                let source = self.source(transfer.from.base, elem, transfer.from.end);
                transfer.copy(elem, source, self.call.gmem.target(arg));
            }
            (None, _, _) => {
                let id = captured.unwrap_or_else(|| self.capture(&transfer, elem));
                self.scatter_tile(&transfer, elem, id);
            }
        }
        self.worker.stats.tma_bytes += (transfer.len() * elem) as u64;
        self.cluster.engines.spare.push(transfer);
        self.worker.observer.on_complete(self.cluster.index, Engine::TmaStore, ticket);
    }

    /// Reads the source of a store, which may be overwritten from then on.
    pub(crate) fn capture_store(&mut self, store: &mut Store) {
        if store.captured.is_none() {
            if self.tracks() {
                self.track_transfer(Some(&store.transfer), None, store.dtype.size());
            }
            store.captured = Some(self.capture(&store.transfer, store.dtype.size()));
        }
    }

    fn reduce(
        &mut self,
        kind: RmwKind,
        transfer: &Transfer,
        dtype: DType,
        captured: Option<TileId>,
    ) {
        let elem = dtype.size();
        let bytes = transfer.len() * elem;
        let x = captured.unwrap_or_else(|| self.capture(transfer, elem));
        let (id, mut old) = self.new_tile(bytes);
        let target = self.source(transfer.to.base, elem, transfer.to.end);
        transfer.gather_target(elem, target, old.bytes_mut(bytes));
        let x_bytes = Operand::Slice(self.worker.pool.bytes(x, bytes));
        rmw::combine(kind, dtype, old.bytes_mut(bytes), x_bytes);
        self.worker.pool.put(id, old);
        self.worker.pool.release(x);
        self.scatter_tile(transfer, elem, id);
    }

    /// Moves bytes from one allocation to another that may be the same.
    pub(crate) fn move_within(&mut self, transfer: &Transfer, elem: usize) {
        let id = self.capture(transfer, elem);
        self.scatter_tile(transfer, elem, id);
    }

    /// The elements of the source of a transfer, in a new tile.
    fn capture(&mut self, transfer: &Transfer, elem: usize) -> TileId {
        let bytes = transfer.len() * elem;
        let (id, mut buffer) = self.new_tile(bytes);
        let source = self.source(transfer.from.base, elem, transfer.from.end);
        transfer.gather(elem, source, buffer.bytes_mut(bytes));
        self.worker.pool.put(id, buffer);
        id
    }

    /// Writes a tile to the target of a transfer, and gives it up.
    fn scatter_tile(&mut self, transfer: &Transfer, elem: usize, id: TileId) {
        let buffer = self.worker.pool.take(id);
        let target = self.target(transfer.to.base, elem, transfer.to.end);
        transfer.scatter(elem, buffer.bytes(transfer.len() * elem), target);
        self.worker.pool.put(id, buffer);
        self.worker.pool.release(id);
    }

    /// Fills a whole view of SMEM.
    fn fill_view(&mut self, view: &RefVal, dtype: DType, contents: Contents) {
        let Some((_, end)) = view.bounds() else { return };
        let elem = dtype.size();
        let mut element = [0; 16];
        fill(dtype, contents, &mut element[..elem]);
        let shape: SmallVec<[i64; 4]> = view.dims.iter().map(|d| d.size).collect();
        let strides: SmallVec<[i64; 4]> = view.dims.iter().map(|d| d.stride).collect();
        let still: SmallVec<[i64; 4]> = SmallVec::from_elem(0, shape.len());
        area::copy(
            elem,
            &shape,
            element[..elem].into(),
            area::Steps { offset: 0, strides: &still },
            self.target(view.base, elem, end),
            area::Steps { offset: view.offset, strides: &strides },
        );
    }

    /// One side of a transfer, for an observer.
    pub(crate) fn window<'w>(
        &self,
        side: &'w Side,
        shape: &'w [usize],
        elem: usize,
    ) -> crate::observer::Window<'w> {
        let (base, block) = self.base_id(side.base);
        crate::observer::Window {
            base,
            block,
            offset: side.offset,
            sizes: shape,
            strides: &side.strides,
            elem_size: elem,
        }
    }
}
