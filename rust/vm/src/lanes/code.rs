//! A body as flat code with registers.

use super::Mask;
use super::fold::{Fold, Folded};
use super::views::ViewMap;
use pallas_rs_core::DType;
use pallas_rs_ir::lane::{LaneBody, LaneEffect, LaneInst, LaneOp, LaneRegion, LaneType, LaneValue};
use pallas_rs_ir::{Program, SpanId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Where a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Src {
    /// The same bits in every element of every lane.
    Splat(u64),
    /// Computed beforehand, for each position of the machine thread in its block.
    Table(u32),
    /// A register.
    Register(u32),
}

/// An operand or result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arg {
    pub(crate) src: Src,
    pub(crate) ty: LaneType,
}

impl Arg {
    /// Bytes per lane.
    pub(crate) fn stride(self) -> usize {
        self.ty.dtype.size() * self.ty.len as usize
    }
}

/// One step. Jump targets are positions in [`LaneCode::steps`].
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `ops[op]`.
    Op { op: u32 },
    /// Copies a value to a register; `masked`: only active lanes.
    Move { to: Arg, from: Arg, masked: bool },
    /// Saves the mask.
    Push,
    /// Takes the saved mask back.
    Pop,
    /// Only lanes of the saved mask with this condition; jumps where there are none.
    Where { condition: Arg, holds: bool, otherwise: u32 },
    /// Of the active lanes only those with this condition; jumps where there are none.
    While { condition: Arg, exit: u32 },
    /// Of the active lanes only those with `counter < end`; jumps where there are none.
    Before { counter: Arg, end: Arg, exit: u32 },
    /// Adds to the counter of the active lanes.
    Count { counter: Arg, step: Arg },
    /// The end of a round of a loop.
    Back { to: u32 },
    /// Yields.
    End,
}

/// An op and where its values are.
#[derive(Clone, Debug)]
pub(crate) struct OpCode {
    pub(crate) op: LaneOp,
    pub(crate) ins: Box<[Arg]>,
    pub(crate) outs: Box<[Arg]>,
}

/// A body, flattened.
#[derive(Debug)]
pub(crate) struct LaneCode {
    pub(crate) name: String,
    pub(crate) lanes: usize,
    pub(crate) body: Arc<LaneBody>,
    pub(crate) steps: Vec<Step>,
    pub(crate) spans: Vec<SpanId>,
    pub(crate) ops: Vec<OpCode>,
    /// Bytes of each register.
    pub(crate) registers: Vec<usize>,
    /// By position of the machine thread, then by number.
    pub(crate) tables: Vec<Vec<Folded>>,
    /// Registers of each parameter of the code.
    pub(crate) params: Vec<Arg>,
    /// What it yields.
    pub(crate) yields: Vec<Arg>,
    pub(crate) views: Vec<ViewMap>,
}

impl LaneCode {
    /// Flattens a verified body.
    pub(crate) fn new(body: &LaneBody, program: &Program) -> LaneCode {
        let fold = Fold::new(body, program);
        let mut lower = Lower {
            body,
            fold,
            places: vec![None; body.types.len()],
            users: Vec::new(),
            free: FxHashMap::default(),
            deaths: deaths(body),
            kept: vec![false; body.types.len()],
            constants: vec![None; body.types.len()],
            span: SpanId(0),
            code: LaneCode {
                name: body.name.clone(),
                lanes: body.threads as usize,
                body: Arc::new(body.clone()),
                steps: Vec::new(),
                spans: Vec::new(),
                ops: Vec::new(),
                registers: Vec::new(),
                tables: Vec::new(),
                params: Vec::new(),
                yields: Vec::new(),
                views: body.views().map(ViewMap::new).collect(),
            },
        };
        for &param in &body.code.params {
            lower.define(param);
        }
        lower.code.params = body.code.params.iter().map(|&v| lower.arg(v)).collect();
        lower.region(&body.code);
        lower.code.yields = body.code.yields.iter().map(|&v| lower.arg(v)).collect();
        lower.emit(Step::End);
        let Lower { fold, mut code, .. } = lower;
        code.tables = fold.into_tables();
        code
    }

    /// All lanes.
    pub(crate) fn all(&self) -> Mask {
        super::all(self.lanes)
    }
}

/// Where each value dies: by region and instruction in it, `AT_YIELD` for what the region yields.
type Deaths = FxHashMap<(*const LaneRegion, usize), Vec<LaneValue>>;
const AT_YIELD: usize = usize::MAX;

fn deaths(body: &LaneBody) -> Deaths {
    struct Walk {
        last: Vec<(*const LaneRegion, usize)>,
        path: Vec<(*const LaneRegion, usize)>,
    }
    impl Walk {
        /// A value that a nested region reads last dies at the instruction which holds that region.
        fn used(&mut self, value: LaneValue) {
            let last = &mut self.last[value.0 as usize];
            let at = self.path.iter().find(|(region, _)| *region == last.0);
            last.1 = at.map_or(0, |(_, at)| *at);
        }
        fn region(&mut self, region: &LaneRegion) {
            let depth = self.path.len();
            self.path.push((region, 0));
            for v in &region.params {
                self.last[v.0 as usize] = (region, 0);
            }
            for (at, inst) in region.insts.iter().enumerate() {
                self.path[depth].1 = at;
                inst.operands.iter().for_each(|&v| self.used(v));
                inst.regions.iter().for_each(|inner| self.region(inner));
                for v in &inst.results {
                    self.last[v.0 as usize] = (region, at);
                }
            }
            self.path[depth].1 = AT_YIELD;
            region.yields.iter().for_each(|&v| self.used(v));
            self.path.pop();
        }
    }
    let mut walk =
        Walk { last: vec![(&raw const body.code, 0); body.types.len()], path: Vec::new() };
    walk.region(&body.code);
    let mut deaths = Deaths::default();
    for (value, place) in walk.last.into_iter().enumerate() {
        deaths.entry(place).or_default().push(LaneValue(value as u32));
    }
    deaths
}

struct Lower<'b> {
    body: &'b LaneBody,
    fold: Fold<'b>,
    places: Vec<Option<u32>>,
    /// By register: values in it.
    users: Vec<u32>,
    /// Free registers by size.
    free: FxHashMap<usize, Vec<u32>>,
    deaths: Deaths,
    /// By value: whether it is a loop's parameter, which stays where it is from round to round.
    kept: Vec<bool>,
    constants: Vec<Option<Src>>,
    span: SpanId,
    code: LaneCode,
}

impl Lower<'_> {
    fn emit(&mut self, step: Step) -> usize {
        self.code.steps.push(step);
        self.code.spans.push(self.span);
        self.code.steps.len() - 1
    }

    fn here(&self) -> u32 {
        self.code.steps.len() as u32
    }

    /// A register of the right size.
    fn take(&mut self, ty: LaneType) -> u32 {
        let bytes = ty.dtype.size() * ty.len as usize * self.code.lanes;
        if let Some(register) = self.free.get_mut(&bytes).and_then(Vec::pop) {
            self.users[register as usize] = 1;
            return register;
        }
        self.code.registers.push(bytes);
        self.users.push(1);
        self.code.registers.len() as u32 - 1
    }

    fn define(&mut self, value: LaneValue) -> Arg {
        let ty = self.body.ty(value);
        let register = self.take(ty);
        self.places[value.0 as usize] = Some(register);
        Arg { src: Src::Register(register), ty }
    }

    /// Makes a value another name of a register.
    fn bind(&mut self, value: LaneValue, register: u32) {
        self.users[register as usize] += 1;
        self.places[value.0 as usize] = Some(register);
    }

    fn release(&mut self, register: u32) {
        let users = &mut self.users[register as usize];
        *users -= 1;
        if *users == 0 {
            let bytes = self.code.registers[register as usize];
            self.free.entry(bytes).or_default().push(register);
        }
    }

    fn arg(&mut self, value: LaneValue) -> Arg {
        let ty = self.body.ty(value);
        let src = match self.places[value.0 as usize] {
            Some(register) => Src::Register(register),
            None => *self.constants[value.0 as usize].get_or_insert_with(|| self.fold.place(value)),
        };
        Arg { src, ty }
    }

    fn args(&mut self, values: &[LaneValue]) -> Box<[Arg]> {
        values.iter().map(|&v| self.arg(v)).collect()
    }

    fn region(&mut self, region: &LaneRegion) {
        for (at, inst) in region.insts.iter().enumerate() {
            self.span = inst.span;
            self.inst(inst);
            self.bury(region, at);
        }
    }

    /// Gives up the registers of what dies at an instruction.
    fn bury(&mut self, region: &LaneRegion, at: usize) {
        for value in self.deaths.remove(&(&raw const *region, at)).unwrap_or_default() {
            let register = self.places[value.0 as usize].filter(|_| !self.kept[value.0 as usize]);
            if let Some(register) = register {
                self.release(register);
            }
        }
    }

    fn inst(&mut self, inst: &LaneInst) {
        match &inst.op {
            LaneOp::If {} => self.branch(inst),
            LaneOp::For {} => self.count(inst),
            LaneOp::While {} => self.repeat(inst),
            LaneOp::Bitcast {} if self.same_bytes(inst) => {
                let (from, to) = (inst.operands[0], inst.results[0]);
                match self.places[from.0 as usize] {
                    Some(register) => self.bind(to, register),
                    None => self.fold.bitcast(from, to),
                }
            }
            op => {
                if matches!(op.info().effect, LaneEffect::Pure | LaneEffect::Address)
                    && inst.operands.iter().all(|v| self.places[v.0 as usize].is_none())
                    && self.fold.try_inst(inst)
                {
                    return;
                }
                let ins = self.args(&inst.operands);
                let outs = inst.results.iter().map(|&v| self.define(v)).collect();
                self.code.ops.push(OpCode { op: op.clone(), ins, outs });
                let op = self.code.ops.len() as u32 - 1;
                self.emit(Step::Op { op });
            }
        }
    }

    /// Whether a bitcast changes no byte of the machine's form.
    fn same_bytes(&self, inst: &LaneInst) -> bool {
        let whole = |v: LaneValue| {
            let dtype = self.body.ty(v).dtype;
            !dtype.is_sub_byte() && dtype != DType::Bool
        };
        let (from, to) = (inst.operands[0], inst.results[0]);
        whole(from) && whole(to) || self.body.ty(from) == self.body.ty(to)
    }

    /// Moves that happen at the same time, to registers that some of the sources may be in.
    fn moves(&mut self, pairs: &[(Arg, LaneValue)], masked: bool) {
        let targets: Vec<Src> = pairs.iter().map(|(to, _)| to.src).collect();
        let mut late = Vec::new();
        for &(to, value) in pairs {
            let from = self.arg(value);
            if from.src == to.src {
                continue;
            }
            if targets.contains(&from.src) {
                let register = self.take(to.ty);
                let copy = Arg { src: Src::Register(register), ty: to.ty };
                self.emit(Step::Move { to: copy, from, masked: false });
                late.push((to, copy, register));
            } else {
                late.push((to, from, u32::MAX));
            }
        }
        for (to, from, register) in late {
            self.emit(Step::Move { to, from, masked });
            if register != u32::MAX {
                self.release(register);
            }
        }
    }

    /// Registers for a loop's carry, set to its first values; they stay the results.
    fn carry(&mut self, results: &[LaneValue], init: &[LaneValue]) -> Vec<Arg> {
        let carry: Vec<Arg> = results.iter().map(|&v| self.define(v)).collect();
        for (&to, &value) in carry.iter().zip(init) {
            let from = self.arg(value);
            self.emit(Step::Move { to, from, masked: false });
        }
        carry
    }

    fn bind_params(&mut self, params: &[LaneValue], args: &[Arg]) {
        for (&param, arg) in params.iter().zip(args) {
            let Src::Register(register) = arg.src else { unreachable!("defined as a register") };
            self.bind(param, register);
        }
    }

    fn patch(&mut self, step: usize) {
        let here = self.here();
        match &mut self.code.steps[step] {
            Step::Where { otherwise: to, .. }
            | Step::While { exit: to, .. }
            | Step::Before { exit: to, .. } => *to = here,
            _ => unreachable!("only jumps are patched"),
        }
    }

    fn branch(&mut self, inst: &LaneInst) {
        let condition = self.arg(inst.operands[0]);
        let results: Vec<Arg> = inst.results.iter().map(|&v| self.define(v)).collect();
        self.emit(Step::Push);
        for (region, holds) in inst.regions.iter().zip([true, false]) {
            if region.insts.is_empty() && region.yields.is_empty() {
                continue;
            }
            let jump = self.emit(Step::Where { condition, holds, otherwise: 0 });
            self.region(region);
            let pairs: Vec<_> =
                results.iter().copied().zip(region.yields.iter().copied()).collect();
            self.moves(&pairs, true);
            self.bury(region, AT_YIELD);
            self.patch(jump);
        }
        self.emit(Step::Pop);
    }

    fn count(&mut self, inst: &LaneInst) {
        let [end, step] = [inst.operands[1], inst.operands[2]].map(|v| self.arg(v));
        let ty = self.body.ty(inst.operands[0]);
        let register = self.take(ty);
        let counter = Arg { src: Src::Register(register), ty };
        let lo = self.arg(inst.operands[0]);
        self.emit(Step::Move { to: counter, from: lo, masked: false });
        let carry = self.carry(&inst.results, &inst.operands[3..]);
        self.emit(Step::Push);
        let top = self.here();
        let test = self.emit(Step::Before { counter, end, exit: 0 });
        let region = &inst.regions[0];
        self.bind_params(&region.params[..1], &[counter]);
        self.bind_params(&region.params[1..], &carry);
        self.keep(&region.params);
        self.region(region);
        let pairs: Vec<_> = carry.iter().copied().zip(region.yields.iter().copied()).collect();
        self.moves(&pairs, true);
        self.bury(region, AT_YIELD);
        self.emit(Step::Count { counter, step });
        self.emit(Step::Back { to: top });
        self.patch(test);
        self.emit(Step::Pop);
        self.release(register);
    }

    fn repeat(&mut self, inst: &LaneInst) {
        let state: Vec<Arg> = (inst.operands.iter())
            .map(|&v| {
                let ty = self.body.ty(v);
                Arg { src: Src::Register(self.take(ty)), ty }
            })
            .collect();
        for (&to, &value) in state.iter().zip(&inst.operands) {
            let from = self.arg(value);
            self.emit(Step::Move { to, from, masked: false });
        }
        let results: Vec<Arg> = inst.results.iter().map(|&v| self.define(v)).collect();
        self.emit(Step::Push);
        let top = self.here();
        let [before, after] = [&inst.regions[0], &inst.regions[1]];
        self.bind_params(&before.params, &state);
        self.keep(&before.params);
        self.region(before);
        let pairs: Vec<_> =
            results.iter().copied().zip(before.yields[1..].iter().copied()).collect();
        self.moves(&pairs, true);
        let condition = self.arg(before.yields[0]);
        let test = self.emit(Step::While { condition, exit: 0 });
        self.bury(before, AT_YIELD);
        self.bind_params(&after.params, &results);
        self.keep(&after.params);
        self.region(after);
        let pairs: Vec<_> = state.iter().copied().zip(after.yields.iter().copied()).collect();
        self.moves(&pairs, true);
        self.bury(after, AT_YIELD);
        self.emit(Step::Back { to: top });
        self.patch(test);
        self.emit(Step::Pop);
        for arg in state {
            if let Src::Register(register) = arg.src {
                self.release(register);
            }
        }
    }

    fn keep(&mut self, params: &[LaneValue]) {
        for param in params {
            self.kept[param.0 as usize] = true;
        }
    }
}
