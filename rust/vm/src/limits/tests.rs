//! What is just allowed beside what is not.

use super::check;
use crate::trap::{Illegal, Limit, TrapKind};
use pallas_rs_core::DType;
use pallas_rs_ir::builder::{Builder, accumulator, barrier, smem};
use pallas_rs_ir::{Alloc, AllocKind, LayoutTransform, Program, Space, Within};

fn faults(program: &Program) -> Vec<String> {
    check(program)
        .into_iter()
        .map(|trap| match trap.kind {
            TrapKind::Resource { limit, needed, available, .. } => {
                format!("{limit:?}: {needed} of {available}")
            }
            TrapKind::Illegal(illegal) => format!("{illegal:?}"),
            kind => panic!("{kind:?} is no limit"),
        })
        .collect()
}

fn with_scratch(allocs: Vec<Alloc>) -> Program {
    let mut b = Builder::new("kernel");
    b.scope(allocs, |_, _| Vec::new());
    b.finish()
}

#[test]
fn smem_counts_with_its_alignment() {
    // 227 KiB: every allocation begins at a multiple of 1024 bytes.
    let fits = vec![smem("a", DType::F32, &[226 * 256]), smem("b", DType::U8, &[1])];
    assert_eq!(faults(&with_scratch(fits)), Vec::<String>::new());
    let more = vec![smem("a", DType::F32, &[226 * 256]), smem("b", DType::U8, &[1025])];
    assert_eq!(faults(&with_scratch(more)), ["Smem: 233472 of 232448"]);
}

#[test]
fn scopes_one_after_another_share_their_memory() {
    let mut b = Builder::new("kernel");
    for _ in 0..2 {
        b.scope(vec![smem("half", DType::U8, &[150 << 10])], |_, _| Vec::new());
    }
    assert_eq!(faults(&b.finish()), Vec::<String>::new());
    let mut b = Builder::new("kernel");
    b.scope(vec![smem("outer", DType::U8, &[150 << 10])], |b, _| {
        b.scope(vec![smem("inner", DType::U8, &[150 << 10])], |_, _| Vec::new())
    });
    let program = b.finish();
    let TrapKind::Resource { limit: Limit::Smem, users, .. } = &check(&program)[0].kind else {
        panic!("too much SMEM")
    };
    assert_eq!(users.len(), 2);
}

#[test]
fn a_union_takes_as_much_as_the_member_that_ends_last() {
    let members = |size: usize| {
        let part = |name, offset: usize, kib: usize| {
            let mut part = smem(name, DType::U8, &[kib << 10]);
            let AllocKind::Data { layout, .. } = &mut part.kind else { panic!("it holds bytes") };
            layout.push(LayoutTransform::Within(Within { union: 7, offset: offset << 10 }));
            part
        };
        let first = [part("u[0][0]", 0, 100), part("u[0][1]", 100, 100)];
        let other = [part("u[1][0]", 0, size), smem("other", DType::U8, &[20 << 10])];
        [first, other].concat()
    };
    assert_eq!(faults(&with_scratch(members(207))), Vec::<String>::new());
    let program = with_scratch(members(208));
    assert_eq!(faults(&program), ["Smem: 233472 of 232448"]);
    let TrapKind::Resource { users, .. } = &check(&program)[0].kind else { panic!("too much") };
    assert_eq!(users, &[("u".to_owned(), 208 << 10), ("other".to_owned(), 20 << 10)]);
}

#[test]
fn tmem_is_allocated_as_one() {
    let tmem = |dtype, rows, columns| {
        let shared = smem("t", dtype, &[rows, columns]);
        Alloc { space: Space::Tmem, ..shared }
    };
    let on_blackwell = |allocs| {
        let mut program = with_scratch(allocs);
        program.options.target = Some("b200".to_owned());
        faults(&program)
    };
    // Packed bytes take a quarter, and 64 rows half of the columns.
    let bytes = |columns| tmem(DType::F8E4M3FN, 128, columns);
    let half = || tmem(DType::F32, 64, 64);
    let acc = || tmem(DType::F32, 128, 32);
    assert_eq!(on_blackwell(vec![bytes(1792), acc(), half()]), Vec::<String>::new());
    assert_eq!(on_blackwell(vec![bytes(1796), acc(), half()]), ["Tmem: 513 of 512"]);
}

#[test]
fn barriers_and_threads() {
    assert_eq!(faults(&with_scratch(vec![barrier("b", &[32], 8191)])), Vec::<String>::new());
    assert_eq!(faults(&with_scratch(vec![barrier("b", &[33], 1)])), ["Barriers: 33 of 32"]);
    assert_eq!(faults(&with_scratch(vec![barrier("b", &[], 8192)])), ["Arrivals: 8192 of 8191"]);
    let threads = |n| {
        let mut b = Builder::new("kernel");
        b.threads(n);
        faults(&b.finish())
    };
    assert_eq!((threads(8).len(), threads(9)), (0, vec!["Threads: 1152 of 1024".to_owned()]));
    let mut b = Builder::new("kernel");
    b.cluster(&[32]);
    assert_eq!(faults(&b.finish()), ["ClusterBlocks: 32 of 16"]);
}

fn load_of(shape: &[usize], dtype: DType) -> Vec<String> {
    let mut b = Builder::new("kernel");
    let x = b.input("x", dtype, shape);
    b.scope(vec![smem("s", dtype, shape), barrier("ready", &[], 1)], |b, refs| {
        b.tma_load(x, refs[0], refs[1]);
        Vec::new()
    });
    faults(&b.finish())
}

#[test]
fn tma_copies_rows_of_sixteen_bytes() {
    assert_eq!(load_of(&[8, 4], DType::F32), Vec::<String>::new());
    assert_eq!(
        load_of(&[8, 3], DType::U8),
        [format!("{:?}", Illegal::CopyRow { elements: 3, dtype: DType::U8 })]
    );
    assert_eq!(load_of(&[16], DType::U8), Vec::<String>::new());
}

fn product(m: usize, n: usize, k: usize, [a, acc]: [DType; 2], target: &str) -> Vec<String> {
    let mut b = Builder::new("kernel");
    b.options().target = Some(target.to_owned());
    b.scope(vec![smem("a", a, &[m, k]), smem("b", a, &[k, n])], |b, refs| {
        b.thread_scope(vec![accumulator("acc", acc, [m, n])], |b, accs| {
            b.wgmma(accs[0], refs[0], refs[1]);
            Vec::new()
        })
    });
    faults(&b.finish())
}

#[test]
fn wgmma_has_shapes_and_types() {
    let half = [DType::F16, DType::F32];
    assert_eq!(product(64, 128, 64, half, "h100"), Vec::<String>::new());
    assert!(product(8, 8, 16, half, "h100")[0].starts_with("ProductShape"));
    assert!(product(64, 12, 16, half, "h100")[0].starts_with("ProductShape"));
    assert!(product(64, 8, 32, [DType::I8, DType::F32], "h100")[0].starts_with("ProductTypes"));
    assert_eq!(product(64, 8, 32, [DType::I8, DType::I32], "h100"), Vec::<String>::new());
    assert!(product(64, 128, 64, half, "b200")[0].starts_with("Product"));
}

#[test]
fn no_buffer_is_larger_than_can_be_counted() {
    let program = |elements: usize, check: bool| {
        let mut b = Builder::new("kernel");
        b.options().check_limits = check;
        b.scope(vec![smem("a", DType::U8, &[elements])], |_, _| Vec::new());
        faults(&b.finish())
    };
    assert_eq!(program(u32::MAX as usize, false), Vec::<String>::new());
    for check in [false, true] {
        assert_eq!(program(1 << 32, check), ["Memory: 4294967296 of 4294967295"]);
    }
    let mut b = Builder::new("kernel");
    b.options().check_limits = false;
    b.iota(DType::F32, &[1 << 20, 1 << 20], 0);
    assert_eq!(faults(&b.finish()), ["Memory: 4398046511104 of 4294967295"]);
}
