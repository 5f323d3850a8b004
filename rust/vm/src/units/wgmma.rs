//! Tensor core products of a warpgroup.

use crate::machine::{Ctx, Result};
use crate::memory::{Base, RefVal, TileId};
use crate::observer::{BaseId, Engine, Observer, Window};
use crate::trap::{Access, TrapKind};
use pallas_rs_core::{self as core, DType, MatRef, MatmulOpts};

/// A matrix in memory.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) base: Base,
    pub(crate) dtype: DType,
    /// Rows and columns.
    pub(crate) sizes: [usize; 2],
    /// Element (0, 0).
    pub(crate) offset: usize,
    pub(crate) strides: [i64; 2],
    /// One past its last element.
    pub(crate) end: usize,
}

impl Matrix {
    /// A whole view of rank 2.
    pub(crate) fn new(view: &RefVal, dtype: DType) -> Option<Matrix> {
        let [rows, cols] = &view.dims[..] else { return None };
        let (_, end) = view.bounds().filter(|_| view.is_full())?;
        Some(Matrix {
            base: view.base,
            dtype,
            sizes: [rows.size as usize, cols.size as usize],
            offset: view.offset as usize,
            strides: [rows.stride, cols.stride],
            end: end as usize,
        })
    }

    /// Bytes of the allocation up to its end.
    pub(crate) fn bytes(&self) -> usize {
        self.end * self.dtype.size()
    }

    pub(crate) fn within<'a>(&self, data: &'a [u8]) -> MatRef<'a> {
        MatRef {
            dtype: self.dtype,
            data,
            offset: self.offset,
            row_stride: self.strides[0] as isize,
            col_stride: self.strides[1] as isize,
        }
    }

    /// The place of element `i`, counted row-major.
    pub(crate) fn element(&self, i: usize) -> i64 {
        let [row, col] = [i / self.sizes[1], i % self.sizes[1]];
        self.offset as i64 + row as i64 * self.strides[0] + col as i64 * self.strides[1]
    }

    /// Whether elements of a row lie side by side.
    pub(crate) fn has_dense_rows(&self) -> bool {
        self.sizes[1] == 1 || self.strides[1] == 1
    }

    /// The same, for an observer.
    pub(crate) fn window(&self, (base, block): (BaseId, u32)) -> Window<'_> {
        Window {
            base,
            block,
            offset: self.offset as i64,
            sizes: &self.sizes,
            strides: &self.strides,
            elem_size: self.dtype.size(),
        }
    }
}

/// The left operand.
#[derive(Clone, Debug)]
pub(crate) enum Left {
    /// In SMEM.
    Memory(Matrix),
    /// In registers: a dense tile that is kept until it has been read.
    Registers(TileId, DType),
}

/// `acc += a @ b`.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) acc: Matrix,
    pub(crate) a: Left,
    pub(crate) b: Matrix,
    pub(crate) ticket: u64,
}

impl Product {
    /// Whether it reads or writes an allocation.
    pub(crate) fn touches(&self, base: Base) -> bool {
        let left = matches!(&self.a, Left::Memory(a) if a.base == base);
        left || self.b.base == base || self.acc.base == base
    }
}

impl<O: Observer> Ctx<'_, O> {
    /// A view as an operand of a tensor core instruction.
    pub(crate) fn matrix(&self, view: &RefVal, dtype: DType) -> Result<Matrix> {
        Matrix::new(view, dtype).ok_or_else(|| {
            if view.escape.is_some() {
                return self.out_of_bounds(view, Access::TensorCore);
            }
            let what = "a tensor core operand that is not a whole matrix".to_owned();
            TrapKind::Unsupported { what }.into()
        })
    }

    /// Multiplies and accumulates.
    pub(crate) fn perform_product(&mut self, product: Product) {
        let Product { acc, a, b, ticket } = product;
        if self.tracks() {
            let left = if let Left::Memory(matrix) = &a { Some(matrix) } else { None };
            self.track_product(&acc, left, &b);
        }
        let ([m, n], [k, _]) = (acc.sizes, b.sizes);
        let gone = "an operand does not outlive its scope";
        let acc_tile = self.storage(acc.base).expect(gone);
        let a_tile = match &a {
            Left::Memory(matrix) => self.storage(matrix.base).expect(gone),
            Left::Registers(tile, _) => *tile,
        };
        let b_tile = self.storage(b.base).expect(gone);
        let worker = &mut *self.worker;
        let mut buffer = worker.pool.take(acc_tile);
        let left = match &a {
            Left::Memory(matrix) => matrix.within(worker.pool.bytes(a_tile, matrix.bytes())),
            Left::Registers(tile, dtype) => MatRef {
                dtype: *dtype,
                data: worker.pool.bytes(*tile, m * k * dtype.size()),
                offset: 0,
                row_stride: k as isize,
                col_stride: 1,
            },
        };
        let right = b.within(worker.pool.bytes(b_tile, b.bytes()));
        let tf32 = left.dtype == DType::F32;
        // The stride of a single row may be anything.
        let row_stride = if m == 1 { n } else { acc.strides[0] as usize };
        core::matmul(
            m,
            n,
            k,
            &left,
            &right,
            &mut buffer.bytes_mut(acc.bytes())[acc.offset * acc.dtype.size()..],
            row_stride,
            acc.dtype,
            true,
            MatmulOpts { tf32 },
            &mut worker.matmul,
        );
        worker.pool.put(acc_tile, buffer);
        if let Left::Registers(tile, _) = a {
            worker.pool.release(tile);
        }
        worker.stats.tensor_core_flops += 2 * (m * n * k) as u64;
        worker.observer.on_complete(self.cluster.index, Engine::Wgmma, ticket);
    }
}
