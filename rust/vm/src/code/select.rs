//! Scalar ops that have an instruction of their own.

use super::inst::{Inst, Reg};
use pallas_rs_core::{BinaryKind, Class, CompareKind, DType, UnaryKind};
use pallas_rs_ir::Op;

/// The instruction of an op on scalars, `dst` and `src` being its registers and `from` the type of
/// its first operand; `None` where the op has none.
pub(crate) fn scalar(
    op: &Op,
    from: Option<DType>,
    to: DType,
    dst: Reg,
    src: &[Reg],
) -> Option<Inst> {
    match (op, src) {
        (&Op::Unary { kind }, &[x]) => Some(unary(kind, from?, dst, x)),
        (&Op::Binary { kind }, &[a, b]) => Some(binary(kind, from?, dst, a, b)),
        (&Op::Compare { kind }, &[a, b]) => Some(compare(kind, from?, dst, a, b)),
        (Op::Convert {}, &[x]) => Some(convert(from?, to, dst, x)),
        (Op::SelectN {}, &[which, zero, other]) if from? == DType::Bool => {
            Some(Inst::Select { dst, which, zero, other })
        }
        (Op::Bitcast {} | Op::Reshape {} | Op::Broadcast { .. }, &[src]) => {
            Some(Inst::MoveScalar { dst, src })
        }
        (&Op::ProgramId { axis }, _) => Some(Inst::ProgramId { dst, axis: axis as u32 }),
        (&Op::NumPrograms { axis }, _) => Some(Inst::NumPrograms { dst, axis: axis as u32 }),
        (&Op::ClusterIndex { axis }, _) => Some(Inst::ClusterIndex { dst, axis: axis as u32 }),
        (Op::ThreadIndex {}, _) => Some(Inst::ThreadIndex { dst }),
        _ => None,
    }
}

fn unary(kind: UnaryKind, dtype: DType, dst: Reg, x: Reg) -> Inst {
    match (kind, dtype) {
        (UnaryKind::Not, DType::Bool) => Inst::NotBool { dst, x },
        _ => Inst::Unary { kind, dtype, dst, x },
    }
}

fn binary(kind: BinaryKind, dtype: DType, dst: Reg, a: Reg, b: Reg) -> Inst {
    let whole = matches!(dtype.class(), Class::Bool | Class::Signed | Class::Unsigned);
    match (kind, dtype) {
        (BinaryKind::Add, DType::I32) => Inst::AddI32 { dst, a, b },
        (BinaryKind::Sub, DType::I32) => Inst::SubI32 { dst, a, b },
        (BinaryKind::Mul, DType::I32) => Inst::MulI32 { dst, a, b },
        (BinaryKind::Div, DType::I32) => Inst::DivI32 { dst, a, b },
        (BinaryKind::Rem, DType::I32) => Inst::RemI32 { dst, a, b },
        (BinaryKind::Max, DType::I32) => Inst::MaxI32 { dst, a, b },
        (BinaryKind::Min, DType::I32) => Inst::MinI32 { dst, a, b },
        (BinaryKind::Add, DType::I64) => Inst::AddI64 { dst, a, b },
        (BinaryKind::Sub, DType::I64) => Inst::SubI64 { dst, a, b },
        (BinaryKind::Mul, DType::I64) => Inst::MulI64 { dst, a, b },
        (BinaryKind::Add, DType::F32) => Inst::AddF32 { dst, a, b },
        (BinaryKind::Sub, DType::F32) => Inst::SubF32 { dst, a, b },
        (BinaryKind::Mul, DType::F32) => Inst::MulF32 { dst, a, b },
        (BinaryKind::Div, DType::F32) => Inst::DivF32 { dst, a, b },
        (BinaryKind::And, _) if whole => Inst::And { dst, a, b },
        (BinaryKind::Or, _) if whole => Inst::Or { dst, a, b },
        (BinaryKind::Xor, _) if whole => Inst::Xor { dst, a, b },
        _ => Inst::Binary { kind, dtype, dst, a, b },
    }
}

fn compare(kind: CompareKind, dtype: DType, dst: Reg, a: Reg, b: Reg) -> Inst {
    match (kind, dtype) {
        (CompareKind::Eq, DType::I32) => Inst::EqI32 { dst, a, b },
        (CompareKind::Ne, DType::I32) => Inst::NeI32 { dst, a, b },
        (CompareKind::Lt, DType::I32) => Inst::LtI32 { dst, a, b },
        (CompareKind::Le, DType::I32) => Inst::LeI32 { dst, a, b },
        (CompareKind::Gt, DType::I32) => Inst::LtI32 { dst, a: b, b: a },
        (CompareKind::Ge, DType::I32) => Inst::LeI32 { dst, a: b, b: a },
        (CompareKind::Lt, DType::I64) => Inst::LtI64 { dst, a, b },
        (CompareKind::Gt, DType::I64) => Inst::LtI64 { dst, a: b, b: a },
        _ => Inst::Compare { kind, dtype, dst, a, b },
    }
}

fn convert(from: DType, to: DType, dst: Reg, x: Reg) -> Inst {
    match (from, to) {
        _ if from == to => Inst::MoveScalar { dst, src: x },
        (DType::I32, DType::I64) => Inst::I32ToI64 { dst, x },
        (DType::I64 | DType::U64 | DType::U32, DType::I32) => Inst::ToI32 { dst, x },
        (DType::Bool, DType::I32 | DType::I64 | DType::U32 | DType::U64) => {
            Inst::MoveScalar { dst, src: x }
        }
        _ => Inst::Convert { from, to, dst, x },
    }
}
