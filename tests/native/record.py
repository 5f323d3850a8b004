"""Records native runs of the cases, for machines without a GPU to compare with.

    python tests/native/record.py                    # on a machine with a GPU
    python tests/native/record.py --native jax       # JAX's interpreter stands in for one

A record of a stand-in says so, and never replaces that of a GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"


def _load_cases():
    spec = importlib.util.spec_from_file_location("native_cases", HERE / "cases.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str] | None = None) -> int:
    """Records; returns how many cases did not agree."""
    cases = _load_cases()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--native", choices=["auto", "jax"], default="auto")
    parser.add_argument("--only", nargs="*", choices=list(cases.CASES), default=list(cases.CASES))
    parser.add_argument("--into", type=Path, default=GOLDEN)
    options = parser.parse_args(arguments)
    options.into.mkdir(parents=True, exist_ok=True)
    failures = 0
    for name in options.only:
        path = options.into / name
        if options.native == "jax" and (not cases.CASES[name].stand_in or _of_a_gpu(path)):
            print(f"{name}: left out: JAX's interpreter cannot run it, or a GPU has recorded it")
            continue
        found = cases.compare(name, options.native)
        found.save(path)
        failures += not found
        print(found, end="\n\n")
    return failures


def _of_a_gpu(path: Path) -> bool:
    head = path.with_suffix(".json")
    return head.exists() and not json.loads(head.read_text())["environment"]["stand_in"]


if __name__ == "__main__":
    sys.exit(main())
