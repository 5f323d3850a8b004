//! What a kernel says: the typed program that travels from the lowering to the machine.
//!
//! A [`Program`] is statically typed SSA with structured control flow over scalars, tiles and refs.
//! This crate executes nothing. [`op_table`] is the one list of ops; [`json`] is how the Python
//! lowering hands a program over, [`wire`] how it travels inside an XLA custom call, and [`text`]
//! how a person reads it.

pub mod attrs;
pub mod builder;
pub mod json;
pub mod lane;
pub mod op;
pub mod op_table;
pub mod operands;
pub mod options;
pub mod parse;
pub mod program;
pub mod reference;
pub mod text;
pub mod types;
pub mod verify;
pub mod wire;

pub use attrs::*;
pub use json::assemble;
pub use lane::{LANE_OPS, LaneBody, LaneOp};
pub use op::{Effect, OPS, Op, OpInfo, OperandInfo, OperandKind};
pub use options::Options;
pub use parse::{ParseError, parse};
pub use program::{Arg, Binding, GridDim, Inst, Program, Region, Span, SpanId, Value};
pub use types::{Elem, RefType, Shape, Space, Type};
pub use verify::{VerifyError, verify};
