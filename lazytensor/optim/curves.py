"""Formulas of learning rate schedules, for steps that are Python numbers (PyTorch's schedules) or tensors (the
vendor's).

PyTorch states most schedules as a change from one rate to the next, in double precision; the vendor states them as
functions of the step, in float32 tensors. This module has what both have in common.
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
    """Return `start * rate ** times`: the value after `times` multiplications by `rate`."""
    return _powered(rate, times) * start


def half_wave(angle: Array) -> Array:
    """Return 1 + cos(angle), which falls from 2 to 0 as the angle goes from 0 to pi."""
    return (pw.cos(angle) if isinstance(angle, Tensor) else math.cos(angle)) + 1.0


def cosine(start: float, end: float, angle: Array) -> Array:
    """Return the value at `angle` of a half cosine wave that goes from `start` at angle 0 to `end` at angle pi.

    The wave goes on after pi, back to `start` at 2 pi. A tensor `angle` gives a tensor.
    """
    value = half_wave(angle) / 2.0 * (start - end)
    # The vendor's front end omits an addition of 0.
    return value + end if end else value


def annealed(start: float, end: float, part: Array, is_cosine: bool) -> Array:
    """Return the value at the fraction `part` (0 to 1) of the way from `start` to `end`.

    The curve is a half cosine wave if `is_cosine`, else a line.
    """
    if is_cosine:
        return half_wave(part * math.pi) * ((start - end) / 2.0) + end
    return part * (end - start) + start


class Phase(NamedTuple):
    """A phase of a one-cycle schedule: its last step, and the levels ("initial", "max", "min") at its start and end."""

    end: float
    start_level: Level
    end_level: Level


def one_cycle_phases(total_steps: int, pct_start: float, three_phase: bool) -> list[Phase]:
    """Return the phases of a one-cycle schedule (Smith and Topin 2018).

    The first phase rises from "initial" to "max" and takes the fraction `pct_start` of all steps. With `three_phase`,
    the second phase falls back to "initial" in the same number of steps, and the third one falls to "min". Otherwise
    the second phase falls to "min". The ends of phases may be fractions of a step.
    """
    # Minus 1, because steps count from 0.
    rise, last = float(pct_start * total_steps) - 1, total_steps - 1
    if not three_phase:
        return [Phase(rise, "initial", "max"), Phase(last, "max", "min")]
    back = float(2 * pct_start * total_steps) - 2
    return [Phase(rise, "initial", "max"), Phase(back, "max", "initial"), Phase(last, "initial", "min")]


def triangle(place: Array, ratio: float) -> Array:
    """Return the height at `place` (0 to 1) of a triangle that rises from 0 to 1 at `ratio` and then falls to 0."""
    return where(place <= ratio, place / ratio, quotient(place - 1.0, ratio - 1), place)


def cycle_scale(mode: str, gamma: float, cycle: Array, step: Array) -> Array:
    """Return the factor for the height of a cyclic schedule (Smith 2017).

    For `mode` "triangular2" it is halved with each `cycle`, counted from 1. For "exp_range" it is `gamma ** step`. For
    any other mode it is 1.
    """
    if mode == "triangular2":
        return _powered(0.5, cycle - 1.0)
    return _powered(gamma, step) if mode == "exp_range" else 1.0
