//! Arithmetic without a result, results that depend on the schedule, and lints.

super::rules! { NUMERICS:
    J1 Warning Always KernelError = "a number became infinite or NaN",
        "IEEE 754",
        "Only looked for with `explain_nan=True`: if a result is not finite, the first op that made such a number from finite ones is named, with the element and its operands.",
        "o_ref[...] = jnp.log(x)          # of -1" =>
        "o_ref[...] = jnp.log(jnp.maximum(x, tiny))";
    J2 Error Always ArithmeticFaultError = "an integer is divided by zero",
        "PTX 9.7.1 (div: undefined)",
        "A GPU gives an unspecified value. The line and, for arrays, the element are named.",
        "y = n // d                       # d is 0" =>
        "y = n // jnp.maximum(d, 1)";
    J3 Warning Never ArithmeticFaultError = "index arithmetic overflows",
        "XLA (int32 wraps)",
        "Wrapped indices leave their array and are reported as PRS-H1 there; wrapping alone is defined.",
        "" => "";
    J4 Warning Seeds RaceError = "the order of a floating point sum is open",
        "IEEE 754 (addition is not associative)",
        "Atomic additions and TMA reductions add in the order of arrival. Where only that differs between schedules, PRS-K1 is a warning and says so.",
        "plgpu.atomic_add(o_ref, 0, x)    # from several threads" =>
        "o_ref[thread] = x                # summed in a fixed order later";
    K1 Error Seeds RaceError = "two schedules give different results",
        "design choice",
        "With `seeds=N` the call runs under N schedules. The report names the output, the first element that differs, and two seeds that show it.",
        "y = smem[...]                    # before the wait that makes it safe" =>
        "plgpu.barrier_wait(ready)\ny = smem[...]";
    K2 Error Never InternalError = "the simulator is not deterministic",
        "design choice",
        "A run is a function of the program, its inputs and its options; tests check it.",
        "" => "";
    L1 Lint Never KernelError = "memory that is written and never read",
        "design choice",
        "Code that does no harm is left to code review.",
        "" => "";
    L2 Warning Races KernelError = "a semaphore is not zero at the end",
        "Pallas semaphores",
        "Semaphores of a scope or of the grid begin at zero and have to end so, or the next kernel starts with their value. Those that the caller passes are the caller's.",
        "pl.semaphore_signal(sem, 2)\npl.semaphore_wait(sem, 1)" =>
        "pl.semaphore_signal(sem, 2)\npl.semaphore_wait(sem, 2)";
    L3 Lint Never KernelError = "a synchronisation that is never the only one",
        "design choice",
        "Whether it is needed on other inputs cannot be told from one run.",
        "" => "";
    L4 Warning Always KernelError = "something was left out of the run",
        "design choice",
        "Code that was skipped on request (`inline_mgpu=\"ignore\"`) makes the verdict `incomplete`.",
        "pallas_rs.Params(inline_mgpu=\"ignore\")" =>
        "pallas_rs.Params()";
}
