//! The lines of a log.

use super::races::{barrier_words, engine, place, who as who_at};
use super::words;
use crate::log::{Event, Log, MAX_EVENTS};
use crate::observer::{AccessKind, SemaphoreId};
use crate::race::{FlatWindow, Memory};
use pallas_rs_ir::Program;

/// One line for each event: what happened, in which thread, at which line.
pub(crate) fn lines(program: &Program, bounds: &[u64], log: &Log) -> Vec<String> {
    let mut lines: Vec<String> = (log.events.iter())
        .map(|(at, event)| {
            let who = words::who(&who_at(program, bounds, *at));
            let source = super::source(program, at.span)
                .map(|source| format!(", at {}", words::source(&source)))
                .unwrap_or_default();
            format!("{}: {who}: {}{source}", program.name, sentence(program, event))
        })
        .collect();
    if log.left_out > 0 {
        lines.push(format!(
            "{}: {} more events are not shown: a log holds {MAX_EVENTS}",
            program.name, log.left_out
        ));
    }
    lines
}

fn sentence(program: &Program, event: &Event) -> String {
    match event {
        Event::Begin(memory) => format!("{} begins", name(program, *memory)),
        Event::End(memory) => format!("{} ends", name(program, *memory)),
        Event::Arrive { barrier, phase, completes } => {
            let barrier = barrier_words(program, *barrier);
            let what = if *completes { "completes" } else { "arrives in" };
            format!("{what} phase {phase} of {barrier}")
        }
        Event::Wait { barrier, phase } => {
            format!("has waited for phase {phase} of {}", barrier_words(program, *barrier))
        }
        Event::Signal(id) => format!("signals {}", semaphore(program, *id)),
        Event::Acquire(id) => format!("has waited for {}", semaphore(program, *id)),
        Event::Access { kind, memory, window } => {
            let what = match kind {
                AccessKind::Read => "reads",
                AccessKind::Write => "writes",
                AccessKind::Atomic => "updates",
            };
            format!("{what} {}", box_of(program, *memory, window))
        }
        Event::Issue { engine: e, reads, writes } => {
            let list = |windows: &[(Memory, FlatWindow)]| -> String {
                let boxes: Vec<String> = windows
                    .iter()
                    .map(|(memory, window)| box_of(program, *memory, window))
                    .collect();
                boxes.join(", ")
            };
            let mut text = format!("issues {}", engine(*e));
            for (label, windows) in [(" that reads ", reads), (" and writes ", writes)] {
                if !windows.is_empty() {
                    text.extend([label, &list(windows)]);
                }
            }
            text
        }
    }
}

fn name(program: &Program, memory: Memory) -> String {
    let place = place(program, memory, None);
    match place.dtype {
        Some(_) => words::place(&place),
        None => format!("barrier `{}`", place.name),
    }
}

fn box_of(program: &Program, memory: Memory, window: &FlatWindow) -> String {
    words::place_box(&place(program, memory, Some(window)))
}

fn semaphore(program: &Program, id: SemaphoreId) -> String {
    match (id.owner, program.args.get(id.base as usize)) {
        (None, Some(arg)) => format!("semaphore `{}[{}]`", arg.name, id.index),
        _ => format!("semaphore {} of its allocation", id.index),
    }
}
