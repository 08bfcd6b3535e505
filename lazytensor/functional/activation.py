"""Activation functions.

Most of them compute each element independently and return a tensor of the shape of `input`. Those with an `inplace`
parameter write the result to `input` and return `input` if it is true.
"""

import numpy as np

from lazytensor import random
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.creation import rand
from lazytensor.functional.half_precision import round_once, uses_host_kernels
from lazytensor.functional.in_place import assign
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.random_state import is_replayed, tensor_of_draws
from lazytensor.functional.type_promotion import require_elements
from lazytensor.functional.views import normalize_dim, slice_dim, view
from lazytensor.ops import call

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""The constants alpha and scale of SELU, the fixed point computed by Klambauer et al. 2017 (arXiv:1706.02515)."""

sigmoid, tanh = pw.sigmoid, pw.tanh


def assign_if_inplace(x: Tensor, out: Tensor, inplace: bool) -> Tensor:
    """Return `out`, or write `out` to `x` and return `x` if `inplace` is true.

    The write also shows in all views of `x`. Raises ShapeError if `x` has another shape or an incompatible dtype.
    """
    return assign(x, out) if inplace else out


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(x, 0) for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.relu(lt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return assign_if_inplace(input, pw.relu(input), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x * sigmoid(x) for each element x of `input`, in the shape of `input`. The function is also called swish.

    If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.silu(lt.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return assign_if_inplace(input, pw.silu(input), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return x * Phi(x) for each element x of `input`, in the shape of `input`.

    Phi is the cumulative distribution function of the standard normal distribution. `approximate="none"` computes it
    exactly; `approximate="tanh"` uses the approximation 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))).
    Raises ShapeError (a RuntimeError) for any other `approximate`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.gelu(lt.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate not in ("none", "tanh"):
        raise ShapeError(
            f"approximate argument must be either none or tanh. Got {approximate!r}.",
            where=source.where(),
            hint='Pass approximate="none" or approximate="tanh".',
        )
    return tensor_of(call("gelu", operand_node(input), approximate=approximate), input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x if x > 0, else `negative_slope` * x, for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.leaky_relu(lt.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return assign_if_inplace(
        input, tensor_of(call("leaky_relu", operand_node(input), slope=float(negative_slope)), input), inplace
    )


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x if x > 0, else `alpha` * (exp(x) - 1), for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.elu(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return assign_if_inplace(input, tensor_of(call("elu", operand_node(input), alpha=float(alpha)), input), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x if x > 0, else `alpha` * (exp(x / alpha) - 1), for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned. Raises ShapeError (a RuntimeError)
    if `alpha` is 0, and TypeUnsupported if `input` is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.celu(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    if alpha == 0:
        raise ShapeError(
            "ZeroDivisionError: alpha cannot be 0 for CELU", where=source.where(), hint="Pass an alpha other than 0."
        )
    require_elements(input, "f", "celu")
    return assign_if_inplace(input, _celu(input, float(alpha)), inplace)


@round_once
def _celu(x: Tensor, alpha: float) -> Tensor:
    above = _is_above_zero(x)
    # The branch that is not selected computes exp(0). An overflow there would turn its zero gradient into NaN.
    below = _negative_exponential(pw.where(above, 0.0, x) / alpha) * alpha
    return pw.where(above, x, below)


def _is_above_zero(x: Tensor) -> Tensor:
    """Return whether each element is above 0. On the host NaN counts too, so that it passes gradients on."""
    return pw.logical_not(x <= 0) if uses_host_kernels(x) else x > 0


def _negative_exponential(x: Tensor) -> Tensor:
    """Return exp(x) - 1 for x <= 0. On the host the gradient is exp(x), as that of PyTorch's `elu`."""
    # The gradient of expm1 is expm1(x) + 1, which has no digits left for x far below 0.
    return tensor_of(call("elu", operand_node(x), alpha=1.0), x) if uses_host_kernels(x) else pw.expm1(x)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return scale * (x if x > 0, else alpha * (exp(x) - 1)) for each element x of `input`, in the shape of `input`.

    alpha is about 1.6733 and scale about 1.0507. With these constants activations tend to mean 0 and variance 1. If
    `inplace` is true, the result is written to `input`, and `input` is returned. Raises TypeUnsupported if `input` is
    not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.selu(lt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    require_elements(input, "f", "selu")
    return assign_if_inplace(input, _selu(input), inplace)


@round_once
def _selu(x: Tensor) -> Tensor:
    above = _is_above_zero(x)
    below = _negative_exponential(pw.where(above, 0.0, x)) * (SELU_SCALE * SELU_ALPHA)
    return pw.where(above, x * SELU_SCALE, below)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta for each element x of `input`, in the shape of `input`.

    Where beta * x > `threshold`, the result is x itself, which avoids overflow.

    >>> import lazytensor as lt
    >>> lt.nn.functional.softplus(lt.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """
    return tensor_of(call("softplus", operand_node(input), beta=float(beta), threshold=float(threshold)), input)


def logsigmoid(input: Tensor) -> Tensor:
    """Return log(sigmoid(x)) for each element x of `input`, in the shape of `input`. Large |x| cause no overflow.

    >>> import lazytensor as lt
    >>> lt.nn.functional.logsigmoid(lt.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """
    return tensor_of(call("log_sigmoid", operand_node(input)), input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return each element of `input` limited to the range from `min_val` to `max_val`, in the shape of `input`.

    The gradient is 0 at and outside the bounds. If `input` is not floating-point, the bounds are truncated to integers.
    If `inplace` is true, the result is written to `input`, and `input` is returned. Raises OptionInvalid (a ValueError)
    if `min_val` > `max_val`, and ShapeError if `input` is unsigned and `min_val` is negative.

    >>> import lazytensor as lt
    >>> lt.nn.functional.hardtanh(lt.tensor([-4.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise OptionInvalid(
            f"min_val cannot be greater than max_val: {min_val} and {max_val}",
            where=source.where(),
            hint="Exchange min_val and max_val.",
        )
    if not input.dtype.is_signed and input.dtype.kind == "i" and min_val < 0:
        raise ShapeError(
            f"cannot do hardtanh on an unsigned type with negative limits: {input.dtype.name} and min_val={min_val}",
            where=source.where(),
            hint="Convert the input to a signed type, or use limits of at least 0.",
        )
    kind = float if input.dtype.kind == "f" else int
    return assign_if_inplace(
        input, tensor_of(call("hardtanh", operand_node(input), low=kind(min_val), high=kind(max_val)), input), inplace
    )


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return min(max(x, 0), 6) for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.relu6(lt.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x * min(max(x + 3, 0), 6) / 6 for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned. Raises TypeUnsupported if `input`
    is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.hardswish(lt.tensor([-4.0, 0.0, 4.0]))
    tensor([-0., 0., 4.])
    """
    require_elements(input, "f", "hardswish")
    return assign_if_inplace(input, _hardswish(input), inplace)


@round_once
def _hardswish(x: Tensor) -> Tensor:
    return x * relu6(x + 3.0) / 6.0


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return min(max(x + 3, 0), 6) / 6 for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned. Raises TypeUnsupported if `input`
    is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.hardsigmoid(lt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    require_elements(input, "f", "hardsigmoid")
    return assign_if_inplace(input, _hardsigmoid(input), inplace)


@round_once
def _hardsigmoid(x: Tensor) -> Tensor:
    return relu6(x + 3.0) / 6.0


@method
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return 0 where |x| <= `lambd`, else x, for each element x of `input`, in the shape of `input`.

    Raises TypeUnsupported if `input` is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.hardshrink(lt.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """
    require_elements(input, "f", "hardshrink")
    return pw.where(pw.abs(input) <= float(lambd), 0.0, input)


@round_once
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return each element of `input` moved towards 0 by `lambd`, in the shape of `input`.

    The result is x - lambd if x > lambd, x + lambd if x < -lambd, and 0 between. Raises ShapeError (a RuntimeError) if
    `lambd` is negative, and TypeUnsupported if `input` is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.softshrink(lt.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """
    if lambd < 0:
        raise ShapeError(
            f"lambda must be greater or equal to 0, but found to be {lambd}.",
            where=source.where(),
            hint="Pass a lambd of at least 0.",
        )
    require_elements(input, "f", "softshrink")
    moved = pw.where(input < -float(lambd), input + float(lambd), input - float(lambd))
    return pw.where(pw.abs(input) <= float(lambd), input * 0.0, moved)


def softsign(input: Tensor) -> Tensor:
    """Return x / (1 + |x|) for each element x of `input`, in the shape of `input`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.softsign(lt.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (pw.abs(input) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """Return x - tanh(x) for each element x of `input`, in the shape of `input`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.tanhshrink(lt.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """
    return input - pw.tanh(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x if x > `threshold`, else `value`, for each element x of `input`, in the shape and dtype of `input`.

    NaN stays NaN on the host and becomes `value` in a step for the wafer. If `inplace` is true, the result is written
    to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.threshold(lt.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    # `where` would promote an integer tensor to floating-point if the number were a float.
    filler = value if input.dtype.kind == "f" else int(value)
    if half_type() is not None:
        # The vendor's formula, which gives `value` for NaN.
        return assign_if_inplace(input, pw.where(input > threshold, input, filler), inplace)
    return assign_if_inplace(input, _apply_threshold(input, threshold, filler), inplace)


@round_once
def _apply_threshold(x: Tensor, threshold: float, filler: float) -> Tensor:
    return pw.where(x <= threshold, filler, x)


# `threshold_` calls the function by this name, since its parameter `threshold` hides it.
_threshold = threshold


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x * tanh(softplus(x)) for each element x of `input`, in the shape of `input`.

    If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.mish(lt.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """
    return assign_if_inplace(input, tensor_of(call("mish", operand_node(input)), input), inplace)


@round_once
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the gated linear unit a * sigmoid(b), where a and b are the first and second half of `input` along `dim`.

    `input` is [..., 2n, ...] and the result [..., n, ...]. Raises ShapeError if the extent of `dim` is odd or `input`
    has no dimensions. Raises TypeUnsupported if `input` is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.glu(lt.tensor([3.0, 0.0]))
    tensor([1.5000])
    """
    at = normalize_dim(dim, input.ndim)
    if not input.ndim:
        raise ShapeError(
            "glu does not support 0-dimensional tensors",
            where=source.where(),
            hint="Pass a tensor with at least one dimension.",
        )
    extent = input.spec.shape[at]
    if extent % 2:
        raise ShapeError(
            f"Halving dimension must be even, but dimension {at} is size {extent}",
            where=source.where(),
            hint="Choose a dimension with an even size, or pad it.",
        )
    require_elements(input, "f", "glu")
    half = extent // 2
    return _gate(slice_dim(input, at, 0, half), slice_dim(input, at, half, extent))


@round_once
def _gate(x: Tensor, gate: Tensor) -> Tensor:
    return x * pw.sigmoid(gate)


@method
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return x if x > 0, else `weight` * x, for each element x of `input`, in the shape of `input`.

    `weight` has one element, or is a vector with one for each channel. Dimension 1 of `input` [N, C, ...] is the
    channel; an input with fewer dimensions has one channel. Raises ShapeError for any other shape of `weight`.

    >>> import lazytensor as lt
    >>> lt.prelu(lt.tensor([-1.0, 2.0]), lt.tensor([0.5]))
    tensor([-0.5000,  2.0000])
    """
    if weight.spec.size != 1:
        channels = input.spec.shape[1] if input.ndim > 1 else 1
        if weight.ndim != 1 or weight.spec.size != channels:
            raise ShapeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.spec.size} "
                f"and channel size = {channels}.",
                where=source.where(),
                hint="Create PReLU with num_parameters equal to 1 or to the number of channels.",
            )
        weight = view(weight, (-1, *(1,) * (input.ndim - 2)))
    # A weight [1] becomes 0-d for a 0-d input; otherwise the result would have one dimension.
    elif weight.ndim > input.ndim:
        weight = view(weight, ())
    return pw.where(input > 0, input, input * weight)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return x if x > 0, else slope * x, for each element x of `input`, in the shape of `input`.

    If `training` is true, the slope of each element is drawn uniformly from `lower` to `upper`. Otherwise it is the
    mean of `lower` and `upper`. If `inplace` is true, the result is written to `input`, and `input` is returned.

    >>> import lazytensor as lt
    >>> lt.nn.functional.rrelu(lt.tensor([-2.0, 2.0]), 0.25, 0.75)
    tensor([-1.,  2.])
    """
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = _random_slopes(input, lower, upper)
    return assign_if_inplace(input, pw.where(input > 0, input, input * slope), inplace)


def _random_slopes(x: Tensor, lower: float, upper: float) -> Tensor:
    """Return a tensor of slopes for `rrelu`, in the shape and dtype of `x`.

    Elements that are not positive get a number drawn uniformly from `lower` to `upper`; for the others nothing is drawn
    and the slope is 1. In a step that is replayed, a number is drawn for every element.
    """
    if is_replayed():
        return rand(x.spec.shape, dtype=x.dtype, device=x.device) * (upper - lower) + lower
    values = np.ones(x.spec.shape)
    low = x.array("rrelu") <= 0
    values[low] = random.resolve_generator(None).uniform((int(low.sum()),), dt.float64, lower, upper)
    return tensor_of_draws(values.astype(x.dtype.host), x.dtype)


def _implicit_dim(x: Tensor, dim: int | None) -> int:
    """Return `dim`, or PyTorch's default if `dim` is None: 0 for tensors of 0, 1 or 3 dimensions, else 1."""
    # PyTorch introduced this rule when images had no batch dimension. It keeps the rule and warns.
    return dim if dim is not None else 0 if x.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """Return exp(x) divided by its sum along `dim`, in the shape of `input`.

    If `dim` is None, it is 0 for inputs of 0, 1 or 3 dimensions, else 1. If `dtype` is given, `input` is converted to
    it first. `_stacklevel` is ignored. Raises IndexError if `input` does not have the dimension.

    >>> import lazytensor as lt
    >>> lt.nn.functional.softmax(lt.zeros(4), 0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return reduction.softmax(input, _implicit_dim(input, dim), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """Return softmax(-input) along `dim`, in the shape of `input`.

    If `dim` is None, it is 0 for inputs of 0, 1 or 3 dimensions, else 1. If `dtype` is given, the negated input is
    converted to it first. `_stacklevel` is ignored. Raises IndexError if `input` does not have the dimension.

    >>> import lazytensor as lt
    >>> lt.nn.functional.softmin(lt.zeros(4), 0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return reduction.softmax(-input, _implicit_dim(input, dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """Return log(softmax(input)) along `dim`, computed without overflow, in the shape of `input`.

    If `dim` is None, it is 0 for inputs of 0, 1 or 3 dimensions, else 1. If `dtype` is given, `input` is converted to
    it first. `_stacklevel` is ignored. Raises IndexError if `input` does not have the dimension.

    >>> import lazytensor as lt
    >>> lt.nn.functional.log_softmax(lt.zeros(4), 0)
    tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """
    return reduction.log_softmax(input, _implicit_dim(input, dim), dtype=dtype)


def relu_(input: Tensor) -> Tensor:
    """Write max(x, 0) to each element x of `input`, and return `input`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.relu_(lt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return relu(input, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Write x if x > 0, else `negative_slope` * x, to each element x of `input`, and return `input`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.leaky_relu_(lt.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return leaky_relu(input, negative_slope, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Write x if x > 0, else `alpha` * (exp(x) - 1), to each element x of `input`, and return `input`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.elu_(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Write x if x > 0, else `alpha` * (exp(x / alpha) - 1), to each element x of `input`, and return `input`.

    Raises as `celu` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.celu_(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """Write `selu(x)` to each element x of `input`, and return `input`.

    Raises TypeUnsupported for non-floating-point tensors.

    >>> import lazytensor as lt
    >>> lt.nn.functional.selu_(lt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return selu(input, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Limit each element of `input` to the range from `min_val` to `max_val` in place, and return `input`.

    Raises as `hardtanh` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.hardtanh_(lt.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return hardtanh(input, min_val, max_val, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Write `value` to each element of `input` that is not greater than `threshold`, and return `input`.

    NaN is treated as in `threshold`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.threshold_(lt.tensor([-1.0, 2.0]), 0.0, 9.0)
    tensor([9., 2.])
    """
    return _threshold(input, threshold, value, True)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """Write x if x > 0, else slope * x, to each element x of `input`, and return `input`.

    The slope is random for each element if `training` is true, as in `rrelu`; else it is the mean of `lower` and
    `upper`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.rrelu_(lt.tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    return rrelu(input, lower, upper, training, True)
