//! Skeletons: what they are, and how they are drawn.

use std::fmt;

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Write(usize),
    Read(usize),
    Fence,
    Arrive(usize),
    Wait(usize),
    /// A TMA load that arrives on a barrier.
    Load {
        barrier: usize,
        buffer: usize,
    },
    /// A TMA store, a group of its own.
    Store(usize),
    /// Waits until the sources of all but so many stores have been read.
    Drain(usize),
}
use Step::{Arrive, Drain, Fence, Load, Read, Store, Wait, Write};

/// A kernel without numbers.
#[derive(Clone, Debug)]
pub(crate) struct Skeleton {
    pub(crate) threads: Vec<Vec<Step>>,
    /// Arrivals of each barrier.
    pub(crate) barriers: Vec<u32>,
    pub(crate) buffers: usize,
}

impl fmt::Display for Skeleton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "arrivals {:?}, {} buffers", self.barriers, self.buffers)?;
        for (i, thread) in self.threads.iter().enumerate() {
            writeln!(f, "  thread {i}: {thread:?}")?;
        }
        Ok(())
    }
}

/// A stream of numbers (`SplitMix64`).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % n as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

impl Skeleton {
    /// A right kernel with up to two mistakes, or steps without a plan.
    pub(crate) fn draw(random: &mut Random) -> Skeleton {
        if random.below(3) == 0 { without_plan(random) } else { mutate(template(random), random) }
    }
}

fn template(random: &mut Random) -> Skeleton {
    match random.below(5) {
        0 => producer_and_consumer(random),
        1 => writer_and_store(random),
        2 => exchange(random),
        3 => neighbours(random),
        _ => rounds(random),
    }
}

/// A thread fills slots by TMA, another one reads them.
fn producer_and_consumer(random: &mut Random) -> Skeleton {
    let (slots, rounds) = (random.one_of(&[1, 2]), random.one_of(&[1, 2, 3]));
    let (mut producer, mut consumer) = (Vec::new(), Vec::new());
    for i in 0..rounds {
        let slot = i % slots;
        if i >= slots {
            producer.push(Wait(slots + slot));
        }
        producer.push(Load { barrier: slot, buffer: slot });
        consumer.extend([Wait(slot), Read(slot)]);
        if i + slots < rounds || random.coin() {
            consumer.push(Arrive(slots + slot));
        }
    }
    Skeleton { threads: vec![producer, consumer], barriers: vec![1; 2 * slots], buffers: slots }
}

fn writer_and_store(random: &mut Random) -> Skeleton {
    let mut writer = Vec::new();
    for i in 0..random.one_of(&[1, 2, 3]) {
        if i > 0 {
            writer.push(Drain(0));
        }
        writer.extend([Write(0), Fence, Store(0)]);
    }
    writer.push(Drain(0));
    Skeleton { threads: vec![writer], barriers: vec![], buffers: 1 }
}

fn exchange(random: &mut Random) -> Skeleton {
    let (mut writer, mut reader) = (Vec::new(), Vec::new());
    for _ in 0..random.one_of(&[1, 2, 3]) {
        writer.extend([Write(0), Arrive(0), Wait(1)]);
        reader.extend([Wait(0), Read(0), Arrive(1)]);
    }
    Skeleton { threads: vec![writer, reader], barriers: vec![1, 1], buffers: 1 }
}

/// Each thread writes its own buffer and reads the next one's.
fn neighbours(random: &mut Random) -> Skeleton {
    let count = random.one_of(&[2, 3]);
    let rounds = if count == 3 { 1 } else { random.one_of(&[1, 2]) };
    let again = random.below(3) == 0;
    let thread = |t: usize| {
        let mut steps = Vec::new();
        for i in 0..rounds {
            steps.extend([Write(t), Fence, Arrive(0), Wait(0), Read((t + 1) % count)]);
            if i + 1 < rounds || again {
                steps.extend([Arrive(1), Wait(1)]);
            }
        }
        steps
    };
    let threads = (0..count).map(thread).collect();
    Skeleton { threads, barriers: vec![count as u32; 2], buffers: count }
}

/// Everyone waits for everyone, again and again: a late one may be lapped.
fn rounds(random: &mut Random) -> Skeleton {
    let count = random.one_of(&[2, 2, 3]);
    let rounds = if count == 2 { random.one_of(&[1, 2]) } else { 1 };
    let threads = (0..count).map(|t| {
        let mut steps = vec![Arrive(0), Wait(0)];
        for _ in 0..rounds {
            steps.extend([Write(t), Arrive(0), Wait(0)]);
            if random.coin() {
                steps.push(Read((t + 1) % count));
            }
        }
        steps
    });
    Skeleton { threads: threads.collect(), barriers: vec![count as u32], buffers: count }
}

fn mutate(mut skeleton: Skeleton, random: &mut Random) -> Skeleton {
    for _ in 0..random.one_of(&[0, 1, 1, 1, 2]) {
        let t = random.below(skeleton.threads.len());
        let (barriers, buffers) = (skeleton.barriers.len(), skeleton.buffers);
        let steps = &mut skeleton.threads[t];
        if steps.is_empty() {
            continue;
        }
        let at = random.below(steps.len());
        match random.below(4) {
            0 | 1 => drop(steps.remove(at)),
            2 if at + 1 < steps.len() => steps.swap(at, at + 1),
            _ => steps.insert(at, any_step(random, barriers, buffers)),
        }
    }
    if !skeleton.barriers.is_empty() && random.below(10) == 0 {
        let barrier = random.below(skeleton.barriers.len());
        skeleton.barriers[barrier] += 1;
    }
    skeleton
}

fn any_step(random: &mut Random, barriers: usize, buffers: usize) -> Step {
    let buffer = random.below(buffers);
    let kinds = if barriers == 0 { 3 } else { 8 };
    match random.below(kinds) {
        0 => Write(buffer),
        1 => Read(buffer),
        2 => Fence,
        3 | 4 => Arrive(random.below(barriers)),
        5 | 6 => Wait(random.below(barriers)),
        _ => Load { barrier: random.below(barriers), buffer },
    }
}

fn without_plan(random: &mut Random) -> Skeleton {
    let (threads, barriers, buffers) =
        (random.one_of(&[2, 3]), random.one_of(&[1, 2]), random.one_of(&[1, 2]));
    let threads = (0..threads).map(|_| {
        let length = random.one_of(&[2, 3, 4]);
        (0..length).map(|_| any_step(random, barriers, buffers)).collect()
    });
    let threads = threads.collect();
    let barriers = (0..barriers).map(|_| random.one_of(&[1, 1, 2])).collect();
    Skeleton { threads, barriers, buffers }
}
