//! wgmma and its accumulators.

use crate::code::Operand;
use crate::frame::Tile;
use crate::machine::{Ctx, Flow, Result};
use crate::observer::{AccessKind, Engine, Observer, Operation, Proxy, Window};
use crate::trap::TrapKind;
use crate::units::Product;
use crate::units::wgmma::Left;
use pallas_rs_ir::options::AsyncCompletion;
use smallvec::SmallVec;

impl<O: Observer> Ctx<'_, O> {
    /// Starts `acc += a @ b`, a group of its own, or with `more` a part of the next one's.
    pub(crate) fn wgmma(&mut self, acc: Operand, a: Operand, b: Operand, more: bool) -> Result {
        self.drift()?;
        let (acc_dtype, b_dtype) = (acc.dtype(), b.dtype());
        let a_dtype = match a {
            Operand::Tile { .. } => self.call.code.tile_type(a).dtype,
            Operand::Ref { .. } | Operand::Scalar { .. } => a.dtype(),
        };
        let acc = self.matrix(self.view(acc), acc_dtype)?;
        let b = self.matrix(self.view(b), b_dtype)?;
        if !acc.has_dense_rows() {
            let what = "a wgmma accumulator that is not row-major".to_owned();
            return Err(TrapKind::Unsupported { what }.into());
        }
        let a = match a {
            Operand::Tile { .. } => {
                self.tile_bytes(a);
                let Tile::Dense(tile) = self.tile(a) else { unreachable!("it was made dense") };
                // The register may be written over before the product is performed.
                self.worker.pool.retain(tile);
                Left::Registers(tile, a_dtype)
            }
            Operand::Ref { .. } | Operand::Scalar { .. } => {
                Left::Memory(self.matrix(self.view(a), a_dtype)?)
            }
        };
        let ticket = self.cluster.engines.ticket();
        let product = Product { acc, a, b, ticket };
        if O::WATCHES {
            self.issue_product(&product)?;
            if more {
                let at = self.at();
                self.worker.observer.on_more(at, Engine::Wgmma);
            }
        }
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.perform_product(product);
        } else {
            self.thread.queues.products.push(product);
            if more {
                return Ok(Flow::Next);
            }
            self.thread.queues.products.commit();
            // JAX documents that issuing a product synchronises with the earlier ones, and kernels
            // it ships rely on it: only the newest stays in flight. The hardware promises less, so
            // observers are told of no wait.
            while let Some(earlier) = self.thread.queues.products.pop_due(1) {
                self.perform_product(earlier);
            }
        }
        Ok(Flow::Next)
    }

    /// Waits until at most `n` products are in flight.
    pub(crate) fn wgmma_wait(&mut self, n: u32) -> Result {
        self.drift()?;
        while let Some(product) = self.thread.queues.products.pop_due(n) {
            self.perform_product(product);
        }
        Ok(self.waited(Engine::Wgmma, n, false))
    }

    /// Reads an accumulator, first waiting when `wait` says so.
    pub(crate) fn accumulator_load(
        &mut self,
        acc: Operand,
        wait: Option<u32>,
        result: Operand,
    ) -> Result {
        match wait {
            Some(n) => {
                self.wgmma_wait(n)?;
            }
            None => self.drift()?,
        }
        let dtype = acc.dtype();
        let bytes = self.call.code.tile_type(result).bytes;
        let view = self.view(acc).clone();
        self.observe(&view, dtype.size(), AccessKind::Read, Proxy::Generic)?;
        let (id, mut buffer) = self.new_tile(bytes);
        self.read(&view, dtype, self.call.unwritten, buffer.bytes_mut(bytes));
        self.worker.pool.put(id, buffer);
        self.set_tile(result, Tile::Dense(id));
        Ok(Flow::Next)
    }

    fn issue_product(&mut self, product: &Product) -> Result<()> {
        let mut reads = SmallVec::<[Window<'_>; 2]>::new();
        if let Left::Memory(a) = &product.a {
            reads.push(a.window(self.base_id(a.base)));
        }
        reads.push(product.b.window(self.base_id(product.b.base)));
        let operation = Operation {
            engine: Engine::Wgmma,
            ticket: product.ticket,
            reads: &reads,
            writes: &[product.acc.window(self.base_id(product.acc.base))],
            accumulates: true,
            barrier: None,
            multicast: &[],
            tracked: None,
        };
        let at = self.at();
        self.worker.observer.on_issue(at, operation)
    }
}
