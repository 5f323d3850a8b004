//! Memory that is gone, and memory that nobody has written.

super::rules! { MEMORY_RULES:
    F1 Error Always RaceError = "a block ends while another block may still access its memory",
        "CUDA guide (distributed shared memory); PTX 9.7.13.3",
        "SMEM and barriers of a block are valid while it runs. Before it ends, some thread of it has to know that all accesses of its peers are over: a last cluster barrier.",
        "plgpu.async_store_smem(x, peer_smem, barrier)   # the peer ends without a wait" =>
        "plgpu.async_store_smem(x, peer_smem, barrier)\nplgpu.barrier_wait(barrier)                      # in the peer";
    F2 Error Never RaceError = "a block starts later than its peers expect",
        "Mosaic GPU lowering (cluster barrier in the prologue)",
        "The lowering of Pallas synchronises the blocks of a cluster before the kernel begins, and the machine starts them together, so no run can break this rule.",
        "" => "";
    F3 Error Races RaceError = "TMEM is freed while an operation on it is in flight",
        "PTX 9.7.16.7.1",
        "The end of a scope frees its tensor memory. Reported as PRS-C15, with the operation.",
        "plgpu.tcgen05_mma(acc, a, b, barrier=done)      # the scope of acc ends" =>
        "plgpu.tcgen05_mma(acc, a, b, barrier=done)\nplgpu.barrier_wait(done)";
    F4 Error Always DeadlockError = "a cluster barrier waits for a thread that has ended",
        "PTX 9.7.13.3",
        "Threads that have ended do not arrive on an mbarrier, unlike on the hardware's own cluster barrier. Reported as PRS-E1 with the threads that have ended.",
        "@pl.when(block == 0)\ndef _():\n  plgpu.barrier_arrive(cluster_barrier)\nplgpu.barrier_wait(cluster_barrier)" =>
        "plgpu.barrier_arrive(cluster_barrier)\nplgpu.barrier_wait(cluster_barrier)";
    G1 Error Uninitialized UninitializedReadError = "a value that nobody wrote is used",
        "PTX 8.2.6",
        "An element of SMEM, TMEM, an accumulator or an output was read before it was written, and the value decides an index, a branch or a bound, or reaches an output. Reading a whole tile of which only the written part is used is fine: what counts is the use.",
        "y = smem[...]                    # nothing was written\no_ref[...] = y" =>
        "smem[...] = x\ny = smem[...]\no_ref[...] = y";
    G2 Error Uninitialized UninitializedReadError = "a product accumulates on memory that nobody wrote",
        "PTX 9.7.16.10",
        "`accumulate=True` on fresh TMEM adds to garbage. Reported as PRS-G1 where the sum is used, with the allocation.",
        "plgpu.tcgen05_mma(acc, a, b, barrier=done, accumulate=True)   # first product" =>
        "plgpu.tcgen05_mma(acc, a, b, barrier=done, accumulate=k > 0)";
    G3 Warning Uninitialized UninitializedReadError = "elements of an output that nobody wrote",
        "Pallas (outputs start undefined)",
        "The output holds whatever was in memory. The report gives how many elements, the first one, and the smallest box around them.",
        "o_ref[pl.ds(0, 64)] = x          # of 128 elements" =>
        "o_ref[pl.ds(0, 128)] = x";
    G4 Error Uninitialized UninitializedReadError = "the part of a window outside its array is used",
        "Pallas `OOBFillMode.UNDEFINED`; block specs at the edge",
        "The part of a block past the edge of its array, and what a copy with `OOBFillMode.UNDEFINED` could not read, is unwritten memory. Reported as PRS-G1.",
        "o_ref[...] = jnp.sum(x_ref[...])                       # last block sticks out" =>
        "o_ref[...] = jnp.sum(jnp.where(index < n, x_ref[...], 0))";
    G5 Warning Never UninitializedReadError = "a result depends on what memory held before",
        "PTX 8.2.6",
        "Follows from PRS-G1, which tracks every element; no second run with other contents is needed.",
        "" => "";
}
