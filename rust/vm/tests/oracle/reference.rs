//! The rules, applied to one random run in the plainest way: vectors for clocks, phases never
//! forgotten.

use super::skeleton::{Random, Skeleton, Step};

type Clock = Vec<u32>;

/// What is known, and what of it the async proxy sees.
#[derive(Clone)]
struct View {
    known: Clock,
    fenced: Clock,
}

impl View {
    fn new(size: usize) -> View {
        View { known: vec![0; size], fenced: vec![0; size] }
    }

    fn join(&mut self, other: &View) {
        join(&mut self.known, &other.known);
        join(&mut self.fenced, &other.fenced);
    }
}

fn join(a: &mut Clock, b: &Clock) {
    a.iter_mut().zip(b).for_each(|(x, &y)| *x = (*x).max(y));
}

#[derive(Clone, Copy)]
struct Epoch {
    component: usize,
    tick: u32,
}

#[derive(Default)]
struct Buffer {
    write: Option<Epoch>,
    reads: Vec<Epoch>,
}

struct Barrier {
    phase: usize,
    pending: u32,
    transfers: u32,
    /// By phase: what its arrivals publish, and who has waited for it, when.
    published: Vec<View>,
    waits: Vec<Vec<(usize, u32)>>,
}

struct Run<'s> {
    skeleton: &'s Skeleton,
    views: Vec<View>,
    barriers: Vec<Barrier>,
    buffers: Vec<Buffer>,
    pcs: Vec<usize>,
    seen: Vec<Vec<usize>>,
    stores: Vec<u32>,
    /// Loads in flight, by barrier; stores in flight, by thread.
    loads: Vec<usize>,
    broken: bool,
}

/// Whether one run, drawn at random, breaks a rule.
pub(crate) fn breaks_a_rule(skeleton: &Skeleton, random: &mut Random) -> bool {
    let mut run = Run::new(skeleton);
    loop {
        let threads: Vec<usize> =
            (0..skeleton.threads.len()).filter(|&t| run.can_go_on(t)).collect();
        let choices = threads.len() + run.loads.len();
        if choices == 0 {
            let ended = |t: usize| run.pcs[t] == skeleton.threads[t].len();
            return run.broken || !(0..skeleton.threads.len()).all(ended);
        }
        let choice = random.below(choices);
        match threads.get(choice) {
            Some(&t) => run.step(t),
            None => {
                let barrier = run.loads.swap_remove(choice - threads.len());
                run.barriers[barrier].transfers -= 1;
                run.complete(barrier);
            }
        }
    }
}

impl<'s> Run<'s> {
    fn new(skeleton: &'s Skeleton) -> Run<'s> {
        let (threads, barriers) = (skeleton.threads.len(), skeleton.barriers.len());
        let size = 2 * threads + barriers;
        let mut views = vec![View::new(size); threads];
        for (t, view) in views.iter_mut().enumerate() {
            view.known[t] = 1;
        }
        let barrier = |&arrivals: &u32| Barrier {
            phase: 0,
            pending: arrivals,
            transfers: 0,
            published: vec![View::new(size)],
            waits: vec![Vec::new()],
        };
        Run {
            skeleton,
            views,
            barriers: skeleton.barriers.iter().map(barrier).collect(),
            buffers: (0..skeleton.buffers).map(|_| Buffer::default()).collect(),
            pcs: vec![0; threads],
            seen: vec![vec![0; barriers]; threads],
            stores: vec![0; threads],
            loads: Vec::new(),
            broken: false,
        }
    }

    fn threads(&self) -> usize {
        self.skeleton.threads.len()
    }

    fn can_go_on(&self, t: usize) -> bool {
        match self.skeleton.threads[t].get(self.pcs[t]) {
            None => false,
            Some(&Step::Wait(b)) => self.barriers[b].phase % 2 != self.seen[t][b] % 2,
            Some(_) => true,
        }
    }

    fn access(&mut self, t: usize, buffer: usize, write: bool, engine: Option<Epoch>) {
        let threads = self.threads();
        let view = &self.views[t];
        let knows = |e: &Epoch, generic_needs_fence: bool| {
            let clock = if generic_needs_fence && e.component < threads {
                &view.fenced
            } else {
                &view.known
            };
            clock[e.component] >= e.tick
        };
        let state = &self.buffers[buffer];
        let unordered = state.write.as_ref().is_some_and(|e| !knows(e, engine.is_some()))
            || write && state.reads.iter().any(|e| !knows(e, false));
        self.broken |= unordered;
        let epoch = engine.unwrap_or(Epoch { component: t, tick: view.known[t] });
        let state = &mut self.buffers[buffer];
        if write {
            (state.write, state.reads) = (Some(epoch), Vec::new());
        } else {
            state.reads.push(epoch);
        }
    }

    fn bump(&mut self, t: usize) {
        self.views[t].known[t] += 1;
    }

    /// Whether the arrival has a phase to belong to.
    fn arrive(&mut self, t: usize, b: usize) -> bool {
        if self.barriers[b].pending == 0 {
            self.broken = true;
            return false;
        }
        let phase = self.barriers[b].phase;
        let component = self.threads() + b;
        self.broken |= self.views[t].known[component] < phase as u32;
        let view = self.views[t].clone();
        self.barriers[b].published[phase].join(&view);
        self.barriers[b].pending -= 1;
        self.bump(t);
        true
    }

    fn complete(&mut self, b: usize) {
        let component = self.threads() + b;
        let size = self.views[0].known.len();
        let barrier = &mut self.barriers[b];
        if barrier.pending > 0 || barrier.transfers > 0 {
            return;
        }
        let phase = barrier.phase;
        barrier.phase += 1;
        barrier.pending = self.skeleton.barriers[b];
        let known = &mut barrier.published[phase].known;
        known[component] = known[component].max(phase as u32 + 1);
        if let Some(before) = phase.checked_sub(1) {
            self.broken |= barrier.waits[before].iter().any(|&(t, tick)| known[t] < tick);
        }
        barrier.published.push(View::new(size));
        barrier.waits.push(Vec::new());
    }

    fn step(&mut self, t: usize) {
        let step = self.skeleton.threads[t][self.pcs[t]];
        self.pcs[t] += 1;
        match step {
            Step::Write(buffer) => self.access(t, buffer, true, None),
            Step::Read(buffer) => self.access(t, buffer, false, None),
            Step::Fence => {
                let known = self.views[t].known.clone();
                join(&mut self.views[t].fenced, &known);
                self.bump(t);
            }
            Step::Arrive(b) => {
                if self.arrive(t, b) {
                    self.complete(b);
                }
            }
            Step::Wait(b) => {
                let phase = self.seen[t][b];
                self.seen[t][b] += 1;
                self.broken |= self.barriers[b].phase != phase + 1;
                if let Some(published) = self.barriers[b].published.get(phase).cloned() {
                    self.views[t].join(&published);
                }
                let component = self.threads() + b;
                let known = &mut self.views[t].known[component];
                *known = (*known).max(phase as u32 + 1);
                let own = self.views[t].known[t];
                if let Some(waits) = self.barriers[b].waits.get_mut(phase) {
                    waits.push((t, own));
                }
                self.bump(t);
            }
            Step::Load { barrier, buffer } => {
                let tick = self.barriers[barrier].phase as u32 + 1;
                if self.arrive(t, barrier) {
                    let component = self.threads() + barrier;
                    self.access(t, buffer, true, Some(Epoch { component, tick }));
                    self.barriers[barrier].transfers += 1;
                    self.loads.push(barrier);
                }
            }
            Step::Store(buffer) => {
                self.stores[t] += 1;
                let component = self.threads() + self.skeleton.barriers.len() + t;
                let epoch = Epoch { component, tick: self.stores[t] };
                self.access(t, buffer, false, Some(epoch));
            }
            Step::Drain(left) => {
                let component = self.threads() + self.skeleton.barriers.len() + t;
                let tick = self.stores[t].saturating_sub(left as u32);
                let known = &mut self.views[t].known[component];
                *known = (*known).max(tick);
            }
        }
    }
}
