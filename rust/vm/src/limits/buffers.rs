//! What the machine that simulates can hold in one buffer, whatever the device.

use crate::trap::{Limit, Trap, TrapKind};
use pallas_rs_ir::{AllocKind, Op, Program, SpanId, Type};

/// Bytes of one tile or allocation. The registers of the machine count them in 32 bits.
const BUFFER: u64 = u32::MAX as u64;

pub(super) fn check(program: &Program) -> Vec<Trap> {
    let mut faults = Vec::new();
    super::each_inst(&program.body, &mut |inst| {
        for &result in &inst.results {
            if let Type::Tile(dtype, shape) = &program.values[result.0 as usize] {
                let user = format!("a value of {dtype}{shape:?}");
                faults.extend(too_large(shape, dtype.size(), user, inst.span));
            }
        }
        let Op::Scope { allocs, .. } = &inst.op else { return };
        for alloc in allocs {
            if let AllocKind::Data { dtype, .. } = &alloc.kind {
                let user = alloc.name.clone();
                faults.extend(too_large(&alloc.shape, dtype.size(), user, inst.span));
            }
        }
    });
    faults
}

fn too_large(shape: &[usize], size: usize, user: String, span: SpanId) -> Option<Trap> {
    let needed = shape.iter().fold(size as u64, |n, &d| n.saturating_mul(d as u64));
    (needed > BUFFER && !shape.contains(&0)).then(|| {
        let (available, target) = (BUFFER, "one buffer".to_owned());
        let users = vec![(user, needed)];
        let kind = TrapKind::Resource { limit: Limit::Memory, needed, available, target, users };
        Trap { kind, span: Some(span), who: None }
    })
}
