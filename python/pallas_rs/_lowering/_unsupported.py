"""Primitives that are refused on purpose, each with its reason.

A reason completes the sentence "the primitive is not supported because ...".
"""

from __future__ import annotations

_TPU = "it is a TPU primitive; the machine models GPUs"
_EFFECT = "a kernel cannot reach the host's ordered effects"
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
    "semaphore_signal_multicast": _DEVICES,
    "multimem_store": _DEVICES,
    "multimem_load_reduce": _DEVICES,
    "pin": "pinning a buffer outside XLA's control has no meaning inside a kernel",
    "unpin": "pinning a buffer outside XLA's control has no meaning inside a kernel",
    "jaxpr_call": "only JAX's own lowering makes it, from a kernel that it has been given",
    "create_linear": "linear buffers have no meaning inside a kernel",
}
