//! Numbers and names of lanes.

use super::{Lane, Place};
use crate::trap::Who;
use pallas_rs_ir::Program;

/// Warps of a warpgroup.
const WARPS: u32 = 4;

impl Lane {
    /// Its number in its block, which is also its order from top to bottom.
    pub(super) fn number(self) -> u32 {
        match self {
            Lane::Thread { thread, warp: None } => thread * (WARPS + 1),
            Lane::Thread { thread, warp: Some(warp) } => thread * (WARPS + 1) + 1 + u32::from(warp),
            Lane::Tma => 1 << 16,
            Lane::CpAsync => (1 << 16) + 1,
            Lane::TensorCore => (1 << 16) + 2,
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Lane::Thread { thread, warp: None } => format!("warpgroup {thread}"),
            Lane::Thread { thread, warp: Some(warp) } => format!("warpgroup {thread} warp {warp}"),
            Lane::Tma => "TMA".to_owned(),
            Lane::CpAsync => "cp.async".to_owned(),
            Lane::TensorCore => "tensor core".to_owned(),
        }
    }
}

impl Place {
    /// Number of its block among all blocks of the grid.
    pub(super) fn process(self, program: &Program) -> u64 {
        self.cluster * blocks(program) + u64::from(self.block)
    }

    /// The lane of a thread that a finding names.
    pub(super) fn of(who: &Who, program: &Program, bounds: &[u64]) -> Place {
        let row_major = |index: u64, (&x, &n): (&u64, &u64)| index * n + x;
        let cluster = who.point.iter().zip(bounds).fold(0, row_major);
        let shape = program.cluster.iter();
        let block = who.block.iter().zip(shape).fold(0, |index, (&x, &n)| index * n + x);
        let lane = Lane::Thread {
            thread: who.thread.unwrap_or(0) as u32,
            warp: who.warp.map(|warp| warp as u8),
        };
        Place { cluster, block: block as u32, lane }
    }
}

/// What a block is called: its cluster's grid point, and its own place in the cluster.
pub(super) fn block_name(program: &Program, bounds: &[u64], cluster: u64, block: u32) -> String {
    let mut rest = cluster;
    let mut point = vec![0; bounds.len()];
    for (x, &n) in point.iter_mut().zip(bounds).rev() {
        *x = rest % n.max(1);
        rest /= n.max(1);
    }
    let point = point.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    if blocks(program) == 1 {
        return format!("block ({point})");
    }
    format!("cluster ({point}) block {block}")
}

fn blocks(program: &Program) -> u64 {
    program.cluster.iter().product::<usize>() as u64
}
