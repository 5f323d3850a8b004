//! The grid: its bounds, which may come at run time, and its points in row-major order.

use crate::GlobalBuffer;
use crate::trap::{GridFault, Trap, TrapKind};
use pallas_rs_core::{Class, DType, load_scalar, unpack};
use pallas_rs_ir::{GridDim, Program};
use smallvec::SmallVec;

/// A grid point.
pub(crate) type Point = SmallVec<[u64; 4]>;

/// The largest bound: an index along a dimension is an int32.
const MAX_BOUND: i128 = i32::MAX as i128;

/// Bounds of a grid and the number of its points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) bounds: Point,
    pub(crate) points: u64,
}

impl Grid {
    /// Reads the bounds; a run-time bound is an integer of any width.
    ///
    /// # Errors
    /// The dimension whose bound makes no grid.
    pub(crate) fn new(program: &Program, operands: &[GlobalBuffer<'_>]) -> Result<Grid, Box<Trap>> {
        let mut bounds = Point::new();
        for (axis, dim) in program.grid.iter().enumerate() {
            let value = match *dim {
                GridDim::Static(n) => i128::from(n),
                GridDim::Operand(index) => integer(&operands[index]),
            };
            let fault = match value {
                _ if value < 0 => GridFault::Negative,
                _ if value > MAX_BOUND => GridFault::TooLarge,
                _ => {
                    bounds.push(value as u64);
                    continue;
                }
            };
            return Err(invalid(program, axis, value, fault));
        }
        let mut points: u64 = 1;
        if bounds.contains(&0) {
            points = 0;
        }
        for (axis, &bound) in bounds.iter().enumerate() {
            points = points
                .checked_mul(bound)
                .ok_or_else(|| invalid(program, axis, bound.into(), GridFault::TooLarge))?;
        }
        Ok(Grid { bounds, points })
    }

    /// The point with this row-major number.
    pub(crate) fn point(&self, index: u64) -> Point {
        unravel(index, &self.bounds)
    }

    /// Goes from a point to the next one.
    #[inline]
    pub(crate) fn advance(&self, point: &mut Point) {
        for (x, &bound) in point.iter_mut().zip(&self.bounds).rev() {
            *x += 1;
            if *x < bound {
                return;
            }
            *x = 0;
        }
    }
}

#[cold]
fn invalid(program: &Program, axis: usize, value: i128, fault: GridFault) -> Box<Trap> {
    let name = program.grid_names.get(axis).filter(|name| !name.is_empty()).cloned();
    TrapKind::InvalidGrid { axis, name, value, fault }.into()
}

/// The integer in a scalar operand.
fn integer(operand: &GlobalBuffer<'_>) -> i128 {
    let dtype: DType = operand.dtype();
    let bits = scalar(operand);
    match dtype.class() {
        Class::Signed => crate::exec::access::as_integer(dtype, bits).into(),
        Class::Bool | Class::Unsigned | Class::Float | Class::Complex => bits.into(),
    }
}

/// The scalar register for the first element of an operand.
pub(crate) fn scalar(operand: &GlobalBuffer<'_>) -> u64 {
    let dtype = operand.dtype();
    let mut bytes = [0; 8];
    let len = operand.len().min(8);
    operand.read(&mut bytes[..len]);
    if dtype.is_sub_byte() {
        let mut element = [0];
        unpack(dtype, &bytes[..1], &mut element);
        return element[0].into();
    }
    load_scalar(dtype.size(), &bytes, 0)
}

/// The point of a row-major number.
pub(crate) fn unravel(mut index: u64, bounds: &[u64]) -> Point {
    let mut point: Point = SmallVec::from_elem(0, bounds.len());
    for (x, &bound) in point.iter_mut().zip(bounds).rev() {
        *x = index % bound;
        index /= bound;
    }
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_row_major() {
        let grid = Grid { bounds: SmallVec::from_slice(&[2, 3]), points: 6 };
        let mut point = grid.point(0);
        for index in 0..6 {
            assert_eq!(point, grid.point(index));
            grid.advance(&mut point);
        }
        assert_eq!(grid.point(4)[..], [1, 1]);
    }
}
