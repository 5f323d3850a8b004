//! Which operand of an instruction is which: the rows of the op table with their counts filled in.

use crate::attrs::{GatherDim, Start};
use crate::op::{Count, Op};
use crate::program::{Inst, Value};

impl Op {
    /// How many operands each entry of the row takes when there are `total`; none when that number
    /// is impossible.
    pub fn operand_counts(&self, total: usize) -> Option<Vec<usize>> {
        let row = self.info().operands;
        let mut stated = self.stated_counts().into_iter();
        let single = row.iter().filter(|operand| operand.count == Count::One).count();
        let counts: Option<Vec<usize>> = (row.iter())
            .map(|operand| match operand.count {
                Count::One => Some(1),
                Count::Optional => stated.next(),
                Count::Many => stated.next().or(total.checked_sub(single)),
            })
            .collect();
        counts.filter(|counts| counts.iter().sum::<usize>() == total)
    }

    /// What the attributes say about the operands that do not occur exactly once, in the row's
    /// order. Empty where nothing is said: then the row's only starred operand takes the rest.
    fn stated_counts(&self) -> Vec<usize> {
        match self {
            Op::RefSlice { dims } => vec![dynamic(dims.iter().map(|dim| dim.start()))],
            Op::LoadMasked { other } => vec![usize::from(*other)],
            Op::Gather { dims, mask, other, .. } => {
                let [starts, indices] = indexer_counts(dims);
                vec![starts, indices, usize::from(*mask), usize::from(*other)]
            }
            Op::Scatter { dims, mask, .. } => {
                let [starts, indices] = indexer_counts(dims);
                vec![starts, indices, usize::from(*mask)]
            }
            Op::AtomicRmw { mask, .. } => vec![usize::from(*mask)],
            Op::BarrierArrive { predicate }
            | Op::CopySmemToGmem { predicate, .. }
            | Op::Tcgen05CommitArrive { predicate, .. } => {
                vec![usize::from(*predicate)]
            }
            Op::Tcgen05Mma { scaled, sparse, .. } => {
                vec![usize::from(*scaled), usize::from(*scaled), usize::from(*sparse)]
            }
            Op::CopyGmemToSmem { barrier, predicate, .. } => {
                vec![usize::from(*barrier), usize::from(*predicate)]
            }
            Op::Constant { .. }
            | Op::ConstantArray { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Compare { .. }
            | Op::IntegerPow { .. }
            | Op::SelectN {}
            | Op::Clamp {}
            | Op::Convert {}
            | Op::Bitcast {}
            | Op::ReducePrecision { .. }
            | Op::Iota { .. }
            | Op::Broadcast { .. }
            | Op::Reshape {}
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Concatenate { .. }
            | Op::Rev { .. }
            | Op::DynamicSlice {}
            | Op::DynamicUpdateSlice {}
            | Op::Reduce { .. }
            | Op::Cumulative { .. }
            | Op::DotGeneral { .. }
            | Op::ProgramId { .. }
            | Op::NumPrograms { .. }
            | Op::ClusterIndex { .. }
            | Op::ThreadIndex {}
            | Op::ForLoop {}
            | Op::WhileLoop {}
            | Op::Switch {}
            | Op::Scope { .. }
            | Op::Warps {}
            | Op::RefTranspose { .. }
            | Op::RefReshape {}
            | Op::RefBitcast {}
            | Op::RefPeer { .. }
            | Op::BlockWindow { .. }
            | Op::Load {}
            | Op::Store {}
            | Op::Swap {}
            | Op::StoreMasked {}
            | Op::AtomicCas {}
            | Op::BarrierWait {}
            | Op::BarrierTest {}
            | Op::NamedBarrierArrive {}
            | Op::NamedBarrierSync {}
            | Op::AsyncStoreSmem { .. }
            | Op::SemaphoreSignal {}
            | Op::SemaphoreWait { .. }
            | Op::SemaphoreRead {}
            | Op::TryClusterCancel { .. }
            | Op::QueryClusterCancel { .. }
            | Op::CommitGroup {}
            | Op::WaitSmemToGmem { .. }
            | Op::WaitGmemToSmem { .. }
            | Op::CommitSmem {}
            | Op::Wgmma { .. }
            | Op::WgmmaWait { .. }
            | Op::AccumulatorLoad { .. }
            | Op::AsyncLoadTmem {}
            | Op::WaitLoadTmem {}
            | Op::AsyncStoreTmem {}
            | Op::CommitTmem {}
            | Op::AsyncCopySmemToTmem { .. }
            | Op::InlineMgpu { .. }
            | Op::XlaCall { .. }
            | Op::Print { .. }
            | Op::Check { .. }
            | Op::Callback { .. } => Vec::new(),
        }
    }
}

impl Inst {
    /// The operands of each entry of the op's row; none when their number is impossible.
    pub fn operand_groups(&self) -> Option<Vec<&[Value]>> {
        let mut rest = &self.operands[..];
        let counts = self.op.operand_counts(rest.len())?;
        let groups = counts.into_iter().map(|count| {
            let (group, behind) = rest.split_at(count);
            rest = behind;
            group
        });
        Some(groups.collect())
    }
}

fn dynamic(starts: impl Iterator<Item = Start>) -> usize {
    starts.filter(|start| *start == Start::Dynamic).count()
}

fn indexer_counts(dims: &[GatherDim]) -> [usize; 2] {
    let starts = dims.iter().filter_map(|dim| match dim {
        GatherDim::Array => None,
        GatherDim::Slice { start, .. } => Some(*start),
    });
    let indices = dims.iter().filter(|dim| **dim == GatherDim::Array).count();
    [dynamic(starts), indices]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::{RmwKind, SliceDim};

    fn slice(start: Start) -> GatherDim {
        GatherDim::Slice { start, size: 1, stride: 1 }
    }

    #[test]
    fn attributes_decide_the_groups() {
        let gather = Op::Gather {
            dims: vec![GatherDim::Array, slice(Start::Dynamic), GatherDim::Array],
            at: 0,
            mask: true,
            other: false,
        };
        assert_eq!(gather.operand_counts(5), Some(vec![1, 1, 2, 1, 0]));
        assert_eq!(gather.operand_counts(6), None);
        let view = Op::RefSlice { dims: vec![SliceDim::Index(Start::Static(0))] };
        assert_eq!(view.operand_counts(1), Some(vec![1, 0]));
        assert_eq!(view.operand_counts(2), None);
    }

    #[test]
    fn a_star_takes_the_rest() {
        assert_eq!(Op::ForLoop {}.operand_counts(5), Some(vec![1, 1, 3]));
        assert_eq!(Op::ForLoop {}.operand_counts(1), None);
        assert_eq!(Op::ThreadIndex {}.operand_counts(1), None);
        let rmw = Op::AtomicRmw { kind: RmwKind::Add, mask: false };
        assert_eq!(rmw.operand_counts(3), None);
    }

    /// Without this, `operand_counts` would have to guess.
    #[test]
    fn at_most_one_starred_operand_is_left_to_the_rest() {
        for row in crate::OPS {
            let variable = row.operands.iter().filter(|operand| operand.count != Count::One);
            let counted =
                ["gather", "scatter", "copy_gmem_to_smem", "tcgen05_mma"].contains(&row.mnemonic);
            assert!(variable.count() <= 1 || counted, "{}", row.mnemonic);
        }
    }
}
