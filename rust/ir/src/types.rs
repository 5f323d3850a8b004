//! Types of values: scalars, tiles and refs.

use pallas_rs_core::DType;
use serde::{Deserialize, Serialize};

/// A static shape. Rank 0 is a scalar.
pub type Shape = Vec<usize>;

/// Where memory lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Global memory of the device.
    Gmem,
    /// Shared memory of a block.
    Smem,
    /// Tensor memory of a block (Blackwell).
    Tmem,
    /// Registers of a thread: wgmma accumulators.
    Regs,
}

/// What an element of a ref is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elem {
    /// A number.
    Data(DType),
    /// An mbarrier, of a block or of a cluster.
    Barrier,
    /// A counting semaphore in GMEM.
    Semaphore,
}

/// A reference to memory: a base allocation seen through a chain of views, at its logical shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefType {
    /// Memory space.
    pub space: Space,
    /// Element.
    pub elem: Elem,
    /// Logical shape; tiling and swizzle do not change it.
    pub shape: Shape,
}

/// The type of an SSA value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A rank-0 value that fits 64 bits. Index arithmetic lives here.
    Scalar(DType),
    /// A dense value in registers. Rank 0 only for complex element types.
    Tile(DType, Shape),
    /// A view of memory.
    Ref(RefType),
}

impl Type {
    /// The element type of a scalar or tile.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Type::Scalar(d) | Type::Tile(d, _) => Some(*d),
            Type::Ref(_) => None,
        }
    }

    /// The shape; a scalar's is empty.
    pub fn shape(&self) -> &[usize] {
        match self {
            Type::Scalar(_) => &[],
            Type::Tile(_, s) => s,
            Type::Ref(r) => &r.shape,
        }
    }
}
