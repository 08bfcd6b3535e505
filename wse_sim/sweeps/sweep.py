"""`sweep`: plans of programs for all combinations of machines, modes, batches and systems."""

import os
import pathlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import replace
from importlib import metadata
from typing import Any

from lazytensor.errors import LazyError
from lazytensor.ir.program import Program
from wse_sim.host import APPLIANCE, Host
from wse_sim.machine import Machine
from wse_sim.planner.dataflow import wire
from wse_sim.planner.modes import require_mode
from wse_sim.sweeps.digest import content_digest
from wse_sim.sweeps.sweep_file import SweepFile
from wse_sim.sweeps.sweep_record import SweepPoint, SweepRecord
from wse_sim.sweeps.tasks import SweepStep, SweepTask, attach_readings, execute_tasks, pack_step, plan_task


def sweep(
    programs: Mapping[str, SweepStep] | SweepStep,
    machines: Sequence[Machine | str] = ("wse2",),
    modes: Sequence[str] = ("auto",),
    batches: Sequence[int] = (),
    systems: Sequence[int] = (1,),
    executor: Executor | None = None,
    *,
    path: str | os.PathLike[str] | None = None,
    host: Host = APPLIANCE,
    precision_level: int | None = None,
    has_routes: bool = False,
    has_digests: bool = True,
    on_record: Callable[[SweepRecord], object] = lambda record: None,
) -> list[SweepRecord]:
    """A record for each combination, in the order batches, machines, systems, modes for each program.

    `programs` are programs or recorded steps by name, or one of them alone, which is called "step"; only a recorded
    step knows itself for other batches than its own, which is planned without `batches`. Without
    `systems` each step is planned on as many as it asks for. A point that cannot be
    planned is a record with its error, and the others go on. Points are planned here, or by a `concurrent.futures`
    executor: threads, processes, a cluster's, in groups of a few that ask for the same prices. With `path` each record
    is in that file before the next point ends, and those of a group when it does; a sweep that finds points in the file
    does not plan them again. With `has_routes` records of pipelines have the routes between their stages. Without
    `has_digests` those of a lone program, planned here and in no file, have no digest, which takes a while for a deep
    net. `on_record` is called with each record when it is planned, without an executor in the order of the result; what
    it raises ends the sweep. Raises LazyError for names that there are not, and for a file of another sweep;
    ExecutorLost where the executor dies, when all that it finished is in the file.

    >>> import lazytensor as lt
    >>> records = sweep(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), ["wse2", "wse3"], ["streaming"])
    >>> [record.machine for record in records]
    ['wse2', 'wse3']
    """
    steps = programs if isinstance(programs, Mapping) else {"step": programs}
    # By name: a machine that is asked for twice, as a record and by its name, is one.
    places = {m.name: m for m in (Machine.by_name(m) if isinstance(m, str) else m for m in machines)}
    # Programs are told apart by it, points of a file, and what was sent to another process.
    digest = (
        _step_digest if has_digests or len(steps) > 1 or executor is not None or path is not None else _empty_digest
    )
    tasks = [
        replace(task, has_routes=has_routes)
        for task in _make_tasks(steps, places, modes, batches, systems, host, precision_level, digest)
    ]
    facts = {
        "release": _installed_release(),
        "precision_level": precision_level,
        "host": content_digest({name: value for name, value in vars(host).items() if name != "sources"}),
        "machines": {name: content_digest(_machine_numbers(machine)) for name, machine in places.items()},
    }
    records: dict[Any, SweepRecord] = {}
    with ExitStack() as stack:
        points = [task.point for task in tasks]
        file = stack.enter_context(SweepFile(pathlib.Path(path), facts, points)) if path is not None else None
        if file is not None:
            records.update(file.records)
        missing = [task for task in tasks if task.point.key not in records]
        # A stop on the way takes back what the executor has not begun.
        for record in stack.enter_context(closing(_plan_all(missing, executor))):
            if file is not None:
                file.append(record)
            records[record.point.key] = record
            on_record(record)
    return [records[task.point.key] for task in tasks]


def _plan_all(tasks: Iterable[SweepTask], executor: Executor | None) -> Generator[SweepRecord]:
    if executor is None:
        yield from map(plan_task, attach_readings(tasks))
    else:
        yield from execute_tasks(_pack_tasks(tasks), executor)


def _pack_tasks(tasks: Iterable[SweepTask]) -> list[SweepTask]:
    """Tasks that can be sent, each step of them packed once."""
    steps: dict[str, bytes] = {}
    ready = []
    for task in tasks:
        digest, name = task.point.digest, task.point.program
        if digest not in steps and not isinstance(task.step, bytes):
            steps[digest] = pack_step(task.step, name)
        ready.append(replace(task, step=steps[digest]))
    return ready


def _make_tasks(
    programs: Mapping[str, SweepStep],
    machines: Mapping[str, Machine],
    modes: Sequence[str],
    batches: Sequence[int],
    systems: Sequence[int],
    host: Host,
    precision_level: int | None,
    digest_of: Callable[[SweepStep], str],
) -> Iterator[SweepTask]:
    # Before anything is planned: a mistake in a name is no result of a point.
    for mode in modes:
        require_mode(mode)
    for what, numbers in (("batch", batches), ("number of systems", systems)):
        if wrong := [n for n in numbers if n < 1]:
            raise LazyError(f"there is no {what} {wrong[0]}", hint="Give whole numbers from 1 on.")
    named: dict[str, str] = {}
    for name, step in programs.items():
        digest = digest_of(step)
        if digest in named:
            raise LazyError(f"{named[digest]} and {name} are one program", hint="Leave out one of them.")
        named[digest] = name
        # Batches first: what a kernel takes at one size is known for all modes and systems then.
        for size in _unique(batches) or [_default_batch(step)]:
            for machine in machines.values():
                for count in _unique(systems) or [_default_systems(step)]:
                    for mode in _unique(modes):
                        point = SweepPoint(
                            program=name,
                            digest=digest,
                            machine=machine.name,
                            mode=mode,
                            batch_size=size,
                            systems=count,
                        )
                        yield SweepTask(point, step, machine, host, precision_level)


def _unique(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _default_batch(step: SweepStep) -> int:
    return wire(step).batch_size if isinstance(step, Program) else step.batch_size


def _default_systems(step: SweepStep) -> int:
    return step.systems if isinstance(step, Program) else step.program(step.batch_size).systems


def _step_digest(step: SweepStep) -> str:
    # A step that is known for any batch is cut into micro-batches otherwise than a lone program.
    lone = isinstance(step, Program)
    program = step if isinstance(step, Program) else step.program(step.batch_size)
    return content_digest(["program" if lone else "family", program])


def _empty_digest(step: SweepStep) -> str:
    return ""


def _machine_numbers(machine: Machine) -> dict[str, Any]:
    # Where a number is from may be told better one day, and the machine stays the same.
    return {name: value for name, value in vars(machine).items() if name != "sources"}


def _installed_release() -> str:
    try:
        return metadata.version("lazywafer")
    except metadata.PackageNotFoundError:
        return ""
