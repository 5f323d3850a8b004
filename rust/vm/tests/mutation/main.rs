//! Wrong kernels made from right ones: each mutant is found, or is as right as the original.
//!
//! The programs are those of `tests/wrong/kernels.py`. A mutant is one change of one synchronisation:
//! left out, moved one op later, waiting for one group less, taking the next slot. Its label says
//! which rules it breaks, or that it is *equivalent*: then its results are those of the original
//! under every schedule. Labels are in `labels/`; where a change of one is meant, delete the file and
//! run this again, and read the diff.

#[path = "../common/mod.rs"]
mod common;
mod mutate;

use common::{Array, run};
use mutate::{Mutant, mutants};
use pallas_rs_core::DType;
use pallas_rs_ir::{Binding, GridDim, Program};
use pallas_rs_vm::report::Severity;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Schedules per mutant.
const SEEDS: u32 = 20;
/// Workers with which a mutant runs: it gets the same verdict from each number.
const WORKERS: [u32; 3] = [1, 2, 4];
/// Rounds after which a loop is taken for endless: enough for every right one.
const MAX_STEPS: u64 = 100_000;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn kernels() -> Vec<(String, Program)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder("../../tests/wrong/programs"))
        .expect("the programs are there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).expect("a readable file");
            let mut program = pallas_rs_ir::parse(&text).expect("a program");
            let Program { options, .. } = &mut program;
            (options.detect_races, options.seeds) = (true, SEEDS);
            options.max_steps = Some(MAX_STEPS);
            // Others are left to be stolen.
            options.resident_clusters = Some(1);
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, program)
        })
        .collect()
}

/// Small numbers, so that sums are exact; group ends where integers are asked for.
fn operands(program: &Program) -> Vec<Array> {
    let mut operands: Vec<(usize, Array)> = Vec::new();
    for arg in &program.args {
        let Binding::Operand(index) = arg.binding else { continue };
        let len: usize = arg.shape.iter().product();
        let mut bytes = Vec::new();
        for i in 0..len {
            let number = (i * 7 % 5) as f32 - 2.0;
            match arg.dtype {
                DType::F32 => bytes.extend(number.to_le_bytes()),
                DType::F16 => bytes.extend(half(number).to_le_bytes()),
                DType::I32 => bytes.extend([64i32, 64, 256][i % 3].to_le_bytes()),
                other => panic!("no numbers of type {other:?}"),
            }
        }
        operands.push((index, Array(arg.dtype, bytes)));
    }
    assert!(program.grid.iter().all(|dim| matches!(dim, GridDim::Static(_))));
    operands.sort_by_key(|(index, _)| *index);
    operands.into_iter().map(|(_, array)| array).collect()
}

/// -2, -1, 0, 1 or 2 as f16.
fn half(x: f32) -> u16 {
    let magnitude = [0, 0x3c00, 0x4000][x.abs() as usize];
    magnitude | if x < 0.0 { 0x8000 } else { 0 }
}

/// What is found, by seed; the results if nothing is.
#[derive(Debug, PartialEq)]
struct Verdict {
    codes: Vec<&'static str>,
    /// Schedules in which something was found.
    seeds: usize,
    results: Vec<Vec<u8>>,
}

fn verdict(program: &Program) -> Verdict {
    let [one, others @ ..] = WORKERS.map(|workers| verdict_of(program, workers));
    for other in &others {
        assert_eq!(*other, one, "the verdict depends on the number of workers");
    }
    one
}

fn verdict_of(program: &Program, workers: u32) -> Verdict {
    let mut program = program.clone();
    program.options.num_workers = Some(workers);
    let operands = operands(&program);
    let ran = run(program, &operands);
    let serious = |f: &&pallas_rs_vm::report::Finding| f.severity != Severity::Lint;
    let mut codes: Vec<&str> = ran.report.findings.iter().filter(serious).map(|f| f.code).collect();
    let mut seeds: Vec<u64> =
        ran.report.findings.iter().filter(serious).flat_map(|f| f.seeds.clone()).collect();
    codes.sort_unstable();
    codes.dedup();
    seeds.sort_unstable();
    seeds.dedup();
    Verdict { codes, seeds: seeds.len(), results: ran.results }
}

/// Judges mutants and returns their labels, one a line.
fn label(original: &Program, mutants: &[Mutant]) -> String {
    let right = verdict(original);
    assert_eq!(right.codes, Vec::<&str>::new(), "the original is wrong");
    let mut labels = String::new();
    for mutant in mutants {
        let found = verdict(&mutant.program);
        let what = if found.codes.is_empty() {
            assert!(found.results == right.results, "missed: {}", mutant.name);
            "equivalent".to_owned()
        } else {
            assert_eq!(
                found.seeds, SEEDS as usize,
                "only in some schedules: {} {:?}",
                mutant.name, found.codes
            );
            // Which of several follows from which depends on the schedule; that there is one does not.
            found.codes.join(" ")
        };
        writeln!(labels, "{}: {what}", mutant.name).expect("a string");
    }
    labels
}

fn check(every: usize) {
    let mut different = Vec::new();
    for (name, program) in kernels() {
        let all = mutants(&program);
        let path = folder("tests/mutation/labels").join(format!("{name}.txt"));
        let Ok(known) = std::fs::read_to_string(&path) else {
            std::fs::write(&path, label(&program, &all)).expect("a writable folder");
            different.push(format!("wrote {}: read it, then run this again", path.display()));
            continue;
        };
        assert_eq!(known.lines().count(), all.len(), "{name}: the mutants have changed");
        let sample = |i: &usize| i.is_multiple_of(every);
        let chosen: Vec<Mutant> =
            all.into_iter().enumerate().filter(|(i, _)| sample(i)).map(|(_, m)| m).collect();
        let expected: Vec<&str> =
            known.lines().enumerate().filter(|(i, _)| sample(i)).map(|(_, l)| l).collect();
        let found = label(&program, &chosen);
        for (expected, found) in expected.iter().zip(found.lines()) {
            if *expected != found {
                different.push(format!("{name}: expected {expected}\n  found {found}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn a_sample_of_mutants_is_found() {
    check(5);
}

#[test]
#[ignore = "takes minutes"]
fn every_mutant_is_found() {
    check(1);
}
