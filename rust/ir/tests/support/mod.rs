//! Random programs that verify: a list of choices is read as calls of the builder.

use pallas_rs_core::{BinaryKind, CompareKind, DType, ReduceKind, UnaryKind};
use pallas_rs_ir::builder::{Builder, Dim, accumulator, barrier, smem};
use pallas_rs_ir::{Program, RmwKind, Type, Value};

const SHAPE: [usize; 2] = [4, 8];

/// What is visible where the next op goes.
#[derive(Clone, Default)]
struct Pool {
    ints: Vec<Value>,
    tiles: Vec<Value>,
    refs: Vec<Value>,
}

struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn next(&mut self, bound: usize) -> Option<usize> {
        self.0.next().map(|choice| usize::from(*choice) % bound)
    }

    fn pick(&mut self, from: &[Value]) -> Value {
        from[self.next(from.len()).unwrap_or(0)]
    }
}

/// The program that `choices` make; `name` goes wherever a user's text goes.
pub(crate) fn program(choices: &[u8], name: &str) -> Program {
    let mut b = Builder::new(name);
    b.grid(&[2, 3]).cluster(&[2]).threads(2);
    let mut pool = Pool::default();
    for i in 0..2 {
        pool.refs.push(b.input(name, DType::F32, &SHAPE));
        pool.refs.push(b.output(&format!("o{i}"), DType::F32, &SHAPE));
    }
    pool.ints.push(b.scalar_input("n", DType::I32));
    pool.tiles.push(b.iota(DType::F32, &SHAPE, 1));
    let mut choices = Choices(choices.iter());
    fill(&mut b, &mut pool, &mut choices, name, 0);
    b.finish()
}

fn fill(b: &mut Builder, pool: &mut Pool, choices: &mut Choices<'_>, name: &str, depth: usize) {
    let mut line = 0;
    while let Some(choice) = choices.next(if depth < 4 { 17 } else { 13 }) {
        line += 1;
        b.at(line);
        match choice {
            // Ends the innermost region.
            0 if depth > 0 => return,
            0 => pool.ints.push(b.program_id(1)),
            1 => pool.ints.push(b.int(7)),
            2 => {
                let (x, y) = (choices.pick(&pool.ints), choices.pick(&pool.ints));
                pool.ints.push(b.binary(BinaryKind::Max, x, y));
            }
            3 => {
                let x = choices.pick(&pool.tiles);
                pool.tiles.push(b.unary(UnaryKind::Exp, x));
            }
            4 => {
                let (x, y) = (choices.pick(&pool.tiles), choices.pick(&pool.tiles));
                pool.tiles.push(b.add(x, y));
            }
            5 => pool.tiles.push(b.load(choices.pick(&pool.refs))),
            6 => b.store(choices.pick(&pool.refs), choices.pick(&pool.tiles)),
            7 => {
                let (base, i) = (choices.pick(&pool.refs), choices.pick(&pool.ints));
                let row = b.view(base, &[Dim::Index(i), Dim::Range(-1, 8)]);
                let x = b.load(row);
                pool.tiles.push(b.broadcast(x, &SHAPE, &[1]));
            }
            8 => {
                let x = choices.pick(&pool.tiles);
                pool.tiles.push(b.atomic_rmw(RmwKind::Add, choices.pick(&pool.refs), x));
            }
            9 => b.print(name, &[choices.pick(&pool.ints)]),
            10 => {
                let x = choices.pick(&pool.tiles);
                let sum = b.reduce(ReduceKind::Sum, x, &[0, 1]);
                let doubled =
                    b.xla_call(name, vec![1, 2, 255], &[sum], vec![Type::Scalar(DType::F32)]);
                pool.tiles.push(b.broadcast(doubled[0], &SHAPE, &[]));
            }
            11 => pool.tiles.push(b.f32_tile(&SHAPE, &[0.5; 32])),
            12 => {
                let (x, y) = (choices.pick(&pool.tiles), choices.pick(&pool.tiles));
                let which = b.compare(CompareKind::Le, x, y);
                pool.tiles.push(b.select_n(which, &[x, y]));
            }
            13 => {
                let (lo, hi) = (choices.pick(&pool.ints), choices.pick(&pool.ints));
                let init = [choices.pick(&pool.tiles), choices.pick(&pool.ints)];
                let out = b.for_loop(lo, hi, &init, |b, i, carry| {
                    let mut pool = pool.clone();
                    pool.ints.extend([i, carry[1]]);
                    pool.tiles.push(carry[0]);
                    fill(b, &mut pool, choices, name, depth + 1);
                    vec![choices.pick(&pool.tiles), choices.pick(&pool.ints)]
                });
                pool.tiles.push(out[0]);
                pool.ints.push(out[1]);
            }
            14 => {
                let index = choices.pick(&pool.ints);
                let out = b.switch(index, 2, |b, _| {
                    let mut pool = pool.clone();
                    fill(b, &mut pool, choices, name, depth + 1);
                    vec![choices.pick(&pool.tiles)]
                });
                pool.tiles.push(out[0]);
            }
            15 => {
                let init = [choices.pick(&pool.ints)];
                let limit = choices.pick(&pool.ints);
                b.while_loop(
                    &init,
                    |b, carry| b.compare(CompareKind::Lt, carry[0], limit),
                    |b, carry| {
                        let mut pool = pool.clone();
                        fill(b, &mut pool, choices, name, depth + 1);
                        vec![carry[0]]
                    },
                );
            }
            _ => {
                let scratch = vec![
                    smem(name, DType::F32, &SHAPE),
                    barrier("full", &[], 1),
                    accumulator("acc", DType::F32, [4, 8]),
                ];
                let out = b.scope(scratch, |b, refs| {
                    b.tma_load(pool.refs[0], refs[0], refs[1]);
                    b.barrier_wait(refs[1]);
                    let mut pool = pool.clone();
                    pool.refs.push(refs[0]);
                    fill(b, &mut pool, choices, name, depth + 1);
                    vec![b.accumulator_load(refs[2], Some(0))]
                });
                pool.tiles.push(out[0]);
            }
        }
    }
}
