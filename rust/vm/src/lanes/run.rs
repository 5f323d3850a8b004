//! The loop that runs a body.

use super::code::{Arg, LaneCode, OpCode, Src, Step};
use super::memory::{Epoch, window};
use super::pure::{self, In, Position};
use super::{Mask, Register, lanes};
use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::RefVal;
use crate::observer::Observer;
use crate::trap::{Access, LaneFault, TrapKind, Waiting};
use pallas_rs_core as core;
use pallas_rs_ir::LaneOp;
use pallas_rs_ir::lane::{FenceKind, LaneEffect, LaneParam};
use smallvec::SmallVec;

/// Rounds of loops after which the machine thread is asked whether it may go on.
const ROUNDS: u32 = 64;

/// What a machine thread needs to go on in a body.
#[derive(Debug, Default)]
pub(crate) struct State {
    body: usize,
    /// Whether it is in the middle of one; otherwise only storage to be used again.
    running: bool,
    pc: usize,
    pub(super) active: Mask,
    saved: Vec<Mask>,
    pub(super) registers: Vec<Register>,
    pub(super) views: Vec<RefVal>,
    /// What the CUDA threads did since their last barrier.
    pub(super) epoch: Epoch,
    position: usize,
}

impl State {
    /// The elements of an operand.
    pub(super) fn read<'s>(&'s self, code: &'s LaneCode, arg: Arg) -> In<'s> {
        let data = match arg.src {
            Src::Splat(bits) => core::Operand::Splat(bits),
            Src::Table(table) => code.tables[self.position][table as usize].operand(),
            Src::Register(register) => core::Operand::Slice(&self.registers[register as usize]),
        };
        In { data, ty: arg.ty }
    }

    /// Takes a result's register out, to be written while others are read.
    pub(super) fn take(&mut self, arg: Arg) -> Register {
        std::mem::take(&mut self.registers[register(arg)])
    }

    pub(super) fn put(&mut self, arg: Arg, bytes: Register) {
        self.registers[register(arg)] = bytes;
    }

    /// The active lanes in which a condition holds.
    fn holding(&self, code: &LaneCode, condition: Arg, within: Mask) -> Mask {
        match self.read(code, condition).data {
            core::Operand::Splat(0) => 0,
            core::Operand::Splat(_) => within,
            core::Operand::Slice(x) => {
                let bits = x.iter().rev().fold(0, |mask, &b| mask << 1 | Mask::from(b));
                bits & within
            }
        }
    }

    fn copy(&mut self, code: &LaneCode, to: Arg, from: Arg, masked: bool) {
        let mut out = self.take(to);
        let source = self.read(code, from).dense(code.lanes);
        if !masked || self.active == code.all() {
            out.copy_from_slice(&source);
        } else {
            let bytes = to.stride();
            for lane in lanes(self.active) {
                let range = lane * bytes..(lane + 1) * bytes;
                out[range.clone()].copy_from_slice(&source[range]);
            }
        }
        self.put(to, out);
    }
}

fn register(arg: Arg) -> usize {
    let Src::Register(register) = arg.src else { unreachable!("results are in registers") };
    register as usize
}

/// The error of a fault.
#[cold]
pub(super) fn fault(fault: LaneFault) -> Box<crate::trap::Trap> {
    TrapKind::Lanes(fault).into()
}

impl<'m, O: Observer> Ctx<'m, O> {
    /// Runs a body, or goes on with the one that was stopped.
    pub(crate) fn inline_mgpu(&mut self, body: usize, ins: &[Operand], outs: &[Operand]) -> Result {
        let code: &'m LaneCode = &self.call.code.lanes[body];
        let mut state = self.thread.lanes.take().unwrap_or_default();
        if !state.running {
            self.start(code, body, ins, &mut state);
        }
        let flow = self.lane_steps(code, &mut state).and_then(|flow| {
            if flow == Flow::Next {
                self.flush(code, &mut state)?;
                self.lane_results(code, &state, outs)?;
                state.running = false;
            }
            Ok(flow)
        });
        let span = code.spans[state.pc.min(code.spans.len() - 1)];
        self.thread.lanes = Some(state);
        flow.map_err(|mut trap| {
            trap.locate(span, || self.who());
            trap
        })
    }

    fn start(&mut self, code: &LaneCode, body: usize, ins: &[Operand], state: &mut State) {
        let warps = self.thread.warp.map_or(0, usize::from);
        let per_thread = 128 / code.lanes;
        state.body = body;
        state.running = true;
        state.pc = 0;
        state.active = code.all();
        state.saved.clear();
        state.position = self.thread.index as usize * per_thread + warps.min(per_thread - 1);
        state.registers.resize_with(code.registers.len().max(state.registers.len()), Vec::new);
        for (register, &bytes) in state.registers.iter_mut().zip(&code.registers) {
            register.resize(bytes, 0);
        }
        state.views.clear();
        state.epoch.restart();
        let mut params = code.params.iter().copied();
        for (param, &operand) in code.body.params.iter().zip(ins) {
            match param {
                LaneParam::View(_) => state.views.push(self.view(operand).clone()),
                LaneParam::Array(array) => self.lane_array(array, operand, &mut params, state),
            }
        }
    }

    fn lane_steps(&mut self, code: &LaneCode, state: &mut State) -> Result {
        let mut rounds = 0;
        loop {
            match &code.steps[state.pc] {
                Step::Op { op } => {
                    if self.lane_op(code, state, &code.ops[*op as usize])? == Flow::Block {
                        return Ok(Flow::Block);
                    }
                }
                &Step::Move { to, from, masked } => state.copy(code, to, from, masked),
                Step::Push => state.saved.push(state.active),
                Step::Pop => state.active = state.saved.pop().expect("pushed before"),
                &Step::Where { condition, holds, otherwise } => {
                    let saved = *state.saved.last().expect("pushed before");
                    let held = state.holding(code, condition, saved);
                    state.active = if holds { held } else { saved & !held };
                    if state.active == 0 {
                        state.pc = otherwise as usize;
                        continue;
                    }
                }
                &Step::While { condition, exit } => {
                    state.active = state.holding(code, condition, state.active);
                    if state.active == 0 {
                        state.pc = exit as usize;
                        continue;
                    }
                }
                &Step::Before { counter, end, exit } => {
                    let mut below = vec![0; code.lanes];
                    let [i, n] = [counter, end].map(|arg| state.read(code, arg).data);
                    core::compare(core::CompareKind::Lt, counter.ty.dtype, i, n, &mut below);
                    let bits = below.iter().rev().fold(0, |mask, &b| mask << 1 | Mask::from(b));
                    state.active &= bits;
                    if state.active == 0 {
                        state.pc = exit as usize;
                        continue;
                    }
                }
                &Step::Count { counter, step } => {
                    let mut out = state.take(counter);
                    let dtype = counter.ty.dtype;
                    let step = state.read(code, step).data;
                    core::binary_in_place(core::BinaryKind::Add, dtype, &mut out, step);
                    state.put(counter, out);
                }
                &Step::Back { to } => {
                    state.pc = to as usize;
                    rounds += 1;
                    if rounds % ROUNDS == 0 {
                        self.count_rounds(ROUNDS)?;
                    }
                    continue;
                }
                Step::End => return Ok(Flow::Next),
            }
            state.pc += 1;
        }
    }

    fn lane_op(&mut self, code: &LaneCode, state: &mut State, op: &OpCode) -> Result {
        match op.op.info().effect {
            LaneEffect::Pure | LaneEffect::Address => self.lane_pure(code, state, op)?,
            LaneEffect::Position => {
                let bits = self.lane_position(&op.op);
                let mut out = state.take(op.outs[0]);
                core::fill(8, bits, &mut out);
                state.put(op.outs[0], out);
            }
            LaneEffect::Warp => self.lane_warp(code, state, op)?,
            LaneEffect::Memory => self.lane_memory(code, state, op)?,
            LaneEffect::Sync => return self.lane_sync(code, state, op),
            LaneEffect::Control => unreachable!("flattened"),
        }
        Ok(Flow::Next)
    }

    fn lane_pure(&mut self, code: &LaneCode, state: &mut State, op: &OpCode) -> Result<()> {
        let mut out = state.take(op.outs[0]);
        let ins: SmallVec<[In<'_>; 4]> = op.ins.iter().map(|&arg| state.read(code, arg)).collect();
        let at = self.lane_place(code);
        let done = pure::eval(&op.op, &ins, op.outs[0].ty, &at, state.active, &mut out);
        if !done {
            let LaneOp::Address { sizes, .. } = &op.op else { unreachable!("only addresses fail") };
            return Err(self.bad_index(code, state, sizes, &ins));
        }
        drop(ins);
        state.put(op.outs[0], out);
        Ok(())
    }

    #[cold]
    fn bad_index(
        &self,
        code: &LaneCode,
        state: &State,
        sizes: &[i64],
        ins: &[In<'_>],
    ) -> Box<crate::trap::Trap> {
        let (lane, index) = pure::escape(sizes, ins, state.active).expect("one is out of range");
        let (view, _) = pure::resolve(ins[0].element(lane));
        match state.views.get(view) {
            Some(view) => fault(LaneFault::Index {
                place: self.place(view),
                thread: self.lane_place(code).first + lane as u32,
                index,
                sizes: sizes.to_vec(),
            }),
            None => fault(LaneFault::NoView { thread: lane as u32 }),
        }
    }

    /// Where this machine thread is in its block.
    pub(super) fn lane_place(&self, code: &LaneCode) -> Position {
        let program = &self.call.code.program;
        let warp = self.thread.warp.map_or(0, u32::from);
        Position {
            first: self.thread.index * 128 + warp * 32,
            size: program.num_threads as u32 * 128,
            lanes: code.lanes,
        }
    }

    /// `block_index` and `grid_size` as CUDA counts: x is the last dimension of the grid, and the
    /// dimensions before the last two are one.
    fn lane_position(&self, op: &LaneOp) -> u64 {
        let cluster = &self.call.code.program.cluster;
        let rank = self.call.grid.len();
        let mut inside = vec![0; cluster.len()];
        let mut rest = self.thread.block as usize;
        for (x, &n) in inside.iter_mut().zip(cluster).rev() {
            *x = rest as u64 % n as u64;
            rest /= n;
        }
        // A dimension of the cluster scales the grid's dimension that it is aligned with at the end.
        let of_cluster = |dim: usize, list: &[u64], missing: u64| {
            (dim + list.len()).checked_sub(rank).map_or(missing, |d| list[d])
        };
        let sizes: Vec<u64> = cluster.iter().map(|&n| n as u64).collect();
        let size = |dim: usize| self.call.grid[dim] * of_cluster(dim, &sizes, 1);
        let index = |dim: usize| {
            self.cluster.point[dim] * of_cluster(dim, &sizes, 1) + of_cluster(dim, &inside, 0)
        };
        let axis = match op {
            LaneOp::BlockIndex { axis } | LaneOp::GridSize { axis } => *axis,
            _ => unreachable!("not a position"),
        };
        let dims: Vec<usize> = match axis {
            0 | 1 => rank.checked_sub(axis + 1).into_iter().collect(),
            _ => (0..rank.saturating_sub(2)).collect(),
        };
        let wants_size = matches!(op, LaneOp::GridSize { .. });
        if wants_size {
            dims.into_iter().map(size).product()
        } else {
            dims.into_iter().fold(0, |at, dim| at * size(dim) + index(dim))
        }
    }

    fn lane_sync(&mut self, code: &LaneCode, state: &mut State, op: &OpCode) -> Result {
        if state.active == 0 {
            return Ok(Flow::Next);
        }
        self.flush(code, state)?;
        match &op.op {
            LaneOp::Barrier { arrive, count } => {
                let threads = whole_warps(code, state, "bar")?;
                let ids = state.read(code, op.ins[0]);
                let mut ids = lanes(state.active).map(|lane| ids.element(lane));
                let id = ids.next().expect("some lane is active") as i64;
                if ids.any(|other| other as i64 != id) {
                    return Err(fault(LaneFault::BarriersDiffer));
                }
                let block = self.call.code.program.num_threads as u32 * 128;
                let count = i64::from(count.unwrap_or(block));
                if *arrive {
                    self.arrive_named(id, count, threads, false)?;
                } else if self.sync_named(id, count, threads)? == Flow::Block {
                    return Ok(Flow::Block);
                } else if state.active == code.all() {
                    state.epoch.restart();
                }
                Ok(Flow::Next)
            }
            LaneOp::Fence { kind } => {
                match kind {
                    FenceKind::AsyncProxy | FenceKind::AsyncProxyRelease => {
                        self.commit_smem()?;
                    }
                    FenceKind::Warp => {
                        whole_warps(code, state, "bar.warp.sync")?;
                        state.epoch.warps_met(state.active);
                    }
                    FenceKind::TmemLoads => {
                        self.wait_load_tmem()?;
                    }
                    FenceKind::TmemStores => {
                        self.commit_tmem()?;
                    }
                    FenceKind::AsyncProxyAcquire
                    | FenceKind::TensorCoreBefore
                    | FenceKind::TensorCoreAfter
                    | FenceKind::Generic => {}
                }
                Ok(Flow::Next)
            }
            &LaneOp::WaitCopies { n, read_only } => self.wait_smem_to_gmem(n, read_only),
            LaneOp::Copy { source, target, shape, strides } => {
                let lane = state.active.trailing_zeros() as usize;
                let byte = |i: usize| pure::resolve(state.read(code, op.ins[i]).element(lane)).1;
                let place = |view: usize, byte: i64, strides: Option<&[i64]>| {
                    let map = &code.views[view];
                    let own = map.inner_strides(shape.len());
                    let first = map.number_at(byte)?;
                    Some(window(&state.views[view], map, first, strides.unwrap_or(&own), shape))
                };
                let outside = |view: usize, byte: i64| {
                    fault(LaneFault::Outside {
                        access: Access::CopyInSmem,
                        place: self.place(&state.views[view]),
                        thread: self.lane_place(code).first + lane as u32,
                        byte,
                        bytes: 1,
                    })
                };
                let from =
                    place(*source, byte(0), None).ok_or_else(|| outside(*source, byte(0)))?;
                let to = place(*target, byte(1), Some(strides))
                    .ok_or_else(|| outside(*target, byte(1)))?;
                self.issue_copy(&from, &to, code.views[*source].dtype)
            }
            _ => unreachable!("not a sync op"),
        }
    }

    /// What a body that blocked waits for.
    pub(crate) fn lane_waiting(&self) -> Option<Waiting> {
        let state = self.thread.lanes.as_ref()?;
        let code = &self.call.code.lanes[state.body];
        let Step::Op { op } = code.steps[state.pc] else { return None };
        let ids = state.read(code, *code.ops[op as usize].ins.first()?);
        let id = ids.element(state.active.trailing_zeros() as usize) as i64;
        self.waiting_at_named(id).ok()
    }
}

/// CUDA threads that are active: whole warps, or it is an error.
pub(super) fn whole_warps(code: &LaneCode, state: &State, what: &str) -> Result<u32> {
    let mut active = state.active;
    while active != 0 {
        let warp = active as u32;
        if warp != 0 && warp != u32::MAX {
            return Err(fault(LaneFault::Diverged {
                what: what.to_owned(),
                active: state.active.count_ones(),
                of: code.lanes as u32,
            }));
        }
        active >>= super::WARP;
    }
    Ok(state.active.count_ones())
}
