//! Semaphores: counters in GMEM by which clusters wait for each other.

use crate::code::Operand;
use crate::machine::{Ctx, Flow, Result};
use crate::memory::{Base, RefVal};
use crate::observer::{Observer, SemaphoreId};
use crate::trap::{Access, BarrierName, Waiting};
use pallas_rs_ir::AllocKind;

const BYTES: usize = 4;

impl<O: Observer> Ctx<'_, O> {
    pub(super) fn semaphore_signal(&mut self, semaphore: Operand, count: Operand) -> Result {
        self.drift()?;
        let view = self.semaphore(semaphore)?;
        let value = self.semaphore_value(&view).wrapping_add(self.scalar(count) as u32);
        self.set_semaphore(&view, value);
        if O::WATCHES {
            let (at, id) = (self.at(), self.semaphore_id(&view));
            self.worker.observer.on_signal(at, id);
        }
        Ok(Flow::Next)
    }

    pub(super) fn semaphore_wait(
        &mut self,
        semaphore: Operand,
        value: Operand,
        decrement: bool,
    ) -> Result {
        self.drift()?;
        let view = self.semaphore(semaphore)?;
        let (held, wanted) = (self.semaphore_value(&view), self.scalar(value) as u32);
        if held < wanted {
            return Ok(Flow::Block);
        }
        if decrement {
            self.set_semaphore(&view, held - wanted);
        }
        if O::WATCHES {
            let (at, id) = (self.at(), self.semaphore_id(&view));
            self.worker.observer.on_acquire(at, id);
        }
        Ok(Flow::Next)
    }

    pub(super) fn semaphore_read(&mut self, semaphore: Operand, result: Operand) -> Result {
        self.drift()?;
        let view = self.semaphore(semaphore)?;
        let value = self.semaphore_value(&view);
        self.set_scalar(result, u64::from(value));
        Ok(Flow::Next)
    }

    /// The one semaphore of a view.
    fn semaphore(&self, operand: Operand) -> Result<RefVal> {
        let view = self.view(operand);
        if view.escape.is_some() || view.bounds().is_none() {
            return Err(self.out_of_bounds(view, Access::Semaphore));
        }
        Ok(view.clone())
    }

    fn semaphore_value(&self, view: &RefVal) -> u32 {
        let mut bytes = [0; BYTES];
        self.source(view.base, BYTES, view.offset + 1).read(BYTES, view.offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn set_semaphore(&mut self, view: &RefVal, value: u32) {
        let mut target = self.target(view.base, BYTES, view.offset + 1);
        target.write(BYTES, view.offset, &value.to_le_bytes());
    }

    fn semaphore_id(&self, view: &RefVal) -> SemaphoreId {
        let (owner, base) = match view.base {
            Base::Global(arg) => (None, arg),
            Base::Block { block, index } => (Some((self.cluster.index, block)), index),
            Base::Barrier { .. } | Base::Thread(_) => unreachable!("the verifier saw GMEM"),
        };
        SemaphoreId { owner, base, index: view.offset as u64 }
    }

    /// Tells an observer of semaphores that are not zero when their scope ends.
    pub(super) fn check_settled(&mut self, base: Base) {
        let Base::Block { block, index } = base else { return };
        let entry = &self.cluster.blocks[block as usize].buffers[index as usize];
        let Some(alloc) = entry.as_ref().map(|data| data.alloc) else { return };
        let spec = &self.call.code.allocs[alloc as usize];
        if spec.kind != AllocKind::Semaphore {
            return;
        }
        for at in 0..spec.shape.iter().product::<usize>() {
            let view = RefVal { offset: at as i64, ..RefVal::whole(base, &[]) };
            let value = self.semaphore_value(&view);
            if value != 0 {
                let id = self.semaphore_id(&view);
                self.worker.observer.on_unsettled(id, value);
            }
        }
    }

    /// What a thread that blocked at a semaphore waits for.
    pub(crate) fn waiting_on_semaphore(&self, semaphore: Operand, value: Operand) -> Waiting {
        let view = self.view(semaphore);
        let place = self.place(view);
        let index = place.window.iter().map(|extent| extent.start.max(0) as usize).collect();
        Waiting::Semaphore {
            semaphore: BarrierName { name: place.name, index },
            held: self.semaphore_value(view),
            needed: self.scalar(value) as u32,
        }
    }
}
