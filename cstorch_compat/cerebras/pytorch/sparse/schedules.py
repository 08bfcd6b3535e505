"""Schedules of sparsity: a level, or a fraction to drop, as a function of the traced step counter; and update steps.

All are tensor programs, so that a step that is traced once follows them.
"""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cstorch_compat.files.tree import update_tensors
from cstorch_compat.run import process
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import as_tensor, tensor
from lazytensor.functional.in_place import write_values

ValueRange = tuple[float, float, float]
"""The smallest value, the largest, and the last one of a range of steps."""


class HyperParameterSchedule(ABC):
    """Base of schedules. A subclass gives the value in `compute`, from the step: int64[] -> float32[]."""

    @abstractmethod
    def compute(self, step: Tensor) -> Tensor:
        """The value at a step."""

    def __call__(self, step: Any) -> Tensor:
        """The value at a step, which is a tensor or a number."""
        return self.compute(step if isinstance(step, Tensor) else tensor(step))

    def update(self, is_update_step: Tensor) -> None:  # noqa: B027 - most have no state
        """Take note of a step; those without state have nothing to note."""

    def get_min_max_end(self, begin: int, end: int) -> ValueRange | None:
        """Extent over the steps from begin to end, for a schedule that only rises or only falls. None if unknown."""
        # Only the ends are asked, which is right for lines, powers and exponentials. A user's schedule that waves
        # has to say so itself.
        first, last = (float(self(at)) for at in (begin, end))
        return min(first, last), max(first, last), last

    def cache_clear(self) -> None:  # noqa: B027 - kept for scripts
        """Kept for scripts that call it. Nothing is cached: a value computed twice in a step is one node."""

    def visit_state(self, fn: Callable[[Tensor], Tensor | None]) -> None:
        """Call a function with every piece of state; what it returns takes the place of the values."""
        update_tensors(self.state_dict().values(), fn)

    def state_dict(self) -> dict[str, Tensor]:
        """The state that is carried from step to step."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copy state in. Raises KeyError if a piece is missing."""
        for name, value in self.state_dict().items():
            write_values(value, as_tensor(state[name]))


def _to_float(step: Tensor) -> Tensor:
    # The counter is int64; whole numbers are exact in float32 up to 2 ** 24 steps.
    return pw.cast_to(step, dt.float32)


class Constant(HyperParameterSchedule):
    """The same value at every step."""

    def __init__(self, value: float):
        self.value = float(value)

    def compute(self, step: Tensor) -> Tensor:
        return tensor(self.value)


class Linear(HyperParameterSchedule):
    """init + slope * step."""

    def __init__(self, init: float, slope: float):
        self.init, self.slope = init, slope

    def compute(self, step: Tensor) -> Tensor:
        return _to_float(step) * self.slope + self.init


class Exp(HyperParameterSchedule):
    """From init towards final: final - (final - init) * exp(gamma * step)."""

    def __init__(self, init: float, gamma: float, final: float = 1):
        self.final, self.gamma = final, gamma
        # Subtracted in float32, where the program would: one bit of it is an element of a large mask.
        self.scale = float(np.float32(final) - np.float32(init))

    def compute(self, step: Tensor) -> Tensor:
        return self.final - pw.exp(_to_float(step) * self.gamma) * self.scale


class Power(HyperParameterSchedule):
    """init * beta ** step."""

    def __init__(self, init: float, beta: float):
        self.init, self.beta = init, beta

    def compute(self, step: Tensor) -> Tensor:
        return pw.pow(self.beta, _to_float(step)) * self.init


class Cosine(HyperParameterSchedule):
    """From init down to minimum in half_period steps and back, as a cosine. Raises ValueError for a period of 0."""

    def __init__(self, init: float, half_period: float, minimum: float = 0.0):
        if not half_period:
            raise ValueError("half_period must not be 0: it is the number of steps from `init` to `minimum`")
        # amp * cos + offset: the form that the front end traces.
        self.amp, self.offset = (init - minimum) / 2, (init + minimum) / 2
        self.freq = math.pi / half_period

    def compute(self, step: Tensor) -> Tensor:
        wave = pw.cos(_to_float(step) * self.freq)
        return wave * self.amp + self.offset

    def get_min_max_end(self, begin: int, end: int) -> ValueRange:
        """Extent of the whole wave, and the value at `end`."""
        # The wave is no monotonous function, so its ends say nothing of its range.
        low, high = (float(np.float32(self.offset + sign * self.amp)) for sign in (-1, 1))
        return low, high, float(self(end))


class Cycling(HyperParameterSchedule):
    """One value after the other and again from the first, going on at each update. Raises ValueError for none."""

    def __init__(self, values: Sequence[float]):
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(f"Cycling needs a list of at least one value. Got: {values!r}")
        self.values = [float(v) for v in values]
        # The place in the list is state: it moves with updates, and the step counter alone cannot tell how many
        # there were.
        self.index = tensor(0, dtype=dt.int64)
        self.index.device = process.state_device()

    def compute(self, step: Tensor) -> Tensor:
        """The value whose turn it is, whatever the step."""
        chosen = tensor(self.values[-1])
        # A chain of selections, for lists are short; a table would have to be a tensor of the graph, with a gather
        # from it.
        for i, v in reversed(list(enumerate(self.values[:-1]))):
            chosen = pw.where(self.index == i, v, chosen)
        return chosen

    def update(self, is_update_step: Tensor) -> None:
        """Go on to the next value where `is_update_step` holds."""
        following = pw.remainder(self.index + 1, len(self.values))
        # Stays where it is on other steps, although it is written in each.
        self.index.write(pw.where(is_update_step, following, self.index).node)

    def get_min_max_end(self, begin: int, end: int) -> ValueRange:
        """Extent of the list, whose last value is the last one."""
        return min(self.values), max(self.values), self.values[-1]

    def state_dict(self) -> dict[str, Tensor]:
        """The place in the list: int64[]."""
        return {"index": self.index}


class Lambda(HyperParameterSchedule):
    """What a function of the step gives; it has to use tensor operations only."""

    def __init__(self, fn: Callable[[Tensor], Tensor]):
        if not callable(fn):
            raise TypeError(f"Lambda needs a function of the step. Got: {fn!r}")
        self.fn = fn

    def compute(self, step: Tensor) -> Tensor:
        return self.fn(step)

    def get_min_max_end(self, begin: int, end: int) -> None:
        """Return None in place of the least, largest and last value: those of a user's function are not known."""
        return


SCHEDULES: dict[str, type[HyperParameterSchedule]] = {
    kind.__name__.lower(): kind for kind in (Constant, Cosine, Cycling, Exp, Lambda, Linear, Power)
}


def make_hyperparam_schedule(schedule: Any) -> HyperParameterSchedule:
    """A schedule from a number, a list (one value at each update), a function, {"type": ..., ...}, or a schedule.

    Raises ValueError for anything else, TypeError for arguments that the type does not take. The original, against
    its own message, refuses functions without full annotations and answers an unknown type with a TypeError.
    """
    if isinstance(schedule, HyperParameterSchedule):
        return schedule
    # True would pass as a level of 1.
    if isinstance(schedule, int | float) and not isinstance(schedule, bool):
        return Constant(schedule)
    if isinstance(schedule, list | tuple):
        return Cycling(schedule)
    if isinstance(schedule, dict):
        return _make_from_settings(dict(schedule))
    if callable(schedule):
        return Lambda(schedule)
    raise ValueError(
        f"Unhandled {schedule}. Options are a number, a list of numbers, a function of the step, a schedule, or a dict "
        f'with "type" as one of {sorted(SCHEDULES)}'
    )


def _make_from_settings(settings: dict[str, Any]) -> HyperParameterSchedule:
    if "type" not in settings:
        raise ValueError(f"Must specify `type`, as one of {sorted(SCHEDULES)}")
    kind = settings.pop("type")
    # By name in lower case; subclasses that scripts define can be named too.
    known: dict[str, type[HyperParameterSchedule]] = {**collect_subclasses(HyperParameterSchedule), **SCHEDULES}
    schedule = known.get(str(kind).lower())
    if schedule is None:
        raise TypeError(f"Unknown type of schedule {kind!r}: expected one of {sorted(known)}")
    return schedule(**settings)


def collect_subclasses(kind: Any) -> dict[str, Any]:
    """Subclasses at any depth that can be made, those of users too, by their names in lower case."""
    kinds: dict[str, Any] = {}
    for k in kind.__subclasses__():
        if not inspect.isabstract(k) and not k.__name__.startswith("_"):
            kinds[k.__name__.lower()] = k
        kinds.update(collect_subclasses(k))
    return kinds


class UpdateSchedule(ABC):
    """Base of update schedules: which steps change the masks."""

    start: int = 0
    stop: int | None = None

    @abstractmethod
    def is_update_step(self, step: Tensor) -> Tensor:
        """Whether the masks change at a step: int64[] -> bool[]."""

    def __call__(self, step: Tensor) -> Tensor:
        return self.is_update_step(step)


class FreqSchedule(UpdateSchedule):
    """Every `freq` steps from `start` on and before `stop`. Raises RuntimeError for a frequency below 1."""

    def __init__(self, freq: int = 1, start: int = 0, stop: int | None = None):
        if freq < 1:
            raise RuntimeError(f"Invalid update frequency {freq}: masks can change every step (1) or more rarely")
        self.freq, self.start, self.stop = freq, start, stop

    def is_update_step(self, step: Tensor) -> Tensor:
        """int64[] -> bool[]: start <= step < stop and (step - start) % freq == 0."""
        since = step - self.start if self.start else step
        due = pw.remainder(since, self.freq) == 0
        # Needed, because the remainder of a negative number may be 0 as well.
        if self.start > 0:
            due = pw.logical_and(due, step >= self.start)
        if self.stop is not None:
            due = pw.logical_and(due, step < self.stop)
        return due


class ListSchedule(UpdateSchedule):
    """The given steps. Raises ValueError for an empty list."""

    def __init__(self, steps: Sequence[int] | Tensor):
        self.steps = tuple(int(s) for s in (steps.tolist() if isinstance(steps, Tensor) else steps))
        if not self.steps:
            raise ValueError("A list of update steps must not be empty")
        self.start, self.stop = min(self.steps), max(self.steps)

    def is_update_step(self, step: Tensor) -> Tensor:
        """int64[] -> bool[]: whether the step is one of them."""
        # One comparison for each step of the list: these lists are short.
        due = step == self.steps[0]
        for s in self.steps[1:]:
            due = pw.logical_or(due, step == s)
        return due


def make_update_schedule(update: Any) -> Callable[[Tensor], Tensor]:
    """A schedule of updates: None is every step; {"freq", "start", "stop"}, {"steps": [...]}, a list, or a function.

    Raises ValueError for anything else. The original fails with a NameError for lists and functions.
    """
    if update is None:
        return FreqSchedule()
    if isinstance(update, dict) and "freq" in update:
        return FreqSchedule(**update)
    if isinstance(update, dict) and "steps" in update:
        return ListSchedule(update["steps"])
    if isinstance(update, list | tuple | Tensor):
        return ListSchedule(update)
    if callable(update):
        function: Callable[[Tensor], Tensor] = update
        return function
    raise ValueError(
        f'Invalid `update`: {update}. Valid options are None (every step), {{"freq": freq, "start": start, "stop": '
        'stop}}, {{"steps": steps}}, a list of steps, or a function of the step'
    )
