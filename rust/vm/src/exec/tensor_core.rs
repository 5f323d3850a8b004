//! wgmma and its accumulators.

use crate::code::Operand;
use crate::frame::Tile;
use crate::machine::{Ctx, Flow, Result};
use crate::observer::{AccessKind, Engine, Observer, Operation, Proxy, Window};
use crate::trap::TrapKind;
use crate::units::Product;
use crate::units::wgmma::{Left, Matrix};
use pallas_rs_core::{self as core, DType};
use pallas_rs_ir::options::AsyncCompletion;
use smallvec::SmallVec;

impl<O: Observer> Ctx<'_, O> {
    /// Starts `acc += a @ b`, a group of its own.
    pub(crate) fn wgmma(&mut self, acc: Operand, a: Operand, b: Operand) -> Result {
        self.drift()?;
        let (acc_dtype, b_dtype) = (self.element_type(acc), self.element_type(b));
        let a_dtype = match a {
            Operand::Tile { .. } => self.call.code.tile_type(a).dtype,
            Operand::Ref { .. } | Operand::Scalar { .. } => self.element_type(a),
        };
        if !core::matmul_supports(a_dtype, b_dtype, acc_dtype) {
            return Err(unsupported(a_dtype, b_dtype, acc_dtype));
        }
        let acc_view = self.view(acc);
        let acc = self.matrix(acc_view, acc_dtype)?;
        let (m, n) = (acc_view.dims[0].size as usize, acc_view.dims[1].size as usize);
        let b_view = self.view(b);
        let k = b_view.dims.first().map_or(0, |d| d.size as usize);
        let b = self.matrix(b_view, b_dtype)?;
        if acc.col_stride != 1 {
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
        let product = Product { acc, a, b, m, n, k, ticket };
        if O::WATCHES {
            self.issue_product(&product)?;
        }
        if self.cluster.engines.completion == AsyncCompletion::Eager {
            self.perform_product(product);
        } else {
            self.thread.queues.products.push(product);
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
        self.waited(Engine::Wgmma, n, false)
    }

    /// Reads an accumulator, first waiting when `wait` says so.
    pub(crate) fn accumulator_load(
        &mut self,
        acc: Operand,
        wait: Option<u32>,
        result: Operand,
    ) -> Result {
        match wait {
            Some(n) => drop(self.wgmma_wait(n)?),
            None => self.drift()?,
        }
        let dtype = self.element_type(acc);
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
        let sides = |matrix: &Matrix, rows: usize, cols: usize| {
            (matrix.clone(), [rows, cols], [matrix.row_stride, matrix.col_stride])
        };
        let mut read = SmallVec::<[_; 2]>::new();
        read.push(sides(&product.b, product.k, product.n));
        if let Left::Memory(a) = &product.a {
            read.push(sides(a, product.m, product.k));
        }
        let acc = sides(&product.acc, product.m, product.n);
        let window = |(matrix, sizes, strides): &'_ (Matrix, [usize; 2], [i64; 2])| {
            let (base, block) = self.base_id(matrix.base);
            (base, block, matrix.offset as i64, *sizes, *strides, matrix.dtype.size())
        };
        let reads: SmallVec<[_; 2]> = read.iter().map(window).collect();
        let write = window(&acc);
        fn view(
            w: &(crate::observer::BaseId, u32, i64, [usize; 2], [i64; 2], usize),
        ) -> Window<'_> {
            let (base, block, offset, sizes, strides, elem_size) = w;
            Window {
                base: *base,
                block: *block,
                offset: *offset,
                sizes,
                strides,
                elem_size: *elem_size,
            }
        }
        let reads: SmallVec<[Window<'_>; 2]> = reads.iter().map(view).collect();
        let operation = Operation {
            engine: Engine::Wgmma,
            ticket: product.ticket,
            reads: &reads,
            writes: &[view(&write)],
            accumulates: true,
            barrier: None,
        };
        let at = self.at();
        self.worker.observer.on_issue(at, operation)
    }
}

#[cold]
fn unsupported(a: DType, b: DType, acc: DType) -> Box<crate::trap::Trap> {
    TrapKind::Unsupported { what: format!("wgmma of {a} and {b} into {acc}") }.into()
}
