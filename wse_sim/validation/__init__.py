"""Compare the machine model with published measurements, or with a user's.

`python -m wse_sim.validation` or `lazywafer validate` prints the table. `measured.json` contains the figures with their
experiments and sources; its format is that of `--rows FILE`. `models` has the phase program of each kernel.
"""

from wse_sim.validation.results import RowResult, results, summary
from wse_sim.validation.rows import MeasuredRow, load

__all__ = ["RowResult", "MeasuredRow", "load", "results", "summary"]
