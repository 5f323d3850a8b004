//! What tensor cores can multiply.

use super::Device;
use super::device::TensorCore;
use crate::trap::{Illegal, Trap, TrapKind};
use pallas_rs_core::DType;
use pallas_rs_ir::{Inst, Op, Program};

/// Bytes of the operands' common dimension that one instruction takes.
const STEP_BYTES: usize = 32;

pub(super) fn check(program: &Program, inst: &Inst, device: &Device) -> Option<Trap> {
    let Op::Wgmma { .. } = &inst.op else { return None };
    let [acc, a, b] = [0, 1, 2].map(|i| program.ty(inst.operands[i]));
    let fault = if device.tensor_core == TensorCore::Warpgroup {
        let dtypes = [dtype(acc)?, dtype(a)?, dtype(b)?];
        wgmma(acc.shape(), a.shape(), dtypes)?
    } else {
        Illegal::Product { op: "wgmma", needs: "h100 or h200", target: device.name.clone() }
    };
    Some(Trap { kind: TrapKind::Illegal(fault), span: Some(inst.span), who: None })
}

fn dtype(ty: &pallas_rs_ir::Type) -> Option<DType> {
    ty.dtype().or_else(|| ty.as_ref().and_then(pallas_rs_ir::RefType::dtype))
}

fn wgmma(acc: &[usize], a: &[usize], dtypes: [DType; 3]) -> Option<Illegal> {
    let (&[m, n], &[_, k]) = (acc, a) else { return None };
    let [sum, left, right] = dtypes;
    let step = STEP_BYTES * 8 / left.packed_bits();
    if m % 64 != 0 || n % 8 != 0 || n > 256 || k % step != 0 {
        return Some(Illegal::ProductShape { op: "wgmma", m, n, k, step });
    }
    let eight = |d| matches!(d, DType::F8E5M2 | DType::F8E4M3FN);
    let allowed = match left {
        DType::F32 | DType::BF16 => right == left && sum == DType::F32,
        DType::F16 => right == left && matches!(sum, DType::F32 | DType::F16),
        DType::I8 => right == left && sum == DType::I32,
        d if eight(d) => eight(right) && matches!(sum, DType::F32 | DType::F16),
        _ => false,
    };
    (!allowed).then_some(Illegal::ProductTypes { op: "wgmma", acc: sum, a: left, b: right })
}
