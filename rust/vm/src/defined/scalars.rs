//! Instructions on scalar registers: which they read, which they write.

use crate::code::{Inst, Reg};
use smallvec::{SmallVec, smallvec};

/// Target and sources of an instruction on scalars; `None` for those that are something else.
pub(super) fn flow(inst: Inst) -> Option<(Reg, SmallVec<[Reg; 3]>)> {
    Some(match inst {
        Inst::MoveScalar { dst, src } => (dst, smallvec![src]),
        Inst::AddI32 { dst, a, b }
        | Inst::SubI32 { dst, a, b }
        | Inst::MulI32 { dst, a, b }
        | Inst::DivI32 { dst, a, b }
        | Inst::RemI32 { dst, a, b }
        | Inst::MaxI32 { dst, a, b }
        | Inst::MinI32 { dst, a, b }
        | Inst::EqI32 { dst, a, b }
        | Inst::NeI32 { dst, a, b }
        | Inst::LtI32 { dst, a, b }
        | Inst::LeI32 { dst, a, b }
        | Inst::AddI64 { dst, a, b }
        | Inst::SubI64 { dst, a, b }
        | Inst::MulI64 { dst, a, b }
        | Inst::LtI64 { dst, a, b }
        | Inst::And { dst, a, b }
        | Inst::Or { dst, a, b }
        | Inst::Xor { dst, a, b }
        | Inst::AddF32 { dst, a, b }
        | Inst::SubF32 { dst, a, b }
        | Inst::MulF32 { dst, a, b }
        | Inst::DivF32 { dst, a, b }
        | Inst::Binary { dst, a, b, .. }
        | Inst::Compare { dst, a, b, .. } => (dst, smallvec![a, b]),
        Inst::NotBool { dst, x }
        | Inst::I32ToI64 { dst, x }
        | Inst::ToI32 { dst, x }
        | Inst::Unary { dst, x, .. }
        | Inst::Convert { dst, x, .. } => (dst, smallvec![x]),
        Inst::ProgramId { dst, .. }
        | Inst::NumPrograms { dst, .. }
        | Inst::ClusterIndex { dst, .. }
        | Inst::ThreadIndex { dst } => (dst, smallvec![]),
        _ => return None,
    })
}
