//! Schedules: how to repeat one, and what it means when two differ.

use super::{Finding, Severity as HowBad};
use crate::rules;
use crate::scheduler::Schedule;
use pallas_rs_core::DType;
use pallas_rs_ir::options::{AsyncCompletion, Schedule as Strategy, Severity, WorkStealing};
use pallas_rs_ir::{Binding, Op, Options, Program, Region};

/// What `Params` repeats a run: the fields that are not at their default, and that have a say in what
/// happens or is found.
pub(super) fn replay(options: &Options, schedule: &Schedule) -> String {
    let plain = Options::default();
    let mut fields = Vec::new();
    let mut word = |differs: bool, text: String| fields.extend(differs.then_some(text));
    word(options.detect_races, "detect_races=True".to_owned());
    word(options.strict_proxy, "strict_proxy=True".to_owned());
    let uninitialized = match options.uninitialized_reads {
        Severity::Raise => "raise",
        Severity::Warn => "warn",
        Severity::Ignore => "ignore",
    };
    word(
        options.uninitialized_reads != plain.uninitialized_reads,
        format!("uninitialized_reads=\"{uninitialized}\""),
    );
    word(
        options.out_of_bounds_reads != plain.out_of_bounds_reads,
        "out_of_bounds_reads=\"uninitialized\"".to_owned(),
    );
    word(
        options.uninitialized_memory != plain.uninitialized_memory,
        "uninitialized_memory=\"zero\"".to_owned(),
    );
    word(options.skip_floating_point_ops, "skip_floating_point_ops=True".to_owned());
    word(!options.left_out.is_empty(), "inline_mgpu=\"ignore\"".to_owned());
    word(options.explain_nan, "explain_nan=True".to_owned());
    word(options.lints, "lints=True".to_owned());
    word(!options.check_limits, "limits=\"ignore\"".to_owned());
    if let Some(target) = &options.target {
        word(true, format!("target=\"{target}\""));
    }
    if let Some(clusters) = options.resident_clusters {
        word(true, format!("resident_clusters={clusters}"));
    }
    if let Some(steps) = options.max_steps {
        word(true, format!("max_steps={steps}"));
    }
    word(
        schedule.seed != 0 || schedule.strategy != Strategy::RoundRobin,
        format!("seed={}", schedule.seed),
    );
    match &schedule.strategy {
        Strategy::RoundRobin => {}
        Strategy::Random => word(true, "schedule=\"random\"".to_owned()),
        Strategy::Pct(depth) => word(true, format!("schedule=\"pct:{depth}\"")),
        Strategy::Replay(turns) => word(true, format!("schedule=\"replay:{turns}\"")),
    }
    match schedule.completion {
        AsyncCompletion::Late => {}
        AsyncCompletion::Eager => word(true, "async_completion=\"eager\"".to_owned()),
        AsyncCompletion::Random => word(true, "async_completion=\"random\"".to_owned()),
    }
    match schedule.work_stealing {
        WorkStealing::First => {}
        WorkStealing::Never => word(true, "work_stealing=\"never\"".to_owned()),
        WorkStealing::RoundRobin => word(true, "work_stealing=\"round_robin\"".to_owned()),
        WorkStealing::Random => word(true, "work_stealing=\"random\"".to_owned()),
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
            Binding::Operand(_) | Binding::Zeroed => false,
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
            (HowBad::Warning, hint)
        } else {
            let hint = "something is read before the wait that makes it safe, or depends on which thread \
                        comes first";
            (HowBad::Error, hint)
        };
        Finding {
            code: rules::K1.code,
            class: rules::K1.class,
            severity,
            kernel: program.name.clone(),
            message: format!(
                "two schedules of the same call give different results: {name} differs from element \
                 {at} on ({} bytes), with seeds {} and {}",
                differs.bytes, program.options.seed, schedule.seed
            ),
            who: None,
            source: None,
            place: None,
            threads: Vec::new(),
            missing: None,
            hint: Some(hint.to_owned()),
            same_value: false,
            fatal: false,
            seed: schedule.seed,
            seeds: vec![program.options.seed, schedule.seed],
            replay: replay(&program.options, schedule),
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
