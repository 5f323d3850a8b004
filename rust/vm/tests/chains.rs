//! Chains of elementwise ops give what their ops give one after another.

mod common;

use common::{Array, run};
use pallas_rs_core::{self as core, BinaryKind, CompareKind, DType, SplitMix64, UnaryKind};
use pallas_rs_ir::Value;
use pallas_rs_ir::builder::Builder;

/// Several strips, and not a whole number of them.
const SHAPE: [usize; 2] = [7, 500];
const LEN: usize = 7 * 500;

/// A value of the program and the bytes it should have.
#[derive(Clone)]
struct Known {
    value: Value,
    dtype: DType,
    bytes: Vec<u8>,
}

struct Maker {
    b: Builder,
    rng: SplitMix64,
    tiles: Vec<Known>,
    /// Per row, per column, and a scalar: float32.
    row: Known,
    column: Known,
    scalar: (Value, u64),
}

impl Maker {
    fn pick(&mut self, dtype: DType) -> Known {
        let fitting: Vec<usize> =
            (0..self.tiles.len()).filter(|&i| self.tiles[i].dtype == dtype).collect();
        let choice = fitting[self.rng.below(fitting.len() as u64) as usize];
        self.tiles[choice].clone()
    }

    fn push(&mut self, value: Value, dtype: DType, size: usize, f: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; LEN * size];
        f(&mut bytes);
        self.tiles.push(Known { value, dtype, bytes });
    }

    fn step(&mut self) {
        let float = DType::F32;
        let x = self.pick(float);
        match self.rng.below(9) {
            0 => {
                let kinds = [UnaryKind::Neg, UnaryKind::Exp, UnaryKind::Floor, UnaryKind::Tanh];
                let kind = kinds[self.rng.below(4) as usize];
                let value = self.b.unary(kind, x.value);
                self.push(value, float, 4, |out| core::unary(kind, float, &x.bytes, out));
            }
            1 | 2 => {
                let kinds = [
                    BinaryKind::Add,
                    BinaryKind::Mul,
                    BinaryKind::Sub,
                    BinaryKind::Div,
                    BinaryKind::Max,
                ];
                let kind = kinds[self.rng.below(5) as usize];
                let y = self.pick(float);
                let value = self.b.binary(kind, x.value, y.value);
                let (a, b) = (core::Operand::Slice(&x.bytes), core::Operand::Slice(&y.bytes));
                self.push(value, float, 4, |out| core::binary(kind, float, a, b, out));
            }
            3 => {
                let y = self.pick(float);
                let value = self.b.compare(CompareKind::Lt, x.value, y.value);
                let (a, b) = (core::Operand::Slice(&x.bytes), core::Operand::Slice(&y.bytes));
                self.push(value, DType::Bool, 1, |out| {
                    core::compare(CompareKind::Lt, float, a, b, out)
                });
            }
            4 => {
                let (which, y) = (self.pick(DType::Bool), self.pick(float));
                let value = self.b.select_n(which.value, &[x.value, y.value]);
                let [p, a, b] = [&which, &x, &y].map(|k| core::Operand::Slice(&k.bytes));
                self.push(value, float, 4, |out| core::select(p, 4, a, b, out));
            }
            5 => {
                let y = self.pick(float);
                let (lo, bits) = self.scalar;
                let value = self.b.clamp(lo, x.value, y.value);
                let (a, c) = (core::Operand::Slice(&x.bytes), core::Operand::Slice(&y.bytes));
                self.push(value, float, 4, |out| {
                    core::clamp(float, core::Operand::Splat(bits), a, c, out);
                });
            }
            6 => {
                let half = self.b.convert(x.value, DType::BF16);
                let value = self.b.convert(half, float);
                let mut narrow = vec![0; LEN * 2];
                core::convert(float, DType::BF16, &x.bytes, &mut narrow);
                self.push(value, float, 4, |out| core::convert(DType::BF16, float, &narrow, out));
            }
            7 => {
                let row = self.row.clone();
                let value = self.b.broadcast(row.value, &SHAPE, &[0]);
                self.push(value, float, 4, |out| {
                    for (i, e) in out.chunks_exact_mut(4).enumerate() {
                        let from = i / SHAPE[1] * 4;
                        e.copy_from_slice(&row.bytes[from..from + 4]);
                    }
                });
            }
            _ => {
                let column = self.column.clone();
                let value = self.b.broadcast(column.value, &SHAPE, &[1]);
                self.push(value, float, 4, |out| {
                    for (i, e) in out.chunks_exact_mut(4).enumerate() {
                        let from = i % SHAPE[1] * 4;
                        e.copy_from_slice(&column.bytes[from..from + 4]);
                    }
                });
            }
        }
    }
}

fn floats(rng: &mut SplitMix64, n: usize) -> Vec<u8> {
    (0..n).flat_map(|_| ((rng.below(4000) as f32 - 2000.0) / 500.0).to_le_bytes()).collect()
}

#[test]
fn random_chains() {
    for seed in 0..60 {
        let mut rng = SplitMix64::new(seed);
        let mut b = Builder::new("chain");
        let args = [
            b.input("x_ref", DType::F32, &SHAPE),
            b.input("row_ref", DType::F32, &SHAPE[..1]),
            b.input("column_ref", DType::F32, &SHAPE[1..]),
        ];
        let data = [floats(&mut rng, LEN), floats(&mut rng, SHAPE[0]), floats(&mut rng, SHAPE[1])];
        let steps = 2 + rng.below(12);
        let outputs = 1 + rng.below(3) as usize;
        let outs: Vec<Value> =
            (0..outputs).map(|i| b.output(&format!("o{i}"), DType::F32, &SHAPE)).collect();
        let values = args.map(|arg| b.load(arg));
        let known =
            |i: usize| Known { value: values[i], dtype: DType::F32, bytes: data[i].clone() };
        let bits = u64::from(0.25_f32.to_bits());
        let scalar = (b.float(0.25), bits);
        let splat = b.constant(DType::F32, &SHAPE, bits);
        let mut maker =
            Maker { b, rng, tiles: vec![known(0)], row: known(1), column: known(2), scalar };
        maker.push(splat, DType::F32, 4, |out| core::fill(4, bits, out));
        let first = maker.b.compare(CompareKind::Ge, values[0], splat);
        let (x, s) = (maker.tiles[0].bytes.clone(), core::Operand::Splat(bits));
        maker.push(first, DType::Bool, 1, |out| {
            core::compare(CompareKind::Ge, DType::F32, core::Operand::Slice(&x), s, out);
        });
        (0..steps).for_each(|_| maker.step());
        let chosen: Vec<Known> = outs.iter().map(|_| maker.pick(DType::F32)).collect();
        outs.iter().zip(&chosen).for_each(|(&o, known)| maker.b.store(o, known.value));
        let operands = data.map(|bytes| Array(DType::F32, bytes));
        let ran = run(maker.b.finish(), &operands).ok();
        for (result, known) in ran.results.iter().zip(&chosen) {
            assert!(*result == known.bytes, "seed {seed}");
        }
    }
}
