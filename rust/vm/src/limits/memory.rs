//! What is allocated at the same time.

use super::Device;
use crate::trap::{Limit, Trap, TrapKind};
use pallas_rs_ir::{Alloc, AllocKind, Op, Program, Region, Space, SpanId, Within};

/// Every allocation in SMEM begins at a multiple of this many bytes.
const SMEM_ALIGNMENT: u64 = 1024;
/// An mbarrier.
const BARRIER_BYTES: u64 = 8;
/// Barriers of one allocation: their phases are the bits of a word.
const BARRIERS: u64 = 32;
/// Arrivals that a phase can count, in Pallas threads: each arrives with all its lanes.
const ARRIVALS: u64 = ((1 << 20) - 1) / 128;

/// Elements in a column of TMEM, of 32 bits.
const TMEM_LANES: u64 = 128;

/// What is allocated along the most expensive path, and where its last scope is.
#[derive(Clone, Default)]
struct Peak {
    total: u64,
    users: Vec<(String, u64)>,
    span: Option<SpanId>,
}

pub(super) fn check(program: &Program, device: &Device) -> Vec<Trap> {
    let mut faults = Vec::new();
    // The scratch of a `pl.pallas_call` may be meant for a memory that only other devices have.
    let smem = if program.in_order && program.options.target.is_none() {
        Peak::default()
    } else {
        peak(&program.body, &smem_bytes)
    };
    for (limit, peak, available) in [
        (Limit::Smem, smem, device.smem),
        (Limit::Tmem, peak(&program.body, &tmem_columns), device.tmem),
    ] {
        if peak.total > available {
            let (needed, target) = (peak.total, device.name.clone());
            let mut users = peak.users;
            users.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
            let kind = TrapKind::Resource { limit, needed, available, target, users };
            faults.push(Trap { kind, span: peak.span, who: None });
        }
    }
    super::each_inst(&program.body, &mut |inst| {
        let Op::Scope { allocs, .. } = &inst.op else { return };
        for alloc in allocs {
            faults.extend(barriers(alloc, device).map(|kind| Trap {
                kind,
                span: Some(inst.span),
                who: None,
            }));
        }
    });
    faults
}

fn peak(region: &Region, size: &impl Fn(&Alloc) -> u64) -> Peak {
    let mut most = Peak::default();
    for inst in &region.insts {
        let mut inner = Peak::default();
        for region in &inst.regions {
            let candidate = peak(region, size);
            if candidate.total > inner.total {
                inner = candidate;
            }
        }
        if let Op::Scope { allocs, .. } = &inst.op {
            for (name, bytes) in sizes(allocs, size) {
                if bytes > 0 {
                    inner.total = inner.total.saturating_add(bytes);
                    inner.users.push((name, bytes));
                    inner.span.get_or_insert(inst.span);
                }
            }
        }
        if inner.total > most.total {
            most = inner;
        }
    }
    most
}

/// What each allocation of a scope takes. A union takes as much as the member that ends last.
fn sizes(allocs: &[Alloc], size: &impl Fn(&Alloc) -> u64) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    let mut unions: Vec<(u32, usize)> = Vec::new();
    for alloc in allocs {
        let bytes = size(alloc);
        // An offset counts in the memory that the member is in, not in the other one.
        if bytes == 0 {
            continue;
        }
        let Some(Within { union, offset }) = alloc.within() else {
            all.push((alloc.name.clone(), bytes));
            continue;
        };
        let bytes = bytes.saturating_add(offset as u64);
        match unions.iter().find(|(known, _)| *known == union) {
            Some(&(_, at)) => all[at].1 = all[at].1.max(bytes),
            None => {
                let name = alloc.name.split('[').next().unwrap_or_default().to_owned();
                unions.push((union, all.len()));
                all.push((name, bytes));
            }
        }
    }
    all
}

fn elements(alloc: &Alloc) -> u64 {
    alloc.shape.iter().fold(1, |n: u64, &d| n.saturating_mul(d as u64))
}

fn smem_bytes(alloc: &Alloc) -> u64 {
    match &alloc.kind {
        AllocKind::Data { dtype, .. } if alloc.space == Space::Smem => {
            let bits = elements(alloc).saturating_mul(dtype.packed_bits() as u64);
            bits.div_ceil(8).div_ceil(SMEM_ALIGNMENT).saturating_mul(SMEM_ALIGNMENT)
        }
        AllocKind::Barrier { .. } | AllocKind::ClusterBarrier { .. } => {
            elements(alloc).saturating_mul(BARRIER_BYTES)
        }
        AllocKind::Data { .. } | AllocKind::Semaphore => 0,
    }
}

/// Columns of TMEM, which a kernel allocates as one power of two: so does the device have them.
fn tmem_columns(alloc: &Alloc) -> u64 {
    let AllocKind::Data { dtype, .. } = &alloc.kind else { return 0 };
    if alloc.space != Space::Tmem || alloc.shape.len() != 2 {
        return 0;
    }
    // An element of fewer bits may be packed: only what certainly does not fit is reported.
    let per_column = (32 / dtype.packed_bits().clamp(1, 32)) as u64;
    elements(alloc).div_ceil(TMEM_LANES * per_column)
}

fn barriers(alloc: &Alloc, device: &Device) -> Option<TrapKind> {
    let arrivals = match &alloc.kind {
        AllocKind::Barrier { arrivals, .. } | AllocKind::ClusterBarrier { arrivals, .. } => {
            u64::from(*arrivals)
        }
        AllocKind::Data { .. } | AllocKind::Semaphore => return None,
    };
    let (limit, needed, available) = match elements(alloc) {
        n if n > BARRIERS => (Limit::Barriers, n, BARRIERS),
        _ if arrivals > ARRIVALS => (Limit::Arrivals, arrivals, ARRIVALS),
        _ => return None,
    };
    let users = vec![(alloc.name.clone(), needed)];
    Some(TrapKind::Resource { limit, needed, available, target: device.name.clone(), users })
}
