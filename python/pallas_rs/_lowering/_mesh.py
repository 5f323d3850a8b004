"""Where a thread stands: `plgpu.kernel`'s grid, clusters and threads, and the indices into them.

`plgpu.kernel` hands over one grid, `(*grid, *cluster, threads)`, and a mesh that says how to split
it. A kernel made with `pl.pallas_call` has no mesh: every point of its grid is one block of one
thread.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals

from . import _grid
from ._builder import Val
from ._context import Kernel, RuleContext
from ._registry import rule


class MeshKernel(Kernel):
    """The lowering of a kernel with a mesh. All points of its grid exist at the same time."""

    def __init__(self, mesh: Any) -> None:
        for axis, size in enumerate(mesh.grid):
            _grid.check_size(f"grid dimension {axis}", int(size), 0)
        for axis, size in enumerate(mesh.cluster):
            _grid.check_size(f"cluster dimension {axis}", int(size), 1)
        if mesh.num_threads is not None:
            _grid.check_size("num_threads", int(mesh.num_threads), 1)
        _grid.check_names([*mesh.grid_names, *mesh.cluster_names, mesh.thread_name])
        super().__init__(cluster_names=tuple(mesh.cluster_names))
        self.mesh = mesh
        self.grid_names = tuple(mesh.grid_names)
        self._sizes = (*mesh.grid, *mesh.cluster, mesh.num_threads or 1)
        indices = [self._index("program_id", i) for i in range(len(mesh.grid))]
        indices += [self._index("cluster_index", i) for i in range(len(mesh.cluster))]
        indices.append(lambda: self.builder.head("thread_index", "int32"))
        self._indices = indices
        self.axes.update(zip((*mesh.grid_names, *mesh.cluster_names), indices, strict=False))
        if mesh.thread_name is not None:
            self.axes[mesh.thread_name] = indices[-1]

    def _index(self, op: str, axis: int) -> Callable[[], Val]:
        return lambda: self.builder.head(op, "int32", axis=axis)

    def header(self) -> dict[str, Any]:
        mesh = self.mesh
        return {
            "grid": [{"static": int(n)} for n in mesh.grid],
            "grid_names": [_printable(n) for n in mesh.grid_names],
            "in_order": False,
            "cluster": [int(n) for n in mesh.cluster],
            "cluster_names": [_printable(n) for n in mesh.cluster_names],
            "num_threads": int(mesh.num_threads or 1),
        }

    def program_id(self, axis: int) -> Val:
        return self._indices[axis]()

    def num_programs(self, axis: int) -> Val:
        return self.builder.i32(int(self._sizes[axis]))


def _printable(name: Any) -> str:
    # Under vmap JAX names the new grid axis by a bare object.
    return name if isinstance(name, str) else "<vmapped>"


@rule("axis_index")
def _axis_index(ctx: RuleContext, *, axis_name: Any) -> Val:
    index = ctx.kernel.axes.get(axis_name)
    if index is None:
        raise ctx.unsupported(
            f"`{axis_name}` is not an axis of the kernel's grid, cluster or threads; indices along "
            "a mesh of devices are not modelled"
        )
    value: Val = index()
    return value


@rule("core_map", "mpmd_map")
def _warps(ctx: RuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    """A body that each warp of the warpgroup runs by itself: `plgpu.WarpMesh`."""
    # Before 0.11 it is a `core_map` whose jaxpr closes over refs; later an `mpmd_map` of one mesh.
    meshes = params.get("meshes") or (params["mesh"],)
    jaxprs = params.get("jaxprs") or (params["jaxpr"],)
    mesh = meshes[0]
    if len(meshes) != 1 or type(mesh).__name__ != "WarpMesh":
        raise ctx.unsupported("only the warps of a warpgroup can be mapped over in a kernel")
    open_, _ = jax_internals.open_jaxpr(jaxprs[0])
    closes_over = len(open_.constvars) == len(operands)
    args, consts = ((), operands) if closes_over else (operands, ())
    axes = ctx.kernel.axes
    warp = ctx.builder.val("int32")
    outer = axes.get(mesh.axis_name)
    axes[mesh.axis_name] = lambda: warp
    try:
        ctx.kernel.in_warp = True
        with ctx.region([warp]) as region:
            ctx.kernel.lower_jaxpr(jaxprs[0], args, consts)
    finally:
        ctx.kernel.in_warp = False
        del axes[mesh.axis_name]
        if outer is not None:
            axes[mesh.axis_name] = outer
    ctx.builder.emit("warps", regions=[region])
    return ()


# ---- the user's names of GMEM arguments ------------------------------------------------------


def argument_names(jaxpr: Any, origins: Sequence[str]) -> list[str]:
    """The user's names of a `plgpu.kernel`'s GMEM arguments; where one is lost, its origin.

    JAX traces a wrapper that takes `*refs`. Its first `run_scoped` traces the user's function with
    those refs bound, so the function's source says what it calls them.
    """
    jaxpr, _ = jax_internals.open_jaxpr(jaxpr)
    names = list(getattr(jaxpr.debug_info, "arg_names", None) or ())
    body = next((e for e in jaxpr.eqns if e.primitive.name == "run_scoped"), None)
    parameters: tuple[str, ...] = ()
    if body is not None:
        inner, _ = jax_internals.open_jaxpr(body.params["jaxpr"])
        parameters = _parameters_at(getattr(inner.debug_info, "func_src_info", None) or "")
    out = []
    for i, origin in enumerate(origins):
        match = re.fullmatch(r"refs\[(\d+)\](.*)", names[i] or "") if i < len(names) else None
        position = int(match[1]) if match else len(parameters)
        known = match is not None and position < len(parameters)
        out.append(parameters[position] + match[2] if known and match else origin)
    return out


@functools.lru_cache(maxsize=256)
def _parameters_at(func_src_info: str) -> tuple[str, ...]:
    """Positional parameters of the function that `name at file:line` means, from its source."""
    name, _, place = func_src_info.partition(" at ")
    file, _, line = place.rpartition(":")
    if not line.isdigit():
        return ()
    lines = linecache.getlines(file)[int(line) - 1 :]
    try:
        tree = ast.parse(textwrap.dedent("".join(inspect.getblock(lines))))
    except (SyntaxError, IndexError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args))
    return ()
