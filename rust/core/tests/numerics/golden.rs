//! Every operation against what XLA on a CPU and `ml_dtypes` made of it (see `../make_golden.py`).

use pallas_rs_core::{
    BinaryKind, CompareKind, DType, Operand, SplitMix64, UnaryKind, binary, clamp, compare,
    convert, integer_pow, reduce_precision, unary,
};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Formats {
    dtype: DType,
    decode: String,
    encode_float16: String,
    encode_bfloat16: String,
    encode_random: String,
}

fn fnv1a(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ *byte as u64).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn f32_bytes(values: impl Iterator<Item = u32>) -> Vec<u8> {
    values.flat_map(u32::to_le_bytes).collect()
}

#[test]
fn narrow_floats_are_those_of_ml_dtypes() {
    let tables: Vec<Formats> = serde_json::from_str(include_str!("../data/formats.json")).unwrap();
    for table in tables {
        let dtype = table.dtype;
        let codes: Vec<u8> = match dtype {
            DType::F4E2M1FN => (0..=255).map(|code| code & 15).collect(),
            _ if dtype.size() == 1 => (0..=255).collect(),
            _ => (0..=u16::MAX).flat_map(u16::to_le_bytes).collect(),
        };
        let mut values = vec![0; codes.len() / dtype.size() * 4];
        convert(dtype, DType::F32, &codes, &mut values);
        assert_eq!(fnv1a(&canonical(DType::F32, &values, false)), table.decode, "{dtype} decoded");

        let mut f16 = vec![0; 4 << 16];
        let every: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        convert(DType::F16, DType::F32, &every, &mut f16);
        let bf16 = f32_bytes((0..=u16::MAX as u32).map(|bits| bits << 16));
        let mut rng = SplitMix64::new(1);
        let random = f32_bytes((0..1 << 18).map(|_| rng.next_u64() as u32));
        for (name, x, hash) in [
            ("float16", &f16, table.encode_float16),
            ("bfloat16", &bf16, table.encode_bfloat16),
            ("random", &random, table.encode_random),
        ] {
            let mut out = vec![0; x.len() / 4 * dtype.size()];
            convert(DType::F32, dtype, x, &mut out);
            let out = if dtype.size() == 2 { canonical(dtype, &out, false) } else { out };
            assert_eq!(fnv1a(&out), hash, "{dtype} from {name}");
        }
    }
}

#[derive(Deserialize)]
struct Row {
    family: String,
    kind: String,
    dtype: DType,
    #[serde(default)]
    hash: String,
    #[serde(default)]
    out: String,
    #[serde(default)]
    ulp: u64,
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn kind<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    serde_json::from_value(serde_json::Value::String(name.into())).unwrap()
}

/// One NaN for all, and optionally no subnormals, as XLA flushes them.
fn canonical(dtype: DType, x: &[u8], flush: bool) -> Vec<u8> {
    let size = dtype.size();
    let mut out = x.to_vec();
    let (exponent, mantissa) = match dtype {
        DType::F64 => (11, 52),
        DType::F32 => (8, 23),
        DType::BF16 => (8, 7),
        DType::F16 => (5, 10),
        DType::F8E5M2 => (5, 2),
        DType::F8E4M3 => (4, 3),
        DType::F8E3M4 => (3, 4),
        DType::F8E4M3FN => {
            for x in &mut out {
                *x = if *x & 0x7f == 0x7f { 0x7f } else { *x };
            }
            return out;
        }
        _ => return out,
    };
    for x in out.chunks_mut(size) {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(x);
        let mut bits = u64::from_le_bytes(bytes);
        let magnitude = bits & !(1 << (exponent + mantissa));
        let infinity = ((1u64 << exponent) - 1) << mantissa;
        if magnitude > infinity {
            bits = infinity | 1 << (mantissa - 1);
        } else if flush && exponent >= 8 && magnitude < 1 << mantissa {
            bits -= magnitude;
        }
        x.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    out
}

/// A number by which neighbouring floats differ by one.
fn ordinal(dtype: DType, bytes: &[u8]) -> i128 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide) as i128;
    let sign = 1i128 << (8 * dtype.size() - 1);
    if bits >= sign { sign - bits } else { bits }
}

/// Where XLA is wrong or coarse, and the machine is not.
fn xla_differs(row: &Row) -> bool {
    match (row.family.as_str(), row.kind.as_str(), row.dtype) {
        // It counts the copies of the sign; flushes a product that the type can hold; evaluates in
        // `float16`, where the exponential overflows.
        ("unary", "population_count", DType::I2 | DType::I4)
        | ("unary", "square", DType::F8E8M0FNU)
        | ("unary", "logistic", DType::F16) => true,
        // It takes the exponent of the largest numbers for that of infinity, which the type lacks.
        ("convert", to, DType::F4E2M1FN) => kind::<DType>(to).is_int(),
        _ => false,
    }
}

#[test]
fn operations_are_those_of_xla() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("../data/ops.json")).unwrap();
    let values: BTreeMap<DType, Vec<u8>> = rows
        .iter()
        .filter(|row| row.family == "values")
        .map(|row| (row.dtype, unhex(&row.out)))
        .collect();
    let mut failures = Vec::new();
    for row in rows.iter().filter(|row| row.family != "values" && !xla_differs(row)) {
        let Row { family, kind: name, dtype, .. } = row;
        let (dtype, size) = (*dtype, dtype.size());
        let x = &values[&dtype];
        let count = x.len() / size;
        let pick = |f: &dyn Fn(usize) -> usize| -> Vec<u8> {
            (0..count * count).flat_map(|i| x[f(i) * size..][..size].to_vec()).collect()
        };
        let (mut a, mut b) = (pick(&|i| i / count), pick(&|i| i % count));
        if row.ulp > 0 {
            a.truncate(576 * size);
            b.truncate(576 * size);
        }
        let (a, b) = (Operand::Slice(&a), Operand::Slice(&b));
        let pairs = if row.ulp > 0 { 576.min(count * count) } else { count * count };
        let (result, out) = match family.as_str() {
            "unary" => {
                let kind: UnaryKind = kind(name);
                assert!(kind.supports(dtype), "{name} {dtype}");
                let mut out = vec![0; count * kind.result(dtype).size()];
                unary(kind, dtype, x, &mut out);
                (kind.result(dtype), out)
            }
            "binary" => {
                let kind: BinaryKind = kind(name);
                assert!(kind.supports(dtype), "{name} {dtype}");
                let mut out = vec![0; pairs * size];
                binary(kind, dtype, a, b, &mut out);
                (dtype, out)
            }
            "compare" => {
                let mut out = vec![0; pairs];
                compare(kind::<CompareKind>(name), dtype, a, b, &mut out);
                (DType::Bool, out)
            }
            "integer_pow" => {
                let mut out = vec![0; x.len()];
                integer_pow(dtype, name.parse().unwrap(), x, &mut out);
                (dtype, out)
            }
            "clamp" => {
                let mut out = vec![0; x.len()];
                let at = |i| Operand::Splat(pallas_rs_core::load_scalar(size, x, i));
                clamp(dtype, at(1), Operand::Slice(x), at(2), &mut out);
                (dtype, out)
            }
            "reduce_precision" => {
                let (e, m) = name.split_once(' ').unwrap();
                let mut out = vec![0; x.len()];
                reduce_precision(dtype, e.parse().unwrap(), m.parse().unwrap(), x, &mut out);
                (dtype, out)
            }
            "convert" => {
                let to: DType = kind(name);
                let mut out = vec![0; count * to.size()];
                convert(dtype, to, x, &mut out);
                (to, out)
            }
            _ => panic!("no family {family}"),
        };
        let out = canonical(result, &out, true);
        if row.ulp == 0 {
            if fnv1a(&out) != row.hash {
                failures.push(format!("{family} {name} {dtype}: differs"));
            }
            continue;
        }
        let expected = canonical(result, &unhex(&row.out), true);
        assert_eq!(out.len(), expected.len());
        let size = result.size();
        for (i, (ours, theirs)) in out.chunks(size).zip(expected.chunks(size)).enumerate() {
            let distance = (ordinal(result, ours) - ordinal(result, theirs)).unsigned_abs();
            if distance > row.ulp as u128 {
                let (ours, theirs) = (show(result, ours), show(result, theirs));
                failures.push(format!(
                    "{family} {name} {dtype} [{i}]: {ours:?}, XLA {theirs:?}, {distance} apart"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

fn show(dtype: DType, bytes: &[u8]) -> f64 {
    let mut out = [0; 8];
    convert(dtype, DType::F64, bytes, &mut out);
    f64::from_le_bytes(out)
}
