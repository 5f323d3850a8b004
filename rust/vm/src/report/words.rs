//! What each trap is called and how it is explained.

use super::lanes;
use super::{Source, ThreadLine, source as source_of};
use crate::rules::{self, Rule};
use crate::trap::{
    Access, BarrierName, BarrierRule, Deadlock, Extent, GridFault, Illegal, Limit, Place, TrapKind,
    Waiting, Who,
};
use pallas_rs_ir::{Program, Space};

/// Rows of a deadlock that are written out.
const MAX_ROWS: usize = 24;

/// The words for one trap.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) rule: &'static Rule,
    pub(super) class: &'static str,
    pub(super) message: String,
    pub(super) threads: Vec<ThreadLine>,
    pub(super) missing: Option<String>,
    pub(super) hint: Option<String>,
}

impl Words {
    pub(super) fn new(rule: &'static Rule, message: impl Into<String>) -> Words {
        let (threads, message) = (Vec::new(), message.into());
        Words { rule, class: rule.class, message, threads, missing: None, hint: None }
    }

    pub(super) fn missing(mut self, text: impl Into<String>) -> Words {
        self.missing = Some(text.into());
        self
    }

    pub(super) fn hint(mut self, text: impl Into<String>) -> Words {
        self.hint = Some(text.into());
        self
    }
}

pub(super) fn of(program: &Program, kind: &TrapKind) -> Words {
    match kind {
        TrapKind::OutOfBounds { access, place } => out_of_bounds(*access, place),
        TrapKind::InvalidGrid { axis, name, value, fault } => {
            let name = name.as_ref().map_or(String::new(), |n| format!(" (`{n}`)"));
            let what = match fault {
                GridFault::Negative => "a grid has no negative bounds",
                GridFault::TooLarge => "the grid has more points than can be counted",
            };
            let message = format!("grid dimension {axis}{name} is {value}: {what}");
            Words { class: "InvalidGridError", ..Words::new(&rules::I7, message) }
        }
        TrapKind::Deadlock(deadlock) => deadlocked(program, deadlock),
        TrapKind::Barrier { barrier, rule } => broken_rule(&barrier_name(barrier), rule),
        TrapKind::NoSuchBlock { axis, index, size } => {
            let name = program.cluster_names.get(*axis);
            let name = name.map_or_else(|| format!("axis {axis}"), |name| format!("`{name}`"));
            let message = format!("block {index} along {name} leaves the cluster, of size {size}");
            Words::new(&rules::H1, message)
        }
        TrapKind::OtherScope { other, own } => Words::new(
            &rules::E6,
            format!(
                "this thread enters the scope of `{own}` where another thread of its block has \
                 entered that of `{other}`"
            ),
        )
        .hint("all threads of a block enter the same collective scopes, in the same order"),
        TrapKind::PeerEnded { name, block } => Words::new(
            &rules::F1,
            format!(
                "`{name}` of block {block} of the cluster is used, but that block has left its scope"
            ),
        )
        .missing(format!("a last wait of block {block} that keeps it alive"))
        .hint("shared memory of a block is gone once the block exits"),
        TrapKind::Uninitialized { place } => {
            let message = format!("`{}` is read before it is written", place.name);
            Words::new(&rules::G1, message).missing(format!("a write to {}", place_box(place)))
        }
        TrapKind::Resource { limit, needed, available, target, users } => {
            resource(*limit, *needed, *available, target, users)
        }
        TrapKind::Illegal(illegal) => no_such_instruction(illegal),
        TrapKind::DivisionByZero { remainder } => {
            let what = if *remainder {
                "an integer remainder by zero"
            } else {
                "an integer division by zero"
            };
            Words::new(&rules::J2, what)
                .hint("a GPU gives no defined value here: guard the divisor, or divide floats")
        }
        TrapKind::Lanes(fault) => lanes::words(fault),
        TrapKind::Check { message } => {
            Words::new(&rules::CHECK, format!("a check in the kernel failed: {message}"))
        }
        TrapKind::Host { call, message } => {
            Words::new(&rules::HOST, format!("`{call}` failed: {message}"))
        }
        TrapKind::StepLimit { limit } => {
            Words::new(&rules::E2, format!("the run did not end within {limit} steps"))
                .hint("look for a loop whose condition never becomes false, or raise `max_steps`")
        }
        TrapKind::Interrupted => Words::new(&rules::INTERRUPTED, "the run was interrupted"),
        TrapKind::Unsupported { what } => {
            Words::new(&rules::UNSUPPORTED, format!("{what} is not supported"))
        }
        TrapKind::Internal { message } => {
            Words::new(&rules::BUG, format!("a bug in pallas_rs: {message}"))
                .hint("please report it, with the kernel if you can")
        }
    }
}

fn out_of_bounds(access: Access, place: &Place) -> Words {
    let (rule, what): (&Rule, _) = match access {
        Access::Read => (&rules::H1, "a read"),
        Access::Write => (&rules::H1, "a write"),
        Access::ReadWrite => (&rules::H1, "a swap"),
        Access::Gather => (by_index(place), "a read by index arrays"),
        Access::Scatter => (by_index(place), "a write by index arrays"),
        Access::Atomic => (&rules::H1, "an atomic operation"),
        Access::TmaLoad => (&rules::H6, "a TMA load that promised to stay in bounds"),
        Access::TmaStore => (&rules::H5, "a TMA store that starts before its array"),
        Access::CopyInSmem => (&rules::H1, "a copy"),
        Access::TensorCore => (&rules::H1, "an operand of a tensor core instruction"),
        Access::Semaphore => (&rules::H1, "a semaphore index"),
        Access::Barrier => (&rules::D11, "a barrier index"),
        Access::Block => (&rules::H1, "the block selected by an index map"),
    };
    let how = place.escapes_at().map_or(String::new(), |d| {
        let dimension =
            if place.shape.len() > 1 { format!("dimension {d} of ") } else { String::new() };
        format!(" at {} of {dimension}size {}", extent(&place.window[d]), place.shape[d])
    });
    let words = Words::new(rule, format!("{what} leaves `{}`{how}", place.name));
    match access {
        Access::Semaphore => words,
        Access::Read | Access::Write | Access::ReadWrite | Access::Atomic => words.hint(
            "mask the access, or guard it with `pl.when`; only TMA copies may reach past an array",
        ),
        Access::Gather | Access::Scatter if words.rule == &rules::H9 => words.hint(
            "an index array that counts from the end does so on no GPU: add the size where an index is negative",
        ),
        Access::Gather | Access::Scatter => {
            words.hint("mask the lanes whose index may be outside, or clamp the index")
        }
        Access::TmaLoad => {
            words.hint("drop `oob_mode=PROMISE_IN_BOUNDS`, and the part outside reads as zeros")
        }
        Access::TmaStore => {
            words.hint("a TMA store drops what lies behind the array, not before it")
        }
        Access::Barrier => {
            words.hint("JAX clamps a barrier index; hardware would take another barrier")
        }
        Access::CopyInSmem | Access::TensorCore => {
            words.hint("SMEM is no array of the device: every element of the window has to exist")
        }
        Access::Block => words.hint(
            "index maps return block indices, which are multiplied by the block size; element \
                 offsets only where the dimension is squeezed or pl.Element",
        ),
    }
}

fn by_index(place: &Place) -> &'static Rule {
    let negative = place.escapes_at().is_some_and(|d| place.window[d].start < 0);
    if negative { &rules::H9 } else { &rules::H8 }
}

/// Rows of a table of users.
const MAX_USERS: usize = 6;

fn resource(
    limit: Limit,
    needed: u64,
    available: u64,
    target: &str,
    users: &[(String, u64)],
) -> Words {
    let (rule, what, unit): (&Rule, _, _) = match limit {
        Limit::Smem => (&rules::I1, "SMEM of a block", " bytes"),
        Limit::Tmem => (&rules::I2, "TMEM of a block", " columns"),
        Limit::Barriers => (&rules::I5, "barriers of an allocation", ""),
        Limit::Arrivals => (&rules::I5, "arrivals of a phase", ""),
        Limit::Threads => (&rules::I6, "threads of a block", ""),
        Limit::ClusterBlocks => (&rules::I7, "blocks of a cluster", ""),
        Limit::Memory => (&rules::MEMORY, "memory of the computer", " bytes"),
    };
    let message =
        format!("the kernel needs {needed}{unit} of the {what}; {target} has {available}{unit}");
    let mut words = Words::new(rule, message);
    let rows = users.iter().take(MAX_USERS).map(|(name, size)| format!("`{name}` {size}{unit}"));
    let mut rows: Vec<String> = rows.collect();
    if let Some(more) = users.len().checked_sub(MAX_USERS).filter(|&n| n > 0) {
        rows.push(format!("and {more} more"));
    }
    if !rows.is_empty() {
        words = words.missing(format!("room for {}", rows.join(", ")));
    }
    if limit == Limit::Memory { words } else { words.hint(IGNORE_LIMITS) }
}

const IGNORE_LIMITS: &str = "`limits=\"ignore\"` runs it all the same";

fn no_such_instruction(illegal: &Illegal) -> Words {
    let row = |elements: usize, dtype: pallas_rs_core::DType| {
        let bits = elements * dtype.packed_bits();
        let bytes = if bits.is_multiple_of(8) {
            format!("{} bytes", bits / 8)
        } else {
            format!("{bits} bits")
        };
        format!("{elements} elements of {} ({bytes})", dtype.name())
    };
    let words = match illegal {
        Illegal::CopyRow { elements, dtype } => Words::new(
            &rules::I3,
            format!("TMA copies rows of a multiple of 16 bytes, not {}", row(*elements, *dtype)),
        ),
        Illegal::CopyStride { name, axis, elements, dtype } => Words::new(
            &rules::I3,
            format!(
                "TMA needs strides of a multiple of 16 bytes: dimension {axis} of `{name}` has {}",
                row(*elements, *dtype)
            ),
        ),
        Illegal::ProductShape { op, m, n, k, step } => Words::new(
            &rules::I4,
            format!(
                "{op} takes m a multiple of 64, n a multiple of 8 up to 256, k a multiple of {step}, \
                 not m={m}, n={n}, k={k}"
            ),
        ),
        Illegal::ProductTypes { op, acc, a, b } => {
            let name = |d: &pallas_rs_core::DType| d.name();
            Words::new(
                &rules::I4,
                format!("{op} has no {} accumulator for {} times {}", name(acc), name(a), name(b)),
            )
        }
        Illegal::Product { op, needs, target } => {
            Words::new(&rules::I4, format!("{op} needs {needs}; the target is {target}"))
        }
    };
    words.hint(IGNORE_LIMITS)
}

fn broken_rule(name: &str, rule: &BarrierRule) -> Words {
    let error = |rule, message: String| Words::new(rule, message);
    match *rule {
        BarrierRule::Unobserved { phase } => error(
            &rules::D1,
            format!(
                "phase {phase} of {name} completed, but no thread had observed phase {}",
                phase - 1
            ),
        )
        .missing(format!("a wait on {name} before the arrivals of its phase {phase}"))
        .hint(
            "hardware tells two phases apart by one bit: a later wait would take one for the other",
        ),
        BarrierRule::Missed { thread, observed, phase } => error(
            &rules::D2,
            format!(
                "phase {phase} of {name} completed, but thread {thread} of the block has only \
                 observed {}",
                phases(observed)
            ),
        )
        .missing(format!("a wait of thread {thread} on phase {observed} of {name}"))
        .hint("a thread that waits on a barrier has to wait for each of its phases"),
        BarrierRule::Late { awaited, completed, first: true } => error(
            &rules::D3,
            format!(
                "a thread waits on {name} for the first time, for phase {awaited}, when \
                 {} are complete already",
                phases(completed)
            ),
        )
        .hint("a thread that waits on a barrier has to wait for each of its phases"),
        BarrierRule::Late { awaited, completed, first: false } => error(
            &rules::D3,
            format!(
                "a thread waits for phase {awaited} of {name} when {} are complete already",
                phases(completed)
            ),
        )
        .hint("hardware would block here, or pass because of the wrong phase"),
        BarrierRule::TooManyArrivals { arrived, in_flight, needed } => {
            let copies = match in_flight {
                0 => String::new(),
                1 => " and 1 copy in flight".to_owned(),
                n => format!(" and {n} copies in flight"),
            };
            error(
                &rules::D4,
                format!(
                    "one arrival too many on {name}: a phase needs {needed}, and there are \
                     {arrived}{copies}"
                ),
            )
            .missing(format!("a wait on {name} before this arrival, or a larger `num_arrivals`"))
            .hint("a TMA load counts as one arrival, however many bytes it moves")
        }
        BarrierRule::RemoteWait { block } => {
            error(&rules::D6, format!("a wait on {name} of block {block} of the cluster")).hint(
                "another block's barrier can be arrived on; only its own block can wait on it",
            )
        }
        BarrierRule::NotLeader => error(
            &rules::D6,
            format!("a block that is not the leader waits on {name}, which only the leader tracks"),
        ),
        BarrierRule::PeerEnded { block } => error(
            &rules::D14,
            format!(
                "an arrival on {name} of block {block} of the cluster, which has left its scope"
            ),
        )
        .missing(format!("a last wait of block {block} that keeps it alive")),
        BarrierRule::WarpsApart { least, most } => error(
            &rules::D7,
            format!(
                "a warpgroup waits on {name}, of which one of its warps has observed {} and \
                 another {most}",
                phases(least)
            ),
        )
        .hint("all four warps of a warpgroup have to wait for a phase, or none"),
        BarrierRule::NoSuchName { id, names } => {
            error(&rules::D11, format!("named barrier {id} does not exist: a block has {names}"))
        }
        BarrierRule::BadCount { count } => error(
            &rules::D12,
            format!("{name} is to wait for {count} CUDA threads, which are not whole warps"),
        ),
        BarrierRule::CountsDiffer { needed, count } => error(
            &rules::D12,
            format!(
                "{name} waits for {needed} CUDA threads, but one that arrives says it is {count}"
            ),
        )
        .hint("everyone who uses a named barrier at the same time has to give one count"),
        BarrierRule::TooManyThreads { arrived, threads, needed } => error(
            &rules::D12,
            format!(
                "{threads} CUDA threads arrive on {name}, which takes {needed} and has {arrived}"
            ),
        ),
        BarrierRule::PendingAtEnd { arrived, needed } => error(
            &rules::D8,
            format!(
                "the scope of {name} ends in the middle of a phase: {arrived} of {needed} arrivals"
            ),
        )
        .missing(format!("{} more arrivals, or fewer before", needed - arrived)),
    }
}

fn deadlocked(program: &Program, deadlock: &Deadlock) -> Words {
    let waiting = deadlock.rows.iter().filter(|r| r.waiting != Waiting::Exited).count();
    let message = match waiting {
        1 => "one thread waits for something that nobody is left to do".to_owned(),
        n => format!("{n} threads wait for each other, or for something that nobody is left to do"),
    };
    let at_semaphore =
        |row: &crate::trap::DeadlockRow| matches!(row.waiting, Waiting::Semaphore { .. });
    let at_barrier = |row: &crate::trap::DeadlockRow| {
        matches!(row.waiting, Waiting::Barrier { .. } | Waiting::Named { .. })
    };
    let rule = match &deadlock.rows {
        _ if deadlock.clusters_waiting > 0 => &rules::E4,
        rows if rows.iter().any(at_semaphore) && !rows.iter().any(at_barrier) => &rules::E3,
        _ => &rules::E1,
    };
    let mut words = Words::new(rule, message);
    let mut missing: Vec<String> = Vec::new();
    for row in deadlock.rows.iter().take(MAX_ROWS) {
        let state = match &row.waiting {
            Waiting::Barrier { barrier, phase, arrived, needed, incomplete } => {
                let name = barrier_name(barrier);
                let lack = needed.saturating_sub(*arrived);
                let text = format!("{lack} of {needed} {} on {name}", plural(*needed, "arrival"));
                if !missing.contains(&text) {
                    missing.push(text);
                }
                let copies = match incomplete {
                    0 => String::new(),
                    n => {
                        format!("; {n} collective {} not issued by every block", plural_copies(*n))
                    }
                };
                format!(
                    "waits on {name} for phase {phase} ({arrived} of {needed} arrivals{copies})"
                )
            }
            Waiting::Named { id, arrived, needed } => {
                let text = format!(
                    "{} of {needed} CUDA threads at named barrier {id}",
                    needed.saturating_sub(*arrived)
                );
                if !missing.contains(&text) {
                    missing.push(text);
                }
                format!("waits at named barrier {id} ({arrived} of {needed} CUDA threads)")
            }
            Waiting::Semaphore { semaphore, held, needed } => {
                let name = barrier_name(semaphore);
                let text = format!("signals of {} on {name}", needed.wrapping_sub(*held));
                if !missing.contains(&text) {
                    missing.push(text);
                }
                format!("waits until semaphore {name} is {needed} (it is {held})")
            }
            Waiting::Warps { running } => {
                format!("waits for its warps ({running} have not ended)")
            }
            Waiting::Peer { barrier } => {
                let name = barrier_name(barrier);
                format!("arrives on {name} of another block, which has not entered that scope")
            }
            Waiting::PeerMemory { name } => {
                format!("uses `{name}` of another block, which has not entered that scope")
            }
            Waiting::Scope { arrived, needed } => {
                format!(
                    "waits for the other threads of its block to enter a scope ({arrived} of {needed})"
                )
            }
            Waiting::End { arrived, needed } => {
                format!(
                    "waits for the threads of its cluster to leave a scope with TMEM of two blocks \
                     ({arrived} of {needed})"
                )
            }
            Waiting::Exited => "has ended".to_owned(),
        };
        let source = row.span.and_then(|span| source_of(program, span));
        words.threads.push(ThreadLine { who: row.who.clone(), source, state });
    }
    if let Some(more) = deadlock.rows.len().checked_sub(MAX_ROWS).filter(|&n| n > 0) {
        words.hint = Some(format!("{more} more threads of these clusters are not listed"));
    }
    if deadlock.clusters_waiting > 0 {
        let waiting = deadlock.clusters_waiting;
        let text = format!(
            "{waiting} more {} waiting to be started, until one that is resident ends; a device holds \
             only so many (`resident_clusters`), and starts them in any order",
            if waiting == 1 { "cluster was" } else { "clusters were" }
        );
        words.hint = Some(words.hint.map_or(text.clone(), |more| format!("{text}; {more}")));
    }
    if !missing.is_empty() {
        words.missing = Some(missing.join(", "));
    }
    words
}

fn phases(n: u64) -> String {
    format!("{n} {}", plural(n as u32, "phase"))
}

fn plural_copies(n: u32) -> &'static str {
    if n == 1 { "copy" } else { "copies" }
}

fn plural(n: u32, word: &str) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}

fn tuple<T: std::fmt::Display>(items: &[T]) -> String {
    match items {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(T::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// A thread.
pub(super) fn who(who: &Who) -> String {
    let mut parts = Vec::new();
    if !who.point.is_empty() {
        parts.push(format!("grid point {}", tuple(&who.point)));
    }
    if !who.block.is_empty() {
        parts.push(format!("block {}", tuple(&who.block)));
    }
    if let Some(thread) = who.thread {
        parts.push(format!("thread {thread}"));
    }
    if let Some(warp) = who.warp {
        parts.push(format!("warp {warp}"));
    }
    if parts.is_empty() { "the only thread".to_owned() } else { parts.join(", ") }
}

/// A source line.
pub(super) fn source(source: &Source) -> String {
    let mut text = format!("{}:{}", source.file, source.line);
    if !source.function.is_empty() {
        text.extend([" in ", &source.function]);
    }
    if let Some(via) = &source.via {
        text.extend([" (through ", via, ")"]);
    }
    text
}

pub(super) fn barrier_name(barrier: &BarrierName) -> String {
    let index: Vec<String> = barrier.index.iter().map(|i| format!("[{i}]")).collect();
    format!("`{}{}`", barrier.name, index.concat())
}

fn extent(e: &Extent) -> String {
    match (e.size, e.stride) {
        (1, _) => e.start.to_string(),
        (n, 1) => format!("{}:{}", e.start, e.start + n as i64),
        (n, stride) => format!("{}:{}:{stride}", e.start, e.start + (n as i64 - 1) * stride + 1),
    }
}

pub(super) fn place_box(place: &Place) -> String {
    let window: Vec<String> = place.window.iter().map(extent).collect();
    match window.as_slice() {
        [] => format!("`{}`", place.name),
        window => format!("`{}[{}]`", place.name, window.join(", ")),
    }
}

/// A box of an array, and the array.
pub(super) fn place(place: &Place) -> String {
    let counted = if place.space == Space::Gmem { "semaphore" } else { "barrier" };
    let what = place.dtype.map_or(counted, |d| d.name());
    let shape: Vec<String> = place.shape.iter().map(ToString::to_string).collect();
    let space = match place.space {
        Space::Gmem => "GMEM",
        Space::Smem => "SMEM",
        Space::Tmem => "TMEM",
        Space::Regs => "registers",
    };
    format!("{} of {what}[{}] in {space}", place_box(place), shape.join(","))
}
