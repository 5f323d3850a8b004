"""Primitives that are refused on purpose, each with its reason.

A reason completes the sentence "the primitive is not supported because ...".
"""

from __future__ import annotations

_TPU = "it is a TPU primitive; the machine models GPUs"
_EFFECT = "a kernel cannot reach the host's ordered effects"
_CLUSTER = "cluster launch control and stores into a peer's shared memory are not modelled"
_SEMAPHORE = "semaphores between blocks and devices are not modelled"
_DEVICES = "memory shared by several devices is not modelled"

UNSUPPORTED: dict[str, str] = {
    "infeed": _EFFECT,
    "outfeed": _EFFECT,
    "io_callback": _EFFECT,
    "dma_start": _TPU,
    "dma_wait": _TPU,
    "prng_seed": _TPU,
    "prng_random_bits": _TPU,
    "roll": _TPU,
    "tpu_roll": _TPU,
    "async_store_smem": _CLUSTER,
    "try_cluster_cancel": _CLUSTER,
    "query_cluster_cancel": _CLUSTER,
    "get_global": _SEMAPHORE,
    "semaphore_signal": _SEMAPHORE,
    "semaphore_wait": _SEMAPHORE,
    "semaphore_read": _SEMAPHORE,
    "semaphore_signal_parallel": _SEMAPHORE,
    "semaphore_signal_multicast": _SEMAPHORE,
    "multimem_store": _DEVICES,
    "multimem_load_reduce": _DEVICES,
    "pin": "pinning a buffer outside XLA's control has no meaning inside a kernel",
    "unpin": "pinning a buffer outside XLA's control has no meaning inside a kernel",
    "create_linear": "linear buffers have no meaning inside a kernel",
}
