//! Tensor memory: loads and stores of threads, and what they give to the tensor cores.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{Base, RefVal};
use crate::observer::{Engine, Observer, Operation, Window};
use crate::sync::BarrierKey;
use crate::trap::{Access, TrapKind};
use crate::units::tcgen05::{PerBlock, Work};
use crate::units::wgmma::Matrix;
use crate::units::{TensorOp, TmemProduct, TmemStore, Transfer};
use pallas_rs_core::DType;
use pallas_rs_ir::TmemFormat;
use pallas_rs_ir::options::AsyncCompletion;
use smallvec::{SmallVec, smallvec};

/// Operands of `tcgen05_mma` behind the three matrices.
pub(super) struct MmaExtras<'a> {
    pub(super) accumulate: Operand,
    pub(super) scales: Option<[Operand; 2]>,
    pub(super) metadata: Option<&'a Operand>,
}

impl<O: Observer> Ctx<'_, O> {
    /// Reads tensor memory. The value is there at once; the hardware may still be reading.
    pub(super) fn async_load_tmem(&mut self, source: Operand, result: Operand) -> Result {
        self.drift()?;
        self.check_inside(self.view(source), Access::Read)?;
        let dtype = source.dtype();
        if O::WATCHES {
            let view = self.view(source).clone();
            self.issue_view(Engine::TmemLoad, &view, dtype)?;
        }
        let missing = self.call.unwritten;
        self.produce(result, |c, out| c.read(c.view(source), dtype, missing, out));
        Ok(Flow::Next)
    }

    /// Waits for this thread's loads from tensor memory.
    pub(crate) fn wait_load_tmem(&mut self) -> Result {
        self.drift()?;
        Ok(self.waited(Engine::TmemLoad, 0, false))
    }

    /// Starts a write to tensor memory.
    pub(super) fn async_store_tmem(&mut self, target: Operand, x: Operand) -> Result {
        self.drift()?;
        self.check_inside(self.view(target), Access::Write)?;
        let (view, dtype) = (self.view(target).clone(), target.dtype());
        if O::WATCHES {
            self.issue_view(Engine::TmemStore, &view, dtype)?;
        }
        let tile = self.with_dense(x, |c, bytes| {
            let (id, mut buffer) = c.new_tile(bytes.len());
            buffer.bytes_mut(bytes.len()).copy_from_slice(bytes);
            c.worker.pool.put(id, buffer);
            id
        });
        self.thread.queues.tmem_stores.push(TmemStore { view, dtype, tile });
        self.thread.queues.tmem_stores.commit();
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.finish_tmem_stores();
        }
        Ok(Flow::Next)
    }

    /// Waits for this thread's writes to tensor memory.
    pub(crate) fn commit_tmem(&mut self) -> Result {
        self.drift()?;
        self.finish_tmem_stores();
        Ok(self.waited(Engine::TmemStore, 0, false))
    }

    fn finish_tmem_stores(&mut self) {
        while let Some(store) = self.thread.queues.tmem_stores.pop_any() {
            self.perform_tmem_store(store);
        }
    }

    /// Starts a copy from SMEM to tensor memory.
    pub(super) fn async_copy_smem_to_tmem(
        &mut self,
        source: Operand,
        target: Operand,
        format: TmemFormat,
        pair: bool,
    ) -> Result {
        self.drift()?;
        let Some(blocks) = self.taking_part(pair) else { return Ok(Flow::Next) };
        let dtype = source.dtype();
        self.check_inside(self.view(source), Access::TensorCore)?;
        self.check_inside(self.view(target), Access::TensorCore)?;
        let (from, to) = arranged(self.view(source), self.view(target), format)
            .ok_or_else(|| unsupported("a copy to tensor memory that is no strided view"))?;
        let mut transfers = PerBlock::new();
        for &block in &blocks {
            let (Some(from), Some(to)) = (self.beside(&from, block)?, self.beside(&to, block)?)
            else {
                return Ok(Flow::Block);
            };
            transfers.extend(Transfer::new(self.cluster.engines.spare.pop(), &from, &to));
        }
        self.issue_tensor(Work::Copy { transfers, dtype })
    }

    /// Starts a product into tensor memory.
    pub(super) fn tcgen05_mma(
        &mut self,
        [acc, a, b]: [Operand; 3],
        extras: &MmaExtras<'_>,
        pair: bool,
    ) -> Result {
        self.drift()?;
        let Some(blocks) = self.taking_part(pair) else { return Ok(Flow::Next) };
        let operands = [Some(acc), Some(a), Some(b)]
            .into_iter()
            .chain(extras.scales.map_or([None; 2], |scales| scales.map(Some)))
            .chain([extras.metadata.copied()]);
        let mut matrices: SmallVec<[PerBlock<Matrix>; 6]> = SmallVec::new();
        for operand in operands {
            let mut parts = PerBlock::new();
            if let Some(operand) = operand {
                for &block in &blocks {
                    let Some(view) = self.beside(self.view(operand), block)? else {
                        return Ok(Flow::Block);
                    };
                    parts.push(self.matrix(&view, operand.dtype())?);
                }
            }
            matrices.push(parts);
        }
        let mut matrices = matrices.into_iter();
        let mut next = || matrices.next().expect("there are six");
        let (acc, a, b) = (next(), next(), next());
        if !acc.iter().all(Matrix::has_dense_rows) {
            return Err(unsupported("an accumulator in tensor memory that is not row-major"));
        }
        let scales: PerBlock<[Matrix; 2]> =
            next().into_iter().zip(next()).map(|(a, b)| [a, b]).collect();
        let (scales, metadata) = (Some(scales), Some(next()));
        self.issue_tensor(Work::Product(Box::new(TmemProduct {
            acc,
            a,
            b,
            scales: scales.filter(|s| !s.is_empty()),
            metadata: metadata.filter(|m| !m.is_empty()),
            accumulate: self.scalar(extras.accumulate) != 0,
        })))
    }

    /// One arrival once everything this thread has given to the tensor cores is complete.
    pub(super) fn tcgen05_commit_arrive(
        &mut self,
        barrier: Operand,
        predicate: Option<&Operand>,
        pair: bool,
    ) -> Result {
        self.drift()?;
        let Some(blocks) = self.taking_part(pair).filter(|_| self.predicate(predicate)) else {
            return Ok(Flow::Next);
        };
        let key = self.barrier_key(barrier)?;
        let keys: PerBlock<BarrierKey> = if pair {
            blocks.iter().map(|&block| BarrierKey { block, ..key }).collect()
        } else {
            smallvec![key]
        };
        for &key in &keys {
            if !self.peer_has_barrier(key)? {
                return Ok(Flow::Block);
            }
        }
        let mut arrivals = PerBlock::new();
        for key in keys {
            let ticket = self.cluster.engines.ticket();
            self.expect(key)?;
            if O::WATCHES {
                let at = self.at();
                let operation = Operation {
                    engine: Engine::Commit,
                    ticket,
                    reads: &[],
                    writes: &[],
                    accumulates: false,
                    barrier: Some(key.id()),
                    multicast: &[],
                    tracked: None,
                };
                self.worker.observer.on_issue(at, operation)?;
            }
            arrivals.push((key, ticket));
        }
        self.issue_tensor(Work::Commit(arrivals))
    }

    /// The blocks for which this one issues something: itself; with `pair` both of its pair if it is
    /// the first, and none if it is the second.
    fn taking_part(&self, pair: bool) -> Option<PerBlock<u32>> {
        let here = self.thread.block;
        match (pair, here % 2) {
            (false, _) => Some(smallvec![here]),
            (true, 0) => Some(smallvec![here, here + 1]),
            (true, _) => None,
        }
    }

    /// The view that another block has of its own memory; `None` if it has not allocated it yet.
    fn beside(&self, view: &RefVal, block: u32) -> Result<Option<RefVal>> {
        let Base::Block { block: here, index } = view.base else {
            unreachable!("the verifier saw memory of a block")
        };
        let buffers = |block: u32| &self.cluster.blocks[block as usize].buffers;
        let mine = buffers(here)[index as usize].expect("a ref does not outlive its scope");
        match buffers(block).get(index as usize) {
            None => Ok(None),
            Some(Some(entry)) if entry.alloc == mine.alloc => {
                Ok(Some(RefVal { base: Base::Block { block, index }, ..view.clone() }))
            }
            Some(_) => Err(unsupported(
                "a tensor core operation on two blocks of which one is not in the scope of its operands",
            )),
        }
    }

    fn issue_tensor(&mut self, work: Work) -> Result {
        let (at, ticket) = (self.at(), self.cluster.engines.ticket());
        if O::WATCHES {
            self.watch_tensor(&work, ticket)?;
        }
        self.cluster.engines.tensor.push_back(TensorOp { at, ticket, work });
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.perform_tensor_until(at.thread, ticket)?;
        }
        Ok(Flow::Next)
    }

    fn watch_tensor(&mut self, work: &Work, ticket: u64) -> Result<()> {
        let at = self.at();
        let mut shapes = PerBlock::<SmallVec<[usize; 4]>>::new();
        let mut reads = SmallVec::<[Window<'_>; 8]>::new();
        let mut writes = PerBlock::<Window<'_>>::new();
        match work {
            Work::Commit(_) => return Ok(()),
            Work::Product(product) => {
                reads.extend(product.operands().map(|m| m.window(self.base_id(m.base))));
                writes.extend(product.acc.iter().map(|m| m.window(self.base_id(m.base))));
            }
            Work::Copy { transfers, dtype } => {
                for t in transfers {
                    shapes.push(t.shape.iter().map(|&n| n as usize).collect());
                }
                for (t, shape) in transfers.iter().zip(&shapes) {
                    reads.push(self.window(&t.from, shape, dtype.size()));
                    writes.push(self.window(&t.to, shape, dtype.size()));
                }
            }
        }
        let product = matches!(work, Work::Product(_));
        let operation = Operation {
            engine: if product { Engine::Tcgen05 } else { Engine::TmemCopy },
            ticket,
            reads: &reads,
            writes: &writes,
            accumulates: product,
            barrier: None,
            multicast: &[],
            tracked: None,
        };
        self.worker.observer.on_issue(at, operation)
    }

    /// Tells the observer of a load or store of tensor memory.
    fn issue_view(&mut self, engine: Engine, view: &RefVal, dtype: DType) -> Result<()> {
        let sizes: SmallVec<[usize; 4]> = view.dims.iter().map(|d| d.size as usize).collect();
        let strides: SmallVec<[i64; 4]> = view.dims.iter().map(|d| d.stride).collect();
        let (base, block) = self.base_id(view.base);
        let (offset, elem_size) = (view.offset, dtype.size());
        let window = [Window { base, block, offset, sizes: &sizes, strides: &strides, elem_size }];
        let (reads, writes) = if engine == Engine::TmemLoad {
            (&window[..], &[][..])
        } else {
            (&[][..], &window[..])
        };
        let ticket = self.cluster.engines.ticket();
        let operation = Operation {
            engine,
            ticket,
            reads,
            writes,
            accumulates: false,
            barrier: None,
            multicast: &[],
            tracked: None,
        };
        let at = self.at();
        self.worker.observer.on_issue(at, operation)
    }
}

#[cold]
fn unsupported(what: &str) -> Box<crate::trap::Trap> {
    TrapKind::Unsupported { what: what.to_owned() }.into()
}

/// Source and target of a copy as views of one shape, whose elements correspond.
fn arranged(source: &RefVal, target: &RefVal, format: TmemFormat) -> Option<(RefVal, RefVal)> {
    let size = |view: &RefVal, d: usize| view.dims[d].size as usize;
    let (rows, columns) = (size(source, 0), size(source, 1));
    let (from, to, order): (&[usize], &[usize], &[usize]) = match format {
        TmemFormat::Plain => return Some((source.clone(), target.clone())),
        TmemFormat::Scales => {
            (&[rows, columns, 32, 4, 4], &[rows, 4, 32, columns, 4], &[0, 3, 2, 1, 4])
        }
        TmemFormat::PairScales => {
            (&[columns, 2, 32, 4, 4], &[2, 4, 32, columns, 4], &[3, 0, 2, 1, 4])
        }
        TmemFormat::Metadata => {
            (&[rows, columns, 128, 64], &[rows, 128, columns, 64], &[0, 2, 1, 3])
        }
    };
    Some((source.reshape(from).ok()?, target.reshape(to).ok()?.transpose(order)))
}
