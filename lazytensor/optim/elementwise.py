"""Elementwise functions for the update rules of optimizers, which work on tensors, NumPy arrays and Python numbers.

A rule gets NumPy arrays from an optimizer that computes immediately, and tensors from one that records a step. Counts
in its state are Python numbers in the first case and mostly 0-d tensors in the second.
"""

import math
from typing import Any

import numpy as np

from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import tensor

Array = Any
"""A Tensor, a NumPy array (or the NumPy number that a 0-d array becomes), or a Python number."""
CONSTANT_OPS = ("const", "leaf")
"""Operations of nodes whose value is a known constant."""


def _is_number(x: Array) -> bool:
    # A NumPy float64 is a subclass of float, but counts as an array here.
    return x.__class__ in (float, int)


def is_constant(x: Tensor) -> bool:
    """Return whether the value of a tensor is a constant of the step."""
    return x.node.op in CONSTANT_OPS


def is_on(setting: Any) -> bool:
    """Return whether a setting has an effect: it is not zero.

    A tensor that is not a constant of the step counts as not zero.
    """
    return bool(setting) if not isinstance(setting, Tensor) or is_constant(setting) else True


def as_tensor(setting: Any) -> Tensor:
    """Return a setting as a tensor: a number becomes a float32 scalar."""
    return setting if isinstance(setting, Tensor) else tensor(float(setting))


def as_float32(x: Array) -> Array:
    """Return a number rounded to float32, the type of counts in state dicts; a tensor is returned unchanged."""
    return x if isinstance(x, Tensor) else float(np.float32(x))


def as_type_of(like: Array, x: Array) -> Array:
    """Return the tensor `x` cast to the type of `like`; arrays and numbers are returned unchanged.

    An operation of a half-type tensor and a number of a wider type may have given `x` the wider type.
    """
    return pw.cast_to(x, like.dtype) if isinstance(x, Tensor) and x.dtype is not like.dtype else x


def sqrt(x: Array) -> Array:
    """Return the square root; NaN if x is negative, also for a Python number. NumPy warns for a negative array."""
    if isinstance(x, Tensor):
        return pw.sqrt(x)
    if _is_number(x):
        return math.sqrt(x) if x >= 0 else math.nan
    return np.sqrt(x)


def power(base: Array, exponent: Array) -> Array:
    """Return `base` to the power of `exponent`; a tensor if one of them is a tensor."""
    if isinstance(base, Tensor) or isinstance(exponent, Tensor):
        return pw.pow(base, exponent)
    return base**exponent


def quotient(a: Array, b: Array) -> Array:
    """Return a / b, rounded once; NaN if both are Python numbers and b is zero.

    If b is a tensor and a is a number, a is converted to a float32 tensor first.
    """
    if isinstance(b, Tensor):
        # Dividing a Python number by a tensor would multiply by the reciprocal, which rounds twice.
        return pw.div(as_tensor(a), b)
    return math.nan if _is_number(a) and _is_number(b) and not b else a / b


def absolute(x: Array) -> Array:
    """Return the absolute value."""
    return pw.abs(x) if isinstance(x, Tensor) else np.abs(x)


def sign(x: Array) -> Array:
    """Return the sign: -1, 0 or 1."""
    return pw.sign(x) if isinstance(x, Tensor) else np.sign(x)


def larger(a: Array, b: Array) -> Array:
    """Return the elementwise maximum. For tensors it is a clamp, because the wafer has no maximum of two tensors."""
    return pw.clamp(a, b, math.inf) if isinstance(a, Tensor) else np.maximum(a, b)


def at_least(x: Array, least: float) -> Array:
    """Return the maximum of the count `x` and the number `least`."""
    return pw.maximum(tensor(least), x) if isinstance(x, Tensor) else max(least, x)


def clipped(x: Array, least: float, most: float) -> Array:
    """Return the tensor or array x clamped to the range from `least` to `most`; x cannot be a Python number."""
    if isinstance(x, Tensor):
        return pw.clamp(x, least, most)
    return np.clip(x, x.dtype.type(least), x.dtype.type(most))


def where(condition: Array, a: Array, b: Array, like: Array) -> Array:
    """Return `a` where the condition is true, else `b`; for a Python bool, `a` or `b` itself.

    For an array condition, the result has the type of `like`, even if a and b are numbers.
    """
    if isinstance(condition, Tensor):
        return pw.where(condition, a, b)
    if isinstance(condition, bool):
        return a if condition else b
    chosen: Any = np.where(condition, a, b)
    return chosen.astype(like.dtype)


def add_scaled(a: Array, b: Array, alpha: float) -> Array:
    """Return a + alpha * b. For tensors of a half type, the result is rounded once."""
    return pw.add(a, b, alpha=alpha) if isinstance(a, Tensor) else a + b * alpha


def descended(p: Array, d: Array, lr: Any) -> Array:
    """Return p - lr * d."""
    return p + scaled(d, lr)


def scaled(d: Array, lr: Any) -> Array:
    """Return -lr * d. The rate is a number, or a 0-d tensor if a schedule computes it."""
    # The order of the products is that of the vendor's front end: it affects the CIRH and the last bit of half types.
    if isinstance(lr, Tensor) and not is_constant(lr):
        return lr * -1.0 * d
    return d * -float(lr)
