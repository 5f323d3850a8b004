"""Which rule lowers which primitive.

A rule is `rule(ctx, *operands, **params)`, like JAX's own lowering rules: operands are `Val` or
`Ref`, `ctx.avals_in` and `ctx.avals_out` are the equation's types. It returns one value, or a
sequence of them where the primitive has several (or no) results.

The key is the name a primitive prints, less the `_p` that some names carry in some versions of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ._builder import Value

Rule = Callable[..., Value | Sequence[Value]]
F = TypeVar("F", bound=Rule)
T = TypeVar("T", bound=Callable[..., Any])

RULES: dict[str, Rule] = {}


def key(primitive: Any) -> str:
    """The registry's name of a primitive (given as an object or a name)."""
    return str(getattr(primitive, "name", primitive)).removesuffix("_p")


def rule(*primitives: Any) -> Callable[[F], F]:
    """Registers the decorated function for these primitives (objects or names)."""

    def register(function: F) -> F:
        for primitive in primitives:
            name = key(primitive)
            if name in RULES:
                raise ValueError(f"{name} has two lowering rules")
            RULES[name] = function
        return function

    return register


TRANSFORMS: dict[str, Callable[..., Any]] = {}


def transform_rule(*names: str) -> Callable[[T], T]:
    """Registers `rule(ctx, ref, transform) -> ref` for these classes of transforms."""

    def register(function: T) -> T:
        for name in names:
            if name in TRANSFORMS:
                raise ValueError(f"transform {name} has two rules")
            TRANSFORMS[name] = function
        return function

    return register
