//! Types of values: scalars, tiles and refs.

use pallas_rs_core::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A static shape. Rank 0 is a scalar.
pub type Shape = Vec<usize>;

/// Where memory lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Global memory of the device.
    Gmem,
    /// Shared memory of a block.
    Smem,
    /// Tensor memory of a block (Blackwell).
    Tmem,
    /// Registers of a thread: wgmma accumulators.
    Regs,
}

/// What an element of a ref is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elem {
    /// A number.
    Data(DType),
    /// An mbarrier, of a block or of a cluster.
    Barrier,
    /// A counting semaphore in GMEM.
    Semaphore,
}

/// A reference to memory: a base allocation seen through a chain of views, at its logical shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefType {
    /// Memory space.
    pub space: Space,
    /// Element.
    pub elem: Elem,
    /// Logical shape; tiling and swizzle do not change it.
    pub shape: Shape,
}

/// The type of an SSA value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A rank-0 value that fits 64 bits. Index arithmetic lives here.
    Scalar(DType),
    /// A dense value in registers. Rank 0 only for complex element types.
    Tile(DType, Shape),
    /// A view of memory.
    Ref(RefType),
}

impl RefType {
    /// A ref to numbers.
    pub fn data(space: Space, dtype: DType, shape: impl Into<Shape>) -> RefType {
        RefType { space, elem: Elem::Data(dtype), shape: shape.into() }
    }

    /// The same memory seen at another shape.
    #[must_use]
    pub fn with_shape(&self, shape: impl Into<Shape>) -> RefType {
        RefType { space: self.space, elem: self.elem, shape: shape.into() }
    }

    /// The element type, if the elements are numbers.
    pub fn dtype(&self) -> Option<DType> {
        match self.elem {
            Elem::Data(dtype) => Some(dtype),
            Elem::Barrier | Elem::Semaphore => None,
        }
    }
}

impl Type {
    /// The type of a value of this dtype and shape: a scalar wherever one can hold it.
    pub fn value(dtype: DType, shape: impl Into<Shape>) -> Type {
        let shape = shape.into();
        if shape.is_empty() && dtype.fits_scalar() {
            Type::Scalar(dtype)
        } else {
            Type::Tile(dtype, shape)
        }
    }

    /// The element type of a scalar or tile.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Type::Scalar(d) | Type::Tile(d, _) => Some(*d),
            Type::Ref(_) => None,
        }
    }

    /// The shape; a scalar's is empty.
    pub fn shape(&self) -> &[usize] {
        match self {
            Type::Scalar(_) => &[],
            Type::Tile(_, s) => s,
            Type::Ref(r) => &r.shape,
        }
    }
    /// The ref type, if this is a ref.
    pub fn as_ref(&self) -> Option<&RefType> {
        match self {
            Type::Ref(r) => Some(r),
            Type::Scalar(_) | Type::Tile(..) => None,
        }
    }
}

/// The short name of a dtype in the text form: `f32`, `bf16`, `i8`, `f8e4m3fn`.
pub fn short_name(dtype: DType) -> String {
    let name = dtype.name().replace('_', "");
    [("float", "f"), ("bfloat", "bf"), ("uint", "u"), ("int", "i"), ("complex", "c")]
        .into_iter()
        .find_map(|(long, short)| name.strip_prefix(long).map(|rest| format!("{short}{rest}")))
        .unwrap_or(name)
}

struct Dims<'a>(&'a [usize]);

impl fmt::Display for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Gmem => "gmem",
            Space::Smem => "smem",
            Space::Tmem => "tmem",
            Space::Regs => "regs",
        })
    }
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elem = match self.elem {
            Elem::Data(dtype) => short_name(dtype),
            Elem::Barrier => "barrier".to_owned(),
            Elem::Semaphore => "semaphore".to_owned(),
        };
        write!(f, "ref<{}, {elem}{}>", self.space, Dims(&self.shape))
    }
}

/// The text form: `i32` is a scalar, `f32[8,128]` a tile, `ref<smem, f16[64,64]>` a ref.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(dtype) => f.write_str(&short_name(*dtype)),
            Type::Tile(dtype, shape) => write!(f, "{}{}", short_name(*dtype), Dims(shape)),
            Type::Ref(r) => r.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_distinct() {
        let mut names: Vec<_> = DType::ALL.iter().map(|d| short_name(*d)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), DType::ALL.len());
        assert_eq!(short_name(DType::F8E4M3FN), "f8e4m3fn");
        assert_eq!(short_name(DType::BF16), "bf16");
        assert_eq!(short_name(DType::U8), "u8");
    }
}
