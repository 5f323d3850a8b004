//! Loads that need not copy.
//!
//! A tile that is read only before anything could write to the memory it came from stays in that
//! memory: its register says where. Between the load and the last use there are only loads and pure
//! ops of the same region, so no other thread runs and no engine moves a byte meanwhile; under a
//! schedule that may switch threads at a load, nothing is lent ([`crate::machine::Call::lends`]).

use super::fuse::Item;
use super::liveness::Node;
use pallas_rs_ir::{Effect, Op, Program, Type, Value};

/// Whether the result of a load, whose node is followed by `rest`, may be lent.
pub(super) fn may_lend(program: &Program, result: Value, rest: &[Node<'_>]) -> bool {
    let Type::Tile(..) = program.ty(result) else { return false };
    // The tile, and what a reshape makes of it.
    let mut alive = vec![result];
    for node in rest {
        let reads = node.item.operands().iter().any(|v| alive.contains(v));
        match node.item.single().map(|inst| &inst.op) {
            Some(Op::Reshape {}) if reads => match program.ty(node.item.results()[0]) {
                Type::Tile(..) => alive.extend(node.item.results()),
                Type::Scalar(_) | Type::Ref(_) => {}
            },
            None | Some(Op::Load {}) => {}
            Some(Op::Store {}) if reads => {}
            Some(op) if op.info().effect == Effect::Pure => {}
            Some(_) => return false,
        }
        alive.retain(|v| !node.dying.contains(v) && !node.dying_after.contains(v));
        if alive.is_empty() {
            return true;
        }
        if let Item::Single(inst) = node.item
            && let Op::Store {} = inst.op
        {
            return false;
        }
    }
    false
}
