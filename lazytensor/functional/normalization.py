"""Normalization over batches, layers, groups and instances, and over neighbouring channels.

Half types are normalized in float32 and rounded once at the end.
"""

import math
from collections.abc import Sequence

from lazytensor.core import source
from lazytensor.core.autocast import cast_to_float32, cast_to_half, half_type
from lazytensor.core.dtype import DType, float32
from lazytensor.core.tensor import Tensor, grad_mode, operand_node
from lazytensor.errors import CountZero, OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction, statistics
from lazytensor.functional.creation import zeros
from lazytensor.functional.half_precision import host_half_dtype
from lazytensor.functional.padding_and_shuffles import pad
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.pooling import avg_pool2d, avg_pool3d
from lazytensor.functional.type_info import finfo
from lazytensor.functional.type_promotion import require_elements
from lazytensor.functional.views import view
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops.elementwise import cast
from lazytensor.ops.norm import center, inverse_deviation
from lazytensor.ops.shape import broadcast_to
from lazytensor.ops.shape import reshape as reshaped

Dims = tuple[int, ...]
EPSILON_HALF = 2.0**-23
"""The distance from 1 to the next float32. `rms_norm` adds it if no `eps` is given."""


def _cast_half_to_float32(n: Node) -> Node:
    return cast(n, float32) if n.type.dtype.is_half else n


def _param_or_neutral(given: Tensor | None, neutral: float, shape: Dims, dtype: DType) -> Node:
    """Return the node of a weight or bias in `dtype`, or a tensor filled with `neutral` if `given` is None."""
    return full(neutral, Type(shape, dtype)) if given is None else cast(operand_node(given), dtype)


def _cast_result(y: Node, input: Tensor) -> Tensor:
    """Return `y` in the half type while automatic casts are on, else in the dtype of `input`."""
    # The vendor's layers return the half type even for float32 inputs.
    return tensor_of(cast(y, input.dtype) if half_type() is None else _cast_to_half(y), input)


def _cast_with_params(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, missing: DType | None = None
) -> tuple[Node, Node, Node]:
    """Return input, weight [C] and bias [C] in the dtype of the computation.

    This is the half type while automatic casts are on. A missing weight or bias is replaced by ones or zeros. While
    automatic casts are on, these have the dtype `missing`, if it is given.
    """
    x = operand_node(input)
    x = _cast_half_to_float32(x) if half_type() is None else _cast_to_half(x)
    channels, dtype = x.type.shape[1:2], x.type.dtype
    neutral = dtype if half_type() is None or missing is None else missing
    scale, shift = (
        _param_or_neutral(p, k, channels, neutral if p is None else dtype) for p, k in ((weight, 1), (bias, 0))
    )
    return x, scale, shift


def _cast_to_half(x: Node) -> Node:
    """Return `x` in the half type while automatic casts are on, else unchanged."""
    return cast_to_half(x)[0]


def _apply_affine(x: Node, weight: Tensor | None, bias: Tensor | None, shape: Dims) -> Node:
    """Return x * weight + bias, where both are reshaped to `shape` and broadcast. A missing one is skipped."""
    if weight is not None:
        x = x * broadcast_to(reshaped(cast(operand_node(weight), x.type.dtype), shape), x.type.shape)
    if bias is not None:
        x = x + broadcast_to(reshaped(cast(operand_node(bias), x.type.dtype), shape), x.type.shape)
    return x


def _check_normalized_shape(
    name: str, input: Tensor, normalized_shape: Sequence[int] | int, *params: Tensor | None
) -> Dims:
    """Return `normalized_shape`, a number or a sequence, as a tuple.

    Raises ShapeError if it is empty, if `input` does not end with it, or if one of `params` has another shape.
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or tuple(input.spec.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"{name}: Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(input.shape)}",
            where=source.where(),
            hint="Pass the last extents of the input as normalized_shape.",
        )
    if any(p is not None and p.spec.shape != shape for p in params):
        raise ShapeError(
            f"{name}: expected weight and bias to be of shape {list(shape)}",
            where=source.where(),
            hint="Create weight and bias with the shape normalized_shape.",
        )
    return shape


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` normalized to mean 0 and variance 1 over the trailing dimensions `normalized_shape`, in its shape.

    The result is (x - mean) / sqrt(variance + eps) * weight + bias, where `weight` and `bias` have the shape
    `normalized_shape`. Raises ShapeError if `input` does not end with `normalized_shape`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.layer_norm(lt.tensor([1.0, 3.0]), (2,))
    tensor([-1.0000,  1.0000])
    """
    shape = _check_normalized_shape("layer_norm", input, normalized_shape, weight, bias)
    x = operand_node(input)
    wide = _cast_half_to_float32(x)
    # The operation needs both; ones and zeros replace a missing one.
    shift, scale = (
        _param_or_neutral(bias, 0, shape, wide.type.dtype),
        _param_or_neutral(weight, 1, shape, wide.type.dtype),
    )
    # PyTorch saves the mean and the deviation for backward in the half type, unless the parameters are float32.
    half = host_half_dtype(input)
    is_mixed = any(p is not None and p.dtype is not half for p in (weight, bias))
    attrs = {} if half is None or is_mixed else {"saved": half}
    y = call("layer_norm", wide, shift, scale, eps=eps, **attrs)
    return _cast_result(y, input)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of `layer_norm`, the mean, and 1 / sqrt(variance + eps).

    The latter two have extents of 1 in the reduced dimensions. Raises ShapeError as `layer_norm` does.

    >>> import lazytensor as lt
    >>> lt.native_layer_norm(lt.tensor([[1.0, 3.0]]), (2,), None, None, 1e-5)[0]
    tensor([[-1.0000,  1.0000]])
    """
    wide = _cast_half_to_float32(operand_node(input))
    dims = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    y = layer_norm(input, normalized_shape, weight, bias, eps)
    mean = call("mean", wide, dims=dims, keepdim=True)
    inverse = inverse_deviation(center(wide, dims)[1], eps)
    return y, tensor_of(mean, input).detach(), tensor_of(inverse, input).detach()


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int] | int, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Return `input` divided by its root mean square over the trailing dimensions `normalized_shape`, times `weight`.

    The result has the shape of `input`. `eps` is added to the mean square; if None, it is the machine epsilon of
    float32, or 2**-52 for float64. In a step for the wafer it is that of the input's dtype. Raises ShapeError if the
    shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.rms_norm(lt.tensor([3.0, 4.0]), (2,))
    tensor([0.8485, 1.1314])
    """
    shape = _check_normalized_shape("rms_norm", input, normalized_shape, weight)
    x = operand_node(input)
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    if half_type() is not None:
        return _compose_rms_norm(input, dims, weight, eps)
    wide = _cast_half_to_float32(x)
    square = call("mean", wide * wide, dims=dims, keepdim=True)
    epsilon = eps if eps is not None else 2.0**-52 if wide.type.dtype is not float32 else EPSILON_HALF
    y = wide * broadcast_to(inverse_deviation(square, epsilon), wide.type.shape)
    return tensor_of(cast(_apply_affine(y, weight, None, shape), x.type.dtype), input)


def _compose_rms_norm(input: Tensor, dims: Dims, weight: Tensor | None, eps: float | None) -> Tensor:
    """Return `rms_norm` as the wafer computes it: from simpler operations, in the dtype of the input.

    `eps` defaults to the machine epsilon of that dtype.
    """
    least = eps if eps is not None else finfo(input.dtype).eps
    square = reduction.mean(pw.pow(input, 2), dims, True)
    y = input * pw.rsqrt(square + least)
    return y if weight is None else y * weight


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Return `input` [N, C, ...] normalized to mean 0 and variance 1 over each of `num_groups` groups of channels.

    The result is scaled by `weight` [C] and shifted by `bias` [C]. Raises ShapeError if `num_groups` does not divide C,
    and CountZero (also a ZeroDivisionError) if it is 0.

    >>> import lazytensor as lt
    >>> lt.nn.functional.group_norm(lt.tensor([[1.0, 3.0]]), 1)
    tensor([[-1.0000,  1.0000]])
    """
    return _group_norm(input, num_groups, weight, bias, eps)[0]


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of `group_norm`, the means, and 1 / sqrt(variance + eps), the latter two [N, groups].

    `N`, `C` and `HxW` are ignored. Raises as `group_norm` does.

    >>> import lazytensor as lt
    >>> lt.native_group_norm(lt.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 1e-5)[0]
    tensor([[-1.0000,  1.0000]])
    """
    return _group_norm(input, group, weight, bias, eps)


def _group_norm(
    input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the group normalization of `input`, and the means and inverse standard deviations [N, groups].

    Raises CountZero if `groups` is 0. Raises ShapeError if it is negative or does not divide the number of channels, or
    if `input` has fewer than two dimensions.
    """
    if not groups:
        raise CountZero(
            "group_norm expects num_groups above 0, but got 0",
            where=source.where(),
            hint="Use a positive number of groups.",
        )
    if input.ndim < 2 or groups <= 0 or input.spec.shape[1] % groups:
        raise ShapeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={groups}",
            where=source.where(),
            hint="Choose a divisor of the number of channels.",
        )
    x, scale, shift = _cast_with_params(input, weight, bias)
    y = call("group_norm", x, scale, shift, groups=groups, eps=eps)
    # The following is recorded, but computed only if it is read.
    grouped = reshaped(x, (x.type.shape[0], groups, x.type.size // max(x.type.shape[0] * groups, 1)))
    mean = call("mean", grouped, dims=(2,), keepdim=False)
    inverse = inverse_deviation(center(grouped, (2,))[1], eps)
    return (
        _cast_result(y, input),
        tensor_of(mean, input),
        tensor_of(reshaped(inverse, mean.type.shape), input),
    )


def _update_running(running: Tensor | None, value: Node, momentum: float) -> None:
    """Write (1 - momentum) * running + momentum * value to a running statistic, if there is one, without a gradient."""
    if running is None:
        return
    # The statistics are not part of the loss, and their history must not keep the graph of one step alive in the next.
    with grad_mode(False):
        old = operand_node(running)
        new = cast(call("detach", value) if value.tracks else value, old.type.dtype)
        kept = old * (1 - momentum)
        running.write(kept + new * momentum)


def _update_running_statistics(
    x: Node, running: tuple[Tensor | None, Tensor | None], momentum: float, eps: float
) -> tuple[Node, Node]:
    """Return the mean [C] and 1 / sqrt(variance + eps) [C] of a batch, and update the running statistics.

    The returned variance is biased, the running variance is updated with the unbiased one, which is NaN for one value
    per channel. An empty batch updates nothing; a missing statistic is skipped.
    """
    dims, channels = (0, *range(2, len(x.type.shape))), x.type.shape[1:2]
    variance = reshaped(center(x, dims)[1], channels)
    mean = call("mean", x, dims=dims, keepdim=False)
    n = x.type.size // max(channels[0], 1)
    # An empty batch does not update the statistics.
    if not n:
        return mean, inverse_deviation(variance, eps)
    _update_running(running[0], mean, momentum)
    # PyTorch normalizes by the biased variance and stores the unbiased one, multiplied by n / (n - 1).
    _update_running(running[1], variance * (n / (n - 1) if n > 1 else math.nan), momentum)
    return mean, inverse_deviation(variance, eps)


def _batch_norm(
    input: Tensor,
    running: tuple[Tensor | None, Tensor | None],
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Node, Node]:
    """Return the batch normalization of `input`, and the means and inverse standard deviations [C] that it used.

    `running` has the running mean and variance. In training the statistics of the batch are used, and the running ones
    are updated in place. Otherwise the running ones are used, with mean 0 and variance 1 for missing ones.
    """
    # The vendor's front end uses float32 ones and zeros for a missing weight and bias.
    x, scale, shift = _cast_with_params(input, weight, bias, float32)
    # Mean 0 and variance 1 replace missing statistics.
    stats = [_param_or_neutral(r, k, x.type.shape[1:2], x.type.dtype) for k, r in enumerate(running)]
    if training:
        y = call("batch_norm_training", x, scale, shift, *stats, eps=eps, momentum=momentum)
        # The statistics are those of the input before its cast.
        mean, inverse = _update_running_statistics(_cast_half_to_float32(operand_node(input)), running, momentum, eps)
    else:
        y = call("batch_norm", x, scale, shift, *stats, eps=eps, momentum=momentum)
        mean, inverse = stats[0], inverse_deviation(stats[1], eps)
    return _cast_result(y, input), mean, inverse


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` [N, C, ...] normalized for each channel, scaled by `weight` [C] and shifted by `bias` [C].

    If `training` is true, the mean and variance of the batch are used. `running_mean` and `running_var` [C], if given,
    are then updated in place: running = (1 - momentum) * running + momentum * value, with the unbiased variance.
    Otherwise the running statistics are used. `eps` is added to the variance. Raises OptionInvalid (a ValueError) in
    training if there is one value per channel, ShapeError outside training without running statistics, and
    TypeUnsupported for integers. An empty vector is copied without checks.

    >>> import lazytensor as lt
    >>> lt.nn.functional.batch_norm(lt.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if not input.spec.size and input.ndim < 2:
        return pw.clone(input)
    if input.spec.size:
        require_elements(input, "f", "batch_norm")
    # As in PyTorch: the variance of one value is 0, and its unbiased form divides by 0.
    if training and input.spec.size // max(input.spec.shape[1], 1) == 1:
        raise OptionInvalid(
            f"Expected more than 1 value per channel when training, got input size {input.shape}",
            where=source.where(),
            hint="Increase the batch size, or call model.eval().",
        )
    if not training and (running_mean is None or running_var is None):
        raise ShapeError(
            "running_mean and running_var must be defined in evaluation mode",
            where=source.where(),
            hint="Pass running statistics, or training=True.",
        )
    return _batch_norm(input, (running_mean, running_var), weight, bias, training, momentum, eps)[0]


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of `batch_norm`, the mean [C] of the batch, and 1 / sqrt(variance + eps) [C].

    If `training` is false, the latter two are empty. The checks of `batch_norm` are not made.

    >>> import lazytensor as lt
    >>> x = lt.tensor([[1.0], [3.0]])
    >>> lt.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0]
    tensor([[-1.0000],
            [ 1.0000]])
    """
    running = (running_mean, running_var)
    out, mean, inverse = _batch_norm(input, running, weight, bias, training, momentum, eps)
    if not training:
        return out, zeros(0, dtype=input.dtype), zeros(0, dtype=input.dtype)
    return out, tensor_of(mean, input).detach(), tensor_of(inverse, input).detach()


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` [N, C, ...] normalized for each channel of each sample, times `weight` [C], plus `bias` [C].

    If both `running_mean` and `running_var` are given, they are updated in place with the averages over the samples. If
    `use_input_stats` is false, they are used for the normalization instead, as in `batch_norm`. Raises OptionInvalid (a
    ValueError) if there is one spatial element, whose variance would be 0.

    >>> import lazytensor as lt
    >>> lt.nn.functional.instance_norm(lt.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _, channels, *rest = input.spec.shape
    if math.prod(rest) == 1:
        raise OptionInvalid(
            f"Expected more than 1 spatial element when training, got input size {input.shape}",
            where=source.where(),
            hint="Increase the spatial size, or use GroupNorm.",
        )
    x = operand_node(input)
    wide = _cast_half_to_float32(x)
    dims = tuple(range(2, input.ndim))
    spread_out, variance = center(wide, dims)
    if running_mean is not None and running_var is not None:
        many = math.prod(rest)
        mean = call("mean", wide, dims=(0, *dims), keepdim=False)
        # The variance of each sample and channel, averaged over the samples; not the variance of all samples together.
        spread = reshaped(call("mean", variance, dims=(0,), keepdim=False), (channels,))
        _update_running(running_mean, mean, momentum)
        _update_running(running_var, spread * (many / (many - 1)), momentum)
    y = spread_out * broadcast_to(inverse_deviation(variance, eps), wide.type.shape)
    shape = (channels, *(1,) * len(rest))
    # The intermediate is a tensor, so that a second backward pass finds its values freed.
    if weight is not None:
        y = _apply_affine(tensor_of(y, input).node, weight, None, shape)
    if bias is not None:
        y = _apply_affine(tensor_of(y, input).node, None, bias, shape)
    return tensor_of(cast(y, x.type.dtype), input)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Return x / (k + alpha * mean of x**2 over `size` neighbouring channels)**beta for `input` [N, C, ...].

    Channels beyond the ends count as zeros, and the mean always divides by `size`. An empty `input` is returned itself.
    Raises OptionInvalid (a ValueError) for fewer than three dimensions.

    >>> import lazytensor as lt
    >>> lt.nn.functional.local_response_norm(lt.ones(1, 2, 2), 2, alpha=0.5).shape
    lazytensor.Size([1, 2, 2])
    """
    if input.ndim < 3:
        raise OptionInvalid(
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)",
            where=source.where(),
            hint="Pass a tensor [N, C, ...].",
        )
    if not input.spec.size:
        return input
    if half_type() is not None:
        input = tensor_of(cast_to_float32(operand_node(input))[0], input)
    # Channels beyond the ends count as 0, and the mean always divides by `size`.
    before, after = size // 2, (size - 1) // 2
    square = (input * input).unsqueeze(1)
    if input.ndim == 3:
        mean = avg_pool2d(pad(square, (0, 0, before, after)), (size, 1), stride=1).squeeze(1)
    else:
        n, _, channels, height = square.shape[:4]
        volume = pad(view(square, n, 1, channels, height, -1), (0, 0, 0, 0, before, after))
        mean = view(avg_pool3d(volume, (size, 1, 1), stride=1).squeeze(1), input.shape)
    return input / (mean * alpha + k) ** beta


def normalize(input: Tensor, p: float | str = 2.0, dim: int | Sequence[int] = 1, eps: float | Tensor = 1e-12) -> Tensor:
    """Return `input` divided by its `p`-norm along `dim`, or by `eps` where the norm is smaller.

    >>> import lazytensor as lt
    >>> lt.nn.functional.normalize(lt.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / pw.clamp(statistics.norm(input, p, dim, True), eps if isinstance(eps, Tensor) else float(eps))
