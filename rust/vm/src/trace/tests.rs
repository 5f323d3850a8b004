//! Notes of a producer and a consumer, by hand.

use super::{Tracer, What};
use crate::observer::{At, BarrierId, Engine, Observer, Operation, ThreadId};
use pallas_rs_ir::SpanId;

fn at(thread: u32, span: u32) -> At {
    let thread = ThreadId { cluster: 0, block: 0, thread, warp: None };
    At { thread, span: SpanId(span) }
}

const BARRIER: BarrierId = BarrierId { block: 0, base: 0, index: 0 };

#[test]
fn a_wait_lasts_from_where_its_thread_was_seen_to_what_released_it() {
    let mut tracer = Tracer::new(&[]);
    tracer.on_fence(at(1, 1));
    for _ in 0..3 {
        tracer.on_fence(at(0, 2));
    }
    tracer.on_arrive(at(0, 3), BARRIER, 0, true).unwrap();
    tracer.on_wait(at(1, 4), BARRIER, 0).unwrap();
    let wait = tracer.slices.last().unwrap();
    assert_eq!((wait.what, wait.begin, wait.end), (What::Wait, 1, 6));
    let arrow = tracer.arrows[0];
    assert_eq!(tracer.slices[arrow.from].what, What::Arrive);
    assert_eq!(tracer.slices[arrow.to].what, What::Wait);
}

#[test]
fn an_engine_works_from_issue_to_completion_and_one_thing_at_a_time() {
    let mut tracer = Tracer::new(&[]);
    for ticket in 0..2 {
        let operation = Operation {
            engine: Engine::TmaLoad,
            ticket,
            reads: &[],
            writes: &[],
            accumulates: false,
            barrier: Some(BARRIER),
            multicast: &[],
            tracked: None,
        };
        tracer.on_issue(at(0, 1), operation).unwrap();
    }
    for ticket in 0..2 {
        tracer.on_complete(0, Engine::TmaLoad, ticket);
        tracer.on_arrive(at(0, 1), BARRIER, 0, ticket == 1).unwrap();
    }
    tracer.on_wait(at(0, 2), BARRIER, 0).unwrap();
    let loads: Vec<_> = tracer.slices.iter().filter(|s| s.what == What::Load).collect();
    assert_eq!(loads.len(), 2);
    assert!(loads[0].end <= loads[1].begin);
    let release = tracer.arrows.last().unwrap();
    assert_eq!(tracer.slices[release.from].what, What::Load);
    assert_eq!(tracer.slices[release.to].what, What::Wait);
}

#[test]
fn a_long_run_is_cut_and_says_so() {
    let mut tracer = Tracer::new(&[]);
    for _ in 0..super::MAX_NOTES + 10 {
        tracer.on_fence(at(0, 1));
    }
    assert!(tracer.cut);
    assert_eq!(tracer.slices.len(), super::MAX_NOTES);
}
