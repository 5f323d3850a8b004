use super::*;
use crate::trap::{
    Access, BarrierName, BarrierRule, Deadlock, DeadlockRow, Extent, GridFault, Limit, Place,
    Waiting,
};
use pallas_rs_core::DType;
use pallas_rs_ir::builder::Builder;
use pallas_rs_ir::options::{AsyncCompletion, Schedule as Strategy, WorkStealing};
use pallas_rs_ir::{Options, Space};

fn program() -> Program {
    let mut b = Builder::new("add_one");
    let x = b.input("x_ref", DType::F32, &[8, 4]);
    let o = b.output("o_ref", DType::F32, &[8, 4]);
    let v = b.at(12).load(x);
    b.at(13).store(o, v);
    b.finish()
}

fn schedule() -> Schedule {
    Schedule::first(&Options::default())
}

fn line(program: &Program, line: u32) -> Option<SpanId> {
    program.spans.iter().position(|s| s.line == line).map(|i| SpanId(i as u32))
}

fn text(kind: TrapKind) -> String {
    let program = program();
    let who = Who { point: vec![3, 0], block: vec![], thread: Some(1), warp: None };
    let trap = Trap { kind, span: line(&program, 12), who: Some(who) };
    Finding::from_trap(&program, &schedule(), &trap).text()
}

fn first_line(kind: TrapKind) -> String {
    text(kind).lines().next().unwrap().to_owned()
}

fn place() -> Place {
    Place {
        name: "x_ref".to_owned(),
        space: Space::Gmem,
        dtype: Some(DType::F32),
        shape: vec![8, 4],
        window: vec![
            Extent { start: 6, size: 4, stride: 1 },
            Extent { start: 0, size: 2, stride: 2 },
        ],
    }
}

fn barrier() -> BarrierName {
    BarrierName { name: "full".to_owned(), index: vec![1] }
}

#[test]
fn an_access_outside() {
    let out = TrapKind::OutOfBounds { access: Access::Read, place: place() };
    let expected = "\
pallas_rs.OutOfBoundsError[PRS-H1]: a read leaves `x_ref` at 6:10 of dimension 0 of size 8
  kernel   add_one
  who      grid point (3, 0), thread 1
  line     kernel.py:12 in add_one
  array    `x_ref[6:10, 0:3:2]` of float32[8,4] in GMEM
  hint     mask the access, or guard it with `pl.when`; only TMA copies may reach past an array
replay: Params()";
    assert_eq!(text(out), expected);
}

#[test]
fn a_deadlock() {
    let program = program();
    let row = |thread, line_number, waiting| DeadlockRow {
        who: Who { point: vec![0], block: vec![1], thread: Some(thread), warp: None },
        span: line(&program, line_number),
        waiting,
    };
    let waits = |name: &str, phase, arrived| Waiting::Barrier {
        barrier: BarrierName { name: name.to_owned(), index: vec![] },
        phase,
        arrived,
        needed: 2,
        incomplete: 0,
    };
    let rows = vec![
        row(0, 12, waits("empty", 3, 1)),
        row(1, 13, waits("full", 0, 0)),
        row(2, 99, Waiting::Exited),
    ];
    let kind = TrapKind::Deadlock(Deadlock { rows, clusters_finished: 0, clusters_waiting: 0 });
    let finding = Finding::from_trap(&program, &schedule(), &kind.into());
    let expected = "\
pallas_rs.DeadlockError[PRS-E1]: 2 threads wait for each other, or for something that nobody is left to do
  kernel   add_one
  thread   grid point (0,), block (1,), thread 0: waits on `empty` for phase 3 (1 of 2 arrivals), at kernel.py:12 in add_one
  thread   grid point (0,), block (1,), thread 1: waits on `full` for phase 0 (0 of 2 arrivals), at kernel.py:13 in add_one
  thread   grid point (0,), block (1,), thread 2: has ended
  missing  1 of 2 arrivals on `empty`, 2 of 2 arrivals on `full`
replay: Params()";
    assert_eq!(finding.text(), expected);
}

#[test]
fn barrier_rules() {
    let of = |rule| first_line(TrapKind::Barrier { barrier: barrier(), rule });
    assert_eq!(
        of(BarrierRule::Unobserved { phase: 1 }),
        "pallas_rs.BarrierError[PRS-D1]: phase 1 of `full[1]` completed, but no thread had observed \
         phase 0"
    );
    assert_eq!(
        of(BarrierRule::Missed { thread: 2, observed: 1, phase: 3 }),
        "pallas_rs.BarrierError[PRS-D2]: phase 3 of `full[1]` completed, but thread 2 of the block has \
         only observed 1 phase"
    );
    assert_eq!(
        of(BarrierRule::Late { awaited: 0, completed: 2, first: true }),
        "pallas_rs.BarrierError[PRS-D3]: a thread waits on `full[1]` for the first time, for phase 0, \
         when 2 phases are complete already"
    );
    assert_eq!(
        of(BarrierRule::TooManyArrivals { arrived: 0, in_flight: 1, needed: 1 }),
        "pallas_rs.BarrierError[PRS-D4]: one arrival too many on `full[1]`: a phase needs 1, and there \
         are 0 and 1 copy in flight"
    );
    assert_eq!(
        of(BarrierRule::PendingAtEnd { arrived: 1, needed: 2 }),
        "pallas_rs.BarrierError[PRS-D8]: the scope of `full[1]` ends in the middle of a phase: 1 of 2 \
         arrivals"
    );
    assert_eq!(
        of(BarrierRule::PeerEnded { block: 1 }),
        "pallas_rs.BarrierError[PRS-D14]: an arrival on `full[1]` of block 1 of the cluster, which has \
         left its scope"
    );
}

#[test]
fn first_lines() {
    let expected = [
        (
            TrapKind::InvalidGrid { axis: 0, name: None, value: -3, fault: GridFault::Negative },
            "pallas_rs.InvalidGridError[PRS-I7]: grid dimension 0 is -3: a grid has no negative bounds",
        ),
        (
            TrapKind::Resource {
                limit: Limit::Smem,
                needed: 4 << 20,
                available: 232448,
                target: "h100".to_owned(),
                users: Vec::new(),
            },
            "pallas_rs.ResourceError[PRS-I1]: the kernel needs 4194304 bytes of the SMEM of a block; \
             h100 has 232448 bytes",
        ),
        (
            TrapKind::DivisionByZero { remainder: true },
            "pallas_rs.ArithmeticFaultError[PRS-J2]: an integer remainder by zero",
        ),
        (
            TrapKind::Uninitialized { place: place() },
            "pallas_rs.UninitializedReadError[PRS-G1]: `x_ref` is read before it is written",
        ),
        (
            TrapKind::Check { message: "x > 0".to_owned() },
            "pallas_rs.KernelError[PRS-CHECK]: a check in the kernel failed: x > 0",
        ),
        (
            TrapKind::StepLimit { limit: 100 },
            "pallas_rs.DeadlockError[PRS-E2]: the run did not end within 100 steps",
        ),
        (
            TrapKind::Internal { message: "no such register".to_owned() },
            "pallas_rs.InternalError[PRS-BUG]: a bug in pallas_rs: no such register",
        ),
        (
            TrapKind::OutOfBounds { access: Access::TmaStore, place: place() },
            "pallas_rs.OutOfBoundsError[PRS-H5]: a TMA store that starts before its array leaves \
             `x_ref` at 6:10 of dimension 0 of size 8",
        ),
    ];
    for (kind, line) in expected {
        assert_eq!(first_line(kind), line);
    }
}

#[test]
fn replay_names_what_is_not_the_default() {
    let drawn = Schedule {
        seed: 7,
        strategy: Strategy::Pct(3),
        completion: AsyncCompletion::Random,
        work_stealing: WorkStealing::First,
    };
    let finding = Finding::from_trap(&program(), &drawn, &TrapKind::Interrupted.into());
    assert_eq!(
        finding.text().lines().last().unwrap(),
        "replay: Params(seed=7, schedule=\"pct:3\", async_completion=\"random\")"
    );
}

#[test]
fn a_report_counts_what_is_the_same_and_puts_errors_first() {
    let program = program();
    let trap = Trap::from(TrapKind::DivisionByZero { remainder: false });
    let error = Finding::from_trap(&program, &schedule(), &trap);
    let warning = Finding { severity: Severity::Warning, code: "PRS-B2", ..error.clone() };
    let findings = vec![warning, error.clone(), error];
    let report = Report::new(&program, 3, findings, Stats::default());
    assert_eq!((report.verdict, report.schedules), (Verdict::Failed, Coverage::Sampled));
    assert_eq!((report.findings.len(), report.findings[0].count), (2, 2));
    let failure = report.failure().unwrap();
    assert!(
        failure.ends_with("  also     1 other finding in last_report()\nreplay: Params()"),
        "{failure}"
    );
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["verdict"], "failed");
    assert_eq!(json["findings"][0]["code"], "PRS-J2");
    assert!(json["findings"][1]["text"].as_str().unwrap().starts_with("pallas_rs."));
    assert_eq!(Report::new(&program, 1, Vec::new(), Stats::default()).failure(), None);
}

#[test]
fn results_that_differ_between_schedules() {
    let program = program();
    let differs = Differs { result: 0, element: 9, bytes: 12 };
    let finding = Finding::from_difference(&program, &schedule(), &differs);
    assert_eq!(finding.severity, Severity::Error);
    assert_eq!(
        finding.message,
        "two schedules of the same call give different results: `o_ref` differs from element [2, 1] \
         on (12 bytes), with seeds 0 and 0"
    );
}

fn options(change: impl FnOnce(&mut Options)) -> Program {
    let mut program = program();
    change(&mut program.options);
    program
}

#[test]
fn a_replay_line_repeats_what_was_watched() {
    let program = options(|o| (o.detect_races, o.resident_clusters) = (true, Some(2)));
    let finding = Finding::from_trap(&program, &schedule(), &TrapKind::Interrupted.into());
    assert_eq!(finding.replay, "Params(detect_races=True, resident_clusters=2)");
}

#[test]
fn what_is_suppressed_is_counted() {
    let at = |line| Some(("dir/kernel.py".to_owned(), line));
    let found = |program: &Program| {
        let trap = Trap {
            kind: TrapKind::DivisionByZero { remainder: false },
            span: line(program, 12),
            who: None,
        };
        let mut finding = Finding::from_trap(program, &schedule(), &trap);
        finding.fatal = false;
        if let Some(source) = &mut finding.source {
            source.file = "some/dir/kernel.py".to_owned();
        }
        Report::new(program, 1, vec![finding.clone(), finding], Stats::default())
    };
    for (entry, hidden) in [
        (("PRS-J2", None), 2),
        (("PRS-J2", at(12)), 2),
        (("PRS-J2", at(13)), 0),
        (("PRS-A1", None), 0),
    ] {
        let suppression =
            pallas_rs_ir::options::Suppression { code: entry.0.to_owned(), at: entry.1 };
        let program = options(|o| o.suppress = vec![suppression]);
        let report = found(&program);
        assert_eq!(report.suppressed.iter().map(|s| s.count).sum::<u64>(), hidden);
        assert_eq!(report.findings.is_empty(), hidden > 0);
    }
}

#[test]
fn one_clean_watched_run_covers_all_schedules() {
    let clean = |program: &Program| Report::new(program, 1, Vec::new(), Stats::default()).schedules;
    assert_eq!(clean(&program()), Coverage::One);
    assert_eq!(clean(&options(|o| o.detect_races = true)), Coverage::All);
}

#[test]
fn a_deadlock_for_want_of_room_says_so() {
    let deadlock = Deadlock { rows: Vec::new(), clusters_finished: 0, clusters_waiting: 3 };
    let text = text(TrapKind::Deadlock(deadlock));
    assert!(text.starts_with("pallas_rs.DeadlockError[PRS-E4]"), "{text}");
    assert!(text.contains("3 more clusters were waiting to be started"), "{text}");
}
