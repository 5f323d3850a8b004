//! Values in, values out: how an op reads its operands and where its result goes.

use crate::code::Operand;
use crate::frame::Tile;
use crate::machine::Ctx;
use crate::memory::{Base, Buffer, TileId};
use crate::observer::Observer;
use pallas_rs_core as core;

/// Room for one element of any type.
pub(super) type Element = [u8; 16];

impl<O: Observer> Ctx<'_, O> {
    /// Shape of a scalar or tile.
    #[inline]
    pub(crate) fn shape(&self, operand: Operand) -> &[usize] {
        match operand {
            Operand::Scalar { .. } => &[],
            Operand::Tile { ty, .. } => &self.call.code.tile_types[ty as usize].shape,
            Operand::Ref { .. } => unreachable!("the verifier saw a value"),
        }
    }

    /// The elements of a scalar or tile.
    #[inline]
    pub(crate) fn elements(&self, operand: Operand) -> core::Operand<'_> {
        match operand {
            Operand::Scalar { register, .. } => {
                core::Operand::Splat(self.thread.frame.scalars[register as usize])
            }
            Operand::Tile { register, bytes, .. } => {
                match self.thread.frame.tiles[register as usize] {
                    Tile::Splat(bits) => core::Operand::Splat(bits),
                    Tile::Dense(id) => {
                        core::Operand::Slice(self.worker.pool.bytes(id, bytes as usize))
                    }
                    Tile::Lent { base, offset } => {
                        let elem = operand.dtype().size();
                        core::Operand::Slice(self.lent(base, offset, elem, bytes as usize))
                    }
                    Tile::Empty => unreachable!("a tile is written before it is read"),
                }
            }
            Operand::Ref { .. } => unreachable!("the verifier saw a value"),
        }
    }

    /// The elements of a lent tile.
    #[inline]
    fn lent(&self, base: Base, offset: i64, elem: usize, bytes: usize) -> &[u8] {
        match (base, self.storage(base)) {
            (Base::Global(arg), _) => self.call.gmem.lend(arg, elem, offset, bytes),
            (_, Some(tile)) => &self.worker.pool.whole(tile)[offset as usize * elem..][..bytes],
            (_, None) => unreachable!("a ref does not outlive its scope"),
        }
    }

    /// Bits that every element of a value has, if that is known.
    #[inline]
    pub(super) fn splat(&self, operand: Operand) -> Option<u64> {
        match operand {
            Operand::Scalar { .. } => Some(self.scalar(operand)),
            Operand::Tile { .. } => match self.tile(operand) {
                Tile::Splat(bits) => Some(bits),
                Tile::Dense(_) | Tile::Lent { .. } | Tile::Empty => None,
            },
            Operand::Ref { .. } => None,
        }
    }

    /// Writes a splat out into its register, so that [`Ctx::dense`] can read it.
    #[inline]
    pub(super) fn densify(&mut self, operand: Operand) {
        if let (Operand::Tile { .. }, Tile::Splat(_)) = (operand, self.tile_or_empty(operand)) {
            self.tile_bytes(operand);
        }
    }

    pub(super) fn tile_or_empty(&self, operand: Operand) -> Tile {
        match operand {
            Operand::Tile { .. } => self.tile(operand),
            Operand::Scalar { .. } | Operand::Ref { .. } => Tile::Empty,
        }
    }

    /// Bytes of a tile that is known to be dense.
    #[inline]
    pub(super) fn dense(&self, operand: Operand) -> &[u8] {
        match self.elements(operand) {
            core::Operand::Slice(bytes) => bytes,
            core::Operand::Splat(_) => unreachable!("made dense before"),
        }
    }

    /// Sets a result to a value all of whose elements are equal.
    #[inline]
    pub(crate) fn set_splat(&mut self, result: Operand, bits: u64) {
        match result {
            Operand::Scalar { .. } => self.set_scalar(result, bits),
            _ => self.set_tile(result, Tile::Splat(bits)),
        }
    }

    /// Sets a result to what `write` writes into its bytes, which hold anything before.
    #[inline]
    pub(crate) fn produce(&mut self, result: Operand, write: impl FnOnce(&Self, &mut [u8])) {
        match result {
            Operand::Scalar { dtype, .. } => {
                let mut element: Element = [0; 16];
                write(self, &mut element[..dtype.size()]);
                self.set_scalar(result, core::load_scalar(dtype.size(), &element, 0));
            }
            Operand::Tile { bytes, .. } => {
                let bytes = bytes as usize;
                let (id, mut buffer) = self.new_tile(bytes);
                write(self, buffer.bytes_mut(bytes));
                self.worker.pool.put(id, buffer);
                self.set_tile(result, Tile::Dense(id));
            }
            Operand::Ref { .. } => unreachable!("the verifier saw a value"),
        }
    }

    /// Takes the storage of a dense tile that dies here and has no other owner, to write over it;
    /// [`Ctx::give`] makes it a result.
    #[inline]
    pub(super) fn reuse(&mut self, operand: Operand) -> Option<(TileId, Buffer)> {
        let Operand::Tile { register, last: true, .. } = operand else { return None };
        let Tile::Dense(id) = self.thread.frame.tiles[register as usize] else { return None };
        if !self.worker.pool.is_unique(id) {
            return None;
        }
        self.thread.frame.tiles[register as usize] = Tile::Empty;
        Some((id, self.worker.pool.take(id)))
    }

    /// Makes storage that was taken a result.
    #[inline]
    pub(super) fn give(&mut self, result: Operand, (id, buffer): (TileId, Buffer)) {
        self.worker.pool.put(id, buffer);
        self.set_tile(result, Tile::Dense(id));
    }

    /// Sets a result to the same elements at another shape.
    pub(super) fn reshape(&mut self, from: Operand, result: Operand) {
        match (from, result) {
            (Operand::Tile { .. }, Operand::Tile { .. }) => match self.tile(from) {
                lent @ Tile::Lent { .. } => self.set_tile(result, lent),
                Tile::Dense(_) | Tile::Splat(_) | Tile::Empty => self.forward(from, result),
            },
            _ => self.forward(from, result),
        }
    }

    /// Sets a result to a value of as many elements and bytes.
    #[inline]
    pub(super) fn forward(&mut self, from: Operand, result: Operand) {
        match (from, result) {
            (Operand::Scalar { .. }, _) => self.set_splat(result, self.scalar(from)),
            (Operand::Tile { register, last, .. }, Operand::Tile { .. }) => {
                // Whoever takes it may keep it for longer than it is lent.
                if let Tile::Lent { .. } = self.tile(from) {
                    self.tile_bytes(from);
                }
                let tile = if last {
                    self.thread.frame.take_tile(register)
                } else {
                    let tile = self.thread.frame.tiles[register as usize];
                    if let Tile::Dense(id) = tile {
                        self.worker.pool.retain(id);
                    }
                    tile
                };
                self.set_tile(result, tile);
            }
            (Operand::Tile { .. }, Operand::Scalar { dtype, .. }) => {
                let bits = match self.elements(from) {
                    core::Operand::Splat(bits) => bits,
                    core::Operand::Slice(bytes) => core::load_scalar(dtype.size(), bytes, 0),
                };
                self.set_scalar(result, bits);
            }
            (Operand::Ref { .. }, _) | (_, Operand::Ref { .. }) => {
                unreachable!("the verifier saw values")
            }
        }
    }
}
