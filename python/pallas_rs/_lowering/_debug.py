"""Printing, checks and callbacks."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from pallas_rs import _host
from pallas_rs import _jax_internals as jax_internals

from ._builder import Val
from ._context import RuleContext
from ._registry import rule

# ---- printing ----------------------------------------------------------------------------------


@rule("debug_print")
def _debug_print(
    ctx: RuleContext,
    *args: Val,
    fmt: str,
    in_tree: Any,
    static_args: Any,
    **_: Any,
) -> Any:
    ctx.kernel.has_side_effect = True
    positional, keywords = jax_internals.merge_callback_args(in_tree, args, static_args)
    if all(field is None for _, field, _, _ in string.Formatter().parse(fmt)):
        # Pallas lets the values follow a text without placeholders.
        fmt = " ".join([_escape(fmt), *["{}"] * len(positional)])
    text, operands = positional_format(fmt, positional, keywords)
    ctx.builder.emit("print", operands, [], format=text)
    return []


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def positional_format(
    fmt: str, positional: Sequence[Any], keywords: dict[str, Any]
) -> tuple[str, list[Val]]:
    """A format string whose fields are numbered operands; what is no value becomes text.

    A field that is a container of values is written out as one: `(x, y)` as `({0}, {1})`.
    """
    operands: list[Val] = []
    parts: list[str] = []
    automatic = 0
    for literal, field, spec, conversion in string.Formatter().parse(fmt):
        parts.append(_escape(literal))
        if field is None:
            continue
        if field == "":
            argument, automatic = positional[automatic], automatic + 1
        else:
            argument = string.Formatter().get_field(field, positional, keywords)[0]
        suffix = (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
        parts.append(_field(argument, suffix, operands))
    return "".join(parts), operands


def _field(argument: Any, suffix: str, operands: list[Val]) -> str:
    def one(x: Any) -> str:
        return _field(x, suffix, operands)

    match argument:
        case Val():
            operands.append(argument)
            return f"{{{len(operands) - 1}{suffix}}}"
        case tuple():
            inner = ", ".join(map(one, argument))
            return f"({inner},)" if len(argument) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(map(one, argument))}]"
        case dict():
            return f"{{{{{', '.join(f'{k!r}: {one(v)}' for k, v in argument.items())}}}}}"
    return _escape(("{0" + suffix + "}").format(argument))


@rule("debug_callback")
def _debug_callback(ctx: RuleContext, *args: Val, callback: Any, **_: Any) -> Any:
    ctx.kernel.has_side_effect = True

    def call(*arrays: np.ndarray) -> None:
        callback(*arrays)

    ctx.builder.emit("callback", args, [], id=_host.register_callback(call))
    return []


@rule("pure_callback")
def _pure_callback(ctx: RuleContext, *args: Val, callback: Any, **_: Any) -> Any:
    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        results = zip(callback(*arrays), ctx.avals_out, strict=True)
        return [np.broadcast_to(np.asarray(x, aval.dtype), aval.shape) for x, aval in results]

    results = ctx.fresh_results()
    ctx.builder.emit("callback", args, results, id=_host.register_callback(call))
    return results


@rule("print_layout")
def _print_layout(ctx: RuleContext, *_: Any, **__: Any) -> Any:
    return []  # printed while a native lowering decides on layouts; there are none here


# ---- checks ------------------------------------------------------------------------------------


@rule("check")
def _check(ctx: RuleContext, *leaves: Any, err_tree: Any, debug: bool = False) -> Any:
    if debug and not jax_internals.debug_checks_enabled():
        return []
    ctx.kernel.has_side_effect = True
    b = ctx.builder
    for failed, code, possible in jax_internals.check_errors(err_tree, leaves):
        failed = ctx.kernel.value(failed)
        for number, message, args, kwargs in possible:
            this = failed
            if len(possible) > 1:
                this = b.binary(
                    "and", failed, b.compare("eq", ctx.kernel.value(code), b.i32(number))
                )
            text, operands = positional_format(message, args, kwargs)
            b.emit("check", [b.unary("not", this), *operands], [], message=text)
    return []
