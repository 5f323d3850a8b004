//! Structured regions to flat code with registers.

use super::chain::{self, ChainCode};
use super::fuse::{Chain, Item};
use super::inst::{Inst, Reg};
use super::liveness::{self, Body, Node};
use super::registers::{File, Move, Place, Registers, sequence};
use super::{ByValue, Code, Initial, Operand, Record, ScopeCode, TileType, lend, select};
use pallas_rs_core::DType;
use pallas_rs_ir::{self as ir, Effect, Op, Program, SpanId, Type, Value};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Flattens a verified program.
pub(super) fn lower(program: Arc<Program>) -> Code {
    lower_into(program, Registers::default()).0
}

/// As [`lower`], with a register of its own for every value, by value.
pub(super) fn lower_keeping(program: Arc<Program>) -> (Code, Vec<Reg>) {
    let (code, places) = lower_into(program, Registers::kept());
    (code, places.iter().map(|place| place.map_or(0, |place| place.reg)).collect())
}

fn lower_into(program: Arc<Program>, regs: Registers) -> (Code, Vec<Option<Place>>) {
    let body = liveness::analyse(&program);
    let mut lower = Lower {
        program: &program,
        regs,
        places: vec![None; program.values.len()],
        constant: vec![false; program.values.len()],
        dead: vec![false; program.values.len()],
        wishes: FxHashMap::default(),
        constants: FxHashMap::default(),
        tile_types: FxHashMap::default(),
        ref_types: FxHashMap::default(),
        span: SpanId(0),
        lends: false,
        code: Code::empty(Arc::clone(&program)),
    };
    lower.arguments();
    lower.body(&body);
    lower.emit(Inst::End);
    let Lower { regs, mut code, places, .. } = lower;
    code.scalars = regs.count(File::Scalar);
    code.tiles = regs.count(File::Tile);
    code.refs = regs.count(File::Ref);
    (code, places)
}

/// A register a value should be in, because it is moved there in the end.
#[derive(Clone, Copy)]
struct Wish {
    place: Place,
    /// The value that is in it until then.
    after: Option<Value>,
}

#[derive(PartialEq, Eq, Hash)]
enum Constant {
    Bits(Type, u64),
    Blob(Type, usize),
}

struct Lower<'p> {
    program: &'p Program,
    regs: Registers,
    /// By value: its register.
    places: Vec<Option<Place>>,
    /// By value: whether it is there before the code runs.
    constant: Vec<bool>,
    /// By value: whether it has died on the way here.
    dead: Vec<bool>,
    wishes: FxHashMap<Value, Wish>,
    constants: FxHashMap<Constant, Place>,
    tile_types: FxHashMap<Type, u32>,
    ref_types: FxHashMap<Type, u32>,
    span: SpanId,
    /// Whether the load at hand may lend its result.
    lends: bool,
    code: Code,
}

impl<'p> Lower<'p> {
    fn emit(&mut self, inst: Inst) -> usize {
        self.code.insts.push(inst);
        self.code.spans.push(self.span);
        self.code.insts.len() - 1
    }

    fn here(&self) -> u32 {
        self.code.insts.len() as u32
    }

    fn file(&self, value: Value) -> File {
        self.program.ty(value).into()
    }

    fn place(&self, value: Value) -> Place {
        self.places[value.0 as usize].expect("a value is defined before it is used")
    }

    fn bind(&mut self, value: Value, place: Place) {
        self.places[value.0 as usize] = Some(place);
        self.dead[value.0 as usize] = false;
    }

    fn arguments(&mut self) {
        let params = &self.program.body.params;
        for (arg, &value) in params.iter().enumerate() {
            let place = self.regs.permanent(self.file(value));
            self.bind(value, place);
            self.constant[value.0 as usize] = true;
            match self.program.ty(value) {
                Type::Ref(ty) => {
                    self.code.initial.push(Initial::Arg {
                        reg: place.reg,
                        arg: arg as u32,
                        shape: ty.shape.clone(),
                    });
                }
                Type::Scalar(_) | Type::Tile(..) => {
                    let operand = self.operand(value, false);
                    self.code.by_value.push(ByValue { arg: arg as u32, operand });
                }
            }
        }
    }

    /// A value has died: its register is free, and its tile's buffer if `drop`.
    fn die(&mut self, value: Value, drop: bool) {
        let place = self.place(value);
        if self.constant[value.0 as usize]
            || std::mem::replace(&mut self.dead[value.0 as usize], true)
        {
            return;
        }
        if drop && place.file == File::Tile {
            self.emit(Inst::DropTile { tile: place.reg });
        }
        self.regs.give_back(place);
    }

    /// A register for a new value: the one it is wished into if that is free by now.
    fn define(&mut self, value: Value) -> Place {
        let wished = self
            .wishes
            .remove(&value)
            .filter(|wish| wish.after.is_none_or(|before| self.dead[before.0 as usize]));
        let place = match wished {
            Some(wish) => wish.place,
            None => self.regs.take(self.file(value)),
        };
        self.bind(value, place);
        place
    }

    fn body(&mut self, body: &Body<'p>) {
        body.dying_at_entry.iter().for_each(|&v| self.die(v, true));
        for (i, node) in body.nodes.iter().enumerate() {
            self.span = node.item.span();
            self.lends = match &node.item {
                Item::Single(ir::Inst { op: Op::Load {}, results, .. }) => {
                    lend::may_lend(self.program, results[0], &body.nodes[i + 1..])
                }
                Item::Single(_) | Item::Chain(_) => false,
            };
            match &node.item {
                Item::Single(inst) => self.node(node, inst),
                Item::Chain(chain) => self.chain(node, chain),
            }
        }
    }

    fn node(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        match &inst.op {
            &Op::Constant { bits } => {
                let value = inst.results[0];
                self.constant(value, Constant::Bits(self.program.ty(value).clone(), bits));
            }
            &Op::ConstantArray { blob } => {
                let value = inst.results[0];
                self.constant(value, Constant::Blob(self.program.ty(value).clone(), blob));
            }
            Op::ForLoop {} => self.for_loop(node, inst),
            Op::WhileLoop {} => self.while_loop(node, inst),
            Op::Switch {} => self.switch(node, inst),
            Op::Scope { .. } => self.scope(node, inst),
            Op::Warps {} => self.warps(node, inst),
            op if self.skipped(op, &inst.results) => {
                for &value in &inst.results {
                    let ty = self.program.ty(value).clone();
                    let infinity = ty.dtype().map_or(0, infinity);
                    self.constant(value, Constant::Bits(ty, infinity));
                }
                node.dying.iter().for_each(|&v| self.die(v, true));
            }
            op => {
                self.code.steals |= matches!(op, Op::TryClusterCancel { .. });
                self.code.pairs |= matches!(op, Op::Tcgen05Mma { pair: true, .. });
                self.simple(node, inst);
            }
        }
    }

    /// Whether the user asked that this op be not computed.
    fn skipped(&self, op: &Op, results: &[Value]) -> bool {
        let float = |v: &Value| self.program.ty(*v).dtype().is_some_and(DType::is_float);
        self.program.options.skip_floating_point_ops
            && op.info().effect == Effect::Pure
            && results.iter().all(float)
    }

    /// Binds a value to a register that holds it before the code runs.
    fn constant(&mut self, value: Value, constant: Constant) {
        self.constant[value.0 as usize] = true;
        if let Some(&place) = self.constants.get(&constant) {
            return self.bind(value, place);
        }
        let place = self.regs.permanent(self.file(value));
        self.bind(value, place);
        let initial = match (&constant, self.operand(value, false)) {
            (&Constant::Bits(_, bits), Operand::Scalar { register, .. }) => {
                Initial::Scalar { reg: register, bits }
            }
            (&Constant::Blob(_, blob), Operand::Scalar { register, dtype }) => {
                let bytes = &self.program.blobs[blob];
                let bits = pallas_rs_core::load_scalar(dtype.size(), bytes, 0);
                Initial::Scalar { reg: register, bits }
            }
            (&Constant::Bits(_, bits), Operand::Tile { register, .. }) => {
                Initial::Splat { reg: register, bits }
            }
            (&Constant::Blob(_, blob), Operand::Tile { register, .. }) => {
                Initial::Blob { reg: register, blob: blob as u32 }
            }
            (_, Operand::Ref { .. }) => unreachable!("the verifier saw a value"),
        };
        self.code.initial.push(initial);
        self.constants.insert(constant, place);
    }

    fn operand(&mut self, value: Value, last: bool) -> Operand {
        let (program, register) = (self.program, self.place(value).reg);
        match program.ty(value) {
            Type::Scalar(dtype) => Operand::Scalar { register, dtype: *dtype },
            ty @ Type::Tile(dtype, shape) => {
                let types = &mut self.code.tile_types;
                let number = *self.tile_types.entry(ty.clone()).or_insert_with(|| {
                    types.push(TileType::new(*dtype, shape.clone()));
                    types.len() as u32 - 1
                });
                let bytes = types[number as usize].bytes as u32;
                Operand::Tile { register, ty: number, bytes, dtype: *dtype, last }
            }
            ty @ Type::Ref(ref_type) => {
                let types = &mut self.code.ref_types;
                let number = *self.ref_types.entry(ty.clone()).or_insert_with(|| {
                    types.push(ref_type.clone());
                    types.len() as u32 - 1
                });
                Operand::Ref { register, ty: number, dtype: ref_type.dtype() }
            }
        }
    }

    fn simple(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        let (operands, results) = self.values(node);
        if let Some(special) = Self::special(&inst.op, &operands, &results) {
            self.emit(special);
        } else {
            let drops = drops(&operands, &results);
            let record = self.code.records.len() as u32;
            let cost = cost(&inst.op, &operands, &results, &self.code);
            let (op, lends) = (inst.op.clone(), self.lends);
            self.code.records.push(Record { op, operands, results, drops, cost, lends });
            match self.stored_chain(record) {
                // Nothing can tell whether the chain ran before the store or as part of it.
                Some(chain) => {
                    self.code.insts.pop();
                    self.code.spans.pop();
                    self.emit(Inst::ChainStore { chain, record })
                }
                None => self.emit(Inst::Op { record }),
            };
        }
        node.dying_after.iter().for_each(|&v| self.die(v, true));
    }

    /// Registers of what a node reads and of what it makes.
    fn values(&mut self, node: &Node<'p>) -> (Box<[Operand]>, Box<[Operand]>) {
        let values = node.item.operands();
        let dies = |v: Value| node.dying.contains(&v) && !self.constant[v.0 as usize];
        let lasts: Vec<bool> = (values.iter().enumerate())
            .map(|(i, &v)| dies(v) && !values[i + 1..].contains(&v))
            .collect();
        let operands = values.iter().zip(lasts).map(|(&v, last)| self.operand(v, last)).collect();
        // A result may take the register of an operand that dies: operands are read first.
        node.dying.iter().for_each(|&v| self.die(v, false));
        let results = (node.item.results().iter())
            .map(|&v| {
                self.define(v);
                self.operand(v, false)
            })
            .collect();
        (operands, results)
    }

    fn chain(&mut self, node: &Node<'p>, chain: &Chain<'p>) {
        let chain::Plan { steps, rows, strips } = chain::steps(self.program, chain);
        let (inputs, outputs) = self.values(node);
        let drops = drops(&inputs, &outputs);
        let len = chain::len(self.program, chain.outputs[0]);
        let number = self.code.chains.len() as u32;
        let (steps, rows) = (steps.into(), rows.into());
        self.code.chains.push(ChainCode { len, inputs, steps, rows, outputs, strips, drops });
        self.emit(Inst::Chain { chain: number });
        node.dying_after.iter().for_each(|&v| self.die(v, true));
    }

    /// The chain before a store of its only output, which nobody else reads.
    fn stored_chain(&self, record: u32) -> Option<u32> {
        let &Inst::Chain { chain } = self.code.insts.last()? else { return None };
        let record = &self.code.records[record as usize];
        let (Op::Store {}, &[_, Operand::Tile { register, last: true, .. }]) =
            (&record.op, &record.operands[..])
        else {
            return None;
        };
        let made = matches!(self.code.chains[chain as usize].outputs[..],
            [Operand::Tile { register: output, .. }] if output == register);
        made.then_some(chain)
    }

    fn special(op: &Op, operands: &[Operand], results: &[Operand]) -> Option<Inst> {
        let &[Operand::Scalar { register: dst, dtype: to }] = results else { return None };
        let mut from = None;
        let mut src = Vec::with_capacity(operands.len());
        for operand in operands {
            let &Operand::Scalar { register, dtype } = operand else { return None };
            from.get_or_insert(dtype);
            src.push(register);
        }
        select::scalar(op, from, to, dst, &src)
    }

    /// Moves that happen at the same time. A source is given away if it is among `dying`.
    fn moves(&mut self, pairs: impl IntoIterator<Item = (Place, Value)>, dying: &[Value]) {
        let moves: Vec<Move> = (pairs.into_iter())
            .map(|(dst, value)| {
                let src = self.place(value);
                let last = dying.contains(&value) && !self.constant[value.0 as usize];
                Move { file: dst.file, dst: dst.reg, src: src.reg, last }
            })
            .collect();
        let mut spares = Vec::new();
        let regs = &mut self.regs;
        let ordered = sequence(&moves, |file| {
            let place = regs.take(file);
            spares.push(place);
            place.reg
        });
        for Move { file, dst, src, last } in ordered {
            self.emit(match file {
                File::Scalar => Inst::MoveScalar { dst, src },
                File::Tile => Inst::MoveTile { dst, src, last },
                File::Ref => Inst::MoveRef { dst, src },
            });
        }
        spares.into_iter().for_each(|place| self.regs.give_back(place));
    }

    /// Ends a region: what it yields goes to `targets`.
    fn yields(&mut self, body: &Body<'p>, targets: &[Place]) {
        let pairs: Vec<_> =
            targets.iter().copied().zip(body.region.yields.iter().copied()).collect();
        self.moves(pairs, &body.dying_at_yield);
        body.dying_at_yield.iter().for_each(|&v| self.die(v, false));
    }

    /// Values that a region makes itself and yields should be made where they are wanted.
    fn wish(&mut self, body: &Body<'p>, targets: &[Place], after: Option<&[Value]>) {
        for (i, (&value, &place)) in body.region.yields.iter().zip(targets).enumerate() {
            let wish = Wish { place, after: after.map(|params| params[i]) };
            if body.nodes.iter().any(|n| n.item.results().contains(&value)) {
                self.wishes.entry(value).or_insert(wish);
            }
        }
    }

    /// Registers of a loop's carried values, holding their initial ones. The caller unpins them.
    fn carry(&mut self, init: &[Value], results: &[Value], dying: &[Value]) -> Vec<Place> {
        let mut targets = Vec::with_capacity(init.len());
        for (i, (&value, result)) in init.iter().zip(results).enumerate() {
            let from = self.place(value);
            let only = init.iter().filter(|v| **v == value).count() == 1;
            let dies = dying.contains(&value) && !self.constant[value.0 as usize];
            let wished = self.wishes.remove(result).filter(|wish| {
                wish.after.is_none_or(|before| {
                    let gone = self.dead[before.0 as usize];
                    gone || (before == init[i] && only && dying.contains(&before))
                })
            });
            let target = match wished {
                Some(wish) => wish.place,
                None if only && dies && !self.regs.is_pinned(from) => from,
                None => self.regs.take(from.file),
            };
            targets.push(target);
        }
        let pairs: Vec<_> = targets.iter().copied().zip(init.iter().copied()).collect();
        self.moves(pairs, dying);
        // Pinned first: an initial value's register may be one of them.
        targets.iter().for_each(|&place| self.regs.pin(place));
        dying.iter().for_each(|&v| self.die(v, false));
        targets
    }

    fn for_loop(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        let body = &node.regions[0];
        let (lo, hi, init) = (inst.operands[0], inst.operands[1], &inst.operands[2..]);
        let dtype = self.program.ty(lo).dtype().expect("the verifier saw an integer");
        let counter = self.regs.take(File::Scalar);
        self.moves([(counter, lo)], &[]);
        let targets = self.carry(init, &inst.results, &node.dying);
        let end = self.place(hi).reg;
        let (counter_reg, narrow) = (counter.reg, dtype == DType::I32);
        let enter = self.emit(Inst::ForEnterWide { counter: counter_reg, end, dtype, exit: 0 });
        self.regs.pin(counter);
        let (count, params) = body.region.params.split_first().expect("a loop has a counter");
        self.bind(*count, counter);
        params.iter().zip(&targets).for_each(|(&v, &place)| self.bind(v, place));
        self.wish(body, &targets, Some(params));
        let start = self.here();
        self.body(body);
        self.span = inst.span;
        self.yields(body, &targets);
        self.emit(if narrow {
            Inst::ForNext { counter: counter_reg, end, body: start }
        } else {
            Inst::ForNextWide { counter: counter_reg, end, dtype, body: start }
        });
        let exit = self.here();
        self.code.insts[enter] = if narrow {
            Inst::ForEnter { counter: counter_reg, end, exit }
        } else {
            Inst::ForEnterWide { counter: counter_reg, end, dtype, exit }
        };
        self.regs.unpin(counter);
        self.regs.give_back(counter);
        self.leave_loop(node, &targets);
    }

    fn while_loop(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        let (condition, body) = (&node.regions[0], &node.regions[1]);
        let targets = self.carry(&inst.operands, &inst.results, &node.dying);
        for region in [condition, body] {
            region.region.params.iter().zip(&targets).for_each(|(&v, &place)| self.bind(v, place));
        }
        let top = self.here();
        self.body(condition);
        self.span = inst.span;
        let go_on = self.place(condition.region.yields[0]).reg;
        condition.dying_at_yield.iter().for_each(|&v| self.die(v, false));
        let leave = self.emit(Inst::JumpUnless { condition: go_on, to: 0 });
        self.wish(body, &targets, Some(&body.region.params));
        self.body(body);
        self.span = inst.span;
        self.yields(body, &targets);
        self.emit(Inst::JumpBack { to: top });
        self.code.insts[leave] = Inst::JumpUnless { condition: go_on, to: self.here() };
        self.leave_loop(node, &targets);
    }

    /// The carried values' registers become the results'.
    fn leave_loop(&mut self, node: &Node<'p>, targets: &[Place]) {
        targets.iter().for_each(|&place| self.regs.unpin(place));
        node.item.results().iter().zip(targets).for_each(|(&v, &place)| self.bind(v, place));
        node.dying_after.iter().for_each(|&v| self.die(v, true));
    }

    fn switch(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        let index = self.place(inst.operands[0]).reg;
        let dtype = self.program.ty(inst.operands[0]).dtype().expect("the verifier saw an integer");
        let targets: Vec<Place> = inst.results.iter().map(|&v| self.define(v)).collect();
        targets.iter().for_each(|&place| self.regs.pin(place));
        let table = self.code.tables.len() as u32;
        self.code.tables.push(Box::default());
        let head = self.emit(Inst::JumpTable { index, dtype, table });
        node.dying.iter().for_each(|&v| self.die(v, false));
        let (start, dead) = (self.regs.clone(), self.dead.clone());
        let (mut entries, mut exits) = (Vec::new(), Vec::new());
        for (i, body) in node.regions.iter().enumerate() {
            if i > 0 {
                self.regs.rewind(&start);
                self.dead.clone_from(&dead);
            }
            entries.push(self.here());
            self.wish(body, &targets, None);
            self.body(body);
            self.span = inst.span;
            self.yields(body, &targets);
            if i + 1 < node.regions.len() {
                exits.push(self.emit(Inst::Jump { to: 0 }));
            }
        }
        let end = self.here();
        exits.into_iter().for_each(|i| self.code.insts[i] = Inst::Jump { to: end });
        if let (DType::Bool, &[_, on_true]) = (dtype, &entries[..]) {
            // The case of index 0 comes first.
            self.code.insts[head] = Inst::JumpIf { condition: index, to: on_true };
        }
        self.code.tables[table as usize] = entries.into();
        targets.iter().for_each(|&place| self.regs.unpin(place));
        node.dying_after.iter().for_each(|&v| self.die(v, true));
    }

    fn scope(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        let body = &node.regions[0];
        let Op::Scope { allocs, collective } = &inst.op else {
            unreachable!("asked about a scope")
        };
        let targets: Vec<Place> = inst.results.iter().map(|&v| self.define(v)).collect();
        targets.iter().for_each(|&place| self.regs.pin(place));
        let refs = body.region.params.iter().map(|&v| self.define(v).reg).collect();
        let scope = self.code.scopes.len() as u32;
        let first_alloc = self.code.allocs.len() as u32;
        self.code.allocs.extend_from_slice(allocs);
        let count = allocs.len() as u32;
        let mut acts =
            self.program.body.insts.iter().filter(|i| i.op.info().effect != Effect::Pure);
        let first = *collective && acts.next().is_some_and(|first| std::ptr::eq(first, inst));
        self.code.scopes.push(ScopeCode {
            first_alloc,
            count,
            refs,
            collective: *collective,
            first,
        });
        self.emit(Inst::EnterScope { scope });
        self.wish(body, &targets, None);
        self.body(body);
        self.span = inst.span;
        self.yields(body, &targets);
        self.emit(Inst::LeaveScope { scope });
        targets.iter().for_each(|&place| self.regs.unpin(place));
        node.dying_after.iter().for_each(|&v| self.die(v, true));
    }

    /// Every warp starts with a copy of the warpgroup's registers. What dies in the region dies in the
    /// copies; the warpgroup's own is overwritten by whoever gets the register next.
    fn warps(&mut self, node: &Node<'p>, inst: &'p ir::Inst) {
        let body = &node.regions[0];
        let warp = self.define(body.region.params[0]).reg;
        let fork = self.emit(Inst::Fork { warp, after: 0 });
        self.body(body);
        self.span = inst.span;
        self.emit(Inst::EndWarp);
        self.code.insts[fork] = Inst::Fork { warp, after: self.here() };
        self.emit(Inst::Join);
        self.code.warps = true;
    }
}

/// What an op takes, very roughly in nanoseconds.
fn cost(op: &Op, operands: &[Operand], results: &[Operand], code: &Code) -> i64 {
    let len = |shape: &[usize]| shape.iter().product::<usize>() as i64;
    let bytes = |operand: &Operand| match *operand {
        Operand::Tile { bytes, .. } => i64::from(bytes),
        Operand::Scalar { .. } | Operand::Ref { .. } => 0,
    };
    let view = |operand: Operand| len(&code.ref_type(operand).shape);
    let moved: i64 = operands.iter().chain(results).map(bytes).sum();
    let copied = match op {
        Op::CopyGmemToSmem { .. } | Op::CopySmemToGmem { .. } => {
            view(operands[0]) * operands[0].dtype().size() as i64
        }
        _ => 0,
    };
    let products = match (op, operands) {
        (Op::DotGeneral { lhs_contract, .. }, &[lhs @ Operand::Tile { .. }, _]) => {
            let lhs = &code.tile_type(lhs).shape;
            let depth: usize = lhs_contract.iter().map(|&d| lhs[d]).product();
            results.iter().map(bytes).sum::<i64>() / 4 * depth as i64
        }
        (Op::Wgmma { .. }, &[acc, _, b]) => view(acc) * code.ref_type(b).shape[0] as i64,
        _ => 0,
    };
    32 + (moved + copied) / 32 + products / 64
}

/// Tile registers whose tile dies and that no result takes over.
fn drops(operands: &[Operand], results: &[Operand]) -> Box<[Reg]> {
    let tile = |operand: &Operand| match *operand {
        Operand::Tile { register, .. } => Some(register),
        Operand::Scalar { .. } | Operand::Ref { .. } => None,
    };
    let taken = |reg: Reg| results.iter().filter_map(tile).any(|result| result == reg);
    (operands.iter())
        .filter(|operand| matches!(operand, Operand::Tile { last: true, .. }))
        .filter_map(tile)
        .filter(|&register| !taken(register))
        .collect()
}

/// Bits of infinity, or of the largest number of a format without one.
fn infinity(dtype: DType) -> u64 {
    let one_over_zero =
        |dtype| pallas_rs_core::convert_scalar(DType::F32, dtype, f32::INFINITY.to_bits().into());
    if dtype.fits_scalar() { one_over_zero(dtype) } else { 0 }
}
