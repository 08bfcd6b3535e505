"""Initial values of parameters, drawn as PyTorch draws them."""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from lazytensor import random
from lazytensor.core import pytorch_release
from lazytensor.core.tensor import Tensor, from_array, grad_mode
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.in_place import shows_no_values
from lazytensor.functional.pointwise_special import erfinv

F = TypeVar("F", bound=Callable[..., Tensor])
# PyTorch's values. Half of the signal does not pass relu, so its variance is doubled; those of tanh and selu are found
# by trial. Linear layers and sigmoid have 1, and so has here what PyTorch refuses by name.
_GAIN_BY_NONLINEARITY = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return _GAIN_BY_NONLINEARITY.get(nonlinearity, 1.0)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs and outputs one element meets. Raises ShapeError below two dimensions."""
    if tensor.ndim < 2:
        raise ShapeError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    # PyTorch reads every weight as [out, in, *kernel], that of a transposed convolution too, whose fans are swapped so.
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _skip_without_values(initialise: F) -> F:
    """Leave a tensor that shows no values as it is: what takes long to compute is not computed for nobody."""

    @functools.wraps(initialise)
    def seen(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if shows_no_values(tensor) else initialise(tensor, *args, **kwargs)

    return cast(F, seen)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Uniform from a to b."""
    # Not recorded: the drawn values are where a leaf begins, and writing to a leaf that records is an error.
    with grad_mode(False):
        return tensor.uniform_(a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Normal with the given mean and deviation."""
    with grad_mode(False):
        return tensor.normal_(mean, std, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with grad_mode(False):
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    # A uniform distribution within b has the variance b * b / 3.
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out)."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    # With the default a = 0 leaky_relu is relu.
    fan = _calculate_fan_in_and_fan_out(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """Uniform with the variance that keeps the signal through the nonlinearity."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """Normal with the variance that keeps the signal through the nonlinearity."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@_skip_without_values
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere. Raises ValueError for another rank."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _set_values(tensor, np.eye(tensor.spec.shape[0], tensor.spec.shape[1]))


def _set_values(tensor: Tensor, values: np.ndarray) -> Tensor:
    with grad_mode(False):
        return tensor.copy_(from_array(values.astype(tensor.dtype.host), tensor.dtype))


@_skip_without_values
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that gives its input back. Raises ValueError for other ranks than 3 to 5."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    out, inputs, *kernel = tensor.spec.shape
    if out % groups:
        raise ValueError("dim 0 must be divisible by groups")
    # Outputs beyond the inputs of their group stay zero.
    values = np.zeros(tensor.spec.shape)
    centre = tuple(k // 2 for k in kernel)
    for group in range(groups):
        for i in range(min(out // groups, inputs)):
            values[(group * (out // groups) + i, i, *centre)] = 1
    return _set_values(tensor, values)


@_skip_without_values
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: random.Generator | None = None,
) -> Tensor:
    """Normal within a..b."""
    if pytorch_release.current_release != "2.4":
        draw = (
            _redraw_until_inside if _normal_probability(mean, std, a, b) > MIN_REDRAW_PROBABILITY else _rejection_sample
        )
        return _set_values(tensor, draw(tensor, mean, std, a, b, generator))

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    # Both bounds as probabilities; what is drawn between them is uniform, and sqrt(2) erfinv(2p-1) is the quantile.
    low, high = below((a - mean) / std), below((b - mean) / std)
    # One draw for each element, whatever is cut off.
    uniform_(tensor, 2 * low - 1, 2 * high - 1, generator)
    with grad_mode(False):
        values = erfinv(tensor) * (std * math.sqrt(2.0)) + mean
        # The inverse is rounded, and may step over a bound.
        return tensor.copy_(pw.clamp(values, float(a), float(b)))


MIN_REDRAW_PROBABILITY = 0.3
"""The share of normal numbers inside of the bounds above which PyTorch 2.13 draws such until all lie inside."""


def _normal_probability(mean: float, std: float, a: float, b: float) -> float:
    """The share of normal numbers between a and b."""
    return (math.erf((b - mean) / (std * math.sqrt(2.0))) - math.erf((a - mean) / (std * math.sqrt(2.0)))) / 2


def _redraw_until_inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> np.ndarray:
    """Normal numbers; for those outside of a..b all are drawn again, until none is left."""
    shape, dtype = tensor.spec.shape, tensor.dtype
    values = random.resolve_generator(generator).normal(shape, dtype, mean, std)
    while (outside := (values < a) | (values > b)).any():
        values = np.where(outside, random.resolve_generator(generator).normal(shape, dtype, mean, std), values)
    return values


def _rejection_sample(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> np.ndarray:
    """Uniform numbers, of which each is taken with the chance that the density there has against the highest in a..b.

    For bounds that cut off most normal numbers: those would have to be drawn very often.
    """
    shape, dtype = tensor.spec.shape, tensor.dtype
    low, high = (a - mean) / std, (b - mean) / std
    peak = max(low, 0.0) if low > 0 else min(high, 0.0)
    values, waiting = np.zeros(shape, dtype.host), np.ones(shape, bool)
    while waiting.any():
        tried = random.resolve_generator(generator).uniform(shape, dtype, a, b)
        chance = np.exp((peak * peak - ((tried.astype(np.float64) - mean) / std) ** 2) / 2)
        taking = waiting & (random.resolve_generator(generator).uniform(shape, dtype) <= chance)
        values[taking] = tried[taking]
        waiting &= ~taking
    return values


@_skip_without_values
def orthogonal_(tensor: Tensor, gain: float = 1, generator: random.Generator | None = None) -> Tensor:
    """Rows (or columns, if there are more rows) that are orthonormal, times gain. Raises ValueError below rank 2."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.spec.size:
        return tensor
    rows = tensor.spec.shape[0]
    shape = (rows, tensor.spec.size // rows)
    # Drawn as it lies and turned afterwards, so that the numbers are PyTorch's for wide matrices too. QR wants at least
    # as many rows as columns: there are no more orthonormal columns than rows.
    drawn = random.resolve_generator(generator).normal(shape, tensor.dtype)
    q, r = np.linalg.qr(drawn.T if shape[0] < shape[1] else drawn)
    # The signs that make a QR decomposition unique, and the result uniform over rotations (Mezzadri 2007).
    q = q * np.sign(np.diag(r))
    q = q.T if shape[0] < shape[1] else q
    return _set_values(tensor, (q * gain).reshape(tensor.spec.shape))


@_skip_without_values
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: random.Generator | None = None) -> Tensor:
    """Normal, with a fraction of each column set to zero. Raises ValueError for another rank than 2."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.spec.shape
    source = random.resolve_generator(generator)
    values = source.normal((rows, columns), tensor.dtype, 0, std)
    # Rounded up, and the same number in each column: columns are the inputs, none of which is to be lost or whole by
    # chance.
    zeros = math.ceil(sparsity * rows)
    for column in range(columns):
        # Always from the default generator, as in PyTorch.
        values[random.resolve_generator(None).permutation(rows)[:zeros], column] = 0
    return _set_values(tensor, values)
