//! Work stealing: a cluster that runs asks for one that has not been launched.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::RefVal;
use crate::observer::{AccessKind, Engine, Observer, Proxy};
use crate::sync::BarrierKey;
use crate::trap::Access;
use crate::units::{Load, Transfer};
use pallas_rs_ir::options::AsyncCompletion;

/// Bytes of an answer: the cluster's row-major number, and in the last byte whether there is one.
const BYTES: usize = 16;

/// What the first block of a group was told, until every block has it.
#[derive(Debug)]
pub(crate) struct Answer {
    alloc: u32,
    index: u32,
    ordinal: u64,
    bytes: [u8; BYTES],
    /// Blocks that have not got it.
    waiting: usize,
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn try_cluster_cancel(
        &mut self,
        threads: bool,
        result: Operand,
        barrier: Operand,
    ) -> Result {
        self.drift()?;
        let key = self.own_barrier(barrier)?;
        if threads && self.thread.index > 0 {
            let at = self.at();
            self.arrive(key, at)?;
            return Ok(Flow::Next);
        }
        self.check_inside(self.view(result), Access::CopyInSmem)?;
        // An answer goes to all blocks of the cluster, whoever of them asks. They ask together even
        // where a kernel does not say so: of two answers in one place one would be lost, and with
        // it the cluster it claimed.
        let blocks = self.cluster.blocks.len();
        let to = self.view(result).clone();
        let from =
            RefVal::whole(to.base, &to.dims.iter().map(|d| d.size as usize).collect::<Vec<_>>());
        let spare = self.cluster.engines.spare.pop();
        let load = Load {
            transfer: Transfer::new(spare, &from, &to),
            rest: None,
            data: None,
            claims: true,
            dtype: result.dtype(),
            engine: Engine::TmaLoad,
            barrier: Some(key),
            arrives: true,
            leader: None,
            // It can land as soon as the first block has asked.
            peers: Box::new([0]),
            ordinal: self.barriers(key).count_collective(key.index as usize),
            at: self.at(),
            ticket: self.cluster.engines.ticket(),
            parts: Vec::new(),
        };
        if self.thread.block == 0 {
            self.ask(key, load.ordinal, blocks);
        }
        self.expect(key)?;
        if O::WATCHES {
            self.issue_load(&load)?;
        }
        self.cluster.engines.loads.push_back(load);
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.complete_all()?;
        }
        Ok(Flow::Next)
    }

    fn ask(&mut self, key: BarrierKey, ordinal: u64, waiting: usize) {
        let mut bytes = [0; BYTES];
        if let Some(claimed) = self.worker.unlaunched.claim(self.cluster.index) {
            bytes[..8].copy_from_slice(&claimed.to_le_bytes());
            bytes[BYTES - 1] = 1;
        }
        let answer = Answer { alloc: key.alloc, index: key.index, ordinal, bytes, waiting };
        self.cluster.engines.answers.push(answer);
    }

    /// Gives a request that lands its answer.
    pub(super) fn answer(&mut self, load: &mut Load) {
        let Some(key) = load.barrier.filter(|_| load.claims) else { return };
        let asked = (key.alloc, key.index, load.ordinal);
        let answers = &mut self.cluster.engines.answers;
        let at = answers.iter().position(|a| (a.alloc, a.index, a.ordinal) == asked);
        let at = at.expect("it lands after the first block has asked");
        let bytes = answers[at].bytes;
        answers[at].waiting -= 1;
        if answers[at].waiting == 0 {
            answers.swap_remove(at);
        }
        let (id, mut buffer) = self.new_tile(BYTES);
        buffer.bytes_mut(BYTES).copy_from_slice(&bytes);
        self.worker.pool.put(id, buffer);
        load.data = Some((id, None));
    }

    pub(super) fn query_cluster_cancel(
        &mut self,
        axes: &[usize],
        result: Operand,
        outs: &[Operand],
    ) -> Result {
        self.check_inside(self.view(result), Access::Read)?;
        let view = self.view(result).clone();
        let dtype = result.dtype();
        self.observe(&view, dtype.size(), AccessKind::Read, Proxy::Generic)?;
        let mut bytes = [0; BYTES];
        self.read(&view, dtype, self.call.unwritten, &mut bytes);
        let (number, flag) = bytes.split_at(8);
        let cluster = u64::from_le_bytes(number.try_into().expect("eight bytes"));
        let claimed = flag[flag.len() - 1] == 1;
        // What a refusal says about the index may not be relied on.
        let point = crate::grid::unravel(if claimed { cluster } else { 0 }, &self.call.grid);
        for (&axis, &out) in axes.iter().zip(outs) {
            self.set_scalar(out, point[axis] & 0xffff_ffff);
        }
        self.set_scalar(outs[axes.len()], u64::from(claimed));
        Ok(Flow::Next)
    }
}
