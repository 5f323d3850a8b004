//! What CUDA threads of an `inline_mgpu` body can do wrong.

super::rules! { INLINE:
    N1 Error Always OutOfBoundsError = "an inline body leaves its ref",
        "PTX 8.2; MLIR `memref.load`",
        "Every index of a load, store or window in a body, and every byte it reaches through a pointer, is checked in each thread: outside the ref, and in the padding between its rows, there is no element.",
        "memref.store(v, ref, [row])                            # any row" =>
        "with when(arith.cmpi(ult, row, c(rows))):\n  memref.store(v, ref, [row])";
    N2 Error Always OutOfBoundsError = "an access of an inline body is misaligned",
        "PTX 6.4.1.1",
        "Vector accesses through pointers and rows of matrices need addresses that are multiples of their size, counted in the tiled, swizzled ref.",
        "llvm.load(vector_of_4_f32, pointer_to_element_2)" =>
        "llvm.load(vector_of_4_f32, pointer_to_element_4)";
    N3 Error Always BarrierError = "part of a warp reaches an instruction that needs all of it",
        "PTX 9.7.13.1, 9.7.9.6, 9.7.13.6",
        "Barriers, shuffles, votes and matrix loads are executed by whole warps. In a branch that only some threads of a warp take, they are undefined; so is a barrier whose number differs between the threads.",
        "with when(thread < 40):\n  warpgroup_barrier()" =>
        "with when(thread < 40):\n  ...\nwarpgroup_barrier()";
    N4 Error Always KernelError = "CUDA threads disagree on what an inline body returns",
        "Mosaic GPU `FragmentedArray`",
        "A scalar stands for one value of the whole warpgroup, and a layout may give several threads the same element. Both must be the same in every thread that holds them.",
        "return FragmentedArray.splat(vote_of_my_warp, ())" =>
        "return vote_per_row                                    # a layout with an element per warp";
    N5 Error Races RaceError = "two CUDA threads of one thread race in an inline body",
        "PTX 8.7",
        "The threads of a warpgroup are ordered with each other by barriers alone. A store and another access of the same element by another thread, without `bar.sync` of both in between, is a race, unless the store changes nothing.",
        "x.store_untiled(smem)\ny = FragmentedArray.load_untiled(smem, layout=other)" =>
        "x.store_untiled(smem)\nwarpgroup_barrier()\ny = FragmentedArray.load_untiled(smem, layout=other)";
}
