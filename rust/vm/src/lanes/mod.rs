//! Bodies of `inline_mgpu`: every CUDA thread of a warpgroup or warp, in lock step.
//!
//! [`code`] flattens a body once per executable: structured control flow becomes jumps and a stack of
//! masks, and whatever depends on nothing but constants and the thread's index is computed there by
//! [`pure`], the same code that computes it at run time. [`run`] executes. Lock step is one of the
//! orders in which a body without races may run; [`memory`] notices the others. A body can stop at a
//! barrier: what it needs to go on is a [`State`] that its machine thread keeps.

mod arrays;
mod code;
mod fold;
mod memory;
mod pure;
mod run;
mod views;
mod warp;

pub(crate) use code::LaneCode;
pub(crate) use run::State;

/// Bytes of one register: all lanes' elements, lane by lane.
pub(crate) type Register = Vec<u8>;

/// Which CUDA threads are active.
pub(crate) type Mask = u128;

/// CUDA threads of a warp.
pub(crate) const WARP: usize = 32;

/// The lanes of a mask.
fn lanes(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            lane
        })
    })
}

/// All of `count` lanes.
fn all(count: usize) -> Mask {
    Mask::MAX >> (Mask::BITS as usize - count)
}
