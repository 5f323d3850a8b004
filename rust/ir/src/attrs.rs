//! Attributes of ops: everything about an op that is known when the kernel is lowered.

use crate::types::{Elem, RefType, Shape, Space};
use pallas_rs_core::DType;
use serde::{Deserialize, Serialize};

/// Where a dimension of a view starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Known when lowered.
    Static(i64),
    /// The next dynamic operand (an integer scalar) of the op.
    Dynamic,
}

/// What one dimension of the base contributes to a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SliceDim {
    /// One index; the dimension disappears.
    Index(Start),
    /// `size` elements from `start`, `stride` apart.
    Slice {
        /// First element.
        start: Start,
        /// Number of elements.
        size: usize,
        /// Distance between elements, at least 1.
        stride: usize,
    },
}

impl SliceDim {
    /// The size of the view's dimension, unless it disappears.
    pub fn size(self) -> Option<usize> {
        match self {
            SliceDim::Index(_) => None,
            SliceDim::Slice { size, .. } => Some(size),
        }
    }

    /// Where it starts.
    pub fn start(self) -> Start {
        match self {
            SliceDim::Index(start) | SliceDim::Slice { start, .. } => start,
        }
    }
}

/// What one dimension of the base contributes to a gather or scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatherDim {
    /// Indexed by the next index operand (an integer tile of the indexer's shape).
    Array,
    /// As [`SliceDim::Slice`]; never dropped.
    Slice {
        /// First element.
        start: Start,
        /// Number of elements.
        size: usize,
        /// Distance between elements.
        stride: usize,
    },
}

/// Block dimension of a `BlockSpec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockDim {
    /// Blocks of this size; the index map returns a block index.
    Blocked(usize),
    /// One element; the dimension disappears. The index map returns an element index.
    Squeezed,
    /// A window of `size` elements at an element offset, with the array padded by `lo` and `hi`.
    Element {
        /// Elements.
        size: usize,
        /// Padding in front.
        lo: usize,
        /// Padding behind.
        hi: usize,
    },
}

impl BlockDim {
    /// The size of the window's dimension, unless it disappears.
    pub fn size(self) -> Option<usize> {
        match self {
            BlockDim::Squeezed => None,
            BlockDim::Blocked(size) | BlockDim::Element { size, .. } => Some(size),
        }
    }
}

/// Physical layout of an allocation; values do not depend on it, limits and findings do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutTransform {
    /// Tiled by this shape over the trailing dimensions.
    Tile(Vec<usize>),
    /// Swizzled within this many bytes.
    Swizzle(usize),
    /// A member of a union of refs.
    Within(Within),
}

/// Where in a union an allocation lies. Its values are kept apart from those of the other members:
/// only a kernel that breaks the contract of unions could tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Within {
    /// Which union of the scope.
    pub union: u32,
    /// Where it begins: a byte of SMEM, a column of TMEM.
    pub offset: usize,
}

/// What an allocation holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocKind {
    /// Numbers. `zeroed` allocations start as 0 (accumulators), others as unwritten memory.
    Data {
        /// Element type.
        dtype: DType,
        /// Whether it starts as zeros.
        zeroed: bool,
        /// Tiling and swizzle.
        layout: Vec<LayoutTransform>,
    },
    /// Barriers that complete a phase after `arrivals` arrivals.
    Barrier {
        /// Arrivals a phase needs.
        arrivals: u32,
        /// Whether waiting orders tensor-core work.
        orders_tensor_core: bool,
    },
    /// One barrier per block of the cluster; arriving reaches the blocks that differ in at most one
    /// of `axes`.
    ClusterBarrier {
        /// Collective axes; each entry lists the cluster dimensions of one (composite) axis.
        axes: Vec<Vec<usize>>,
        /// Arrivals each participating block makes.
        arrivals: u32,
        /// Whether waiting orders tensor-core work.
        orders_tensor_core: bool,
        /// Whether only the block with index 0 along the axis is arrived on.
        leader_tracked: bool,
    },
    /// Semaphores, zero at first.
    Semaphore,
}

/// One allocation of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Alloc {
    /// The user's name for it, or `scratch[i]`.
    pub name: String,
    /// Memory space.
    pub space: Space,
    /// Logical shape.
    pub shape: Shape,
    /// Contents.
    pub kind: AllocKind,
}

impl Alloc {
    /// The union of which it is a member.
    pub fn within(&self) -> Option<Within> {
        let AllocKind::Data { layout, .. } = &self.kind else { return None };
        layout.iter().find_map(|step| match step {
            LayoutTransform::Within(within) => Some(*within),
            LayoutTransform::Tile(_) | LayoutTransform::Swizzle(_) => None,
        })
    }

    /// Type of the ref that the scope's region receives.
    pub fn ref_type(&self) -> RefType {
        let elem = match &self.kind {
            AllocKind::Data { dtype, .. } => Elem::Data(*dtype),
            AllocKind::Barrier { .. } | AllocKind::ClusterBarrier { .. } => Elem::Barrier,
            AllocKind::Semaphore => Elem::Semaphore,
        };
        RefType { space: self.space, elem, shape: self.shape.clone() }
    }
}

/// What a TMA load puts where its window leaves the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OobMode {
    /// Zeros (the default of the hardware's tensor copies).
    Zeros,
    /// Nothing that may be relied on.
    Undefined,
    /// The kernel promises that it does not happen.
    PromiseInBounds,
}

/// How the blocks of a cluster share one TMA load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Partition {
    /// Every block receives everything and its own barrier is arrived on.
    Multicast,
    /// Block i receives part i along this dimension; only the leader's barrier is arrived on.
    Partitioned(usize),
    /// Every block receives everything; only the leader's barrier is arrived on.
    Replicated,
}

/// A collective TMA load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Collective {
    /// Cluster dimensions that take part.
    pub axes: Vec<usize>,
    /// Who gets what.
    pub partition: Partition,
}

/// How the source of a copy to tensor memory is arranged. A row is one of the target, a column one of
/// its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TmemFormat {
    /// As the target.
    Plain,
    /// Scales of blocks, `[rows / 128, columns / 4, 32, 16]`: element `[r, c, l, 4 g + i]` is row
    /// `128 r + 32 g + l`, column `4 c + i`.
    Scales,
    /// The second operand's scales for a pair of blocks of 64 rows each, `[1, columns / 4, 64, 16]`:
    /// the scales of each half of the result's columns lie in 128 rows of their own.
    PairScales,
    /// Selectors of a sparse operand, `[rows / 128, columns / 64, 128, 64]`.
    Metadata,
}

/// A read-modify-write on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RmwKind {
    /// Sum.
    Add,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The new value replaces the old one.
    Xchg,
    /// `old >= new ? 0 : old + 1`.
    Inc,
    /// `old == 0 || old > new ? new : old - 1`.
    Dec,
}
