//! Schedules: how to repeat one, and what it means when two differ.

use super::{Finding, Severity};
use crate::scheduler::Schedule;
use pallas_rs_core::DType;
use pallas_rs_ir::options::{AsyncCompletion, Schedule as Strategy};
use pallas_rs_ir::{Binding, Op, Program, Region};

/// What `Params` repeats a run: the fields that are not at their default.
pub(super) fn replay(schedule: &Schedule) -> String {
    let mut fields = Vec::new();
    if schedule.seed != 0 || schedule.strategy != Strategy::RoundRobin {
        fields.push(format!("seed={}", schedule.seed));
    }
    match &schedule.strategy {
        Strategy::RoundRobin => {}
        Strategy::Random => fields.push("schedule=\"random\"".to_owned()),
        Strategy::Pct(depth) => fields.push(format!("schedule=\"pct:{depth}\"")),
        Strategy::Replay(turns) => fields.push(format!("schedule=\"replay:{turns}\"")),
    }
    match schedule.completion {
        AsyncCompletion::Late => {}
        AsyncCompletion::Eager => fields.push("async_completion=\"eager\"".to_owned()),
        AsyncCompletion::Random => fields.push("async_completion=\"random\"".to_owned()),
    }
    format!("Params({})", fields.join(", "))
}

/// Two schedules of a call gave different results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// Result of the call.
    pub result: usize,
    /// The first element that differs, counted in row-major order.
    pub element: usize,
    /// How many bytes differ.
    pub bytes: usize,
}

impl Finding {
    /// A difference between the results of the first schedule and of another one.
    pub(crate) fn from_difference(
        program: &Program,
        schedule: &Schedule,
        differs: &Differs,
    ) -> Finding {
        let arg = program.args.iter().find(|arg| match arg.binding {
            Binding::Result(r) | Binding::Aliased { result: r, .. } => r == differs.result,
            Binding::Operand(_) => false,
        });
        let name =
            arg.map_or_else(|| format!("result {}", differs.result), |a| format!("`{}`", a.name));
        let shape = arg.map_or(&[][..], |a| &a.shape[..]);
        let at = coordinates(differs.element, shape);
        let order_only =
            arg.is_some_and(|a| a.dtype.is_float()) && adds_floats(&program.body, program);
        let (severity, hint) = if order_only {
            let hint = "the kernel adds floats to memory in whatever order they come, and a sum of floats \
                        depends on its order: compare with a tolerance";
            (Severity::Warning, hint)
        } else {
            let hint = "something is read before the wait that makes it safe, or depends on which thread \
                        comes first";
            (Severity::Error, hint)
        };
        Finding {
            code: "PRS-K1",
            class: "RaceError",
            severity,
            kernel: program.name.clone(),
            message: format!(
                "two schedules of the same call give different results: {name} differs from element \
                 {at} on ({} bytes)",
                differs.bytes
            ),
            who: None,
            source: None,
            place: None,
            threads: Vec::new(),
            missing: None,
            hint: Some(hint.to_owned()),
            seed: schedule.seed,
            replay: replay(schedule),
            count: 1,
        }
    }
}

fn coordinates(mut element: usize, shape: &[usize]) -> String {
    let mut at: Vec<String> = Vec::new();
    for &n in shape.iter().rev() {
        at.push((element % n.max(1)).to_string());
        element /= n.max(1);
    }
    at.reverse();
    format!("[{}]", at.join(", "))
}

/// Whether a kernel accumulates floats in memory in an order that no one fixes.
fn adds_floats(region: &Region, program: &Program) -> bool {
    use pallas_rs_ir::RmwKind::Add;
    region.insts.iter().any(|inst| {
        let float = |operand: usize| {
            let ty = inst.operands.get(operand).map(|&v| program.ty(v));
            ty.is_some_and(|ty| match ty {
                pallas_rs_ir::Type::Ref(r) => {
                    matches!(r.elem, pallas_rs_ir::Elem::Data(d) if d.is_float())
                }
                pallas_rs_ir::Type::Scalar(d) | pallas_rs_ir::Type::Tile(d, _) => {
                    DType::is_float(*d)
                }
            })
        };
        let here = match &inst.op {
            Op::AtomicRmw { kind: Add, .. } => float(0),
            Op::CopySmemToGmem { reduction: Some(Add), .. } => float(1),
            _ => false,
        };
        here || inst.regions.iter().any(|r| adds_floats(r, program))
    })
}
