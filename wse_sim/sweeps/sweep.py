"""Plan programs for all combinations of machines, modes, batch sizes, numbers of systems and of input workers."""

import itertools
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
    workers: Sequence[int] = (),
    precision_level: int | None = None,
    has_routes: bool = False,
    has_resources: bool = False,
    has_digests: bool = True,
    on_record: Callable[[SweepRecord], object] = lambda record: None,
) -> list[SweepRecord]:
    """Return a record for each combination.

    The order is: programs, batch sizes, machines, numbers of systems, numbers of input workers, modes, with modes
    changing fastest.

    - `programs`: programs or recorded steps by name, or a single one, which is then named "step"
    - `machines`: machines or their names
    - `modes`: "auto", "pipelined" or "streaming"
    - `batches`: batch sizes; without any, each step's own size. Only recorded steps support other sizes
    - `systems`: numbers of systems; if empty, the number that each step requests
    - `workers`: numbers of input workers of one system, each in place of that of `host`; if empty, that of `host`
    - `executor`: a `concurrent.futures` executor of threads, processes or a cluster. It gets points in groups that use
      the same prices. Without it, points are planned in this thread
    - `path`: a file for the records. Each record is written when it is planned, or when its group is. Points whose
      records are in the file already are not planned again
    - `host`: the computers around the wafers
    - `precision_level`: one of `PRECISION_LEVELS`; by default that of each program
    - `has_routes`: whether records of pipelines include the routes between stages
    - `has_resources`: whether records include the shares of resources (`resource_shares`); a point then takes several
      times as long. Records that the file has already stay as they are
    - `has_digests`: if False, records of a single program without executor and file have no digest, which saves time
      for deep networks
    - `on_record`: called with each record when it is planned; an error that it raises ends the sweep. Without an
      executor the calls have the order of the result

    A point that cannot be planned gives a record with its `error`, and the sweep continues. Raise LazyError for unknown
    names, and for a file of another sweep. Raise ExecutorLost if the executor dies; the file then contains everything
    that it finished.

    >>> import lazytensor as lt
    >>> records = sweep(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), ["wse2", "wse3"], ["streaming"])
    >>> [record.machine for record in records]
    ['wse2', 'wse3']
    """
    steps = programs if isinstance(programs, Mapping) else {"step": programs}
    # A machine that is given twice, as an object and by name, counts once.
    places = {m.name: m for m in map(Machine.of, machines)}
    # Digests identify programs, points in a file, and steps that were sent to another process.
    digest = (
        _step_digest if has_digests or len(steps) > 1 or executor is not None or path is not None else _empty_digest
    )
    tasks = [
        replace(task, has_routes=has_routes, has_resources=has_resources)
        for task in _make_tasks(steps, places, modes, batches, systems, workers, host, precision_level, digest)
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
        # If the sweep ends early, closing the generator cancels tasks that the executor has not started.
        for record in stack.enter_context(closing(_plan_all(missing, executor))):
            if file is not None:
                file.append(record)
            records[record.point.key] = record
            on_record(record)
    return [records[task.point.key] for task in tasks]


def _plan_all(tasks: Iterable[SweepTask], executor: Executor | None) -> Generator[SweepRecord]:
    """Yield the records of tasks, planned here in order or by an executor in order of completion."""
    if executor is None:
        yield from map(plan_task, attach_readings(tasks))
    else:
        yield from execute_tasks(_pack_tasks(tasks), executor)


def _pack_tasks(tasks: Iterable[SweepTask]) -> list[SweepTask]:
    """Return the tasks with their steps pickled, each distinct step once, by digest.

    Raise LazyError if a step cannot be pickled.
    """
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
    workers: Sequence[int],
    host: Host,
    precision_level: int | None,
    digest_of: Callable[[SweepStep], str],
) -> Iterator[SweepTask]:
    """Yield a task for each combination, in the order that `sweep` describes. Repeated values count once.

    Empty `batches`, `systems` or `workers` give the default of the step or of `host`. Raise LazyError for unknown
    modes, for numbers below 1, and if two programs are equal.
    """
    # Check arguments before planning: a wrong name is no result of a point.
    for mode in modes:
        require_mode(mode)
    counts = (("batch size", batches), ("number of systems", systems), ("number of input workers", workers))
    for what, numbers in counts:
        if wrong := [n for n in numbers if n < 1]:
            raise LazyError(f"the {what} is {wrong[0]}", hint="Use integers of at least 1.")
    named: dict[str, str] = {}
    for name, step in programs.items():
        digest = digest_of(step)
        if digest in named:
            raise LazyError(f"{named[digest]} and {name} are the same program", hint="Leave out one of them.")
        named[digest] = name
        sizes = _unique(batches) or [_default_batch(step)]
        system_counts, worker_counts = _unique(systems) or [_default_systems(step)], _unique(workers) or [host.workers]
        # Batch sizes are the outer loop, so that kernel prices are reused for all modes and systems.
        for size, machine, count, worker_count, mode in itertools.product(
            sizes, machines.values(), system_counts, worker_counts, _unique(modes)
        ):
            point = SweepPoint(
                program=name,
                digest=digest,
                machine=machine.name,
                mode=mode,
                batch_size=size,
                systems=count,
                workers=worker_count,
            )
            yield SweepTask(point, step, machine, replace(host, workers=worker_count), precision_level)


def _unique(values: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _default_batch(step: SweepStep) -> int:
    """Return the batch size of a program, or that of the script for a recorded step."""
    return wire(step).batch_size if isinstance(step, Program) else step.batch_size


def _default_systems(step: SweepStep) -> int:
    """Return the number of systems that a step requests."""
    return step.systems if isinstance(step, Program) else step.program(step.batch_size).systems


def _step_digest(step: SweepStep) -> str:
    """Return the digest of a program, or of a recorded step at the script's batch size.

    A program and a recorded step of the same content have different digests.
    """
    # A recorded step is cut into micro-batches differently from a program, so the digests differ.
    lone = isinstance(step, Program)
    program = step if isinstance(step, Program) else step.program(step.batch_size)
    return content_digest(["program" if lone else "family", program])


def _empty_digest(step: SweepStep) -> str:
    """Return "" for any step."""
    return ""


def _machine_numbers(machine: Machine) -> dict[str, Any]:
    """Return the fields of a machine except `sources`."""
    # Corrected sources do not change the machine.
    return {name: value for name, value in vars(machine).items() if name != "sources"}


def _installed_release() -> str:
    """Return the version of the installed package, or "" if it is not installed."""
    try:
        return metadata.version("lazywafer")
    except metadata.PackageNotFoundError:
        return ""
