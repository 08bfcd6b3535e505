"""Functions that initialize parameters in place, with the random numbers that PyTorch draws. Each returns its tensor.

Nothing is recorded for gradients. Random functions draw from `generator`, or from the default generator.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from lazytensor import random
from lazytensor.core import pytorch_release, source
from lazytensor.core.tensor import Tensor, from_array, grad_mode
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.in_place import shows_no_values
from lazytensor.functional.pointwise_special import erfinv

F = TypeVar("F", bound=Callable[..., Tensor])
# PyTorch's values. ReLU passes half of the signal, so its variance is doubled; the gains of tanh and selu are
# empirical. Linear layers and sigmoid have gain 1, and so do names here that PyTorch refuses.
_GAIN_BY_NONLINEARITY = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3, "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain of the standard deviation for `nonlinearity`.

    It is sqrt(2) for "relu", 5/3 for "tanh" and 3/4 for "selu". For "leaky_relu" it is sqrt(2 / (1 + slope**2)), where
    the slope is `param` or 0.01. For any other name it is 1.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    return _GAIN_BY_NONLINEARITY.get(nonlinearity, 1.0)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return fan_in and fan_out of a weight: the numbers of inputs of one output, and of outputs of one input.

    Raises ShapeError for fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
            f": the shape is {list(tensor.shape)}",
            where=source.where(),
            hint="Use another initializer for vectors, such as nn.init.zeros_.",
        )
    # PyTorch treats every weight as [out, in, *kernel], also that of a transposed convolution, whose fans are
    # exchanged.
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _skip_without_values(initialise: F) -> F:
    """Return `initialise` wrapped to do nothing for a tensor without values, such as one on the device "meta"."""

    @functools.wraps(initialise)
    def seen(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tensor if shows_no_values(tensor) else initialise(tensor, *args, **kwargs)

    return cast(F, seen)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write random numbers from the uniform distribution from `a` to `b` to `tensor`, and return it."""
    # Not recorded, since a write to a leaf that requires a gradient is an error.
    with grad_mode(False):
        return tensor.uniform_(a, b, generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write normal random numbers with `mean` and standard deviation `std` to `tensor`, and return it."""
    with grad_mode(False):
        return tensor.normal_(mean, std, generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Write `val` to every element of `tensor`, and return it."""
    with grad_mode(False):
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Write 0 to every element of `tensor`, and return it."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Write 1 to every element of `tensor`, and return it."""
    return constant_(tensor, 1.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write uniform random numbers with variance 2 * gain**2 / (fan_in + fan_out) to `tensor`, and return it.

    Raises ShapeError for fewer than two dimensions.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    # A uniform distribution from -b to b has the variance b * b / 3.
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write normal random numbers with variance 2 * gain**2 / (fan_in + fan_out) to `tensor`, and return it.

    Raises ShapeError for fewer than two dimensions.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    # With the default a = 0, leaky_relu is relu.
    fan = _calculate_fan_in_and_fan_out(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """Write uniform random numbers with standard deviation gain / sqrt(fan) to `tensor`, and return it.

    The gain is `calculate_gain(nonlinearity, a)`. fan is fan_in if `mode` is "fan_in", else fan_out. Raises ShapeError
    for fewer than two dimensions.
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: random.Generator | None = None,
) -> Tensor:
    """Write normal random numbers with standard deviation gain / sqrt(fan) to `tensor`, and return it.

    The gain is `calculate_gain(nonlinearity, a)`. fan is fan_in if `mode` is "fan_in", else fan_out. Raises ShapeError
    for fewer than two dimensions.
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


@_skip_without_values
def eye_(tensor: Tensor) -> Tensor:
    """Write the identity to a matrix: 1 on the diagonal, 0 elsewhere.

    Raises ValueError unless `tensor` has two dimensions.
    """
    if tensor.ndim != 2:
        raise OptionInvalid(
            f"Only tensors with 2 dimensions are supported, but got {tensor.ndim}",
            where=source.where(),
            hint="Reshape the tensor to a matrix.",
        )
    return _set_values(tensor, np.eye(tensor.spec.shape[0], tensor.spec.shape[1]))


def _set_values(tensor: Tensor, values: np.ndarray) -> Tensor:
    with grad_mode(False):
        return tensor.copy_(from_array(values.astype(tensor.dtype.host), tensor.dtype))


@_skip_without_values
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Write the weight of a convolution that returns its input channels, in each of `groups` groups, to `tensor`.

    Outputs beyond the number of input channels are zero. Raises ValueError unless `tensor` has 3 to 5 dimensions and
    `groups` divides the first extent.
    """
    if tensor.ndim not in (3, 4, 5):
        raise OptionInvalid(
            f"Only tensors with 3, 4, or 5 dimensions are supported, but got {tensor.ndim}",
            where=source.where(),
            hint="Use this initializer for weights of convolutions.",
        )
    out, inputs, *kernel = tensor.spec.shape
    if out % groups:
        raise OptionInvalid(
            f"dim 0 must be divisible by groups: {out} and groups={groups}",
            where=source.where(),
            hint="Choose a divisor of the first extent as groups.",
        )
    # Outputs beyond the inputs of their group are zero.
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
    """Write normal random numbers with `mean` and `std` that are between `a` and `b` to `tensor`, and return it.

    The algorithm depends on the emulated PyTorch release: 2.4 uses the inverse distribution function, later ones redraw
    or use rejection sampling.
    """
    if pytorch_release.current_release != "2.4":
        draw = (
            _redraw_until_inside if _normal_probability(mean, std, a, b) > MIN_REDRAW_PROBABILITY else _rejection_sample
        )
        return _set_values(tensor, draw(tensor, mean, std, a, b, generator))

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    # Both bounds as probabilities: numbers between them are uniform, and sqrt(2) * erfinv(2 * p - 1) is the quantile.
    low, high = below((a - mean) / std), below((b - mean) / std)
    # One draw for each element, whatever the bounds.
    uniform_(tensor, 2 * low - 1, 2 * high - 1, generator)
    with grad_mode(False):
        values = erfinv(tensor) * (std * math.sqrt(2.0)) + mean
        # The inverse is rounded and may exceed a bound.
        return tensor.copy_(pw.clamp(values, float(a), float(b)))


MIN_REDRAW_PROBABILITY = 0.3
"""If more than this share of normal numbers is within the bounds, PyTorch 2.13 redraws until all are; else it uses
rejection sampling.
"""


def _normal_probability(mean: float, std: float, a: float, b: float) -> float:
    """Return the probability that a normal number is between `a` and `b`."""
    return (math.erf((b - mean) / (std * math.sqrt(2.0))) - math.erf((a - mean) / (std * math.sqrt(2.0)))) / 2


def _redraw_until_inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> np.ndarray:
    """Return normal numbers between `a` and `b`: while some are outside, a whole tensor is drawn and replaces those."""
    shape, dtype = tensor.spec.shape, tensor.dtype
    values = random.resolve_generator(generator).normal(shape, dtype, mean, std)
    while (outside := (values < a) | (values > b)).any():
        values = np.where(outside, random.resolve_generator(generator).normal(shape, dtype, mean, std), values)
    return values


def _rejection_sample(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> np.ndarray:
    """Return normal numbers between `a` and `b` by rejection sampling from uniform numbers.

    Each uniform number is accepted with the ratio of the density there to the maximum density in the bounds. It is
    efficient for bounds that exclude most normal numbers.
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
    """Write a random matrix with orthonormal rows, or columns if there are more rows, times `gain`, to `tensor`.

    All but the first dimension are flattened. An empty tensor is returned unchanged. Raises ValueError for fewer than
    two dimensions.
    """
    if tensor.ndim < 2:
        raise OptionInvalid(
            f"Only tensors with 2 or more dimensions are supported, but got {tensor.ndim}",
            where=source.where(),
            hint="Reshape the tensor to two or more dimensions.",
        )
    if not tensor.spec.size:
        return tensor
    rows = tensor.spec.shape[0]
    shape = (rows, tensor.spec.size // rows)
    # Drawn in the tensor's orientation and transposed afterwards, so that the numbers are PyTorch's for wide matrices
    # too. QR needs at least as many rows as columns.
    drawn = random.resolve_generator(generator).normal(shape, tensor.dtype)
    q, r = np.linalg.qr(drawn.T if shape[0] < shape[1] else drawn)
    # The signs make the QR decomposition unique and the result uniform over rotations (Mezzadri 2007).
    q = q * np.sign(np.diag(r))
    q = q.T if shape[0] < shape[1] else q
    return _set_values(tensor, (q * gain).reshape(tensor.spec.shape))


@_skip_without_values
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: random.Generator | None = None) -> Tensor:
    """Write normal random numbers with `std` to a matrix, and set the fraction `sparsity` of each column to zero.

    The zeros are chosen by the default generator, even if `generator` is given. Raises ValueError unless `tensor` has
    two dimensions.
    """
    if tensor.ndim != 2:
        raise OptionInvalid(
            f"Only tensors with 2 dimensions are supported, but got {tensor.ndim}",
            where=source.where(),
            hint="Reshape the tensor to a matrix.",
        )
    rows, columns = tensor.spec.shape
    generator = random.resolve_generator(generator)
    values = generator.normal((rows, columns), tensor.dtype, 0, std)
    # The number of zeros is rounded up and equal in all columns.
    zeros = math.ceil(sparsity * rows)
    for column in range(columns):
        # From the default generator in any case, as in PyTorch.
        values[random.resolve_generator(None).permutation(rows)[:zeros], column] = 0
    return _set_values(tensor, values)
