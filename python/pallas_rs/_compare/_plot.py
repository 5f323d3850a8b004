"""A comparison as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pallas_rs._compare import _record
from pallas_rs._compare._measure import ULP_BINS, Errors

if TYPE_CHECKING:
    import matplotlib.figure

    from pallas_rs._compare._comparison import Comparison, Values


def plot(comparison: Comparison) -> matplotlib.figure.Figure:
    """A row for each output: the error over the output, and the histogram of errors."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "drawing a comparison needs matplotlib: pip install 'pallas-rs[plot]'"
        ) from error
    figure = Figure(figsize=(10, 3.2 * max(1, len(comparison.outputs))), layout="constrained")
    axes = figure.subplots(max(1, len(comparison.outputs)), 2, squeeze=False)
    pairs = zip(axes, comparison.outputs, comparison.values, strict=False)
    for (over, counts), output, value in pairs:
        image = over.imshow(_picture(value), aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=over, label="absolute error")
        over.set_title(f"{output.name}: {output.dtype}{list(output.shape)}")
        if output.histogram:
            labels = [*(f"≤{ulp}" for ulp in ULP_BINS), f">{ULP_BINS[-1]}"]
            counts.bar(labels, output.histogram)
            counts.set_yscale("symlog")
            counts.set_xlabel("error in units in the last place")
        else:
            counts.bar(
                ["same", "different"], [output.compared - output.different, output.different]
            )
        counts.set_ylabel("elements")
    verdict = "agree" if comparison.agrees else "differ"
    figure.suptitle(f"{comparison.name} and {comparison.environment.device} {verdict}")
    return figure


def _picture(value: Values) -> np.ndarray[Any, Any]:
    """Errors as a matrix: the last dimension across, all others down."""
    size = math.prod(value.shape)
    errors = np.full(size, np.nan)
    kept = _record.kept_elements(size, value.native.size)
    errors[kept] = Errors(value.interpreted, value.native).absolute
    return errors.reshape(-1, value.shape[-1] if value.shape else 1)
