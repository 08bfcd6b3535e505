"""Plan single points of a sweep, and distribute many of them over an executor."""

import pickle
import threading
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, islice
from uuid import uuid4

from lazytensor.errors import ExecutorLost, LazyError
from lazytensor.ir.program import Program
from wse_sim.host import Host
from wse_sim.machine import Machine
from wse_sim.planner.modes import Source, plan
from wse_sim.planner.modes.mode_plan import AnalysisCache
from wse_sim.planner.prices import Prices
from wse_sim.planner.resource_shares import ResourceShare, resource_shares
from wse_sim.sweeps.sweep_record import SweepPoint, SweepRecord, make_failed_record, make_record

SweepStep = Program | Source
MAX_GROUPS_IN_FLIGHT = 64
"""Maximum number of groups submitted at a time: more than there are processes, and few enough for memory."""
MAX_GROUP_TASKS = 8
"""Maximum number of tasks in a group. If a process dies, its whole group has to be planned again."""
_MAX_KEPT_ENTRIES = 4
RESUME_HINT = (
    "Run the sweep again with another executor or without one. Finished points are kept if the sweep has a file "
    "(path=...)."
)


@dataclass(frozen=True)
class SweepTask:
    """A point of a sweep with everything that is needed to plan it.

    - `point`: the point
    - `step`: the program or recorded step, or its pickled form
    - `machine`, `host`, `precision_level`: as in `plan`
    - `has_routes`: whether the record includes routes
    - `has_resources`: whether the record includes the shares of resources
    - `readings`: data-flow facts shared with other tasks of the same step
    """

    point: SweepPoint
    step: SweepStep | bytes
    machine: Machine
    host: Host
    precision_level: int | None
    has_routes: bool = False
    has_resources: bool = False
    readings: AnalysisCache | None = field(default=None, repr=False, compare=False)


def plan_task(task: SweepTask) -> SweepRecord:
    """Return the record of a task. If planning raises an error, the record contains it; nothing is raised.

    A mode that was not requested is planned only with "auto". Prices are shared by all tasks of this thread.
    """
    point = task.point
    # An error in one point must not end the sweep.
    try:
        step = _unpack_step(task.step) if isinstance(task.step, bytes) else task.step
        whole = plan(
            step,
            task.machine,
            point.mode,
            point.batch_size,
            point.systems,
            task.host,
            _thread_prices(task.machine),
            other=point.mode == "auto",
            precision_level=task.precision_level,
            readings=task.readings,
        ).report
        resources: tuple[ResourceShare, ...] = ()
        if task.has_resources:
            resources = resource_shares(
                step,
                task.machine,
                whole.mode,
                point.batch_size,
                point.systems,
                task.host,
                _thread_prices(task.machine),
                precision_level=task.precision_level,
                readings=task.readings,
            )
        return make_record(point, whole, task.has_routes, resources)
    except Exception as error:
        return make_failed_record(point, error)


def pack_step(step: SweepStep, name: str) -> bytes:
    """Return a step as compressed pickle. Raise LazyError if it contains objects that cannot be pickled.

    `name` is used in the message.
    """
    try:
        # Compression shrinks GPT-2's program to a thirteenth, and it is sent with each point.
        return zlib.compress(pickle.dumps(step, pickle.HIGHEST_PROTOCOL), 1)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        hint = "Pass programs or recorded steps (lazytensor.core.abstract_step.record), or sweep without an executor."
        raise LazyError(f"{name} cannot be sent to another process: {e}", hint=hint) from e


# Tasks of one program follow each other, so a small cache suffices.
@lru_cache(maxsize=_MAX_KEPT_ENTRIES)
def _unpack_step(step: bytes) -> SweepStep:
    """Return the step that `pack_step` packed. The last `_MAX_KEPT_ENTRIES` steps are cached."""
    whole: SweepStep = pickle.loads(zlib.decompress(step))
    return whole


_thread_state = threading.local()


def _thread_prices(machine: Machine) -> Prices:
    """Return the prices of a machine, cached per thread for `_MAX_KEPT_ENTRIES` machines.

    They are not shared between threads, because a `Prices` object numbers the kernels that it sees.
    """
    known: dict[Machine, Prices] = _thread_state.__dict__.setdefault("prices", {})
    if machine not in known and len(known) == _MAX_KEPT_ENTRIES:
        # Points cycle through the machines, so no entry is better to evict than another.
        known.clear()
    return known.setdefault(machine, Prices(machine))


def attach_readings(tasks: Iterable[SweepTask]) -> Iterator[SweepTask]:
    """Yield the tasks in order with data-flow facts, shared by successive tasks of the same step and batch size.

    A step is the same if it is the same object. The tasks have to be planned in one thread.
    """
    # Keep facts for one batch size only, so that memory does not grow during a long sweep.
    for _, own in groupby(tasks, lambda task: (id(task.step), task.point.batch_size)):
        readings = AnalysisCache()
        yield from (replace(task, readings=readings) for task in own)


def plan_tasks(tasks: Iterable[SweepTask], ticket: str = "") -> list[SweepRecord]:
    """Return the records of tasks, planned one after the other.

    `ticket` makes calls distinct. Some executors treat equal calls as one, so a repeated call would wait for a
    cancelled one.
    """
    return [plan_task(task) for task in attach_readings(tasks)]


def group_tasks(tasks: Iterable[SweepTask]) -> list[list[SweepTask]]:
    """Return the tasks in groups of at most `MAX_GROUP_TASKS` that use the same prices, largest groups first.

    A group has one program, machine and requested mode, and batch sizes that differ by powers of two only. Such batches
    share prices, because systems and micro-batches halve them. Modes use different prices, because they have different
    resident operands. Tasks keep their order in a group.
    """
    groups: dict[tuple[object, ...], list[list[SweepTask]]] = {}
    for task in tasks:
        point, batch = task.point, task.point.batch_size
        # Divide by the lowest set bit, which is the largest power of two in the batch size.
        among = groups.setdefault((point.digest, task.machine, point.mode, batch // (batch & -batch)), [[]])
        if len(among[-1]) == MAX_GROUP_TASKS:
            among.append([])
        among[-1].append(task)
    # Put small groups last, so that no process waits long for the last of the others.
    return sorted((group for among in groups.values() for group in among), key=len, reverse=True)


def execute_tasks(tasks: Iterable[SweepTask], executor: Executor) -> Iterator[SweepRecord]:
    """Yield the records of tasks as an executor finishes them, group by group.

    Raise ExecutorLost if the executor dies or refuses tasks, after yielding all records that it finished. Tasks that
    have not started are cancelled if the caller stops.
    """
    # Processes do not share prices, so tasks with the same prices go to the same process.
    rest, waiting = iter(group_tasks(tasks)), set[Future[list[SweepRecord]]]()
    lost: Exception | None = None
    try:
        while lost is None:
            lost = _submit_groups(islice(rest, MAX_GROUPS_IN_FLIGHT - len(waiting)), executor, waiting)
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            # A broken pool fails all pending futures, but finished ones have valid results.
            for outcome in map(_group_outcome, done if lost is None else done | {f for f in waiting if f.done()}):
                if isinstance(outcome, list):
                    yield from outcome
                else:
                    lost = outcome
    finally:
        # Cancel also if the caller stops iterating.
        for future in waiting:
            future.cancel()
    if lost is not None:
        raise ExecutorLost(f"the executor has failed: {type(lost).__name__}: {lost}", hint=RESUME_HINT) from lost


def _submit_groups(
    groups: Iterable[list[SweepTask]], executor: Executor, waiting: set[Future[list[SweepRecord]]]
) -> Exception | None:
    """Submit groups and add their futures to `waiting`.

    Return the error if the executor accepts no more, else None. Groups after an error are not submitted.
    """
    try:
        waiting.update(executor.submit(plan_tasks, group, uuid4().hex) for group in groups)
    except Exception as error:
        return error
    return None


def _group_outcome(future: Future[list[SweepRecord]]) -> list[SweepRecord] | Exception:
    """Return the records of a finished group, or the error of its executor."""
    # `plan_task` never raises, so any error comes from the executor.
    try:
        return future.result()
    except Exception as error:
        return error
