//! What TMA can copy.

use crate::trap::{Illegal, Trap, TrapKind};
use pallas_rs_core::DType;
use pallas_rs_ir::{Inst, Op, Program, Region, Type, Value};

/// Rows and strides come in units of this many bits.
const UNIT: usize = 128;

pub(super) fn check(program: &Program, inst: &Inst) -> Option<Trap> {
    let (gmem, smem) = match &inst.op {
        Op::CopyGmemToSmem { barrier: true, .. } => (inst.operands[0], inst.operands[1]),
        Op::CopySmemToGmem { .. } => (inst.operands[1], inst.operands[0]),
        _ => return None,
    };
    let (Type::Ref(near), Some(far)) = (program.ty(smem), argument(program, gmem)) else {
        return None;
    };
    let (dtype, arg) = (near.dtype()?, &program.args[far]);
    let fault = row(dtype, &near.shape).or_else(|| stride(&arg.name, arg.dtype, &arg.shape))?;
    Some(Trap { kind: TrapKind::Illegal(fault), span: Some(inst.span), who: None })
}

/// Without a row there is one element.
fn row(dtype: DType, shape: &[usize]) -> Option<Illegal> {
    let elements = shape.last().copied().unwrap_or(1);
    let bits = elements * dtype.packed_bits();
    (elements > 0 && !bits.is_multiple_of(UNIT)).then_some(Illegal::CopyRow { elements, dtype })
}

fn stride(name: &str, dtype: DType, shape: &[usize]) -> Option<Illegal> {
    let mut elements: usize = 1;
    for axis in (1..shape.len()).rev() {
        elements *= shape[axis];
        // Of a dimension of one row no stride is taken.
        if shape[axis - 1] > 1 && !(elements * dtype.packed_bits()).is_multiple_of(UNIT) {
            let name = name.to_owned();
            return Some(Illegal::CopyStride { name, axis: axis - 1, elements, dtype });
        }
    }
    None
}

/// The argument that a ref looks at, if it is one.
fn argument(program: &Program, value: Value) -> Option<usize> {
    let mut value = value;
    loop {
        if let Some(arg) = program.body.params.iter().position(|&p| p == value) {
            return Some(arg);
        }
        value = view_of(&program.body, value)?;
    }
}

/// What a view is a view of.
fn view_of(region: &Region, value: Value) -> Option<Value> {
    region.insts.iter().find_map(|inst| {
        if inst.results.contains(&value) {
            return match inst.op {
                Op::RefSlice { .. }
                | Op::RefTranspose { .. }
                | Op::RefReshape {}
                | Op::RefBitcast {}
                | Op::BlockWindow { .. } => Some(inst.operands[0]),
                _ => None,
            };
        }
        inst.regions.iter().find_map(|inner| view_of(inner, value))
    })
}
