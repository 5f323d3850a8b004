"""Forward mode of the primitives of kernels, in force while a kernel is differentiated.

Conventions. A ref of floating-point data has a tangent ref beside it, unless nothing
written to it can have a tangent. Whatever moves or computes data is done once for the
primal and once for the tangent. Whatever synchronises is done once.

An asynchronous operation and its tangents are one operation (`_together`), which arrives once
on its barrier, and once in a group that a wait counts.

A primitive that touches refs and is in none of the tables has no derivative.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pallas_rs import _jax_internals as jax_internals
from pallas_rs._ad import _async_rules, _body, _calls, _memory_rules, _scope_rules

Pair = tuple[Any, Any]
Rule = Callable[..., Pair]

_installed = False
_install_lock = threading.Lock()


def install() -> None:
    """Registers the rules, once. Elsewhere than in a kernel of ours they stand aside."""
    global _installed
    with _install_lock:
        if _installed:
            return
        for primitive, rule in _all_rules():
            _calls.wrap_rule(
                jax_internals.primitive_jvps,
                primitive,
                functools.partial(_only_in_kernels, primitive, rule),
            )
        _installed = True


def _all_rules() -> Iterator[tuple[Any, Rule]]:
    for rules in (_memory_rules, _async_rules, _scope_rules):
        for module, table in rules.tables():
            for name, make in table.items():
                # Not every version of JAX has every primitive.
                if (primitive := getattr(module, name, None)) is not None:
                    yield primitive, make(primitive)


def _only_in_kernels(primitive: Any, ours: Rule, jax_rule: Rule | None) -> Rule:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Pair:
        if _body.in_kernel():
            return ours(primals, tangents, **params)
        if jax_rule is None:
            raise NotImplementedError(f"Differentiation rule for '{primitive}' not implemented")
        return jax_rule(primals, tangents, **params)

    return rule
