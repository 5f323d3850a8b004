//! Flat code: what a program becomes once per executable.

pub(crate) mod chain;
mod fuse;
mod inst;
pub(crate) mod lend;
mod liveness;
mod lower;
mod registers;
mod select;
pub(crate) mod tiling;
mod windows;

pub(crate) use inst::{Inst, Reg};
pub(crate) use windows::Windows;

use crate::lanes::LaneCode;
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

impl TileType {
    pub(crate) fn new(dtype: DType, shape: Shape) -> TileType {
        let len = shape.iter().product();
        TileType { dtype, shape, len, bytes: len * dtype.size() }
    }
}

/// An operand or result: a register and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A scalar register.
    Scalar { register: u32, dtype: DType },
    /// A tile register.
    Tile {
        register: u32,
        /// Entry of [`Code::tile_types`], and what is needed of it all the time.
        ty: u32,
        bytes: u32,
        dtype: DType,
        /// Whether the tile dies here: its buffer may be written over.
        last: bool,
    },
    /// A ref register.
    Ref {
        register: u32,
        /// Entry of [`Code::ref_types`].
        ty: u32,
        /// Element type, of numbers.
        dtype: Option<DType>,
    },
}

impl Operand {
    /// Element type: of a scalar or tile, or of the numbers behind a ref.
    #[inline]
    pub(crate) fn dtype(self) -> DType {
        match self {
            Operand::Scalar { dtype, .. }
            | Operand::Tile { dtype, .. }
            | Operand::Ref { dtype: Some(dtype), .. } => dtype,
            Operand::Ref { dtype: None, .. } => unreachable!("the verifier saw numbers"),
        }
    }
}

/// An op with registers for values.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) op: Op,
    pub(crate) operands: Box<[Operand]>,
    pub(crate) results: Box<[Operand]>,
    /// Tile registers whose tile dies here and that no result takes over.
    pub(crate) drops: Box<[Reg]>,
    /// What it takes, very roughly in nanoseconds.
    pub(crate) cost: i64,
    /// Of a load: whether its result may stay in memory.
    pub(crate) lends: bool,
}

/// What a register holds before the code runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Initial {
    /// A constant.
    Scalar { reg: Reg, bits: u64 },
    /// A tile of equal elements.
    Splat { reg: Reg, bits: u64 },
    /// A tile of the elements of a blob.
    Blob { reg: Reg, blob: u32 },
    /// A ref to a whole argument.
    Arg { reg: Reg, arg: u32, shape: Shape },
}

/// An argument whose value is in a register before the code runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByValue {
    pub(crate) arg: u32,
    pub(crate) operand: Operand,
}

/// A scope: entries `first_alloc..first_alloc + count` of [`Code::allocs`].
#[derive(Clone, Debug)]
pub(crate) struct ScopeCode {
    pub(crate) first_alloc: u32,
    pub(crate) count: u32,
    /// Registers of its refs.
    pub(crate) refs: Box<[Reg]>,
    pub(crate) collective: bool,
    /// Whether it is collective and the first thing that a thread does: all come to it at once.
    pub(crate) first: bool,
}

/// A program, flattened.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) program: Arc<Program>,
    pub(crate) insts: Vec<Inst>,
    /// Source line of each instruction.
    pub(crate) spans: Vec<SpanId>,
    pub(crate) records: Vec<Record>,
    pub(crate) chains: Vec<chain::ChainCode>,
    pub(crate) tile_types: Vec<TileType>,
    pub(crate) ref_types: Vec<RefType>,
    /// Every allocation of every scope.
    pub(crate) allocs: Vec<Alloc>,
    pub(crate) scopes: Vec<ScopeCode>,
    /// Targets of [`Inst::JumpTable`].
    pub(crate) tables: Vec<Box<[u32]>>,
    pub(crate) initial: Vec<Initial>,
    pub(crate) by_value: Vec<ByValue>,
    /// By argument: whether the program writes to it.
    pub(crate) written: Vec<bool>,
    /// Inline bodies.
    pub(crate) lanes: Vec<LaneCode>,
    /// How its windows tile its arguments.
    pub(crate) tiling: tiling::Tiling,
    /// What decides which points of the grid may run at the same time.
    pub(crate) windows: Option<Box<Windows>>,
    /// Whether warps run by themselves somewhere.
    pub(crate) warps: bool,
    /// Whether clusters claim others that have not been launched.
    pub(crate) steals: bool,
    /// Whether pairs of blocks share tensor cores, and with them their TMEM.
    pub(crate) pairs: bool,
    /// Sizes of the register files.
    pub(crate) scalars: usize,
    pub(crate) tiles: usize,
    pub(crate) refs: usize,
}

impl Code {
    /// Flattens a verified program.
    pub(crate) fn new(program: Arc<Program>) -> Code {
        let written = windows::written(&program);
        let windows = windows::windows(&program, &written).map(Box::new);
        let bodies = program.lane_bodies.iter();
        let lanes = bodies.map(|body| LaneCode::new(body, &program)).collect();
        let tiling = tiling::tiling(&program, &written);
        Code { written, lanes, tiling, windows, ..lower::lower(program) }
    }

    fn empty(program: Arc<Program>) -> Code {
        Code {
            program,
            insts: Vec::new(),
            spans: Vec::new(),
            records: Vec::new(),
            chains: Vec::new(),
            tile_types: Vec::new(),
            ref_types: Vec::new(),
            allocs: Vec::new(),
            scopes: Vec::new(),
            tables: Vec::new(),
            initial: Vec::new(),
            by_value: Vec::new(),
            written: Vec::new(),
            lanes: Vec::new(),
            tiling: tiling::Tiling::default(),
            windows: None,
            warps: false,
            steals: false,
            pairs: false,
            scalars: 0,
            tiles: 0,
            refs: 0,
        }
    }

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
