//! Chains of elementwise ops as code: steps between strips.

use super::fuse::{self, Expand};
use super::{Operand, Reg};
use pallas_rs_core::{BinaryKind, CompareKind, DType, UnaryKind};
use pallas_rs_ir::{Op, Program, Type, Value};
use rustc_hash::FxHashMap;

/// Where a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// An input: a strip of a tile, or a scalar.
    Input(u16),
    /// A strip.
    Strip(u16),
    /// A strip of an output that an earlier step has written.
    Output(u16),
    /// An entry of [`ChainCode::rows`]: the same element throughout a strip.
    Row(u16),
}

/// Where a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Strip(u16),
    Output(u16),
}

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepOp {
    Unary(UnaryKind),
    Binary(BinaryKind),
    Compare(CompareKind),
    IntegerPow(i32),
    Select,
    Clamp,
    Convert(DType),
    ReducePrecision { exponent_bits: u32, mantissa_bits: u32 },
    Expand(Expand),
}

/// One op on a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) op: StepOp,
    /// Element type of what it works on: of the operands, of the cases of a selection.
    pub(crate) dtype: DType,
    pub(crate) sources: [Source; 3],
    pub(crate) target: Target,
    /// Bytes of an element of the result.
    pub(crate) size: usize,
    /// The source that is the target as well.
    pub(crate) in_place: Option<usize>,
}

/// Rows of so many elements are worth a strip of their own: an operand with one element a row is
/// then a scalar.
const LEAST_ROW: usize = 256;

/// A broadcast of one element a row of an input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) input: u16,
    pub(crate) expand: Expand,
}

/// A chain.
#[derive(Clone, Debug)]
pub(crate) struct ChainCode {
    /// Number of elements.
    pub(crate) len: usize,
    pub(crate) inputs: Box<[Operand]>,
    pub(crate) steps: Box<[Step]>,
    /// No strip reaches beyond one of their rows.
    pub(crate) rows: Box<[Rows]>,
    pub(crate) outputs: Box<[Operand]>,
    /// Number of strips.
    pub(crate) strips: usize,
    /// Tile registers whose tile dies here and that no output takes over.
    pub(crate) drops: Box<[Reg]>,
}

/// What a chain consists of.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) rows: Vec<Rows>,
    /// Number of strips.
    pub(super) strips: usize,
}

/// The steps of a chain.
pub(super) fn steps(program: &Program, chain: &fuse::Chain<'_>) -> Plan {
    let mut last_read: FxHashMap<Value, usize> = FxHashMap::default();
    for (i, inst) in chain.insts.iter().enumerate() {
        for &value in &inst.operands {
            last_read.insert(value, i);
        }
    }
    let mut places: FxHashMap<Value, Source> = FxHashMap::default();
    for (i, &value) in chain.inputs.iter().enumerate() {
        places.insert(value, Source::Input(i as u16));
    }
    let (mut free, mut strips) = (Vec::new(), 0);
    let mut steps = Vec::with_capacity(chain.insts.len());
    let mut rows = Vec::new();
    for (i, inst) in chain.insts.iter().enumerate() {
        let result = inst.results[0];
        let mut sources = [Source::Input(0); 3];
        for (source, value) in sources.iter_mut().zip(&inst.operands) {
            *source = places[value];
        }
        let step = step(program, inst);
        let output = chain.outputs.iter().position(|&v| v == result);
        if let (StepOp::Expand(expand), None, Source::Input(input)) = (step.op, output, sources[0])
            && expand.run >= LEAST_ROW
        {
            places.insert(result, Source::Row(rows.len() as u16));
            rows.push(Rows { input, expand });
            continue;
        }
        // What dies here and what may be written over.
        let dying = |k: usize| match (sources[k], inst.operands.get(k)) {
            (Source::Strip(strip), Some(value)) if last_read[value] == i => Some(strip),
            _ => None,
        };
        let only = |k: usize| inst.operands.iter().filter(|v| **v == inst.operands[k]).count() == 1;
        let over = [0, 1]
            .into_iter()
            .find(|&k| step.writes_over(k) && output.is_none() && dying(k).is_some() && only(k));
        let target = match (output, over.and_then(dying)) {
            (Some(k), _) => Target::Output(k as u16),
            (None, Some(strip)) => Target::Strip(strip),
            (None, None) => Target::Strip(free.pop().unwrap_or_else(|| {
                strips += 1;
                strips - 1
            })),
        };
        // Otherwise a step does not write where it reads: its strips are free only now.
        for strip in (0..inst.operands.len().min(3)).filter_map(dying) {
            if target != Target::Strip(strip) && !free.contains(&strip) {
                free.push(strip);
            }
        }
        places.insert(
            result,
            match target {
                Target::Strip(s) => Source::Strip(s),
                Target::Output(k) => Source::Output(k),
            },
        );
        steps.push(Step { sources, target, in_place: over, ..step });
        if let Target::Output(k) = target {
            compute_in_output(&mut steps, k, &dying);
        }
    }
    Plan { steps, rows, strips: strips as usize }
}

/// Where the last step could write over a strip that dies in it, but writes output `k`, whoever made
/// the strip makes it in the output instead.
fn compute_in_output(steps: &mut [Step], k: u16, dying: &dyn Fn(usize) -> Option<u16>) {
    let Some((last, earlier)) = steps.split_last_mut() else { return };
    let over = [0, 1].into_iter().find_map(|operand| {
        let strip = dying(operand).filter(|_| last.writes_over(operand))?;
        Some((operand, strip))
    });
    let Some((operand, strip)) = over else { return };
    let reads = |step: &Step| step.sources[..].contains(&Source::Strip(strip));
    if last.sources.iter().filter(|&&s| s == Source::Strip(strip)).count() != 1 {
        return;
    }
    // Steps that write over the strip keep what it is: the value was made by one that does not.
    let made = earlier
        .iter()
        .rposition(|step| step.target == Target::Strip(strip) && step.in_place.is_none());
    let Some(made) = made.filter(|&made| earlier[made].size == last.size) else { return };
    let renamed = |source: &mut Source| {
        if *source == Source::Strip(strip) {
            *source = Source::Output(k);
        }
    };
    earlier[made].target = Target::Output(k);
    for step in
        earlier[made + 1..].iter_mut().filter(|s| reads(s) || s.target == Target::Strip(strip))
    {
        step.sources.iter_mut().for_each(renamed);
        if step.target == Target::Strip(strip) {
            step.target = Target::Output(k);
        }
    }
    last.sources.iter_mut().for_each(renamed);
    last.in_place = Some(operand);
}

impl Step {
    /// Whether the result can be written over operand `k`.
    fn writes_over(&self, k: usize) -> bool {
        match self.op {
            StepOp::Unary(kind) => k == 0 && kind != UnaryKind::IsFinite,
            StepOp::Binary(_) => k < 2,
            _ => false,
        }
    }
}

fn step(program: &Program, inst: &pallas_rs_ir::Inst) -> Step {
    let dtype_of = |v: Value| program.ty(v).dtype().expect("the verifier saw a value");
    let result = inst.results[0];
    let mut dtype = dtype_of(inst.operands[0]);
    let op = match &inst.op {
        &Op::Unary { kind } => StepOp::Unary(kind),
        &Op::Binary { kind } => StepOp::Binary(kind),
        &Op::Compare { kind } => StepOp::Compare(kind),
        &Op::IntegerPow { exponent } => StepOp::IntegerPow(exponent),
        Op::SelectN {} => {
            dtype = dtype_of(result);
            StepOp::Select
        }
        Op::Clamp {} => StepOp::Clamp,
        Op::Convert {} => StepOp::Convert(dtype_of(result)),
        &Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            StepOp::ReducePrecision { exponent_bits, mantissa_bits }
        }
        Op::Broadcast { dims } => {
            let (from, to) = (program.ty(inst.operands[0]), program.ty(result));
            let expand = Expand::new(dims, from.shape(), to.shape());
            StepOp::Expand(expand.expect("asked before the chain was made"))
        }
        _ => unreachable!("not elementwise"),
    };
    let size = dtype_of(result).size();
    let (sources, target) = ([Source::Input(0); 3], Target::Strip(0));
    Step { op, dtype, sources, target, size, in_place: None }
}

/// Number of elements of a tile.
pub(super) fn len(program: &Program, value: Value) -> usize {
    match program.ty(value) {
        Type::Tile(_, shape) => shape.iter().product(),
        Type::Scalar(_) | Type::Ref(_) => unreachable!("chains are of tiles"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::fuse::{Item, count_uses, items};
    use pallas_rs_ir::builder::Builder;

    #[test]
    fn what_only_the_output_is_made_of_is_computed_in_it() {
        let mut b = Builder::new("tail");
        let x = b.input("x_ref", DType::F32, &[8, 16]);
        let o = b.output("o_ref", DType::F32, &[8, 16]);
        let x = b.load(x);
        let double = b.add(x, x);
        let exp = b.unary(UnaryKind::Exp, double);
        let sum = b.add(x, exp);
        b.store(o, sum);
        let program = b.finish();
        let items = items(&program, &count_uses(&program), &program.body);
        let chain = items.iter().find_map(|item| match item {
            Item::Chain(chain) => Some(chain),
            Item::Single(_) => None,
        });
        let plan = steps(&program, chain.expect("three ops in a row"));
        let made: Vec<_> = plan.steps.iter().map(|s| (s.sources, s.target, s.in_place)).collect();
        let (x, out) = (Source::Input(0), Source::Output(0));
        let unused = Source::Input(0);
        assert_eq!(
            made,
            [
                ([x, x, unused], Target::Output(0), None),
                ([out, unused, unused], Target::Output(0), Some(0)),
                ([x, out, unused], Target::Output(0), Some(1)),
            ]
        );
    }
}
