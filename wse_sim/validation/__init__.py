"""Compare the machine model with published measurements.

`python -m wse_sim.validation` or `lazywafer validate` prints the table. `measured.json` contains the figures with their
sources. `coverage` explains which rows are not covered, which rows a constant was fitted on, and why an error is large.
`models` has the phase program of each family of rows.
"""

from wse_sim.validation.results import RowResult, results, summary
from wse_sim.validation.rows import MeasuredRow, load

__all__ = ["RowResult", "MeasuredRow", "load", "results", "summary"]
