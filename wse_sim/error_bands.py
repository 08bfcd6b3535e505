"""Error bands of the planner: how far planned rates of training runs and of serving were from published ones.

The figures come from `validation/whole_runs.json` and `validation/served_rates.json`, which `lazywafer validate
--record` writes.
"""

import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

WHOLE_RUNS_FILE = pathlib.Path(__file__).parent / "validation" / "whole_runs.json"
"""Path of the JSON file with the recorded runs."""
SERVED_RATES_FILE = WHOLE_RUNS_FILE.with_name("served_rates.json")
"""Path of the JSON file with the recorded rates of serving."""
MIN_FAMILY_RUNS = 3
"""Minimum number of runs in a family. With fewer runs, `error_band` uses the next wider family."""


def error_factor(published: float, planned: float) -> float:
    """Return the larger of published / planned and planned / published, which is at least 1; inf if `planned` is 0.

    `planned` is 0 for a run that the planner refused.
    """
    return max(published / planned, planned / published) if planned else float("inf")


@dataclass(frozen=True)
class ErrorBand:
    """The error factors of `rows` runs of one family: their median and their maximum. See `error_factor`."""

    family: str
    rows: int
    median: float
    worst: float

    def text(self, noun: str = "run") -> str:
        """Return the error band as a sentence for a report; `noun` is what was published."""
        rows = noun if self.rows == 1 else f"{noun}s"
        return (
            f"Error band: plans of {self.rows} published {rows} ({self.family}) were off by a factor of "
            f"{self.median:.2f} in the median and {self.worst:.2f} at worst (`lazywafer validate`)."
        )


def make_error_band(family: str, factors: Iterable[float]) -> ErrorBand | None:
    """Return the error band of `factors`, or None if `factors` is empty."""
    known = list(factors)
    return ErrorBand(family, len(known), median(known), max(known)) if known else None


def error_band(mode: str, machine: str) -> ErrorBand | None:
    """Return the error band of the published runs that are most similar to a plan, or None if there are no test runs.

    The runs are those with the same `mode` and `machine`. If they are fewer than `MIN_FAMILY_RUNS`, the runs of the
    same mode are used, and otherwise all runs. Runs that a constant was fitted on (`is_test` false) do not count.
    """
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
    """Return the recorded runs, and read their file at the first call only.

    A run is a dict with its id, machine, mode, published and planned samples/s, `is_test` and further fields.
    """
    return tuple(json.loads(WHOLE_RUNS_FILE.read_text(encoding="utf-8"))["runs"])


def serving_band(kind: str, machine: str, has_experts: bool) -> ErrorBand | None:
    """Return the error band of the published rates of serving of one `kind`, or None if there are no test rows.

    `kind` is "decoding", "prefill" or "requests". Dense models and mixtures of experts (`has_experts`) have separate
    bands. The rows are those of the same `machine`, or those of all machines if they are fewer than `MIN_FAMILY_RUNS`.
    Rows that a constant was fitted on do not count.
    """
    keys = {"kind": kind, "has_experts": has_experts, "is_test": True}
    rows = [row for row in load_served_rates() if all(row[key] == value for key, value in keys.items())]
    same = [row for row in rows if row["machine"] == machine]
    family = f"{kind}, {'mixtures of experts' if has_experts else 'dense models'}"
    family, members = (f"{family}, {machine}", same) if len(same) >= MIN_FAMILY_RUNS else (family, rows)
    return make_error_band(family, (error_factor(row["published"], row["planned"]) for row in members))


@cache
def load_served_rates() -> tuple[Mapping[str, Any], ...]:
    """Return the recorded rates of serving, and read their file at the first call only.

    A rate is a dict with its id, kind, machine, `has_experts`, published and planned tokens/s, and `is_test`.
    """
    return tuple(json.loads(SERVED_RATES_FILE.read_text(encoding="utf-8"))["rates"])
