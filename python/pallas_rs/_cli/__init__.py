"""The command ``pallas-rs``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pallas_rs import _core
from pallas_rs._cli import _doctor, _explain, _run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="pallas-rs", description="Runs Pallas GPU kernels on a CPU, and explains them."
    )
    parser.add_argument("--version", action="version", version=f"pallas-rs {_core.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (_run, _explain, _doctor):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    status: int = options.command(options, sys.stdout)
    return status
