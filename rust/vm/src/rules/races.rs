//! Two accesses to the same memory, at least one a write, without an order.

super::rules! { RACES:
    A1 Error Races RaceError = "two threads of a block race on SMEM",
        "PTX 8.7.1",
        "Two warpgroups touch the same bytes of SMEM, one of them writes, and no chain of arrivals and waits leads from one to the other. Which value is read, or stays, depends on the speed of the two. The check is happens-before, so it does not need the bad moment to occur.",
        "smem[...] = x                  # thread 0\ny = smem[...]                  # thread 1" =>
        "smem[...] = x                  # thread 0\nplgpu.barrier_arrive(ready)    # thread 0\nplgpu.barrier_wait(ready)      # thread 1\ny = smem[...]                  # thread 1";
    A2 Error Races RaceError = "two blocks of a cluster race on SMEM",
        "PTX 8.7.1, 9.7.13.15.8",
        "A block writes to, or reads from, the SMEM of another block of its cluster without an order between them: a store through a cluster ref, a multicast copy, a copy of the owner. A multicast copy publishes itself in every block, but not what its issuer did before.",
        "plgpu.async_store_smem(x, peer_smem, barrier)\ny = smem[...]                  # in the peer, without a wait" =>
        "plgpu.async_store_smem(x, peer_smem, barrier)\nplgpu.barrier_wait(barrier)    # in the peer\ny = smem[...]";
    A3 Error Races RaceError = "two accesses race on TMEM",
        "PTX 9.7.16.6",
        "Loads, stores and products on tensor memory are asynchronous: another thread may touch what they touch only after their completion has reached it through a barrier that orders the tensor core.",
        "plgpu.async_store_tmem(acc, x)            # thread 0\ny = plgpu.async_load_tmem(acc)            # thread 1" =>
        "plgpu.async_store_tmem(acc, x)            # thread 0\nplgpu.commit_tmem()\nplgpu.barrier_arrive(stored)              # orders_tensor_core=True\nplgpu.barrier_wait(stored)                # thread 1\ny = plgpu.async_load_tmem(acc)";
    A4 Error Races RaceError = "two threads of a cluster race on GMEM",
        "PTX 8.7.1",
        "As in SMEM, but the array is an argument or GMEM scratch.",
        "o_ref[0] = x                   # thread 0\ny = o_ref[0]                   # thread 1" =>
        "o_ref[0] = x                   # thread 0\nplgpu.barrier_arrive(ready)\nplgpu.barrier_wait(ready)      # thread 1\ny = o_ref[0]";
    A5 Error Races RaceError = "different grid points race on GMEM",
        "PTX 8.7.1; Pallas Mosaic GPU reference (order of blocks)",
        "Two grid points touch the same element of an array and one of them writes. A GPU runs grid points at the same time and in any order; only semaphores order them. A race in every schedule, found in any. Dimensions of a `pl.pallas_call` grid that are declared sequential are run in order by one block and do not race.",
        "o_ref[0] = x[pl.program_id(0)]                 # every grid point writes element 0" =>
        "o_ref[pl.program_id(0)] = x[pl.program_id(0)]";
    A6 Error Never RaceError = "two devices race",
        "PTX 8.5 (scope .sys)",
        "Remote refs and multicast refs across devices are refused when the kernel is lowered, so no run can break this rule.",
        "" => "";
    A7 Error Races RaceError = "an atomic operation and a plain access race",
        "PTX 8.7 (morally strong)",
        "Atomic operations on one element are ordered with each other, but not with plain loads and stores, and a TMA reduction not with the atomic operations of threads.",
        "plgpu.atomic_add(o_ref, 0, x)  # thread 0\no_ref[0] = y                   # thread 1" =>
        "plgpu.atomic_add(o_ref, 0, x)  # thread 0\nplgpu.atomic_add(o_ref, 0, y)  # thread 1";
    A8 Error Races RaceError = "members of a `RefUnion` are used at the same time",
        "Pallas Mosaic GPU reference (RefUnion)",
        "The members of a union are the same bytes. A write through one ends the life of what was written through another, and needs the same order as two accesses to one array.",
        "a_ref[...] = x                 # thread 0\nb_ref[...] = y                 # thread 1, in the same union" =>
        "a_ref[...] = x                 # thread 0\nplgpu.barrier_arrive(done)\nplgpu.barrier_wait(done)       # thread 1\nb_ref[...] = y";
    A9 Error Races RaceError = "threads race to write the same value",
        "PTX 8.7.1",
        "All sides write the same bits. The result is the same on hardware that exists, yet it is a race by the rules: it is reported under the code of the race, with `same_value` set, so that it can be told apart or suppressed.",
        "smem[0] = 1.0                  # both threads" =>
        "@pl.when(thread == 0)\ndef _():\n  smem[0] = 1.0";
}
