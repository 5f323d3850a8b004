//! The race detector against an exhaustive oracle.
//!
//! A *skeleton* is a straight-line kernel of two or three threads: generic reads and writes, fences,
//! arrivals and waits, TMA loads and stores. The oracle tries every interleaving, every completion
//! time of every copy and every moment at which a write without a fence reaches memory. A skeleton is
//! wrong if two executions differ, or one never ends. What the machine says of one run has to agree,
//! whichever run it is.

#[path = "../common/mod.rs"]
mod common;
mod explore;
mod kernel;
mod reference;
mod skeleton;

use skeleton::Step::{Arrive, Fence, Load, Wait};
use skeleton::{Random, Skeleton};

/// Schedules per skeleton.
const SEEDS: u32 = 6;

/// Codes that say nothing about values: work that nobody waits for at the end, a phase that is not
/// complete at the end, reads that a refill does not respect by the letter of the model.
const BESIDE: &[&str] = &["PRS-C14", "PRS-D8", "PRS-D9", "PRS-B2"];

/// Checks a skeleton; `None` if it has too many states for the oracle.
fn check(skeleton: &Skeleton, random: &mut Random) -> Option<bool> {
    let truth = explore::explore(skeleton)?;
    let wrong = truth.stuck || truth.outcomes != 1;
    let found = kernel::run(skeleton, SEEDS);
    let flagged = |seed: u64| {
        let here = |f: &&kernel::Found| f.seeds.contains(&seed) && !BESIDE.contains(&f.code);
        found.iter().find(here).map(|f| f.code)
    };
    let verdicts: Vec<_> = (0..u64::from(SEEDS)).map(flagged).collect();
    let all = verdicts.iter().all(Option::is_some);
    let none = verdicts.iter().all(Option::is_none);
    assert!(all || none, "the verdict depends on the schedule: {verdicts:?}\n{skeleton}");
    assert!(all || !wrong, "missed: {truth:?}\n{skeleton}");
    let expected = reference::breaks_a_rule(skeleton, random);
    assert_eq!(all, expected, "the machine and the reference differ: {verdicts:?}\n{skeleton}");
    Some(wrong)
}

fn check_many(seed: u64, count: usize) -> [usize; 2] {
    let mut random = Random::new(seed);
    let mut tally = [0; 2];
    while tally.iter().sum::<usize>() < count {
        let skeleton = Skeleton::draw(&mut random);
        if let Some(wrong) = check(&skeleton, &mut random) {
            tally[usize::from(wrong)] += 1;
        }
    }
    tally
}

#[test]
fn every_run_tells_the_truth() {
    let [right, wrong] = check_many(1, 500);
    assert!(right > 100 && wrong > 100, "{right} right and {wrong} wrong skeletons say little");
}

#[test]
#[ignore = "takes minutes"]
fn twenty_thousand_runs_tell_the_truth() {
    let [right, wrong] = check_many(2, 20_000);
    assert!(right > 4_000 && wrong > 4_000, "{right} right and {wrong} wrong");
}

/// Skeletons on which the machine was wrong once.
#[test]
fn what_was_wrong_once_is_right() {
    let kept = [
        // To make room for a load, the machine may complete the phase before: the load is one of the
        // next phase.
        Skeleton {
            threads: vec![
                vec![Load { barrier: 0, buffer: 0 }, Load { barrier: 0, buffer: 1 }],
                vec![Arrive(0), Wait(0), Fence, Load { barrier: 0, buffer: 1 }],
            ],
            barriers: vec![2],
            buffers: 2,
        },
    ];
    for skeleton in kept {
        check(&skeleton, &mut Random::new(0)).expect("it is small");
    }
}
