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

RECORDED = pathlib.Path(__file__).parent / "validation" / "whole_runs.json"
FEWEST = 3
"""Runs that make a family of their own; where there are fewer the next wider family counts."""


def factor(published: float, planned: float) -> float:
    """How many times a planned figure is off, whichever way; infinite for a run that was refused."""
    return max(published / planned, planned / published) if planned else float("inf")


@dataclass(frozen=True)
class Band:
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


def band_of(family: str, factors: Iterable[float]) -> Band | None:
    """The band of some factors, or None if there are none."""
    known = list(factors)
    return Band(family, len(known), median(known), max(known)) if known else None


def error_band(mode: str, machine: str) -> Band | None:
    """The band of the published runs nearest to a plan: of its mode and machine, else of its mode, else of all."""
    runs = [run for run in recorded() if run["is_test"]]
    for family, keys in ((f"{mode}, {machine}", ("mode", "machine")), (mode, ("mode",)), ("all modes", ())):
        wanted = {"mode": mode, "machine": machine}
        members = [factor(run["published"], run["planned"]) for run in runs if all(run[k] == wanted[k] for k in keys)]
        if len(members) >= FEWEST or not keys:
            return band_of(family, members)
    return None


@cache
def recorded() -> tuple[Mapping[str, Any], ...]:
    """The runs as they were planned last: id, machine, mode, published and planned samples/s, is_test and the rest."""
    return tuple(json.loads(RECORDED.read_text(encoding="utf-8"))["runs"])
