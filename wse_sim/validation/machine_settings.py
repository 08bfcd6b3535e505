"""Other machines for the rows: the presets with fields that the user sets."""

import math
from collections.abc import Iterable
from dataclasses import fields, replace

from lazytensor.errors import LazyError
from wse_sim.machine import MACHINES, NUMERIC_FIELDS, Machine, canonical_machine_name
from wse_sim.validation.near_names import near_names

_WHOLE_FIELDS = frozenset(f.name for f in fields(Machine) if f.type is int)


def set_machines(settings: Iterable[str]) -> dict[str, Machine]:
    """Return name -> machine for the presets that `settings` change. A setting is "MACHINE.FIELD=NUMBER".

    Settings apply in order. The source of a changed number is "set by the user". Raise LazyError for a setting that has
    another form, an unknown machine or field, with the names that are similar, and for a number that the machine does
    not allow.
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
        if field not in NUMERIC_FIELDS:
            raise LazyError(f"a machine has no field {field!r}", hint=f"Use {near_names(field, NUMERIC_FIELDS)}.")
        machine = machines.get(spelled, MACHINES[spelled])
        sources = {**machine.sources, field: "set by the user"}
        machines[spelled] = replace(machine, **{field: _parse_number(field, text)}, sources=sources)  # type: ignore[arg-type]
    return machines


def _parse_number(field: str, text: str) -> float:
    """Return the number of a field: an int for a field that counts, else a float. Raise LazyError for another text."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (field in _WHOLE_FIELDS and number != int(number)):
        kind = "a whole number" if field in _WHOLE_FIELDS else "a number"
        raise LazyError(f"--set takes {kind} for {field}, got {text!r}", hint="Write it with digits, as 2 or 1.5.")
    return int(number) if field in _WHOLE_FIELDS else number


def describe_settings(machines: dict[str, Machine]) -> list[str]:
    """Return a line for each field in which a machine differs from its preset, with both numbers."""
    return [
        f"{name}.{field} = {getattr(machine, field):g} (the record has {getattr(MACHINES[name], field):g})"
        for name, machine in machines.items()
        for field in NUMERIC_FIELDS
        if getattr(machine, field) != getattr(MACHINES[name], field)
    ]
