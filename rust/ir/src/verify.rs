//! The rules of a program, so that the machine may assume them.
//!
//! Checked are: every value is defined once and used where it is visible; every op has the operands
//! of its row, and results and regions of the types that operands and attributes imply; memory ops
//! get refs of a space they can reach. What depends on a run (bounds, limits of a device, who
//! arrives on what) is the machine's to check. A program that does not verify is a bug of the
//! lowering, never of the user.

mod arith;
pub(crate) mod check;
mod control;
mod lanes;
mod memory;
mod program;
mod shape;
mod sync;
mod tmem;

pub(crate) use memory::rmw_defined;

use crate::op::Op;
use crate::program::{Inst, MAX_DEPTH, Program, Region, SpanId, Value};
use check::{Check, Problem, Rule, ensure};
use thiserror::Error;

/// A rule that a program breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {what}: expected {expected}, got {got}", self.place())]
pub struct VerifyError {
    /// Mnemonic of the op, if one is to blame.
    pub op: Option<&'static str>,
    /// The user's file.
    pub file: String,
    /// The user's line.
    pub line: u32,
    /// What is wrong: an operand, a result, a region, an attribute.
    pub what: String,
    /// What the rule asks for.
    pub expected: String,
    /// What was found.
    pub got: String,
}

impl VerifyError {
    fn place(&self) -> String {
        match self.op {
            Some(op) => format!("{op} at {}:{}", self.file, self.line),
            None => "program".to_owned(),
        }
    }

    fn of_program(problem: Problem) -> VerifyError {
        let Problem { what, expected, got } = problem;
        VerifyError { op: None, file: String::new(), line: 0, what, expected, got }
    }

    fn of_inst(problem: Problem, program: &Program, inst: &Inst) -> VerifyError {
        let span = program.spans.get(inst.span.0 as usize);
        VerifyError {
            op: Some(inst.op.mnemonic()),
            file: span.map_or_else(String::new, |span| span.file.clone()),
            line: span.map_or(0, |span| span.line),
            ..VerifyError::of_program(problem)
        }
    }
}

/// Checks every rule.
///
/// # Errors
/// The first rule that is broken, in program order.
pub fn verify(program: &Program) -> Result<(), VerifyError> {
    program::header(program).map_err(VerifyError::of_program)?;
    for body in &program.lane_bodies {
        let named = |p: Problem| Problem { what: format!("{}: {}", body.name, p.what), ..p };
        let checked = crate::lane::verify::body(body, program.spans.len());
        checked.map_err(|p| VerifyError::of_program(named(p)))?;
    }
    let mut verifier =
        Verifier { program, values: vec![Visibility::Undefined; program.values.len()] };
    verifier.region(&program.body, 0)
}

/// Where in the walk a value is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    Undefined,
    Visible,
    /// Defined in a region that has ended.
    Hidden,
}

struct Verifier<'a> {
    program: &'a Program,
    values: Vec<Visibility>,
}

impl Verifier<'_> {
    fn region(&mut self, region: &Region, depth: usize) -> Result<(), VerifyError> {
        let program = self.program;
        let problem = |p| VerifyError::of_program(p);
        ensure(
            depth <= MAX_DEPTH,
            "nesting of regions",
            format_args!("at most {MAX_DEPTH}"),
            depth,
        )
        .map_err(problem)?;
        for param in &region.params {
            self.define(*param).map_err(problem)?;
        }
        for inst in &region.insts {
            self.inst(inst, depth).map_err(|e| e.or_at(program, inst))?;
        }
        for value in &region.yields {
            self.visible(*value, "yield").map_err(problem)?;
        }
        let inside = region.insts.iter().flat_map(|inst| &inst.results);
        for value in region.params.iter().chain(inside) {
            self.values[value.0 as usize] = Visibility::Hidden;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst, depth: usize) -> Result<(), VerifyError> {
        let at = |p| VerifyError::of_inst(p, self.program, inst);
        self.operands_and_indices(inst).map_err(at)?;
        let check = Check::new(self.program, inst).map_err(at)?;
        rules(&check).map_err(at)?;
        for region in &inst.regions {
            self.region(region, depth + 1)?;
        }
        let program = self.program;
        for value in &inst.results {
            self.define(*value).map_err(|p| VerifyError::of_inst(p, program, inst))?;
        }
        Ok(())
    }

    /// What must hold before types may be looked up.
    fn operands_and_indices(&self, inst: &Inst) -> Rule {
        let SpanId(span) = inst.span;
        let spans = self.program.spans.len();
        ensure((span as usize) < spans, "span", format_args!("less than {spans}"), span)?;
        for value in &inst.operands {
            self.visible(*value, "operand")?;
        }
        let borders = inst.regions.iter().flat_map(|r| r.params.iter().chain(&r.yields));
        for value in inst.results.iter().chain(borders) {
            self.in_range(*value)?;
        }
        Ok(())
    }

    fn in_range(&self, value: Value) -> Rule {
        let count = self.values.len();
        ensure((value.0 as usize) < count, "value", format_args!("less than %{count}"), value)
    }

    fn visible(&self, value: Value, what: &str) -> Rule {
        self.in_range(value)?;
        let got = match self.values[value.0 as usize] {
            Visibility::Visible => return Ok(()),
            Visibility::Undefined => "one that is not defined yet",
            Visibility::Hidden => "one of a region that has ended",
        };
        Err(Problem::new(format!("{what} {value}"), "a value that is visible here", got))
    }

    fn define(&mut self, value: Value) -> Rule {
        self.in_range(value)?;
        let state = &mut self.values[value.0 as usize];
        let fresh = *state == Visibility::Undefined;
        *state = Visibility::Visible;
        ensure(fresh, &format!("value {value}"), "one definition", "a second one")
    }
}

impl VerifyError {
    /// Blames `inst` for what was found at the border of one of its regions.
    fn or_at(self, program: &Program, inst: &Inst) -> VerifyError {
        if self.op.is_some() {
            return self;
        }
        let VerifyError { what, expected, got, .. } = self;
        VerifyError::of_inst(Problem { what, expected, got }, program, inst)
    }
}

fn rules(c: &Check<'_>) -> Rule {
    match &c.inst.op {
        Op::Constant { bits } => arith::constant(c, *bits),
        Op::ConstantArray { blob } => arith::constant_array(c, *blob),
        Op::Unary { kind } => arith::unary(c, *kind),
        Op::Binary { kind } => arith::binary(c, *kind),
        Op::Compare { kind } => arith::compare(c, *kind),
        Op::IntegerPow { exponent } => arith::integer_pow(c, *exponent),
        Op::SelectN {} => arith::select_n(c),
        Op::Clamp {} => arith::clamp(c),
        Op::Convert {} => arith::convert(c),
        Op::Bitcast {} => arith::bitcast(c),
        Op::ReducePrecision { exponent_bits, mantissa_bits } => {
            arith::reduce_precision(c, *exponent_bits, *mantissa_bits)
        }

        Op::Iota { dimension } => shape::iota(c, *dimension),
        Op::Broadcast { dims } => shape::broadcast(c, dims),
        Op::Reshape {} => shape::reshape(c),
        Op::Transpose { perm } => shape::transpose(c, perm),
        Op::Slice { starts, strides } => shape::slice(c, starts, strides),
        Op::Pad { lo, hi, interior } => shape::pad(c, lo, hi, interior),
        Op::Concatenate { dimension } => shape::concatenate(c, *dimension),
        Op::Rev { dims } => shape::rev(c, dims),
        Op::DynamicSlice {} => shape::dynamic_slice(c),
        Op::DynamicUpdateSlice {} => shape::dynamic_update_slice(c),
        Op::Reduce { kind, axes } => shape::reduce(c, *kind, axes),
        Op::Cumulative { kind, axis, .. } => shape::cumulative(c, *kind, *axis),
        Op::DotGeneral { lhs_contract, rhs_contract, lhs_batch, rhs_batch, tf32: _ } => {
            shape::dot_general(c, [lhs_contract, rhs_contract], [lhs_batch, rhs_batch])
        }

        Op::ProgramId { axis } | Op::NumPrograms { axis } => {
            control::position(c, *axis, c.program.grid.len())
        }
        Op::ClusterIndex { axis } => control::position(c, *axis, c.program.cluster.len()),
        Op::ThreadIndex {} => control::position(c, 0, 1),
        Op::ForLoop {} => control::for_loop(c),
        Op::WhileLoop {} => control::while_loop(c),
        Op::Switch {} => control::switch(c),
        Op::Scope { allocs, .. } => control::scope(c, allocs),
        Op::Warps {} => control::warps(c),

        Op::RefSlice { dims } => memory::ref_slice(c, dims),
        Op::RefTranspose { perm } => memory::ref_transpose(c, perm),
        Op::RefReshape {} => memory::ref_reshape(c),
        Op::RefBitcast {} => memory::ref_bitcast(c),
        Op::RefPeer { axes } => memory::ref_peer(c, axes),
        Op::BlockWindow { dims } => memory::block_window(c, dims),
        Op::Load {} => memory::load(c),
        Op::Store {} => memory::store(c),
        Op::Swap {} => memory::swap(c),
        Op::LoadMasked { .. } => memory::load_masked(c),
        Op::StoreMasked {} => memory::store_masked(c),
        Op::Gather { dims, at, .. } => memory::gather(c, dims, *at),
        Op::Scatter { dims, at, .. } => memory::scatter(c, dims, *at),
        Op::AtomicRmw { kind, .. } => memory::atomic_rmw(c, *kind),
        Op::AtomicCas {} => memory::atomic_cas(c),

        Op::BarrierArrive { .. } => sync::barrier_arrive(c),
        Op::BarrierWait {} => sync::barrier_wait(c),
        Op::BarrierTest {} => sync::barrier_test(c),
        Op::NamedBarrierArrive {} | Op::NamedBarrierSync {} => sync::named_barrier(c),
        Op::CopyGmemToSmem { collective, .. } => sync::copy_gmem_to_smem(c, collective.as_ref()),
        Op::CopySmemToGmem { reduction, .. } => sync::copy_smem_to_gmem(c, *reduction),
        Op::SemaphoreSignal {} | Op::SemaphoreWait { .. } => sync::semaphore(c),
        Op::SemaphoreRead {} => sync::semaphore_read(c),
        Op::TryClusterCancel { .. } => sync::try_cluster_cancel(c),
        Op::QueryClusterCancel { axes } => sync::query_cluster_cancel(c, axes),
        Op::AsyncStoreSmem { reduction } => sync::async_store_smem(c, *reduction),
        Op::CommitGroup {}
        | Op::WaitSmemToGmem { .. }
        | Op::WaitGmemToSmem { .. }
        | Op::CommitSmem {}
        | Op::WgmmaWait { .. }
        | Op::WaitLoadTmem {}
        | Op::CommitTmem {}
        | Op::Print { .. } => c.results(&[]),
        Op::Wgmma { .. } => sync::wgmma(c),
        Op::AccumulatorLoad { .. } => sync::accumulator_load(c),
        Op::AsyncLoadTmem {} => tmem::async_load_tmem(c),
        Op::AsyncStoreTmem {} => tmem::async_store_tmem(c),
        Op::AsyncCopySmemToTmem { format, pair } => {
            tmem::async_copy_smem_to_tmem(c, *format, *pair)
        }
        Op::Tcgen05Mma { pair, .. } => tmem::tcgen05_mma(c, *pair),
        Op::Tcgen05CommitArrive { pair, .. } => tmem::tcgen05_commit_arrive(c, *pair),

        Op::InlineMgpu { body } => lanes::inline_mgpu(c, *body),
        Op::XlaCall { blob, .. } => control::xla_call(c, *blob),
        Op::Check { .. } => control::host_check(c),
        Op::Callback { .. } => c.results_are_values(),
    }
}

#[cfg(test)]
mod tests;
