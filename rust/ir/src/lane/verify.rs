//! The rules of a body.

use super::{LaneArray, LaneBody, LaneInst, LaneOp, LaneParam, LaneRegion, LaneType, LaneValue};
use crate::program::MAX_DEPTH;
use crate::verify::check::{Problem, Rule, ensure};
use pallas_rs_core::{DType, convert_supports};

/// CUDA threads of a warpgroup; a mask has a bit for each.
const MAX_THREADS: u32 = 128;
/// Bytes of a view that one body can address.
const MAX_VIEW: usize = 1 << 30;

const INDEX: LaneType = LaneType { dtype: DType::I64, len: 1 };
const WORD: LaneType = LaneType { dtype: DType::U32, len: 1 };
const BOOL: LaneType = LaneType { dtype: DType::Bool, len: 1 };

/// Every rule of a body; `spans` is the number of source lines there are.
pub(crate) fn body(body: &LaneBody, spans: usize) -> Rule {
    let threads = [32, MAX_THREADS].contains(&body.threads);
    ensure(threads, "threads of a body", "32 or 128", body.threads)?;
    for ty in &body.types {
        let fits = ty.dtype.fits_scalar() && (1..=1024).contains(&ty.len);
        ensure(fits, "type", "1 to 1024 elements of at most 64 bits", format_args!("{ty:?}"))?;
    }
    let mut expected = Vec::new();
    for param in &body.params {
        match param {
            LaneParam::Array(a) => expected.extend(array(body, a)?),
            LaneParam::View(v) => view(v)?,
        }
    }
    let mut results = Vec::new();
    for result in &body.results {
        results.extend(array(body, result)?);
    }
    let mut verifier = Verifier { body, defined: vec![false; body.types.len()], spans };
    verifier.region(&body.code, 0)?;
    types(body, "parameters", &body.code.params, &expected)?;
    types(body, "yields", &body.code.yields, &results)
}

/// The types of an array's registers.
fn array(body: &LaneBody, array: &LaneArray) -> Rule<Vec<LaneType>> {
    let len: usize = array.shape.iter().product();
    ensure(array.dtype.fits_scalar(), "array", "elements of at most 64 bits", array.dtype)?;
    let Some(layout) = &array.layout else {
        return Ok(vec![LaneType { dtype: array.dtype, len: 1 }]);
    };
    let threads = layout.threads.len();
    ensure(threads == body.threads as usize, "layout", body.threads, threads)?;
    let most = |list: &[u32]| list.iter().max().map_or(0, |&most| u64::from(most));
    let behind = u64::from(layout.vector.max(1) - 1) * u64::from(layout.step);
    let last = most(&layout.registers) + most(&layout.threads) + behind;
    let inside = layout.vector >= 1 && last < len.max(1) as u64;
    ensure(inside, "layout", format_args!("elements below {len}"), last)?;
    let ty = LaneType { dtype: array.dtype, len: layout.vector };
    Ok(vec![ty; layout.registers.len()])
}

fn view(view: &super::LaneView) -> Rule {
    let len: usize = view.shape.iter().product();
    ensure(len <= MAX_VIEW, "view", format_args!("at most {MAX_VIEW} elements"), len)?;
    let mut rank = view.shape.len();
    let mut shape = view.shape.clone();
    for tiling in &view.tilings {
        let k = tiling.len();
        let fits = k <= shape.len()
            && shape[shape.len() - k..].iter().zip(tiling).all(|(n, t)| *t > 0 && n % t == 0);
        ensure(
            fits,
            "tiling",
            format_args!("one that divides {shape:?}"),
            format_args!("{tiling:?}"),
        )?;
        let lead = shape.len() - k;
        let tiles: Vec<usize> = shape[lead..].iter().zip(tiling).map(|(n, t)| n / t).collect();
        shape.truncate(lead);
        shape.extend(tiles);
        shape.extend(tiling);
        rank += k;
    }
    ensure(view.strides.len() == rank, "strides", rank, view.strides.len())?;
    let reach = shape.iter().zip(&view.strides).try_fold(0i64, |sum, (n, stride)| {
        let steps = (*n as i64 - 1).max(0);
        (*stride >= 0).then_some(())?;
        sum.checked_add(steps.checked_mul(*stride)?)
    });
    let fits = reach.is_some_and(|reach| reach < MAX_VIEW as i64);
    ensure(fits, "strides", "ones that reach few bytes", format_args!("{:?}", view.strides))?;
    let swizzle = [0, 16, 32, 64, 128].contains(&view.swizzle);
    ensure(swizzle, "swizzle", "16, 32, 64 or 128", view.swizzle)
}

fn types(body: &LaneBody, what: &str, values: &[LaneValue], expected: &[LaneType]) -> Rule {
    let got: Vec<LaneType> = values.iter().map(|v| body.ty(*v)).collect();
    ensure(got == expected, what, format_args!("{expected:?}"), format_args!("{got:?}"))
}

struct Verifier<'a> {
    body: &'a LaneBody,
    defined: Vec<bool>,
    spans: usize,
}

impl Verifier<'_> {
    fn define(&mut self, value: LaneValue) -> Rule {
        let slot = self.defined.get_mut(value.0 as usize);
        let fresh = slot.is_some_and(|slot| !std::mem::replace(slot, true));
        ensure(fresh, "value", "one definition", format_args!("%{}", value.0))
    }

    fn used(&self, value: LaneValue) -> Rule {
        let visible = self.defined.get(value.0 as usize).copied().unwrap_or(false);
        ensure(visible, "operand", "a value that is defined", format_args!("%{}", value.0))
    }

    fn region(&mut self, region: &LaneRegion, depth: usize) -> Rule {
        ensure(depth <= MAX_DEPTH, "nesting of regions", MAX_DEPTH, depth)?;
        let before = self.defined.clone();
        for &param in &region.params {
            self.define(param)?;
        }
        for inst in &region.insts {
            self.inst(inst, depth).map_err(|p| {
                let what = format!("{}: {}", inst.op.info().mnemonic, p.what);
                Problem { what, ..p }
            })?;
        }
        region.yields.iter().try_for_each(|&value| self.used(value))?;
        if depth > 0 {
            self.defined = before;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &LaneInst, depth: usize) -> Rule {
        inst.operands.iter().try_for_each(|&value| self.used(value))?;
        let spans = self.spans;
        ensure(
            (inst.span.0 as usize) < spans,
            "span",
            format_args!("less than {spans}"),
            inst.span.0,
        )?;
        for region in &inst.regions {
            self.region(region, depth + 1)?;
        }
        for &value in &inst.results {
            self.define(value)?;
        }
        Typed { body: self.body, inst }.rule()
    }
}

/// An instruction whose values exist.
struct Typed<'a> {
    body: &'a LaneBody,
    inst: &'a LaneInst,
}

impl Typed<'_> {
    fn ins(&self) -> Vec<LaneType> {
        self.inst.operands.iter().map(|v| self.body.ty(*v)).collect()
    }

    fn outs(&self) -> Vec<LaneType> {
        self.inst.results.iter().map(|v| self.body.ty(*v)).collect()
    }

    /// States what must hold of the types of operands and results.
    fn signature(&self, holds: bool, expected: &str) -> Rule {
        let got = format!("{:?} -> {:?}", self.ins(), self.outs());
        ensure(holds, "operands and results", expected, got)
    }

    fn region(&self, index: usize, params: &[LaneType], yields: &[LaneType]) -> Rule {
        let region = &self.inst.regions[index];
        types(self.body, "parameters", &region.params, params)?;
        types(self.body, "yields", &region.yields, yields)
    }

    #[allow(clippy::too_many_lines, reason = "one rule per row of the table")]
    fn rule(&self) -> Rule {
        let (ins, outs) = (self.ins(), self.outs());
        let regions = match self.inst.op {
            LaneOp::If {} | LaneOp::While {} => 2,
            LaneOp::For {} => 1,
            _ => 0,
        };
        let got = self.inst.regions.len();
        ensure(got == regions, "regions", regions, got)?;
        match &self.inst.op {
            LaneOp::Constant { .. } => self.signature(ins.is_empty() && outs.len() == 1, "() -> x"),
            LaneOp::ConstantVector { bits } => {
                let fits = ins.is_empty() && outs.len() == 1 && outs[0].len as usize == bits.len();
                self.signature(fits, "() -> a vector of as many elements")
            }
            LaneOp::ThreadIndex { axis }
            | LaneOp::BlockSize { axis }
            | LaneOp::BlockIndex { axis }
            | LaneOp::GridSize { axis } => {
                ensure(*axis < 3, "axis", "less than 3", axis)?;
                self.signature(ins.is_empty() && outs == [INDEX], "() -> an index")
            }
            LaneOp::LaneIndex {} => {
                self.signature(ins.is_empty() && outs == [INDEX], "() -> index")
            }
            LaneOp::Unary { kind } => {
                let fits = ins.len() == 1 && kind.supports(ins[0].dtype);
                let result = |x: LaneType| LaneType { dtype: kind.result(x.dtype), ..x };
                self.signature(fits && outs == [result(ins[0])], "(x) -> x, defined on its dtype")
            }
            LaneOp::Binary { kind } => {
                let fits = ins.len() == 2 && ins[0] == ins[1] && kind.supports(ins[0].dtype);
                self.signature(fits && outs == ins[..1], "(x, x) -> x, defined on its dtype")
            }
            LaneOp::Extremum { .. } => {
                let fits = ins.len() == 2 && ins[0] == ins[1] && ins[0].dtype.is_float();
                self.signature(fits && outs == ins[..1], "(x, x) -> x, floats")
            }
            LaneOp::MultiplyHigh {} => {
                let fits = ins.len() == 2 && ins[0] == ins[1] && ins[0].dtype.is_int();
                self.signature(fits && outs == ins[..1], "(x, x) -> x, integers")
            }
            LaneOp::FusedMultiplyAdd {} => {
                let fits = ins.len() == 3 && ins.iter().all(|x| *x == ins[0]);
                self.signature(
                    fits && ins[0].dtype.is_float() && outs == ins[..1],
                    "(x, x, x) -> x",
                )
            }
            LaneOp::Compare { kind } => {
                let fits = ins.len() == 2 && ins[0] == ins[1] && kind.supports(ins[0].dtype);
                let fits = fits && outs == [LaneType { dtype: DType::Bool, ..ins[0] }];
                self.signature(fits, "(x, x) -> bool")
            }
            LaneOp::Select {} => {
                let fits = ins.len() == 3
                    && ins[0].dtype == DType::Bool
                    && [1, ins[1].len].contains(&ins[0].len)
                    && ins[1] == ins[2];
                self.signature(fits && outs == ins[1..2], "(bool, x, x) -> x")
            }
            LaneOp::Convert {} => {
                let fits = ins.len() == 1 && outs.len() == 1 && ins[0].len == outs[0].len;
                let fits = fits && convert_supports(ins[0].dtype, outs[0].dtype);
                self.signature(fits, "(x) -> a dtype it converts to")
            }
            LaneOp::RoundUpToScale {} => {
                let fits = ins.len() == 1 && ins[0].dtype == DType::F32;
                let scale = |x: LaneType| LaneType { dtype: DType::F8E8M0FNU, ..x };
                self.signature(fits && outs == [scale(ins[0])], "(float32) -> e8m0")
            }
            LaneOp::Bitcast {} => {
                let fits = ins.len() == 1 && outs.len() == 1 && ins[0].bits() == outs[0].bits();
                self.signature(fits, "(x) -> as many bits")
            }
            LaneOp::BytePermute {} | LaneOp::Lop3 { .. } => {
                self.signature(ins == [WORD; 3] && outs == [WORD], "(u32, u32, u32) -> u32")
            }
            LaneOp::Elements { pick } => {
                let len: u32 = ins.iter().map(|x| x.len).sum();
                let same = outs.len() == 1 && ins.iter().all(|x| x.dtype == outs[0].dtype);
                let fits = same
                    && pick.len() == outs[0].len as usize
                    && pick.iter().all(|&element| element < len);
                self.signature(fits, "elements of the operands")
            }
            LaneOp::ElementAt {} => {
                let fits = ins.len() == 2 && ins[1] == INDEX;
                let fits = fits && outs == [LaneType { len: 1, ..ins[0] }];
                self.signature(fits, "(vector, index) -> element")
            }
            LaneOp::WithElement {} => {
                let fits = ins.len() == 3 && ins[1] == LaneType { len: 1, ..ins[0] };
                let fits = fits && ins[2] == INDEX && outs == ins[..1];
                self.signature(fits, "(vector, element, index) -> vector")
            }
            LaneOp::Exchange { .. } => {
                let fits = ins.len() == 3 && ins[1..] == [WORD; 2] && outs == ins[..1];
                self.signature(fits, "(x, u32, u32) -> x")
            }
            LaneOp::Vote { kind } => {
                let result = if *kind == super::VoteKind::Ballot { WORD } else { BOOL };
                self.signature(ins == [BOOL] && outs == [result], "(bool) -> the vote")
            }
            LaneOp::WarpReduce { kind } => {
                use pallas_rs_core::ReduceKind as K;
                let plain = !matches!(kind, K::ArgMax | K::ArgMin | K::Prod);
                let fits = plain && ins.len() == 1 && ins[0].len == 1 && outs == ins;
                self.signature(fits, "(x) -> x, a reduction of numbers")
            }
            LaneOp::Elect {} => self.signature(ins.is_empty() && outs == [BOOL], "() -> bool"),
            LaneOp::LoadMatrix { .. } => {
                let words = [1, 2, 4].contains(&outs.len()) && outs.iter().all(|x| *x == WORD);
                self.signature(ins == [INDEX] && words, "(pointer) -> 1, 2 or 4 words")
            }
            LaneOp::StoreMatrix { .. } => {
                let words = [2, 3, 5].contains(&ins.len()) && ins[1..].iter().all(|x| *x == WORD);
                let fits = words && ins[0] == INDEX && outs.is_empty();
                self.signature(fits, "(pointer, 1, 2 or 4 words) -> ()")
            }
            LaneOp::ViewPointer { view } => {
                let views = self.body.views().count();
                ensure(*view < views, "view", format_args!("less than {views}"), view)?;
                self.signature(ins.is_empty() && outs == [INDEX], "() -> pointer")
            }
            LaneOp::Address { sizes, strides, .. } => {
                let indices = sizes.len() == strides.len() && ins.len() == sizes.len() + 1;
                let fits = indices && ins.iter().all(|x| *x == INDEX) && outs == [INDEX];
                self.signature(fits, "(pointer, an index per size) -> pointer")
            }
            LaneOp::Load { .. } => {
                self.signature(ins == [INDEX] && outs.len() == 1, "(pointer) -> x")?;
                whole_bytes(outs[0])
            }
            LaneOp::Store { .. } => {
                let fits = ins.len() == 2 && ins[0] == INDEX && outs.is_empty();
                self.signature(fits, "(pointer, x) -> ()")?;
                whole_bytes(ins[1])
            }
            LaneOp::Atomic { kind } => {
                let fits = ins.len() == 2 && ins[0] == INDEX && ins[1].len == 1 && outs == ins[1..];
                self.signature(fits, "(pointer, x) -> x")?;
                crate::verify::rmw_defined(*kind, ins[1].dtype)?;
                whole_bytes(ins[1])
            }
            LaneOp::Barrier { .. } => {
                self.signature(ins == [WORD] && outs.is_empty(), "(u32) -> ()")
            }
            LaneOp::Fence { .. } | LaneOp::WaitCopies { .. } => {
                self.signature(ins.is_empty() && outs.is_empty(), "() -> ()")
            }
            LaneOp::Copy { source, target, shape, strides } => {
                let views: Vec<_> = self.body.views().collect();
                let known = *source < views.len() && *target < views.len();
                let last = source.max(target);
                ensure(known, "views", format_args!("less than {}", views.len()), last)?;
                let (from, to) = (views[*source], views[*target]);
                ensure(from.dtype == to.dtype, "target", from.dtype, to.dtype)?;
                let same_rank = strides.len() == shape.len();
                ensure(same_rank, "strides", shape.len(), strides.len())?;
                let mut inner = from.shape.iter().rev().zip(shape.iter().rev());
                let fits = shape.len() <= from.shape.len() && inner.all(|(n, m)| m <= n);
                let expected = format_args!("a window of {:?}", from.shape);
                ensure(fits, "shape", expected, format_args!("{shape:?}"))?;
                let fits = ins == [INDEX; 2] && outs.is_empty();
                self.signature(fits, "(pointer, pointer) -> ()")
            }
            LaneOp::If {} => {
                self.signature(ins == [BOOL], "(bool) -> ...")?;
                self.region(0, &[], &outs)?;
                self.region(1, &[], &outs)
            }
            LaneOp::For {} => {
                let fits = ins.len() >= 3 && ins[..3].iter().all(|x| *x == ins[0]);
                let fits = fits && ins[0].len == 1 && ins[0].dtype.is_int() && outs == ins[3..];
                self.signature(fits, "(lo, hi, step, carry...) -> carry...")?;
                let params: Vec<LaneType> = ins[..1].iter().chain(&ins[3..]).copied().collect();
                self.region(0, &params, &outs)
            }
            LaneOp::While {} => {
                let results: Vec<LaneType> = std::iter::once(BOOL).chain(outs.clone()).collect();
                self.region(0, &ins, &results)?;
                self.region(1, &outs, &ins)
            }
        }
    }
}

fn whole_bytes(ty: LaneType) -> Rule {
    let bits = ty.dtype.packed_bits() * ty.len as usize;
    ensure(bits.is_multiple_of(8), "access", "whole bytes", format_args!("{bits} bits"))
}
