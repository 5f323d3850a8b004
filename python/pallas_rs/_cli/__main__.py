"""``python -m pallas_rs._cli``: the command where its script is not installed."""

import sys

from pallas_rs._cli import main

sys.exit(main())
