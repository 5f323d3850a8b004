//! Elementwise ops that follow from each other become one instruction.
//!
//! Such a *chain* runs strip by strip: a few kilobytes at a time go through all of its ops while they
//! are in the first cache, instead of every op going over whole tiles. Broadcasts that only a chain
//! reads are part of it, so that they take no memory. What the ops compute, and in which order an
//! element is computed, stays the same.

use pallas_rs_core::{BinaryKind, DType};
use pallas_rs_ir::options::Severity;
use pallas_rs_ir::{Inst, Op, Program, Region, SpanId, Type, Value};

/// One instruction, or several that run as one.
#[derive(Debug)]
pub(crate) enum Item<'p> {
    Single(&'p Inst),
    Chain(Chain<'p>),
}

/// Ops on tiles of one shape.
#[derive(Debug, Default)]
pub(crate) struct Chain<'p> {
    pub(crate) insts: Vec<&'p Inst>,
    /// Values from outside, each once.
    pub(crate) inputs: Vec<Value>,
    /// Values that others read.
    pub(crate) outputs: Vec<Value>,
}

impl<'p> Item<'p> {
    pub(crate) fn operands(&self) -> &[Value] {
        match self {
            Item::Single(inst) => &inst.operands,
            Item::Chain(chain) => &chain.inputs,
        }
    }

    pub(crate) fn results(&self) -> &[Value] {
        match self {
            Item::Single(inst) => &inst.results,
            Item::Chain(chain) => &chain.outputs,
        }
    }

    pub(crate) fn span(&self) -> SpanId {
        match self {
            Item::Single(inst) => inst.span,
            Item::Chain(chain) => chain.insts[0].span,
        }
    }

    /// The instruction, unless it is a chain.
    pub(crate) fn single(&self) -> Option<&'p Inst> {
        match self {
            Item::Single(inst) => Some(inst),
            Item::Chain(_) => None,
        }
    }
}

/// How often each value is read.
pub(crate) fn count_uses(program: &Program) -> Vec<u32> {
    fn count(region: &Region, uses: &mut [u32]) {
        for inst in &region.insts {
            inst.operands.iter().for_each(|v| uses[v.0 as usize] += 1);
            inst.regions.iter().for_each(|nested| count(nested, uses));
        }
        region.yields.iter().for_each(|v| uses[v.0 as usize] += 1);
    }
    let mut uses = vec![0; program.values.len()];
    count(&program.body, &mut uses);
    uses
}

/// The instructions of a region, with chains where there are any.
pub(crate) fn items<'p>(program: &Program, uses: &[u32], region: &'p Region) -> Vec<Item<'p>> {
    let mut grouping = Grouping { program, uses, items: Vec::new(), open: Vec::new() };
    for inst in &region.insts {
        grouping.add(inst);
    }
    grouping.close();
    grouping.items
}

struct Grouping<'a, 'p> {
    program: &'a Program,
    uses: &'a [u32],
    items: Vec<Item<'p>>,
    /// A chain that may grow; it takes its place when it is closed.
    open: Vec<&'p Inst>,
}

impl<'p> Grouping<'_, 'p> {
    fn add(&mut self, inst: &'p Inst) {
        let reads_open = self.open.iter().any(|made| reads(inst, made.results[0]));
        let options = &self.program.options;
        let apart = options.explain_nan || options.uninitialized_reads != Severity::Ignore;
        if apart || !fusible(self.program, inst) {
            if reads_open {
                self.close_before(Some(inst));
            }
            return self.items.push(Item::Single(inst));
        }
        let shape = |inst: &Inst| self.program.ty(inst.results[0]).shape();
        let differs = self.open.first().is_some_and(|first| shape(first) != shape(inst));
        // A broadcast reads a smaller tile: what makes it cannot be in the same chain.
        let widens = matches!(inst.op, Op::Broadcast { .. }) && reads_open;
        if differs || widens {
            self.close();
        }
        self.open.push(inst);
    }

    fn close(&mut self) {
        self.close_before(None);
    }

    /// A single op is a chain as well if it is stored next: it can compute in place.
    fn close_before(&mut self, next: Option<&Inst>) {
        let insts = std::mem::take(&mut self.open);
        let stored = match (&insts[..], next) {
            ([only], Some(Inst { op: Op::Store {}, operands, .. })) => {
                let made = only.results[0];
                operands[1] == made && self.uses[made.0 as usize] == 1
            }
            _ => false,
        };
        let arithmetic = insts.iter().filter(|i| !matches!(i.op, Op::Broadcast { .. })).count();
        if arithmetic == 0 || (insts.len() < 2 && !stored) {
            return self.items.extend(insts.into_iter().map(Item::Single));
        }
        let made = |value: Value| insts.iter().any(|inst| inst.results[0] == value);
        let mut chain = Chain::default();
        for inst in &insts {
            for &value in &inst.operands {
                if !made(value) && !chain.inputs.contains(&value) {
                    chain.inputs.push(value);
                }
            }
            let result = inst.results[0];
            let inside: usize = (insts.iter())
                .map(|reader| reader.operands.iter().filter(|v| **v == result).count())
                .sum();
            if self.uses[result.0 as usize] as usize > inside {
                chain.outputs.push(result);
            }
        }
        chain.insts = insts;
        if !chain.outputs.is_empty() {
            self.items.push(Item::Chain(chain));
        }
    }
}

/// Whether an instruction, or a region of it, reads a value.
fn reads(inst: &Inst, value: Value) -> bool {
    inst.operands.contains(&value)
        || inst.regions.iter().any(|region| {
            region.yields.contains(&value) || region.insts.iter().any(|inst| reads(inst, value))
        })
}

/// Whether an op can be part of a chain.
fn fusible(program: &Program, inst: &Inst) -> bool {
    let [result] = inst.results[..] else { return false };
    let Type::Tile(dtype, shape) = program.ty(result) else { return false };
    let narrow = |v: &Value| program.ty(*v).dtype().is_some_and(DType::fits_scalar);
    if !dtype.fits_scalar() || !inst.operands.iter().all(narrow) {
        return false;
    }
    match &inst.op {
        Op::Unary { .. }
        | Op::Compare { .. }
        | Op::IntegerPow { .. }
        | Op::Clamp {}
        | Op::Convert {}
        | Op::ReducePrecision { .. } => true,
        // A division of integers may trap, and in its turn.
        Op::Binary { kind: BinaryKind::Div | BinaryKind::Rem, .. } => !dtype.is_int(),
        Op::Binary { .. } => true,
        Op::SelectN {} => {
            inst.operands.len() == 3 && program.ty(inst.operands[0]).dtype() == Some(DType::Bool)
        }
        Op::Broadcast { dims } => {
            Expand::new(dims, program.ty(inst.operands[0]).shape(), shape).is_some()
        }
        _ => false,
    }
}

/// A broadcast in which element `i` of the result is element `i / run % period` of the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expand {
    pub(crate) run: usize,
    pub(crate) period: usize,
}

impl Expand {
    /// `None` unless the operand's dimensions stand together in the result.
    pub(crate) fn new(dims: &[usize], from: &[usize], to: &[usize]) -> Option<Expand> {
        let mut wide = dims.iter().zip(from).filter(|&(_, &size)| size != 1).map(|(&d, _)| d);
        let period = from.iter().product();
        let Some(first) = wide.next() else {
            return Some(Expand { run: to.iter().product::<usize>().max(1), period });
        };
        let mut last = first;
        for d in wide {
            if to[last + 1..d].iter().any(|&size| size != 1) {
                return None;
            }
            last = d;
        }
        (period > 0).then(|| Expand { run: to[last + 1..].iter().product(), period })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pallas_rs_core::{ReduceKind, UnaryKind};
    use pallas_rs_ir::builder::Builder;

    #[test]
    fn broadcasts_that_can_be_read_in_place() {
        let expand = |dims: &[usize], from: &[usize], to: &[usize]| {
            Expand::new(dims, from, to).map(|e| (e.run, e.period))
        };
        assert_eq!(expand(&[0], &[4], &[4, 8]), Some((8, 4)));
        assert_eq!(expand(&[0, 1], &[4, 1], &[4, 8]), Some((8, 4)));
        assert_eq!(expand(&[1], &[8], &[4, 8]), Some((1, 8)));
        assert_eq!(expand(&[1], &[8], &[4, 8, 2]), Some((2, 8)));
        assert_eq!(expand(&[], &[], &[4, 8]), Some((32, 1)));
        assert_eq!(expand(&[0, 2], &[4, 2], &[4, 8, 2]), None);
        assert_eq!(expand(&[0, 2], &[4, 2], &[4, 1, 2]), Some((1, 8)));
    }

    #[test]
    fn a_softmax_is_two_chains_between_its_reductions() {
        let mut b = Builder::new("softmax");
        let x = b.input("x_ref", DType::F32, &[8, 16]);
        let o = b.output("o_ref", DType::F32, &[8, 16]);
        let x = b.load(x);
        let max = b.reduce(ReduceKind::Max, x, &[1]);
        let max = b.broadcast(max, &[8, 16], &[0]);
        let shifted = b.sub(x, max);
        let exp = b.unary(UnaryKind::Exp, shifted);
        let sum = b.reduce(ReduceKind::Sum, exp, &[1]);
        let sum = b.broadcast(sum, &[8, 16], &[0]);
        let out = b.binary(BinaryKind::Div, exp, sum);
        b.store(o, out);
        let program = b.finish();
        let items = items(&program, &count_uses(&program), &program.body);
        let chains: Vec<(usize, &[Value])> = (items.iter())
            .filter_map(|item| match item {
                Item::Chain(chain) => Some((chain.insts.len(), &chain.outputs[..])),
                Item::Single(_) => None,
            })
            .collect();
        assert_eq!(chains, [(3, &[exp][..]), (2, &[out][..])]);
        assert_eq!(items.len(), 6);
    }
}
