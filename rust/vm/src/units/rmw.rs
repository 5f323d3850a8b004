//! Read-modify-write: what each kind makes of the old value and the new one.

use pallas_rs_core::{self as core, BinaryKind, DType, Operand};
use pallas_rs_ir::RmwKind;

/// Replaces the elements `old` by what `kind` makes of them and of `x`.
pub(crate) fn combine(kind: RmwKind, dtype: DType, old: &mut [u8], x: Operand<'_>) {
    let binary = match kind {
        RmwKind::Add => BinaryKind::Add,
        RmwKind::Min => BinaryKind::Min,
        RmwKind::Max => BinaryKind::Max,
        RmwKind::And => BinaryKind::And,
        RmwKind::Or => BinaryKind::Or,
        RmwKind::Xor => BinaryKind::Xor,
        RmwKind::Xchg => match x {
            Operand::Slice(x) => return old.copy_from_slice(x),
            Operand::Splat(bits) => return core::fill(dtype.size(), bits, old),
        },
        RmwKind::Inc | RmwKind::Dec => return wrap_around(kind == RmwKind::Inc, dtype, old, x),
    };
    core::binary_in_place(binary, dtype, old, x);
}

/// Counters that wrap at a bound, which compare as unsigned numbers.
fn wrap_around(up: bool, dtype: DType, old: &mut [u8], x: Operand<'_>) {
    let size = dtype.size();
    for i in 0..old.len() / size {
        let was = core::load_scalar(size, old, i);
        let bound = match x {
            Operand::Slice(x) => core::load_scalar(size, x, i),
            Operand::Splat(bits) => bits,
        };
        let next = match up {
            true if was >= bound => 0,
            true => was + 1,
            false if was == 0 || was > bound => bound,
            false => was - 1,
        };
        core::store_scalar(size, next, old, i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(kind: RmwKind, old: [u32; 4], x: [u32; 4]) -> [u32; 4] {
        let mut bytes: Vec<u8> = old.iter().flat_map(|v| v.to_le_bytes()).collect();
        let x: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
        combine(kind, DType::U32, &mut bytes, Operand::Slice(&x));
        std::array::from_fn(|i| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()))
    }

    #[test]
    fn every_kind() {
        let (old, x) = ([0, 3, 5, 7], [3, 3, 4, 8]);
        assert_eq!(run(RmwKind::Add, old, x), [3, 6, 9, 15]);
        assert_eq!(run(RmwKind::Min, old, x), [0, 3, 4, 7]);
        assert_eq!(run(RmwKind::Max, old, x), [3, 3, 5, 8]);
        assert_eq!(run(RmwKind::And, old, x), [0, 3, 4, 0]);
        assert_eq!(run(RmwKind::Or, old, x), [3, 3, 5, 15]);
        assert_eq!(run(RmwKind::Xor, old, x), [3, 0, 1, 15]);
        assert_eq!(run(RmwKind::Xchg, old, x), x);
        assert_eq!(run(RmwKind::Inc, old, x), [1, 0, 0, 8]);
        assert_eq!(run(RmwKind::Dec, old, x), [3, 2, 4, 6]);
    }

    #[test]
    fn splats() {
        let mut old = [1, 2, 3];
        combine(RmwKind::Xchg, DType::U8, &mut old, Operand::Splat(9));
        assert_eq!(old, [9; 3]);
        combine(RmwKind::Dec, DType::U8, &mut old, Operand::Splat(4));
        assert_eq!(old, [4; 3]);
    }
}
