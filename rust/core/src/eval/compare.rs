//! Comparisons. The result is `bool`, a byte of 0 or 1.

use super::operand::{Operand, STRIP_BYTES, Strips};
use super::unsupported;
use crate::element::{Element, elements};
use crate::isa::for_each_isa;
use crate::strip::{STRIP, is_narrow_float, widen, widen_scalar};
use crate::{CompareKind, DType};

/// On every type, by [`Total`] for the total orders.
macro_rules! table {
    ($use:ident!($($args:tt)*)) => { $use! { $($args)*
        Eq = |a, b| a == b;
        Ne = |a, b| a != b;
        Lt = |a, b| a < b;
        Le = |a, b| a <= b;
        Gt = |a, b| a > b;
        Ge = |a, b| a >= b;
        EqTo = |a, b| Total::key(a) == Total::key(b);
        LeTo = |a, b| Total::key(a) <= Total::key(b);
        LtTo = |a, b| Total::key(a) < Total::key(b);
    } };
}

impl CompareKind {
    /// Whether the comparison is defined on a type.
    pub fn supports(self, dtype: DType) -> bool {
        dtype.fits_scalar()
    }
}

/// A number by which the total order is that of integers.
trait Total: Copy {
    type Key: Ord;
    fn key(self) -> Self::Key;
}

macro_rules! total_int {
    ($($int:ident)*) => { $(
        impl Total for $int {
            type Key = $int;

            #[inline(always)]
            fn key(self) -> $int {
                self
            }
        }
    )* };
}
total_int! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! total_float {
    ($($float:ident $key:ident;)*) => { $(
        impl Total for $float {
            type Key = $key;

            /// The bits, which order positive numbers, with the magnitude of negative ones reversed.
            #[inline(always)]
            fn key(self) -> $key {
                let bits = self.to_bits() as $key;
                bits ^ ((bits >> ($key::BITS - 1)) & $key::MAX)
            }
        }
    )* };
}
total_float! { f32 i32; f64 i64; }

#[inline(always)]
fn zip<T: Element>(a: &[u8], b: &[u8], out: &mut [u8], f: impl Fn(T, T) -> bool) {
    for (out, (a, b)) in out.iter_mut().zip(elements::<T>(a).iter().zip(elements::<T>(b))) {
        *out = f(T::load(*a), T::load(*b)) as u8;
    }
}

#[inline(always)]
fn apply<T: Element>(a: T, b: T, f: impl Fn(T, T) -> bool) -> bool {
    f(a, b)
}

macro_rules! instantiate {
    ($tile:ident $value:ident $type:ident: $($kind:ident = $function:expr;)*) => {
        for_each_isa! {
            fn $tile(kind: CompareKind, a: &[u8], b: &[u8], out: &mut [u8]) {
                match kind {
                    $(CompareKind::$kind => zip::<$type>(a, b, out, $function),)*
                }
            }
        }

        #[inline]
        fn $value(kind: CompareKind, a: u64, b: u64) -> bool {
            let (a, b) = (Element::from_register(a), Element::from_register(b));
            match kind {
                $(CompareKind::$kind => apply::<$type>(a, b, $function),)*
            }
        }
    };
}
table!(instantiate!(tile_i8 value_i8 i8:));
table!(instantiate!(tile_i16 value_i16 i16:));
table!(instantiate!(tile_i32 value_i32 i32:));
table!(instantiate!(tile_i64 value_i64 i64:));
table!(instantiate!(tile_u8 value_u8 u8:));
table!(instantiate!(tile_u16 value_u16 u16:));
table!(instantiate!(tile_u32 value_u32 u32:));
table!(instantiate!(tile_u64 value_u64 u64:));
table!(instantiate!(tile_f32 value_f32 f32:));
table!(instantiate!(tile_f64 value_f64 f64:));

/// `out = a op b` as `bool`.
///
/// # Panics
/// If the type is complex, or the lengths differ.
pub fn compare(kind: CompareKind, dtype: DType, a: Operand<'_>, b: Operand<'_>, out: &mut [u8]) {
    let size = dtype.size();
    if let (Operand::Slice(a), Operand::Slice(b)) = (a, b) {
        assert_eq!(a.len(), out.len() * size, "an operand's length differs from the result's");
        assert_eq!(b.len(), out.len() * size, "an operand's length differs from the result's");
        return compare_slices(kind, dtype, a, b, out);
    }
    let (a, b) = (Strips::new(a, size, out.len()), Strips::new(b, size, out.len()));
    for (i, out) in out.chunks_mut(STRIP_BYTES / size).enumerate() {
        let (start, len) = (i * (STRIP_BYTES / size) * size, out.len() * size);
        compare_slices(kind, dtype, a.get(start, len), b.get(start, len), out);
    }
}

fn compare_slices(kind: CompareKind, dtype: DType, a: &[u8], b: &[u8], out: &mut [u8]) {
    match dtype {
        DType::I2 | DType::I4 | DType::I8 => tile_i8(kind, a, b, out),
        DType::I16 => tile_i16(kind, a, b, out),
        DType::I32 => tile_i32(kind, a, b, out),
        DType::I64 => tile_i64(kind, a, b, out),
        DType::Bool | DType::U2 | DType::U4 | DType::U8 => tile_u8(kind, a, b, out),
        DType::U16 => tile_u16(kind, a, b, out),
        DType::U32 => tile_u32(kind, a, b, out),
        DType::U64 => tile_u64(kind, a, b, out),
        DType::F32 => tile_f32(kind, a, b, out),
        DType::F64 => tile_f64(kind, a, b, out),
        DType::C64 | DType::C128 => unsupported(kind, dtype),
        _ => {
            let mut wide = ([0f32; STRIP], [0f32; STRIP]);
            let strip = STRIP * dtype.size();
            for ((a, b), out) in a.chunks(strip).zip(b.chunks(strip)).zip(out.chunks_mut(STRIP)) {
                let (wide_a, wide_b) = (&mut wide.0[..out.len()], &mut wide.1[..out.len()]);
                widen(dtype, a, wide_a);
                widen(dtype, b, wide_b);
                tile_f32(kind, bytemuck::cast_slice(wide_a), bytemuck::cast_slice(wide_b), out);
            }
        }
    }
}

/// [`compare`] of two scalar registers.
///
/// # Panics
/// If the type is complex.
#[inline]
pub fn compare_scalar(kind: CompareKind, dtype: DType, a: u64, b: u64) -> bool {
    match dtype {
        DType::I32 => value_i32(kind, a, b),
        DType::I64 => value_i64(kind, a, b),
        DType::Bool | DType::U2 | DType::U4 | DType::U8 => value_u8(kind, a, b),
        DType::F32 => value_f32(kind, a, b),
        DType::U32 => value_u32(kind, a, b),
        DType::U64 => value_u64(kind, a, b),
        DType::I2 | DType::I4 | DType::I8 => value_i8(kind, a, b),
        DType::I16 => value_i16(kind, a, b),
        DType::U16 => value_u16(kind, a, b),
        DType::F64 => value_f64(kind, a, b),
        _ if is_narrow_float(dtype) => {
            let wide = |x| widen_scalar(dtype, x).to_bits() as u64;
            value_f32(kind, wide(a), wide(b))
        }
        _ => unsupported(kind, dtype),
    }
}
