"""Reverse mode: there is none, and the error says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _body, _calls
from pallas_rs._errors import UnsupportedError

Rule = Callable[..., Any]


def install() -> None:
    """Registers what answers when JAX asks to transpose a call of ours."""
    rules = jax_internals.primitive_transposes
    for primitive, kernels in (
        (jax_internals.pallas_call_p, _of_pallas_call),
        (jax_internals.mpmd_map_p, _of_mpmd_map),
        (jax_internals.custom_vmap_p, _of_custom_vmap),
    ):
        _calls.wrap_rule(rules, primitive, _rule(primitive, kernels))


def _rule(
    primitive: Any, kernels: Callable[[dict[str, Any]], list[Any]]
) -> Callable[[Rule | None], Rule]:
    def wrap(jax_rule: Rule | None) -> Rule:
        def rule(*args: Any, **params: Any) -> Any:
            if ours := kernels(params):
                _refuse(ours[0])
            transpose = jax_rule or jax_internals.missing_transpose(primitive)
            return transpose(*args, **params)

        return rule

    return wrap


def _of_pallas_call(params: dict[str, Any]) -> list[Any]:
    return [params["jaxpr"]] if _calls.is_ours(params["interpret"]) else []


def _of_mpmd_map(params: dict[str, Any]) -> list[Any]:
    return list(params["jaxprs"]) if _calls.is_ours(params["interpret"]) else []


def _of_custom_vmap(params: dict[str, Any]) -> list[Any]:
    return _calls.kernels_in(jax_internals.bare_jaxpr(params["call"]))


def _refuse(kernel: Any) -> NoReturn:
    name = _body.kernel_name(kernel)
    raise UnsupportedError(
        f"reverse-mode differentiation of kernel {name} is not supported: a kernel"
        " updates memory in place, in an order that has no transpose.\n"
        "  help: give the function that calls the kernel a rule of its own with"
        " jax.custom_vjp, whose backward pass may be a kernel as well; forward mode"
        " (jax.jvp, jax.linearize, jax.jacfwd) works as it is"
    )
