//! The protocol of barriers.

super::rules! { BARRIERS:
    D1 Error Always BarrierError = "an arrival does not come after a wait for the phase before it",
        "PTX 9.7.13.15.4",
        "For each phase of a barrier somebody has to observe its completion before anyone arrives on the next one. With `detect_races=True` this is checked as an order that holds in every schedule; without, when a phase completes that nobody could observe.",
        "plgpu.barrier_arrive(barrier)\nplgpu.barrier_arrive(barrier)   # next phase, nobody waited" =>
        "plgpu.barrier_arrive(barrier)\nplgpu.barrier_wait(barrier)\nplgpu.barrier_arrive(barrier)\nplgpu.barrier_wait(barrier)";
    D2 Error Always BarrierError = "a phase can complete before a waiting thread has seen the one before",
        "PTX 9.7.13.15.4; Pallas reference (every completion has to be observed)",
        "Hardware tells phases apart by one bit. A thread that waits on a barrier has to observe every phase of it, and the next phase may not complete before it has.",
        "plgpu.barrier_wait(full)        # thread 1, but the producer does not wait for it" =>
        "plgpu.barrier_wait(full)        # thread 1\nplgpu.barrier_arrive(empty)     # the producer waits for `empty` before the next phase";
    D3 Error Always BarrierError = "a thread waits for a phase that hardware cannot tell from another",
        "PTX 9.7.13.15.16",
        "A wait is defined for the current phase and the one before. A thread that is two or more phases behind would block, or pass because of the wrong phase.",
        "for _ in range(2):\n  plgpu.barrier_arrive(barrier)  # thread 0\nplgpu.barrier_wait(barrier)      # thread 1, first wait" =>
        "for _ in range(2):\n  plgpu.barrier_arrive(barrier)  # thread 0\n  plgpu.barrier_wait(barrier)    # both threads";
    D4 Error Always BarrierError = "more arrivals than a phase has room for",
        "PTX 9.7.13.15.2",
        "An arrival while the phase only waits for bytes of copies: in which phase it counts depends on the speed of the copies.",
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)\nplgpu.barrier_arrive(ready)      # num_arrivals=1" =>
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)\nplgpu.barrier_arrive(ready)      # num_arrivals=2";
    D5 Error Never BarrierError = "bytes of copies that no phase can count",
        "PTX 9.7.13.15.2",
        "Pallas computes how many bytes a copy announces, and SMEM is smaller than the counter, so it cannot be broken from Pallas. A collective copy that not every block issues is PRS-D13.",
        "" => "";
    D6 Error Always BarrierError = "a wait on the barrier of another block",
        "PTX 9.7.13.15.8",
        "Other blocks of a cluster may arrive on a barrier, but only its own block can wait on it.",
        "plgpu.barrier_wait(plgpu.remote_ref(barrier, peer))" =>
        "plgpu.barrier_wait(barrier)";
    D7 Error Always BarrierError = "the warps of a warpgroup wait unevenly",
        "Pallas Mosaic GPU reference",
        "A Pallas thread is a warpgroup. When it goes on as a whole after code of single warps, all its warps have to have observed the same phases of a barrier.",
        "if warp == 0:\n  plgpu.barrier_wait(barrier)" =>
        "plgpu.barrier_wait(barrier)";
    D8 Error Always BarrierError = "the scope of a barrier ends in the middle of a phase",
        "Mosaic GPU lowering (a barrier is handed to the next scope as it is)",
        "The next scope gets the same barrier without a new start: pending arrivals, or a completion that nobody observed, belong to its first phase.",
        "plgpu.barrier_arrive(barrier)    # num_arrivals=2, then the scope ends" =>
        "plgpu.barrier_arrive(barrier)\nplgpu.barrier_arrive(barrier)\nplgpu.barrier_wait(barrier)";
    D9 Lint Lints BarrierError = "a phase that nobody observes",
        "Pallas Mosaic GPU reference",
        "The last phase of a barrier completes and nobody waits for it. The last release of a pipeline slot is like that and does no harm, so it is a lint; elsewhere a wait may have been forgotten. It is an error only in the middle of a phase: PRS-D8.",
        "plgpu.barrier_arrive(done)       # last use" =>
        "plgpu.barrier_arrive(done)\nplgpu.barrier_wait(done)";
    D10 Error Lowering BarrierError = "a barrier is used after its scope",
        "Pallas `run_scoped`",
        "JAX refuses a ref that leaves its scope while the kernel is traced.",
        "return barrier                   # from the body of run_scoped" =>
        "plgpu.barrier_wait(barrier)      # inside the body";
    D11 Error Always BarrierError = "a barrier index is out of range",
        "Pallas indexing",
        "JAX clamps an index, so the op would act on another barrier than the one that was meant.",
        "plgpu.barrier_wait(barriers.at[2])   # of 2 barriers" =>
        "plgpu.barrier_wait(barriers.at[1])";
    D12 Error Always BarrierError = "threads give different counts for one named barrier",
        "PTX 9.7.13.1 (bar)",
        "Every participant of a named barrier has to name the same count, a multiple of 32.",
        "plgpu.barrier_arrive(named)      # of 256 threads, beside a sync of 128" =>
        "plgpu.barrier_arrive(named)      # of 256 threads, beside a sync of 256";
    D13 Error Always DeadlockError = "a collective copy that not every block issues",
        "Pallas `copy_gmem_to_smem(collective_axes=...)`",
        "Each block of the axis has to issue the copy; until then its barrier does not complete. Reported with the deadlock that follows from it, or when a block ends without it.",
        "@pl.when(block == 0)\ndef _():\n  plgpu.copy_gmem_to_smem(x_ref, smem, ready, collective_axes=\"x\")" =>
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready, collective_axes=\"x\")";
    D14 Error Always BarrierError = "an arrival on a barrier of a block that has ended",
        "PTX 9.7.13.15.8; CUDA guide (distributed shared memory)",
        "The barrier belongs to the SMEM of the other block, which may be gone.",
        "plgpu.barrier_arrive(cluster_barrier)    # the peer does not wait" =>
        "plgpu.barrier_arrive(cluster_barrier)\nplgpu.barrier_wait(cluster_barrier)      # in both blocks";
    D15 Error Races BarrierError = "arrivals of copies and of products satisfy the wrong wait",
        "PTX 9.7.13.15.4",
        "A barrier that counts several kinds of arrivals may complete with the wrong ones. Reported as PRS-D1, PRS-D4 or as the race that follows.",
        "plgpu.copy_gmem_to_smem(x_ref, a, ready)\nplgpu.copy_gmem_to_smem(y_ref, b, ready)   # num_arrivals=1" =>
        "plgpu.copy_gmem_to_smem(x_ref, a, ready)\nplgpu.copy_gmem_to_smem(y_ref, b, ready)   # num_arrivals=2";
    D16 Error Lowering BarrierError = "a product arrives on a barrier that does not order the tensor core",
        "Pallas `tcgen05_mma`",
        "JAX refuses it while the kernel is traced.",
        "plgpu.tcgen05_mma(acc, a, b, barrier=plain)" =>
        "plgpu.tcgen05_mma(acc, a, b, barrier=orders_tensor_core)";
}
