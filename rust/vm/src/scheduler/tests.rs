use super::schedules::schedules_of;
use super::*;
use crate::trap::{Deadlock, TrapKind};
use pallas_rs_ir::Options;

/// What a toy thread does.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Adds to a counter.
    Signal(usize),
    /// Waits until the counter has this value.
    Wait(usize, u32),
    /// Notes its slot.
    Note,
}
use Step::{Note, Signal, Wait};

struct Toy {
    clusters: Vec<Vec<Vec<Step>>>,
    launched: usize,
    threads: Vec<(Vec<Step>, usize)>,
    counters: [u32; 4],
    notes: Vec<Slot>,
}

impl Toy {
    fn new(clusters: &[&[&[Step]]]) -> Toy {
        Toy {
            clusters: clusters.iter().map(|c| c.iter().map(|t| t.to_vec()).collect()).collect(),
            launched: 0,
            threads: Vec::new(),
            counters: [0; 4],
            notes: Vec::new(),
        }
    }
}

impl Crew for Toy {
    fn run(&mut self, slot: Slot, scheduler: &mut dyn Scheduler) -> Result<Turn, Box<Trap>> {
        let (steps, at) = &mut self.threads[slot as usize];
        let mut advanced = false;
        while let Some(step) = steps.get(*at) {
            match *step {
                Signal(counter) => self.counters[counter] += 1,
                Wait(counter, value) if self.counters[counter] < value => {
                    return Ok(Turn::Blocked { advanced });
                }
                Wait(..) => {}
                Note => self.notes.push(slot),
            }
            *at += 1;
            advanced = true;
            if scheduler.preemptive() && scheduler.preempts() {
                return Ok(Turn::Yielded);
            }
        }
        Ok(Turn::Ended)
    }

    fn launch(&mut self, crowd: bool, slots: &mut Vec<Slot>) -> Result<bool, Box<Trap>> {
        if crowd && self.launched == 2 {
            return Ok(false);
        }
        let Some(cluster) = self.clusters.get(self.launched) else { return Ok(false) };
        self.launched += 1;
        for steps in cluster {
            slots.push(self.threads.len() as Slot);
            self.threads.push((steps.clone(), 0));
        }
        Ok(true)
    }

    fn complete(&mut self) -> Result<bool, Box<Trap>> {
        Ok(false)
    }

    fn deadlock(&mut self) -> Box<Trap> {
        TrapKind::Deadlock(Deadlock::default()).into()
    }
}

const PING: &[Step] = &[Note, Signal(0), Wait(1, 1), Note, Signal(0), Wait(1, 2), Note];
const PONG: &[Step] = &[Wait(0, 1), Note, Signal(1), Wait(0, 2), Note, Signal(1)];

#[test]
fn every_strategy_runs_a_correct_crew_the_same_way() {
    let strategies: [Box<dyn Scheduler>; 6] = [
        Box::new(RoundRobin::default()),
        Box::new(Random::new(1)),
        Box::new(Random::new(2)),
        Box::new(Pct::new(1, 3)),
        Box::new(Pct::new(2, 5)),
        Box::new(Replay::parse("1,0:2,1").unwrap()),
    ];
    for mut scheduler in strategies {
        let mut toy = Toy::new(&[&[PING, PONG]]);
        drive(&mut toy, &mut *scheduler).unwrap();
        assert_eq!(toy.notes, [0, 1, 0, 1, 0]);
    }
}

#[test]
fn the_next_cluster_comes_when_the_resident_ones_are_stuck_or_done() {
    let mut toy = Toy::new(&[&[&[Wait(0, 1), Note]], &[&[Note, Signal(0)]], &[&[Note]]]);
    drive(&mut toy, &mut RoundRobin::default()).unwrap();
    assert_eq!(toy.notes, [1, 0, 2]);
    assert_eq!(toy.launched, 3);
}

#[test]
fn crossed_waits_are_a_deadlock() {
    let crossed: &[&[Step]] = &[&[Wait(0, 1), Signal(1)], &[Wait(1, 1), Signal(0)], &[Note]];
    for mut scheduler in
        [Box::new(RoundRobin::default()) as Box<dyn Scheduler>, Box::new(Random::new(3))]
    {
        let mut toy = Toy::new(&[crossed]);
        let trap = drive(&mut toy, &mut *scheduler).unwrap_err();
        assert!(matches!(trap.kind, TrapKind::Deadlock(_)));
        assert_eq!(toy.notes, [2]);
    }
}

#[test]
fn a_seed_is_a_schedule_and_a_record_repeats_it() {
    let free: &[Step] = &[Note, Note, Note, Note];
    let crew: &[&[&[Step]]] = &[&[free, free, free]];
    let run = |scheduler: &mut dyn Scheduler| {
        let mut toy = Toy::new(crew);
        drive(&mut toy, scheduler).unwrap();
        toy.notes
    };
    let mut different = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let mut recorder = Recorder::new(Random::new(seed));
        let notes = run(&mut recorder);
        assert_eq!(notes, run(&mut Random::new(seed)));
        assert_eq!(notes, run(&mut Replay::parse(&recorder.text()).unwrap()));
        different.insert(notes);
    }
    assert!(different.len() > 15);
    assert_eq!(Replay::parse("0,x:1").unwrap_err(), "x:1");
}

#[test]
fn a_thread_that_polls_does_not_starve_others_under_priorities() {
    struct Polling {
        turns: u32,
        done: bool,
    }
    impl Crew for Polling {
        fn run(&mut self, slot: Slot, _: &mut dyn Scheduler) -> Result<Turn, Box<Trap>> {
            self.turns += 1;
            assert!(self.turns < 100);
            Ok(match slot {
                0 if !self.done => Turn::Yielded,
                1 => {
                    self.done = true;
                    Turn::Ended
                }
                _ => Turn::Ended,
            })
        }
        fn launch(&mut self, _: bool, slots: &mut Vec<Slot>) -> Result<bool, Box<Trap>> {
            if self.turns == 0 && slots.is_empty() {
                self.turns = 1;
                slots.extend([0, 1]);
                return Ok(true);
            }
            Ok(false)
        }
        fn complete(&mut self) -> Result<bool, Box<Trap>> {
            Ok(false)
        }
        fn deadlock(&mut self) -> Box<Trap> {
            unreachable!("nobody waits")
        }
    }
    for seed in 0..10 {
        drive(&mut Polling { turns: 0, done: false }, &mut Pct::new(seed, 2)).unwrap();
    }
}

#[test]
fn schedules_after_the_first_draw_what_the_first_fixed() {
    use pallas_rs_ir::options::{AsyncCompletion, Schedule as Strategy};
    let options = Options { seed: 7, seeds: 3, ..Options::default() };
    let schedules: Vec<Schedule> = schedules_of(&options).collect();
    assert_eq!(schedules[0], Schedule::first(&options));
    assert_eq!((schedules[1].seed, &schedules[1].strategy), (8, &Strategy::Random));
    assert_eq!((schedules[2].seed, &schedules[2].strategy), (9, &Strategy::Pct(3)));
    assert_eq!(schedules[2].completion, AsyncCompletion::Random);
}

#[test]
fn results_of_the_first_schedule_stay_and_others_are_compared() {
    struct Call {
        results: Vec<Vec<u8>>,
    }
    impl Rerun for Call {
        fn run(&mut self, schedule: &Schedule) -> Result<(), Box<Trap>> {
            match schedule.seed {
                1 => return Err(TrapKind::StepLimit { limit: 1 }.into()),
                2 => self.results = vec![vec![0; 4], vec![1, 9, 9]],
                _ => self.results = vec![vec![0; 4], vec![1, 2, 3]],
            }
            Ok(())
        }
        fn results(&self) -> Vec<Vec<u8>> {
            self.results.clone()
        }
        fn set_results(&mut self, results: &[Vec<u8>]) {
            self.results = results.to_vec();
        }
    }
    let mut call = Call { results: Vec::new() };
    let explored = run_schedules(&mut call, &Options { seeds: 3, ..Options::default() });
    assert_eq!((explored.runs, explored.failures.len()), (3, 1));
    let (schedule, difference) = explored.difference.unwrap();
    assert_eq!((schedule.seed, difference), (2, Difference { result: 1, byte: 1, bytes: 2 }));
    assert_eq!(call.results[1], [1, 2, 3]);
}
