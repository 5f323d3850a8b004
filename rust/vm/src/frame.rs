//! The registers of a thread.

use crate::memory::{Base, Pool, RefVal, TileId};

/// What a tile register holds. A dense tile counts as one owner of its buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tile {
    /// Nothing yet, or nothing any more.
    #[default]
    Empty,
    /// Every element has these bits (as in a scalar register).
    Splat(u64),
    /// Dense, row-major.
    Dense(TileId),
    /// Dense, still in the memory it was loaded from, from element `offset` of an allocation on:
    /// nothing writes to it while the register is read ([`crate::code::lend`]).
    Lent { base: Base, offset: i64 },
}

/// Three register files. Which value is in which register is decided in [`crate::code`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) scalars: Vec<u64>,
    pub(crate) tiles: Vec<Tile>,
    pub(crate) refs: Vec<RefVal>,
}

impl Frame {
    /// Registers that hold nothing.
    pub(crate) fn new(scalars: usize, tiles: usize, refs: usize) -> Frame {
        Frame {
            scalars: vec![0; scalars],
            tiles: vec![Tile::Empty; tiles],
            refs: vec![RefVal::whole(Base::Global(0), &[]); refs],
        }
    }

    /// Puts a tile into a register, which gives up what it held.
    #[inline]
    pub(crate) fn set_tile(&mut self, pool: &mut Pool, register: u32, tile: Tile) {
        let old = std::mem::replace(&mut self.tiles[register as usize], tile);
        if let Tile::Dense(id) = old {
            pool.release(id);
        }
    }

    /// Takes a tile out of a register: the caller becomes the owner.
    #[inline]
    pub(crate) fn take_tile(&mut self, register: u32) -> Tile {
        std::mem::take(&mut self.tiles[register as usize])
    }

    /// The same registers once more, each tile with one owner more.
    pub(crate) fn copy(&self, pool: &mut Pool) -> Frame {
        for tile in &self.tiles {
            if let Tile::Dense(id) = *tile {
                pool.retain(id);
            }
        }
        self.clone()
    }

    /// Gives up every tile.
    pub(crate) fn clear_tiles(&mut self, pool: &mut Pool) {
        for register in 0..self.tiles.len() as u32 {
            self.set_tile(pool, register, Tile::Empty);
        }
    }
}
