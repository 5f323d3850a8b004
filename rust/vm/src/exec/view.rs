//! Views from views.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{NotAView, RefVal};
use crate::observer::Observer;
use crate::trap::{Access, Extent, TrapKind};
use pallas_rs_ir::{BlockDim, SliceDim};

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn ref_slice(
        &mut self,
        dims: &[SliceDim],
        base: Operand,
        starts: &[Operand],
        result: Operand,
    ) -> Result {
        let view = self.view(base).slice(dims, starts.iter().map(|&s| self.integer(s)));
        self.set_ref(result, view);
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
        let (from, to) = (self.element_type(base), self.element_type(result));
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
        let view = self.view(array).block_window(dims, indices.iter().map(|&i| self.integer(i)));
        match view {
            Ok(view) => {
                self.set_ref(result, view);
                Ok(Flow::Next)
            }
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
