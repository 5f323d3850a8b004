//! A log by hand.

use super::{Event, Log, MAX_EVENTS};
use crate::observer::{At, BarrierId, Observer, ThreadId};
use pallas_rs_ir::SpanId;
use pallas_rs_ir::options::Logged;

const AT: At =
    At { thread: ThreadId { cluster: 0, block: 0, thread: 0, warp: None }, span: SpanId(0) };
const BARRIER: BarrierId = BarrierId { block: 0, base: 0, index: 0 };

#[test]
fn only_the_kinds_that_were_chosen_are_kept() {
    for (logged, kept) in [(Logged::Barrier, 1), (Logged::Semaphore, 0), (Logged::SharedMemory, 0)]
    {
        let mut log = Log::new(&[logged]);
        log.on_wait(AT, BARRIER, 3).unwrap();
        assert_eq!(log.events.len(), kept);
    }
}

#[test]
fn a_long_run_is_cut_and_what_is_left_out_is_counted() {
    let mut log = Log::new(&[Logged::Barrier]);
    for phase in 0..MAX_EVENTS as u64 + 7 {
        log.on_wait(AT, BARRIER, phase).unwrap();
    }
    assert_eq!((log.events.len(), log.left_out), (MAX_EVENTS, 7));
    let last = &log.events[MAX_EVENTS - 1].1;
    assert!(matches!(last, Event::Wait { phase, .. } if *phase == MAX_EVENTS as u64 - 1));
}
