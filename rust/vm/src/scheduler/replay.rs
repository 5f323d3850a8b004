//! Writing a schedule down, and following one.
//!
//! A schedule is a list of turns, `slot` or `slot:points` where the thread was made to give way after
//! so many scheduling points, with `*n` behind a turn that occurs `n` times in a row:
//! `0,1:3,0*2`.

use super::{Ready, Scheduler, Slot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    slot: Slot,
    /// Scheduling points passed before it was made to give way.
    gave_way_after: Option<u64>,
}

/// Notes what another scheduler decides.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Recorder<S> {
    inner: S,
    turns: Vec<(Choice, u64)>,
    current: Option<Choice>,
    points: u64,
}

#[cfg(test)]
impl<S: Scheduler> Recorder<S> {
    /// Wraps a scheduler.
    pub(crate) fn new(inner: S) -> Self {
        Recorder { inner, turns: Vec::new(), current: None, points: 0 }
    }

    fn flush(&mut self) {
        if let Some(turn) = self.current.take() {
            match self.turns.last_mut() {
                Some((last, n)) if *last == turn => *n += 1,
                _ => self.turns.push((turn, 1)),
            }
        }
    }

    /// What was decided so far.
    pub(crate) fn text(&mut self) -> String {
        use std::fmt::Write as _;

        self.flush();
        let mut text = String::new();
        for (turn, n) in &self.turns {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{}", turn.slot);
            if let Some(points) = turn.gave_way_after {
                let _ = write!(text, ":{points}");
            }
            if *n > 1 {
                let _ = write!(text, "*{n}");
            }
        }
        text
    }
}

#[cfg(test)]
impl<S: Scheduler> Scheduler for Recorder<S> {
    fn next(&mut self, ready: &Ready) -> Slot {
        self.flush();
        let slot = self.inner.next(ready);
        self.current = Some(Choice { slot, gave_way_after: None });
        self.points = 0;
        slot
    }

    fn preempts(&mut self) -> bool {
        self.points += 1;
        let gives_way = self.inner.preempts();
        if gives_way && let Some(turn) = &mut self.current {
            turn.gave_way_after = Some(self.points);
        }
        gives_way
    }

    fn preemptive(&self) -> bool {
        self.inner.preemptive()
    }

    fn started(&mut self, slot: Slot) {
        self.inner.started(slot);
    }

    fn yielded(&mut self, slot: Slot) {
        self.inner.yielded(slot);
    }
}

/// Follows a schedule as far as it goes, then goes round robin.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The next turn last.
    turns: Vec<(Choice, u64)>,
    current: Option<Choice>,
    points: u64,
    after: super::RoundRobin,
}

impl Replay {
    /// Parses a schedule.
    ///
    /// # Errors
    /// The turn that makes no sense.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut turns = Vec::new();
        for turn in text.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            let bad = || turn.to_owned();
            let (choice, n) = turn.split_once('*').unwrap_or((turn, "1"));
            let (slot, points) = match choice.split_once(':') {
                Some((slot, points)) => (slot, Some(points.parse().map_err(|_| bad())?)),
                None => (choice, None),
            };
            let slot = slot.parse().map_err(|_| bad())?;
            let choice = Choice { slot, gave_way_after: points };
            turns.push((choice, n.parse().map_err(|_| bad())?));
        }
        turns.reverse();
        Ok(Replay { turns, current: None, points: 0, after: super::RoundRobin::default() })
    }
}

impl Scheduler for Replay {
    fn next(&mut self, ready: &Ready) -> Slot {
        self.points = 0;
        self.current = None;
        while let Some((choice, n)) = self.turns.last_mut() {
            let choice = *choice;
            *n = n.saturating_sub(1);
            if *n == 0 {
                self.turns.pop();
            }
            if ready.live().contains(&choice.slot) && ready.is_ready(choice.slot) {
                self.current = Some(choice);
                return choice.slot;
            }
        }
        self.after.next(ready)
    }

    fn preempts(&mut self) -> bool {
        self.points += 1;
        self.current.is_some_and(|turn| turn.gave_way_after == Some(self.points))
    }

    fn preemptive(&self) -> bool {
        true
    }
}
