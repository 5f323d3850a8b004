//! Ops of a warp: exchanges, votes, reductions, elections, matrices.

use super::code::{Arg, LaneCode, OpCode};
use super::pure::{In, each};
use super::run::{State, whole_warps};
use super::{Mask, WARP, lanes};
use crate::machine::{Ctx, Result};
use crate::observer::Observer;
use pallas_rs_core::{self as core, BinaryKind, ReduceKind};
use pallas_rs_ir::LaneOp;
use pallas_rs_ir::lane::{ExchangeKind, VoteKind};

/// Bytes of a row of an 8×8 matrix.
const ROW: usize = 16;

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn lane_warp(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        op: &OpCode,
    ) -> Result<()> {
        let name = op.op.info().mnemonic;
        match &op.op {
            LaneOp::Elect {} => {
                let mut out = state.take(op.outs[0]);
                out.fill(0);
                for warp in 0..code.lanes / WARP {
                    let first = (state.active >> (warp * WARP)) as u32;
                    if first != 0 {
                        out[warp * WARP + first.trailing_zeros() as usize] = 1;
                    }
                }
                state.put(op.outs[0], out);
                return Ok(());
            }
            LaneOp::LoadMatrix { transposed } => {
                whole_warps(code, state, name)?;
                return self.load_matrix(code, state, op, *transposed);
            }
            LaneOp::StoreMatrix { transposed } => {
                whole_warps(code, state, name)?;
                return self.store_matrix(code, state, op, *transposed);
            }
            _ => {}
        }
        whole_warps(code, state, name)?;
        let mut out = state.take(op.outs[0]);
        let ins: Vec<In<'_>> = op.ins.iter().map(|&arg| state.read(code, arg)).collect();
        match &op.op {
            LaneOp::Exchange { kind } => exchange(*kind, &ins, op.outs[0], &mut out),
            LaneOp::Vote { kind } => vote(*kind, ins[0], state.active, op.outs[0], &mut out),
            LaneOp::WarpReduce { kind } => reduce(*kind, ins[0], op.outs[0], &mut out),
            _ => unreachable!("not a warp op"),
        }
        drop(ins);
        state.put(op.outs[0], out);
        Ok(())
    }

    /// Thread `t` gets elements `2 (t % 4)` and the next of row `t / 4`; transposed, of that column.
    fn load_matrix(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        op: &OpCode,
        transposed: bool,
    ) -> Result<()> {
        let mut rows = vec![0; ROW * code.lanes];
        for (k, &out) in op.outs.iter().enumerate() {
            let senders = senders(state.active, k);
            self.read_lanes(code, state, op.ins[0], (ROW, ROW as u32), senders, &mut rows)?;
            let mut words = state.take(out);
            for lane in lanes(state.active) {
                let half = |i: usize| {
                    let at = element(lane, i, k, transposed);
                    [rows[at], rows[at + 1]]
                };
                let [[a, b], [c, d]] = [half(0), half(1)];
                words[4 * lane..4 * lane + 4].copy_from_slice(&[a, b, c, d]);
            }
            state.put(out, words);
        }
        Ok(())
    }

    fn store_matrix(
        &mut self,
        code: &LaneCode,
        state: &mut State,
        op: &OpCode,
        transposed: bool,
    ) -> Result<()> {
        let mut rows = vec![0; ROW * code.lanes];
        for (k, &word) in op.ins[1..].iter().enumerate() {
            let word = state.read(code, word);
            for lane in lanes(state.active) {
                let bytes = (word.element(lane) as u32).to_le_bytes();
                for i in 0..2 {
                    let at = element(lane, i, k, transposed);
                    rows[at..at + 2].copy_from_slice(&bytes[2 * i..2 * i + 2]);
                }
            }
            let senders = senders(state.active, k);
            self.write_lanes(code, state, op.ins[0], (ROW, ROW as u32), senders, &rows)?;
        }
        Ok(())
    }
}

/// The threads that address the rows of matrix `k`: eight of each warp.
fn senders(active: Mask, k: usize) -> Mask {
    let mut rows = 0;
    for warp in 0..Mask::BITS as usize / WARP {
        rows |= 0xff << (warp * WARP + 8 * k);
    }
    active & rows
}

/// Byte, among the rows that threads address, of half `i` of a thread's word of matrix `k`.
fn element(lane: usize, i: usize, k: usize, transposed: bool) -> usize {
    let (warp, lane) = (lane / WARP * WARP, lane % WARP);
    let (r, c) = (lane / 4, lane % 4 * 2 + i);
    let (r, c) = if transposed { (c, r) } else { (r, c) };
    (warp + 8 * k + r) * ROW + 2 * c
}

/// PTX `shfl.sync`: the clamp's upper half says which bits of the lane stay within a segment.
fn exchange(kind: ExchangeKind, ins: &[In<'_>], result: Arg, out: &mut [u8]) {
    let len = result.ty.len as usize;
    each(result.ty.dtype, out, |i| {
        let (t, v) = (i / len, i % len);
        let lane = (t % WARP) as i64;
        let [offset, clamp] = [1, 2].map(|k| ins[k].element(t) as i64);
        let (offset, segment) = (offset & 31, clamp >> 8 & 31);
        let low = lane & segment;
        let high = low | (clamp & 31 & !segment);
        let from = match kind {
            ExchangeKind::Butterfly => lane ^ offset,
            ExchangeKind::Index => low | (offset & !segment & 31),
            ExchangeKind::Up => lane - offset,
            ExchangeKind::Down => lane + offset,
        };
        let inside = if kind == ExchangeKind::Up { from >= high } else { from <= high };
        let from = if inside { from } else { lane };
        ins[0].element((t / WARP * WARP + from as usize) * len + v)
    });
}

fn vote(kind: VoteKind, x: In<'_>, active: Mask, result: Arg, out: &mut [u8]) {
    each(result.ty.dtype, out, |t| {
        let first = t / WARP * WARP;
        let active = (active >> first) as u32;
        let yes = (0..WARP).fold(0u32, |yes, i| yes | (x.element(first + i) as u32 & 1) << i);
        let yes = yes & active;
        match kind {
            VoteKind::Any => u64::from(yes != 0),
            VoteKind::All => u64::from(yes == active),
            VoteKind::Uniform => u64::from(yes == active || yes == 0),
            VoteKind::Ballot => yes.into(),
        }
    });
}

fn reduce(kind: ReduceKind, x: In<'_>, result: Arg, out: &mut [u8]) {
    let binary = match kind {
        ReduceKind::Sum => BinaryKind::Add,
        ReduceKind::Max => BinaryKind::Max,
        ReduceKind::Min => BinaryKind::Min,
        ReduceKind::And => BinaryKind::And,
        ReduceKind::Or => BinaryKind::Or,
        ReduceKind::Xor => BinaryKind::Xor,
        ReduceKind::Prod | ReduceKind::ArgMax | ReduceKind::ArgMin => {
            unreachable!("the verifier saw another")
        }
    };
    let dtype = result.ty.dtype;
    let lanes = out.len() / dtype.size();
    let totals: Vec<u64> = (0..lanes / WARP)
        .map(|warp| {
            let of = |i: usize| x.element(warp * WARP + i);
            (1..WARP).fold(of(0), |sum, i| core::binary_scalar(binary, dtype, sum, of(i)))
        })
        .collect();
    each(dtype, out, |t| totals[t / WARP]);
}
