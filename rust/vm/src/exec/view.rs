//! Views from views.

use super::access::as_integer;
use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{NotAView, RefVal};
use crate::observer::Observer;
use crate::trap::{Access, Extent, TrapKind};
use pallas_rs_ir::{BlockDim, SliceDim};

/// The number in an integer scalar operand.
#[inline]
fn integer(scalars: &[u64], operand: Operand) -> i64 {
    match operand {
        Operand::Scalar { register, dtype } => as_integer(dtype, scalars[register as usize]),
        _ => unreachable!("the verifier saw a scalar"),
    }
}

/// The views of an operand and a result, or the one they share.
#[inline]
fn two(
    refs: &mut [RefVal],
    base: Operand,
    result: Operand,
) -> std::result::Result<[&mut RefVal; 2], &mut RefVal> {
    let (Operand::Ref { register: base, .. }, Operand::Ref { register: result, .. }) =
        (base, result)
    else {
        unreachable!("the verifier saw refs")
    };
    let (base, result) = (base as usize, result as usize);
    if base == result {
        return Err(&mut refs[base]);
    }
    Ok(refs.get_disjoint_mut([base, result]).expect("registers of the frame"))
}

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn ref_slice(
        &mut self,
        dims: &[SliceDim],
        base: Operand,
        starts: &[Operand],
        result: Operand,
    ) -> Result {
        let frame = &mut self.thread.frame;
        let starts = starts.iter().map(|&s| integer(&frame.scalars, s));
        match two(&mut frame.refs, base, result) {
            Ok([base, out]) => base.slice_into(dims, starts, out),
            Err(both) => *both = both.slice(dims, starts),
        }
        Ok(Flow::Next)
    }

    pub(super) fn ref_transpose(
        &mut self,
        perm: &[usize],
        base: Operand,
        result: Operand,
    ) -> Result {
        let view = self.view(base).transpose(perm);
        self.set_ref(result, view);
        Ok(Flow::Next)
    }

    pub(super) fn ref_reshape(&mut self, base: Operand, result: Operand) -> Result {
        let shape = &self.call.code.ref_type(result).shape;
        let view = self.expressible(self.view(base).reshape(shape), base, "reshape")?;
        self.set_ref(result, view);
        Ok(Flow::Next)
    }

    pub(super) fn ref_bitcast(&mut self, base: Operand, result: Operand) -> Result {
        let (from, to) = (base.dtype(), result.dtype());
        let view = self.view(base);
        let view = if from == to {
            Ok(view.clone())
        } else if from.is_sub_byte() || to.is_sub_byte() {
            Err(NotAView)
        } else {
            view.bitcast(from.size(), to.size(), &self.call.code.ref_type(result).shape)
        };
        let view = self.expressible(view, base, "bitcast")?;
        self.set_ref(result, view);
        Ok(Flow::Next)
    }

    fn expressible(
        &self,
        view: std::result::Result<RefVal, NotAView>,
        base: Operand,
        what: &str,
    ) -> Result<RefVal> {
        view.map_err(|NotAView| {
            let name = self.place(self.view(base)).name;
            let what = format!("a {what} of a view of `{name}` whose elements do not lie evenly");
            TrapKind::Unsupported { what }.into()
        })
    }

    pub(super) fn block_window(
        &mut self,
        dims: &[BlockDim],
        array: Operand,
        indices: &[Operand],
        result: Operand,
    ) -> Result {
        let frame = &mut self.thread.frame;
        let at = indices.iter().map(|&i| integer(&frame.scalars, i));
        let window = match two(&mut frame.refs, array, result) {
            Ok([array, out]) => array.block_window_into(dims, at, out),
            Err(both) => both.block_window(dims, at).map(|window| *both = window),
        };
        match window {
            Ok(()) => Ok(Flow::Next),
            Err(_) => {
                let mut place = self.place(self.view(array));
                place.window = (dims.iter().zip(self.integers(indices)))
                    .map(|(dim, index)| match *dim {
                        BlockDim::Blocked(size) => {
                            Extent { start: index.saturating_mul(size as i64), size, stride: 1 }
                        }
                        BlockDim::Squeezed => Extent { start: index, size: 1, stride: 1 },
                        BlockDim::Element { size, lo, .. } => {
                            Extent { start: index.saturating_sub(lo as i64), size, stride: 1 }
                        }
                    })
                    .collect();
                Err(TrapKind::OutOfBounds { access: Access::Block, place }.into())
            }
        }
    }
}
