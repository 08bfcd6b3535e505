"""Schedules of sparsity levels and drop fractions as functions of the traced step counter, and update schedules.

All of them are tensor programs, so that a step that is traced once follows them.
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
"""The minimum, the maximum and the last value over a range of steps."""


class HyperParameterSchedule(ABC):
    """The base class of schedules. A subclass computes the value in `compute`, from the step."""

    @abstractmethod
    def compute(self, step: Tensor) -> Tensor:
        """Return the value at `step` (an int64 scalar tensor) as a float32 scalar tensor."""

    def __call__(self, step: Any) -> Tensor:
        """Return the value at `step`, a tensor or a number."""
        return self.compute(step if isinstance(step, Tensor) else tensor(step))

    def update(self, is_update_step: Tensor) -> None:  # noqa: B027 - most have no state
        """Advance the state if `is_update_step`, a bool scalar tensor, is True.

        The default has no state and does nothing.
        """

    def get_min_max_end(self, begin: int, end: int) -> ValueRange | None:
        """Return the minimum, the maximum and the last value over the steps `begin` to `end`, or None if unknown.

        The default evaluates only both ends, which is correct for monotonic schedules, and never returns None.
        """
        # Both ends suffice for lines, powers and exponentials. A schedule that is not monotonic has to override this.
        first, last = (float(self(at)) for at in (begin, end))
        return min(first, last), max(first, last), last

    def cache_clear(self) -> None:  # noqa: B027 - kept for scripts
        """Do nothing. Scripts may call it, but there is no cache: a value computed twice in a step is one node."""

    def visit_state(self, fn: Callable[[Tensor], Tensor | None]) -> None:
        """Call `fn` with every state tensor. If it returns a tensor, copy that tensor's values into the state."""
        update_tensors(self.state_dict().values(), fn)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state tensors that are carried from step to step, by name."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copy the values in `state` into the state tensors. Raises KeyError if one is missing."""
        for name, value in self.state_dict().items():
            write_values(value, as_tensor(state[name]))


def _to_float(step: Tensor) -> Tensor:
    # The counter is int64. Integers are exact in float32 up to 2 ** 24 steps.
    return pw.cast_to(step, dt.float32)


class Constant(HyperParameterSchedule):
    """The same value at every step."""

    def __init__(self, value: float):
        self.value = float(value)

    def compute(self, step: Tensor) -> Tensor:
        return tensor(self.value)


class Linear(HyperParameterSchedule):
    """The linear schedule init + slope * step."""

    def __init__(self, init: float, slope: float):
        self.init, self.slope = init, slope

    def compute(self, step: Tensor) -> Tensor:
        return _to_float(step) * self.slope + self.init


class Exp(HyperParameterSchedule):
    """An exponential approach from `init` to `final`: final - (final - init) * exp(gamma * step)."""

    def __init__(self, init: float, gamma: float, final: float = 1):
        self.final, self.gamma = final, gamma
        # Subtract in float32 as the program would: one bit changes the number of elements of a large mask.
        self.scale = float(np.float32(final) - np.float32(init))

    def compute(self, step: Tensor) -> Tensor:
        return self.final - pw.exp(_to_float(step) * self.gamma) * self.scale


class Power(HyperParameterSchedule):
    """The exponential schedule init * beta ** step."""

    def __init__(self, init: float, beta: float):
        self.init, self.beta = init, beta

    def compute(self, step: Tensor) -> Tensor:
        return pw.pow(self.beta, _to_float(step)) * self.init


class Cosine(HyperParameterSchedule):
    """A cosine wave from `init` to `minimum` in `half_period` steps and back.

    Raises ValueError if `half_period` is 0.
    """

    def __init__(self, init: float, half_period: float, minimum: float = 0.0):
        if not half_period:
            raise ValueError(
                "half_period must not be 0: it is the number of steps from `init` to `minimum`"
                "\n  Pass a positive number of steps."
            )
        # The form amp * cos + offset is that of the front end's graph.
        self.amp, self.offset = (init - minimum) / 2, (init + minimum) / 2
        self.freq = math.pi / half_period

    def compute(self, step: Tensor) -> Tensor:
        wave = pw.cos(_to_float(step) * self.freq)
        return wave * self.amp + self.offset

    def get_min_max_end(self, begin: int, end: int) -> ValueRange:
        """Return the minimum and maximum of the whole wave, and the value at `end`."""
        # The wave is not monotonic, so its values at both ends do not give its range.
        low, high = (float(np.float32(self.offset + sign * self.amp)) for sign in (-1, 1))
        return low, high, float(self(end))


class Cycling(HyperParameterSchedule):
    """A list of values, of which each update step advances to the next one, and from the last to the first.

    Raises ValueError if `values` is empty or not a sequence.
    """

    def __init__(self, values: Sequence[float]):
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ValueError(
                f"Cycling needs a list of at least one value. Got: {values!r}\n  Pass a list with at least one value."
            )
        self.values = [float(v) for v in values]
        # The index is state: it advances with update steps, whose number the step counter does not give.
        self.index = tensor(0, dtype=dt.int64)
        self.index.device = process.state_device()

    def compute(self, step: Tensor) -> Tensor:
        """Return the current value of the list as a floating-point scalar tensor.

        `step` has no effect; `update` advances the list.
        """
        chosen = tensor(self.values[-1])
        # Lists are short, so a chain of selections is cheaper than a gather from a table tensor.
        for i, v in reversed(list(enumerate(self.values[:-1]))):
            chosen = pw.where(self.index == i, v, chosen)
        return chosen

    def update(self, is_update_step: Tensor) -> None:
        """Advance to the next value if `is_update_step` is True."""
        following = pw.remainder(self.index + 1, len(self.values))
        # The index is written in every step, but changes in update steps only.
        self.index.write(pw.where(is_update_step, following, self.index).node)

    def get_min_max_end(self, begin: int, end: int) -> ValueRange:
        """Return the minimum and maximum of the list, and its last value."""
        return min(self.values), max(self.values), self.values[-1]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the index of the current value, an int64 scalar tensor."""
        return {"index": self.index}


class Lambda(HyperParameterSchedule):
    """The result of a function of the step, which may use tensor operations only.

    Raises TypeError if it is not callable.
    """

    def __init__(self, fn: Callable[[Tensor], Tensor]):
        if not callable(fn):
            raise TypeError(f"Lambda needs a function of the step. Got: {fn!r}\n  Pass a function of the step.")
        self.fn = fn

    def compute(self, step: Tensor) -> Tensor:
        return self.fn(step)

    def get_min_max_end(self, begin: int, end: int) -> None:
        """Return None, because the range of a user's function is unknown."""
        return


SCHEDULES: dict[str, type[HyperParameterSchedule]] = {
    kind.__name__.lower(): kind for kind in (Constant, Cosine, Cycling, Exp, Lambda, Linear, Power)
}
"""The built-in schedules by lower-case name."""


def make_hyperparam_schedule(schedule: Any) -> HyperParameterSchedule:
    """Return a schedule described by `schedule`.

    - a number: `Constant`.
    - a list or tuple: `Cycling`, with one value for each update.
    - a dict {"type": name, ...}: the schedule of that name, with the other entries as arguments.
    - a function of the step: `Lambda`.
    - a schedule: returned unchanged.

    Raises ValueError for anything else, and TypeError for an unknown type or arguments that it does not accept. The
    original refuses functions without full annotations.
    """
    if isinstance(schedule, HyperParameterSchedule):
        return schedule
    # bool is a subclass of int, but not a level.
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
        "\n  Pass one of these options."
    )


def _make_from_settings(settings: dict[str, Any]) -> HyperParameterSchedule:
    if "type" not in settings:
        raise ValueError(f'Must specify `type`, as one of {sorted(SCHEDULES)}\n  Add the entry "type".')
    kind = settings.pop("type")
    # Names are lower case and include subclasses that scripts define.
    known: dict[str, type[HyperParameterSchedule]] = {**collect_subclasses(HyperParameterSchedule), **SCHEDULES}
    schedule = known.get(str(kind).lower())
    if schedule is None:
        raise TypeError(
            f"Unknown type of schedule {kind!r}: expected one of {sorted(known)}\n  Pass one of these names."
        )
    return schedule(**settings)


def collect_subclasses(kind: Any) -> dict[str, Any]:
    """Return the concrete subclasses of `kind` at any depth by lower-case name.

    Names that begin with "_" are left out.
    """
    kinds: dict[str, Any] = {}
    for k in kind.__subclasses__():
        if not inspect.isabstract(k) and not k.__name__.startswith("_"):
            kinds[k.__name__.lower()] = k
        kinds.update(collect_subclasses(k))
    return kinds


class UpdateSchedule(ABC):
    """The base class of schedules that determine in which steps masks change.

    `start` is the first update step. `stop` is the end of the range of update steps, or None.
    """

    start: int = 0
    stop: int | None = None

    @abstractmethod
    def is_update_step(self, step: Tensor) -> Tensor:
        """Return whether masks change at `step` (an int64 scalar tensor) as a bool scalar tensor."""

    def __call__(self, step: Tensor) -> Tensor:
        return self.is_update_step(step)


class FreqSchedule(UpdateSchedule):
    """Update steps at every `freq` steps from `start` on and before `stop`. Raises RuntimeError if `freq` < 1."""

    def __init__(self, freq: int = 1, start: int = 0, stop: int | None = None):
        if freq < 1:
            raise RuntimeError(
                f"Invalid update frequency {freq}: it is the number of steps from one update to the next, at least 1"
                "\n  Pass a freq of at least 1."
            )
        self.freq, self.start, self.stop = freq, start, stop

    def is_update_step(self, step: Tensor) -> Tensor:
        """Return whether start <= step < stop and (step - start) % freq == 0, as a bool scalar tensor.

        If `stop` is None there is no upper limit.
        """
        since = step - self.start if self.start else step
        due = pw.remainder(since, self.freq) == 0
        # The remainder of a negative number may be 0 too.
        if self.start > 0:
            due = pw.logical_and(due, step >= self.start)
        if self.stop is not None:
            due = pw.logical_and(due, step < self.stop)
        return due


class ListSchedule(UpdateSchedule):
    """Update steps given as a list. Raises ValueError for an empty list."""

    def __init__(self, steps: Sequence[int] | Tensor):
        self.steps = tuple(int(s) for s in (steps.tolist() if isinstance(steps, Tensor) else steps))
        if not self.steps:
            raise ValueError("A list of update steps must not be empty\n  Pass at least one step.")
        self.start, self.stop = min(self.steps), max(self.steps)

    def is_update_step(self, step: Tensor) -> Tensor:
        """Return whether `step` is in the list, as a bool scalar tensor."""
        # Lists are short, so each step is compared.
        due = step == self.steps[0]
        for s in self.steps[1:]:
            due = pw.logical_or(due, step == s)
        return due


def make_update_schedule(update: Any) -> Callable[[Tensor], Tensor]:
    """Return a function from the step to a bool scalar tensor that is True in update steps.

    - None: every step.
    - {"freq": ..., "start": ..., "stop": ...}: `FreqSchedule`.
    - {"steps": [...]}, a list, tuple or tensor: `ListSchedule`.
    - a function: returned unchanged.

    Raises ValueError for anything else. In the original, lists and functions raise a NameError.
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
        "\n  Pass one of these options."
    )
