//! Grid, cluster, arguments and types of values.

use super::check::{Problem, Rule, ensure};
use crate::program::{Arg, Binding, GridDim, Program};
use crate::types::{Elem, RefType, Type};
use pallas_rs_core::DType;
use std::collections::BTreeMap;

/// Warps, the finest threads, that a block can have.
const MAX_THREADS: usize = 1024;

/// Blocks of a cluster; far above any device's limit, which the machine checks.
const MAX_CLUSTER: usize = 1024;

/// Bytes of one value or allocation: what an address can span.
const MAX_BYTES: usize = isize::MAX as usize;

/// Everything but the body's instructions.
pub(super) fn header(program: &Program) -> Rule {
    grid(program)?;
    for (index, ty) in program.values.iter().enumerate() {
        valid_type(ty).map_err(|p| Problem { what: format!("type of %{index}"), ..p })?;
    }
    args(program)
}

fn grid(program: &Program) -> Rule {
    let operands: Vec<usize> = (program.grid.iter())
        .filter_map(|dim| match dim {
            GridDim::Static(_) => None,
            GridDim::Operand(operand) => Some(*operand),
        })
        .collect();
    let distinct = operands.iter().enumerate().all(|(i, o)| !operands[..i].contains(o));
    ensure(distinct, "grid", "distinct operands", format_args!("{operands:?}"))?;
    for dim in &program.grid {
        if let GridDim::Static(size) = dim {
            ensure(i32::try_from(*size).is_ok(), "grid", "bounds that fit int32", size)?;
        }
    }
    let bounds = program.grid.iter().map(|dim| match dim {
        GridDim::Static(size) => *size,
        GridDim::Operand(_) => 1,
    });
    let points = bounds.filter(|size| *size > 0).try_fold(1u64, u64::checked_mul);
    let fits = points.is_some_and(|points| i64::try_from(points).is_ok());
    ensure(fits, "grid", "a number of points that fits int64", format_args!("{:?}", program.grid))?;
    names("grid names", &program.grid_names, program.grid.len())?;
    names("cluster names", &program.cluster_names, program.cluster.len())?;
    let blocks = program.cluster.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim));
    let fits = blocks.is_some_and(|blocks| (1..=MAX_CLUSTER).contains(&blocks));
    let expected = format_args!("1 to {MAX_CLUSTER} blocks");
    ensure(fits, "cluster", expected, format_args!("{:?}", program.cluster))?;
    let fits = (1..=MAX_THREADS).contains(&program.num_threads);
    ensure(fits, "threads", format_args!("1 to {MAX_THREADS}"), program.num_threads)
}

fn names(what: &str, names: &[String], dims: usize) -> Rule {
    let fits = names.is_empty() || names.len() == dims;
    ensure(fits, what, format_args!("none or {dims}"), names.len())
}

fn valid_type(ty: &Type) -> Rule {
    let (dtype, shape) = match ty {
        Type::Scalar(dtype) => {
            return ensure(dtype.fits_scalar(), "", "a tile for a complex number", ty);
        }
        Type::Tile(dtype, shape) => {
            let scalar = shape.is_empty() && dtype.fits_scalar();
            ensure(!scalar, "", "a scalar for a number of rank 0", ty)?;
            (Some(*dtype), shape)
        }
        Type::Ref(RefType { elem, shape, .. }) => match elem {
            Elem::Data(dtype) => (Some(*dtype), shape),
            Elem::Barrier | Elem::Semaphore => (None, shape),
        },
    };
    // A dimension of size 0 must not hide that the others overflow: views compute with them.
    let size = dtype.map_or(8, DType::size);
    let bytes = shape.iter().try_fold(size, |n, dim| n.checked_mul((*dim).max(1)));
    ensure(bytes.is_some_and(|bytes| bytes <= MAX_BYTES), "", "a size that can be addressed", ty)
}

fn args(program: &Program) -> Rule {
    let params: Vec<_> =
        program.body.params.iter().map(|v| program.values.get(v.0 as usize)).collect();
    ensure(params.len() == program.args.len(), "parameters", program.args.len(), params.len())?;
    for (arg, param) in program.args.iter().zip(params) {
        let in_argument = |p: Problem| Problem {
            what: format!(
                "argument {}{}{}",
                arg.name,
                if p.what.is_empty() { "" } else { ": " },
                p.what
            ),
            ..p
        };
        let param = param.ok_or_else(|| in_argument(Problem::new("", "a typed value", "none")))?;
        argument(arg, param).map_err(in_argument)?;
    }
    ensure(program.body.yields.is_empty(), "yields of the body", 0, program.body.yields.len())?;
    bindings(program)
}

fn argument(arg: &Arg, param: &Type) -> Rule {
    if arg.semaphores {
        ensure(arg.dtype == DType::I32, "semaphores", DType::I32, arg.dtype)?;
        ensure(!arg.by_value, "semaphores", "a ref", "a value")?;
    }
    if arg.by_value {
        ensure(arg.shape.is_empty(), "passed by value", "rank 0", arg.shape.len())?;
        let read = matches!(arg.binding, Binding::Operand(_));
        ensure(read, "passed by value", "an operand", format_args!("{:?}", arg.binding))?;
    }
    let expected = arg.param_type();
    ensure(*param == expected, "", expected, param)
}

/// An operand or result belongs to one argument, or to several that share its memory in the same
/// way; results are numbered without gaps.
fn bindings(program: &Program) -> Rule {
    let mut operands = BTreeMap::new();
    let mut results = BTreeMap::new();
    for dim in &program.grid {
        if let GridDim::Operand(operand) = dim {
            operands.insert(*operand, None);
        }
    }
    for arg in &program.args {
        let (operand, result) = match arg.binding {
            Binding::Operand(operand) => (Some(operand), None),
            Binding::Result(result) => (None, Some(result)),
            Binding::Zeroed => (None, None),
            Binding::Aliased { operand, result } => (Some(operand), Some(result)),
        };
        let shared = |other: Option<&Arg>| {
            other.is_some_and(|other| {
                matches!(arg.binding, Binding::Aliased { .. })
                    && (other.binding, other.dtype, &other.shape)
                        == (arg.binding, arg.dtype, &arg.shape)
            })
        };
        let places = [("operand", operand, &mut operands), ("result", result, &mut results)];
        for (what, index, taken) in places {
            let Some(index) = index else { continue };
            let before = taken.insert(index, Some(arg));
            let free = before.is_none_or(shared);
            ensure(
                free,
                &format!("{what} {index}"),
                "one argument",
                format_args!("also {}", arg.name),
            )?;
        }
    }
    let gapless = results.keys().enumerate().all(|(i, result)| i == *result);
    let got: Vec<_> = results.keys().collect();
    ensure(gapless, "results of the call", "numbers without gaps", format_args!("{got:?}"))
}
