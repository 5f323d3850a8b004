//! What can stop a run that is no rule of the hardware.

super::rules! { RUN:
    CHECK Error Always KernelError = "a check of the kernel's author failed",
        "`pl.debug_check`, `checkify`",
        "The kernel itself said what must hold, and it did not. The text is the author's.",
        "" => "";
    HOST Error Always KernelError = "the host could not do what an op asked for",
        "design choice",
        "A callback raised an exception, or a computation that is left to XLA failed.",
        "" => "";
    MEMORY Error Always ResourceError = "this machine has not enough memory",
        "design choice",
        "The buffers of the kernel do not fit into the memory of the computer that simulates it.",
        "plgpu.SMEM((1 << 40,), jnp.float32)   # limits=\"ignore\"" =>
        "plgpu.SMEM((1 << 10,), jnp.float32)";
    INTERRUPTED Error Always KernelError = "the run was interrupted",
        "design choice",
        "The user pressed Ctrl-C. Nothing is wrong with the kernel, and the next call starts afresh.",
        "" => "";
    UNSUPPORTED Error Always UnsupportedError = "something is not supported",
        "design choice",
        "The kernel uses something that is not simulated. It is refused rather than left out.",
        "plgpu.inline_mgpu(...)(custom)   # a body that is not known" =>
        "y = jnp.exp(x)";
    BUG Error Always InternalError = "a bug in `pallas_rs`",
        "design choice",
        "The machine noticed that it is in a state which cannot be. Please report it, with the kernel if you can.",
        "plgpu.kernel(body)               # any kernel" =>
        "plgpu.kernel(body)               # the same one, after an update";
}
