"""Planning of one point, here or in another process, and of many over an executor."""

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
from wse_sim.sweeps.sweep_record import SweepPoint, SweepRecord, make_failed_record, make_record

SweepStep = Program | Source
MAX_GROUPS_IN_FLIGHT = 64
"""Groups that an executor has at a time: more than processes, and fewer than would fill its memory."""
MAX_GROUP_TASKS = 8
"""Tasks of a group at most: what is lost with a process is planned again."""
_MAX_KEPT_ENTRIES = 4
RESUME_HINT = (
    "What it had finished is in the file, if the sweep has one (path=...): sweep again with another executor, or with "
    "none, and the rest is planned."
)


@dataclass(frozen=True)
class SweepTask:
    """A point with all that it takes to plan it; `step` may be packed, to be sent.

    `readings` are those of tasks of the same step, planned before it.
    """

    point: SweepPoint
    step: SweepStep | bytes
    machine: Machine
    host: Host
    precision_level: int | None
    has_routes: bool = False
    readings: AnalysisCache | None = field(default=None, repr=False, compare=False)


def plan_task(task: SweepTask) -> SweepRecord:
    """The record of a task; it raises nothing."""
    point = task.point
    # One point must not end a sweep of a night, whatever is wrong with it.
    try:
        whole = plan(
            _unpack_step(task.step) if isinstance(task.step, bytes) else task.step,
            task.machine,
            point.mode,
            point.batch_size,
            point.systems,
            task.host,
            _thread_prices(task.machine),
            other=point.mode == "auto",
            precision_level=task.precision_level,
            readings=task.readings,
        )
        return make_record(point, whole.report, task.has_routes)
    except Exception as error:
        return make_failed_record(point, error)


def pack_step(step: SweepStep, name: str) -> bytes:
    """A step as bytes for another process; a recorded one is recorded for other batches first.

    Raises LazyError for a source that holds what only this process has.
    """
    try:
        # Programs repeat themselves: a thirteenth is left of GPT-2's, and it goes out with each point.
        return zlib.compress(pickle.dumps(step, pickle.HIGHEST_PROTOCOL), 1)
    except (pickle.PicklingError, AttributeError, TypeError) as e:
        hint = "Give programs or recorded steps (lazytensor.core.abstract_step.record), or sweep without an executor."
        raise LazyError(f"{name} cannot be sent to another process: {e}", hint=hint) from e


# Points of one program come one after the other.
@lru_cache(maxsize=_MAX_KEPT_ENTRIES)
def _unpack_step(step: bytes) -> SweepStep:
    whole: SweepStep = pickle.loads(zlib.decompress(step))
    return whole


_thread_state = threading.local()


def _thread_prices(machine: Machine) -> Prices:
    """The prices of a machine, kept from task to task; of each thread its own, since they number what they see."""
    known: dict[Machine, Prices] = _thread_state.__dict__.setdefault("prices", {})
    if machine not in known and len(known) == _MAX_KEPT_ENTRIES:
        # Points come in the order of machines, over and over: whichever goes may be asked for again.
        known.clear()
    return known.setdefault(machine, Prices(machine))


def attach_readings(tasks: Iterable[SweepTask]) -> Iterator[SweepTask]:
    """Tasks for one thread, which looks up a step once for all modes, machines and systems that follow each other."""
    # A step at the sizes that one batch asks for, and no more: a long sweep is to hold no more at its end.
    for _, own in groupby(tasks, lambda task: (id(task.step), task.point.batch_size)):
        readings = AnalysisCache()
        yield from (replace(task, readings=readings) for task in own)


def plan_tasks(tasks: Iterable[SweepTask], ticket: str = "") -> list[SweepRecord]:
    """The records of tasks that one process plans one after the other.

    Some executors take equal calls for one, and would have what is asked for again wait for what was cancelled before:
    the `ticket` tells them apart.
    """
    return [plan_task(task) for task in attach_readings(tasks)]


def group_tasks(tasks: Iterable[SweepTask]) -> list[list[SweepTask]]:
    """Tasks in groups that ask for the same prices, at most `MAX_GROUP_TASKS` in each, the largest groups first.

    Those of a program on a machine and in a mode, whose batches are the same but for factors of two: two systems share
    a batch, and micro-batches halve it, so that each of them asks for what the others do. Modes keep other operands in
    place, and ask for prices of their own.
    """
    groups: dict[tuple[object, ...], list[list[SweepTask]]] = {}
    for task in tasks:
        point, batch = task.point, task.point.batch_size
        # The lowest bit that is set is the power of two in it.
        among = groups.setdefault((point.digest, task.machine, point.mode, batch // (batch & -batch)), [[]])
        if len(among[-1]) == MAX_GROUP_TASKS:
            among.append([])
        among[-1].append(task)
    # Small ones last: then no process waits long for the last of the others.
    return sorted((group for among in groups.values() for group in among), key=len, reverse=True)


def execute_tasks(tasks: Iterable[SweepTask], executor: Executor) -> Iterator[SweepRecord]:
    """Records of tasks as an executor finishes them. Raises ExecutorLost when it dies, after all that it finished."""
    # A process keeps prices, and knows nothing of those of others: what asks for the same goes to the same process.
    rest, waiting = iter(group_tasks(tasks)), set[Future[list[SweepRecord]]]()
    lost: Exception | None = None
    try:
        while lost is None:
            lost = _submit_groups(islice(rest, MAX_GROUPS_IN_FLIGHT - len(waiting)), executor, waiting)
            if not waiting:
                break
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            # A pool that breaks fails all that waits; what it had finished by then is as good as any.
            for outcome in map(_group_outcome, done if lost is None else done | {f for f in waiting if f.done()}):
                if isinstance(outcome, list):
                    yield from outcome
                else:
                    lost = outcome
    finally:
        # Also where the caller stops: nobody asks for these any more.
        for future in waiting:
            future.cancel()
    if lost is not None:
        raise ExecutorLost(f"the executor has ended: {type(lost).__name__}: {lost}", hint=RESUME_HINT) from lost


def _submit_groups(
    groups: Iterable[list[SweepTask]], executor: Executor, waiting: set[Future[list[SweepRecord]]]
) -> Exception | None:
    """Hand tasks over; returns the error of an executor that takes none any more."""
    try:
        waiting.update(executor.submit(plan_tasks, group, uuid4().hex) for group in groups)
    except Exception as error:
        return error
    return None


def _group_outcome(future: Future[list[SweepRecord]]) -> list[SweepRecord] | Exception:
    # A task raises nothing of its own: whatever comes instead of a record is about the executor.
    try:
        return future.result()
    except Exception as error:
        return error
