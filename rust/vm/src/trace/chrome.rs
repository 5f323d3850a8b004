//! The trace event format: one JSON object that Perfetto and `chrome://tracing` open.
//!
//! A block is a process and a lane a thread of it. Source: "Trace Event Format", Google, 2016.

use super::lanes::block_name;
use super::{Counter, MAX_NOTES, Place, Slice, Stuck, Tracer};
use crate::report::Finding;
use pallas_rs_ir::{Program, SpanId};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a viewer shows beside the picture, and a reader of the file should know.
const TIME: &str = "logical: one unit is one observed step, in the order of the run";

pub(super) fn render(
    tracer: &Tracer,
    program: &Program,
    bounds: &[u64],
    findings: &[Finding],
) -> String {
    let stuck: Vec<Stuck<'_>> = (findings.iter())
        .flat_map(|finding| &finding.threads)
        .map(|line| Stuck { place: Place::of(&line.who, program, bounds), line })
        .filter(|stuck| stuck.line.source.is_some())
        .collect();
    let mut events = names(tracer, &stuck, program, bounds);
    events.extend(tracer.slices.iter().map(|slice| of_slice(slice, program)));
    for (id, arrow) in tracer.arrows.iter().enumerate() {
        let (from, to) = (&tracer.slices[arrow.from], &tracer.slices[arrow.to]);
        events.push(flow("s", id, from, program));
        events.push(flow("f", id, to, program));
    }
    events.extend(tracer.samples.iter().map(|sample| {
        let place = Place { cluster: sample.cluster, block: sample.block, lane: super::Lane::Tma };
        let name = match sample.counter {
            Counter::SmemBytes => "SMEM in use",
            Counter::BytesInFlight => "bytes in flight",
        };
        json!({
            "ph": "C", "name": name, "pid": place.process(program), "tid": 0,
            "ts": sample.at, "args": {"bytes": sample.value},
        })
    }));
    for stuck in &stuck {
        let begin = tracer.last_seen(stuck.place);
        let source = stuck.line.source.as_ref();
        events.push(json!({
            "ph": "X", "name": "waits for ever", "cat": "stuck",
            "pid": stuck.place.process(program), "tid": stuck.place.lane.number(),
            "ts": begin, "dur": tracer.end() - begin, "cname": "terrible",
            "args": {
                "state": stuck.line.state,
                "line": source.map(|s| format!("{}:{}", s.file, s.line)),
                "function": source.map(|s| &s.function),
            },
        }));
    }
    let mut other = json!({ "kernel": program.name, "time": TIME });
    if tracer.cut {
        let note =
            format!("the trace ends here: it holds {MAX_NOTES} things, and the run had more");
        events.push(json!({
            "ph": "i", "s": "g", "name": note, "pid": 0, "tid": 0, "ts": tracer.end(),
        }));
        other["note"] = Value::String(note);
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms", "otherData": other }).to_string()
}

/// Names of blocks and lanes, and their order.
fn names(tracer: &Tracer, stuck: &[Stuck<'_>], program: &Program, bounds: &[u64]) -> Vec<Value> {
    let seen = tracer.slices.iter().map(|slice| slice.place);
    let places: BTreeSet<Place> = seen.chain(stuck.iter().map(|stuck| stuck.place)).collect();
    let mut events = Vec::new();
    let mut last = None;
    for place in places {
        let (pid, tid) = (place.process(program), place.lane.number());
        if last.replace(pid) != Some(pid) {
            let name = block_name(program, bounds, place.cluster, place.block);
            events.push(json!({
                "ph": "M", "name": "process_name", "pid": pid, "args": {"name": name},
            }));
        }
        events.push(json!({
            "ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
            "args": {"name": place.lane.name()},
        }));
        events.push(json!({
            "ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid,
            "args": {"sort_index": tid},
        }));
    }
    events
}

fn of_slice(slice: &Slice, program: &Program) -> Value {
    json!({
        "ph": "X", "name": slice.what.name(), "cat": "kernel",
        "pid": slice.place.process(program), "tid": slice.place.lane.number(),
        "ts": slice.begin, "dur": slice.end - slice.begin,
        "args": source(program, slice.span),
    })
}

/// One end of an arrow: it starts when its first slice ends, and lands when its second one does.
fn flow(phase: &str, id: usize, slice: &Slice, program: &Program) -> Value {
    json!({
        "ph": phase, "id": id, "name": "releases", "cat": "flow", "bp": "e",
        "pid": slice.place.process(program), "tid": slice.place.lane.number(),
        "ts": slice.end.saturating_sub(1).max(slice.begin),
    })
}

fn source(program: &Program, span: SpanId) -> Value {
    match program.spans.get(span.0 as usize).filter(|s| s.line > 0) {
        Some(span) => json!({
            "line": format!("{}:{}", span.file, span.line),
            "function": span.function,
        }),
        None => json!({}),
    }
}
