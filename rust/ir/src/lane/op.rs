//! [`LaneOp`], generated from the table, and its attributes.

use crate::attrs::RmwKind;
use crate::for_each_lane_op;
use crate::types::Shape;
use pallas_rs_core::{BinaryKind, CompareKind, ReduceKind, UnaryKind};
use serde::{Deserialize, Serialize};

/// What running a lane op can touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneEffect {
    /// Depends on its operands and on which thread it is: computed once where the operands are known.
    Pure,
    /// Depends on where the block is.
    Position,
    /// As pure, but refuses operands out of range.
    Address,
    /// Exchanges values within a warp.
    Warp,
    /// Reads or writes memory.
    Memory,
    /// Orders threads or engines; may block.
    Sync,
    /// Runs its regions.
    Control,
}

/// Which thread of the warp `exchange` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeKind {
    /// Own index, exclusive or the offset.
    Butterfly,
    /// The index in the offset.
    Index,
    /// Own index less the offset.
    Up,
    /// Own index plus the offset.
    Down,
}

/// What a warp votes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoteKind {
    /// Whether any thread says yes.
    Any,
    /// Whether all do.
    All,
    /// Whether all say the same.
    Uniform,
    /// Who says yes, a bit per thread.
    Ballot,
}

/// Fences and waits without operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceKind {
    /// Generic accesses before it are visible to the async proxy after it, in both directions.
    AsyncProxy,
    /// Generic accesses after it see what the async proxy wrote.
    AsyncProxyAcquire,
    /// The async proxy sees generic accesses before it.
    AsyncProxyRelease,
    /// Waits for loads of TMEM.
    TmemLoads,
    /// Waits for stores to TMEM.
    TmemStores,
    /// Orders tensor core work before a barrier.
    TensorCoreBefore,
    /// Orders tensor core work after a barrier.
    TensorCoreAfter,
    /// Orders the threads of a warp.
    Warp,
    /// Orders generic accesses, which lock step does anyway.
    Generic,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct LaneOpInfo {
    /// Heading of its group.
    pub family: &'static str,
    /// Mnemonic.
    pub mnemonic: &'static str,
    /// Documentation.
    pub doc: &'static str,
    /// Attributes and their types.
    pub attributes: &'static [(&'static str, &'static str)],
    /// Effect.
    pub effect: LaneEffect,
}

macro_rules! define_lane_ops {
    ($($family:literal { $(
        $(#[doc = $doc:literal])*
        $mnemonic:ident = $variant:ident { $($attr:ident : $attr_ty:ty),* } $effect:ident;
    )* })*) => {
        /// A lane op with its attributes. One variant per row of the table.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        #[allow(missing_docs, reason = "attributes are described in the row's text")]
        pub enum LaneOp {
            $($($(#[doc = $doc])* $variant { $($attr: $attr_ty),* },)*)*
        }

        impl LaneOp {
            /// Its row.
            pub fn info(&self) -> &'static LaneOpInfo {
                #[derive(Clone, Copy)]
                #[allow(clippy::enum_variant_names, reason = "mirrors the table")]
                enum Index { $($($variant),*),* }
                let index = match self { $($(LaneOp::$variant { .. } => Index::$variant,)*)* };
                &LANE_OPS[index as usize]
            }
        }

        /// The table, one row per lane op.
        pub const LANE_OPS: &[LaneOpInfo] = &[$($(LaneOpInfo {
            family: $family,
            mnemonic: stringify!($mnemonic),
            doc: concat!($($doc, "\n"),*),
            attributes: &[$((stringify!($attr), stringify!($attr_ty))),*],
            effect: LaneEffect::$effect,
        },)*)*];
    };
}
for_each_lane_op!(define_lane_ops);
