//! Barriers, and queues of what is in flight.

pub(crate) mod mbarrier;
pub(crate) mod named;
pub(crate) mod queues;

pub(crate) use mbarrier::{BarrierKey, Barriers};
pub(crate) use named::NamedBarriers;

use crate::exec::stealing::Answer;
use crate::units::{Load, Product, Store, TensorOp, TmemStore, Transfer};
use pallas_rs_core::SplitMix64;
use pallas_rs_ir::options::AsyncCompletion;
use queues::GroupQueue;
use std::collections::VecDeque;

/// What a thread has in flight.
#[derive(Debug, Default)]
pub(crate) struct ThreadQueues {
    /// TMA stores.
    pub(crate) stores: GroupQueue<Store>,
    /// cp.async copies, each a group.
    pub(crate) copies: GroupQueue<Load>,
    /// Parts of the next TMA load or cp.async copy.
    pub(crate) parts: Vec<Load>,
    /// wgmma, each a group but for those that are parts of the next.
    pub(crate) products: GroupQueue<Product>,
    /// Writes to tensor memory, each a group.
    pub(crate) tmem_stores: GroupQueue<TmemStore>,
}

impl ThreadQueues {
    /// Takes over what another thread has in flight, behind its own.
    pub(crate) fn append(&mut self, other: ThreadQueues) {
        self.stores.append(other.stores);
        self.copies.append(other.copies);
        self.products.append(other.products);
    }
}

/// What the engines of a cluster have in flight, and when they complete it.
#[derive(Debug)]
pub(crate) struct Engines {
    /// When operations complete.
    pub(crate) completion: AsyncCompletion,
    /// TMA loads, in the order of their issue.
    pub(crate) loads: VecDeque<Load>,
    /// What was given to the tensor cores, in the order of its issue.
    pub(crate) tensor: VecDeque<TensorOp>,
    /// Answers to requests for clusters that have not landed in every block.
    pub(crate) answers: Vec<Answer>,
    /// Transfers that are done, for the next ones: a steady loop does not allocate.
    #[allow(clippy::vec_box, reason = "what moves from queue to queue is the box")]
    pub(crate) spare: Vec<Box<Transfer>>,
    rng: SplitMix64,
    tickets: u64,
}

impl Default for Engines {
    fn default() -> Self {
        Engines::new(AsyncCompletion::Late, 0)
    }
}

impl Engines {
    /// Engines with nothing in flight. `seed` is that of the run and the cluster together.
    pub(crate) fn new(completion: AsyncCompletion, seed: u64) -> Self {
        let (loads, tensor) = (VecDeque::new(), VecDeque::new());
        let (answers, spare, rng) = (Vec::new(), Vec::new(), SplitMix64::new(seed));
        Engines { completion, loads, tensor, answers, spare, rng, tickets: 0 }
    }

    /// A number that no other operation of the cluster has.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// One draw in `n` is true.
    pub(crate) fn draw(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }
}
