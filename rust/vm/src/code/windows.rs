//! What a program does to its arguments as a whole: which it writes, and through which windows.
//!
//! Points of an in-order grid may run at the same time if what they write is disjoint from what the
//! others touch. Where everything written is reached through blocks that tile their array, that
//! follows from where the blocks are; this finds the code that computes it.

use super::{Code, Reg};
use pallas_rs_ir::{BlockDim, Effect, Inst, Op, Program, Region, Type, Value};
use std::sync::Arc;

/// Where the blocks of written arguments are, as a program that does nothing else.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) code: Code,
    /// Argument and ref register of each window.
    pub(crate) windows: Vec<(u32, Reg)>,
}

/// Which argument a ref looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Root {
    arg: usize,
    /// Whether through a block.
    windowed: bool,
}

/// Roots of all refs.
struct Roots<'p> {
    program: &'p Program,
    roots: Vec<Option<Root>>,
}

impl<'p> Roots<'p> {
    fn new(program: &'p Program) -> Roots<'p> {
        let mut roots = vec![None; program.values.len()];
        for (arg, param) in program.body.params.iter().enumerate() {
            roots[param.0 as usize] = Some(Root { arg, windowed: false });
        }
        let mut all = Roots { program, roots };
        all.follow(&program.body);
        all
    }

    fn follow(&mut self, region: &Region) {
        for inst in &region.insts {
            let windowed = match inst.op {
                Op::RefSlice { .. }
                | Op::RefTranspose { .. }
                | Op::RefReshape {}
                | Op::RefBitcast {}
                | Op::RefPeer { .. } => false,
                Op::BlockWindow { .. } => true,
                _ => {
                    inst.regions.iter().for_each(|region| self.follow(region));
                    continue;
                }
            };
            let root = self.root(inst.operands[0]);
            self.roots[inst.results[0].0 as usize] =
                root.map(|root| Root { windowed: root.windowed || windowed, ..root });
        }
    }

    fn root(&self, value: Value) -> Option<Root> {
        match self.program.ty(value) {
            Type::Ref(_) => self.roots[value.0 as usize],
            Type::Scalar(_) | Type::Tile(..) => None,
        }
    }
}

/// The operand of an op that it writes through.
fn target(inst: &Inst) -> Option<Value> {
    match inst.op {
        Op::Store {}
        | Op::Swap {}
        | Op::StoreMasked {}
        | Op::Scatter { .. }
        | Op::AtomicRmw { .. }
        | Op::AtomicCas {}
        | Op::SemaphoreSignal {}
        | Op::SemaphoreWait { .. } => Some(inst.operands[0]),
        Op::CopySmemToGmem { .. } | Op::CopyGmemToSmem { .. } => Some(inst.operands[1]),
        _ => None,
    }
}

/// By argument: whether the program writes to it.
pub(super) fn written(program: &Program) -> Vec<bool> {
    let roots = Roots::new(program);
    let mut written = vec![false; program.args.len()];
    visit(&program.body, &mut |inst, _| {
        if let Op::InlineMgpu { body } = inst.op
            && program.lane_bodies[body].writes()
        {
            let roots = inst.operands.iter().filter_map(|&operand| roots.root(operand));
            roots.for_each(|root| written[root.arg] = true);
        }
        if let Some(root) = target(inst).and_then(|target| roots.root(target)) {
            written[root.arg] = true;
        }
        true
    });
    written
}

/// Calls `f` with every instruction and its depth until it returns false.
fn visit(region: &Region, f: &mut impl FnMut(&Inst, usize) -> bool) -> bool {
    fn at(region: &Region, depth: usize, f: &mut impl FnMut(&Inst, usize) -> bool) -> bool {
        region.insts.iter().all(|inst| {
            f(inst, depth) && inst.regions.iter().all(|region| at(region, depth + 1, f))
        })
    }
    at(region, 0, f)
}

/// The windows of an in-order program, unless some write is not through a block that tiles its array
/// or the order of points shows in some other way.
pub(super) fn windows(program: &Program, written: &[bool]) -> Option<Windows> {
    if !program.in_order || program.num_threads != 1 || !program.cluster.is_empty() {
        return None;
    }
    let roots = Roots::new(program);
    let mut shapes: Vec<Option<&[BlockDim]>> = vec![None; program.args.len()];
    let tiled = visit(&program.body, &mut |inst, depth| {
        let mut through =
            inst.operands.iter().filter_map(|&v| roots.root(v)).filter(|r| written[r.arg]);
        match &inst.op {
            // What people see is in order.
            Op::Print { .. } | Op::Callback { .. } => false,
            Op::SemaphoreSignal {} | Op::SemaphoreWait { .. } | Op::SemaphoreRead {} => false,
            Op::BlockWindow { .. } if through.next().is_some() => depth == 0,
            Op::RefSlice { .. }
            | Op::RefTranspose { .. }
            | Op::RefReshape {}
            | Op::RefBitcast {}
            | Op::RefPeer { .. } => true,
            _ => through.all(|root| root.windowed),
        }
    });
    if !tiled {
        return None;
    }
    for inst in &program.body.insts {
        let (Op::BlockWindow { dims }, Some(root)) =
            (&inst.op, inst.operands.first().and_then(|&v| roots.root(v)))
        else {
            continue;
        };
        if written[root.arg] {
            // Blocks of one shape that start at multiples of it are the same or disjoint.
            let aligned = dims.iter().all(|d| !matches!(d, BlockDim::Element { .. }));
            let known = shapes[root.arg].get_or_insert(dims);
            if root.windowed || !aligned || *known != &dims[..] {
                return None;
            }
        }
    }
    slice(program, &roots, written)
}

/// The part of the body that computes the windows of written arguments.
fn slice(program: &Program, roots: &Roots<'_>, written: &[bool]) -> Option<Windows> {
    let mut needed = vec![false; program.values.len()];
    let mut kept = Vec::new();
    let mut windows = Vec::new();
    for inst in program.body.insts.iter().rev() {
        let root = inst.operands.first().and_then(|&v| roots.root(v));
        let window =
            matches!(inst.op, Op::BlockWindow { .. }) && root.is_some_and(|r| written[r.arg]);
        if !window && !inst.results.iter().any(|v| needed[v.0 as usize]) {
            continue;
        }
        let computed = match inst.op {
            Op::BlockWindow { .. } => true,
            Op::Load {} => root.is_some_and(|r| !written[r.arg]),
            _ => inst.op.info().effect == Effect::Pure,
        };
        if !computed {
            return None;
        }
        if let (true, Some(root)) = (window, root) {
            windows.push((root.arg as u32, inst.results[0]));
        }
        inst.operands.iter().for_each(|v| needed[v.0 as usize] = true);
        kept.push(inst.clone());
    }
    if windows.is_empty() {
        return None;
    }
    kept.reverse();
    let body = Region { insts: kept, params: program.body.params.clone(), yields: Vec::new() };
    let part = Program { body, ..program.clone() };
    let (code, places) = super::lower::lower_keeping(Arc::new(part));
    let windows = windows.into_iter().map(|(arg, value)| (arg, places[value.0 as usize])).collect();
    Some(Windows { code, windows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pallas_rs_core::DType;
    use pallas_rs_ir::builder::{Builder, Dim};

    const ROW: [BlockDim; 2] = [BlockDim::Blocked(1), BlockDim::Blocked(4)];

    /// A kernel of blocks of rows; `body` gets the arrays, their blocks and the grid index.
    fn program(body: impl FnOnce(&mut Builder, [Value; 2], [Value; 2], Value)) -> Program {
        let mut b = Builder::new("rows");
        b.in_order().grid(&[4]);
        let x = b.input("x_ref", DType::I32, &[4, 4]);
        let o = b.output("o_ref", DType::I32, &[4, 4]);
        let (i, zero) = (b.program_id(0), b.int(0));
        let blocks = [x, o].map(|a| b.block_window(a, &ROW, &[i, zero]));
        let v = b.load(blocks[0]);
        b.store(blocks[1], v);
        body(&mut b, [x, o], blocks, i);
        b.finish()
    }

    fn windows_of(program: &Program) -> Option<Vec<u32>> {
        let found = windows(program, &written(program))?;
        Some(found.windows.iter().map(|&(arg, _)| arg).collect())
    }

    #[test]
    fn blocks_of_what_is_written() {
        let plain = program(|_, _, _, _| {});
        assert_eq!(written(&plain), [false, true]);
        assert_eq!(windows_of(&plain), Some(vec![1]));
        let again = program(|b, [_, o], _, i| {
            let zero = b.int(0);
            let same = b.block_window(o, &ROW, &[zero, i]);
            b.load(same);
        });
        assert_eq!(windows_of(&again), Some(vec![1, 1]));
        let read_anywhere = program(|b, [x, _], _, i| {
            let view = b.view(x, &[Dim::Index(i)]);
            b.load(view);
        });
        assert_eq!(windows_of(&read_anywhere), Some(vec![1]));
    }

    #[test]
    fn what_shows_the_order_of_points() {
        let reads_output = program(|b, [_, o], _, i| {
            let view = b.view(o, &[Dim::Index(i)]);
            b.load(view);
        });
        let other_blocks = program(|b, [_, o], _, i| {
            let zero = b.int(0);
            let dims = [BlockDim::Blocked(2), BlockDim::Blocked(4)];
            let block = b.block_window(o, &dims, &[i, zero]);
            b.load(block);
        });
        let prints = program(|b, _, _, i| b.print("{}", &[i]));
        let index_from_output = program(|b, [_, o], blocks, _| {
            let corner = b.view(blocks[1], &[Dim::At(0), Dim::At(0)]);
            let row = b.load(corner);
            let block = b.block_window(o, &ROW, &[row, row]);
            b.load(block);
        });
        for program in [reads_output, other_blocks, prints, index_from_output] {
            assert_eq!(windows_of(&program), None);
        }
    }
}
