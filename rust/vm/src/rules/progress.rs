//! Runs that do not end.

super::rules! { PROGRESS:
    E1 Error Always DeadlockError = "threads wait for something that nobody is left to do",
        "PTX 9.7.13.15",
        "No thread can go on and nothing is in flight. The report lists every thread of the stuck clusters: its line, the barrier and phase it waits for, arrivals there and needed.",
        "plgpu.barrier_wait(ready)        # nobody arrives" =>
        "plgpu.barrier_arrive(ready)\nplgpu.barrier_wait(ready)";
    E2 Error Always DeadlockError = "a loop does not end",
        "design choice (`max_steps`)",
        "A thread made so many rounds of loops without a known end that it is taken for endless. The number counts rounds, not time.",
        "jax.lax.while_loop(lambda i: i >= 0, lambda i: i + 0, 0)" =>
        "jax.lax.while_loop(lambda i: i > 0, lambda i: i - 1, 8)";
    E3 Error Always DeadlockError = "a semaphore never reaches its value",
        "Pallas `semaphore_wait`",
        "A deadlock whose report names the semaphore, its value and the value that is waited for.",
        "pl.semaphore_wait(sem, 2)        # signalled once" =>
        "pl.semaphore_signal(sem, 1)\npl.semaphore_signal(sem, 1)\npl.semaphore_wait(sem, 2)";
    E4 Error Always DeadlockError = "clusters wait for clusters that cannot be resident at the same time",
        "Pallas Mosaic GPU reference (order of blocks)",
        "A device holds only so many clusters (`resident_clusters`), and starts them in any order. Clusters that wait for one that has not been started never make room for it.",
        "pl.semaphore_wait(sem, value=num_blocks)   # a grid larger than the device" =>
        "pl.semaphore_wait(sem, value=num_blocks)   # grid = blocks that are resident at once";
    E5 Error Always DeadlockError = "producer and consumer count differently",
        "Pallas pipelines",
        "Trip counts differ, for example where a sequence is empty: one side waits for a phase that the other never completes. Reported as PRS-E1, PRS-D8 or PRS-D4, with both lines.",
        "for k in range(K): plgpu.barrier_arrive(full)     # producer\nfor k in range(K + 1): plgpu.barrier_wait(full)   # consumer" =>
        "for k in range(K): plgpu.barrier_arrive(full)     # producer\nfor k in range(K): plgpu.barrier_wait(full)       # consumer";
    E6 Error Always DeadlockError = "threads of a block enter different collective scopes",
        "Pallas Mosaic GPU `run_scoped(collective_axes=...)`",
        "The k-th collective scope that each thread of a block enters is the same one: one memory, and a barrier of the block at its entry.",
        "@pl.when(wg == 0)\ndef _():\n  pl.run_scoped(left, plgpu.SMEM((64,), jnp.float32), collective_axes=\"wg\")\n@pl.when(wg == 1)\ndef _():\n  pl.run_scoped(right, plgpu.SMEM((8,), jnp.int32), collective_axes=\"wg\")" =>
        "pl.run_scoped(both, plgpu.SMEM((64,), jnp.float32), plgpu.SMEM((8,), jnp.int32), collective_axes=\"wg\")";
}
