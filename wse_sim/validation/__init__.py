"""Published measurements, and what the machine model says about each of them.

`python -m wse_sim.validation` or `lazywafer validate` prints the table. `measured.json` holds the figures with their
sources, `coverage` says why a row is not covered, which rows a constant was fitted on, and why an error is large;
`models` holds the phase program behind each family of rows.
"""

from wse_sim.validation.results import RowResult, results, summary
from wse_sim.validation.rows import MeasuredRow, load

__all__ = ["RowResult", "MeasuredRow", "load", "results", "summary"]
