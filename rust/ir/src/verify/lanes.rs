//! An op that runs a body: its operands and results are what the body says.

use super::check::{Check, Problem, Rule, ensure};
use crate::lane::LaneParam;
use crate::types::{RefType, Space, Type};

pub(super) fn inline_mgpu(c: &Check<'_>, body: usize) -> Rule {
    let bodies = &c.program.lane_bodies;
    let body = bodies
        .get(body)
        .ok_or_else(|| Problem::new("body", format_args!("less than {}", bodies.len()), body))?;
    let args = c.types(0);
    ensure(args.len() == body.params.len(), "args", body.params.len(), args.len())?;
    for (ty, param) in args.into_iter().zip(&body.params) {
        match param {
            LaneParam::Array(array) => {
                let expected = Type::value(array.dtype, array.shape.clone());
                ensure(*ty == expected, "args", expected, ty)?;
            }
            LaneParam::View(view) => {
                let space = ty.as_ref().map_or(Space::Regs, |r| r.space);
                let reachable = matches!(space, Space::Gmem | Space::Smem);
                ensure(reachable, "args", "a ref to gmem or smem", ty)?;
                let expected = Type::Ref(RefType::data(space, view.dtype, view.shape.clone()));
                ensure(*ty == expected, "args", expected, ty)?;
            }
        }
    }
    let results = body.results.iter().map(|r| Type::value(r.dtype, r.shape.clone()));
    c.results(&results.collect::<Vec<_>>())
}
