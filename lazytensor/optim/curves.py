"""The curves of schedules, of steps that are Python numbers (PyTorch's schedules) or tensors (the vendor's).

PyTorch states most schedules as the way from one rate to the next, in double; the vendor as a function of the step, in
float32 tensors. What both have in common is here.
"""

import math
from typing import Literal, NamedTuple

from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.optim.elementwise import Array, as_tensor, power, quotient, where

Level = Literal["initial", "max", "min"]


def _powered(base: float, exponent: Array) -> Array:
    # The base is a tensor in the vendor's graphs.
    return power(as_tensor(base) if isinstance(exponent, Tensor) else base, exponent)


def decayed(start: float, rate: float, times: Array) -> Array:
    """Return `start` after it was multiplied by `rate` so many times."""
    return _powered(rate, times) * start


def half_wave(angle: Array) -> Array:
    """Return 1 + cos(angle), which falls from 2 to 0 while the angle goes from 0 to pi."""
    return (pw.cos(angle) if isinstance(angle, Tensor) else math.cos(angle)) + 1.0


def cosine(start: float, end: float, angle: Array) -> Array:
    """Return the value of half a cosine wave from `start` at the angle 0 to `end` at pi."""
    value = half_wave(angle) / 2.0 * (start - end)
    # The vendor's front end leaves out an addition of 0.
    return value + end if end else value


def annealed(start: float, end: float, part: Array, is_cosine: bool) -> Array:
    """Return the value at `part` (0 to 1) of the way from `start` to `end`, by half a cosine wave or by a line."""
    if is_cosine:
        return half_wave(part * math.pi) * ((start - end) / 2.0) + end
    return part * (end - start) + start


class Phase(NamedTuple):
    """A phase of a one-cycle schedule: its last step, and the values at its beginning and end."""

    end: float
    start_level: Level
    end_level: Level


def one_cycle_phases(total_steps: int, pct_start: float, three_phase: bool) -> list[Phase]:
    """Return the phases of a one-cycle schedule (Smith and Topin 2018).

    Their ends may be fractions of a step. With three phases the way down is as long as the way up, and a long tail
    below the initial value follows; with two the way down goes to the least value.
    """
    # Less 1, since steps count from 0.
    rise, last = float(pct_start * total_steps) - 1, total_steps - 1
    if not three_phase:
        return [Phase(rise, "initial", "max"), Phase(last, "max", "min")]
    back = float(2 * pct_start * total_steps) - 2
    return [Phase(rise, "initial", "max"), Phase(back, "max", "initial"), Phase(last, "initial", "min")]


def triangle(place: Array, ratio: float) -> Array:
    """Return the height of a triangle at a place from 0 to 1: it rises to 1 up to `ratio` and falls from there."""
    return where(place <= ratio, place / ratio, quotient(place - 1.0, ratio - 1), place)


def cycle_scale(mode: str, gamma: float, cycle: Array, step: Array) -> Array:
    """Return the scale of a cyclic schedule's height (Smith 2017).

    "triangular2" halves it with each `cycle`, which counts from 1; "exp_range" multiplies it by `gamma` in each step.
    """
    if mode == "triangular2":
        return _powered(0.5, cycle - 1.0)
    return _powered(gamma, step) if mode == "exp_range" else 1.0
