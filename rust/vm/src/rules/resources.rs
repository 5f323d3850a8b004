//! What a device has, and what its instructions accept.

super::rules! { RESOURCES:
    I1 Error Limits ResourceError = "more SMEM than a block has",
        "CUDA guide (227 KiB on Hopper and Blackwell); Mosaic GPU (alignment of 1024 bytes)",
        "The sum of what is live at the same time, each allocation aligned as Mosaic GPU does, barriers included. The report lists the largest allocations.",
        "plgpu.SMEM((1024, 1024), jnp.float32)" =>
        "plgpu.SMEM((128, 128), jnp.float32)";
    I2 Error Limits ResourceError = "more TMEM than a block has",
        "PTX 9.7.16.1",
        "128 lanes of 512 columns of 32 bits, allocated in powers of two from 32 columns on.",
        "plgpu.TMEM((128, 1024), jnp.float32)" =>
        "plgpu.TMEM((128, 512), jnp.float32)";
    I3 Error Limits ResourceError = "a copy that TMA cannot do",
        "PTX 5.5.3.1, 9.7.9.27; Mosaic GPU lowering",
        "At most five dimensions, at most 256 elements per dimension of a box, rows of a multiple of 16 bytes, strides of a multiple of 16 bytes, an element type of the list.",
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)     # rows of 3 bytes" =>
        "plgpu.copy_gmem_to_smem(x_ref, smem, ready)     # rows of 16 bytes";
    I4 Error Limits ResourceError = "a product that the tensor core cannot do",
        "PTX 9.7.15.2, 9.7.16.2",
        "wgmma: M a multiple of 64, N a multiple of 8 up to 256, operand types of the table, 32-bit or f16 accumulators. tcgen05: M of 64, 128 or 256, N a multiple of 8 up to 512. Each needs its generation of device.",
        "plgpu.wgmma(acc, a, b)           # acc of shape (8, 8)" =>
        "plgpu.wgmma(acc, a, b)           # acc of shape (64, 8)";
    I5 Error Limits ResourceError = "more barriers, or arrivals, than there are",
        "PTX 9.7.13.15.2; Mosaic GPU (32 barriers per allocation)",
        "At most 32 barriers in one allocation, and arrivals that fit the counter: 8191, since each Pallas thread arrives with 128 lanes.",
        "plgpu.Barrier(num_barriers=40)" =>
        "plgpu.Barrier(num_barriers=32)";
    I6 Error Limits ResourceError = "more threads than a block has",
        "CUDA guide (1024 threads per block)",
        "A Pallas thread is a warpgroup of 128 CUDA threads, so there are at most 8.",
        "plgpu.kernel(body, num_threads=9, thread_name=\"wg\")" =>
        "plgpu.kernel(body, num_threads=8, thread_name=\"wg\")";
    I7 Error Limits ResourceError = "a grid or cluster that a device cannot launch",
        "CUDA guide (thread block clusters, grid dimensions)",
        "At most 16 blocks in a cluster, and 8 unless the kernel opts in to more; grid bounds from 0 to 2147483647.",
        "plgpu.kernel(body, grid=(32,), cluster=(32,))" =>
        "plgpu.kernel(body, grid=(32,), cluster=(8,))";
    I8 Lint Never ResourceError = "a thread that holds more than its registers",
        "CUDA guide (255 registers per thread)",
        "What the compiler keeps in registers cannot be known here.",
        "" => "";
    I9 Error Never ResourceError = "`set_max_registers` out of range",
        "PTX 9.7.20 (setmaxnreg)",
        "JAX checks the number while the kernel is traced; it has no effect on a CPU.",
        "" => "";
    I10 Error Lowering ResourceError = "a wait for a negative number of groups",
        "PTX 9.7.9.27.2",
        "The number of groups that may stay in flight is a constant from 0 on; JAX checks it while the kernel is traced.",
        "plgpu.wgmma_wait(-1)" =>
        "plgpu.wgmma_wait(0)";
}
