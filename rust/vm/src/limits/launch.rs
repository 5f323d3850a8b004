//! Threads of a block, blocks of a cluster.

use super::Device;
use crate::trap::{Limit, Trap, TrapKind};
use pallas_rs_ir::Program;

/// CUDA threads of a Pallas thread, which is a warpgroup.
const WARPGROUP: u64 = 128;
/// CUDA threads of a block.
const THREADS: u64 = 1024;

pub(super) fn check(program: &Program, device: &Device) -> Vec<Trap> {
    let blocks = program.cluster.iter().map(|&n| n as u64).product();
    let threads = match program.num_threads as u64 {
        1 => 1,
        n => n * WARPGROUP,
    };
    [(Limit::ClusterBlocks, blocks, device.cluster), (Limit::Threads, threads, THREADS)]
        .into_iter()
        .filter(|&(_, needed, available)| needed > available)
        .map(|(limit, needed, available)| {
            let target = device.name.clone();
            TrapKind::Resource { limit, needed, available, target, users: Vec::new() }.into()
        })
        .collect()
}
