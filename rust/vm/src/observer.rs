//! Watching a run.
//!
//! Everything that looks at accesses and synchronisation without changing them is an [`Observer`].
//! The machine is generic over it, so that [`NoObserver`] is compiled away; two observers are one as
//! a pair.

use crate::trap::Trap;
use pallas_rs_ir::{Space, SpanId};

/// A thread, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId {
    /// Row-major number of its cluster in the grid.
    pub cluster: u64,
    /// Row-major number of its block in the cluster.
    pub block: u32,
    /// Index in the block: of a warpgroup.
    pub thread: u32,
    /// Which of its warps, where they run by themselves.
    pub warp: Option<u8>,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The thread.
    pub thread: ThreadId,
    /// The source line of its instruction.
    pub span: SpanId,
}

/// An allocation, by number: within the call for GMEM, else within its block or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BaseId {
    /// Memory space.
    pub space: Space,
    /// Number.
    pub number: u32,
}

/// The elements an access touches.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// Allocation.
    pub base: BaseId,
    /// The block it belongs to when that is not the accessing thread's.
    pub block: u32,
    /// First element, counted from the start of the allocation.
    pub offset: i64,
    /// Elements per dimension.
    pub sizes: &'a [usize],
    /// Elements from one index to the next, per dimension.
    pub strides: &'a [i64],
    /// Bytes of an element.
    pub elem_size: usize,
}

/// What a scope allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allocated {
    /// Numbers.
    Data(BaseId),
    /// Barriers: the `base` of their [`BarrierId`].
    Barriers(u32),
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes each element in one indivisible step.
    Atomic,
}

/// On whose behalf an access is made. Fences order one proxy's accesses with the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// Loads and stores of threads.
    Generic,
    /// TMA and tensor cores.
    Async,
}

/// A barrier of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BarrierId {
    /// Row-major number of the block in the cluster.
    pub block: u32,
    /// Allocation.
    pub base: u32,
    /// Row-major index in it.
    pub index: u32,
}

impl BarrierId {
    /// The `base` of named barriers.
    pub const NAMED: u32 = u32::MAX;
    /// Number, beside those of named barriers, of the one at the entry of collective scopes.
    pub const SCOPE: u32 = u32::MAX;
    /// The same for the one of all blocks of a cluster at the end of scopes with TMEM of two blocks.
    pub const END: u32 = u32::MAX - 1;
}

/// A semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SemaphoreId {
    /// The cluster and block that allocated it; none for an argument.
    pub owner: Option<(u64, u32)>,
    /// Argument of the call, or allocation of the block.
    pub base: u32,
    /// Row-major index in it.
    pub index: u64,
}

/// An engine that works beside the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Copies from GMEM to SMEM that arrive on a barrier.
    TmaLoad,
    /// Copies from SMEM to GMEM.
    TmaStore,
    /// Copies from GMEM to SMEM that a thread waits for.
    CpAsync,
    /// Stores to SMEM, mostly of another block, that arrive on a barrier there.
    PeerStore,
    /// Tensor core products of a warpgroup.
    Wgmma,
    /// Tensor core products into tensor memory.
    Tcgen05,
    /// Copies from SMEM to tensor memory.
    TmemCopy,
    /// Arrivals for the products and copies of a thread.
    Commit,
    /// Reads of tensor memory.
    TmemLoad,
    /// Writes of tensor memory.
    TmemStore,
}

/// What an engine was asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Which engine.
    pub engine: Engine,
    /// Unique among the operations of a cluster.
    pub ticket: u64,
    /// What it will read.
    pub reads: &'a [Window<'a>],
    /// What it will write.
    pub writes: &'a [Window<'a>],
    /// Whether it reads what it writes, element by element.
    pub accumulates: bool,
    /// The barrier it will arrive on.
    pub barrier: Option<BarrierId>,
    /// Of a copy that another block's arrival on that barrier stands for: the earliest phase that can be.
    pub tracked: Option<u64>,
    /// The blocks of the cluster, this one among them, to all of which it writes the same, arriving on
    /// the barrier of each. Empty when it writes to one block.
    pub multicast: &'a [u32],
}

/// Makes the trait, and what hands its calls on, from one list of hooks: a new hook cannot be left out
/// of one of them, where its empty default would hide that.
macro_rules! observer {
    (
        told { $($(#[$told_doc:meta])* $told:ident($($t:ident: $told_type:ty),*);)* }
        asked { $($(#[$asked_doc:meta])* $asked:ident($($a:ident: $asked_type:ty),*);)* }
    ) => {
        /// Watches a run. Every method does nothing unless overridden; an error stops the run.
        #[allow(unused_variables, reason = "the names say what an observer may look at")]
        pub trait Observer {
            /// Whether anything is watched: where it is not, the machine need not describe accesses.
            const WATCHES: bool = true;

            /// Whether it wants to know if the write it was just told of changes anything.
            fn wants_value(&self) -> bool {
                false
            }

            $($(#[$told_doc])* fn $told(&mut self, $($t: $told_type),*) {})*

            $($(#[$asked_doc])*
            fn $asked(&mut self, $($a: $asked_type),*) -> Result<(), Box<Trap>> {
                Ok(())
            })*
        }

        /// Watches if there is one.
        impl<O: Observer> Observer for Option<O> {
            const WATCHES: bool = O::WATCHES;

            fn wants_value(&self) -> bool {
                self.as_ref().is_some_and(Observer::wants_value)
            }

            $(fn $told(&mut self, $($t: $told_type),*) {
                if let Some(observer) = self {
                    observer.$told($($t),*);
                }
            })*

            $(fn $asked(&mut self, $($a: $asked_type),*) -> Result<(), Box<Trap>> {
                self.as_mut().map_or(Ok(()), |observer| observer.$asked($($a),*))
            })*
        }

        /// Both watch; the first error counts.
        impl<A: Observer, B: Observer> Observer for (A, B) {
            const WATCHES: bool = A::WATCHES || B::WATCHES;

            fn wants_value(&self) -> bool {
                self.0.wants_value() || self.1.wants_value()
            }

            $(fn $told(&mut self, $($t: $told_type),*) {
                self.0.$told($($t),*);
                self.1.$told($($t),*);
            })*

            $(fn $asked(&mut self, $($a: $asked_type),*) -> Result<(), Box<Trap>> {
                self.0.$asked($($a),*)?;
                self.1.$asked($($a),*)
            })*
        }
    };
}

observer! {
    told {
        /// A block starts.
        on_block_start(cluster: u64, block: u32);
        /// All threads of a block have ended.
        on_block_end(cluster: u64, block: u32);
        /// A scope of a thread, or of its block, has allocated entry `alloc` of the program's
        /// allocations.
        on_alloc(at: At, what: Allocated, alloc: u32);
        /// A scope has ended and its memory is gone.
        on_free(at: At, what: Allocated);
        /// The write puts there what is there already.
        on_value(unchanged: bool);
        /// What a thread has observed says that phase `phase` of this barrier of another block is
        /// complete, too: it takes the same arrivals.
        on_twin(at: At, barrier: BarrierId, phase: u64);
        /// A thread has added to a semaphore.
        on_signal(at: At, semaphore: SemaphoreId);
        /// A thread has found that a semaphore holds what it waited for.
        on_acquire(at: At, semaphore: SemaphoreId);
        /// The last that is heard of a semaphore: it is not zero.
        on_unsettled(semaphore: SemaphoreId, value: u32);
        /// A warpgroup has begun to run its warps by themselves.
        on_warps_start(at: At);
        /// All of its warps have ended, and the warpgroup goes on.
        on_warps_end(at: At);
        /// A thread has made its SMEM accesses visible to the async proxy.
        on_fence(at: At);
        /// What was just issued belongs to the group of what the thread gives to the engine next.
        on_more(at: At, engine: Engine);
        /// An engine has performed an operation of a cluster.
        on_complete(cluster: u64, engine: Engine, ticket: u64);
        /// A thread has closed a group of its TMA stores.
        on_commit_group(at: At);
        /// A thread knows that all but the last `pending` groups it gave to `engine` are complete
        /// (`read_only`: that their sources have been read).
        on_group_wait(at: At, engine: Engine, pending: u32, read_only: bool);
    }
    asked {
        /// An access of a thread to memory. Those of engines are part of [`Observer::on_issue`].
        on_access(at: At, window: Window<'_>, kind: AccessKind, proxy: Proxy);
        /// An arrival; `completes` says whether it was the last one of phase `phase`.
        on_arrive(at: At, barrier: BarrierId, phase: u64, completes: bool);
        /// A thread has observed that phase `phase` is complete.
        on_wait(at: At, barrier: BarrierId, phase: u64);
        /// An operation was handed to an engine.
        on_issue(at: At, operation: Operation<'_>);
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const WATCHES: bool = false;
}
