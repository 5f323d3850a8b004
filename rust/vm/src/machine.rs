//! What exists while a kernel runs: clusters of blocks of threads, and what they share.

use crate::code::Code;
use crate::defined::{Definedness, Shades};
use crate::frame::Frame;
use crate::host::Host;
use crate::lanes::State;
use crate::memory::{Contents, Gmem, Pool, RefVal, TileId};
use crate::non_finite::Search;
use crate::observer::{At, Observer, ThreadId};
use crate::stats::Stats;
use crate::sync::{Barriers, Engines, NamedBarriers, ThreadQueues};
use crate::trap::{Trap, Who};
use crate::unlaunched::Unlaunched;
use pallas_rs_core::MatmulScratch;
use smallvec::SmallVec;

/// What an instruction returns.
pub(crate) type Result<T = Flow> = std::result::Result<T, Box<Trap>>;

/// How a thread goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the next instruction.
    Next,
    /// Not now: the same instruction is tried again when the thread is run again.
    Block,
}

/// What a run has that does not change while it lasts.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    /// The kernel.
    pub(crate) code: &'a Code,
    /// Its arguments.
    pub(crate) gmem: Gmem<'a>,
    /// Bounds of the grid.
    pub(crate) grid: SmallVec<[u64; 4]>,
    /// What unwritten memory holds.
    pub(crate) unwritten: Contents,
    /// Whether a generic read outside its array is unwritten memory and no error.
    pub(crate) reads_outside: bool,
    /// Whether loads may leave their tiles in memory: not if a thread may have to give way between a
    /// load and its use.
    pub(crate) lends: bool,
    /// The process around the machine.
    pub(crate) host: &'a dyn Host,
    /// Rounds of loops without a known end after which a thread is stopped.
    pub(crate) max_rounds: u64,
}

impl Call<'_> {
    /// Blocks that all runs of the call have to run, together.
    pub(crate) fn blocks(&self) -> u64 {
        let program = &self.code.program;
        let points = self.grid.iter().product::<u64>();
        let blocks = program.cluster.iter().product::<usize>() as u64;
        points.saturating_mul(blocks).saturating_mul(u64::from(program.options.seeds.max(1)))
    }
}

/// What one OS thread works with.
pub(crate) struct Worker<O> {
    pub(crate) pool: Pool,
    pub(crate) stats: Stats,
    pub(crate) observer: O,
    /// Tags of memory that nobody wrote, if they are kept.
    pub(crate) defined: Option<Box<Definedness>>,
    /// The origin of numbers that are not finite, if it is looked for.
    pub(crate) search: Option<Search>,
    pub(crate) matmul: MatmulScratch,
    /// Clusters that have not been launched, where they run together.
    pub(crate) unlaunched: Unlaunched,
    /// Strips of chains.
    pub(crate) strips: Vec<Vec<u8>>,
    /// Work until the host is asked whether to stop, in units of about a nanosecond.
    pub(crate) patience: i64,
    /// How often it was asked.
    pub(crate) asked: i64,
    /// Blocks that have ended since then.
    pub(crate) blocks_ended: u64,
    /// Arrivals so far, of threads and of engines: each may let somebody go on, even where the thread
    /// that was running gets no further.
    pub(crate) arrivals: u64,
}

/// Clusters are the unit of launching; blocks of one cluster reach each other's memory.
pub(crate) struct Cluster {
    /// Row-major number in the grid.
    pub(crate) index: u64,
    /// Grid point.
    pub(crate) point: SmallVec<[u64; 4]>,
    /// Row-major over the program's `cluster`.
    pub(crate) blocks: Vec<Block>,
    /// Copies in flight between GMEM and its blocks.
    pub(crate) engines: Engines,
}

/// An allocation of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataAlloc {
    /// Entry of [`Code::allocs`].
    pub(crate) alloc: u32,
    pub(crate) tile: TileId,
}

/// An allocation of barriers.
#[derive(Debug)]
pub(crate) struct BarrierAlloc {
    /// Entry of [`Code::allocs`].
    pub(crate) alloc: u32,
    pub(crate) barriers: Barriers,
}

/// What the threads of a block share. An entry is `None` once its scope has ended.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) buffers: Vec<Option<DataAlloc>>,
    pub(crate) barriers: Vec<Option<BarrierAlloc>>,
    pub(crate) named: NamedBarriers,
    /// Barriers of scopes that have ended, to be used again.
    pub(crate) spare: Vec<Barriers>,
    /// Collective scopes some thread is in, by how many each thread has entered before.
    pub(crate) scopes: Vec<SharedScope>,
    /// By thread: collective scopes it has come to; [`ALL_SCOPES`] once it has ended.
    pub(crate) come_to: Vec<u32>,
    /// By thread: scopes with TMEM of two blocks at whose end it has been; [`ALL_SCOPES`] once it
    /// has ended.
    pub(crate) through_with: Vec<u32>,
}

impl Block {
    pub(crate) fn new(threads: usize) -> Block {
        let (come_to, through_with) = (vec![0; threads], vec![0; threads]);
        Block { come_to, through_with, ..Block::default() }
    }
}

/// More collective scopes than any thread enters.
pub(crate) const ALL_SCOPES: u32 = u32::MAX;

/// A scope shared by the threads of a block: the k-th one each of them enters.
#[derive(Debug)]
pub(crate) struct SharedScope {
    /// k.
    pub(crate) ordinal: u32,
    /// Its first entry of [`Code::allocs`], by which it is told from other scopes of the program.
    pub(crate) first_alloc: u32,
    /// Threads that have not left it, counting those that have not entered it yet.
    pub(crate) users: u32,
    /// Its allocations.
    pub(crate) refs: Vec<RefVal>,
}

/// One thread: a warpgroup, or a warp of one that runs by itself. Registers and a program counter.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) pc: u32,
    /// Its block within the cluster.
    pub(crate) block: u32,
    /// Its index within the block; a warp's is that of its warpgroup.
    pub(crate) index: u32,
    /// Which warp of its warpgroup it is, if it is one.
    pub(crate) warp: Option<u8>,
    /// Of a warpgroup: its warps that run by themselves, while it waits for them.
    pub(crate) warps_running: u32,
    /// While it waits at a named barrier on which it has arrived: how often that had been complete.
    pub(crate) named: Option<u64>,
    pub(crate) frame: Frame,
    /// Tags of its registers, if they are kept.
    pub(crate) shades: Shades,
    /// Accumulators of its scopes.
    pub(crate) accumulators: Vec<Option<DataAlloc>>,
    /// Collective scopes it has entered.
    pub(crate) scopes_entered: u32,
    /// Scopes it is in, innermost last.
    pub(crate) scopes: Vec<ActiveScope>,
    /// Storage of scopes it has left, to be used again.
    pub(crate) spare: Vec<Vec<RefVal>>,
    /// Rounds of loops without a known end.
    pub(crate) rounds: u64,
    /// Copies and products it has in flight.
    pub(crate) queues: ThreadQueues,
    /// Where it is in an inline body.
    pub(crate) lanes: Option<State>,
}

impl Thread {
    /// CUDA threads it stands for.
    pub(crate) fn cuda_threads(&self) -> u32 {
        if self.warp.is_some() { 32 } else { 128 }
    }
}

/// A scope a thread is in.
#[derive(Clone, Debug)]
pub(crate) struct ActiveScope {
    /// k of a collective scope.
    pub(crate) ordinal: Option<u32>,
    /// Its allocations.
    pub(crate) refs: Vec<RefVal>,
    /// Where it has TMEM of two blocks: how many such scopes this thread has left before.
    pub(crate) paired: Option<u32>,
}

/// What an instruction can reach.
pub(crate) struct Ctx<'m, O> {
    pub(crate) call: &'m Call<'m>,
    pub(crate) worker: &'m mut Worker<O>,
    pub(crate) cluster: &'m mut Cluster,
    pub(crate) thread: &'m mut Thread,
}

impl<O: Observer> Ctx<'_, O> {
    /// This thread, by number.
    pub(crate) fn id(&self) -> ThreadId {
        ThreadId {
            cluster: self.cluster.index,
            block: self.thread.block,
            thread: self.thread.index,
            warp: self.thread.warp,
        }
    }

    /// This thread and the source line it is at.
    pub(crate) fn at(&self) -> At {
        At { thread: self.id(), span: self.call.code.span(self.thread.pc) }
    }

    /// This thread, for people.
    pub(crate) fn who(&self) -> Who {
        let program = &self.call.code.program;
        let mut block = vec![0; program.cluster.len()];
        let mut rest = self.thread.block as usize;
        for (x, &n) in block.iter_mut().zip(&program.cluster).rev() {
            *x = rest % n;
            rest /= n;
        }
        Who {
            point: self.cluster.point.to_vec(),
            block,
            thread: (program.num_threads > 1).then_some(self.thread.index as usize),
            warp: self.thread.warp.map(usize::from),
        }
    }
}
