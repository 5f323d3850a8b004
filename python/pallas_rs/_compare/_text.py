"""A comparison in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pallas_rs._compare._measure import ULP_BINS, Difference, OutputComparison

if TYPE_CHECKING:
    from pallas_rs._compare._comparison import Comparison


def text(comparison: Comparison) -> str:
    """Everything a reader wants first: the verdict, then each output, then where and when."""
    lines = [_headline(comparison)]
    for output in comparison.outputs:
        lines += _output(output)
    lines.append(
        f"  time      {_seconds(comparison.interpreted_seconds)} interpreted,"
        f" {_seconds(comparison.native_seconds)} natively"
    )
    environment = comparison.environment
    recorded = ", recorded" if environment.recorded else ""
    lines.append(f"  device    {environment.device}{recorded}")
    versions = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    lines.append(f"  versions  {versions}")
    return "\n".join(lines)


def _headline(comparison: Comparison) -> str:
    bad = [output.name for output in comparison.outputs if not output.agrees]
    if not bad:
        return f"{comparison.name}: interpreted and native run agree"
    return f"{comparison.name}: interpreted and native run differ in {', '.join(bad)}"


def _output(output: OutputComparison) -> list[str]:
    shape = ", ".join(map(str, output.shape))
    verdict = "ok" if output.agrees else f"{output.beyond} elements beyond"
    errors = f"max error {output.max_abs:.3g}, relative {output.max_rel:.3g}"
    if output.max_ulp is not None:
        errors += f", {output.max_ulp:.0f} ulp"
    lines = [
        f"  {output.name:<8}  {output.dtype}[{shape}]  {errors}",
        f"            {verdict}: {_tolerance(output)}, {output.different} of"
        f" {output.compared} differ",
    ]
    if output.different and output.histogram:
        lines.append(f"            ulp {_histogram(output)}")
    if output.first is not None:
        lines.append(f"            {_first(output.first, output.agrees)}")
    return lines


def _tolerance(output: OutputComparison) -> str:
    allowed = output.tolerance
    if not allowed.rtol and not allowed.atol:
        return "must be equal"
    reason = f" for sums of {allowed.terms}" if allowed.terms > 1 else ""
    return f"rtol {allowed.rtol:.2g}, atol {allowed.atol:.2g}{reason}"


def _histogram(output: OutputComparison) -> str:
    labels = [f"<={ulp}" for ulp in ULP_BINS] + [f">{ULP_BINS[-1]}"]
    pairs = zip(labels, output.histogram, strict=True)
    return "  ".join(f"{label}: {count}" for label, count in pairs if count)


def _first(first: Difference, within: bool) -> str:
    where = f"element {list(first.index)}"
    if first.tile is not None:
        indices, shape = first.tile
        where += f" of block {list(indices)} (of {'x'.join(map(str, shape))})"
    if first.grid_point is not None:
        where += f", written by grid point {first.grid_point}"
    kind = "first difference" if within else "first beyond"
    return f"{kind}: {where}: {first.interpreted} interpreted, {first.native} natively"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
