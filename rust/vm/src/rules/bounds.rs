//! Accesses outside their array.

super::rules! { BOUNDS:
    H1 Error Always OutOfBoundsError = "an access leaves its array",
        "Pallas indexing",
        "A load, store or atomic operation of a thread outside the array it names. On a GPU it touches whatever lies there.",
        "y = x_ref[pl.ds(120, 16)]        # of 128 elements" =>
        "y = x_ref[pl.ds(112, 16)]";
    H2 Lint Never OutOfBoundsError = "a TMA load past the end of its array",
        "PTX 5.5.3.3",
        "Legal: the part outside is zero.",
        "" => "";
    H3 Lint Never OutOfBoundsError = "a TMA load that starts before its array",
        "PTX 5.5.3.3",
        "Legal: coordinates are signed, and only the part outside is zero.",
        "" => "";
    H4 Lint Never OutOfBoundsError = "a TMA store past the end of its array",
        "PTX 5.5.3.3",
        "Legal: the part outside is dropped.",
        "" => "";
    H5 Error Always OutOfBoundsError = "a TMA store that starts before its array",
        "PTX 9.7.9.27.1.1",
        "The start of a tensor store must not be negative.",
        "plgpu.copy_smem_to_gmem(smem, o_ref.at[pl.ds(-8, 64)])" =>
        "plgpu.copy_smem_to_gmem(smem, o_ref.at[pl.ds(0, 64)])";
    H6 Error Always OutOfBoundsError = "a copy that promised to stay in bounds leaves its array",
        "Pallas `OOBFillMode.PROMISE_IN_BOUNDS`",
        "With the promise the copy is not clamped: it reads whatever lies behind the array.",
        "plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(96, 64)], smem, ready, oob_mode=PROMISE_IN_BOUNDS)" =>
        "plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(96, 64)], smem, ready)";
    H7 Error Uninitialized UninitializedReadError = "a copy with undefined fill leaves its array, and the part is used",
        "Pallas `OOBFillMode.UNDEFINED`",
        "What lies outside is unwritten memory. Reported as PRS-G1 where it is used.",
        "plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(96, 64)], smem, ready, oob_mode=UNDEFINED)\nplgpu.barrier_wait(ready)\no_ref[...] = smem[...]" =>
        "plgpu.copy_gmem_to_smem(x_ref.at[pl.ds(96, 64)], smem, ready, oob_mode=UNDEFINED)\nplgpu.barrier_wait(ready)\no_ref[pl.ds(0, 32)] = smem[pl.ds(0, 32)]";
    H8 Error Always OutOfBoundsError = "an index array points outside its array",
        "Pallas indexing",
        "Each element of an index array is checked; the first one outside is named. Masked elements are not looked at.",
        "y = x_ref[indices]               # one index is 128, of 128 elements" =>
        "y = x_ref[jnp.minimum(indices, 127)]";
    H9 Error Always OutOfBoundsError = "a negative index that is known only at run time",
        "Pallas indexing (a GPU does not count from the end)",
        "JAX counts a negative index from the end of the array, for scalars also when it is known only at run time. In an index array no such rule holds on a GPU: the element before the array is touched. Scalars keep JAX's meaning.",
        "y = x_ref[indices]               # one index is -1" =>
        "y = x_ref[jnp.where(indices < 0, indices + n, indices)]";
    H10 Lint Never OutOfBoundsError = "a clamped index hides an access outside",
        "JAX `dynamic_slice`",
        "`dynamic_slice` on values clamps its start by definition, so the result is defined. Barrier indices, which JAX clamps too, are PRS-D11.",
        "" => "";
}
