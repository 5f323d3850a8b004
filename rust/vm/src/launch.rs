//! Running the points of a grid: clusters appear, their threads run, and they go.

use crate::code::{Code, Initial, Inst, Operand};
use crate::exec::run::PATIENCE;
use crate::frame::{Frame, Tile};
use crate::grid::{Grid, Point};
use crate::limits::Device;
use crate::machine::{ALL_SCOPES, Block, Call, Cluster, Ctx, Result, Thread, Worker};
use crate::memory::{Base, Pool, RefVal};
use crate::observer::Observer;
use crate::scheduler::{Crew, Schedule, Scheduler, Slot, Turn, drive};
use crate::stats::Stats;
use crate::sync::mbarrier::WARPS;
use crate::sync::{Engines, NamedBarriers, ThreadQueues};
use crate::trap::{Deadlock, DeadlockRow, Trap, TrapKind, Waiting};
use crate::unlaunched::Unlaunched;
use pallas_rs_ir::{Op, options::AsyncCompletion};
use std::ops::Range;

/// Blocks the largest device holds at the same time, more or less.
const RESIDENT_BLOCKS: usize = 132 * 8;

impl<O: Observer> Worker<O> {
    pub(crate) fn new(pool: Pool, observer: O) -> Worker<O> {
        Worker {
            pool,
            stats: Stats::default(),
            observer,
            defined: None,
            search: None,
            matmul: pallas_rs_core::MatmulScratch::default(),
            unlaunched: Unlaunched::default(),
            strips: Vec::new(),
            patience: PATIENCE,
            asked: 0,
            blocks_ended: 0,
            arrivals: 0,
        }
    }
}

/// Clusters that run at the same time where they claim those that do not run yet.
const SHARING_CLUSTERS: usize = 4;

/// A cluster with its threads.
struct Resident {
    cluster: Cluster,
    threads: Vec<Thread>,
    /// By thread: whether it has ended.
    ended: Vec<bool>,
}

/// The state of a thread before its first instruction.
fn new_frame(call: &Call<'_>, pool: &mut Pool) -> Frame {
    let code = call.code;
    let mut frame = Frame::new(code.scalars, code.tiles, code.refs);
    for initial in &code.initial {
        match initial {
            &Initial::Scalar { reg, bits } => frame.scalars[reg as usize] = bits,
            &Initial::Splat { reg, bits } => frame.tiles[reg as usize] = Tile::Splat(bits),
            &Initial::Blob { reg, blob } => {
                let bytes = &code.program.blobs[blob as usize];
                let id = pool.alloc(bytes.len());
                pool.bytes_mut(id, bytes.len()).copy_from_slice(bytes);
                frame.tiles[reg as usize] = Tile::Dense(id);
            }
            Initial::Arg { reg, arg, shape } => {
                frame.refs[*reg as usize] = RefVal::whole(Base::Global(*arg), shape);
            }
        }
    }
    for by_value in &code.by_value {
        by_value_argument(call, pool, &mut frame, by_value.arg, by_value.operand);
    }
    frame
}

fn by_value_argument(
    call: &Call<'_>,
    pool: &mut Pool,
    frame: &mut Frame,
    arg: u32,
    operand: Operand,
) {
    let view = RefVal::whole(Base::Global(arg), &[]);
    let mut element = [0; 16];
    let dtype = call.code.program.args[arg as usize].dtype;
    let bytes = &mut element[..dtype.size()];
    crate::memory::read_view(call.gmem.source(arg), &view, dtype, call.unwritten, bytes);
    match operand {
        Operand::Scalar { register, .. } => {
            frame.scalars[register as usize] = pallas_rs_core::load_scalar(bytes.len(), bytes, 0);
        }
        Operand::Tile { register, .. } => {
            let id = pool.alloc(bytes.len());
            pool.bytes_mut(id, bytes.len()).copy_from_slice(bytes);
            frame.tiles[register as usize] = Tile::Dense(id);
        }
        Operand::Ref { .. } => unreachable!("the verifier saw a value"),
    }
}

impl Resident {
    fn new(call: &Call<'_>, pool: &mut Pool) -> Resident {
        let program = &call.code.program;
        let blocks: usize = program.cluster.iter().product();
        let threads = (0..blocks * program.num_threads)
            .map(|i| Thread {
                block: (i / program.num_threads) as u32,
                index: (i % program.num_threads) as u32,
                frame: new_frame(call, pool),
                ..Thread::default()
            })
            .collect();
        Resident {
            cluster: Cluster {
                index: 0,
                point: Point::new(),
                blocks: (0..blocks).map(|_| Block::new(program.num_threads)).collect(),
                engines: Engines::default(),
            },
            threads,
            ended: vec![true; blocks * program.num_threads],
        }
        .with_warps(call)
    }

    /// Warps come behind the warpgroups, four for each, and have ended until they are forked.
    fn with_warps(mut self, call: &Call<'_>) -> Resident {
        if call.code.warps {
            for warpgroup in 0..self.threads.len() {
                let Thread { block, index, .. } = self.threads[warpgroup];
                let warp = |w| Thread { block, index, warp: Some(w as u8), ..Thread::default() };
                self.threads.extend((0..WARPS).map(warp));
            }
            self.ended.resize(self.threads.len(), true);
        }
        self
    }

    /// Starts the warps of a warpgroup that has come to an [`Inst::Fork`]: each gets a copy of its
    /// registers, and the first what the warpgroup has in flight, which one of its threads issued.
    fn fork<O: Observer>(
        &mut self,
        call: &Call<'_>,
        worker: &mut Worker<O>,
        number: usize,
    ) -> Result<()> {
        let warpgroups = self.warpgroups(call);
        let parent = &mut self.threads[number];
        let Inst::Fork { warp: register, after } = call.code.insts[parent.pc as usize] else {
            unreachable!("only a fork forks")
        };
        let at = Ctx { call, worker, cluster: &mut self.cluster, thread: parent }.at();
        if parent.warp.is_some() {
            let what = "warps that a warp runs by themselves".to_owned();
            let mut trap: Box<Trap> = TrapKind::Unsupported { what }.into();
            trap.span = Some(at.span);
            return Err(trap);
        }
        let body = parent.pc + 1;
        parent.pc = after;
        parent.warps_running = WARPS as u32;
        let mut queues = std::mem::take(&mut parent.queues);
        let rounds = parent.rounds;
        for w in 0..WARPS {
            let frame = self.threads[number].frame.copy(&mut worker.pool);
            let place = warpgroups + number * WARPS + w;
            let warp = &mut self.threads[place];
            warp.frame = frame;
            warp.frame.scalars[register as usize] = w as u64;
            (warp.pc, warp.rounds) = (body, rounds);
            warp.queues = std::mem::take(&mut queues);
            self.ended[place] = false;
        }
        worker.observer.on_warps_start(at);
        Ok(())
    }

    /// A warp has ended: what it has in flight goes to its warpgroup.
    fn end_warp(&mut self, call: &Call<'_>, pool: &mut Pool, number: usize) {
        let warpgroups = self.warpgroups(call);
        let warp = &mut self.threads[number];
        warp.frame.clear_tiles(pool);
        let (queues, rounds) = (std::mem::take(&mut warp.queues), warp.rounds);
        let parent = &mut self.threads[(number - warpgroups) / WARPS];
        parent.queues.append(queues);
        parent.rounds = parent.rounds.max(rounds);
        parent.warps_running -= 1;
    }

    /// Threads that are warpgroups: those before the warps.
    fn warpgroups(&self, call: &Call<'_>) -> usize {
        self.cluster.blocks.len() * call.code.program.num_threads
    }

    /// Makes it the cluster of a grid point. Nothing is left over from the last one but registers.
    fn start<O: Observer>(&mut self, worker: &mut Worker<O>, schedule: &Schedule, index: u64) {
        self.cluster.index = index;
        if schedule.completion != self.cluster.engines.completion
            || schedule.completion == AsyncCompletion::Random
        {
            let seed = schedule.engine_seed() ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.cluster.engines = Engines::new(schedule.completion, seed);
        }
        for block in &mut self.cluster.blocks {
            block.buffers.clear();
            block.barriers.clear();
            block.named = NamedBarriers::default();
            block.scopes.clear();
            block.come_to.fill(0);
            block.through_with.fill(0);
        }
        for (thread, ended) in self.threads.iter_mut().zip(&mut self.ended) {
            thread.pc = 0;
            thread.shades.clear();
            thread.scopes_entered = 0;
            thread.rounds = 0;
            *ended = thread.warp.is_some();
        }
        if O::WATCHES {
            for block in 0..self.cluster.blocks.len() as u32 {
                worker.observer.on_block_start(index, block);
            }
        }
        worker.stats.blocks += self.cluster.blocks.len() as u64;
    }

    fn finish<O: Observer>(&mut self, worker: &mut Worker<O>) {
        self.cluster.engines.loads.clear();
        self.cluster.engines.tensor.clear();
        worker.blocks_ended += self.cluster.blocks.len() as u64;
        self.cluster.engines.answers.clear();
        if O::WATCHES {
            for block in 0..self.cluster.blocks.len() as u32 {
                worker.observer.on_block_end(self.cluster.index, block);
            }
        }
    }

    /// Completes what is in flight. Whether there was anything.
    fn complete<O: Observer>(&mut self, call: &Call<'_>, worker: &mut Worker<O>) -> Result<bool> {
        let thread = &mut self.threads[0];
        Ctx { call, worker, cluster: &mut self.cluster, thread }.complete_all()
    }

    /// What each thread waits for.
    fn rows<O: Observer>(
        &mut self,
        call: &Call<'_>,
        worker: &mut Worker<O>,
        rows: &mut Vec<DeadlockRow>,
    ) -> Result<()> {
        let listed = |(thread, ended): &(&mut Thread, &bool)| thread.warp.is_none() || !**ended;
        for (thread, &ended) in self.threads.iter_mut().zip(&self.ended).filter(listed) {
            let code = call.code;
            let pc = thread.pc;
            let ctx = Ctx { call, worker, cluster: &mut self.cluster, thread };
            let who = ctx.who();
            let (span, waiting) = if ended {
                (None, Waiting::Exited)
            } else {
                (Some(code.span(pc)), awaited(&ctx, code, pc)?)
            };
            rows.push(DeadlockRow { who, span, waiting });
        }
        Ok(())
    }
}

/// What a thread waits for follows from the instruction it is at.
fn awaited<O: Observer>(ctx: &Ctx<'_, O>, code: &Code, pc: u32) -> Result<Waiting> {
    match code.insts[pc as usize] {
        Inst::EnterScope { .. } => return Ok(ctx.waiting_at_scope()),
        Inst::LeaveScope { .. } => return Ok(ctx.waiting_at_end()),
        Inst::Join => return Ok(Waiting::Warps { running: ctx.thread.warps_running }),
        Inst::Op { record } => {
            let record = &code.records[record as usize];
            match record.op {
                Op::BarrierWait {} => return ctx.waiting_on(record.operands[0], false),
                Op::BarrierArrive { .. } | Op::Tcgen05CommitArrive { .. } => {
                    return ctx.waiting_on(record.operands[0], true);
                }
                Op::Tcgen05Mma { .. } | Op::AsyncCopySmemToTmem { .. } => {
                    return Ok(ctx.waiting_for_peer(record.operands[0]));
                }
                Op::InlineMgpu { .. } => {
                    if let Some(waiting) = ctx.lane_waiting() {
                        return Ok(waiting);
                    }
                }
                Op::SemaphoreWait { .. } => {
                    let [semaphore, value] = [record.operands[0], record.operands[1]];
                    return Ok(ctx.waiting_on_semaphore(semaphore, value));
                }
                Op::RefPeer { .. } => return Ok(ctx.waiting_for_peer(record.operands[0])),
                Op::NamedBarrierSync {} => return ctx.waiting_on_named(record.operands[0]),
                _ => {}
            }
        }
        _ => {}
    }
    let message = "a thread blocks at an op that does not wait".to_owned();
    Err(TrapKind::Internal { message }.into())
}

#[cold]
fn deadlock<'r, O: Observer>(
    call: &Call<'_>,
    worker: &mut Worker<O>,
    clusters: impl Iterator<Item = &'r mut Resident>,
    clusters_finished: u64,
    clusters_waiting: u64,
) -> Box<Trap> {
    let mut rows = Vec::new();
    for resident in clusters {
        if let Err(trap) = resident.rows(call, worker, &mut rows) {
            return trap;
        }
    }
    TrapKind::Deadlock(Deadlock { rows, clusters_finished, clusters_waiting }).into()
}

/// Runs points in ascending order, each by one thread that nobody waits for: a `pl.pallas_call`.
/// `proceed` is asked before each point.
///
/// # Errors
/// What stopped the first point that did not finish, and which one that was.
pub(crate) fn run_in_order<O: Observer>(
    call: &Call<'_>,
    worker: &mut Worker<O>,
    grid: &Grid,
    schedule: &Schedule,
    points: impl IntoIterator<Item = u64>,
    mut after: impl FnMut(&Frame),
) -> std::result::Result<(), (u64, Box<Trap>)> {
    let mut points = points.into_iter().peekable();
    if points.peek().is_none() {
        return Ok(());
    }
    let mut resident = Resident::new(call, &mut worker.pool);
    let mut next = u64::MAX;
    for index in points {
        if index == next {
            grid.advance(&mut resident.cluster.point);
        } else {
            resident.cluster.point = grid.point(index);
        }
        next = index + 1;
        resident.start(worker, schedule, index);
        run_point(call, worker, &mut resident).map_err(|trap| (index, trap))?;
        after(&resident.threads[0].frame);
        resident.finish(worker);
        worker.patience -= 64;
    }
    release(resident, &mut worker.pool);
    Ok(())
}

/// Runs a cluster of one thread to its end.
fn run_point<O: Observer>(
    call: &Call<'_>,
    worker: &mut Worker<O>,
    resident: &mut Resident,
) -> Result<()> {
    loop {
        let Resident { cluster, threads, .. } = &mut *resident;
        match (Ctx { call, worker, cluster, thread: &mut threads[0] }).run(None)? {
            Turn::Ended => return Ok(()),
            Turn::Yielded => {}
            Turn::Forked => {
                unreachable!("a kernel with warps of their own runs its threads together")
            }
            Turn::Blocked { .. } => {
                if !resident.complete(call, worker)? {
                    let finished = resident.cluster.index;
                    let only = std::iter::once(resident);
                    return Err(deadlock(call, worker, only, finished, 0));
                }
            }
        }
    }
}

fn release(resident: Resident, pool: &mut Pool) {
    for mut thread in resident.threads {
        thread.frame.clear_tiles(pool);
        thread.queues = ThreadQueues::default();
    }
}

/// Runs clusters whose threads wait for each other: those of some points.
///
/// # Errors
/// What stopped a thread, or the deadlock.
pub(crate) fn run_together<O: Observer>(
    call: &Call<'_>,
    worker: &mut Worker<O>,
    grid: &Grid,
    schedule: &Schedule,
    scheduler: &mut dyn Scheduler,
    points: Range<u64>,
) -> Result<()> {
    let program = &call.code.program;
    let blocks: usize = program.cluster.iter().product();
    let options = &program.options;
    // Kernels that claim clusters take an SM for each block.
    let held = (Device::of(program).sms / blocks.max(1)).max(1);
    let fits = points.end - points.start <= held as u64;
    let room = match (program.in_order, options.resident_clusters) {
        (true, _) => 1,
        (false, Some(n)) => n.max(1) as usize,
        // A grid that fits on the device would leave nothing to claim.
        (false, None) if call.code.steals && fits => SHARING_CLUSTERS,
        (false, None) if call.code.steals => held,
        (false, None) => (RESIDENT_BLOCKS / blocks.max(1)).max(1),
    };
    worker.unlaunched = Unlaunched::new(points, schedule);
    let threads = blocks * program.num_threads;
    let slots = if call.code.warps { threads * (1 + WARPS) } else { threads };
    let mut crew = Together {
        call,
        worker,
        grid,
        schedule,
        threads,
        slots,
        room,
        fits,
        finished: 0,
        clusters: Vec::new(),
        live: 0,
    };
    drive(&mut crew, scheduler)?;
    let Together { clusters, worker, .. } = crew;
    clusters.into_iter().for_each(|resident| release(resident, &mut worker.pool));
    Ok(())
}

/// The resident clusters of a kernel.
struct Together<'m, 'a, O> {
    call: &'m Call<'a>,
    worker: &'m mut Worker<O>,
    grid: &'m Grid,
    schedule: &'m Schedule,
    /// Threads of a cluster from its start on.
    threads: usize,
    /// The same, with the warps that may run by themselves.
    slots: usize,
    /// Clusters that may be resident.
    room: usize,
    /// Whether the device holds the whole grid.
    fits: bool,
    finished: u64,
    /// A thread's slot is its number in its cluster plus `slots` times the cluster's place here.
    clusters: Vec<Resident>,
    live: usize,
}

impl<O: Observer> Crew for Together<'_, '_, O> {
    fn run(&mut self, slot: Slot, scheduler: &mut dyn Scheduler) -> Result<Turn> {
        let (place, number) = (slot as usize / self.slots, slot as usize % self.slots);
        let resident = &mut self.clusters[place];
        let preempt = if scheduler.preemptive() { Some(scheduler) } else { None };
        let thread = &mut resident.threads[number];
        let (call, worker) = (self.call, &mut *self.worker);
        let turn = Ctx { call, worker, cluster: &mut resident.cluster, thread }.run(preempt)?;
        if turn == Turn::Forked {
            resident.fork(call, self.worker, number)?;
        }
        if turn == Turn::Ended {
            if number >= self.threads {
                resident.end_warp(call, &mut self.worker.pool, number);
            } else {
                let thread = &resident.threads[number];
                let block = &mut resident.cluster.blocks[thread.block as usize];
                block.come_to[thread.index as usize] = ALL_SCOPES;
                block.through_with[thread.index as usize] = ALL_SCOPES;
            }
            resident.ended[number] = true;
            if resident.ended.iter().all(|&ended| ended) {
                resident.finish(self.worker);
                self.worker.unlaunched.finish(resident.cluster.index);
                self.live -= 1;
                self.finished += 1;
            }
        }
        Ok(turn)
    }

    fn crowded(&self) -> bool {
        self.call.code.steals && (self.worker.unlaunched.shares() || !self.fits)
    }

    fn launch(&mut self, _crowd: bool, slots: &mut Vec<Slot>) -> Result<bool> {
        if self.live == self.room {
            return Ok(false);
        }
        let Some(point) = self.worker.unlaunched.launch() else { return Ok(false) };
        let gone = |resident: &Resident| resident.ended.iter().all(|&ended| ended);
        let place = self.clusters.iter().position(gone).unwrap_or_else(|| {
            self.clusters.push(Resident::new(self.call, &mut self.worker.pool));
            self.clusters.len() - 1
        });
        let resident = &mut self.clusters[place];
        resident.cluster.point = self.grid.point(point);
        resident.start(self.worker, self.schedule, point);
        self.worker.patience -= 64;
        self.live += 1;
        slots.extend((0..self.threads).map(|i| (place * self.slots + i) as Slot));
        Ok(true)
    }

    fn started(&mut self, slot: Slot, slots: &mut Vec<Slot>) {
        let (place, number) = (slot as usize / self.slots, slot as usize % self.slots);
        let first = place * self.slots + self.threads + number * WARPS;
        slots.extend((first..first + WARPS).map(|slot| slot as Slot));
    }

    fn complete(&mut self) -> Result<bool> {
        let mut any = false;
        for resident in self.clusters.iter_mut().filter(|r| r.ended.contains(&false)) {
            any |= resident.complete(self.call, self.worker)?;
        }
        Ok(any)
    }

    fn deadlock(&mut self) -> Box<Trap> {
        let live = self.clusters.iter_mut().filter(|r| r.ended.contains(&false));
        deadlock(self.call, self.worker, live, self.finished, self.worker.unlaunched.len())
    }
}
