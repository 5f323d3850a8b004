//! What is known before a body runs: constants, and what follows from them and from which CUDA thread
//! it is.

use super::code::Src;
use super::pure::{self, In, Position};
use pallas_rs_core::Operand;
use pallas_rs_ir::Program;
use pallas_rs_ir::lane::{LaneBody, LaneInst, LaneOp, LaneType, LaneValue};
use std::sync::Arc;

/// A known value.
#[derive(Clone, Debug)]
pub(crate) enum Folded {
    /// The same bits in every element.
    Splat(u64),
    /// Lane by lane.
    Dense(Arc<[u8]>),
}

impl Folded {
    pub(super) fn operand(&self) -> Operand<'_> {
        match self {
            Folded::Splat(bits) => Operand::Splat(*bits),
            Folded::Dense(bytes) => Operand::Slice(bytes),
        }
    }
}

/// The known values of a body. One that does not depend on the position of the machine thread is
/// there once, others are there once per position.
pub(super) struct Fold<'b> {
    body: &'b LaneBody,
    positions: Vec<Position>,
    values: Vec<Option<Vec<Folded>>>,
    tables: Vec<Vec<Folded>>,
}

impl<'b> Fold<'b> {
    pub(super) fn new(body: &'b LaneBody, program: &Program) -> Fold<'b> {
        let size = 128 * program.num_threads as u32;
        let count = size / body.threads;
        let positions: Vec<Position> = (0..count)
            .map(|i| Position { first: i * body.threads, size, lanes: body.threads as usize })
            .collect();
        let values = vec![None; body.types.len()];
        let tables = vec![Vec::new(); positions.len()];
        Fold { body, positions, values, tables }
    }

    /// Computes an instruction whose operands are known, if they all are and it can be.
    pub(super) fn try_inst(&mut self, inst: &LaneInst) -> bool {
        let [result] = inst.results[..] else { return false };
        let known: Option<Vec<&Vec<Folded>>> =
            inst.operands.iter().map(|v| self.values[v.0 as usize].as_ref()).collect();
        let Some(known) = known else { return false };
        let everywhere =
            !matches!(inst.op, LaneOp::ThreadIndex { .. }) && known.iter().all(|v| v.len() == 1);
        let positions = if everywhere { &self.positions[..1] } else { &self.positions[..] };
        let mut results = Vec::with_capacity(positions.len());
        for (i, position) in positions.iter().enumerate() {
            let ins: Vec<In<'_>> = (inst.operands.iter().zip(&known))
                .map(|(v, known)| In {
                    data: known[i.min(known.len() - 1)].operand(),
                    ty: self.body.ty(*v),
                })
                .collect();
            match Self::compute(&inst.op, &ins, self.body.ty(result), position) {
                Some(folded) => results.push(folded),
                None => return false,
            }
        }
        self.values[result.0 as usize] = Some(results);
        true
    }

    fn compute(op: &LaneOp, ins: &[In<'_>], ty: LaneType, position: &Position) -> Option<Folded> {
        let size = ty.dtype.size();
        if let LaneOp::Constant { bits } = op {
            return Some(Folded::Splat(*bits));
        }
        let mut out = vec![0; size * ty.len as usize * position.lanes];
        if !pure::eval(op, ins, ty, position, super::all(position.lanes), &mut out) {
            return None;
        }
        let first = &out[..size];
        Some(if out.chunks_exact(size).all(|element| element == first) {
            Folded::Splat(pallas_rs_core::load_scalar(size, first, 0))
        } else {
            Folded::Dense(out.into())
        })
    }

    /// A known value under another type of the same bytes.
    pub(super) fn bitcast(&mut self, from: LaneValue, to: LaneValue) {
        let (from_ty, to_ty) = (self.body.ty(from), self.body.ty(to));
        let values =
            self.values[from.0 as usize].clone().expect("a value is defined before its use");
        let lanes = self.body.threads as usize;
        // Equal elements are equal bits of another width only where the widths agree.
        let convert = |value: Folded| match value {
            Folded::Splat(bits) if from_ty.dtype.size() != to_ty.dtype.size() => {
                let mut out = vec![0; from_ty.dtype.size() * from_ty.len as usize * lanes];
                pallas_rs_core::fill(from_ty.dtype.size(), bits, &mut out);
                Folded::Dense(out.into())
            }
            other => other,
        };
        self.values[to.0 as usize] = Some(values.into_iter().map(convert).collect());
    }

    /// Where a known value is found at run time.
    pub(super) fn place(&mut self, value: LaneValue) -> Src {
        let known =
            self.values[value.0 as usize].as_ref().expect("a value is defined before its use");
        if let [Folded::Splat(bits)] = known[..] {
            return Src::Splat(bits);
        }
        for (position, table) in self.tables.iter_mut().enumerate() {
            table.push(known[position.min(known.len() - 1)].clone());
        }
        Src::Table(self.tables[0].len() as u32 - 1)
    }

    pub(super) fn into_tables(self) -> Vec<Vec<Folded>> {
        self.tables
    }
}
