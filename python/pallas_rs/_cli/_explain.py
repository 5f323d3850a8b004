"""``pallas-rs explain``: what a code means."""

from __future__ import annotations

import argparse
import difflib
import json
import textwrap
from typing import Any, TextIO

from pallas_rs import _core

_CHECKED = {
    "always": "in every run",
    "lowering": "when the kernel is lowered",
    "races": "with detect_races=True",
    "uninitialized": 'with uninitialized_reads="warn" or "raise"',
    "limits": 'before the kernel runs, with limits="check"',
    "seeds": "with seeds=N",
    "lints": "with lints=True",
    "never": "nowhere",
}


def add_to(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "explain",
        help="what a finding's code means, with a wrong and a right example",
        description="Explains the code of a finding, or lists all codes.",
    )
    parser.add_argument("code", nargs="?", help="PRS-C3; without it, all codes are listed")
    parser.set_defaults(command=explain)


def explain(options: argparse.Namespace, out: TextIO) -> int:
    """Explains; 2 if there is no such code."""
    rules = {rule["code"]: rule for rule in json.loads(_core.rules())}
    if options.code is None:
        for code, rule in rules.items():
            out.write(f"{code:<11} {rule['severity']:<8} {rule['title']}\n")
        return 0
    wanted = options.code.upper()
    wanted = wanted if wanted.startswith("PRS-") else f"PRS-{wanted}"
    rule = rules.get(wanted)
    if rule is None:
        near = difflib.get_close_matches(wanted, rules, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        out.write(f"pallas-rs: no rule {wanted}{hint}\n")
        return 2
    out.write(_text(rule))
    return 0


def _text(rule: dict[str, str]) -> str:
    checked = _CHECKED.get(rule["checked"], rule["checked"])
    parts = [
        f"{rule['code']}: {rule['title']}",
        f"  severity  {rule['severity']}, raised as pallas_rs.{rule['class']}\n"
        f"  checked   {checked}\n"
        f"  source    {rule['source']}",
        textwrap.fill(rule["explanation"], 88),
    ]
    for label in ("bad", "good"):
        if rule[label]:
            title = "Wrong:" if label == "bad" else "Right:"
            parts.append(f"{title}\n\n{textwrap.indent(rule[label], '    ')}")
    return "\n\n".join(parts) + "\n"
