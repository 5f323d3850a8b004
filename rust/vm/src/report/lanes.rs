//! What CUDA threads of an inline body did wrong, in words.

use super::words::Words;
use crate::rules;
use crate::trap::{Access, LaneFault};

/// The words for a fault.
pub(super) fn words(fault: &LaneFault) -> Words {
    match fault {
        LaneFault::Index { place, thread, index, sizes } => {
            let message = format!(
                "CUDA thread {thread} indexes `{}` at {index:?}, which goes up to {sizes:?}",
                place.name
            );
            Words::new(&rules::N1, message)
                .hint("an inline body has no bounds checks of its own: guard the access")
        }
        LaneFault::Outside { access, place, thread, byte, bytes } => {
            let message = format!(
                "CUDA thread {thread} {} bytes {byte} to {} of `{}`, which are not all elements of it",
                verb(*access),
                byte + *bytes as i64,
                place.name
            );
            Words::new(&rules::N1, message)
                .hint("they lie outside the ref, or in the padding between its rows")
        }
        LaneFault::NoView { thread } => Words::new(
            &rules::N1,
            format!(
                "CUDA thread {thread} uses a pointer that belongs to no ref of the inline body"
            ),
        ),
        LaneFault::Misaligned { access, place, thread, byte, align } => {
            let message = format!(
                "CUDA thread {thread} {} `{}` at byte {byte}, but the access needs an address \
                 divisible by {align}",
                verb(*access),
                place.name
            );
            Words::new(&rules::N2, message)
        }
        LaneFault::Diverged { what, active, of } => {
            let message = format!(
                "`{what}` is reached by {active} of {of} CUDA threads, and by part of a warp: it needs \
                 all threads of each warp"
            );
            Words::new(&rules::N3, message)
                .hint("move it out of the branch that only some threads take")
        }
        LaneFault::Race(race) => {
            let (element, name) = (coordinates(race.element, &race.shape), &race.place.name);
            let other = match race.other {
                Some(other) => format!("CUDA thread {other}"),
                None => "other CUDA threads".to_owned(),
            };
            let message = format!(
                "CUDA thread {} {} element {element:?} of `{name}`, which {other} {} in the same inline \
                 body `{}` without a barrier in between",
                race.thread,
                if race.write { "writes" } else { "reads" },
                if race.write { "touches" } else { "writes" },
                race.body
            );
            Words::new(&rules::N5, message)
                .missing("`bar.sync` of all threads of the warpgroup between the two accesses")
        }
        LaneFault::BarriersDiffer => Words::new(
            &rules::N3,
            "CUDA threads of one machine thread name different barriers in one instruction",
        ),
        LaneFault::NotUniform => Words::new(
            &rules::N4,
            "a scalar returned by an inline body is not the same in every CUDA thread",
        )
        .hint("return an array of a layout that gives each thread its own element"),
        LaneFault::ReplicasDiffer { thread, element, shape } => {
            let message = format!(
                "CUDA threads that hold the same element of a returned array disagree on it: thread \
                 {thread} on element {:?} of {shape:?}",
                coordinates(*element, shape)
            );
            Words::new(&rules::N4, message)
        }
    }
}

fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        _ => "writes",
    }
}

/// Index of an element by its row-major number.
pub(super) fn coordinates(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &n) in index.iter_mut().zip(shape).rev() {
        *i = element % n.max(1);
        element /= n.max(1);
    }
    index
}
