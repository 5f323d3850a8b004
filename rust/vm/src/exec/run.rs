//! The loop that runs a thread.

use super::access::as_integer;
use crate::code::{Inst, Record};
use crate::frame::Tile;
use crate::machine::{Ctx, Flow, Result};
use crate::observer::Observer;
use crate::scheduler::{Scheduler, Turn};
use crate::trap::TrapKind;
use pallas_rs_core as core;
use pallas_rs_ir::Effect;

/// Rounds of loops without a known end after which a thread gives way: it may be polling for what
/// another one does.
const ROUNDS_A_TURN: u32 = 1 << 12;
/// Work between two questions to the host, in units of about a nanosecond.
pub(crate) const PATIENCE: i64 = 1 << 22;

impl<O: Observer> Ctx<'_, O> {
    /// Runs the thread until it blocks, gives way or ends. At scheduling points `scheduler`, if any,
    /// may make it give way.
    ///
    /// # Errors
    /// What stopped it, with its place.
    pub(crate) fn run(&mut self, scheduler: Option<&mut dyn Scheduler>) -> Result<Turn> {
        let turn = self.steps(scheduler);
        turn.map_err(|mut trap| {
            let span = self.call.code.span(self.thread.pc);
            trap.locate(span, || self.who());
            trap
        })
    }

    #[allow(clippy::too_many_lines, reason = "one arm per instruction")]
    fn steps(&mut self, mut scheduler: Option<&mut dyn Scheduler>) -> Result<Turn> {
        let code = self.call.code;
        let insts = &code.insts[..];
        let mut pc = self.thread.pc as usize;
        let mut rounds = 0;
        let mut executed = 0;
        macro_rules! scalars {
            ($reg:expr) => {
                self.thread.frame.scalars[$reg as usize]
            };
        }
        macro_rules! int32 {
            ($dst:expr, $a:expr, $b:expr, $f:expr) => {{
                let (a, b) = (scalars!($a) as i32, scalars!($b) as i32);
                scalars!($dst) = u64::from($f(a, b) as u32);
            }};
        }
        macro_rules! int64 {
            ($dst:expr, $a:expr, $b:expr, $f:expr) => {{
                let (a, b) = (scalars!($a) as i64, scalars!($b) as i64);
                scalars!($dst) = $f(a, b) as u64;
            }};
        }
        macro_rules! float32 {
            ($dst:expr, $a:expr, $b:expr, $f:expr) => {{
                let (a, b) =
                    (f32::from_bits(scalars!($a) as u32), f32::from_bits(scalars!($b) as u32));
                let value: f32 = $f(a, b);
                scalars!($dst) = u64::from(value.to_bits());
            }};
        }
        macro_rules! fail {
            ($trap:expr) => {{
                self.thread.pc = pc as u32;
                return Err($trap.into());
            }};
        }
        let arrivals = self.worker.arrivals;
        macro_rules! blocked {
            () => {
                Turn::Blocked { advanced: executed > 0 || self.worker.arrivals != arrivals }
            };
        }
        let turn = loop {
            let mut next = pc + 1;
            if self.tracks() {
                self.thread.pc = pc as u32;
                self.track(insts[pc]);
            }
            match insts[pc] {
                Inst::MoveScalar { dst, src } => scalars!(dst) = scalars!(src),
                Inst::MoveTile { dst, src, last } => self.move_tile(dst, src, last),
                Inst::MoveRef { dst, src } => {
                    self.thread.frame.refs[dst as usize] =
                        self.thread.frame.refs[src as usize].clone();
                }
                Inst::DropTile { tile } => {
                    self.thread.frame.set_tile(&mut self.worker.pool, tile, Tile::Empty);
                }
                Inst::AddI32 { dst, a, b } => int32!(dst, a, b, i32::wrapping_add),
                Inst::SubI32 { dst, a, b } => int32!(dst, a, b, i32::wrapping_sub),
                Inst::MulI32 { dst, a, b } => int32!(dst, a, b, i32::wrapping_mul),
                Inst::DivI32 { dst, a, b } => {
                    if scalars!(b) == 0 {
                        fail!(TrapKind::DivisionByZero { remainder: false });
                    }
                    int32!(dst, a, b, i32::wrapping_div);
                }
                Inst::RemI32 { dst, a, b } => {
                    if scalars!(b) == 0 {
                        fail!(TrapKind::DivisionByZero { remainder: true });
                    }
                    int32!(dst, a, b, i32::wrapping_rem);
                }
                Inst::MaxI32 { dst, a, b } => int32!(dst, a, b, Ord::max),
                Inst::MinI32 { dst, a, b } => int32!(dst, a, b, Ord::min),
                Inst::EqI32 { dst, a, b } => int32!(dst, a, b, |a, b| i32::from(a == b)),
                Inst::NeI32 { dst, a, b } => int32!(dst, a, b, |a, b| i32::from(a != b)),
                Inst::LtI32 { dst, a, b } => int32!(dst, a, b, |a, b| i32::from(a < b)),
                Inst::LeI32 { dst, a, b } => int32!(dst, a, b, |a, b| i32::from(a <= b)),
                Inst::AddI64 { dst, a, b } => int64!(dst, a, b, i64::wrapping_add),
                Inst::SubI64 { dst, a, b } => int64!(dst, a, b, i64::wrapping_sub),
                Inst::MulI64 { dst, a, b } => int64!(dst, a, b, i64::wrapping_mul),
                Inst::LtI64 { dst, a, b } => int64!(dst, a, b, |a, b| i64::from(a < b)),
                Inst::And { dst, a, b } => scalars!(dst) = scalars!(a) & scalars!(b),
                Inst::Or { dst, a, b } => scalars!(dst) = scalars!(a) | scalars!(b),
                Inst::Xor { dst, a, b } => scalars!(dst) = scalars!(a) ^ scalars!(b),
                Inst::NotBool { dst, x } => scalars!(dst) = scalars!(x) ^ 1,
                Inst::AddF32 { dst, a, b } => float32!(dst, a, b, |a, b| a + b),
                Inst::SubF32 { dst, a, b } => float32!(dst, a, b, |a, b| a - b),
                Inst::MulF32 { dst, a, b } => float32!(dst, a, b, |a, b| a * b),
                Inst::DivF32 { dst, a, b } => float32!(dst, a, b, |a, b| a / b),
                Inst::I32ToI64 { dst, x } => scalars!(dst) = scalars!(x) as i32 as i64 as u64,
                Inst::ToI32 { dst, x } => scalars!(dst) = scalars!(x) & 0xffff_ffff,
                Inst::Unary { kind, dtype, dst, x } => {
                    scalars!(dst) = core::unary_scalar(kind, dtype, scalars!(x));
                }
                Inst::Binary { kind, dtype, dst, a, b } => {
                    let remainder = kind == core::BinaryKind::Rem;
                    let divides = remainder || kind == core::BinaryKind::Div;
                    if divides && dtype.is_int() && scalars!(b) == 0 {
                        fail!(TrapKind::DivisionByZero { remainder });
                    }
                    scalars!(dst) = core::binary_scalar(kind, dtype, scalars!(a), scalars!(b));
                }
                Inst::Compare { kind, dtype, dst, a, b } => {
                    let holds = core::compare_scalar(kind, dtype, scalars!(a), scalars!(b));
                    scalars!(dst) = u64::from(holds);
                }
                Inst::Convert { from, to, dst, x } => {
                    scalars!(dst) = core::convert_scalar(from, to, scalars!(x));
                }
                Inst::Select { dst, which, zero, other } => {
                    let from = if scalars!(which) == 0 { zero } else { other };
                    scalars!(dst) = scalars!(from);
                }
                Inst::ProgramId { dst, axis } => {
                    scalars!(dst) = self.cluster.point[axis as usize] & 0xffff_ffff;
                }
                Inst::NumPrograms { dst, axis } => {
                    scalars!(dst) = self.call.grid[axis as usize] & 0xffff_ffff;
                }
                Inst::ClusterIndex { dst, axis } => {
                    let cluster = &code.program.cluster;
                    let behind: usize = cluster[axis as usize + 1..].iter().product();
                    let index = self.thread.block as usize / behind % cluster[axis as usize];
                    scalars!(dst) = index as u64;
                }
                Inst::ThreadIndex { dst } => scalars!(dst) = u64::from(self.thread.index),
                Inst::Jump { to } => next = to as usize,
                Inst::JumpBack { to } => {
                    next = to as usize;
                    rounds += 1;
                    if rounds == ROUNDS_A_TURN {
                        pc = next;
                        self.thread.pc = pc as u32;
                        self.count_rounds(rounds)?;
                        break Turn::Yielded;
                    }
                }
                Inst::JumpIf { condition, to } => {
                    if scalars!(condition) != 0 {
                        next = to as usize;
                    }
                }
                Inst::JumpUnless { condition, to } => {
                    if scalars!(condition) == 0 {
                        next = to as usize;
                    }
                }
                Inst::JumpTable { index, dtype, table } => {
                    let targets = &code.tables[table as usize];
                    let index =
                        as_integer(dtype, scalars!(index)).clamp(0, targets.len() as i64 - 1);
                    next = targets[index as usize] as usize;
                }
                Inst::ForEnter { counter, end, exit } => {
                    if scalars!(counter) as i32 >= scalars!(end) as i32 {
                        next = exit as usize;
                    }
                }
                Inst::ForNext { counter, end, body } => {
                    let i = scalars!(counter) as i32 + 1;
                    scalars!(counter) = u64::from(i as u32);
                    if i < scalars!(end) as i32 {
                        next = body as usize;
                        self.worker.patience -= 4;
                        if self.worker.patience < 0 {
                            self.thread.pc = next as u32;
                            self.ask_host()?;
                        }
                    }
                }
                Inst::ForEnterWide { counter, end, dtype, exit } => {
                    if as_integer(dtype, scalars!(counter)) >= as_integer(dtype, scalars!(end)) {
                        next = exit as usize;
                    }
                }
                Inst::ForNextWide { counter, end, dtype, body } => {
                    let i = as_integer(dtype, scalars!(counter)) + 1;
                    scalars!(counter) =
                        core::binary_scalar(core::BinaryKind::Add, dtype, scalars!(counter), 1);
                    if i < as_integer(dtype, scalars!(end)) {
                        next = body as usize;
                        self.worker.patience -= 4;
                        if self.worker.patience < 0 {
                            self.thread.pc = next as u32;
                            self.ask_host()?;
                        }
                    }
                }
                Inst::EnterScope { scope } => {
                    self.thread.pc = pc as u32;
                    if self.enter_scope(&code.scopes[scope as usize])? == Flow::Block {
                        break blocked!();
                    }
                }
                Inst::LeaveScope { .. } => {
                    self.thread.pc = pc as u32;
                    if self.exit_scope()? == Flow::Block {
                        break blocked!();
                    }
                }
                Inst::Fork { .. } => break Turn::Forked,
                Inst::EndWarp => break Turn::Ended,
                Inst::Join => {
                    if self.thread.warps_running > 0 {
                        break blocked!();
                    }
                    if O::WATCHES {
                        self.thread.pc = pc as u32;
                        let at = self.at();
                        self.worker.observer.on_warps_end(at);
                    }
                }
                Inst::Chain { chain } => {
                    let chain = &code.chains[chain as usize];
                    self.thread.pc = pc as u32;
                    self.chain(chain)?;
                    for &tile in &chain.drops {
                        self.thread.frame.set_tile(&mut self.worker.pool, tile, Tile::Empty);
                    }
                }
                Inst::ChainStore { chain, record } => {
                    let (chain, record) =
                        (&code.chains[chain as usize], &code.records[record as usize]);
                    self.thread.pc = pc as u32;
                    self.chain_store(chain, record)?;
                    for &tile in chain.drops.iter().chain(&record.drops) {
                        self.thread.frame.set_tile(&mut self.worker.pool, tile, Tile::Empty);
                    }
                    if let Some(scheduler) = scheduler.as_deref_mut()
                        && scheduler.preempts()
                    {
                        pc = next;
                        executed += 2;
                        break Turn::Yielded;
                    }
                    executed += 1;
                }
                Inst::Op { record } => {
                    let record = &code.records[record as usize];
                    self.thread.pc = pc as u32;
                    let before = if O::WATCHES { self.before_op(record) } else { None };
                    if self.op(record)? == Flow::Block {
                        break blocked!();
                    }
                    if let Some(before) = before {
                        self.after_op(record, &before);
                    }
                    for &tile in &record.drops {
                        self.thread.frame.set_tile(&mut self.worker.pool, tile, Tile::Empty);
                    }
                    if let Some(scheduler) = scheduler.as_deref_mut()
                        && is_scheduling_point(record)
                        && scheduler.preempts()
                    {
                        pc = next;
                        executed += 1;
                        break Turn::Yielded;
                    }
                }
                Inst::End => {
                    self.thread.pc = pc as u32;
                    self.finish_queues();
                    break Turn::Ended;
                }
            }
            executed += 1;
            pc = next;
        };
        self.thread.pc = pc as u32;
        self.worker.stats.ops += executed;
        Ok(turn)
    }

    fn move_tile(&mut self, dst: u32, src: u32, last: bool) {
        let tile = if last {
            self.thread.frame.take_tile(src)
        } else {
            let tile = self.thread.frame.tiles[src as usize];
            if let Tile::Dense(id) = tile {
                self.worker.pool.retain(id);
            }
            tile
        };
        debug_assert!(!matches!(tile, Tile::Lent { .. }), "a lent tile stays in its register");
        self.thread.frame.set_tile(&mut self.worker.pool, dst, tile);
    }

    /// Rounds of loops without a known end: a run that never ends is stopped.
    pub(crate) fn count_rounds(&mut self, rounds: u32) -> Result<()> {
        self.thread.rounds += u64::from(rounds);
        if self.thread.rounds >= self.call.max_rounds {
            return Err(TrapKind::StepLimit { limit: self.call.max_rounds }.into());
        }
        self.worker.patience -= 8 * i64::from(rounds);
        if self.worker.patience < 0 {
            self.ask_host()?;
        }
        Ok(())
    }

    /// Tells the host how far the run is, and asks it whether the user wants to stop.
    #[cold]
    pub(crate) fn ask_host(&mut self) -> Result<()> {
        self.worker.patience += PATIENCE;
        self.worker.asked += 1;
        if self.call.code.program.options.progress {
            let ended = std::mem::take(&mut self.worker.blocks_ended);
            self.call.host.advanced(ended, self.call.blocks());
        }
        if self.call.host.interrupted() { Err(TrapKind::Interrupted.into()) } else { Ok(()) }
    }
}

fn is_scheduling_point(record: &Record) -> bool {
    match record.op.info().effect {
        Effect::Memory | Effect::Async | Effect::Sync => true,
        Effect::Pure | Effect::Control | Effect::Host => false,
    }
}
