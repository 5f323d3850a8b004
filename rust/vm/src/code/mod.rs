//! Flat code: what a program becomes once per executable.

use pallas_rs_core::DType;
use pallas_rs_ir::{Alloc, Op, Program, RefType, Shape, SpanId};
use std::sync::Arc;

/// Shape and element type of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TileType {
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    /// Number of elements.
    pub(crate) len: usize,
    /// Number of bytes.
    pub(crate) bytes: usize,
}

/// An operand or result: a register and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A scalar register.
    Scalar { register: u32, dtype: DType },
    /// A tile register.
    Tile {
        register: u32,
        /// Entry of [`Code::tile_types`].
        ty: u32,
        /// Whether the tile dies here: its buffer may be written over.
        last: bool,
    },
    /// A ref register.
    Ref {
        register: u32,
        /// Entry of [`Code::ref_types`].
        ty: u32,
    },
}

/// An op with registers for values.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) op: Op,
    pub(crate) operands: Box<[Operand]>,
    pub(crate) results: Box<[Operand]>,
}

/// A program, flattened.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) program: Arc<Program>,
    /// Source line of each instruction.
    pub(crate) spans: Vec<SpanId>,
    pub(crate) records: Vec<Record>,
    pub(crate) tile_types: Vec<TileType>,
    pub(crate) ref_types: Vec<RefType>,
    /// Every allocation of every scope.
    pub(crate) allocs: Vec<Alloc>,
}

impl Code {
    /// Source line of an instruction.
    pub(crate) fn span(&self, pc: u32) -> SpanId {
        self.spans[pc as usize]
    }

    /// Type of a tile operand.
    pub(crate) fn tile_type(&self, operand: Operand) -> &TileType {
        match operand {
            Operand::Tile { ty, .. } => &self.tile_types[ty as usize],
            _ => unreachable!("the verifier saw a tile"),
        }
    }

    /// Type of a ref operand.
    pub(crate) fn ref_type(&self, operand: Operand) -> &RefType {
        match operand {
            Operand::Ref { ty, .. } => &self.ref_types[ty as usize],
            _ => unreachable!("the verifier saw a ref"),
        }
    }
}
