//! Tags go where values go: called before each instruction of a run that is tracked.

use super::memory::{each_element, unravel};
use super::propagate::{accumulated, moved, product, ravel, reduced};
use super::scalars;
use super::shade::{Shade, Tag, either};
use super::{Definedness, Origin, Usage};
use crate::code::{Inst, Operand, Record};
use crate::machine::Ctx;
use crate::memory::{Base, Contents, RefVal};
use crate::observer::Observer;
use crate::units::Transfer;
use pallas_rs_core as core;
use pallas_rs_ir::Op;

impl<O: Observer> Ctx<'_, O> {
    /// Whether tags are kept.
    #[inline]
    pub(crate) fn tracks(&self) -> bool {
        O::WATCHES && self.worker.defined.is_some()
    }

    fn defined(&mut self) -> &mut Definedness {
        self.worker.defined.as_mut().expect("asked only where tags are kept")
    }

    /// Moves tags as the instruction that comes next moves values, and reports what it uses.
    pub(crate) fn track(&mut self, inst: Inst) {
        if let Some((dst, sources)) = scalars::flow(inst) {
            let shades = &mut self.thread.shades;
            let tag = sources.iter().fold(0, |tag, &r| either(tag, shades.scalar(r)));
            shades.set_scalar(dst, tag);
            return;
        }
        let scalar = |c: &Self, register| c.thread.shades.scalar(register);
        match inst {
            Inst::MoveTile { dst, src, .. } => {
                let shade = self.thread.shades.tile(src);
                self.thread.shades.set_tile(dst, shade);
            }
            Inst::Select { dst, which, zero, other } => {
                let chosen =
                    if self.thread.frame.scalars[which as usize] == 0 { zero } else { other };
                let tag = either(scalar(self, which), scalar(self, chosen));
                self.thread.shades.set_scalar(dst, tag);
            }
            Inst::JumpIf { condition, .. } | Inst::JumpUnless { condition, .. } => {
                self.uses(scalar(self, condition), Usage::Branch);
            }
            Inst::JumpTable { index, .. } => self.uses(scalar(self, index), Usage::Branch),
            Inst::ForEnter { counter, end, .. } | Inst::ForEnterWide { counter, end, .. } => {
                self.uses(either(scalar(self, counter), scalar(self, end)), Usage::Bound);
                self.thread.shades.set_scalar(counter, 0);
            }
            Inst::Op { record } => {
                let code = self.call.code;
                self.track_op(&code.records[record as usize]);
            }
            _ => {}
        }
    }

    fn uses(&mut self, tag: Tag, usage: Usage) {
        if tag != 0 {
            let at = self.at();
            self.defined().used(tag, usage, at);
        }
    }

    /// Tags of a scalar or tile operand.
    fn shade(&self, operand: Operand) -> Shade {
        match operand {
            Operand::Scalar { register, .. } => Shade::All(self.thread.shades.scalar(register)),
            Operand::Tile { register, .. } => self.thread.shades.tile(register),
            Operand::Ref { .. } => Shade::All(0),
        }
    }

    fn set_shade(&mut self, result: Operand, shade: Shade) {
        match result {
            Operand::Scalar { register, .. } => {
                self.thread.shades.set_scalar(register, shade.any());
            }
            Operand::Tile { register, .. } => self.thread.shades.set_tile(register, shade),
            Operand::Ref { .. } => {}
        }
    }

    fn any(&self, operands: &[Operand]) -> Tag {
        operands.iter().fold(0, |tag, &o| either(tag, self.shade(o).any()))
    }

    /// Elementwise, or all that is left of what depends on everything.
    fn joined(&self, operands: &[Operand]) -> Shade {
        operands.iter().fold(Shade::All(0), |shade, &o| shade.join(&self.shade(o)))
    }

    fn use_indices(&mut self, indices: &[Operand]) {
        let tag = self.any(indices);
        self.uses(tag, Usage::Index);
    }

    #[allow(clippy::too_many_lines, reason = "one arm per op")]
    fn track_op(&mut self, record: &Record) {
        let (ins, outs) = (&record.operands[..], &record.results[..]);
        let shape = |c: &Self, o: Operand| c.shape(o).to_vec();
        match &record.op {
            Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Compare { .. }
            | Op::IntegerPow { .. }
            | Op::Clamp {}
            | Op::Convert {}
            | Op::Bitcast {}
            | Op::ReducePrecision { .. }
            | Op::Reshape {}
            | Op::Iota { .. } => {
                let shade = self.joined(ins);
                self.set_shade(outs[0], shade);
            }
            Op::SelectN {} => {
                let shade = self.selected(ins, outs[0]);
                self.set_shade(outs[0], shade);
            }
            Op::Broadcast { dims } => {
                let (x, from, to) = (self.shade(ins[0]), shape(self, ins[0]), shape(self, outs[0]));
                let shade = moved(&to, &x, &from, |index| {
                    let pick = |(d, &n): (&usize, &usize)| if n == 1 { 0 } else { index[*d] };
                    Some(dims.iter().zip(&from).map(pick).collect())
                });
                self.set_shade(outs[0], shade);
            }
            Op::Transpose { perm } => {
                let (x, from, to) = (self.shade(ins[0]), shape(self, ins[0]), shape(self, outs[0]));
                let shade = moved(&to, &x, &from, |index| {
                    let mut source = vec![0; from.len()];
                    perm.iter().zip(index).for_each(|(&p, &i)| source[p] = i);
                    Some(source)
                });
                self.set_shade(outs[0], shade);
            }
            Op::Slice { starts, strides } => {
                let (x, from, to) = (self.shade(ins[0]), shape(self, ins[0]), shape(self, outs[0]));
                let shade = moved(&to, &x, &from, |index| {
                    let step = index.iter().zip(strides).zip(starts);
                    Some(step.map(|((&i, &s), &start)| start + i * s).collect())
                });
                self.set_shade(outs[0], shade);
            }
            Op::Rev { dims } => {
                let (x, from) = (self.shade(ins[0]), shape(self, ins[0]));
                let shade = moved(&from, &x, &from, |index| {
                    let flip = |(d, &i): (usize, &usize)| {
                        if dims.contains(&d) { from[d] - 1 - i } else { i }
                    };
                    Some(index.iter().enumerate().map(flip).collect())
                });
                self.set_shade(outs[0], shade);
            }
            Op::Pad { lo, interior, .. } => {
                let (x, from, to) = (self.shade(ins[0]), shape(self, ins[0]), shape(self, outs[0]));
                let fill = self.shade(ins[1]).any();
                let inner = |index: &[usize]| -> Option<usize> {
                    let mut source = Vec::with_capacity(from.len());
                    for d in 0..from.len() {
                        let at = index[d] as i64 - lo[d];
                        let step = interior[d] as i64 + 1;
                        if at < 0 || at % step != 0 || at / step >= from[d] as i64 {
                            return None;
                        }
                        source.push((at / step) as usize);
                    }
                    Some(ravel(&source, &from))
                };
                let shade = if x.is_defined() && fill == 0 {
                    Shade::All(0)
                } else {
                    Shade::from_fn(to.iter().product(), |i| {
                        inner(&unravel(i, &to)).map_or(fill, |e| x.at(e))
                    })
                };
                self.set_shade(outs[0], shade);
            }
            &Op::Concatenate { dimension } => {
                let parts: Vec<(Shade, Vec<usize>)> =
                    ins.iter().map(|&o| (self.shade(o), shape(self, o))).collect();
                let to = shape(self, outs[0]);
                let shade = if parts.iter().all(|(s, _)| s.is_defined()) {
                    Shade::All(0)
                } else {
                    Shade::from_fn(to.iter().product(), |i| {
                        let mut index = unravel(i, &to);
                        for (shade, from) in &parts {
                            if index[dimension] < from[dimension] {
                                return shade.at(ravel(&index, from));
                            }
                            index[dimension] -= from[dimension];
                        }
                        0
                    })
                };
                self.set_shade(outs[0], shade);
            }
            Op::DynamicSlice {} => {
                self.use_indices(&ins[1..]);
                let (x, from, to) = (self.shade(ins[0]), shape(self, ins[0]), shape(self, outs[0]));
                let starts = self.clamped(&ins[1..], &from, &to);
                let shade = moved(&to, &x, &from, |index| {
                    Some(index.iter().zip(&starts).map(|(&i, &s)| s + i).collect())
                });
                self.set_shade(outs[0], shade);
            }
            Op::DynamicUpdateSlice {} => {
                self.use_indices(&ins[2..]);
                let (x, update) = (self.shade(ins[0]), self.shade(ins[1]));
                let (from, part) = (shape(self, ins[0]), shape(self, ins[1]));
                let starts = self.clamped(&ins[2..], &from, &part);
                let shade = if x.is_defined() && update.is_defined() {
                    Shade::All(0)
                } else {
                    Shade::from_fn(from.iter().product(), |i| {
                        let index = unravel(i, &from);
                        let inside = (0..index.len())
                            .all(|d| index[d] >= starts[d] && index[d] < starts[d] + part[d]);
                        if inside {
                            let local: Vec<usize> =
                                index.iter().zip(&starts).map(|(&i, &s)| i - s).collect();
                            update.at(ravel(&local, &part))
                        } else {
                            x.at(i)
                        }
                    })
                };
                self.set_shade(outs[0], shade);
            }
            Op::Reduce { axes, .. } => {
                let shade = reduced(&self.shade(ins[0]), &shape(self, ins[0]), axes);
                self.set_shade(outs[0], shade);
            }
            &Op::Cumulative { axis, reverse, .. } => {
                let shade = accumulated(&self.shade(ins[0]), &shape(self, ins[0]), axis, reverse);
                self.set_shade(outs[0], shade);
            }
            Op::DotGeneral { lhs_contract, rhs_contract, lhs_batch, rhs_batch, .. } => {
                let shade =
                    self.dot(ins, outs[0], [lhs_contract, rhs_contract], [lhs_batch, rhs_batch]);
                self.set_shade(outs[0], shade);
            }
            Op::RefSlice { .. } | Op::BlockWindow { .. } | Op::RefPeer { .. } => {
                self.use_indices(&ins[1..]);
            }
            Op::RefTranspose { .. } | Op::RefReshape {} | Op::RefBitcast {} => {}
            Op::Load {} => {
                let shade = self.loaded(ins[0]);
                self.set_shade(outs[0], shade);
            }
            Op::AccumulatorLoad { wait } => {
                // What the wait completes has to be there before the tags are read.
                if let Some(n) = wait {
                    while let Some(product) = self.thread.queues.products.pop_due(*n) {
                        self.perform_product(product);
                    }
                }
                let shade = self.loaded(ins[0]);
                self.set_shade(outs[0], shade);
            }
            Op::Store {} => {
                let x = self.shade(ins[1]);
                self.stored(ins[0], &x, None);
            }
            Op::AsyncLoadTmem {} => {
                let shade = self.loaded(ins[0]);
                self.set_shade(outs[0], shade);
            }
            Op::AsyncStoreTmem {} => {
                let x = self.shade(ins[1]);
                self.stored(ins[0], &x, None);
            }
            Op::AsyncCopySmemToTmem { .. } => {
                let tag = self.loaded(ins[0]).any();
                self.stored(ins[1], &Shade::All(tag), None);
            }
            Op::Tcgen05Mma { .. } => {
                let accumulates = self.any(&ins[3..4]);
                self.uses(accumulates, Usage::Branch);
                let tag = either(self.loaded(ins[1]).any(), self.loaded(ins[2]).any());
                if self.scalar(ins[3]) == 0 {
                    self.stored(ins[0], &Shade::All(tag), None);
                } else if tag != 0 {
                    let sum = self.loaded(ins[0]).join(&Shade::All(tag));
                    self.stored(ins[0], &sum, None);
                }
            }
            Op::InlineMgpu { .. } => {
                // Which elements a body writes is not known: all that it is lent count as written.
                let tag = self.any(ins);
                for &operand in ins {
                    if let Operand::Ref { dtype: Some(_), .. } = operand {
                        self.stored(operand, &Shade::All(0), None);
                    }
                }
                outs.iter().for_each(|&result| self.set_shade(result, Shade::All(tag)));
            }
            Op::Swap {} => {
                let (old, x) = (self.loaded(ins[0]), self.shade(ins[1]));
                self.stored(ins[0], &x, None);
                self.set_shade(outs[0], old);
            }
            Op::LoadMasked { .. } => {
                let mask = self.shade(ins[1]).any();
                self.uses(mask, Usage::Branch);
                let other = ins.get(2).map(|&o| self.shade(o));
                let shade = self.loaded_masked(ins[0], ins[1], other);
                self.set_shade(outs[0], shade);
            }
            Op::StoreMasked {} => {
                let mask = self.shade(ins[2]).any();
                self.uses(mask, Usage::Branch);
                let x = self.shade(ins[1]);
                if let Some(&result) = outs.first() {
                    let old = self.loaded_masked(ins[0], ins[2], None);
                    self.set_shade(result, old);
                }
                self.stored(ins[0], &x, Some(ins[2]));
            }
            Op::Gather { dims, at, mask, other } => {
                let (indexer, rest) = crate::exec::indexer(dims, *at, *mask, &ins[1..]);
                self.use_indexer(&indexer);
                let other = other.then(|| self.shade(rest[0]));
                let places = self.places(&indexer, ins[0]);
                let shade = self.tags_at(ins[0], &places, other.as_ref());
                self.set_shade(outs[0], shade);
            }
            Op::Scatter { dims, at, mask } => {
                let (indexer, _) = crate::exec::indexer(dims, *at, *mask, &ins[2..]);
                self.use_indexer(&indexer);
                let places = self.places(&indexer, ins[0]);
                if let Some(&result) = outs.first() {
                    let old = self.tags_at(ins[0], &places, None);
                    self.set_shade(result, old);
                }
                let x = self.shade(ins[1]);
                self.set_tags_at(ins[0], &places, &x);
            }
            Op::AtomicRmw { .. } | Op::AtomicCas {} => {
                let (old, x) = (self.loaded(ins[0]), self.shade(ins[1]));
                if let Some(&result) = outs.first() {
                    self.set_shade(result, old.clone());
                }
                self.stored(ins[0], &old.join(&x), None);
            }
            Op::BarrierArrive { .. } | Op::Tcgen05CommitArrive { .. } => {
                let tag = self.any(&ins[1..]);
                self.uses(tag, Usage::Branch);
            }
            Op::AsyncStoreSmem { .. } => {
                let x = self.shade(ins[1]);
                self.stored(ins[0], &x, None);
            }
            Op::TryClusterCancel { .. } => self.stored(ins[0], &Shade::All(0), None),
            Op::QueryClusterCancel { .. } | Op::SemaphoreRead {} => {
                outs.iter().for_each(|&result| self.set_shade(result, Shade::All(0)));
            }
            Op::SemaphoreSignal {} | Op::SemaphoreWait { .. } => {
                let tag = self.any(&ins[1..]);
                self.uses(tag, Usage::Branch);
            }
            Op::CopyGmemToSmem { .. } | Op::CopySmemToGmem { .. } => {
                let tag = self.any(&ins[2..]);
                self.uses(tag, Usage::Branch);
            }
            Op::Check { .. } => {
                let tag = self.any(&ins[..1]);
                self.uses(tag, Usage::Branch);
            }
            Op::XlaCall { .. } | Op::Callback { .. } => {
                let tag = self.any(ins);
                outs.iter().for_each(|&result| self.set_shade(result, Shade::All(tag)));
            }
            Op::BarrierTest {} => self.set_shade(outs[0], Shade::All(0)),
            Op::BarrierWait {}
            | Op::NamedBarrierArrive {}
            | Op::NamedBarrierSync {}
            | Op::CommitGroup {}
            | Op::WaitSmemToGmem { .. }
            | Op::WaitGmemToSmem { .. }
            | Op::CommitSmem {}
            | Op::WaitLoadTmem {}
            | Op::CommitTmem {}
            | Op::Wgmma { .. }
            | Op::WgmmaWait { .. }
            | Op::Print { .. } => {}
            Op::Constant { .. }
            | Op::ConstantArray { .. }
            | Op::ProgramId { .. }
            | Op::NumPrograms { .. }
            | Op::ClusterIndex { .. }
            | Op::ThreadIndex {}
            | Op::ForLoop {}
            | Op::WhileLoop {}
            | Op::Switch {}
            | Op::Scope { .. }
            | Op::Warps {} => unreachable!("flattened"),
        }
    }

    /// A lane of a selection depends on the choice and on what is chosen.
    fn selected(&self, ins: &[Operand], result: Operand) -> Shade {
        let which = self.shade(ins[0]);
        let cases: Vec<Shade> = ins[1..].iter().map(|&o| self.shade(o)).collect();
        if which.is_defined() && cases.iter().all(Shade::is_defined) {
            return Shade::All(0);
        }
        let (choices, size) = (self.elements(ins[0]), ins[0].dtype().size());
        Shade::from_fn(self.shape(result).iter().product(), |i| {
            let choice = match choices {
                core::Operand::Splat(bits) => bits,
                core::Operand::Slice(bytes) => core::load_scalar(size, bytes, i),
            };
            let case = (choice as usize).min(cases.len() - 1);
            either(which.at(i), cases[case].at(i))
        })
    }

    /// Where a window of a value starts, once clamped.
    fn clamped(&self, starts: &[Operand], shape: &[usize], window: &[usize]) -> Vec<usize> {
        starts
            .iter()
            .zip(shape.iter().zip(window))
            .map(|(&s, (&n, &w))| self.integer(s).clamp(0, (n - w) as i64) as usize)
            .collect()
    }

    fn dot(
        &self,
        ins: &[Operand],
        result: Operand,
        contract: [&Vec<usize>; 2],
        batch: [&Vec<usize>; 2],
    ) -> Shade {
        let sides: [(Shade, Vec<usize>); 2] = std::array::from_fn(|side| {
            let shape = self.shape(ins[side]);
            (reduced(&self.shade(ins[side]), shape, contract[side]), shape.to_vec())
        });
        if sides.iter().all(|(shade, _)| shade.is_defined()) {
            return Shade::All(0);
        }
        let (to, batches) = (self.shape(result), batch[0].len());
        let free: Vec<Vec<usize>> = (0..2)
            .map(|s| {
                let taken = |d: &usize| !contract[s].contains(d) && !batch[s].contains(d);
                (0..sides[s].1.len()).filter(taken).collect()
            })
            .collect();
        let of_side = |s: usize, index: &[usize]| {
            let offset = batches + if s == 1 { free[0].len() } else { 0 };
            let (mut at, shape) = (Vec::new(), &sides[s].1);
            let mut kept = Vec::new();
            for d in (0..shape.len()).filter(|d| !contract[s].contains(d)) {
                kept.push(shape[d]);
                at.push(match batch[s].iter().position(|&b| b == d) {
                    Some(b) => index[b],
                    None => {
                        let place = free[s].iter().position(|&f| f == d);
                        index[offset + place.expect("a dimension is free or not")]
                    }
                });
            }
            sides[s].0.at(ravel(&at, &kept))
        };
        Shade::from_fn(to.iter().product(), |i| {
            let index = unravel(i, to);
            either(of_side(0, &index), of_side(1, &index))
        })
    }

    fn use_indexer(&mut self, indexer: &crate::exec::Indexer<'_>) {
        let mask = indexer.mask.map_or(0, |mask| self.shade(mask).any());
        self.uses(mask, Usage::Branch);
        self.use_indices(indexer.starts);
        if indexer.mask.is_none() {
            self.use_indices(indexer.indices);
        }
    }

    fn outside_tag(&mut self) -> Tag {
        self.defined().tag(Origin::Outside)
    }

    /// Calls `f` with the tags behind a base, unless all are 0 and stay so.
    fn memory(&mut self, base: Base) -> Option<&mut super::MemoryShade> {
        let tile = self.storage(base);
        let defined = self.worker.defined.as_mut()?;
        match (base, tile) {
            (Base::Global(arg), _) => defined.args[arg as usize].as_mut(),
            (_, Some(tile)) => defined.tiles.get_mut(&tile),
            (_, None) => None,
        }
    }

    fn loaded(&mut self, source: Operand) -> Shade {
        let view = self.view(source).clone();
        let all = view.is_full() && view.escape.is_none();
        if all && self.memory(view.base).is_none_or(|m| m.is_defined()) {
            return Shade::All(0);
        }
        let (size, outside) = (source.dtype().size(), self.outside_tag());
        let memory = self.memory(view.base);
        let mut tags = Vec::with_capacity(view.len() as usize);
        each_element(&view, |_, place| {
            tags.push(match (place, &memory) {
                (None, _) => outside,
                (Some(at), Some(memory)) => memory.get(at, size),
                (Some(_), None) => 0,
            });
        });
        Shade::new(tags)
    }

    fn loaded_masked(&mut self, source: Operand, mask: Operand, other: Option<Shade>) -> Shade {
        let (shade, outside) = (self.loaded(source), self.outside_tag());
        let lanes = self.elements(mask);
        let len = self.view(source).len() as usize;
        let lane = |i: usize| match lanes {
            core::Operand::Splat(bits) => bits != 0,
            core::Operand::Slice(lanes) => lanes[i] != 0,
        };
        Shade::from_fn(len, |i| match (lane(i), &other) {
            (true, _) => shade.at(i),
            (false, Some(other)) => other.at(i),
            (false, None) => outside,
        })
    }

    fn stored(&mut self, target: Operand, x: &Shade, mask: Option<Operand>) {
        let view = self.view(target).clone();
        let lanes: Option<Vec<bool>> = mask.map(|mask| {
            let lanes = self.elements(mask);
            (0..view.len() as usize)
                .map(|i| match lanes {
                    core::Operand::Splat(bits) => bits != 0,
                    core::Operand::Slice(lanes) => lanes[i] != 0,
                })
                .collect()
        });
        let mut places = Vec::with_capacity(view.len() as usize);
        each_element(&view, |i, place| {
            places.push(place.filter(|_| lanes.as_ref().is_none_or(|lanes| lanes[i])));
        });
        self.set_tags_at(target, &places, x);
    }

    fn places(&self, indexer: &crate::exec::Indexer<'_>, operand: Operand) -> Vec<Option<i64>> {
        self.located(indexer, operand)
    }

    fn tags_at(&mut self, source: Operand, places: &[Option<i64>], other: Option<&Shade>) -> Shade {
        let (base, size, outside) =
            (self.view(source).base, source.dtype().size(), self.outside_tag());
        let memory = self.memory(base);
        Shade::from_fn(places.len(), |i| match (places[i], &memory) {
            (Some(at), Some(memory)) => memory.get(at, size),
            (Some(_), None) => 0,
            (None, _) => other.map_or(outside, |shade| shade.at(i)),
        })
    }

    fn set_tags_at(&mut self, target: Operand, places: &[Option<i64>], x: &Shade) {
        let (base, size) = (self.view(target).base, target.dtype().size());
        if x.is_defined() && self.memory(base).is_none_or(|m| m.is_defined()) {
            return;
        }
        let garbage = (0..places.len()).find_map(|i| {
            let tag = x.at(i);
            places[i].filter(|_| tag != 0).map(|_| tag)
        });
        self.use_in_output(base, garbage.unwrap_or(0));
        if let Some(memory) = self.memory(base) {
            for (i, place) in places.iter().enumerate() {
                if let Some(at) = *place {
                    memory.set(at, size, x.at(i));
                }
            }
        }
    }

    fn use_in_output(&mut self, base: Base, tag: Tag) {
        if let Base::Global(arg) = base
            && self.defined().outputs[arg as usize]
        {
            self.uses(tag, Usage::Output);
        }
    }

    /// Moves tags as a copy moves bytes. `rest`: what its target is filled with before.
    pub(crate) fn track_transfer(
        &mut self,
        transfer: Option<&Transfer>,
        rest: Option<&(RefVal, Contents)>,
        size: usize,
    ) {
        if let Some((view, contents)) = rest {
            let tag = match contents {
                Contents::Unwritten => self.outside_tag(),
                Contents::Zero => 0,
            };
            if let Some(memory) = self.memory(view.base) {
                each_element(view, |_, place| {
                    place.into_iter().for_each(|at| memory.set(at, size, tag));
                });
            }
        }
        let Some(transfer) = transfer else { return };
        let mut tags = Vec::new();
        if let Some(memory) = self.memory(transfer.from.base).filter(|m| !m.is_defined()) {
            each_place(&transfer.shape, transfer.from.offset, &transfer.from.strides, |at| {
                tags.push(memory.get(at, size));
            });
        }
        let first = tags.iter().copied().find(|&t| t != 0).unwrap_or(0);
        self.use_in_output(transfer.to.base, first);
        if let Some(memory) =
            self.memory(transfer.to.base).filter(|m| first != 0 || !m.is_defined())
        {
            let mut i = 0;
            each_place(&transfer.shape, transfer.to.offset, &transfer.to.strides, |at| {
                memory.set(at, size, tags.get(i).copied().unwrap_or(0));
                i += 1;
            });
        }
    }

    /// `acc += a @ b`.
    pub(crate) fn track_product(
        &mut self,
        acc: &crate::units::Matrix,
        a: Option<&crate::units::Matrix>,
        b: &crate::units::Matrix,
    ) {
        let left = a.map_or(Shade::All(0), |a| self.matrix_tags(a));
        let right = self.matrix_tags(b);
        let [m, n] = acc.sizes;
        let sum = product(&left, &right, [m, b.sizes[0], n]);
        let total = self.matrix_tags(acc).join(&sum);
        if sum.is_defined() {
            return;
        }
        let size = acc.dtype.size();
        if let Some(memory) = self.memory(acc.base) {
            for i in 0..m * n {
                memory.set(acc.element(i), size, total.at(i));
            }
        }
    }

    fn matrix_tags(&mut self, matrix: &crate::units::Matrix) -> Shade {
        let size = matrix.dtype.size();
        match self.memory(matrix.base).filter(|m| !m.is_defined()) {
            None => Shade::All(0),
            Some(memory) => Shade::from_fn(matrix.sizes[0] * matrix.sizes[1], |i| {
                memory.get(matrix.element(i), size)
            }),
        }
    }
}

/// Visits the elements of a strided box.
fn each_place(shape: &[i64], offset: i64, strides: &[i64], mut visit: impl FnMut(i64)) {
    let sizes: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
    for i in 0..sizes.iter().product() {
        let index = unravel(i, &sizes);
        visit(offset + index.iter().zip(strides).map(|(&i, &s)| i as i64 * s).sum::<i64>());
    }
}
