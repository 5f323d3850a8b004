//! The engines beside the threads: TMA and cp.async copies, tensor cores.

pub(crate) mod rmw;
pub(crate) mod tcgen05;
pub(crate) mod tma;
pub(crate) mod transfer;
pub(crate) mod wgmma;

pub(crate) use tcgen05::{TensorOp, TmemProduct, TmemStore};
pub(crate) use tma::{Load, Store};
pub(crate) use transfer::Transfer;
pub(crate) use wgmma::{Matrix, Product};
