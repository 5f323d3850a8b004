"""Blackwell's tensor memory, and the tensor cores that work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._builder import Ref, Val, Value
from ._context import RuleContext, dtype_of, shape_of
from ._indexing import plain_view, unflatten
from ._registry import rule
from ._sync import one_barrier, split_predicate

# ---- loads and stores of threads ---------------------------------------------------------------


@rule("async_load")
def _async_load(
    ctx: RuleContext, ref: Ref, *leaves: Val, tree: Any, reduce: Any = None
) -> Sequence[Val]:
    b = ctx.builder
    source = plain_view(ctx, ref, unflatten(tree, leaves))
    x = b.op("async_load_tmem", [source], source.elem, source.shape)
    if reduce is None:
        return [x]
    kind = str(getattr(reduce, "value", reduce))
    magnitude = b.unary("abs", x) if kind.startswith("abs") and x.dtype != "uint32" else x
    reduced = b.op(
        "reduce",
        [magnitude],
        dtype_of(ctx.avals_out[1]),
        shape_of(ctx.avals_out[1]),
        kind=kind.removeprefix("abs"),
        axes=[len(x.shape) - 1],
    )
    return [x, reduced]


@rule("wait_load_tmem")
def _wait_load_tmem(ctx: RuleContext) -> Sequence[Value]:
    ctx.builder.emit("wait_load_tmem")
    return ()


@rule("async_store_tmem")
def _async_store_tmem(
    ctx: RuleContext, ref: Ref, x: Val, *leaves: Val, tree: Any
) -> Sequence[Value]:
    ctx.builder.emit("async_store_tmem", [plain_view(ctx, ref, unflatten(tree, leaves)), x])
    return ()


@rule("commit_tmem")
def _commit_tmem(ctx: RuleContext) -> Sequence[Value]:
    ctx.builder.emit("commit_tmem")
    return ()


# ---- what is given to the tensor cores ---------------------------------------------------------


def _pair(ctx: RuleContext, axis: Any) -> bool:
    """Whether two blocks take part: those along `axis`, the minor one of the cluster."""
    allocated = ctx.kernel.tmem
    if allocated is not None and allocated[0] != (axis is not None):
        collective, name = allocated
        raise ctx.unsupported(
            f"TMEM `{name}` is collective: say collective_axis, or allocate it without"
            if collective
            else f"TMEM `{name}` is of one block: allocate it with collective=True, or say no "
            f"collective_axis ({axis!r})"
        )
    if axis is None:
        return False
    names = ctx.kernel.cluster_names
    if ctx.kernel.cluster_dims(axis) != [len(names) - 1]:
        raise ctx.unsupported(
            f"two blocks work together along the cluster's minor axis `{names[-1]}`, not `{axis}`"
        )
    return True


# What the bytes of a copy into tensor memory are.
_FORMATS = {
    "async_copy_smem_to_tmem": "plain",
    "async_copy_scales_to_tmem": "scales",
    "async_copy_sparse_metadata_to_tmem": "metadata",
}


@rule(*_FORMATS)
def _async_copy(
    ctx: RuleContext,
    smem: Ref,
    tmem: Ref,
    *leaves: Val,
    smem_tree: Any,
    tmem_tree: Any,
    collective_axis: Any,
) -> Sequence[Value]:
    source = plain_view(ctx, smem, unflatten(smem_tree, leaves[: smem_tree.num_leaves]))
    target = plain_view(ctx, tmem, unflatten(tmem_tree, leaves[smem_tree.num_leaves :]))
    format_ = _FORMATS[ctx.primitive]
    if format_ == "scales" and source.shape[-2:] == (64, 16):
        format_ = "pair_scales"
    ctx.builder.emit(
        "async_copy_smem_to_tmem",
        [source, target],
        format=format_,
        pair=_pair(ctx, collective_axis),
    )
    return ()


@rule("tcgen05_mma")
def _tcgen05_mma(
    ctx: RuleContext,
    acc: Ref,
    a: Ref,
    b: Ref,
    accumulate: Val,
    *operands: Any,
    acc_transforms_tree: Any,
    a_transforms_tree: Any,
    b_transforms_tree: Any,
    barrier_transforms_tree: Any,
    a_scale_transforms_tree: Any,
    b_scale_transforms_tree: Any,
    a_sparse_metadata_transforms_tree: Any,
    collective_axis: Any,
    arrive: bool,
    scaled: bool,
    sparse: bool,
) -> Sequence[Value]:
    """The product, and the arrival that follows it where it names a barrier."""
    rest = list(operands)
    barriers = [rest.pop(0) for _ in range(arrive)]
    scales = [rest.pop(0) for _ in range(2 * scaled)]
    metadata = [rest.pop(0) for _ in range(sparse)]

    def leaves(tree: Any) -> list[Any]:
        count = 0 if tree is None else tree.num_leaves
        taken = rest[:count]
        del rest[:count]
        return taken

    def view(ref: Ref, tree: Any) -> Ref:
        return plain_view(ctx, ref, unflatten(tree, leaves(tree)))

    # The leaves of all transforms follow in this order.
    matrices = [
        view(acc, acc_transforms_tree),
        view(a, a_transforms_tree),
        view(b, b_transforms_tree),
    ]
    barrier_leaves = leaves(barrier_transforms_tree)
    scale_trees = (a_scale_transforms_tree, b_scale_transforms_tree)
    scales = [view(s, tree) for s, tree in zip(scales, scale_trees, strict=False)]
    metadata = [view(m, a_sparse_metadata_transforms_tree) for m in metadata]

    builder = ctx.builder
    pair = _pair(ctx, collective_axis)
    builder.emit(
        "tcgen05_mma",
        [*matrices, builder.convert(accumulate, "bool"), *scales, *metadata],
        pair=pair,
        scaled=scaled,
        sparse=sparse,
    )
    for barrier in barriers:
        ref = one_barrier(ctx, barrier, barrier_transforms_tree, barrier_leaves)
        builder.emit("tcgen05_commit_arrive", [ref], pair=pair, predicate=False)
    return ()


@rule("tcgen05_commit_arrive")
def _tcgen05_commit_arrive(
    ctx: RuleContext,
    barrier: Ref,
    *leaves: Val,
    barrier_transforms_tree: Any,
    collective_axis: Any,
    has_user_predicate: bool = False,
) -> Sequence[Value]:
    view, predicate = split_predicate(leaves, has_user_predicate)
    ref = one_barrier(ctx, barrier, barrier_transforms_tree, view)
    ctx.builder.emit(
        "tcgen05_commit_arrive",
        [ref, *predicate],
        pair=_pair(ctx, collective_axis),
        predicate=bool(predicate),
    )
    return ()
