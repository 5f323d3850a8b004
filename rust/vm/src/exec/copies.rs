//! Copies between GMEM and SMEM.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{Contents, RefVal};
use crate::observer::{At, Engine, Observer, Operation};
use crate::sync::BarrierKey;
use crate::sync::mbarrier::peers;
use crate::trap::Access;
use crate::units::{Load, Store, Transfer};
use pallas_rs_core::DType;
use pallas_rs_ir::options::AsyncCompletion;
use pallas_rs_ir::{Collective, OobMode, Partition, RmwKind, SliceDim, Start};
use smallvec::SmallVec;

impl<O: Observer> Ctx<'_, O> {
    /// Starts a TMA load, or a cp.async copy where there is no barrier. With `more` it is a part of
    /// the next one.
    pub(crate) fn copy_gmem_to_smem(
        &mut self,
        source: Operand,
        target: Operand,
        barrier: Option<Operand>,
        predicate: Option<&Operand>,
        oob: OobMode,
        collective: Option<&Collective>,
        more: bool,
    ) -> Result {
        self.drift()?;
        if !self.predicate(predicate) {
            return Ok(Flow::Next);
        }
        let dtype = source.dtype();
        let key = barrier.map(|b| self.barrier_key(b)).transpose()?;
        self.check_copy(source, target, oob)?;
        let share = match collective {
            Some(c) => self.share(c, source, target),
            None => Share::default(),
        };
        let spare = self.cluster.engines.spare.pop();
        let (from, to) = (share.part.as_ref().unwrap_or(self.view(source)), self.view(target));
        let transfer = Transfer::new(spare, from, to);
        let rest = (!from.is_full()).then(|| {
            let contents = match oob {
                OobMode::Zeros | OobMode::PromiseInBounds => Contents::Zero,
                OobMode::Undefined => self.call.unwritten,
            };
            Box::new((to.clone(), contents))
        });
        let at = self.at();
        let ticket = self.cluster.engines.ticket();
        let Share { peers, arrives, leader, .. } = share;
        let engine = if key.is_some() { Engine::TmaLoad } else { Engine::CpAsync };
        let mut load = Load {
            transfer,
            rest,
            data: None,
            claims: false,
            dtype,
            engine,
            barrier: key,
            arrives,
            peers,
            ordinal: 0,
            leader,
            at,
            ticket,
            parts: Vec::new(),
        };
        if let Some(key) = key.filter(|_| !more) {
            let index = key.index as usize;
            if !load.peers.is_empty() {
                load.ordinal = self.barriers(key).count_collective(index);
            }
            if load.arrives {
                self.expect(key)?;
            }
        }
        if O::WATCHES {
            self.issue_load(&load)?;
            if more && key.is_none() {
                self.worker.observer.on_more(at, Engine::CpAsync);
            }
        }
        if more {
            self.thread.queues.parts.push(load);
            return Ok(Flow::Next);
        }
        load.parts = std::mem::take(&mut self.thread.queues.parts);
        if key.is_none() {
            self.thread.queues.copies.push(load);
            self.thread.queues.copies.commit();
            if self.cluster.engines.completion == AsyncCompletion::Eager {
                return self.wait_gmem_to_smem(0);
            }
            return Ok(Flow::Next);
        }
        self.cluster.engines.loads.push_back(load);
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.complete_all()?;
        }
        Ok(Flow::Next)
    }

    /// Starts a TMA store or reduction.
    pub(crate) fn copy_smem_to_gmem(
        &mut self,
        source: Operand,
        target: Operand,
        predicate: Option<&Operand>,
        reduction: Option<RmwKind>,
        commit: bool,
    ) -> Result {
        self.drift()?;
        if self.predicate(predicate) {
            let dtype = source.dtype();
            let spare = self.cluster.engines.spare.pop();
            let (from, to) = (self.view(source), self.view(target));
            self.check_inside(from, Access::CopyInSmem)?;
            if to.escape.is_some_and(|e| e.start < 0) {
                return Err(self.out_of_bounds(to, Access::TmaStore));
            }
            if let Some(transfer) = Transfer::new(spare, from, to) {
                let ticket = self.cluster.engines.ticket();
                let store = Store { transfer, dtype, reduction, captured: None, ticket };
                if O::WATCHES {
                    self.issue_store(&store)?;
                }
                self.thread.queues.stores.push(store);
            }
        }
        if commit {
            self.thread.queues.stores.commit();
            if O::WATCHES {
                let at = self.at();
                self.worker.observer.on_commit_group(at);
            }
        }
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            while let Some(store) = self.thread.queues.stores.pop_any() {
                self.perform_store(store);
            }
        }
        Ok(Flow::Next)
    }

    fn check_copy(&self, source: Operand, target: Operand, oob: OobMode) -> Result<()> {
        self.check_inside(self.view(target), Access::CopyInSmem)?;
        let from = self.view(source);
        if oob == OobMode::PromiseInBounds && from.escape.is_some() {
            return Err(self.out_of_bounds(from, Access::TmaLoad));
        }
        Ok(())
    }

    /// This block's part in a collective load.
    fn share(&self, collective: &Collective, source: Operand, target: Operand) -> Share {
        let cluster = &self.call.code.program.cluster;
        let peers = peers(self.thread.block as usize, &collective.axes, cluster);
        let peers: Box<[u32]> = peers.as_slice().into();
        let rank =
            peers.iter().position(|&b| b == self.thread.block).expect("a block is its own peer");
        let (leads, leader) = (rank == 0, peers.first().copied());
        match collective.partition {
            Partition::Multicast => Share { part: None, peers, arrives: true, leader: None },
            Partition::Replicated => Share { part: None, peers, arrives: leads, leader },
            Partition::Partitioned(axis) => {
                let (from, to) = (self.view(source), self.view(target));
                let dims: SmallVec<[SliceDim; 4]> = from
                    .dims
                    .iter()
                    .zip(&to.dims)
                    .enumerate()
                    .map(|(d, (all, mine))| {
                        let (start, size) = if d == axis {
                            (rank as i64 * mine.size, mine.size)
                        } else {
                            (0, all.size)
                        };
                        SliceDim::Slice {
                            start: Start::Static(start),
                            size: size as usize,
                            stride: 1,
                        }
                    })
                    .collect();
                Share { part: Some(from.slice(&dims, [])), peers, arrives: leads, leader }
            }
        }
    }

    /// Announces an arrival by an engine. An observer is told of the operation afterwards: to make
    /// room, this may complete the phase before.
    pub(super) fn expect(&mut self, key: BarrierKey) -> Result<()> {
        let index = key.index as usize;
        let mut outcome = self.barriers(key).expect(index);
        if outcome.is_err()
            && self.cluster.engines.completion == AsyncCompletion::Random
            && self.land_one(key)?
        {
            outcome = self.barriers(key).expect(index);
        }
        outcome.map_err(|rule| self.broken(key, rule))
    }

    pub(super) fn issue_load(&mut self, load: &Load) -> Result<()> {
        let Some(transfer) = &load.transfer else { return Ok(()) };
        let mut barrier = load.barrier.filter(|_| load.arrives);
        let mut tracked = None;
        if let (Some(key), Some(block), false) = (load.barrier, load.leader, load.arrives) {
            // The leader may not have come to the phase to which the copy belongs.
            tracked = Some(load.ordinal / u64::from(self.barriers(key).needed(key.index as usize)));
            barrier = Some(BarrierKey { block, ..key });
        }
        let each_its_own = load.leader.is_none() && !load.claims;
        let multicast = if each_its_own { &load.peers[..] } else { &[] };
        self.issue_transfer(
            Issue {
                at: load.at,
                engine: load.engine,
                ticket: load.ticket,
                dtype: load.dtype,
                barrier,
                tracked,
                accumulates: load.data.is_some_and(|(_, reduction)| reduction.is_some()),
                multicast,
                reads_memory: load.data.is_none() && !load.claims,
            },
            transfer,
        )
    }

    pub(crate) fn issue_store(&mut self, store: &Store) -> Result<()> {
        let at = self.at();
        self.issue_transfer(
            Issue {
                at,
                engine: Engine::TmaStore,
                ticket: store.ticket,
                dtype: store.dtype,
                barrier: None,
                tracked: None,
                accumulates: store.reduction.is_some(),
                multicast: &[],
                reads_memory: true,
            },
            &store.transfer,
        )
    }

    fn issue_transfer(&mut self, issue: Issue<'_>, transfer: &Transfer) -> Result<()> {
        let Issue {
            at,
            engine,
            ticket,
            dtype,
            barrier,
            tracked,
            accumulates,
            multicast,
            reads_memory,
        } = issue;
        let shape: SmallVec<[usize; 4]> = transfer.shape.iter().map(|&n| n as usize).collect();
        let reads = [self.window(&transfer.from, &shape, dtype.size())];
        let writes = [self.window(&transfer.to, &shape, dtype.size())];
        let barrier = barrier.map(BarrierKey::id);
        let reads = if reads_memory { &reads[..] } else { &[] };
        let writes = &writes;
        let operation =
            Operation { engine, ticket, reads, writes, accumulates, barrier, tracked, multicast };
        self.worker.observer.on_issue(at, operation)
    }
}

/// An operation as it is told to the observer.
struct Issue<'a> {
    at: At,
    engine: Engine,
    ticket: u64,
    dtype: DType,
    barrier: Option<BarrierKey>,
    tracked: Option<u64>,
    accumulates: bool,
    multicast: &'a [u32],
    reads_memory: bool,
}

/// A block's part in a load.
#[derive(Debug)]
struct Share {
    /// The part of the source it receives, if not all.
    part: Option<RefVal>,
    /// The blocks that take part; empty if it is alone.
    peers: Box<[u32]>,
    /// Whether its own barrier is arrived on.
    arrives: bool,
    leader: Option<u32>,
}

impl Default for Share {
    fn default() -> Self {
        Share { part: None, peers: Box::default(), arrives: true, leader: None }
    }
}
