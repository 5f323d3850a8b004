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
    /// The blocks of the cluster, this one among them, to all of which it writes the same, arriving on
    /// the barrier of each. Empty when it writes to one block.
    pub multicast: &'a [u32],
}

/// Watches a run. Every method does nothing unless overridden; an error stops the run.
#[allow(unused_variables, reason = "the names say what an observer may look at")]
pub trait Observer {
    /// Whether anything is watched: where it is not, the machine need not describe accesses.
    const WATCHES: bool = true;

    /// A block starts.
    fn on_block_start(&mut self, cluster: u64, block: u32) {}

    /// All threads of a block have ended.
    fn on_block_end(&mut self, cluster: u64, block: u32) {}

    /// A scope of a thread, or of its block, has allocated entry `alloc` of the program's allocations.
    fn on_alloc(&mut self, at: At, what: Allocated, alloc: u32) {}

    /// A scope has ended and its memory is gone.
    fn on_free(&mut self, at: At, what: Allocated) {}

    /// An access of a thread to memory. Those of engines are part of [`Observer::on_issue`].
    fn on_access(
        &mut self,
        at: At,
        window: Window<'_>,
        kind: AccessKind,
        proxy: Proxy,
    ) -> Result<(), Box<Trap>> {
        Ok(())
    }

    /// Whether it wants to know if the write it was just told of changes anything.
    fn wants_value(&self) -> bool {
        false
    }

    /// The write puts there what is there already.
    fn on_value(&mut self, unchanged: bool) {}

    /// An arrival; `completes` says whether it was the last one of phase `phase`.
    fn on_arrive(
        &mut self,
        at: At,
        barrier: BarrierId,
        phase: u64,
        completes: bool,
    ) -> Result<(), Box<Trap>> {
        Ok(())
    }

    /// A thread has observed that phase `phase` is complete.
    fn on_wait(&mut self, at: At, barrier: BarrierId, phase: u64) -> Result<(), Box<Trap>> {
        Ok(())
    }

    /// What a thread has observed says that phase `phase` of this barrier of another block is complete,
    /// too: it takes the same arrivals.
    fn on_twin(&mut self, at: At, barrier: BarrierId, phase: u64) {}

    /// A thread has added to a semaphore.
    fn on_signal(&mut self, at: At, semaphore: SemaphoreId) {}

    /// A thread has found that a semaphore holds what it waited for.
    fn on_acquire(&mut self, at: At, semaphore: SemaphoreId) {}

    /// A warpgroup has begun to run its warps by themselves.
    fn on_warps_start(&mut self, at: At) {}

    /// All of its warps have ended, and the warpgroup goes on.
    fn on_warps_end(&mut self, at: At) {}

    /// A thread has made its SMEM accesses visible to the async proxy.
    fn on_fence(&mut self, at: At) {}

    /// An operation was handed to an engine.
    fn on_issue(&mut self, at: At, operation: Operation<'_>) -> Result<(), Box<Trap>> {
        Ok(())
    }

    /// What was just issued belongs to the group of what the thread gives to the engine next.
    fn on_more(&mut self, at: At, engine: Engine) {}

    /// An engine has performed an operation of a cluster.
    fn on_complete(&mut self, cluster: u64, engine: Engine, ticket: u64) {}

    /// A thread has closed a group of its TMA stores.
    fn on_commit_group(&mut self, at: At) {}

    /// A thread knows that all but the last `pending` groups it gave to `engine` are complete
    /// (`read_only`: that their sources have been read).
    fn on_group_wait(&mut self, at: At, engine: Engine, pending: u32, read_only: bool) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    const WATCHES: bool = false;
}

/// Watches if there is one.
impl<O: Observer> Observer for Option<O> {
    const WATCHES: bool = O::WATCHES;

    fn on_more(&mut self, at: At, engine: Engine) {
        if let Some(o) = self {
            o.on_more(at, engine);
        }
    }

    fn wants_value(&self) -> bool {
        self.as_ref().is_some_and(Observer::wants_value)
    }

    fn on_value(&mut self, unchanged: bool) {
        if let Some(o) = self {
            o.on_value(unchanged);
        }
    }

    fn on_block_start(&mut self, cluster: u64, block: u32) {
        if let Some(o) = self {
            o.on_block_start(cluster, block);
        }
    }

    fn on_block_end(&mut self, cluster: u64, block: u32) {
        if let Some(o) = self {
            o.on_block_end(cluster, block);
        }
    }

    fn on_alloc(&mut self, at: At, what: Allocated, alloc: u32) {
        if let Some(o) = self {
            o.on_alloc(at, what, alloc);
        }
    }

    fn on_free(&mut self, at: At, what: Allocated) {
        if let Some(o) = self {
            o.on_free(at, what);
        }
    }

    fn on_access(
        &mut self,
        at: At,
        window: Window<'_>,
        kind: AccessKind,
        proxy: Proxy,
    ) -> Result<(), Box<Trap>> {
        self.as_mut().map_or(Ok(()), |o| o.on_access(at, window, kind, proxy))
    }

    fn on_arrive(
        &mut self,
        at: At,
        barrier: BarrierId,
        phase: u64,
        completes: bool,
    ) -> Result<(), Box<Trap>> {
        self.as_mut().map_or(Ok(()), |o| o.on_arrive(at, barrier, phase, completes))
    }

    fn on_wait(&mut self, at: At, barrier: BarrierId, phase: u64) -> Result<(), Box<Trap>> {
        self.as_mut().map_or(Ok(()), |o| o.on_wait(at, barrier, phase))
    }

    fn on_signal(&mut self, at: At, semaphore: SemaphoreId) {
        if let Some(observer) = self {
            observer.on_signal(at, semaphore);
        }
    }

    fn on_acquire(&mut self, at: At, semaphore: SemaphoreId) {
        if let Some(observer) = self {
            observer.on_acquire(at, semaphore);
        }
    }

    fn on_twin(&mut self, at: At, barrier: BarrierId, phase: u64) {
        if let Some(observer) = self {
            observer.on_twin(at, barrier, phase);
        }
    }

    fn on_warps_start(&mut self, at: At) {
        if let Some(o) = self {
            o.on_warps_start(at);
        }
    }

    fn on_warps_end(&mut self, at: At) {
        if let Some(o) = self {
            o.on_warps_end(at);
        }
    }

    fn on_fence(&mut self, at: At) {
        if let Some(o) = self {
            o.on_fence(at);
        }
    }

    fn on_issue(&mut self, at: At, operation: Operation<'_>) -> Result<(), Box<Trap>> {
        self.as_mut().map_or(Ok(()), |o| o.on_issue(at, operation))
    }

    fn on_complete(&mut self, cluster: u64, engine: Engine, ticket: u64) {
        if let Some(o) = self {
            o.on_complete(cluster, engine, ticket);
        }
    }

    fn on_commit_group(&mut self, at: At) {
        if let Some(o) = self {
            o.on_commit_group(at);
        }
    }

    fn on_group_wait(&mut self, at: At, engine: Engine, pending: u32, read_only: bool) {
        if let Some(o) = self {
            o.on_group_wait(at, engine, pending, read_only);
        }
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    const WATCHES: bool = A::WATCHES || B::WATCHES;

    fn on_more(&mut self, at: At, engine: Engine) {
        self.0.on_more(at, engine);
        self.1.on_more(at, engine);
    }

    fn wants_value(&self) -> bool {
        self.0.wants_value() || self.1.wants_value()
    }

    fn on_value(&mut self, unchanged: bool) {
        self.0.on_value(unchanged);
        self.1.on_value(unchanged);
    }

    fn on_block_start(&mut self, cluster: u64, block: u32) {
        self.0.on_block_start(cluster, block);
        self.1.on_block_start(cluster, block);
    }

    fn on_block_end(&mut self, cluster: u64, block: u32) {
        self.0.on_block_end(cluster, block);
        self.1.on_block_end(cluster, block);
    }

    fn on_alloc(&mut self, at: At, what: Allocated, alloc: u32) {
        self.0.on_alloc(at, what, alloc);
        self.1.on_alloc(at, what, alloc);
    }

    fn on_free(&mut self, at: At, what: Allocated) {
        self.0.on_free(at, what);
        self.1.on_free(at, what);
    }

    fn on_access(
        &mut self,
        at: At,
        window: Window<'_>,
        kind: AccessKind,
        proxy: Proxy,
    ) -> Result<(), Box<Trap>> {
        self.0.on_access(at, window, kind, proxy)?;
        self.1.on_access(at, window, kind, proxy)
    }

    fn on_arrive(
        &mut self,
        at: At,
        barrier: BarrierId,
        phase: u64,
        completes: bool,
    ) -> Result<(), Box<Trap>> {
        self.0.on_arrive(at, barrier, phase, completes)?;
        self.1.on_arrive(at, barrier, phase, completes)
    }

    fn on_wait(&mut self, at: At, barrier: BarrierId, phase: u64) -> Result<(), Box<Trap>> {
        self.0.on_wait(at, barrier, phase)?;
        self.1.on_wait(at, barrier, phase)
    }

    fn on_signal(&mut self, at: At, semaphore: SemaphoreId) {
        self.0.on_signal(at, semaphore);
        self.1.on_signal(at, semaphore);
    }

    fn on_acquire(&mut self, at: At, semaphore: SemaphoreId) {
        self.0.on_acquire(at, semaphore);
        self.1.on_acquire(at, semaphore);
    }

    fn on_twin(&mut self, at: At, barrier: BarrierId, phase: u64) {
        self.0.on_twin(at, barrier, phase);
        self.1.on_twin(at, barrier, phase);
    }

    fn on_warps_start(&mut self, at: At) {
        self.0.on_warps_start(at);
        self.1.on_warps_start(at);
    }

    fn on_warps_end(&mut self, at: At) {
        self.0.on_warps_end(at);
        self.1.on_warps_end(at);
    }

    fn on_fence(&mut self, at: At) {
        self.0.on_fence(at);
        self.1.on_fence(at);
    }

    fn on_issue(&mut self, at: At, operation: Operation<'_>) -> Result<(), Box<Trap>> {
        self.0.on_issue(at, operation)?;
        self.1.on_issue(at, operation)
    }

    fn on_complete(&mut self, cluster: u64, engine: Engine, ticket: u64) {
        self.0.on_complete(cluster, engine, ticket);
        self.1.on_complete(cluster, engine, ticket);
    }

    fn on_commit_group(&mut self, at: At) {
        self.0.on_commit_group(at);
        self.1.on_commit_group(at);
    }

    fn on_group_wait(&mut self, at: At, engine: Engine, pending: u32, read_only: bool) {
        self.0.on_group_wait(at, engine, pending, read_only);
        self.1.on_group_wait(at, engine, pending, read_only);
    }
}
