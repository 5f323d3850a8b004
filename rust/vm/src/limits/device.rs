//! The devices.

use pallas_rs_ir::{Program, Space};

/// Tensor cores, by the instructions that reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TensorCore {
    /// `mma` of warps.
    Warp,
    /// wgmma.
    Warpgroup,
    /// tcgen05.
    Tcgen05,
}

/// What a block of a device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    /// Streaming multiprocessors.
    pub(crate) sms: usize,
    pub(crate) tensor_core: TensorCore,
    /// Bytes of SMEM of a block.
    pub(crate) smem: u64,
    /// Columns of TMEM of a block.
    pub(crate) tmem: u64,
    /// Blocks of a cluster, with the opt-in that JAX makes.
    pub(crate) cluster: u64,
}

impl Device {
    /// The target of a program, or what its allocations ask for.
    pub(crate) fn of(program: &Program) -> Device {
        let inferred = if uses_tmem(program) { "b200" } else { "h100" };
        let name = program.options.target.as_deref().unwrap_or(inferred);
        let (sms, tensor_core, smem, tmem, cluster) = match name {
            "a100" => (108, TensorCore::Warp, 163 << 10, 0, 1),
            "b200" | "b300" => (148, TensorCore::Tcgen05, 227 << 10, 512, 16),
            _ => (132, TensorCore::Warpgroup, 227 << 10, 0, 16),
        };
        Device { name: name.to_owned(), sms, tensor_core, smem, tmem, cluster }
    }
}

fn uses_tmem(program: &Program) -> bool {
    program.values.iter().any(|ty| ty.as_ref().is_some_and(|r| r.space == Space::Tmem))
}
