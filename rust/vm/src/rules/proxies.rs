//! Generic accesses beside those of asynchronous engines: fences.

super::rules! { PROXIES:
    B1 Error Races RaceError = "an engine reads SMEM before a write is visible to it",
        "PTX 8.6, 9.7.13.4, 9.7.15.7",
        "TMA and tensor cores see SMEM through the async proxy, loads and stores of threads through the generic one. Order alone does not make a store visible: a fence between the two has to follow the write, in a thread that knows of it.",
        "smem[...] = x\nplgpu.copy_smem_to_gmem(smem, o_ref)" =>
        "smem[...] = x\nplgpu.commit_smem()\nplgpu.copy_smem_to_gmem(smem, o_ref)";
    B2 Warning Races RaceError = "an engine overwrites SMEM after a read without a fence",
        "PTX 8.6, 8.9.5",
        "The letter of the memory model asks for a fence between a generic read and a copy that refills the buffer. Hardware rarely shows the difference, since the value has usually reached a register, and JAX's own pipelines leave it out, so it is a warning unless `strict_proxy=True`. Where the refill comes from a pipeline of JAX, `commit_smem()` at the end of the body is the remedy.",
        "y = smem[...]\nplgpu.barrier_arrive(free)      # the producer waits for it, then refills" =>
        "y = smem[...]\nplgpu.commit_smem()\nplgpu.barrier_arrive(free)";
    B3 Error Races RaceError = "an engine overwrites SMEM before an earlier write is visible to it",
        "PTX 8.6, 9.7.13.4",
        "A store that is not visible to the async proxy may land after the copy that should replace it.",
        "smem[...] = zeros\nplgpu.copy_gmem_to_smem(x_ref, smem, ready)" =>
        "smem[...] = zeros\nplgpu.commit_smem()\nplgpu.copy_gmem_to_smem(x_ref, smem, ready)";
    B4 Warning Races RaceError = "a TMA load reads what the same kernel wrote with stores",
        "PTX 8.6 (fence.proxy.async.global)",
        "It needs a proxy fence for GMEM, which Pallas does not expose. Write with a TMA store, or read in a second kernel. A warning unless `strict_proxy=True`.",
        "o_ref[...] = x\nplgpu.copy_gmem_to_smem(o_ref, smem, ready)" =>
        "smem[...] = x\nplgpu.commit_smem()\nplgpu.copy_smem_to_gmem(smem, o_ref)\nplgpu.wait_smem_to_gmem(0)\nplgpu.copy_gmem_to_smem(o_ref, smem, ready)";
    B5 Lint Never RaceError = "a fence in the other block of a cluster",
        "PTX 8.9.5 (no clause for fences across CTAs)",
        "Between blocks the documents do not say on which side the fence has to be. A fence on either side is accepted.",
        "" => "";
    B6 Error Races RaceError = "a fence by a thread that does not know the write",
        "PTX 8.6",
        "A fence makes visible what the fencing thread knows: its own accesses, and those it has waited for. A fence before the wait, or in an unrelated thread, covers nothing. Reported as PRS-B1 or PRS-B3, with the line of the write.",
        "plgpu.commit_smem()             # thread 1: before it waits\nplgpu.barrier_wait(written)\nplgpu.copy_smem_to_gmem(smem, o_ref)" =>
        "plgpu.barrier_wait(written)\nplgpu.commit_smem()             # thread 1: what it has waited for\nplgpu.copy_smem_to_gmem(smem, o_ref)";
    B7 Lint Never RaceError = "a fence that orders nothing",
        "design choice",
        "A `commit_smem` that no pair of accesses needs costs time on a GPU. Whether a fence is needed on other inputs cannot be told from one run, so it is not reported.",
        "" => "";
}
