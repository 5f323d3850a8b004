//! Which value dies where.
//!
//! One walk backwards over structured code. A value that a loop reads from outside lives through all
//! of it; in a `switch` a value may die in one branch and at the entry of another.

use super::fuse::{self, Item};
use pallas_rs_ir::{Effect, Inst, Op, Program, Region, Value};

/// An instruction or a chain, with what dies at it.
#[derive(Debug)]
pub(crate) struct Node<'p> {
    pub(crate) item: Item<'p>,
    /// Operands that no later instruction reads.
    pub(crate) dying: Vec<Value>,
    /// Values a loop reads that die when the loop ends, and results nobody reads.
    pub(crate) dying_after: Vec<Value>,
    pub(crate) regions: Vec<Body<'p>>,
}

/// A region with what dies in it.
#[derive(Debug)]
pub(crate) struct Body<'p> {
    pub(crate) region: &'p Region,
    /// Values that only other branches read, and parameters nobody reads.
    pub(crate) dying_at_entry: Vec<Value>,
    pub(crate) nodes: Vec<Node<'p>>,
    /// Yielded values that nobody else reads.
    pub(crate) dying_at_yield: Vec<Value>,
}

/// The body of a program, without the pure instructions whose results nobody reads.
pub(crate) fn analyse(program: &Program) -> Body<'_> {
    let walk = Walk { program, uses: fuse::count_uses(program) };
    walk.body(&program.body, &mut Set::new(program.values.len()))
}

struct Walk<'p> {
    program: &'p Program,
    uses: Vec<u32>,
}

impl<'p> Walk<'p> {
    /// `live`: on entry what lives after the region, apart from what it yields; on exit what lives
    /// before it.
    fn body(&self, region: &'p Region, live: &mut Set) -> Body<'p> {
        let mut dying_at_yield = Vec::new();
        for &value in &region.yields {
            if live.insert(value) {
                dying_at_yield.push(value);
            }
        }
        let items = if self.program.options.skip_floating_point_ops {
            region.insts.iter().map(Item::Single).collect()
        } else {
            fuse::items(self.program, &self.uses, region)
        };
        let mut nodes = Vec::with_capacity(items.len());
        for item in items.into_iter().rev() {
            let used = item.results().iter().any(|&v| live.contains(v));
            let acts = item.single().is_some_and(|inst| inst.op.info().effect != Effect::Pure);
            if used || acts {
                nodes.push(self.node(item, live));
            }
        }
        nodes.reverse();
        let unread = region.params.iter().copied().filter(|&v| !live.remove(v));
        Body { region, dying_at_entry: unread.collect(), nodes, dying_at_yield }
    }

    fn node(&self, item: Item<'p>, live: &mut Set) -> Node<'p> {
        let unread = item.results().iter().copied().filter(|&v| !live.remove(v)).collect();
        let inst = item.single();
        let mut node = Node { item, dying: Vec::new(), dying_after: unread, regions: Vec::new() };
        if let Some(inst) = inst {
            match &inst.op {
                Op::ForLoop {} | Op::WhileLoop {} => self.repeated(&mut node, inst, live),
                Op::Switch {} => self.branches(&mut node, inst, live),
                Op::Scope { .. } | Op::Warps {} => {
                    node.regions.push(self.body(&inst.regions[0], live))
                }
                _ => {}
            }
        }
        for &value in node.item.operands() {
            if live.insert(value) {
                node.dying.push(value);
            }
        }
        node
    }

    fn repeated(&self, node: &mut Node<'p>, inst: &'p Inst, live: &mut Set) {
        let mut read = Vec::new();
        for region in &inst.regions {
            free_values(region, &mut Set::new(self.program.values.len()), &mut read);
        }
        if let Op::ForLoop {} = inst.op {
            read.push(inst.operands[1]);
        }
        for value in read {
            if live.insert(value) {
                node.dying_after.push(value);
            }
        }
        for (i, region) in inst.regions.iter().enumerate() {
            let mut inside = live.clone();
            let kept: &[Value] = match inst.op {
                // The counter is read at the end of each round.
                Op::ForLoop {} => &region.params[..1],
                // What the condition looks at is what the body starts with.
                _ if i == 0 => &region.params,
                _ => &[],
            };
            for &value in kept {
                inside.insert(value);
            }
            node.regions.push(self.body(region, &mut inside));
        }
    }

    fn branches(&self, node: &mut Node<'p>, inst: &'p Inst, live: &mut Set) {
        let after = live.clone();
        let mut entries = Vec::new();
        for region in &inst.regions {
            let mut entry = after.clone();
            node.regions.push(self.body(region, &mut entry));
            live.union(&entry);
            entries.push(entry);
        }
        for (body, entry) in node.regions.iter_mut().zip(&entries) {
            body.dying_at_entry.extend(live.without(entry));
        }
    }
}

/// Appends the values that a region reads from the code around it.
fn free_values(region: &Region, inner: &mut Set, out: &mut Vec<Value>) {
    for &param in &region.params {
        inner.insert(param);
    }
    for inst in &region.insts {
        out.extend(inst.operands.iter().filter(|&&v| !inner.contains(v)));
        for nested in &inst.regions {
            free_values(nested, inner, out);
        }
        for &result in &inst.results {
            inner.insert(result);
        }
    }
    out.extend(region.yields.iter().filter(|&&v| !inner.contains(v)));
}

/// A set of values.
#[derive(Clone, Debug)]
struct Set(Vec<u64>);

impl Set {
    fn new(values: usize) -> Set {
        Set(vec![0; values.div_ceil(64)])
    }

    fn contains(&self, value: Value) -> bool {
        self.0[value.0 as usize / 64] >> (value.0 % 64) & 1 != 0
    }

    /// Whether the value was not in the set.
    fn insert(&mut self, value: Value) -> bool {
        let new = !self.contains(value);
        self.0[value.0 as usize / 64] |= 1 << (value.0 % 64);
        new
    }

    /// Whether the value was in the set.
    fn remove(&mut self, value: Value) -> bool {
        let known = self.contains(value);
        self.0[value.0 as usize / 64] &= !(1 << (value.0 % 64));
        known
    }

    fn union(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    fn without<'a>(&'a self, other: &'a Set) -> impl Iterator<Item = Value> + 'a {
        self.0.iter().zip(&other.0).enumerate().flat_map(|(word, (a, b))| {
            let mut bits = a & !b;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(Value(word as u32 * 64 + bit))
            })
        })
    }
}
