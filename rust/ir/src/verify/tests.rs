//! One accepted and several refused programs per family.

use super::{VerifyError, verify};
use crate::attrs::*;
use crate::builder::{Builder, Dim, accumulator, barrier, cluster_barrier, semaphore, smem};
use crate::op::Op;
use crate::program::{Binding, GridDim, MAX_DEPTH, Program, Region, SpanId, Value};
use crate::types::{RefType, Space, Type};
use pallas_rs_core::{BinaryKind, CompareKind, DType, ReduceKind, UnaryKind};

const F32: DType = DType::F32;
const I32: DType = DType::I32;

fn build(fill: impl FnOnce(&mut Builder)) -> Result<(), VerifyError> {
    let mut b = Builder::new("kernel");
    b.grid(&[4]).cluster(&[2]).threads(2);
    fill(&mut b);
    verify(&b.finish_unverified())
}

#[track_caller]
fn accepts(fill: impl FnOnce(&mut Builder)) {
    build(fill).unwrap();
}

/// The error's text contains `expected`.
#[track_caller]
fn refuses(expected: &str, fill: impl FnOnce(&mut Builder)) {
    let text = build(fill).expect_err("a rule is broken").to_string();
    assert!(text.contains(expected), "{text}");
}

fn edit(change: impl FnOnce(&mut Program)) -> Result<(), VerifyError> {
    let mut b = Builder::new("kernel");
    b.grid(&[4]);
    let x = b.input("x", F32, &[8]);
    let o = b.output("o", F32, &[8]);
    let v = b.load(x);
    b.repeat(3, |b, _| b.store(o, v));
    let mut program = b.finish();
    change(&mut program);
    verify(&program)
}

#[track_caller]
fn edited(expected: &str, change: impl FnOnce(&mut Program)) {
    let text = edit(change).expect_err("a rule is broken").to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn an_error_names_op_line_and_both_types() {
    let error = build(|b| {
        let x = b.input("x", F32, &[8]);
        b.at(12);
        b.push_one(Op::Load {}, &[x], Type::Tile(F32, vec![4]));
    });
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "load at kernel.py:12: results: expected (f32[8]), got (f32[4])");
}

#[test]
fn values_are_defined_before_use_and_once() {
    edited("a value that is visible here", |p| p.body.insts.swap(2, 3));
    edited("one definition", |p| {
        let again = p.body.insts[0].clone();
        p.body.insts.push(again);
    });
    edited("a region that has ended", |p| {
        let inside = p.body.insts.last().unwrap().regions[0].params[0];
        let mut user = p.body.insts[1].clone();
        user.op = Op::Unary { kind: UnaryKind::Neg };
        user.operands = vec![inside];
        p.values.push(Type::Scalar(I32));
        user.results = vec![Value(p.values.len() as u32 - 1)];
        p.body.insts.push(user);
    });
    edited("less than", |p| p.body.insts[0].operands[0] = Value(1000));
    edited("less than", |p| p.body.insts[0].results[0] = Value(1000));
    edited("less than", |p| p.body.insts.last_mut().unwrap().regions[0].params[0] = Value(1000));
    edited("span", |p| p.body.insts[0].span = SpanId(9));
}

#[test]
fn the_header_is_sane() {
    edited("threads", |p| p.num_threads = 0);
    edited("cluster", |p| p.cluster = vec![0]);
    edited("grid names", |p| p.grid_names = vec!["i".into(), "j".into()]);
    edited("int32", |p| p.grid = vec![GridDim::Static(1 << 31)]);
    edited("int64", |p| p.grid = vec![GridDim::Static(i32::MAX as u64); 3]);
    edited("distinct operands", |p| p.grid = vec![GridDim::Operand(7); 2]);
    edited("operand 0: expected one argument", |p| p.grid = vec![GridDim::Operand(0)]);
    edited("result 0: expected one argument", |p| p.args[0].binding = Binding::Result(0));
    edited("without gaps", |p| p.args[1].binding = Binding::Result(1));
    edited("argument x", |p| p.args[0].shape = vec![9]);
    edited("argument x: passed by value", |p| p.args[0].by_value = true);
    edited("yields of the body", |p| p.body.yields = vec![Value(0)]);
    edited("can be addressed", |p| p.values.push(Type::Tile(F32, vec![0, 1 << 40, 1 << 40])));
    edited("a scalar for a number", |p| p.values.push(Type::Tile(F32, vec![])));
    edited("a tile for a complex", |p| p.values.push(Type::Scalar(DType::C64)));
}

#[test]
fn aliased_arguments_share_their_memory() {
    let aliased = Binding::Aliased { operand: 0, result: 0 };
    accepts(|b| {
        b.arg("x", F32, &[8], aliased, false);
        b.arg("o", F32, &[8], aliased, false);
    });
    refuses("operand 0", |b| {
        b.arg("x", F32, &[8], aliased, false);
        b.arg("o", F32, &[4], aliased, false);
    });
}

#[test]
fn nesting_has_a_limit() {
    fn nest(b: &mut Builder, depth: usize) {
        if depth > 0 {
            b.repeat(1, |b, _| nest(b, depth - 1));
        }
    }
    accepts(|b| nest(b, MAX_DEPTH));
    refuses("nesting", |b| nest(b, MAX_DEPTH + 1));
}

#[test]
fn operands_are_those_of_the_row() {
    refuses("operands: expected (x), got 0", |b| {
        b.push_one(Op::Unary { kind: UnaryKind::Exp }, &[], Type::Scalar(F32));
    });
    refuses("source: expected a ref", |b| {
        let x = b.int(1);
        b.push_one(Op::Load {}, &[x], Type::Scalar(I32));
    });
    refuses("regions: expected 0", |b| {
        let mut program = Builder::new("inner");
        program.int(1);
        let inst = program.finish_unverified().body.insts.remove(0);
        assert!(inst.regions.is_empty());
        b.int(1);
        b.push_with_regions(Op::CommitSmem {}, &[], vec![], vec![Region::default()]);
    });
}

#[test]
fn arithmetic() {
    accepts(|b| {
        let x = b.f32_tile(&[4], &[1.0; 4]);
        let one = b.float(1.0);
        let y = b.add(x, one);
        let e = b.unary(UnaryKind::Exp, y);
        let positive = b.compare(CompareKind::Gt, e, one);
        let z = b.select_n(positive, &[x, e]);
        let c = b.clamp(one, z, y);
        let i = b.convert(c, I32);
        b.bitcast(i, F32);
    });
    refuses("bits: expected at most 0x1", |b| {
        b.constant(DType::Bool, &[], 2);
    });
    refuses("rhs: expected f32", |b| {
        let (x, y) = (b.float(1.0), b.int(1));
        b.push_one(Op::Binary { kind: BinaryKind::Add }, &[x, y], Type::Scalar(F32));
    });
    refuses("results: expected (bool)", |b| {
        let x = b.float(1.0);
        b.push_one(Op::Compare { kind: CompareKind::Lt }, &[x, x], Type::Scalar(F32));
    });
    refuses("which", |b| {
        let (w, x) = (b.float(1.0), b.float(1.0));
        b.select_n(w, &[x, x]);
    });
    refuses("equal widths", |b| {
        let x = b.float(1.0);
        b.bitcast(x, DType::F64);
    });
    refuses("16 bytes", |b| {
        b.f32_tile(&[4], &[1.0; 3]);
    });
    refuses("a dtype it is defined on", |b| {
        let x = b.int(1);
        b.unary(UnaryKind::Exp, x);
    });
}

#[test]
fn shapes() {
    accepts(|b| {
        let x = b.iota(F32, &[4, 8], 1);
        let t = b.transpose(x, &[1, 0]);
        let r = b.reshape(t, &[32]);
        let s = b.slice(r, &[2], &[30]);
        let c = b.concatenate(&[s, r], 0);
        b.broadcast(c, &[2, 62], &[1]);
        let d = b.dot(x, t, F32);
        b.reduce(ReduceKind::Sum, d, &[0, 1]);
        b.reduce(ReduceKind::ArgMax, d, &[1]);
    });
    refuses("distinct dimensions", |b| {
        let x = b.iota(F32, &[4, 8], 1);
        b.push_one(Op::Transpose { perm: vec![0, 0] }, &[x], Type::Tile(F32, vec![4, 4]));
    });
    refuses("within 8", |b| {
        let x = b.iota(F32, &[8], 0);
        b.slice(x, &[2], &[7]);
    });
    refuses("32 elements", |b| {
        let x = b.iota(F32, &[4, 8], 1);
        b.reshape(x, &[31]);
    });
    refuses("in rhs", |b| {
        let x = b.iota(F32, &[4, 8], 1);
        b.dot(x, x, F32);
    });
    refuses("a window within", |b| {
        let x = b.iota(F32, &[8], 0);
        let i = b.int(0);
        b.push_one(Op::DynamicSlice {}, &[x, i], Type::Tile(F32, vec![9]));
    });
    refuses("a size that fits", |b| {
        let (x, zero) = (b.iota(F32, &[8], 0), b.float(0.0));
        let op = Op::Pad { lo: vec![i64::MAX], hi: vec![1], interior: vec![0] };
        b.push_one(op, &[x, zero], Type::Tile(F32, vec![8]));
    });
}

#[test]
fn control_flow() {
    accepts(|b| {
        let (zero, n) = (b.int(0), b.int(9));
        let x = b.float(0.0);
        let out = b.for_loop(zero, n, &[x], |b, _, carry| vec![b.add(carry[0], carry[0])]);
        let limit = b.float(3.0);
        let condition = |b: &mut Builder, c: &[Value]| b.compare(CompareKind::Lt, c[0], limit);
        b.while_loop(&out, condition, |b, c| vec![b.add(c[0], c[0])]);
        b.switch(n, 3, |b, i| vec![b.int(i as i32)]);
    });
    refuses("yields of region 0", |b| {
        let (zero, n, x) = (b.int(0), b.int(9), b.float(0.0));
        b.for_loop(zero, n, &[x], |_, i, _| vec![i]);
    });
    refuses("yields of region 1", |b| {
        let n = b.int(0);
        b.switch(n, 2, |b, i| vec![if i == 0 { b.int(0) } else { b.float(0.0) }]);
    });
    refuses("result: expected a scalar or a tile", |b| {
        b.scope(vec![smem("s", F32, &[8])], |_, refs| vec![refs[0]]);
    });
    refuses("less than 1", |b| {
        b.program_id(1);
    });
    refuses("an integer or a boolean", |b| {
        let x = b.float(0.0);
        b.switch(x, 1, |_, _| vec![]);
    });
}

#[test]
fn views_and_accesses() {
    accepts(|b| {
        let x = b.input("x", F32, &[16, 8]);
        let o = b.output("o", I32, &[16, 8]);
        let i = b.program_id(0);
        let window = b.block_window(x, &[BlockDim::Blocked(4), BlockDim::Squeezed], &[i, i]);
        b.load(window);
        let row = b.view(x, &[Dim::Index(i), Dim::Range(2, 4)]);
        b.load(row);
        let t = b.ref_transpose(x, &[1, 0]);
        let flat = b.ref_reshape(t, &[128]);
        let bits = b.ref_bitcast(flat, DType::U8, &[512]);
        b.load(bits);
        let v = b.iota(I32, &[16, 8], 0);
        b.atomic_rmw(RmwKind::Add, o, v);
        b.swap(o, v);
    });
    refuses("x: expected f32[8]", |b| {
        let o = b.output("o", F32, &[8]);
        let x = b.float(0.0);
        b.store(o, x);
    });
    refuses("an integer scalar", |b| {
        let x = b.input("x", F32, &[8]);
        let i = b.float(0.0);
        b.view(x, &[Dim::Index(i)]);
    });
    refuses("the bits of", |b| {
        let x = b.input("x", F32, &[8]);
        b.ref_bitcast(x, DType::U8, &[8]);
    });
    refuses("a ref to gmem or smem", |b| {
        b.thread_scope(vec![accumulator("acc", F32, [64, 8])], |b, refs| vec![b.load(refs[0])]);
    });
    refuses("a ref to numbers", |b| {
        b.scope(vec![barrier("b", &[], 1)], |b, refs| {
            let ty = Type::Scalar(I32);
            vec![b.push_one(Op::Load {}, &[refs[0]], ty)]
        });
    });
    refuses("Xor: expected a dtype", |b| {
        let o = b.output("o", F32, &[]);
        let x = b.float(0.0);
        b.atomic_rmw(RmwKind::Xor, o, x);
    });
}

#[test]
fn gather_and_scatter() {
    let dims = || {
        let slice = GatherDim::Slice { start: Start::Static(0), size: 3, stride: 1 };
        vec![GatherDim::Array, slice, GatherDim::Array]
    };
    let gather = |at, shape: &[usize]| {
        let shape = shape.to_vec();
        move |b: &mut Builder| {
            let x = b.input("x", F32, &[4, 5, 6]);
            let i = b.iota(I32, &[7, 2], 0);
            let op = Op::Gather { dims: dims(), at, mask: false, other: false };
            b.push_one(op, &[x, i, i], Type::Tile(F32, shape));
        }
    };
    accepts(gather(0, &[7, 2, 3]));
    accepts(gather(1, &[3, 7, 2]));
    refuses("results", gather(1, &[7, 2, 3]));
    refuses("at most 1", gather(2, &[3, 7, 2]));
    accepts(|b| {
        let o = b.output("o", F32, &[4, 5, 6]);
        let i = b.iota(I32, &[7, 2], 0);
        let x = b.iota(F32, &[7, 2, 3], 0);
        let mask = b.constant(DType::Bool, &[7, 2, 3], 1);
        b.push_none(Op::Scatter { dims: dims(), at: 0, mask: true }, &[o, x, i, i, mask]);
    });
    refuses("integer tiles of one shape", |b| {
        let x = b.input("x", F32, &[4, 5, 6]);
        let (i, j) = (b.iota(I32, &[7], 0), b.iota(I32, &[8], 0));
        let op = Op::Gather { dims: dims(), at: 0, mask: false, other: false };
        b.push_one(op, &[x, i, j], Type::Tile(F32, vec![7, 3]));
    });
}

#[test]
fn barriers_and_copies() {
    let scratch = || vec![smem("s", F32, &[8]), barrier("full", &[2], 1), semaphore("sem", &[])];
    let with = |body: fn(&mut Builder, Value, Value, Value, Value)| {
        move |b: &mut Builder| {
            let x = b.input("x", F32, &[8]);
            b.scope(scratch(), |b, refs| {
                let full = b.view(refs[1], &[Dim::At(0)]);
                body(b, x, refs[0], full, refs[1]);
                vec![]
            });
        }
    };
    accepts(with(|b, x, s, full, _| {
        b.tma_load(x, s, full);
        b.barrier_wait(full);
        b.barrier_arrive(full);
        b.barrier_test(full);
        b.commit_smem();
        b.tma_store(s, x);
        b.wait_stores(0);
    }));
    refuses("source: expected a ref to gmem", with(|b, x, s, full, _| b.tma_load(s, x, full)));
    refuses("one barrier", with(|b, _, _, _, both| b.barrier_wait(both)));
    refuses("one barrier", with(|b, _, s, _, _| b.barrier_wait(s)));
    refuses(
        "target",
        with(|b, x, s, full, _| {
            let half = b.view(x, &[Dim::Range(0, 4)]);
            b.tma_load(half, s, full);
        }),
    );
    refuses("space: expected smem", |b| {
        let alloc = Alloc { space: Space::Gmem, ..barrier("b", &[], 1) };
        b.scope(vec![alloc], |_, _| vec![]);
    });
    refuses("less than 1", |b| {
        b.scope(vec![cluster_barrier("c", 1, 1)], |_, _| vec![]);
    });
}

#[test]
fn collective_copies() {
    let copy = |partition, rows| {
        move |b: &mut Builder| {
            let x = b.input("x", F32, &[8, 4]);
            let scratch = vec![smem("s", F32, &[rows, 4]), barrier("full", &[], 1)];
            b.scope(scratch, |b, refs| {
                let collective = Some(Collective { axes: vec![0], partition });
                b.tma_load_collective(x, refs[0], refs[1], collective);
                vec![]
            });
        }
    };
    accepts(copy(Partition::Multicast, 8));
    accepts(copy(Partition::Replicated, 8));
    accepts(copy(Partition::Partitioned(0), 4));
    refuses("target", copy(Partition::Partitioned(0), 8));
    refuses("parts of dimension 2", copy(Partition::Partitioned(2), 8));
}

#[test]
fn tensor_cores() {
    let product = |m, k| {
        move |b: &mut Builder| {
            let scratch = vec![
                accumulator("acc", F32, [64, 32]),
                smem("a", DType::F16, &[m, 16]),
                smem("b", DType::F16, &[k, 32]),
            ];
            b.scope(scratch, |b, refs| {
                b.wgmma(refs[0], refs[1], refs[2]);
                b.wgmma_wait(0);
                b.accumulator_load(refs[0], None);
                vec![]
            });
        }
    };
    accepts(product(64, 16));
    refuses("[m, n] += [m, k] @ [k, n]", product(32, 16));
    refuses("[m, n] += [m, k] @ [k, n]", product(64, 8));
    refuses("acc: expected a ref to regs", |b| {
        b.scope(vec![smem("a", F32, &[16, 16])], |b, refs| {
            b.wgmma(refs[0], refs[0], refs[0]);
            vec![]
        });
    });
}

#[test]
fn the_host() {
    accepts(|b| {
        let (ok, x) = (b.bool(true), b.int(3));
        b.check(ok, "{}", &[x]);
        b.print("{}", &[x]);
        b.xla_call("sort", vec![1, 2], &[x], vec![Type::Scalar(I32)]);
    });
    refuses("blob", |b| {
        b.push_none(Op::XlaCall { name: "sort".into(), blob: 3 }, &[]);
    });
    refuses("result: expected a scalar or a tile", |b| {
        let ty = Type::Ref(RefType::data(Space::Gmem, F32, [8]));
        b.xla_call("sort", vec![], &[], vec![ty]);
    });
}
