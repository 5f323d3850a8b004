"""Primitives that are refused on purpose, each with its reason.

A reason completes the sentence "the primitive is not supported because ...".
"""

from __future__ import annotations

_TPU = "it is a TPU primitive; the machine models GPUs"
_EFFECT = "a kernel cannot reach the host's ordered effects"

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
    "delay": _TPU,
    "pin": "pinning a buffer outside XLA's control has no meaning inside a kernel",
    "unpin": "pinning a buffer outside XLA's control has no meaning inside a kernel",
    "create_linear": "linear buffers have no meaning inside a kernel",
}
