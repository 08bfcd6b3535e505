"""Other machines for the rows: the presets with fields that the user sets."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.machine import MACHINES, NUMERIC_FIELDS, Machine, canonical_machine_name
from wse_sim.validation.near_names import near_names

MAX_NUMBER = 1e18
"""Largest number of a field. Clock and edge rates are below 1e13."""
_WHOLE_FIELDS = frozenset(f.name for f in fields(Machine) if f.type is int)


def set_machines(settings: Iterable[str]) -> dict[str, Machine]:
    """Return name -> machine for the presets that `settings` change. A setting is "MACHINE.FIELD=NUMBER".

    Settings apply in order. Raise LazyError for a setting that has another form, an unknown machine or field, with the
    names that are similar, and for a number that the machine does not allow.
    """
    machines: dict[str, Machine] = {}
    for setting in settings:
        target, equals, text = setting.partition("=")
        name, dot, field = target.strip().partition(".")
        if not (equals and dot and field):
            raise LazyError(f"--set takes MACHINE.FIELD=NUMBER, got {setting!r}", hint="Example: wse2.hop_cycles=2.")
        spelled = canonical_machine_name(name)
        if spelled not in MACHINES:
            raise LazyError(f"machine {name!r} is unknown", hint=f"Use {near_names(name, MACHINES)}.")
        machine = machines.get(spelled, MACHINES[spelled])
        machines[spelled] = replace_fields(machine, {field: _parse_number(text)}, "set by the user")
    return machines


def _parse_number(text: str) -> Any:
    """Return the number that a text has, or the text itself, which `replace_fields` refuses."""
    try:
        return float(text)
    except ValueError:
        return text


def replace_fields(machine: Machine, values: Mapping[str, Any], source: str) -> Machine:
    """Return `machine` with other numbers: field name -> number. `source` is the source of these numbers.

    Raise LazyError for an unknown field, with the names that are similar, and for a number that is not finite, not
    whole in a field that counts, or not allowed by `Machine`.
    """
    if not values:
        return machine
    numbers = {field: _check_number(field, value) for field, value in values.items()}
    sources = {**machine.sources, **dict.fromkeys(numbers, source)}
    return replace(machine, sources=sources, **numbers)  # type: ignore[arg-type]


def _check_number(field: str, value: Any) -> float:
    """Return the number of a field, as an int if the field counts. Raise LazyError as `replace_fields` does."""
    if field not in NUMERIC_FIELDS:
        what = f"a machine has no field {field!r}; use {near_names(field, NUMERIC_FIELDS)}"
        raise LazyError(what, hint="`wse_sim.Machine` describes the fields.")
    is_whole = field in _WHOLE_FIELDS
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER
    if not is_number or (is_whole and value != int(value)):
        what = f"field {field!r} of a machine is {value!r:.40}, not {'a whole number' if is_whole else 'a number'}"
        raise LazyError(what, hint=f"Give a number of at most {MAX_NUMBER:g}.")
    return int(value) if is_whole else float(value)


def describe_settings(machines: dict[str, Machine]) -> list[str]:
    """Return a line for each field in which a machine differs from its preset, with both numbers."""
    return [
        f"{name}.{field} = {getattr(machine, field):g} (the record has {getattr(MACHINES[name], field):g})"
        for name, machine in machines.items()
        for field in NUMERIC_FIELDS
        if getattr(machine, field) != getattr(MACHINES[name], field)
    ]
