//! [`Op`] and its description, generated from the op table.

use crate::attrs::{
    Alloc, BlockDim, Collective, GatherDim, OobMode, RmwKind, SliceDim, TmemFormat,
};
use crate::for_each_op;
use pallas_rs_core::{BinaryKind, CompareKind, CumulativeKind, ReduceKind, UnaryKind};
use serde::{Deserialize, Serialize};

/// What running an op can touch; decides what may be moved, fused or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Depends on its operands (and the position in the grid) alone.
    Pure,
    /// Runs its regions.
    Control,
    /// Reads or writes memory, at once.
    Memory,
    /// Starts something that completes later.
    Async,
    /// Orders threads or engines; may block.
    Sync,
    /// Leaves the machine.
    Host,
}

/// What an operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandKind {
    /// A scalar.
    Scalar,
    /// A tile.
    Tile,
    /// A scalar or a tile.
    Value,
    /// A ref.
    Reference,
    /// A tile or a ref.
    Operand,
    /// Whatever there is.
    Any,
}

/// How often an operand occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// Once.
    One,
    /// At most once; an attribute says whether.
    Optional,
    /// Any number of times.
    Many,
}

/// One operand of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandInfo {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: OperandKind,
    /// Count.
    pub count: Count,
}

/// One attribute of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeInfo {
    /// Name.
    pub name: &'static str,
    /// Rust type.
    pub ty: &'static str,
}

/// One row of the op table.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Heading of the group of rows it stands in.
    pub family: &'static str,
    /// Mnemonic.
    pub mnemonic: &'static str,
    /// Documentation.
    pub doc: &'static str,
    /// Attributes.
    pub attributes: &'static [AttributeInfo],
    /// Operands in order.
    pub operands: &'static [OperandInfo],
    /// Effect.
    pub effect: Effect,
}

macro_rules! operand_kind {
    (scalar) => {
        OperandKind::Scalar
    };
    (tile) => {
        OperandKind::Tile
    };
    (value) => {
        OperandKind::Value
    };
    (reference) => {
        OperandKind::Reference
    };
    (operand) => {
        OperandKind::Operand
    };
    (any) => {
        OperandKind::Any
    };
}

/// Turns the operand list of a row into [`OperandInfo`]s, one operand at a time: a trailing `*` or
/// `?` cannot be told from the next comma by a repetition.
macro_rules! operand_list {
    ([$($done:expr,)*]) => { &[$($done),*] };
    ([$($done:expr,)*] $name:ident : $kind:ident * $(, $($rest:tt)*)?) => {
        operand_list!([$($done,)* operand!($name $kind Many),] $($($rest)*)?)
    };
    ([$($done:expr,)*] $name:ident : $kind:ident ? $(, $($rest:tt)*)?) => {
        operand_list!([$($done,)* operand!($name $kind Optional),] $($($rest)*)?)
    };
    ([$($done:expr,)*] $name:ident : $kind:ident $(, $($rest:tt)*)?) => {
        operand_list!([$($done,)* operand!($name $kind One),] $($($rest)*)?)
    };
}

macro_rules! operand {
    ($name:ident $kind:ident $count:ident) => {
        OperandInfo { name: stringify!($name), kind: operand_kind!($kind), count: Count::$count }
    };
}

macro_rules! define_ops {
    ($($family:literal { $(
        $(#[doc = $doc:literal])*
        $mnemonic:ident = $variant:ident { $($attr:ident : $attr_ty:ty),* }
            ($($operands:tt)*) $effect:ident;
    )* })*) => {
        /// An op with its attributes. One variant per row of the table.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        #[allow(missing_docs, reason = "attributes are described in the row's text")]
        pub enum Op {
            $($($(#[doc = $doc])* $variant { $($attr: $attr_ty),* },)*)*
        }

        impl Op {
            /// Its position in [`OPS`].
            pub fn index(&self) -> usize {
                #[derive(Clone, Copy)]
                #[allow(clippy::enum_variant_names, reason = "mirrors the table")]
                enum Index { $($($variant),*),* }
                (match self { $($(Op::$variant { .. } => Index::$variant,)*)* }) as usize
            }

            /// Its row.
            pub fn info(&self) -> &'static OpInfo {
                &OPS[self.index()]
            }

            /// Its mnemonic.
            pub fn mnemonic(&self) -> &'static str {
                self.info().mnemonic
            }
        }

        /// The table, one row per op.
        pub const OPS: &[OpInfo] = &[$($(OpInfo {
            family: $family,
            mnemonic: stringify!($mnemonic),
            doc: concat!($($doc, "\n"),*),
            attributes: &[$(AttributeInfo {
                name: stringify!($attr),
                ty: stringify!($attr_ty),
            }),*],
            operands: operand_list!([] $($operands)*),
            effect: Effect::$effect,
        },)*)*];
    };
}
for_each_op!(define_ops);
