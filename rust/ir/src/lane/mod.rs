//! Bodies of `inline_mgpu`: a small language of its own, executed by every CUDA thread of a warpgroup
//! or warp in lock step.
//!
//! A [`LaneBody`] is SSA like a [`crate::Program`], but a value is a short vector of elements *per
//! thread*. What the program knows as tiles and refs comes in as [`LaneParam`]s, which say which
//! element of a tile each thread holds in which register, and which byte of a tiled, swizzled view is
//! which element of the ref. The lowering emits one body per equation; a body that several equations
//! share is there once.

pub mod op;
pub mod op_table;
pub(crate) mod verify;

pub use op::{ExchangeKind, FenceKind, LANE_OPS, LaneEffect, LaneOp, LaneOpInfo, VoteKind};

use crate::program::{SpanId, nested};
use crate::types::Shape;
use pallas_rs_core::DType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of a body: an index into [`LaneBody::types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneValue(pub u32);

/// What a value holds in each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaneType {
    /// Element type; pointers and indices are `int64`.
    pub dtype: DType,
    /// Elements; a scalar has one.
    pub len: u32,
}

impl LaneType {
    /// Bits of a thread's value, packed as a GPU's registers hold it.
    pub fn bits(self) -> usize {
        let bits = if self.dtype == DType::Bool { 1 } else { self.dtype.packed_bits() };
        bits * self.len as usize
    }
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneInst {
    /// Op and attributes.
    pub op: LaneOp,
    /// Operands.
    #[serde(rename = "in")]
    pub operands: Vec<LaneValue>,
    /// Results.
    #[serde(rename = "out")]
    pub results: Vec<LaneValue>,
    /// Nested code.
    #[serde(default)]
    pub regions: Vec<LaneRegion>,
    /// Source line.
    pub span: SpanId,
}

/// Code with parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct LaneRegion {
    /// Parameters.
    pub params: Vec<LaneValue>,
    /// Instructions.
    pub insts: Vec<LaneInst>,
    /// What it returns.
    pub yields: Vec<LaneValue>,
}

impl Serialize for LaneRegion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LaneRegion::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for LaneRegion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        nested(|| LaneRegion::deserialize(deserializer))
    }
}

/// Which elements of an array the registers of the threads hold: element
/// `registers[r] + threads[t] + v * step` is component `v` of register `r` of thread `t`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaneLayout {
    /// Per register.
    pub registers: Vec<u32>,
    /// Per thread.
    pub threads: Vec<u32>,
    /// Components of a register.
    pub vector: u32,
    /// Elements from one component to the next.
    pub step: u32,
}

/// An array that comes in or goes out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneArray {
    /// Element type of the tile or scalar.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// Where its elements are; none for one register that stands for every element.
    pub layout: Option<LaneLayout>,
}

impl LaneArray {
    /// Number of registers.
    pub fn registers(&self) -> usize {
        self.layout.as_ref().map_or(1, |layout| layout.registers.len())
    }
}

/// A ref as the body addresses it: bytes of its tiled, swizzled view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneView {
    /// Element type.
    pub dtype: DType,
    /// Logical shape.
    pub shape: Shape,
    /// Tilings of the trailing dimensions, one after another.
    pub tilings: Vec<Shape>,
    /// Elements from one index to the next, per dimension of the tiled shape.
    pub strides: Vec<i64>,
    /// Swizzle in bytes; 16 and less is none.
    pub swizzle: u32,
}

/// One operand of the body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneParam {
    /// An array; its registers are the next parameters of the region.
    Array(LaneArray),
    /// A ref; it has no parameters, `view_pointer` names it by its number among the refs.
    View(LaneView),
}

/// A body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneBody {
    /// The user's name for it.
    pub name: String,
    /// CUDA threads that run it: 128, or 32 in a warp.
    pub threads: u32,
    /// Operands.
    pub params: Vec<LaneParam>,
    /// Results, whose registers the code yields one after another.
    pub results: Vec<LaneArray>,
    /// Code.
    pub code: LaneRegion,
    /// Types of values.
    pub types: Vec<LaneType>,
}

impl LaneBody {
    /// Type of a value.
    pub fn ty(&self, value: LaneValue) -> LaneType {
        self.types[value.0 as usize]
    }

    /// Its refs.
    pub fn views(&self) -> impl Iterator<Item = &LaneView> {
        self.params.iter().filter_map(|param| match param {
            LaneParam::View(view) => Some(view),
            LaneParam::Array(_) => None,
        })
    }

    /// Whether it may write to its refs.
    pub fn writes(&self) -> bool {
        fn any(region: &LaneRegion) -> bool {
            region.insts.iter().any(|inst| {
                matches!(
                    inst.op,
                    LaneOp::Store { .. }
                        | LaneOp::StoreMatrix { .. }
                        | LaneOp::Atomic { .. }
                        | LaneOp::Copy { .. }
                ) || inst.regions.iter().any(any)
            })
        }
        any(&self.code)
    }
}
