//! The steady loop of a kernel does not allocate.
#![allow(unsafe_code, reason = "an allocator that counts")]

mod common;

use common::{Array, call};
use pallas_rs_core::{BinaryKind, DType, ReduceKind, UnaryKind};
use pallas_rs_ir::Program;
use pallas_rs_ir::builder::{Builder, Dim, accumulator, barrier, smem};
use pallas_rs_vm::{Executable, NoHost};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const N: usize = 16;

/// Two threads: one loads tiles, the other computes, with a tensor core product if `product`, and
/// stores; `rounds` rounds in each of `blocks` blocks.
fn kernel(blocks: u64, rounds: i32, product: bool) -> Program {
    let mut b = Builder::new("steady");
    b.grid(&[blocks]).threads(2);
    b.options().num_workers = Some(1);
    b.options().check_limits = false; // products as small as the tiles
    let x = b.input("x_ref", DType::F32, &[N, N]);
    let o = b.output("o_ref", DType::F32, &[N, N]);
    let thread = b.thread_index();
    let allocs = vec![
        smem("x_smem", DType::F32, &[N, N]),
        smem("y_smem", DType::F32, &[N, N]),
        barrier("full", &[1], 1),
        barrier("empty", &[1], 1),
    ];
    b.scope(allocs, |b, refs| {
        let [tile, out] = [refs[0], refs[1]];
        let [full, empty] = [refs[2], refs[3]].map(|r| b.view(r, &[Dim::At(0)]));
        b.switch(thread, 2, |b, branch| {
            b.repeat(rounds, |b, _| {
                if branch == 0 {
                    b.tma_load(x, tile, full);
                    b.barrier_wait(empty);
                    return;
                }
                b.barrier_wait(full);
                b.thread_scope(vec![accumulator("acc", DType::F32, [N, N])], |b, acc| {
                    if product {
                        b.wgmma(acc[0], tile, tile);
                    }
                    let product = b.accumulator_load(acc[0], Some(0));
                    let loaded = b.load(tile);
                    let max = b.reduce(ReduceKind::Max, product, &[1]);
                    let max = b.broadcast(max, &[N, N], &[0]);
                    let shifted = b.binary(BinaryKind::Sub, product, max);
                    let exp = b.unary(UnaryKind::Exp, shifted);
                    let sum = b.add(exp, loaded);
                    b.store(out, sum);
                    Vec::new()
                });
                b.barrier_arrive(empty);
                b.tma_store(out, o);
                b.wait_stores(0);
            });
            Vec::new()
        });
        Vec::new()
    });
    b.finish()
}

/// Allocations of a call that is not the first.
fn allocations(program: &Program) -> u64 {
    let executable = Executable::new(program.clone());
    let operands = [Array(DType::F32, vec![0; N * N * 4])];
    call(&executable, program, &operands, &NoHost).ok();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    call(&executable, program, &operands, &NoHost).ok();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn rounds_do_not_allocate() {
    let short = allocations(&kernel(2, 3, false));
    assert_eq!(allocations(&kernel(2, 300, false)), short);
    // The gemm crate packs the right operand of each product into a buffer of its own.
    let products = allocations(&kernel(2, 300, true)) - allocations(&kernel(2, 3, true));
    assert!(products <= 2 * 297, "{products} allocations in 594 more rounds");
}
