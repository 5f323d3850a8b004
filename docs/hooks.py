"""Pages that are made when the documentation is built."""

from typing import Any

from mkdocs.structure.files import File, Files
from pallas_rs._lowering import _registry, _unsupported


def on_files(files: Files, config: Any) -> Files:
    """Adds the page of primitives, from the lowering's own tables."""
    files.append(File.generated(config, "primitives.md", content=primitives()))
    return files


def primitives() -> str:
    """Every primitive that has a rule, and every one that is refused, with the reason."""
    refused = _unsupported.UNSUPPORTED
    supported = sorted(set(_registry.RULES) - set(refused))
    lines = [
        "# Supported primitives",
        "",
        "Made from the lowering's tables when this page was built.",
        "",
        f"## With a rule of their own ({len(supported)})",
        "",
        ", ".join(f"`{name}`" for name in supported),
        "",
        "Any other primitive without effects on memory works as well: XLA runs it, and the report"
        " counts such calls by name (`Report.stats['fallback_calls']`).",
        "",
        "## Refused",
        "",
        "| primitive | because |",
        "|---|---|",
        *(f"| `{name}` | {reason} |" for name, reason in sorted(refused.items())),
        "",
    ]
    return "\n".join(lines)
