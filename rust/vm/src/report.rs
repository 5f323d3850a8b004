//! Words for people: the only place that makes prose of what happened in a run.
//!
//! A [`Finding`] is one thing that is wrong, its text and its fields; a [`Report`] is everything one
//! call had to say. The first line of a text is `pallas_rs.<Class>[<code>]: <one sentence>`, the last
//! one says how to see it again.

mod garbage;
mod lanes;
pub(crate) mod log;
mod merge;
mod races;
mod schedule;
mod words;

use serde::Serialize;

use crate::scheduler::{Schedule, is_choice_free};
use crate::stats::Stats;
use crate::trap::{Place, Trap, TrapKind, Who};
use pallas_rs_ir::options::LeftOut;
use pallas_rs_ir::{Program, SpanId};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; only told on request.
    Lint,
    /// The run goes on.
    Warning,
    /// The run fails.
    Error,
}

/// A line of the user's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function.
    pub function: String,
    /// The JAX helper that made the op.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// A thread in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadLine {
    /// The thread.
    pub who: Who,
    /// Where it stands.
    pub source: Option<Source>,
    /// What it does.
    pub state: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `PRS-H1`.
    pub code: &'static str,
    /// The Python class it is raised as.
    pub class: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Name of the kernel.
    pub kernel: String,
    /// One sentence.
    pub message: String,
    /// In which thread.
    pub who: Option<Who>,
    /// At which line.
    pub source: Option<Source>,
    /// Which box of which array.
    pub place: Option<Place>,
    /// Other threads that matter.
    pub threads: Vec<ThreadLine>,
    /// What is missing.
    pub missing: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// All sides of a race wrote the same value.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_value: bool,
    /// Whether it stopped the run, so that there is no result.
    #[serde(skip)]
    pub fatal: bool,
    /// Seed of the first run in which it occurred.
    pub seed: u64,
    /// Seeds of the runs in which it occurred.
    pub seeds: Vec<u64>,
    /// How to see it again.
    pub replay: String,
    /// How often it occurred.
    pub count: u64,
}

/// Outcome of a call, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing to say.
    Clean,
    /// Something to say.
    Findings,
    /// The run failed.
    Failed,
    /// Something was left out.
    Incomplete,
}

/// Which schedules the verdict covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// All there are.
    All,
    /// The one that ran.
    One,
    /// As many as were asked for.
    Sampled,
}

/// Everything a call had to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Name of the kernel.
    pub kernel: String,
    /// In one word.
    pub verdict: Verdict,
    /// Schedules covered.
    pub schedules: Coverage,
    /// Number of schedules run.
    pub runs: u32,
    /// What was found, errors first.
    #[serde(serialize_with = "with_texts")]
    pub findings: Vec<Finding>,
    /// Findings that were asked not to be reported.
    pub suppressed: Vec<Suppressed>,
    /// Counters.
    pub stats: Stats,
    /// The file that holds the timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

/// Findings that were asked not to be reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suppressed {
    /// `PRS-B2`.
    pub code: &'static str,
    /// At which line.
    pub source: Option<Source>,
    /// How often it occurred.
    pub count: u64,
}

impl Report {
    /// The report of a call.
    pub fn new(program: &Program, runs: u32, findings: Vec<Finding>, stats: Stats) -> Report {
        let (findings, suppressed) = merge::merge(&program.options, findings);
        let verdict = match findings.first().map(|f| f.severity) {
            Some(Severity::Error) => Verdict::Failed,
            _ if !program.options.left_out.is_empty() => Verdict::Incomplete,
            Some(Severity::Warning) => Verdict::Findings,
            Some(Severity::Lint) | None => Verdict::Clean,
        };
        let silent = verdict == Verdict::Clean && suppressed.is_empty();
        let schedules = match runs {
            1.. if program.options.detect_races && silent && is_choice_free(program) => {
                Coverage::All
            }
            2.. => Coverage::Sampled,
            _ => Coverage::One,
        };
        Report {
            kernel: program.name.clone(),
            verdict,
            schedules,
            runs,
            findings,
            suppressed,
            stats,
            trace: program.options.trace.clone(),
        }
    }

    /// The text of the failure, if the call failed: its first error, and how many more there are.
    pub fn failure(&self) -> Option<String> {
        let first = self.findings.first().filter(|f| f.severity == Severity::Error)?;
        let mut text = first.text();
        let more = self.findings.len() - 1;
        if more > 0 {
            let s = if more == 1 { "" } else { "s" };
            let at = text.rfind("\nreplay:").map_or(text.len(), |at| at + 1);
            text.insert_str(at, &format!("  also     {more} other finding{s} in last_report()\n"));
        }
        Some(text)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report is plain data")
    }
}

impl Finding {
    /// What a trap means.
    pub(crate) fn from_trap(program: &Program, schedule: &Schedule, trap: &Trap) -> Finding {
        let words = words::of(program, &trap.kind);
        let place = match &trap.kind {
            TrapKind::OutOfBounds { place, .. } | TrapKind::Uninitialized { place } => {
                Some(place.clone())
            }
            _ => None,
        };
        Finding {
            code: words.rule.code,
            class: words.class,
            severity: Severity::Error,
            kernel: program.name.clone(),
            message: words.message,
            who: trap.who.clone(),
            source: trap.span.and_then(|span| source(program, span)),
            place,
            threads: words.threads,
            missing: words.missing,
            hint: words.hint,
            same_value: false,
            fatal: true,
            seed: schedule.seed,
            seeds: vec![schedule.seed],
            replay: schedule::replay(&program.options, schedule),
            count: 1,
        }
    }

    /// Something was left out of the run.
    pub(crate) fn from_gap(program: &Program, schedule: &Schedule, gap: &LeftOut) -> Finding {
        let message = format!("{} was left out", gap.what);
        Finding {
            source: source(program, gap.span),
            hint: Some("what it returns is unwritten memory".to_owned()),
            ..garbage::finding(program, schedule, &crate::rules::L4, message)
        }
    }

    /// The text: what XLA hands on, and what a person reads.
    pub fn text(&self) -> String {
        let mut text = format!("pallas_rs.{}[{}]: {}\n", self.class, self.code, self.message);
        let mut line = |label: &str, value: &str| {
            text.extend(["  ", label, &" ".repeat(9 - label.len().min(8)), value, "\n"]);
        };
        line("kernel", &self.kernel);
        if let Some(who) = &self.who {
            line("who", &words::who(who));
        }
        if let Some(source) = &self.source {
            line("line", &words::source(source));
        }
        if let Some(place) = &self.place {
            line("array", &words::place(place));
        }
        for thread in &self.threads {
            let at = thread.source.as_ref().map(|s| format!(", at {}", words::source(s)));
            let who = words::who(&thread.who);
            line("thread", &format!("{who}: {}{}", thread.state, at.unwrap_or_default()));
        }
        if let Some(missing) = &self.missing {
            line("missing", missing);
        }
        if let Some(hint) = &self.hint {
            line("hint", hint);
        }
        if self.count > 1 || self.seeds.len() > 1 {
            let runs = match self.seeds.len() {
                1 => String::new(),
                n => format!(", in {n} schedules"),
            };
            line("count", &format!("{}{runs}", self.count));
        }
        text.extend(["replay: ", &self.replay]);
        text
    }
}

pub use schedule::Differs;

fn with_texts<S: serde::Serializer>(
    findings: &[Finding],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithText<'a> {
        text: String,
        #[serde(flatten)]
        finding: &'a Finding,
    }
    serializer
        .collect_seq(findings.iter().map(|finding| WithText { text: finding.text(), finding }))
}

fn source(program: &Program, span: SpanId) -> Option<Source> {
    let span = program.spans.get(span.0 as usize).filter(|s| s.line > 0)?;
    Some(Source {
        file: span.file.clone(),
        line: span.line,
        function: span.function.clone(),
        via: span.via.clone(),
    })
}

#[cfg(test)]
mod tests;
