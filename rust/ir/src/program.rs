//! A whole kernel: grid, arguments, body.

use crate::lane::LaneBody;
use crate::op::Op;
use crate::options::Options;
use crate::types::{Elem, RefType, Shape, Space, Type};
use pallas_rs_core::DType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::fmt;

/// Nesting of regions that a program may have: decoders, verifier and printers recurse.
pub const MAX_DEPTH: usize = 64;

/// An SSA value: an index into [`Program::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Value(pub u32);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// A source line: an index into [`Program::spans`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpanId(pub u32);

/// Where in the user's code an op comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// File.
    pub file: String,
    /// Line, from 1; 0 is unknown.
    pub line: u32,
    /// Function.
    pub function: String,
    /// JAX's helper that made the op on the user's behalf (`emit_pipeline`), if any.
    pub via: Option<String>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inst {
    /// Op and attributes.
    pub op: Op,
    /// Operands.
    #[serde(rename = "in")]
    pub operands: Vec<Value>,
    /// Results.
    #[serde(rename = "out")]
    pub results: Vec<Value>,
    /// Nested code.
    #[serde(default)]
    pub regions: Vec<Region>,
    /// Source line.
    pub span: SpanId,
}

/// Nested code with parameters; it may use values of the code around it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Region {
    /// Parameters.
    pub params: Vec<Value>,
    /// Instructions.
    pub insts: Vec<Inst>,
    /// What it returns.
    pub yields: Vec<Value>,
}

impl Serialize for Region {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Region::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Region {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        nested(|| Region::deserialize(deserializer))
    }
}

/// Decodes a region, and counts those around it: damaged bytes must not exhaust the stack.
pub(crate) fn nested<T, E: serde::de::Error>(
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    if DEPTH.get() > MAX_DEPTH {
        return Err(E::custom("regions are nested too deep"));
    }
    DEPTH.set(DEPTH.get() + 1);
    let _inside = Inside;
    decode()
}

/// A grid bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GridDim {
    /// Known when lowered.
    Static(u64),
    /// The value of this operand of the call, an integer scalar of any width.
    Operand(usize),
}

/// Where an argument's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// An operand of the call; the kernel only reads it.
    Operand(usize),
    /// A result of the call, unwritten at first.
    Result(usize),
    /// A result that shares its memory with this operand, whose contents it starts with.
    Aliased {
        /// The operand.
        operand: usize,
        /// The result.
        result: usize,
    },
    /// Memory of the machine, zero at first, which lives as long as the call.
    Zeroed,
}

/// An argument of the kernel: one parameter of [`Program::body`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arg {
    /// The user's name for it.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape of the whole array.
    pub shape: Shape,
    /// Memory.
    pub binding: Binding,
    /// Whether the parameter is the value itself (a rank-0 operand) and not a ref.
    pub by_value: bool,
    /// Whether it holds semaphores: then its elements are int32, and what becomes of those of an operand
    /// is seen by whoever has the operand.
    #[serde(default)]
    pub semaphores: bool,
    /// Whether it is memory of the kernel's own, whose contents the caller never sees.
    #[serde(default)]
    pub scratch: bool,
}

impl Arg {
    /// Type of the parameter.
    pub fn param_type(&self) -> Type {
        if self.by_value {
            return Type::value(self.dtype, self.shape.clone());
        }
        let elem = if self.semaphores { Elem::Semaphore } else { Elem::Data(self.dtype) };
        Type::Ref(RefType { space: Space::Gmem, elem, shape: self.shape.clone() })
    }
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The user's name for the kernel.
    pub name: String,
    /// Grid of clusters, row-major.
    pub grid: Vec<GridDim>,
    /// Names of the grid's dimensions (empty where there is none).
    pub grid_names: Vec<String>,
    /// Whether grid points run in order (a `pl.pallas_call`: values are those of row-major order)
    /// rather than at the same time (`plgpu.kernel`).
    pub in_order: bool,
    /// Dimensions of the grid whose points one block runs one after another.
    #[serde(default)]
    pub sequential: Vec<usize>,
    /// Blocks of a cluster, per dimension.
    pub cluster: Vec<usize>,
    /// Names of the cluster's dimensions.
    pub cluster_names: Vec<String>,
    /// Threads (warpgroups) of a block.
    pub num_threads: usize,
    /// Arguments; parameter `i` of the body is argument `i`.
    pub args: Vec<Arg>,
    /// What each thread of each block runs.
    pub body: Region,
    /// Types of values.
    pub values: Vec<Type>,
    /// Source lines.
    pub spans: Vec<Span>,
    /// Byte strings that ops refer to.
    #[serde(default)]
    pub blobs: Vec<Vec<u8>>,
    /// Bodies of `inline_mgpu` that ops refer to.
    #[serde(default)]
    pub lane_bodies: Vec<LaneBody>,
    /// How to run it.
    pub options: Options,
}

impl Program {
    /// Type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.0 as usize]
    }

    /// A source line.
    pub fn span(&self, id: SpanId) -> &Span {
        &self.spans[id.0 as usize]
    }
}
