"""`plgpu.inline_mgpu`: Python that emits MLIR and PTX for every CUDA thread of a warpgroup or warp.

JAX can emit a body's MLIR without a GPU. `_emit` has it do so, `_layout` says which thread holds
which element, and the rest translates the MLIR to a lane body (`rust/ir/src/lane`), one rule per
operation. The result is data: nothing of the user's function is left when the kernel runs.
"""

from __future__ import annotations

import importlib

for _module in ("_arith", "_vector", "_memory", "_control", "_machine", "_ptx", "_rule"):
    importlib.import_module(f"{__name__}.{_module}")
del _module
