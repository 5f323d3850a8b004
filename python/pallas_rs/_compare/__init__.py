"""A kernel against itself on the hardware: the same inputs, two runs, one verdict."""

from __future__ import annotations

from pallas_rs._compare._compare import compare as compare
from pallas_rs._compare._comparison import Comparison as Comparison
from pallas_rs._compare._measure import OutputComparison as OutputComparison
from pallas_rs._compare._record import load_comparison as load_comparison
