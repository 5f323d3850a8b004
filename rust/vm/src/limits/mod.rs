//! What a device has and what its instructions accept, checked before the first op.
//!
//! A program says statically what it allocates and which shapes it copies and multiplies, so nothing
//! has to run for it. Rules that Mosaic GPU could satisfy in a way that is not visible here are left
//! out: what is reported would not compile.

mod buffers;
mod copies;
mod device;
mod launch;
mod memory;
mod products;

pub(crate) use device::Device;

use crate::trap::Trap;
use pallas_rs_ir::{Inst, Program, Region};

/// Everything that cannot be done: what this machine cannot hold, and what the device cannot do
/// unless its limits are ignored.
pub(crate) fn check(program: &Program) -> Vec<Trap> {
    let too_large = buffers::check(program);
    if !too_large.is_empty() || !program.options.check_limits {
        return too_large;
    }
    let device = Device::of(program);
    let mut faults = launch::check(program, &device);
    faults.extend(memory::check(program, &device));
    each_inst(&program.body, &mut |inst| {
        faults.extend(copies::check(program, inst));
        faults.extend(products::check(program, inst, &device));
    });
    faults
}

/// Visits the instructions of a region and of those within it.
fn each_inst<'p>(region: &'p Region, visit: &mut impl FnMut(&'p Inst)) {
    for inst in &region.insts {
        visit(inst);
        inst.regions.iter().for_each(|inner| each_inst(inner, visit));
    }
}

#[cfg(test)]
mod tests;
