//! The one list of element types.
//!
//! Everything that depends on an element type is generated from, or matches exhaustively on,
//! [`DType`]. Names are JAX's (`jnp.dtype(x).name`), so that a dtype crosses from Python as a string.

use serde::{Deserialize, Serialize};

/// Calls `$macro!` with every element type: `Variant "jax name" bits class`.
///
/// `bits` is the width in XLA's packed storage; in the machine a sub-byte element takes one byte.
#[macro_export]
macro_rules! for_each_dtype {
    ($macro:ident) => {
        $macro! {
            Bool "bool" 8 Bool;
            I2 "int2" 2 Signed;
            I4 "int4" 4 Signed;
            I8 "int8" 8 Signed;
            I16 "int16" 16 Signed;
            I32 "int32" 32 Signed;
            I64 "int64" 64 Signed;
            U2 "uint2" 2 Unsigned;
            U4 "uint4" 4 Unsigned;
            U8 "uint8" 8 Unsigned;
            U16 "uint16" 16 Unsigned;
            U32 "uint32" 32 Unsigned;
            U64 "uint64" 64 Unsigned;
            F4E2M1FN "float4_e2m1fn" 4 Float;
            F8E3M4 "float8_e3m4" 8 Float;
            F8E4M3 "float8_e4m3" 8 Float;
            F8E4M3B11FNUZ "float8_e4m3b11fnuz" 8 Float;
            F8E4M3FN "float8_e4m3fn" 8 Float;
            F8E4M3FNUZ "float8_e4m3fnuz" 8 Float;
            F8E5M2 "float8_e5m2" 8 Float;
            F8E5M2FNUZ "float8_e5m2fnuz" 8 Float;
            F8E8M0FNU "float8_e8m0fnu" 8 Float;
            F16 "float16" 16 Float;
            BF16 "bfloat16" 16 Float;
            F32 "float32" 32 Float;
            F64 "float64" 64 Float;
            C64 "complex64" 64 Complex;
            C128 "complex128" 128 Complex;
        }
    };
}

/// What kind of number an element type holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// One byte, 0 or 1.
    Bool,
    /// Two's complement.
    Signed,
    /// Unsigned.
    Unsigned,
    /// Binary floating point.
    Float,
    /// A pair of floats; stored and moved, computed only by XLA.
    Complex,
}

macro_rules! define_dtype {
    ($($variant:ident $name:literal $bits:literal $class:ident;)*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum DType {
            $(#[doc = concat!("JAX's `", $name, "`.")] #[serde(rename = $name)] $variant,)*
        }

        impl DType {
            /// Every element type.
            pub const ALL: &'static [DType] = &[$(DType::$variant),*];

            /// JAX's name for this type.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Bits per element in XLA's packed storage.
            pub const fn packed_bits(self) -> usize {
                match self { $(DType::$variant => $bits,)* }
            }

            /// What kind of number it holds.
            pub const fn class(self) -> Class {
                match self { $(DType::$variant => Class::$class,)* }
            }
        }
    };
}
for_each_dtype!(define_dtype);

impl DType {
    /// Bytes per element inside the machine, where a sub-byte element takes a whole byte.
    pub const fn size(self) -> usize {
        self.packed_bits().div_ceil(8)
    }

    /// Whether XLA packs several elements into one byte.
    pub const fn is_sub_byte(self) -> bool {
        self.packed_bits() < 8
    }

    /// Whether values of this type fit a scalar register (64 bits, not complex).
    pub const fn fits_scalar(self) -> bool {
        !matches!(self.class(), Class::Complex)
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }

    /// Whether this is a signed or unsigned integer type (bool is not).
    pub const fn is_int(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }

    /// Looks a type up by JAX's name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|d| d.name() == name)
    }
}

impl core::fmt::Display for DType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
