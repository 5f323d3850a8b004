//! Where the first number came from that is infinite or NaN.

use crate::code::{Operand, Record};
use crate::machine::Ctx;
use crate::observer::{At, Observer};
use pallas_rs_core::{self as core, Class, DType};
use pallas_rs_ir::Effect;

/// An op that made a non-finite number from finite ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    pub(crate) at: At,
    pub(crate) op: &'static str,
    /// Index of the first such element of its result.
    pub(crate) element: Vec<usize>,
    /// What it became.
    pub(crate) value: f64,
    /// That element of the operands that have the result's shape.
    pub(crate) operands: Vec<f64>,
}

/// What is looked for during a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    pub(crate) first: Option<Origin>,
}

/// Operands of an op before it runs: it may write over them.
pub(crate) struct Before {
    operands: Vec<Vec<f64>>,
}

/// An element as a number; integers and booleans are always finite.
pub(crate) fn number(dtype: DType, bits: u64) -> f64 {
    match dtype.class() {
        Class::Float if dtype == DType::F64 => f64::from_bits(bits),
        Class::Float => {
            f64::from(f32::from_bits(core::convert_scalar(dtype, DType::F32, bits) as u32))
        }
        Class::Bool | Class::Signed | Class::Unsigned | Class::Complex => 0.0,
    }
}

impl<O: Observer> Ctx<'_, O> {
    fn numbers(&self, operand: Operand) -> Vec<f64> {
        let Operand::Tile { .. } = operand else { return Vec::new() };
        let dtype = operand.dtype();
        if dtype.class() != Class::Float {
            return Vec::new();
        }
        match self.elements(operand) {
            core::Operand::Splat(bits) => vec![number(dtype, bits)],
            core::Operand::Slice(bytes) => (0..bytes.len() / dtype.size())
                .map(|i| number(dtype, core::load_scalar(dtype.size(), bytes, i)))
                .collect(),
        }
    }

    /// Before an op: its operands, if it could be the origin.
    pub(crate) fn before_op(&self, record: &Record) -> Option<Before> {
        let search = self.worker.search.as_ref()?;
        if search.first.is_some() || record.op.info().effect != Effect::Pure {
            return None;
        }
        let values = record.operands.iter().filter(|o| !matches!(o, Operand::Ref { .. }));
        let operands: Vec<Vec<f64>> = values.map(|&o| self.numbers(o)).collect();
        let finite = operands.iter().flatten().all(|x| x.is_finite());
        finite.then_some(Before { operands })
    }

    /// After it: whether it was.
    pub(crate) fn after_op(&mut self, record: &Record, before: &Before) {
        for &result in &record.results {
            let made = self.numbers(result);
            let Some(i) = made.iter().position(|x| !x.is_finite()) else { continue };
            let alike = |o: &&Vec<f64>| o.len() == made.len() || o.len() == 1;
            let origin = Origin {
                at: self.at(),
                op: record.op.mnemonic(),
                element: unravel(i, self.shape(result)),
                value: made[i],
                operands: before
                    .operands
                    .iter()
                    .filter(alike)
                    .map(|o| o[i.min(o.len() - 1)])
                    .collect(),
            };
            if let Some(search) = &mut self.worker.search {
                search.first.get_or_insert(origin);
            }
            return;
        }
    }
}

fn unravel(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (x, &n) in index.iter_mut().zip(shape).rev() {
        *x = element % n.max(1);
        element /= n.max(1);
    }
    index
}
