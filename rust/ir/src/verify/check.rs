//! One instruction under the verifier: typed access to its operands, and how a rule is stated.

use crate::op::{Count, OperandKind};
use crate::program::{Inst, Program, Value};
use crate::types::{RefType, Type};
use pallas_rs_core::DType;
use std::fmt::Display;

/// A broken rule.
pub(crate) struct Problem {
    pub(crate) what: String,
    pub(crate) expected: String,
    pub(crate) got: String,
}

impl Problem {
    pub(crate) fn new(what: impl Display, expected: impl Display, got: impl Display) -> Problem {
        Problem { what: what.to_string(), expected: expected.to_string(), got: got.to_string() }
    }
}

/// What a rule says.
pub(crate) type Rule<T = ()> = Result<T, Problem>;

/// States a rule.
pub(crate) fn ensure(holds: bool, what: &str, expected: impl Display, got: impl Display) -> Rule {
    if holds { Ok(()) } else { Err(Problem::new(what, expected, got)) }
}

/// An instruction whose operands have the number and kinds of its row.
pub(super) struct Check<'a> {
    pub(super) program: &'a Program,
    pub(super) inst: &'a Inst,
    /// Operands of each entry of the row.
    groups: Vec<&'a [Value]>,
}

impl<'a> Check<'a> {
    pub(super) fn new(program: &'a Program, inst: &'a Inst) -> Rule<Check<'a>> {
        let row = inst.op.info();
        let groups = inst.operand_groups().ok_or_else(|| {
            let names: Vec<&str> = row.operands.iter().map(|operand| operand.name).collect();
            Problem::new("operands", format!("({})", names.join(", ")), inst.operands.len())
        })?;
        for (operand, group) in row.operands.iter().zip(&groups) {
            for value in *group {
                let ty = program.ty(*value);
                let (fits, expected) = match operand.kind {
                    OperandKind::Scalar => (matches!(ty, Type::Scalar(_)), "a scalar"),
                    OperandKind::Tile => (matches!(ty, Type::Tile(..)), "a tile"),
                    OperandKind::Value => (!matches!(ty, Type::Ref(_)), "a scalar or a tile"),
                    OperandKind::Reference => (matches!(ty, Type::Ref(_)), "a ref"),
                    OperandKind::Operand => (!matches!(ty, Type::Scalar(_)), "a tile or a ref"),
                    OperandKind::Any => (true, "anything"),
                };
                ensure(fits, operand.name, expected, ty)?;
            }
        }
        let check = Check { program, inst, groups };
        if !inst.regions.is_empty() && row.effect != crate::op::Effect::Control {
            return Err(Problem::new("regions", 0, inst.regions.len()));
        }
        Ok(check)
    }

    /// Name of entry `i` of the row.
    pub(super) fn name(&self, i: usize) -> &'static str {
        self.inst.op.info().operands[i].name
    }

    /// Type of entry `i`, which occurs once.
    pub(super) fn ty(&self, i: usize) -> &'a Type {
        debug_assert_eq!(self.inst.op.info().operands[i].count, Count::One);
        self.program.ty(self.groups[i][0])
    }

    /// Type of entry `i`, which occurs at most once.
    pub(super) fn optional(&self, i: usize) -> Option<&'a Type> {
        self.groups[i].first().map(|value| self.program.ty(*value))
    }

    /// Types of all of entry `i`.
    pub(super) fn types(&self, i: usize) -> Vec<&'a Type> {
        self.groups[i].iter().map(|value| self.program.ty(*value)).collect()
    }

    /// Dtype and shape of entry `i`, a scalar or a tile.
    pub(super) fn value(&self, i: usize) -> Rule<(DType, &'a [usize])> {
        match self.ty(i) {
            Type::Scalar(dtype) => Ok((*dtype, &[])),
            Type::Tile(dtype, shape) => Ok((*dtype, shape)),
            other @ Type::Ref(_) => Err(Problem::new(self.name(i), "a scalar or a tile", other)),
        }
    }

    /// Ref type of entry `i`.
    pub(super) fn reference(&self, i: usize) -> Rule<&'a RefType> {
        let ty = self.ty(i);
        ty.as_ref().ok_or_else(|| Problem::new(self.name(i), "a ref", ty))
    }

    /// Ref type and dtype of entry `i`, a ref to numbers.
    pub(super) fn data(&self, i: usize) -> Rule<(&'a RefType, DType)> {
        let r = self.reference(i)?;
        let dtype = r.dtype().ok_or_else(|| Problem::new(self.name(i), "a ref to numbers", r))?;
        Ok((r, dtype))
    }

    /// Entry `i` has this type.
    pub(super) fn is(&self, i: usize, expected: &Type) -> Rule {
        ensure(self.ty(i) == expected, self.name(i), expected, self.ty(i))
    }

    /// Every operand of entry `i` is an integer scalar.
    pub(super) fn integers(&self, i: usize) -> Rule {
        for ty in self.types(i) {
            let integer = matches!(ty, Type::Scalar(dtype) if dtype.is_int());
            ensure(integer, self.name(i), "an integer scalar", ty)?;
        }
        Ok(())
    }

    /// Entry `i`, if there, is a boolean of this shape.
    pub(super) fn mask(&self, i: usize, shape: &[usize]) -> Rule {
        let expected = Type::value(DType::Bool, shape);
        match self.optional(i) {
            Some(ty) => ensure(*ty == expected, self.name(i), expected, ty),
            None => Ok(()),
        }
    }

    /// The types of the results.
    pub(super) fn result_types(&self) -> Vec<&'a Type> {
        self.inst.results.iter().map(|value| self.program.ty(*value)).collect()
    }

    /// The only result.
    pub(super) fn result(&self) -> Rule<&'a Type> {
        match self.inst.results[..] {
            [value] => Ok(self.program.ty(value)),
            _ => Err(Problem::new("results", 1, self.inst.results.len())),
        }
    }

    /// Dtype and shape of the only result, a scalar or a tile.
    pub(super) fn result_value(&self) -> Rule<(DType, &'a [usize])> {
        match self.result()? {
            Type::Scalar(dtype) => Ok((*dtype, &[])),
            Type::Tile(dtype, shape) => Ok((*dtype, shape)),
            other @ Type::Ref(_) => Err(Problem::new("result", "a scalar or a tile", other)),
        }
    }

    /// The results have these types.
    pub(super) fn results(&self, expected: &[Type]) -> Rule {
        same_types("results", expected, &self.result_types())
    }

    /// The only result has this type.
    pub(super) fn returns(&self, expected: Type) -> Rule {
        self.results(&[expected])
    }

    /// There is no result, or one of this type.
    pub(super) fn may_return(&self, expected: Type) -> Rule {
        if self.inst.results.is_empty() { Ok(()) } else { self.returns(expected) }
    }

    /// No result is a ref.
    pub(super) fn results_are_values(&self) -> Rule {
        for ty in self.result_types() {
            ensure(!matches!(ty, Type::Ref(_)), "result", "a scalar or a tile", ty)?;
        }
        Ok(())
    }

    /// There are `count` regions.
    pub(super) fn regions(&self, count: usize) -> Rule {
        let got = self.inst.regions.len();
        ensure(got == count, "regions", count, got)
    }

    /// Region `i` takes and yields values of these types.
    pub(super) fn region(&self, i: usize, params: &[Type], yields: &[Type]) -> Rule {
        let region = &self.inst.regions[i];
        let types = |values: &[Value]| -> Vec<&Type> {
            values.iter().map(|value| self.program.ty(*value)).collect()
        };
        same_types(&format!("parameters of region {i}"), params, &types(&region.params))?;
        same_types(&format!("yields of region {i}"), yields, &types(&region.yields))
    }
}

fn same_types(what: &str, expected: &[Type], got: &[&Type]) -> Rule {
    let same = expected.len() == got.len() && expected.iter().zip(got).all(|(a, b)| a == *b);
    ensure(same, what, TypeList(expected.iter().collect()), TypeList(got.to_vec()))
}

struct TypeList<'a>(Vec<&'a Type>);

impl Display for TypeList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "({})", types.join(", "))
    }
}

/// Owned copies of types.
pub(super) fn owned(types: &[&Type]) -> Vec<Type> {
    types.iter().map(|ty| (*ty).clone()).collect()
}

/// `dims` are distinct and less than `rank`.
pub(super) fn distinct_dims(what: &str, dims: &[usize], rank: usize) -> Rule {
    let mut seen = vec![false; rank];
    let fine = dims.iter().all(|&dim| dim < rank && !std::mem::replace(&mut seen[dim], true));
    let expected = format_args!("distinct dimensions less than {rank}");
    ensure(fine, what, expected, format_args!("{dims:?}"))
}

/// `dim` is less than `rank`.
pub(super) fn dim_in_range(what: &str, dim: usize, rank: usize) -> Rule {
    ensure(dim < rank, what, format_args!("less than {rank}"), dim)
}

/// A list has one entry per dimension.
pub(super) fn per_dim(what: &str, len: usize, rank: usize) -> Rule {
    ensure(len == rank, what, format_args!("{rank} entries"), len)
}

/// Number of elements of a shape that the header check has let through.
pub(super) fn element_count(shape: &[usize]) -> usize {
    shape.iter().product()
}
