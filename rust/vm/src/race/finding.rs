//! Races as data. The words are made in [`crate::report`].

use super::clock::Tick;
use crate::observer::{AccessKind, At, Engine, Proxy};

/// Which rule two accesses, or two synchronisations, break. The names are those of the hazard table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Code {
    /// SMEM, two threads of a block.
    A1,
    /// SMEM, across the blocks of a cluster.
    A2,
    /// Tensor memory, two threads.
    A3,
    /// GMEM within a cluster.
    A4,
    /// GMEM across clusters.
    A5,
    /// An atomic beside a plain access.
    A7,
    /// Members of a union.
    A8,
    /// Generic write, then a read of the async proxy without a fence.
    B1,
    /// Generic read, then a write of the async proxy without a fence.
    B2,
    /// Generic write, then a write of the async proxy without a fence.
    B3,
    /// Generic write to GMEM, then a TMA load of it.
    B4,
    /// Data of a TMA load used before its barrier was waited for.
    C1,
    /// Destination of a TMA load written before it completed.
    C2,
    /// Source of a TMA store written before it was read.
    C3,
    /// Destination of a TMA store used before it was written.
    C4,
    /// A TMA store whose group nobody committed.
    C5,
    /// Operand of a tensor core product in SMEM written before it was read.
    C7,
    /// Accumulator used while wgmma is in flight.
    C8,
    /// Tensor memory used while the tensor core works on it, other than in its own order.
    C10,
    /// Tensor memory used while a load or store of it is in flight.
    C11,
    /// Tensor memory handed over by a barrier that does not order the tensor core.
    C13,
    /// A block ends with asynchronous work that nobody waited for.
    C14,
    /// The memory of a scope is used again while an operation on it is in flight.
    C15,
    /// Source of a TMA load written before it was read.
    C16,
    /// An arrival that no wait for the phase before it precedes.
    D1,
    /// A last phase that nobody observes, before other barriers take the place of this one.
    D8,
    /// A last phase that nobody observes.
    D9,
    /// A block ends while a peer may still access its memory.
    F1,
    /// Tensor memory of a scope is used again while an operation on it is in flight.
    F3,
    /// A semaphore that is not zero at the end.
    L2,
    /// A phase may complete before a participant has seen the one before.
    D2,
}

/// What would have to be known of the earlier access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Missing {
    /// A path of arrive and wait from the earlier thread to the later one.
    Synchronisation,
    /// Nothing but semaphores orders two clusters.
    OtherCluster,
    /// `commit_smem` between the two.
    Fence,
    /// A fence that Pallas does not have.
    GmemFence,
    /// `barrier_wait` on the barrier of the copy.
    BarrierWait(BarrierRef),
    /// A wait for groups of an engine.
    GroupWait {
        /// Which.
        engine: Engine,
        /// Groups that may still be in flight after it.
        pending: u32,
        /// Whether it is enough that sources have been read.
        read_only: bool,
    },
    /// The group was never committed.
    Commit,
    /// The barrier between the two should order the tensor core.
    TensorBarrier,
    /// A wait that takes from the semaphore what is left.
    SemaphoreWait,
    /// A write through the member of the union that is read.
    WriteThroughMember,
}

/// An array of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// An argument.
    Arg(u32),
    /// An allocation of a scope.
    Alloc(u32),
}

/// A barrier of the program: an allocation and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BarrierRef {
    /// Entry of the program's allocations; none when its scope was never seen.
    pub(crate) alloc: Option<u32>,
    /// Row-major index; the number of a named barrier.
    pub(crate) index: u32,
    /// Whether it is a named barrier of the block, which no scope allocates.
    pub(crate) named: bool,
}

/// One side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Thread and line.
    pub(crate) at: At,
    /// Reads, writes or both.
    pub(crate) kind: AccessKind,
    /// Of which proxy.
    pub(crate) proxy: Proxy,
    /// Made by an engine on the thread's behalf.
    pub(crate) engine: Option<Engine>,
}

/// Something the detector found. `count` occurrences have the same code and lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Race {
    /// The rule.
    pub(crate) code: Code,
    /// The earlier side; none for rules about one place.
    pub(crate) earlier: Option<Side>,
    /// The later side.
    pub(crate) later: Side,
    /// The array; none for rules about barriers and queues.
    pub(crate) memory: Option<Memory>,
    /// The window of the later access, in elements of the allocation.
    pub(crate) window: Option<FlatWindow>,
    /// The barrier of a D rule.
    pub(crate) barrier: Option<BarrierRef>,
    /// What is missing.
    pub(crate) missing: Missing,
    /// Progress that was known and needed.
    pub(crate) ticks: (Tick, Tick),
    /// All writes put the same bytes there.
    pub(crate) same_value: bool,
    /// Occurrences.
    pub(crate) count: u64,
}

/// A window that owns its dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlatWindow {
    /// First element.
    pub(crate) offset: i64,
    /// Elements per dimension.
    pub(crate) sizes: Vec<usize>,
    /// Distance between elements per dimension.
    pub(crate) strides: Vec<i64>,
}
