//! All findings of a call, each once.

use super::{Finding, Severity, Source, Suppressed};
use pallas_rs_ir::Options;
use pallas_rs_ir::options::Suppression;

/// Findings with one code and the same lines are one: errors first, then in the order in which they
/// were found. What the options ask not to be reported is only counted.
pub(super) fn merge(options: &Options, findings: Vec<Finding>) -> (Vec<Finding>, Vec<Suppressed>) {
    let mut merged: Vec<Finding> = Vec::new();
    let mut suppressed: Vec<Suppressed> = Vec::new();
    for finding in findings {
        if finding.severity == Severity::Lint && !options.lints {
            continue;
        }
        if !finding.fatal && options.suppress.iter().any(|entry| hides(entry, &finding)) {
            let same = |s: &&mut Suppressed| s.code == finding.code && s.source == finding.source;
            match suppressed.iter_mut().find(same) {
                Some(known) => known.count += finding.count,
                None => suppressed.push(Suppressed {
                    code: finding.code,
                    source: finding.source,
                    count: finding.count,
                }),
            }
            continue;
        }
        match merged.iter_mut().find(|known| is_same(known, &finding)) {
            Some(known) => {
                known.count += finding.count;
                known.seeds.extend(finding.seeds);
                known.seeds.dedup();
            }
            None => merged.push(finding),
        }
    }
    merged.sort_by_key(|f| std::cmp::Reverse(f.severity));
    (merged, suppressed)
}

/// Which array, at which lines.
fn is_same(a: &Finding, b: &Finding) -> bool {
    let name = |f: &Finding| f.place.as_ref().map(|p| p.name.clone());
    let unplaced = a.source.is_none() && a.message != b.message;
    a.code == b.code
        && a.severity == b.severity
        && a.source == b.source
        && !unplaced
        && name(a) == name(b)
        && a.threads.iter().map(|t| &t.source).eq(b.threads.iter().map(|t| &t.source))
}

fn hides(entry: &Suppression, finding: &Finding) -> bool {
    if entry.code != finding.code {
        return false;
    }
    let Some((file, line)) = &entry.at else { return true };
    let there = |source: &Source| source.line == *line && is_file(&source.file, file);
    finding.source.iter().chain(finding.threads.iter().filter_map(|t| t.source.as_ref())).any(there)
}

/// Whether a path ends in what the user calls the file.
fn is_file(path: &str, file: &str) -> bool {
    path.strip_suffix(file).is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
}
