//! How values that nobody wrote are explained.

use super::races::{nth_alloc, who};
use super::{Finding, Severity, schedule, source as source_of};
use crate::defined::{Garbage, Origin, Region, Usage, Use};
use crate::non_finite::Search;
use crate::rules::{self, Rule};
use crate::scheduler::Schedule;
use crate::trap::{Extent, Place};
use pallas_rs_core::DType;
use pallas_rs_ir::options::Severity as Wish;
use pallas_rs_ir::{AllocKind, Program, Space};

impl Finding {
    /// What a run found out about unwritten memory.
    pub(crate) fn from_garbage(
        program: &Program,
        bounds: &[u64],
        schedule: &Schedule,
        garbage: &Garbage,
    ) -> Vec<Finding> {
        let uses = garbage.uses.iter().map(|found| used(program, bounds, schedule, found));
        let unwritten = garbage.unwritten.iter();
        let unwritten =
            unwritten.map(|(arg, region)| never_written(program, schedule, *arg, region));
        uses.chain(unwritten).collect()
    }
}

impl Finding {
    /// Where a number came from that is not finite and reached a result.
    pub(crate) fn from_search(
        program: &Program,
        bounds: &[u64],
        schedule: &Schedule,
        search: &Search,
    ) -> Finding {
        let Some(origin) = &search.first else {
            let message = "a result is infinite or NaN, and no op made it so".to_owned();
            return Finding {
                hint: Some("it was in an input, or in memory that nobody wrote".to_owned()),
                ..finding(program, schedule, &rules::J1, message)
            };
        };
        let element: Vec<String> = origin.element.iter().map(ToString::to_string).collect();
        let operands: Vec<String> = origin.operands.iter().map(|x| format!("{x:?}")).collect();
        let message = format!(
            "`{}` of {} is {:?} at [{}]: the first number that is not finite, and a result has one",
            origin.op,
            operands.join(" and "),
            origin.value,
            element.join(", ")
        );
        Finding {
            who: Some(who(program, bounds, origin.at)),
            source: source_of(program, origin.at.span),
            ..finding(program, schedule, &rules::J1, message)
        }
    }
}

pub(super) fn finding(
    program: &Program,
    schedule: &Schedule,
    rule: &Rule,
    message: String,
) -> Finding {
    Finding {
        code: rule.code,
        class: rule.class,
        severity: rule.severity,
        kernel: program.name.clone(),
        message,
        who: None,
        source: None,
        place: None,
        threads: Vec::new(),
        missing: None,
        hint: None,
        same_value: false,
        fatal: false,
        seed: schedule.seed,
        seeds: vec![schedule.seed],
        replay: schedule::replay(&program.options, schedule),
        count: 1,
    }
}

fn used(program: &Program, bounds: &[u64], schedule: &Schedule, found: &Use) -> Finding {
    let place = place(program, found.origin);
    let what = match &place {
        Some(place) => format!("a value of `{}` that nobody wrote", place.name),
        None if found.origin == Origin::Outside => "a value from outside its array".to_owned(),
        None => "a value that nobody wrote".to_owned(),
    };
    let how = match found.usage {
        Usage::Index => "is used as an index",
        Usage::Branch => "decides what is done",
        Usage::Bound => "decides how often a loop runs",
        Usage::Output => "reaches an output",
    };
    let missing = match (&place, found.origin) {
        (Some(place), _) => format!("a write to `{}` before it is read", place.name),
        (None, Origin::Outside) => "a mask for the part outside".to_owned(),
        (None, _) => "a write before the read".to_owned(),
    };
    let warns = program.options.uninitialized_reads == Wish::Warn;
    Finding {
        severity: if warns { Severity::Warning } else { Severity::Error },
        who: Some(who(program, bounds, found.at)),
        source: source_of(program, found.at.span),
        place,
        missing: Some(missing),
        count: found.count,
        ..finding(program, schedule, &rules::G1, format!("{what} {how}"))
    }
}

fn never_written(program: &Program, schedule: &Schedule, arg: u32, region: &Region) -> Finding {
    let array = &program.args[arg as usize];
    let total: usize = array.shape.iter().product();
    let first: Vec<String> = region.first.iter().map(ToString::to_string).collect();
    let message = format!(
        "{} of the {total} elements of output `{}` were never written, the first at [{}]",
        region.count,
        array.name,
        first.join(", ")
    );
    let extent = |&(low, high): &(usize, usize)| Extent {
        start: low as i64,
        size: high - low + 1,
        stride: 1,
    };
    let place = Place {
        window: region.bounds.iter().map(extent).collect(),
        ..whole_argument(program, arg)
    };
    Finding {
        place: Some(place),
        hint: Some(
            "they hold whatever was in memory; `array` is the smallest box around them".to_owned(),
        ),
        ..finding(program, schedule, &rules::G3, message)
    }
}

fn whole_argument(program: &Program, arg: u32) -> Place {
    let array = &program.args[arg as usize];
    Place {
        name: array.name.clone(),
        space: Space::Gmem,
        dtype: Some(array.dtype),
        shape: array.shape.clone(),
        window: Vec::new(),
    }
}

fn place(program: &Program, origin: Origin) -> Option<Place> {
    match origin {
        Origin::Arg(arg) => Some(whole_argument(program, arg)),
        Origin::Alloc(number) => nth_alloc(program, number).map(|alloc| Place {
            name: alloc.name.clone(),
            space: alloc.space,
            dtype: data_type(&alloc.kind),
            shape: alloc.shape.clone(),
            window: Vec::new(),
        }),
        Origin::Outside | Origin::Many => None,
    }
}

fn data_type(kind: &AllocKind) -> Option<DType> {
    match kind {
        AllocKind::Data { dtype, .. } => Some(*dtype),
        AllocKind::Barrier { .. } | AllocKind::ClusterBarrier { .. } | AllocKind::Semaphore => None,
    }
}
