"""Forward mode of copies, barriers, semaphores and tensor cores.

`_rules` says how arrivals and waits are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _body, _calls, _together
from pallas_rs._ad._memory_rules import zeros_of
from pallas_rs._errors import UnsupportedError

Pair = tuple[Any, Any]
Rule = Callable[..., Pair]


def tables() -> Iterator[tuple[Any, dict[str, Callable[[Any], Rule]]]]:
    """Modules of JAX, and per name of a primitive in them what makes its rule."""
    semaphores: dict[str, Callable[[Any], Rule]] = dict.fromkeys(
        ("semaphore_signal_p", "semaphore_wait_p", "semaphore_read_p"), once
    )
    yield jax_internals, semaphores
    yield _together, {"together_p": together}
    yield (
        jax_internals.mosaic_gpu_modules()[1],
        {
            **semaphores,
            "semaphore_signal_parallel_p": once,
            "semaphore_signal_multicast_p": once,
            "barrier_wait_p": once,
            "barrier_test_p": once,
            "barrier_arrive_p": once,
            "barrier_arrive_and_wait_p": once,
            "query_cluster_cancel_p": once,
            "try_cluster_cancel_p": once,
            "async_prefetch_p": once,
            "copy_gmem_to_smem_p": copy_gmem_to_smem,
            "copy_smem_to_gmem_p": copy_smem_to_gmem,
            "async_store_smem_p": async_store_smem,
            "async_copy_smem_to_tmem_p": copy_smem_to_tmem,
            "async_copy_sparse_metadata_to_tmem_p": once,
            "wgmma_ref_p": wgmma,
            "wgmma_accumulator_deref_p": accumulator_load,
            "wgmma_accumulator_store_p": accumulator_store,
            "tcgen05_mma_p": tcgen05_mma,
            "tcgen05_commit_arrive_p": once,
            "inline_mgpu_p": inline_mgpu,
        },
    )


def once(primitive: Any) -> Rule:
    """Synchronisation, or integers: no tangents."""

    def rule(primals: Sequence[Any], _: Sequence[Any], **params: Any) -> Pair:
        out = primitive.bind(*primals, **params)
        return out, zeros_of(out)

    return rule


def copy_gmem_to_smem(primitive: Any) -> Rule:
    """Operands: source, destination, and what both copies have in common."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        parts = [primals]
        if not _calls.is_zero(tangents[0]):
            parts.insert(0, [*tangents[:2], *primals[2:]])
        _together.bind(primitive, parts, params)
        return [], []

    return rule


def copy_smem_to_gmem(primitive: Any) -> Rule:
    """Operands: source, destination, and what both copies have in common."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        parts = [primals]
        if not _calls.is_zero(tangents[1]):
            _only_adds(primitive, params.get("reduction_op"))
            parts.insert(0, [*tangents[:2], *primals[2:]])
        _together.bind(primitive, parts, params)
        return [], []

    return rule


def inline_mgpu(primitive: Any) -> Rule:
    """A body has no derivative; one that touches nothing with a tangent needs none."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if not all(map(_calls.is_zero, tangents)):
            function = params["mgpu_fn"]
            raise UnsupportedError(
                f"the inline_mgpu body `{function.__module__}.{function.__qualname__}` has no"
                " derivative: give the kernel around it a jax.custom_jvp or jax.custom_vjp"
            )
        out = primitive.bind(*primals, **params)
        return out, zeros_of(out)

    return rule


def async_store_smem(primitive: Any) -> Rule:
    """Operands: the values, the ref, the barrier, and what both stores share."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        parts = [primals]
        if _body.carries_tangent(jax_internals.typeof(primals[0])):
            _only_adds(primitive, params.get("atomic"))
            tangent = jax_internals.instantiate_zeros(tangents[0])
            parts.insert(0, [tangent, tangents[1], *primals[2:]])
        _together.bind(primitive, parts, params)
        return [], []

    return rule


def together(primitive: Any) -> Rule:
    """Operations done as one: each of them has its own tangents, which join them."""
    del primitive

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], *, operation: Any, sizes: Any, params: Any
    ) -> Pair:
        parts: list[Sequence[Any]] = []
        # The rule of the operation itself says what its parts are.
        with _together.collected(parts):
            for part, part_t in zip(
                _together.parts_of(primals, sizes),
                _together.parts_of(tangents, sizes),
                strict=True,
            ):
                jax_internals.primitive_jvps[operation](part, part_t, **dict(params))
        _together.bind(operation, parts, dict(params))
        return [], []

    return rule


def _only_adds(primitive: Any, reduction: Any) -> None:
    name = getattr(reduction, "value", reduction)
    if name not in (None, "add"):
        raise UnsupportedError(
            f"`{primitive.name}` with reduction {name!r} of floating-point values has"
            " no derivative: which value stays depends on their order"
        )


def copy_smem_to_tmem(primitive: Any) -> Rule:
    """Operands: source, destination, leaves of their transforms."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        primitive.bind(*primals, **params)
        if not any(map(_calls.is_zero, tangents[:2])):
            primitive.bind(*tangents[:2], *primals[2:], **params)
        return [], []

    return rule


def wgmma(primitive: Any) -> Rule:
    """`acc += a @ b`. Operands: the three, leaves of their transforms."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        _, a, b, *leaves = primals
        acc_t, a_t, b_t = tangents[:3]
        parts = [primals]
        if not _calls.is_zero(acc_t):
            if not _calls.is_zero(a_t):
                parts.insert(0, [acc_t, a_t, b, *leaves])
            if not _calls.is_zero(b_t):
                parts.insert(0, [acc_t, a, b_t, *leaves])
        _together.bind(primitive, parts, params)
        return [], []

    return rule


def accumulator_load(primitive: Any) -> Rule:
    """Operand: the accumulator."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        out = primitive.bind(*primals, **params)
        if _calls.is_zero(tangents[0]):
            return out, zeros_of(out)
        return out, primitive.bind(tangents[0], *primals[1:], **params)

    return rule


def accumulator_store(primitive: Any) -> Rule:
    """Operands: the accumulator, the value."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        out = primitive.bind(*primals, **params)
        if _calls.is_zero(tangents[0]):
            return out, zeros_of(out)
        value_t = jax_internals.instantiate_zeros(tangents[1])
        return out, primitive.bind(tangents[0], value_t, **params)

    return rule


def tcgen05_mma(primitive: Any) -> Rule:
    """`acc = (acc if accumulate else 0) + a @ b`, and perhaps an arrival when done.

    The tangent's two products come first, without an arrival: the primal's comes when all that
    were issued before are done.
    """

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if params["scaled"]:
            raise UnsupportedError(
                "a block-scaled `tcgen05_mma` has no derivative: tangents do not have"
                " the operands' scales"
            )
        _, a, b, accumulate, *rest = primals
        acc_t, a_t, b_t = tangents[:3]
        rest = _without_barrier(rest, params)
        silent = {**params, "arrive": False, "barrier_transforms_tree": None}
        if not _calls.is_zero(acc_t):
            products = [
                (x, y)
                for x, y, tangent in ((a_t, b, a_t), (a, b_t, b_t))
                if not _calls.is_zero(tangent)
            ]
            for x, y in products:
                primitive.bind(acc_t, x, y, accumulate, *rest, **silent)
                accumulate = True
        primitive.bind(*primals, **params)
        return [], []

    return rule


def _without_barrier(rest: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Operands after the first four, less the barrier and its leaves."""

    def leaves_of(name: str) -> int:
        tree = params[f"{name}_transforms_tree"]
        return 0 if tree is None else tree.num_leaves

    if not params["arrive"]:
        return list(rest)
    _, *rest = rest
    refs = 2 * params["scaled"] + params["sparse"]
    before = refs + sum(map(leaves_of, ("acc", "a", "b")))
    after = before + leaves_of("barrier")
    return [*rest[:before], *rest[after:]]
