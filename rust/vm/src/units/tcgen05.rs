//! Tensor cores that work on tensor memory: products, the copies that feed them, and commits.
//!
//! What one thread issues is carried out in the order of its issue (PTX ISA, tcgen05 pipelined
//! instructions), and so is what several threads issue on the same tensor memory: a thread may go on
//! with an accumulator that it has been handed without waiting for the products into it.

use super::Transfer;
use super::wgmma::Matrix;
use crate::machine::{Ctx, Result};
use crate::memory::{Base, RefVal, TileId};
use crate::observer::{At, Engine, Observer, ThreadId};
use crate::sync::BarrierKey;
use pallas_rs_core::{self as core, DType, MatRef, MatmulOpts};
use smallvec::SmallVec;

/// One for each block that takes part: a block alone, or both of a pair.
pub(crate) type PerBlock<T> = SmallVec<[T; 2]>;

/// Something issued to the tensor cores.
#[derive(Debug)]
pub(crate) struct TensorOp {
    /// Who issued it, and where.
    pub(crate) at: At,
    pub(crate) ticket: u64,
    pub(crate) work: Work,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum Work {
    /// A copy from SMEM.
    Copy { transfers: PerBlock<Box<Transfer>>, dtype: DType },
    /// A product.
    Product(Box<TmemProduct>),
    /// An arrival for everything before it; each has a ticket of its own.
    Commit(PerBlock<(BarrierKey, u64)>),
}

/// `acc (+)= a @ b`.
#[derive(Debug)]
pub(crate) struct TmemProduct {
    pub(crate) acc: PerBlock<Matrix>,
    pub(crate) a: PerBlock<Matrix>,
    /// Parts of the columns, which every block multiplies by.
    pub(crate) b: PerBlock<Matrix>,
    pub(crate) scales: Option<PerBlock<[Matrix; 2]>>,
    pub(crate) metadata: Option<PerBlock<Matrix>>,
    pub(crate) accumulate: bool,
}

/// A write of a thread to tensor memory.
#[derive(Debug)]
pub(crate) struct TmemStore {
    pub(crate) view: RefVal,
    pub(crate) dtype: DType,
    /// What it writes, dense; it is its owner.
    pub(crate) tile: TileId,
}

impl TmemProduct {
    /// The matrices that it reads; the accumulators are not among them.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &Matrix> {
        let scales = self.scales.iter().flatten().flatten();
        (self.a.iter()).chain(&self.b).chain(scales).chain(self.metadata.iter().flatten())
    }
}

impl TensorOp {
    /// Whether it reads or writes an allocation, or arrives on its barriers.
    fn touches(&self, base: Base) -> bool {
        match &self.work {
            Work::Copy { transfers, .. } => {
                transfers.iter().any(|t| t.from.base == base || t.to.base == base)
            }
            Work::Product(p) => p.operands().chain(&p.acc).any(|m| m.base == base),
            Work::Commit(barriers) => barriers
                .iter()
                .any(|(key, _)| base == Base::Barrier { block: key.block, index: key.alloc }),
        }
    }

    /// The allocations of tensor memory that it writes.
    fn written(&self) -> PerBlock<Base> {
        match &self.work {
            Work::Copy { transfers, .. } => transfers.iter().map(|t| t.to.base).collect(),
            Work::Product(product) => product.acc.iter().map(|m| m.base).collect(),
            Work::Commit(_) => PerBlock::new(),
        }
    }

    fn arrives_on(&self, key: BarrierKey) -> bool {
        match &self.work {
            Work::Commit(barriers) => barriers.iter().any(|(k, _)| *k == key),
            Work::Copy { .. } | Work::Product(_) => false,
        }
    }
}

impl<O: Observer> Ctx<'_, O> {
    /// Carries out the oldest commit that arrives on a barrier, and what it waits for. Whether there
    /// was one.
    pub(crate) fn commit_for(&mut self, key: BarrierKey) -> Result<bool> {
        let found = self.cluster.engines.tensor.iter().find(|op| op.arrives_on(key));
        let Some((issuer, ticket)) = found.map(|op| (op.at.thread, op.ticket)) else {
            return Ok(false);
        };
        self.perform_tensor_until(issuer, ticket)?;
        Ok(true)
    }

    /// Carries out what a thread has issued, up to a ticket.
    pub(crate) fn perform_tensor_until(&mut self, issuer: ThreadId, last: u64) -> Result<()> {
        let due = |op: &TensorOp| op.at.thread == issuer && op.ticket <= last;
        while let Some(i) = self.cluster.engines.tensor.iter().position(due) {
            let op = self.cluster.engines.tensor.remove(i).expect("it is in flight");
            self.perform_earlier(&op)?;
            self.perform_tensor(op)?;
        }
        Ok(())
    }

    /// Carries out what other threads have issued before an operation on memory that it uses.
    fn perform_earlier(&mut self, op: &TensorOp) -> Result<()> {
        loop {
            let earlier = self.cluster.engines.tensor.iter().find(|other| {
                other.ticket < op.ticket && other.written().iter().any(|&base| op.touches(base))
            });
            let Some((issuer, ticket)) = earlier.map(|other| (other.at.thread, other.ticket))
            else {
                return Ok(());
            };
            self.perform_tensor_until(issuer, ticket)?;
        }
    }

    /// Carries out whatever touches an allocation that is about to go, and what comes before it.
    pub(crate) fn finish_tensor(&mut self, base: Base) -> Result<()> {
        while let Some(op) = self.cluster.engines.tensor.iter().find(|op| op.touches(base)) {
            self.perform_tensor_until(op.at.thread, op.ticket)?;
        }
        Ok(())
    }

    /// Carries out everything in flight.
    pub(crate) fn finish_all_tensor(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(op) = self.cluster.engines.tensor.pop_front() {
            self.perform_tensor(op)?;
            any = true;
        }
        Ok(any)
    }

    fn perform_tensor(&mut self, op: TensorOp) -> Result<()> {
        let engine = match op.work {
            Work::Copy { transfers, dtype } => {
                for transfer in transfers {
                    self.move_within(&transfer, dtype.size());
                    self.cluster.engines.spare.push(transfer);
                }
                Engine::TmemCopy
            }
            Work::Product(product) => {
                self.perform_tmem_product(&product);
                Engine::Tcgen05
            }
            Work::Commit(barriers) => {
                for (key, ticket) in barriers {
                    self.worker.observer.on_complete(self.cluster.index, Engine::Commit, ticket);
                    self.land_arrival(key, op.at)?;
                }
                return Ok(());
            }
        };
        self.worker.observer.on_complete(self.cluster.index, engine, op.ticket);
        Ok(())
    }

    /// Writes tensor memory on behalf of a thread.
    pub(crate) fn perform_tmem_store(&mut self, store: TmemStore) {
        let buffer = self.worker.pool.take(store.tile);
        let bytes = store.view.len() as usize * store.dtype.size();
        self.write(&store.view, store.dtype, buffer.bytes(bytes));
        self.worker.pool.put(store.tile, buffer);
        self.worker.pool.release(store.tile);
    }

    fn perform_tmem_product(&mut self, product: &TmemProduct) {
        for block in 0..product.acc.len() {
            let a = self.left(product, block);
            for part in 0..product.b.len() {
                let b = self.right(product, block, part);
                self.multiply_part(product, block, part, &a, &b);
            }
        }
    }

    /// The left operand of one block, as it is multiplied.
    fn left(&self, product: &TmemProduct, block: usize) -> Factor {
        let a = &product.a[block];
        let shares = self.storage(a.base) == self.storage(product.acc[block].base);
        if product.metadata.is_none() && product.scales.is_none() && !shares {
            return Factor::InPlace(a.clone());
        }
        let [rows, mut columns] = a.sizes;
        let mut bytes = self.elements_of(a, Order::Rows);
        if let Some(metadata) = &product.metadata {
            let metadata = &metadata[block];
            let kept = self.elements_of(metadata, Order::Rows);
            let mut selectors = vec![0; kept.len()];
            core::order_selectors(a.dtype, metadata.sizes[1], &kept, &mut selectors);
            let mut out = vec![0; 2 * bytes.len()];
            core::expand_sparse(a.dtype, &bytes, &selectors, &mut out);
            (bytes, columns) = (out, 2 * columns);
        }
        let dtype = match &product.scales {
            Some(scales) => {
                // Rows beyond those of the operand are padding.
                let [scale, _] = &scales[block];
                let scale = Matrix { sizes: [rows, scale.sizes[1]], ..scale.clone() };
                bytes = self.scaled((a.dtype, &bytes), &scale, columns);
                DType::F32
            }
            None => a.dtype,
        };
        Factor::Copied { dtype, bytes, sizes: [rows, columns], strides: [columns, 1] }
    }

    /// A part of the right operand, as one block multiplies by it.
    fn right(&self, product: &TmemProduct, block: usize, part: usize) -> Factor {
        let b = &product.b[part];
        let Some(scales) = &product.scales else { return Factor::InPlace(b.clone()) };
        let [k, columns] = b.sizes;
        let [_, scale] = &scales[block];
        // With 64 rows in each block of a pair, each half of the columns has 128 rows of scales.
        let halves = product.acc.len() == 2 && product.acc[block].sizes[0] == 64;
        let first = part * if halves { 128 } else { columns };
        let offset = scale.offset as i64 + first as i64 * scale.strides[0];
        let sizes = [columns, scale.sizes[1]];
        let scale = Matrix { offset: offset as usize, sizes, ..scale.clone() };
        let bytes = self.scaled((b.dtype, &self.elements_of(b, Order::Columns)), &scale, k);
        Factor::Copied { dtype: DType::F32, bytes, sizes: b.sizes, strides: [1, k] }
    }

    /// Dense rows of `columns` elements, multiplied by their scales.
    fn scaled(&self, (dtype, x): (DType, &[u8]), scale: &Matrix, columns: usize) -> Vec<u8> {
        let factors = self.elements_of(scale, Order::Rows);
        let mut out = vec![0; x.len() / dtype.size() * DType::F32.size()];
        let block = columns / scale.sizes[1];
        core::scale_blocks((dtype, x), (scale.dtype, &factors), block, &mut out);
        out
    }

    /// The elements of a matrix, dense.
    fn elements_of(&self, matrix: &Matrix, order: Order) -> Vec<u8> {
        let tile = self.storage(matrix.base).expect(GONE);
        let elem = matrix.dtype.size();
        let (mut sizes, mut strides) = (matrix.sizes, matrix.strides.map(|s| s as isize));
        if order == Order::Columns {
            sizes.reverse();
            strides.reverse();
        }
        let mut out = vec![0; sizes[0] * sizes[1] * elem];
        let source = self.worker.pool.whole(tile);
        let (offset, to) = (matrix.offset as isize, [sizes[1] as isize, 1]);
        core::copy_strided(elem, &sizes, source, offset, &strides, &mut out, 0, &to);
        out
    }

    /// One block's accumulator, the columns of one part: `(+)= a @ b`.
    fn multiply_part(
        &mut self,
        product: &TmemProduct,
        block: usize,
        part: usize,
        a: &Factor,
        b: &Factor,
    ) {
        let acc = &product.acc[block];
        let ([m, k], [_, n]) = (a.sizes(), b.sizes());
        let acc_tile = self.storage(acc.base).expect(GONE);
        let tiles = [a.base(), b.base()].map(|base| base.map(|b| self.storage(b).expect(GONE)));
        let worker = &mut *self.worker;
        let mut buffer = worker.pool.take(acc_tile);
        let [left, right] = [(a, tiles[0]), (b, tiles[1])].map(|(factor, tile)| match factor {
            Factor::InPlace(matrix) => {
                let tile = tile.expect("it has a base");
                matrix.within(worker.pool.bytes(tile, matrix.bytes()))
            }
            Factor::Copied { dtype, bytes, strides, .. } => MatRef {
                dtype: *dtype,
                data: bytes,
                offset: 0,
                row_stride: strides[0] as isize,
                col_stride: strides[1] as isize,
            },
        });
        // The stride of a single row may be anything.
        let row_stride = if m == 1 { acc.sizes[1] } else { acc.strides[0] as usize };
        let first = (acc.offset + part * n) * acc.dtype.size();
        // Scaled operands have been widened exactly.
        let tf32 = product.scales.is_none();
        core::matmul(
            m,
            n,
            k,
            &left,
            &right,
            &mut buffer.bytes_mut(acc.bytes())[first..],
            row_stride,
            acc.dtype,
            product.accumulate,
            MatmulOpts { tf32 },
            &mut worker.matmul,
        );
        worker.pool.put(acc_tile, buffer);
        worker.stats.tensor_core_flops += 2 * (m * n * k) as u64;
    }
}

const GONE: &str = "an operand does not outlive its scope";

/// Which elements of a matrix lie side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Rows,
    Columns,
}

/// An operand as it is multiplied.
enum Factor {
    /// Where it lies.
    InPlace(Matrix),
    /// Expanded or scaled.
    Copied { dtype: DType, bytes: Vec<u8>, sizes: [usize; 2], strides: [usize; 2] },
}

impl Factor {
    fn sizes(&self) -> [usize; 2] {
        match self {
            Factor::InPlace(matrix) => matrix.sizes,
            Factor::Copied { sizes, .. } => *sizes,
        }
    }

    fn base(&self) -> Option<Base> {
        match self {
            Factor::InPlace(matrix) => Some(matrix.base),
            Factor::Copied { .. } => None,
        }
    }
}
