"""How far planned training runs were from the published ones: what a report says of its own error.

The figures are what `lazywafer validate --record` wrote when it last planned the published runs.
"""

import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

WHOLE_RUNS_FILE = pathlib.Path(__file__).parent / "validation" / "whole_runs.json"
MIN_FAMILY_RUNS = 3
"""Runs that make a family of their own; where there are fewer the next wider family counts."""


def error_factor(published: float, planned: float) -> float:
    """How many times a planned figure is off, whichever way; infinite for a run that was refused."""
    return max(published / planned, planned / published) if planned else float("inf")


@dataclass(frozen=True)
class ErrorBand:
    """The factors between planned and published rates of a family of runs: how many runs, the median, the worst."""

    family: str
    rows: int
    median: float
    worst: float

    def text(self) -> str:
        """A sentence for a report."""
        runs = "run" if self.rows == 1 else "runs"
        return (
            f"Error band: {self.rows} published {runs} ({self.family}) came out off by a factor of {self.median:.2f} "
            f"in the median and {self.worst:.2f} at worst (`lazywafer validate`)."
        )


def make_error_band(family: str, factors: Iterable[float]) -> ErrorBand | None:
    """The band of some factors, or None if there are none."""
    known = list(factors)
    return ErrorBand(family, len(known), median(known), max(known)) if known else None


def error_band(mode: str, machine: str) -> ErrorBand | None:
    """The band of the published runs nearest to a plan: of its mode and machine, else of its mode, else of all."""
    runs = [run for run in load_recorded_runs() if run["is_test"]]
    for family, keys in ((f"{mode}, {machine}", ("mode", "machine")), (mode, ("mode",)), ("all modes", ())):
        wanted = {"mode": mode, "machine": machine}
        members = [
            error_factor(run["published"], run["planned"]) for run in runs if all(run[k] == wanted[k] for k in keys)
        ]
        if len(members) >= MIN_FAMILY_RUNS or not keys:
            return make_error_band(family, members)
    return None


@cache
def load_recorded_runs() -> tuple[Mapping[str, Any], ...]:
    """The runs as they were planned last: id, machine, mode, published and planned samples/s, is_test and the rest."""
    return tuple(json.loads(WHOLE_RUNS_FILE.read_text(encoding="utf-8"))["runs"])
