//! The rules a kernel can break: the one list of codes, severities and explanations.
//!
//! A finding names a rule, so a code that is not here cannot be reported. From the same list come
//! `docs/rules.md` and what the command line explains. Rules that no run can break here are listed
//! too, with the reason: a reader who looks for one shall find it.
//!
//! # Sources
//! PTX ISA 9.1 by section, the Pallas Mosaic GPU reference, and the CUDA programming guide.

mod barriers;
mod bounds;
mod completion;
mod inline;
mod memory;
mod numerics;
mod progress;
mod proxies;
mod races;
mod resources;
mod run;

pub use barriers::*;
pub use bounds::*;
pub use completion::*;
pub use inline::*;
pub use memory::*;
pub use numerics::*;
pub use progress::*;
pub use proxies::*;
pub use races::*;
pub use resources::*;
pub use run::*;

use crate::report::Severity;
use serde::Serialize;

/// When a rule is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// In every run.
    Always,
    /// While the kernel is lowered or its arguments are looked at.
    Lowering,
    /// With `detect_races=True`.
    Races,
    /// With `uninitialized_reads="warn"` or `"raise"`.
    Uninitialized,
    /// Before the first op, with `limits="check"`.
    Limits,
    /// With `seeds=N`.
    Seeds,
    /// With `lints=True`.
    Lints,
    /// Nowhere: the explanation says why.
    Never,
}

/// A rule.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// `PRS-A1`.
    pub code: &'static str,
    /// What goes wrong, in a few words.
    pub title: &'static str,
    /// How bad it is unless options say otherwise.
    pub severity: Severity,
    /// The Python class it is raised as.
    pub class: &'static str,
    /// When it is checked.
    pub checked: Checked,
    /// Where the rule comes from.
    pub source: &'static str,
    /// Why it matters, and how the check works.
    pub explanation: &'static str,
    /// Code that breaks it.
    pub bad: &'static str,
    /// The same code put right.
    pub good: &'static str,
}

/// Declares the rules of a family: a static each, and the list of them.
macro_rules! rules {
    ($list:ident: $(
        $id:ident $severity:ident $checked:ident $class:ident = $title:literal,
        $source:literal, $explanation:literal, $bad:literal => $good:literal;
    )*) => {
        $(
            #[doc = $title]
            pub static $id: $crate::rules::Rule = $crate::rules::Rule {
                code: concat!("PRS-", stringify!($id)),
                title: $title,
                severity: $crate::report::Severity::$severity,
                class: stringify!($class),
                checked: $crate::rules::Checked::$checked,
                source: $source,
                explanation: $explanation,
                bad: $bad,
                good: $good,
            };
        )*
        pub(super) static $list: &[&$crate::rules::Rule] = &[$(&$id),*];
    };
}
use rules;

/// The families, in the order of their letters.
const FAMILIES: &[(&str, &[&Rule])] = &[
    ("Races", RACES),
    ("Asynchronous proxy", PROXIES),
    ("Asynchronous completion", COMPLETION),
    ("Barriers", BARRIERS),
    ("Progress", PROGRESS),
    ("Lifetime and initialisation", MEMORY_RULES),
    ("Bounds", BOUNDS),
    ("Resources and legality", RESOURCES),
    ("Numerics, determinism and lints", NUMERICS),
    ("Inline bodies", INLINE),
    ("The run itself", RUN),
];

/// All rules.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().flat_map(|(_, rules)| rules.iter().copied())
}

/// The rule with this code, with or without `PRS-`.
pub fn find(code: &str) -> Option<&'static Rule> {
    let bare = code.strip_prefix("PRS-").unwrap_or(code);
    all().find(|rule| rule.code["PRS-".len()..].eq_ignore_ascii_case(bare))
}

/// All rules as JSON.
pub fn to_json() -> String {
    serde_json::to_string(&all().collect::<Vec<_>>()).expect("rules are plain data")
}

/// All rules as a page.
pub fn to_markdown() -> String {
    let mut page = String::from(
        "# Rules\n\nGenerated from `rust/vm/src/rules`: `cargo run -p pallas_rs_vm --example rules`.\n",
    );
    for (family, rules) in FAMILIES {
        page.extend(["\n## ", family, "\n"]);
        for rule in *rules {
            page.extend(["\n### ", rule.code, ": ", rule.title, "\n\n"]);
            page.extend([severity_word(rule.severity), ", ", checked_words(rule.checked)]);
            page.extend([". Source: ", rule.source, ".\n\n", rule.explanation, "\n"]);
            for (word, code) in [("Wrong", rule.bad), ("Right", rule.good)] {
                if !code.is_empty() {
                    page.extend(["\n", word, ":\n\n```python\n", code, "\n```\n"]);
                }
            }
        }
    }
    page
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
        Severity::Lint => "Lint",
    }
}

fn checked_words(checked: Checked) -> &'static str {
    match checked {
        Checked::Always => "checked in every run",
        Checked::Lowering => "checked when the kernel is lowered",
        Checked::Races => "checked with `detect_races=True`",
        Checked::Uninitialized => "checked with `uninitialized_reads=\"warn\"` or `\"raise\"`",
        Checked::Limits => "checked before the run with `limits=\"check\"`",
        Checked::Seeds => "checked with `seeds=N`",
        Checked::Lints => "checked with `lints=True`",
        Checked::Never => "not checked",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_found() {
        for rule in all() {
            assert_eq!(all().filter(|other| other.code == rule.code).count(), 1, "{}", rule.code);
            assert_eq!(find(&rule.code.to_lowercase()["prs-".len()..]), Some(rule));
        }
    }

    #[test]
    fn every_rule_says_why_and_shows_both_sides() {
        for rule in all() {
            assert!(rule.explanation.len() > 25 && !rule.source.is_empty(), "{}", rule.code);
            assert_eq!(rule.bad.is_empty(), rule.good.is_empty(), "{}", rule.code);
            let checked = rule.checked != Checked::Never;
            let says_enough = ["PRS-CHECK", "PRS-HOST", "PRS-INTERRUPTED"].contains(&rule.code);
            assert_eq!(!rule.bad.is_empty(), checked && !says_enough, "{}", rule.code);
            assert!(rule.bad.is_empty() || rule.bad != rule.good, "{}", rule.code);
        }
    }

    #[test]
    fn the_page_is_up_to_date() {
        let page = include_str!("../../../../docs/rules.md");
        assert!(page == to_markdown(), "run `cargo run -p pallas_rs_vm --example rules`");
    }
}
