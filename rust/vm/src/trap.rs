//! What stopped a run, as data. The words are made in [`crate::report`].
//!
//! A trap owns everything its text needs, so that it outlives the machine. Building one is the cold
//! path: it may allocate.

use pallas_rs_core::DType;
use pallas_rs_ir::{Space, SpanId};
use serde::Serialize;

/// A thread of the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Who {
    /// Grid point of its cluster; empty for a kernel without a grid.
    pub point: Vec<u64>,
    /// Position of its block in the cluster; empty without clusters.
    pub block: Vec<usize>,
    /// Index within the block; none in a kernel of one thread.
    pub thread: Option<usize>,
    /// Which warp of its warpgroup, where they run by themselves.
    pub warp: Option<usize>,
}

/// What a view takes of one dimension of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// First element.
    pub start: i64,
    /// Number of elements.
    pub size: usize,
    /// Distance between elements.
    pub stride: i64,
}

/// A box of a named array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The user's name of the argument or allocation.
    pub name: String,
    /// Memory space.
    pub space: Space,
    /// Element type; none for barriers.
    pub dtype: Option<DType>,
    /// Shape of the whole array.
    pub shape: Vec<usize>,
    /// The box, one extent per dimension of the array; empty where the view is too involved.
    pub window: Vec<Extent>,
}

impl Place {
    /// The first dimension in which the box leaves the array.
    pub fn escapes_at(&self) -> Option<usize> {
        self.window.iter().zip(&self.shape).position(|(e, &n)| {
            let last = e.start + e.stride * (e.size as i64 - 1);
            e.size > 0 && (e.start.min(last) < 0 || e.start.max(last) >= n as i64)
        })
    }
}

/// What kind of access went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// A plain read.
    Read,
    /// A plain write.
    Write,
    /// A read and a write of the same elements.
    ReadWrite,
    /// A read by index arrays.
    Gather,
    /// A write by index arrays.
    Scatter,
    /// A read-modify-write.
    Atomic,
    /// The source of a TMA load whose kernel promised that it stays inside.
    TmaLoad,
    /// The target of a TMA store.
    TmaStore,
    /// The side of a copy that lives in SMEM.
    CopyInSmem,
    /// An operand of a tensor core instruction.
    TensorCore,
    /// Which semaphore is meant.
    Semaphore,
    /// Which barrier an arrival or wait means.
    Barrier,
    /// The block of an array that a `BlockSpec` selects.
    Block,
}

/// Why a grid cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GridFault {
    /// A bound below zero.
    Negative,
    /// A bound, or the number of grid points, that is too large to count.
    TooLarge,
}

/// One barrier of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BarrierName {
    /// The user's name of the allocation.
    pub name: String,
    /// Index in it; empty when it is a single barrier.
    pub index: Vec<usize>,
}

/// Which rule of the barrier protocol a kernel broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BarrierRule {
    /// Phase `phase` completed although no thread had observed the one before.
    Unobserved {
        /// The phase that completed.
        phase: u64,
    },
    /// Phase `phase` completed although a participating thread has only observed `observed` phases.
    Missed {
        /// The thread of the block that lags behind.
        thread: usize,
        /// Number of phases it has observed.
        observed: u64,
        /// The phase that completed.
        phase: u64,
    },
    /// A thread waits for phase `awaited` when `completed` phases are complete: the one bit by which
    /// hardware tells phases apart cannot express it.
    Late {
        /// The phase it asks for.
        awaited: u64,
        /// Number of complete phases.
        completed: u64,
        /// Whether it never waited here before.
        first: bool,
    },
    /// One arrival more than the phase has room for.
    TooManyArrivals {
        /// Arrivals so far.
        arrived: u32,
        /// Arrivals of copies in flight.
        in_flight: u32,
        /// Arrivals a phase needs.
        needed: u32,
    },
    /// A wait on the barrier of another block.
    RemoteWait {
        /// Row-major number of that block in the cluster.
        block: usize,
    },
    /// A wait on a barrier that only the leader block tracks.
    NotLeader,
    /// An arrival on the barrier of a block that has left its scope.
    PeerEnded {
        /// Row-major number of that block in the cluster.
        block: usize,
    },
    /// Warps of a warpgroup that have observed different phases wait together.
    WarpsApart {
        /// Phases that one of them has observed.
        least: u64,
        /// Phases that another one has observed.
        most: u64,
    },
    /// A named barrier that does not exist.
    NoSuchName {
        /// Its number.
        id: i64,
        /// Named barriers of a block.
        names: usize,
    },
    /// A named barrier for a number of CUDA threads that is not one of whole warps.
    BadCount {
        /// The number.
        count: i64,
    },
    /// Two users of a named barrier that disagree about how many CUDA threads it takes.
    CountsDiffer {
        /// What those who arrived before say.
        needed: u32,
        /// What this one says.
        count: u32,
    },
    /// More CUDA threads than a named barrier takes.
    TooManyThreads {
        /// Those that have arrived.
        arrived: u32,
        /// Those that arrive now.
        threads: u32,
        /// What it takes.
        needed: u32,
    },
    /// The scope of the barrier ended in the middle of a phase.
    PendingAtEnd {
        /// Arrivals so far.
        arrived: u32,
        /// Arrivals a phase needs.
        needed: u32,
    },
}

/// What a blocked thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// A phase of a barrier.
    Barrier {
        /// Which one.
        barrier: BarrierName,
        /// The phase it asks for.
        phase: u64,
        /// Arrivals in that phase so far.
        arrived: u32,
        /// Arrivals the phase needs.
        needed: u32,
        /// Collective copies that not all blocks have issued.
        incomplete: u32,
    },
    /// A named barrier.
    Named {
        /// Which one.
        id: i64,
        /// CUDA threads that have arrived.
        arrived: u32,
        /// CUDA threads it takes.
        needed: u32,
    },
    /// A semaphore.
    Semaphore {
        /// Which one.
        semaphore: BarrierName,
        /// What it holds.
        held: u32,
        /// What it has to hold.
        needed: u32,
    },
    /// Its warps, which run by themselves.
    Warps {
        /// Those that have not ended.
        running: u32,
    },
    /// A barrier in the block beside it, whose scope that block has not entered.
    Peer {
        /// Which one.
        barrier: BarrierName,
    },
    /// Memory of another block, which has not entered that scope.
    PeerMemory {
        /// The user's name of the allocation.
        name: String,
    },
    /// The other threads of its block, which have to enter the same scope.
    Scope {
        /// Threads that are there.
        arrived: usize,
        /// Threads of the block.
        needed: usize,
    },
    /// The end of a scope with TMEM of two blocks, for the other threads of the cluster.
    End {
        /// Threads that are there or have ended.
        arrived: usize,
        /// Threads of the cluster.
        needed: usize,
    },
    /// Nothing: it has ended.
    Exited,
}

/// A thread in a deadlock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadlockRow {
    /// The thread.
    pub who: Who,
    /// Where it stands; none once it has ended.
    pub span: Option<SpanId>,
    /// What it waits for.
    pub waiting: Waiting,
}

/// Threads that wait for each other for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deadlock {
    /// Every thread of the clusters that are stuck, in order.
    pub rows: Vec<DeadlockRow>,
    /// Clusters that have finished.
    pub clusters_finished: u64,
    /// Clusters that were not started: the device holds no more at the same time.
    pub clusters_waiting: u64,
}

/// A limit of the simulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// SMEM of a block, in bytes.
    Smem,
    /// TMEM of a block, in columns.
    Tmem,
    /// Barriers of an allocation.
    Barriers,
    /// Arrivals of a phase.
    Arrivals,
    /// Threads of a block, as the device counts them.
    Threads,
    /// Blocks of a cluster.
    ClusterBlocks,
    /// Memory of this machine, in bytes.
    Memory,
}

/// What CUDA threads of an inline body did wrong. Threads are numbered within their block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneFault {
    /// An index outside the ref it indexes.
    Index {
        /// The ref.
        place: Place,
        /// The thread.
        thread: u32,
        /// The index, into the ref as the body sees it.
        index: Vec<i64>,
        /// How far each may go.
        sizes: Vec<i64>,
    },
    /// An access to bytes that are no element of its ref: outside, or padding between rows.
    Outside {
        /// What was tried.
        access: Access,
        /// The ref.
        place: Place,
        /// The thread.
        thread: u32,
        /// The first byte.
        byte: i64,
        /// Number of bytes.
        bytes: usize,
    },
    /// A pointer that belongs to no ref of the body.
    NoView {
        /// The thread.
        thread: u32,
    },
    /// An access that is not aligned as its instruction demands.
    Misaligned {
        /// What was tried.
        access: Access,
        /// The ref.
        place: Place,
        /// The thread.
        thread: u32,
        /// The first byte.
        byte: i64,
        /// The alignment it needs, in bytes.
        align: u32,
    },
    /// Only some threads of a warp reached an instruction that needs all of them.
    Diverged {
        /// The instruction.
        what: String,
        /// Threads that reached it.
        active: u32,
        /// Threads there are.
        of: u32,
    },
    /// Two threads touch an element without a barrier between them.
    Race(LaneRace),
    /// Threads of one instruction named different barriers.
    BarriersDiffer,
    /// A scalar result that is not the same in every thread.
    NotUniform,
    /// Threads that hold the same element of a result returned different values for it.
    ReplicasDiffer {
        /// One of the threads.
        thread: u32,
        /// The element, row-major.
        element: usize,
        /// Shape of the result.
        shape: Vec<usize>,
    },
}

/// Two CUDA threads of one machine thread that touch an element without a barrier between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneRace {
    /// The ref.
    pub place: Place,
    /// The element of the ref, row-major.
    pub element: usize,
    /// Shape of the ref.
    pub shape: Vec<usize>,
    /// The thread that comes later in lock step.
    pub thread: u32,
    /// The one it races with, if it is one.
    pub other: Option<u32>,
    /// Whether the later access is a write.
    pub write: bool,
    /// The body.
    pub body: String,
}

/// Why an instruction does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Illegal {
    /// A copy whose rows are no multiple of 16 bytes.
    CopyRow {
        /// Elements of a row.
        elements: usize,
        /// Their type.
        dtype: DType,
    },
    /// A copy from or to an array whose rows are no multiple of 16 bytes apart.
    CopyStride {
        /// The user's name of the array.
        name: String,
        /// The dimension.
        axis: usize,
        /// Elements from one index to the next.
        elements: usize,
        /// Their type.
        dtype: DType,
    },
    /// A product of a shape that the tensor core does not know.
    ProductShape {
        /// The op.
        op: &'static str,
        /// Rows of the accumulator.
        m: usize,
        /// Columns of the accumulator.
        n: usize,
        /// The common dimension.
        k: usize,
        /// What it has to be a multiple of.
        step: usize,
    },
    /// A product of types that the tensor core does not know.
    ProductTypes {
        /// The op.
        op: &'static str,
        /// Of the accumulator.
        acc: DType,
        /// Of the left operand.
        a: DType,
        /// Of the right operand.
        b: DType,
    },
    /// A product of another generation of devices.
    Product {
        /// The op.
        op: &'static str,
        /// Who has it.
        needs: &'static str,
        /// The device.
        target: String,
    },
}

/// What stopped a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrapKind {
    /// An access outside its array.
    OutOfBounds {
        /// What was tried.
        access: Access,
        /// Where.
        place: Place,
    },
    /// A grid that cannot be run.
    InvalidGrid {
        /// Dimension.
        axis: usize,
        /// Its name, if it has one.
        name: Option<String>,
        /// The bound.
        value: i128,
        /// What is wrong with it.
        fault: GridFault,
    },
    /// No thread can go on.
    Deadlock(Deadlock),
    /// A broken rule of the barrier protocol.
    Barrier {
        /// Which barrier.
        barrier: BarrierName,
        /// Which rule.
        rule: BarrierRule,
    },
    /// A block of the cluster that does not exist.
    NoSuchBlock {
        /// Dimension of the cluster.
        axis: usize,
        /// The index along it.
        index: i64,
        /// Blocks along it.
        size: usize,
    },
    /// A thread enters another collective scope than the threads before it.
    OtherScope {
        /// The user's name of what the other scope allocates first.
        other: String,
        /// The same of this one.
        own: String,
    },
    /// An access to memory of a block of the cluster that has left its scope.
    PeerEnded {
        /// The user's name of the allocation.
        name: String,
        /// Row-major number of the block in the cluster.
        block: usize,
    },
    /// A read of memory that nobody wrote.
    Uninitialized {
        /// Where.
        place: Place,
    },
    /// More than the device has.
    Resource {
        /// Of what.
        limit: Limit,
        /// How much is asked for.
        needed: u64,
        /// How much there is.
        available: u64,
        /// The device.
        target: String,
        /// Who uses how much of it, the largest first.
        users: Vec<(String, u64)>,
    },
    /// An instruction that no device, or not this one, has.
    Illegal(Illegal),
    /// An integer divided by zero (`remainder`: the remainder of one).
    DivisionByZero {
        /// Whether the op was a remainder.
        remainder: bool,
    },
    /// A check of the user's failed; the text is the user's.
    Check {
        /// The user's message.
        message: String,
    },
    /// The host could not do what an op asked for.
    Host {
        /// What was asked.
        call: String,
        /// What the host answered.
        message: String,
    },
    /// CUDA threads of an inline body did something wrong.
    Lanes(LaneFault),
    /// The run took more steps than allowed.
    StepLimit {
        /// How many are allowed.
        limit: u64,
    },
    /// The user asked to stop.
    Interrupted,
    /// Something the machine does not do.
    Unsupported {
        /// What.
        what: String,
    },
    /// A bug of this machine.
    Internal {
        /// What it noticed.
        message: String,
    },
}

/// What stopped a run, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trap {
    /// What.
    pub kind: TrapKind,
    /// At which source line.
    pub span: Option<SpanId>,
    /// In which thread.
    pub who: Option<Who>,
}

impl From<TrapKind> for Trap {
    fn from(kind: TrapKind) -> Self {
        Trap { kind, span: None, who: None }
    }
}

impl From<TrapKind> for Box<Trap> {
    fn from(kind: TrapKind) -> Self {
        Box::new(kind.into())
    }
}

impl Trap {
    /// Fills in where it happened, unless that is known already.
    pub fn locate(&mut self, span: SpanId, who: impl FnOnce() -> Who) {
        self.span.get_or_insert(span);
        self.who.get_or_insert_with(who);
    }
}
