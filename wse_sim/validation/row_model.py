"""A model of rows: the parameters that it needs, the units that it gives, and the check of a row against both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.layout import Rect
from wse_sim.machine import MACHINES, Machine, canonical_machine_name
from wse_sim.phase import Phase
from wse_sim.validation.machine_settings import replace_fields
from wse_sim.validation.near_names import near_names
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

REQUIRED = object()
"""Default of a parameter that a row has to give."""
MAX_EXTENT = 10_000_000
"""Largest number in a row's parameters. Larger ones are no experiment on a wafer of 1 GB of memory or less per core."""


class RowRefused(LazyError):
    """A row that cannot be predicted; `what` is the reason."""


@dataclass(frozen=True)
class RowParam:
    """A parameter of a row.

    - `meaning`: what it is, with its unit and the values that are allowed
    - `check`: function that returns the value that a model uses; it raises ValueError for a value that is not allowed
    - `default`: the value if the row does not give one, or `REQUIRED`
    """

    meaning: str
    check: Callable[[Any], Any]
    default: Any = REQUIRED


def whole_number(meaning: str, default: Any = REQUIRED, least: int = 1) -> RowParam:
    """Return a parameter that is a whole number from `least` to `MAX_EXTENT`."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_EXTENT:
            raise ValueError(f"a whole number from {least} to {MAX_EXTENT:,}")
        return value

    return RowParam(meaning, check, default)


def positive_number(meaning: str, default: Any = REQUIRED) -> RowParam:
    """Return a parameter that is a positive number of at most 1e15."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e15:
            raise ValueError("a positive number of at most 1e15")
        return float(value)

    return RowParam(meaning, check, default)


def extents(meaning: str, count: int = 2, default: Any = REQUIRED) -> RowParam:
    """Return a parameter that is a list of `count` whole numbers from 1 to `MAX_EXTENT`. Models get a tuple."""

    def check(value: Any) -> tuple[int, ...]:
        is_list = isinstance(value, list | tuple) and len(value) == count
        if not is_list or not all(type(v) is int and 1 <= v <= MAX_EXTENT for v in value):
            raise ValueError(f"a list of {count} whole numbers from 1 to {MAX_EXTENT:,}")
        return tuple(value)

    return RowParam(meaning, check, default)


def one_of(meaning: str, *allowed: Any, default: Any = REQUIRED) -> RowParam:
    """Return a parameter that is one of the `allowed` texts or truth values."""

    def check(value: Any) -> Any:
        # Types are compared too: 1 == True.
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise ValueError(f"one of {', '.join(map(str, allowed))}")
        return value

    return RowParam(f"{meaning} ({', '.join(map(str, allowed))})", check, default)


GRID = extents("columns and rows of PEs")


@dataclass(frozen=True)
class RowCase:
    """The experiment of a row, checked, on the machine that it is predicted for.

    - `params`: all parameters of the kernel
    - `machine`: the machine
    - `reading`: function (phase, machine) that returns cycles
    """

    params: Mapping[str, Any]
    machine: Machine
    reading: CycleReading

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def cycles(self, phase: Phase) -> float:
        """Return the cycles of a phase on the machine."""
        return self.reading(phase, self.machine)

    def seconds(self, phase: Phase) -> float:
        """Return the seconds of a phase on the machine."""
        return self.cycles(phase) / self.machine.clock_hz

    def rect(self, name: str = "grid") -> Rect:
        """Return the rectangle at (0, 0) with the columns and rows of a parameter.

        Raise RowRefused if the machine has fewer.
        """
        width, height = self.params[name]
        return self.fit(Rect(0, 0, width, height), name)

    def square(self, name: str = "grid") -> Rect:
        """Return the rectangle of a parameter. Raise RowRefused if it is not square or does not fit the machine."""
        rect = self.rect(name)
        if rect.width != rect.height:
            raise RowRefused(f"the kernel needs as many columns as rows, got {name} [{rect.width}, {rect.height}]")
        return rect

    def fit(self, rect: Rect, name: str) -> Rect:
        """Return `rect`. Raise RowRefused, which names the parameter `name`, if it is larger than the machine."""
        m = self.machine
        if rect.width > m.width or rect.height > m.height:
            raise RowRefused(
                f"{name} of {rect.width} x {rect.height} PEs does not fit {m.name}, which has {m.width} x {m.height}"
            )
        return rect


@dataclass(frozen=True)
class RowModel:
    """A model of the rows of one kernel.

    - `summary`: the experiment, in a sentence
    - `params`: name -> parameter
    - `units`: unit -> function of a case that returns the figure in this unit; it raises LazyError if it has none
    - `is_simulated`: whether the figure depends on the reading of phases; if not, it is that of the closed forms
    """

    summary: str
    params: Mapping[str, RowParam]
    units: Mapping[str, Callable[[RowCase], float]]
    is_simulated: bool = True

    def figure(self, row: MeasuredRow, machine: Machine, reading: CycleReading) -> float:
        """Return the prediction of a row in its unit. Raise RowRefused, with the reason, if there is none.

        An UnsupportedPhaseError of `reading` propagates.
        """
        if row.unit not in self.units:
            raise RowRefused(
                f"kernel {row.kernel!r} has no figure in {row.unit!r}; use {near_names(row.unit, self.units)}"
            )
        case = RowCase(check_params(row, self.params), machine, reading)
        try:
            return self.units[row.unit](case)
        # Numbers that a user gives a machine may be far from those of any machine.
        except ArithmeticError as e:
            raise RowRefused(f"no figure for these numbers ({type(e).__name__}: {e})") from e


def check_params(row: MeasuredRow, known: Mapping[str, RowParam]) -> dict[str, Any]:
    """Return all `known` parameters of a row, with defaults for those that it does not give.

    Raise RowRefused for a parameter that is unknown, missing or not allowed.
    """
    for name in row.params:
        if name not in known:
            raise RowRefused(f"kernel {row.kernel!r} has no parameter {name!r}; use {near_names(str(name), known)}")
    values = {}
    for name, param in known.items():
        given = row.params.get(name)
        if given is None:
            if param.default is REQUIRED:
                raise RowRefused(f"parameter {name!r} is missing: {param.meaning}")
            values[name] = param.default
            continue
        try:
            values[name] = param.check(given)
        except ValueError as e:
            raise RowRefused(f"parameter {name!r} is {given!r:.60}, not {e}") from e
    return values


def find_machine(row: MeasuredRow, machines: Mapping[str, Machine]) -> Machine:
    """Return the machine of a row, that of `machines` or else the preset, with the row's `machine_fields`.

    Raise LazyError for an unknown machine or field, and for a number that is not allowed.
    """
    known, name = {**MACHINES, **machines}, row.machine
    spelled = name if name in known else canonical_machine_name(name)
    if spelled not in known:
        raise RowRefused(f"machine {name!r} is unknown; use {near_names(name, known)}, or CS-1, CS-2, CS-3")
    return replace_fields(known[spelled], row.machine_fields, "set by the row")
