//! Asynchronous operations: what may be touched before they are complete.

super::rules! { COMPLETION:
    C1 Error Races RaceError = "data of a copy is used before the copy has completed",
        "PTX 9.7.9.25, 9.7.13.15",
        "The bytes of a TMA load are there after a wait on its barrier, those of a cp.async after `wait_gmem_to_smem`. Until then the buffer holds anything.",
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)\ny = smem[...]" =>
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)\nplgpu.barrier_wait(ready)\ny = smem[...]";
    C2 Error Races RaceError = "the target of a copy is overwritten while the copy is in flight",
        "PTX 9.7.9.25",
        "A second copy into the buffer, or a store, before the first copy has completed: either may win.",
        "plgpu.copy_gmem_to_smem(x_ref.at[0], smem, ready)\nplgpu.copy_gmem_to_smem(x_ref.at[1], smem, other)" =>
        "plgpu.copy_gmem_to_smem(x_ref.at[0], smem, ready)\nplgpu.barrier_wait(ready)\nplgpu.copy_gmem_to_smem(x_ref.at[1], smem, other)";
    C3 Error Races RaceError = "SMEM is overwritten while a TMA store still reads it",
        "PTX 9.7.9.27.2",
        "A TMA store reads its source some time after it was issued. `wait_smem_to_gmem(n, wait_read_only=True)` waits until all but the newest n groups have been read.",
        "plgpu.copy_smem_to_gmem(smem, o_ref)\nsmem[...] = y" =>
        "plgpu.copy_smem_to_gmem(smem, o_ref)\nplgpu.wait_smem_to_gmem(0, wait_read_only=True)\nsmem[...] = y";
    C4 Error Races RaceError = "GMEM is accessed while a TMA store to it is in flight",
        "PTX 9.7.9.27.2",
        "`wait_read_only` waits for the source only; whoever reads the target needs `wait_smem_to_gmem` without it.",
        "plgpu.copy_smem_to_gmem(smem, o_ref)\nplgpu.wait_smem_to_gmem(0, wait_read_only=True)\ny = o_ref[...]" =>
        "plgpu.copy_smem_to_gmem(smem, o_ref)\nplgpu.wait_smem_to_gmem(0)\ny = o_ref[...]";
    C5 Error Races RaceError = "a wait does not cover a TMA store whose group is not committed",
        "PTX 9.7.9.27.2",
        "A store with `commit_group=False` belongs to no group until the next commit, and no wait covers it before.",
        "plgpu.copy_smem_to_gmem(smem, o_ref, commit_group=False)\nplgpu.wait_smem_to_gmem(0)\nsmem[...] = y" =>
        "plgpu.copy_smem_to_gmem(smem, o_ref, commit_group=False)\nplgpu.commit_smem_to_gmem_group()\nplgpu.wait_smem_to_gmem(0)\nsmem[...] = y";
    C6 Error Races RaceError = "a wait by another thread than the one that issued the copy",
        "PTX 9.7.9.27.2 (groups are per thread)",
        "`wait_smem_to_gmem`, `wgmma_wait` and `wait_gmem_to_smem` wait for what the same warpgroup has issued. Reported under the code of the access that was not ordered, with the issuer named.",
        "plgpu.copy_smem_to_gmem(smem, o_ref)   # thread 0\nplgpu.wait_smem_to_gmem(0)             # thread 1\nsmem[...] = y                          # thread 1" =>
        "plgpu.copy_smem_to_gmem(smem, o_ref)   # thread 0\nplgpu.wait_smem_to_gmem(0)             # thread 0\nplgpu.barrier_arrive(stored)           # thread 0\nplgpu.barrier_wait(stored)             # thread 1\nsmem[...] = y                          # thread 1";
    C7 Error Races RaceError = "SMEM is overwritten while a tensor core still reads it",
        "PTX 9.7.15.7",
        "The operands of a product are read some time after it was issued. `wgmma_wait(n)` waits for all but the newest n products of the thread; for tcgen05, the barrier of the product does.",
        "plgpu.wgmma(acc, a_smem, b_smem)\nplgpu.barrier_arrive(free)      # the producer refills a_smem" =>
        "plgpu.wgmma(acc, a_smem, b_smem)\nplgpu.wgmma_wait(0)\nplgpu.barrier_arrive(free)";
    C8 Error Races RaceError = "an accumulator is accessed while a product is in flight",
        "PTX 9.7.15.7.3",
        "Registers of a wgmma accumulator may be touched only after a wait that covers every product on it.",
        "plgpu.wgmma(acc, a, b)\ny = plgpu.wgmma_accumulator_deref(acc, wait_n=None)" =>
        "plgpu.wgmma(acc, a, b)\ny = acc[...]                    # waits for all products";
    C9 Error Races RaceError = "a product is taken to wait for the earlier ones",
        "Pallas lowering of `wgmma` (commit_group without wait_group)",
        "A sentence of the reference manual says that each `wgmma` synchronises with all previous ones. The instructions it becomes do not. The run's values follow the sentence, since kernels rely on it; the detector follows the instructions, and reports PRS-C7 or PRS-C8.",
        "plgpu.wgmma(acc, a, b)\nplgpu.wgmma(acc, c, d)\na[...] = x" =>
        "plgpu.wgmma(acc, a, b)\nplgpu.wgmma(acc, c, d)\nplgpu.wgmma_wait(1)\na[...] = x";
    C10 Error Races RaceError = "two tcgen05 operations that are not pipelined need a completion between them",
        "PTX 9.7.16.6.2-4",
        "Only some pairs of tcgen05 operations execute in the order in which they were issued: products on the same accumulator, a copy into TMEM before a product. All others need the completion of the first.",
        "plgpu.tcgen05_mma(acc, a, b, barrier=done)\ny = plgpu.async_load_tmem(acc)" =>
        "plgpu.tcgen05_mma(acc, a, b, barrier=done)\nplgpu.barrier_wait(done)\ny = plgpu.async_load_tmem(acc)";
    C11 Error Races RaceError = "TMEM is reused before its own loads or stores have completed",
        "PTX 9.7.16.8 (tcgen05.wait)",
        "`async_store_tmem` is complete after `commit_tmem`, `async_load_tmem` after `wait_load_tmem`, both in the issuing thread.",
        "plgpu.async_store_tmem(acc, x)\nplgpu.tcgen05_mma(acc, a, b, barrier=done)" =>
        "plgpu.async_store_tmem(acc, x)\nplgpu.commit_tmem()\nplgpu.tcgen05_mma(acc, a, b, barrier=done)";
    C12 Error Races RaceError = "a tcgen05 commit by a thread that did not issue the operations",
        "PTX 9.7.16.12.1",
        "`tcgen05_commit_arrive` arrives when the operations of the committing thread are complete; those of others are not covered.",
        "plgpu.tcgen05_mma(acc, a, b)                    # thread 0\nplgpu.tcgen05_commit_arrive(done)               # thread 1" =>
        "plgpu.tcgen05_mma(acc, a, b)                    # thread 0\nplgpu.tcgen05_commit_arrive(done)               # thread 0";
    C13 Error Races RaceError = "TMEM is handed over through a barrier that does not order the tensor core",
        "PTX 9.7.16.6.4 (fence::before_thread_sync)",
        "Accesses of tensor cores are published only by barriers with `orders_tensor_core=True`.",
        "plgpu.Barrier(num_arrivals=1)" =>
        "plgpu.Barrier(num_arrivals=1, orders_tensor_core=True)";
    C14 Error Races RaceError = "a block ends with asynchronous work in flight",
        "PTX 9.7.9.25; CUDA guide (shared memory lifetime)",
        "The SMEM of a block is given to the next one when it ends. Some thread of the block has to know that every operation is complete; for TMA stores, that their sources have been read.",
        "plgpu.copy_smem_to_gmem(smem, o_ref)            # last op" =>
        "plgpu.copy_smem_to_gmem(smem, o_ref)\nplgpu.wait_smem_to_gmem(0, wait_read_only=True)";
    C15 Error Races RaceError = "the memory of a scope is used again while an operation on it is in flight",
        "Pallas `run_scoped`",
        "The memory of a scope is used again by the next one. Before that, some thread of the block has to know that every operation on it is complete.",
        "def body(smem):\n  plgpu.copy_smem_to_gmem(smem, o_ref)\npl.run_scoped(body, plgpu.SMEM((64,), jnp.float32))\npl.run_scoped(other, plgpu.SMEM((64,), jnp.float32))" =>
        "def body(smem):\n  plgpu.copy_smem_to_gmem(smem, o_ref)\n  plgpu.wait_smem_to_gmem(0, wait_read_only=True)\npl.run_scoped(body, plgpu.SMEM((64,), jnp.float32))\npl.run_scoped(other, plgpu.SMEM((64,), jnp.float32))";
    C16 Error Races RaceError = "the source of a copy is overwritten while the copy is in flight",
        "PTX 9.7.9.25",
        "A TMA load reads GMEM at any time between its issue and its completion.",
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)\nx_ref[...] = y" =>
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)\nplgpu.barrier_wait(ready)\nx_ref[...] = y";
    C17 Error Races RaceError = "the result of a cluster launch request is used before it is there",
        "PTX 9.7.13.17",
        "`try_cluster_cancel` writes its answer like a copy: it may be read, and its buffer used again, after a wait on its barrier.",
        "plgpu.try_cluster_cancel(result, barrier)\nplgpu.query_cluster_cancel(result, ...)" =>
        "plgpu.try_cluster_cancel(result, barrier)\nplgpu.barrier_wait(barrier)\nplgpu.query_cluster_cancel(result, ...)";
}
