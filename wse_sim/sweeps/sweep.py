"""`sweep`: plans of programs for all combinations of machines, modes, batches and systems."""

import os
import pathlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from lazytensor.errors import LazyError
from lazytensor.ir.program import Program
from wse_sim.host import APPLIANCE, Host
from wse_sim.machine import Machine
from wse_sim.plan.modes import Source, plan, require_mode
from wse_sim.plan.prices import Prices
from wse_sim.plan.wiring import wire
from wse_sim.sweeps.digest import content_digest
from wse_sim.sweeps.sweep_file import SweepFile
from wse_sim.sweeps.sweep_record import Point, SweepRecord, failed, record_of

Step = Program | Source


@dataclass(frozen=True)
class Task:
    """A point with all that it takes to plan it."""

    point: Point
    step: Step
    machine: Machine
    host: Host
    precision_level: int


def sweep(
    programs: Mapping[str, Step],
    machines: Sequence[Machine | str] = ("wse2",),
    modes: Sequence[str] = ("auto",),
    batches: Sequence[int] = (),
    systems: Sequence[int] = (1,),
    *,
    path: str | os.PathLike[str] | None = None,
    host: Host = APPLIANCE,
    precision_level: int = 1,
) -> list[SweepRecord]:
    """A record for each combination, in the order batches, machines, systems, modes for each program.

    `programs` are programs or recorded steps by name; only a step knows itself for other batches than its own, which is
    planned without `batches`. A point that cannot be planned is a record with its error, and the others go on.
    With `path` each record is in that file before the next point ends, and a sweep that finds points in the file does
    not plan them again. Raises LazyError for names that there are not, and for a file of another sweep.
    """
    # By name: a machine that is asked for twice, as a record and by its name, is one.
    places = {m.name: m for m in (Machine.by_name(m) if isinstance(m, str) else m for m in machines)}
    tasks = list(_tasks(programs, places, modes, batches, systems, host, precision_level))
    facts = {
        "release": _release(),
        "precision_level": precision_level,
        "host": content_digest({name: value for name, value in vars(host).items() if name != "sources"}),
        "machines": {name: content_digest(_numbers(machine)) for name, machine in places.items()},
    }
    records: dict[Any, SweepRecord] = {}
    with ExitStack() as stack:
        points = [task.point for task in tasks]
        file = stack.enter_context(SweepFile(pathlib.Path(path), facts, points)) if path is not None else None
        if file is not None:
            records.update(file.records)
        for record in _planned(task for task in tasks if task.point.key not in records):
            if file is not None:
                file.append(record)
            records[record.point.key] = record
    return [records[task.point.key] for task in tasks]


def plan_task(task: Task) -> SweepRecord:
    """The record of a task; it raises nothing."""
    point = task.point
    try:
        whole = plan(
            task.step,
            task.machine,
            point.mode,
            point.batch_size,
            point.systems,
            task.host,
            _prices(task.machine),
            other=point.mode == "auto",
            precision_level=task.precision_level,
        )
        return record_of(point, whole.report)
    # One point must not end a sweep of a night, whatever is wrong with it.
    except Exception as error:
        return failed(point, error)


def _planned(tasks: Iterable[Task]) -> Iterator[SweepRecord]:
    return map(plan_task, tasks)


def _tasks(
    programs: Mapping[str, Step],
    machines: Mapping[str, Machine],
    modes: Sequence[str],
    batches: Sequence[int],
    systems: Sequence[int],
    host: Host,
    precision_level: int,
) -> Iterator[Task]:
    # Before anything is planned: a mistake in a name is no result of a point.
    for mode in modes:
        require_mode(mode)
    for what, numbers in (("batch", batches), ("number of systems", systems)):
        if wrong := [n for n in numbers if n < 1]:
            raise LazyError(f"there is no {what} {wrong[0]}", hint="Give whole numbers from 1 on.")
    named: dict[str, str] = {}
    for name, step in programs.items():
        digest = _digest(step)
        if digest in named:
            raise LazyError(f"{named[digest]} and {name} are one program", hint="Leave out one of them.")
        named[digest] = name
        # Batches first: what a kernel takes at one size is known for all modes and systems then.
        for size in _unique(batches) or [_own_batch(step)]:
            for machine in machines.values():
                for count in _unique(systems):
                    for mode in _unique(modes):
                        point = Point(
                            program=name,
                            digest=digest,
                            machine=machine.name,
                            mode=mode,
                            batch_size=size,
                            systems=count,
                        )
                        yield Task(point, step, machine, host, precision_level)


def _unique(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _own_batch(step: Step) -> int:
    return wire(step).batch_size if isinstance(step, Program) else step.batch_size


def _digest(step: Step) -> str:
    # A step that is known for any batch is cut into micro-batches otherwise than a lone program.
    lone = isinstance(step, Program)
    program = step if isinstance(step, Program) else step.program(step.batch_size)
    return content_digest(["program" if lone else "family", program])


def _numbers(machine: Machine) -> dict[str, Any]:
    # Where a number is from may be told better one day, and the machine stays the same.
    return {name: value for name, value in vars(machine).items() if name != "sources"}


def _release() -> str:
    try:
        return metadata.version("lazywafer")
    except metadata.PackageNotFoundError:
        return ""


_own = threading.local()
_KEPT = 4


def _prices(machine: Machine) -> Prices:
    """The prices of a machine, kept from task to task; of each thread its own, since they number what they see."""
    known: dict[Machine, Prices] = _own.__dict__.setdefault("prices", {})
    if machine not in known and len(known) == _KEPT:
        # Points come in the order of machines, over and over: whichever goes may be asked for again.
        known.clear()
    return known.setdefault(machine, Prices(machine))
