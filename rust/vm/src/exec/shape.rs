//! Ops that move elements about, and those that join and reduce them.

use super::access::as_integer;
use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::observer::Observer;
use pallas_rs_core::{self as core, CumulativeKind, ReduceKind, dense_strides};
use smallvec::SmallVec;

type Steps = SmallVec<[isize; 6]>;

fn steps(shape: &[usize]) -> Steps {
    let mut strides = SmallVec::from_elem(1, shape.len());
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i] as isize;
    }
    strides
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn iota(&mut self, dimension: usize, result: Operand) -> Result {
        let dtype = result.dtype();
        let call = self.call;
        let shape = &call.code.tile_type(result).shape;
        self.produce(result, |_, out| core::iota(dtype, shape, dimension, out));
        Ok(Flow::Next)
    }

    /// A result whose element `i` is element `offset + i · strides` of a tile.
    fn rearranged(
        &mut self,
        x: Operand,
        offset: isize,
        strides: &[isize],
        result: Operand,
    ) -> Result {
        let elem = x.dtype().size();
        self.produce(result, |c, out| {
            let shape = c.shape(result);
            core::copy_strided(elem, shape, c.dense(x), offset, strides, out, 0, &steps(shape));
        });
        Ok(Flow::Next)
    }

    pub(super) fn broadcast(&mut self, dims: &[usize], x: Operand, result: Operand) -> Result {
        if let (Some(bits), true) = (self.splat(x), x.dtype().fits_scalar()) {
            self.set_splat(result, bits);
            return Ok(Flow::Next);
        }
        let (from, to) = (self.shape(x), self.shape(result));
        if from.iter().product::<usize>() == to.iter().product::<usize>() {
            self.forward(x, result);
            return Ok(Flow::Next);
        }
        let mut strides: Steps = SmallVec::from_elem(0, to.len());
        for ((&dim, &size), stride) in dims.iter().zip(from).zip(steps(from)) {
            strides[dim] = if size == 1 { 0 } else { stride };
        }
        self.rearranged(x, 0, &strides, result)
    }

    pub(super) fn transpose(&mut self, perm: &[usize], x: Operand, result: Operand) -> Result {
        if let Some(bits) = self.splat(x) {
            self.set_splat(result, bits);
            return Ok(Flow::Next);
        }
        let from = steps(self.shape(x));
        let strides: Steps = perm.iter().map(|&p| from[p]).collect();
        self.rearranged(x, 0, &strides, result)
    }

    pub(super) fn slice(
        &mut self,
        starts: &[usize],
        steps_by: &[usize],
        x: Operand,
        result: Operand,
    ) -> Result {
        if let Some(bits) = self.splat(x) {
            self.set_splat(result, bits);
            return Ok(Flow::Next);
        }
        let from = steps(self.shape(x));
        let offset = starts.iter().zip(&from).map(|(&s, step)| s as isize * step).sum();
        let strides: Steps =
            steps_by.iter().zip(&from).map(|(&s, step)| s as isize * step).collect();
        self.rearranged(x, offset, &strides, result)
    }

    pub(super) fn rev(&mut self, dims: &[usize], x: Operand, result: Operand) -> Result {
        if let Some(bits) = self.splat(x) {
            self.set_splat(result, bits);
            return Ok(Flow::Next);
        }
        let shape = self.shape(x);
        let mut strides = steps(shape);
        let mut offset = 0;
        for &d in dims.iter().filter(|&&d| shape[d] > 0) {
            offset += strides[d] * (shape[d] as isize - 1);
            strides[d] = -strides[d];
        }
        self.rearranged(x, offset, &strides, result)
    }

    pub(super) fn pad(
        &mut self,
        lo: &[i64],
        interior: &[usize],
        x: Operand,
        value: Operand,
        result: Operand,
    ) -> Result {
        self.densify(x);
        self.densify(value);
        let elem = x.dtype().size();
        self.produce(result, |c, out| {
            match c.elements(value) {
                core::Operand::Splat(bits) => core::fill(elem, bits, out),
                core::Operand::Slice(one) => {
                    out.chunks_exact_mut(elem).for_each(|e| e.copy_from_slice(one))
                }
            }
            let (from, to) = (c.shape(x), c.shape(result));
            let (from_steps, to_steps) = (steps(from), steps(to));
            // Negative padding cuts: the part of each dimension that lands inside.
            let mut shape = SmallVec::<[usize; 6]>::new();
            let (mut offset, mut target) = (0, 0);
            let mut strides = Steps::new();
            for d in 0..from.len() {
                let gap = interior[d] as i64 + 1;
                let first = if lo[d] >= 0 { 0 } else { (-lo[d] + gap - 1) / gap };
                let room = to[d] as i64 - 1 - lo[d];
                let end = if room < 0 { 0 } else { room / gap + 1 }.min(from[d] as i64);
                shape.push((end - first).max(0) as usize);
                offset += first as isize * from_steps[d];
                target += (lo[d] + first * gap) as isize * to_steps[d];
                strides.push(gap as isize * to_steps[d]);
            }
            if !shape.contains(&0) {
                core::copy_strided(
                    elem,
                    &shape,
                    c.dense(x),
                    offset,
                    &from_steps,
                    out,
                    target,
                    &strides,
                );
            }
        });
        Ok(Flow::Next)
    }

    pub(super) fn concatenate(
        &mut self,
        dimension: usize,
        xs: &[Operand],
        result: Operand,
    ) -> Result {
        xs.iter().for_each(|&x| self.densify(x));
        let elem = result.dtype().size();
        self.produce(result, |c, out| {
            let to = steps(c.shape(result));
            let mut at = 0;
            for &x in xs {
                let shape = c.shape(x);
                core::copy_strided(elem, shape, c.dense(x), 0, &steps(shape), out, at, &to);
                at += shape[dimension] as isize * to[dimension];
            }
        });
        Ok(Flow::Next)
    }

    /// Element offset of a window of `window` in a tile of `shape`, moved so that it fits.
    fn window_start(&self, starts: &[Operand], shape: &[usize], window: &[usize]) -> isize {
        let mut offset = 0;
        for (d, step) in steps(shape).into_iter().enumerate() {
            let room = (shape[d] - window[d]) as i64;
            offset += self.integer(starts[d]).clamp(0, room) as isize * step;
        }
        offset
    }

    pub(super) fn dynamic_slice(
        &mut self,
        x: Operand,
        starts: &[Operand],
        result: Operand,
    ) -> Result {
        if let Some(bits) = self.splat(x) {
            self.set_splat(result, bits);
            return Ok(Flow::Next);
        }
        let strides = steps(self.shape(x));
        let offset = self.window_start(starts, self.shape(x), self.shape(result));
        self.rearranged(x, offset, &strides, result)
    }

    pub(super) fn dynamic_update_slice(
        &mut self,
        x: Operand,
        update: Operand,
        starts: &[Operand],
        result: Operand,
    ) -> Result {
        self.densify(x);
        self.densify(update);
        let elem = x.dtype().size();
        let offset = self.window_start(starts, self.shape(x), self.shape(update));
        let same = matches!((x, update), (Operand::Tile { register: r, .. }, Operand::Tile { register: s, .. }) if r == s);
        let bytes = self.call.code.tile_type(x).bytes;
        let write = |c: &Self, out: &mut [u8]| {
            let (shape, whole) = (c.shape(update), c.shape(x));
            core::copy_strided(
                elem,
                shape,
                c.dense(update),
                0,
                &steps(shape),
                out,
                offset,
                &steps(whole),
            );
        };
        if !same && let Some(mut own) = self.reuse(x) {
            write(self, own.1.bytes_mut(bytes));
            self.give(result, own);
        } else {
            self.produce(result, |c, out| {
                out.copy_from_slice(c.dense(x));
                write(c, out);
            });
        }
        Ok(Flow::Next)
    }

    pub(super) fn reduce_tile(
        &mut self,
        kind: ReduceKind,
        axes: &[usize],
        x: Operand,
        result: Operand,
    ) -> Result {
        self.densify(x);
        let (dtype, to) = (x.dtype(), result.dtype());
        self.produce(result, |c, out| {
            let shape = c.shape(x);
            if kind.is_arg() {
                core::arg_reduce(kind, dtype, to, shape, axes[0], c.dense(x), out);
            } else {
                core::reduce(kind, dtype, shape, axes, c.dense(x), out);
            }
        });
        Ok(Flow::Next)
    }

    pub(super) fn cumulative(
        &mut self,
        kind: CumulativeKind,
        axis: usize,
        reverse: bool,
        x: Operand,
        result: Operand,
    ) -> Result {
        self.densify(x);
        let dtype = x.dtype();
        self.produce(result, |c, out| {
            core::cumulative(kind, dtype, c.shape(x), axis, reverse, c.dense(x), out);
        });
        Ok(Flow::Next)
    }

    /// The integer starts of a view op.
    pub(super) fn integers(&self, operands: &[Operand]) -> SmallVec<[i64; 6]> {
        operands
            .iter()
            .map(|&o| match o {
                Operand::Scalar { dtype, .. } => as_integer(dtype, self.scalar(o)),
                _ => unreachable!("the verifier saw a scalar"),
            })
            .collect()
    }
}

/// Strides of one operand of a product, in elements.
#[derive(Clone, Debug)]
struct Side {
    /// Size and stride of each batch dimension.
    batch: Vec<(usize, isize)>,
    free: (usize, isize),
    contract: (usize, isize),
}

/// One size and stride for dimensions that can be counted through, in this order.
fn merge(dims: &[usize], shape: &[usize], strides: &[isize]) -> Option<(usize, isize)> {
    let mut wide = dims.iter().filter(|&&d| shape[d] != 1);
    let Some(&first) = wide.next() else { return Some((1, 1)) };
    let (mut size, mut stride) = (shape[first], strides[first]);
    for &d in wide {
        if stride != strides[d] * shape[d] as isize {
            return None;
        }
        size *= shape[d];
        stride = strides[d];
    }
    Some((size, stride))
}

impl Side {
    fn new(
        shape: &[usize],
        strides: &[isize],
        batch: &[usize],
        contract: &[usize],
    ) -> Option<Side> {
        let free: Vec<usize> =
            (0..shape.len()).filter(|d| !batch.contains(d) && !contract.contains(d)).collect();
        Some(Side {
            batch: batch.iter().map(|&d| (shape[d], strides[d])).collect(),
            free: merge(&free, shape, strides)?,
            contract: merge(contract, shape, strides)?,
        })
    }
}

/// Which dimensions of both operands are multiplied how.
pub(super) struct Product<'a> {
    pub(super) contract: [&'a [usize]; 2],
    pub(super) batch: [&'a [usize]; 2],
    pub(super) tf32: bool,
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn dot_general(
        &mut self,
        product: &Product<'_>,
        operands: [Operand; 2],
        result: Operand,
    ) -> Result {
        let mut sides = Vec::with_capacity(2);
        let mut copies = [None, None];
        for (i, &operand) in operands.iter().enumerate() {
            self.densify(operand);
            let shape = self.shape(operand);
            let (batch, contract) = (product.batch[i], product.contract[i]);
            let side = Side::new(shape, &steps(shape), batch, contract);
            sides.push(side.unwrap_or_else(|| {
                let order: Vec<usize> = (batch.iter().copied())
                    .chain((0..shape.len()).filter(|d| !batch.contains(d) && !contract.contains(d)))
                    .chain(contract.iter().copied())
                    .collect();
                let (bytes, moved) = self.permuted(operand, &order);
                copies[i] = Some(bytes);
                let strides = dense_strides(&moved);
                let n = moved.len();
                let all: Vec<usize> = (0..n).collect();
                Side::new(&moved, &strides, &all[..batch.len()], &all[n - contract.len()..])
                    .expect("a dense copy can be counted through")
            }));
        }
        let types = operands.map(Operand::dtype);
        let acc_dtype = result.dtype();
        let (m, n, k) = (sides[0].free.0, sides[1].free.0, sides[0].contract.0);
        let batches: usize = sides[0].batch.iter().map(|b| b.0).product();
        let matrix = m * n * acc_dtype.size();
        let mut scratch = std::mem::take(&mut self.worker.matmul);
        self.produce(result, |c, out| {
            for b in 0..batches {
                let mats: [core::MatRef<'_>; 2] = std::array::from_fn(|i| core::MatRef {
                    dtype: types[i],
                    data: copies[i].as_deref().unwrap_or_else(|| c.dense(operands[i])),
                    offset: offset_of(b, &sides[i].batch),
                    row_stride: if i == 0 { sides[0].free.1 } else { sides[1].contract.1 },
                    col_stride: if i == 0 { sides[0].contract.1 } else { sides[1].free.1 },
                });
                let acc = &mut out[b * matrix..(b + 1) * matrix];
                let opts = core::MatmulOpts { tf32: product.tf32 };
                core::matmul(
                    m,
                    n,
                    k,
                    &mats[0],
                    &mats[1],
                    acc,
                    n,
                    acc_dtype,
                    false,
                    opts,
                    &mut scratch,
                );
            }
        });
        self.worker.matmul = scratch;
        Ok(Flow::Next)
    }

    /// A dense copy with the dimensions in another order.
    fn permuted(&self, x: Operand, order: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let from = self.shape(x);
        let strides = steps(from);
        let shape: Vec<usize> = order.iter().map(|&d| from[d]).collect();
        let moved: Steps = order.iter().map(|&d| strides[d]).collect();
        let mut out = vec![0; self.dense(x).len()];
        let elem = x.dtype().size();
        core::copy_strided(elem, &shape, self.dense(x), 0, &moved, &mut out, 0, &steps(&shape));
        (out, shape)
    }
}

/// Element offset of batch `index`, counted row-major.
fn offset_of(mut index: usize, batch: &[(usize, isize)]) -> usize {
    let mut offset = 0;
    for &(size, stride) in batch.iter().rev() {
        offset += index % size * stride as usize;
        index /= size;
    }
    offset
}
