"""Forward mode of loads, stores and atomics.

JAX has rules for some of these. They are replaced because they take for granted that a
ref without a tangent holds nothing that needs one (masked accesses), and that the element
type of a ref says whether a value has a tangent (a union of refs has members of several).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _body, _calls
from pallas_rs._errors import UnsupportedError

Pair = tuple[Any, Any]
Rule = Callable[..., Pair]


def tables() -> Iterator[tuple[Any, dict[str, Callable[[Any], Rule]]]]:
    """Modules of JAX, and per name of a primitive in them what makes its rule."""
    gpu_core, gpu_primitives = jax_internals.mosaic_gpu_modules()
    yield jax_internals, {"get_p": load, "swap_p": store, "addupdate_p": add_update}
    yield jax_internals, {"masked_load_p": masked_load, "masked_swap_p": masked_store}
    yield gpu_core, {"layout_cast_p": linear}
    yield (
        gpu_primitives,
        {
            "load_p": load,
            "store_p": store,
            "async_load_tmem_p": load_tmem,
            "async_store_tmem_p": store,
            "atomic_store_p": atomic,
            "mma_p": mma,
            "reduce_sum_p": linear,
            "reduce_max_p": reduction(jnp.max),
            "reduce_min_p": reduction(jnp.min),
            "reduce_prod_p": reduction(jnp.prod),
        },
    )
    yield (
        jax_internals.triton_primitives(),
        {"atomic_rmw_p": atomic, "atomic_cas_p": only_integers},
    )


def zeros_of(out: Any) -> Any:
    """Symbolic zeros for the results of a primitive."""
    if isinstance(out, (list, tuple)):
        return [_calls.zero_tangent(value) for value in out]
    return _calls.zero_tangent(out)


def linear(primitive: Any) -> Rule:
    """A linear function of one value."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        out = primitive.bind(*primals, **params)
        if _calls.is_zero(tangents[0]):
            return out, zeros_of(out)
        return out, primitive.bind(tangents[0], *primals[1:], **params)

    return rule


def load(primitive: Any) -> Rule:
    """Operands: the ref, leaves of its transforms."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        out = primitive.bind(*primals, **params)
        if _calls.is_zero(tangents[0]) or not _has_tangent(out):
            return out, zeros_of(out)
        return out, primitive.bind(tangents[0], *primals[1:], **params)

    return rule


def store(primitive: Any) -> Rule:
    """Operands: the ref, the value, leaves of the ref's transforms."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        (_, value, *leaves), (ref_t, value_t) = primals, tangents[:2]
        out = primitive.bind(*primals, **params)
        if not _stores_tangent(primals[0], ref_t, value, value_t):
            return out, zeros_of(out)
        value_t = jax_internals.instantiate_zeros(value_t)
        return out, primitive.bind(ref_t, value_t, *leaves, **params)

    return rule


def add_update(primitive: Any) -> Rule:
    """As `store`, and adds."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        (_, value, *leaves), (ref_t, value_t) = primals, tangents[:2]
        primitive.bind(*primals, **params)
        if not _calls.is_zero(value_t) and _stores_tangent(primals[0], ref_t, value, value_t):
            primitive.bind(ref_t, value_t, *leaves, **params)
        return [], []

    return rule


def masked_load(primitive: Any) -> Rule:
    """Operands, as a tree: the ref, its transforms, a mask, and values where it is off."""

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], *, args_tree: Any, **params: Any
    ) -> Pair:
        _, transforms, mask, other = args_tree.unflatten(primals)
        ref_t, _, _, other_t = args_tree.unflatten(tangents)
        out = primitive.bind(*primals, args_tree=args_tree, **params)
        if not _has_tangent(out):
            return out, zeros_of(out)
        if not _calls.is_zero(ref_t):
            other_t = None if other is None else jax_internals.instantiate_zeros(other_t)
            leaves, tree = jax.tree.flatten((ref_t, transforms, mask, other_t))
            return out, primitive.bind(*leaves, args_tree=tree, **params)
        if other is None or _calls.is_zero(other_t):
            return out, zeros_of(out)
        return out, jnp.where(mask, jnp.zeros_like(other_t), other_t)

    return rule


def masked_store(primitive: Any) -> Rule:
    """Operands, as a tree: the ref, its transforms, the values, and a mask."""

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], *, args_tree: Any, **params: Any
    ) -> Pair:
        ref, transforms, value, mask = args_tree.unflatten(primals)
        ref_t, _, value_t, _ = args_tree.unflatten(tangents)
        out = primitive.bind(*primals, args_tree=args_tree, **params)
        if not _stores_tangent(ref, ref_t, value, value_t):
            return out, zeros_of(out)
        value_t = jax_internals.instantiate_zeros(value_t)
        leaves = jax.tree.leaves((ref_t, transforms, value_t, mask))
        return out, primitive.bind(*leaves, args_tree=args_tree, **params)

    return rule


def load_tmem(primitive: Any) -> Rule:
    """A load that may come with a reduction of its last dimension."""
    plain = load(primitive)

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        reduce = params.get("reduce")
        if reduce is None:
            return plain(primals, tangents, **params)
        outs = primitive.bind(*primals, **params)
        if _calls.is_zero(tangents[0]) or not _has_tangent(outs[0]):
            return outs, zeros_of(outs)
        (tangent,) = primitive.bind(tangents[0], *primals[1:], **{**params, "reduce": None})
        function = _REDUCTIONS[str(getattr(reduce, "value", reduce)).lower()]
        _, reduced = jax.jvp(function, (outs[0],), (tangent,))
        return outs, [tangent, reduced]

    return rule


_REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: jnp.max(x, axis=-1),
    "min": lambda x: jnp.min(x, axis=-1),
    "absmax": lambda x: jnp.max(jnp.abs(x), axis=-1),
    "absmin": lambda x: jnp.min(jnp.abs(x), axis=-1),
}


def reduction(function: Callable[..., Any]) -> Callable[[Any], Rule]:
    """A reduction that differs from `function` only in how a GPU does it."""

    def make(primitive: Any) -> Rule:
        def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
            out = primitive.bind(*primals, **params)
            if _calls.is_zero(tangents[0]):
                return out, zeros_of(out)

            def reduced(x: Any) -> Any:
                return function(x, axis=params["axes"])

            return out, jax.jvp(reduced, tuple(primals), tuple(tangents))[1]

        return rule

    return make


def mma(primitive: Any) -> Rule:
    """`acc + a @ b`, of values."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        acc, a, b = primals
        acc_t, a_t, b_t = tangents
        out = primitive.bind(acc, a, b, **params)
        if all(map(_calls.is_zero, tangents)):
            return out, zeros_of(out)
        tangent = jax_internals.instantiate_zeros(acc_t)
        if not _calls.is_zero(a_t):
            tangent = primitive.bind(tangent, a_t, b, **params)
        if not _calls.is_zero(b_t):
            tangent = primitive.bind(tangent, a, b_t, **params)
        return out, tangent

    return rule


def atomic(primitive: Any) -> Rule:
    """Operands, as a tree: the ref, its transforms, the values, and perhaps a mask."""

    def rule(
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        args_tree: Any,
        atomic_type: Any,
        **params: Any,
    ) -> Pair:
        params = {"args_tree": args_tree, "atomic_type": atomic_type, **params}
        ref, transforms, value, *mask = args_tree.unflatten(primals)
        ref_t, _, value_t, *_ = args_tree.unflatten(tangents)
        out = primitive.bind(*primals, **params)
        if not _stores_tangent(ref, ref_t, value, value_t):
            return out, zeros_of(out)
        if atomic_type.value not in ("add", "xchg"):
            raise UnsupportedError(
                f"an atomic {atomic_type.value} of floating-point values has no"
                " derivative: which thread's value stays depends on their order"
            )
        value_t = jax_internals.instantiate_zeros(value_t)
        leaves = jax.tree.leaves((ref_t, transforms, value_t, *mask))
        return out, primitive.bind(*leaves, **params)

    return rule


def only_integers(primitive: Any) -> Rule:
    """Something that has no derivative where its values are floating-point."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if not all(map(_calls.is_zero, tangents)):
            raise UnsupportedError(
                f"`{primitive.name.removesuffix('_p')}` of floating-point values has no derivative"
            )
        out = primitive.bind(*primals, **params)
        return out, zeros_of(out)

    return rule


def _has_tangent(out: Any) -> bool:
    values = out if isinstance(out, (list, tuple)) else [out]
    return all(_body.carries_tangent(jax_internals.typeof(value)) for value in values)


def _stores_tangent(ref: Any, ref_t: Any, value: Any, value_t: Any) -> bool:
    """Whether a store of a value is also one of its tangent."""
    if not _body.carries_tangent(jax_internals.typeof(value)):
        return False
    if not _calls.is_zero(ref_t):
        return True
    if not _calls.is_zero(value_t):
        raise UnsupportedError(
            f"a value with a tangent is stored into {jax_internals.typeof(ref)}, which"
            " is not an argument of the differentiated function"
        )
    return False
