"""Pooling over windows and adaptive regions, and max-unpooling."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.autocast import cast_to_half
from lazytensor.core.dtype import int64
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.docstrings import documented
from lazytensor.errors import MemoryMissing, OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.activation import relu
from lazytensor.functional.convolution import Extents, to_ntuple
from lazytensor.functional.padding_and_shuffles import Tap, apply_taps
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import require_elements
from lazytensor.functional.views import normalize_dim
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.shape import reshape

Dims = tuple[int, ...]
SPATIAL_DIMS = ("L", "H, W", "D, H, W")
"""The spatial dimensions in docstrings, for one, two and three of them."""
MAX_REGIONS = 1 << 32
"""The number of regions of adaptive pooling above which a list of them does not fit in memory."""


def _check_rank(name: str, rank: int, input: Tensor) -> None:
    if input.ndim not in (rank + 1, rank + 2) or 0 in input.spec.shape[1:]:
        raise ShapeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got {list(input.shape)}",
            where=source.where(),
            hint="Add or remove dimensions, for example with unsqueeze(0) for the batch.",
        )


def _window_attributes(name: str, rank: int, input: Tensor, options: tuple[Any, ...]) -> dict[str, Any]:
    """Return the attributes "kernel", "stride", "padding" and "dilation" of a pooling operation as a dict.

    Each has one value per spatial dimension; padding has pairs (before, after), where the second includes the elements
    that ceil_mode needs. `options` are kernel_size, stride, padding, dilation and ceil_mode; stride None or empty
    stands for the kernel size. Raises ShapeError if they do not fit the input.
    """
    _check_rank(name, rank, input)
    kernel_size, stride, padding, dilation, ceil_mode = options
    kernel = to_ntuple(kernel_size, rank, "kernel_size")
    # torch.max_pool2d passes an empty list for no stride.
    steps = kernel if stride is None or stride == [] or stride == () else to_ntuple(stride, rank, "stride")
    around, spread = to_ntuple(padding, rank, "padding"), to_ntuple(dilation, rank, "dilation")
    if min(kernel) < 1 or min(steps) < 1 or min(spread) < 1:
        raise ShapeError(
            f"{name}: kernel size, stride and dilation should be greater than zero",
            where=source.where(),
            hint="Pass positive numbers.",
        )
    if any(not 0 <= 2 * p <= d * (k - 1) + 1 for p, k, d in zip(around, kernel, spread, strict=True)):
        raise ShapeError(
            f"pad should be at most half of effective kernel size, but got pad={list(around)}, "
            f"kernel_size={list(kernel)} and dilation={list(spread)}",
            where=source.where(),
            hint="Reduce the padding, or pad the input with F.pad first.",
        )
    extents = input.spec.shape[input.ndim - rank :]
    sizes = zip(extents, kernel, steps, around, spread, strict=True)
    # With ceil_mode the padding at the end grows so that a last, partial window fits. From here on windows are all
    # alike.
    pairs = tuple((p, _end_padding(e, d * (k - 1) + 1, s, p, ceil_mode)) for e, k, s, p, d in sizes)
    if any(e + sum(q) < d * (k - 1) + 1 for e, k, q, d in zip(extents, kernel, pairs, spread, strict=True)):
        raise ShapeError(
            f"{name}: Output size is too small: the input is {list(input.shape)}, the kernel {list(kernel)}",
            where=source.where(),
            hint="Increase the input or the padding, or reduce the kernel.",
        )
    return {"kernel": kernel, "stride": steps, "padding": pairs, "dilation": spread}


def _end_padding(extent: int, reach: int, stride: int, padding: int, ceil_mode: bool) -> int:
    """Return the padding at the end of a dimension: `padding`, or more with `ceil_mode`.

    With `ceil_mode` it is as large as the last window that starts inside the input or its first padding needs. `reach`
    is the extent of the dilated kernel.
    """
    room = extent + 2 * padding - reach
    if not ceil_mode or room % stride == 0:
        return padding
    count = -(-room // stride) + 1
    if (count - 1) * stride >= extent + padding:  # the last window has to start inside the input or its first padding
        return padding
    return (count - 1) * stride + reach - extent - padding


def _flatten_spatial(n: Node, rank: int) -> Node:
    return reshape(n, (*n.type.shape[:-rank], math.prod(n.type.shape[-rank:])))


def _gather_maxima(input: Tensor, x: Node, places: Node, rank: int) -> Tensor:
    """Return the elements of `x` at flat spatial indices `places`, so that the gradient reaches only these elements."""
    # Windows overlap: with a gather, the gradient of an element is the sum over all windows whose maximum it is. The
    # result is a tensor, so that a second backward pass finds the indices freed.
    values = tensor_of(call("at_places", _flatten_spatial(x, rank), _flatten_spatial(places, rank)), input)
    return values if rank == 1 else tensor_of(reshape(values.node, places.type.shape), input)


def _max_pool(rank: int, input: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    """Return the maxima and their int64 indices in the flattened spatial dimensions.

    `options` are kernel_size, stride, padding, dilation and ceil_mode. The gradient reaches only the elements at the
    indices. Raises ShapeError as `_window_attributes` does.
    """
    attrs = _window_attributes(f"max_pool{rank}d", rank, input, options)
    (x,) = cast_to_half(operand_node(input))
    # One operation finds the indices; the values and the gradient use them.
    places = call("window_argmax", x, **attrs)
    return _gather_maxima(input, x, places, rank), tensor_of(places, input)


def _make_max_pools(
    rank: int, example: str, example_with_indices: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `max_pool` and `max_pool_with_indices` of `rank` spatial dimensions, with the same parameters."""

    def with_indices(
        input: Tensor,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return _max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode)

    def pool(
        input: Tensor,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        pair = _max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode)
        return pair if return_indices else pair[0]

    dims = SPATIAL_DIMS[rank - 1]
    options = (
        f"`input` is [N, C, {dims}] or [C, {dims}]. `kernel_size`, `stride`, `padding` and `dilation` are numbers, or\n"
        "have one number for each spatial dimension. `stride` defaults to `kernel_size`. Padding is never the\n"
        "maximum, and NaN always is. If `ceil_mode` is true, a last, partial window counts if it starts inside the\n"
        "input or its first padding."
    )
    errors = (
        "Raises ShapeError for other ranks, if no window fits, and if `padding` is above half of the dilated window."
    )
    return documented(
        pool,
        f"max_pool{rank}d",
        f"Return the maximum of each window of `input`, which has {rank} spatial dimension{'s'[: rank - 1]}.\n\n"
        f"{options}\n\n"
        "If `return_indices` is true, return a pair instead: the maxima, and the int64 index of each maximum in the\n"
        f"flattened spatial dimensions.\n\n{errors}",
        example,
    ), documented(
        with_indices,
        f"max_pool{rank}d_with_indices",
        "Return the maximum of each window, and its int64 index in the flattened spatial dimensions.\n\n"
        f"{options}\n\n`return_indices` is ignored.\n\n{errors}",
        example_with_indices,
    )


max_pool1d, max_pool1d_with_indices = _make_max_pools(
    1,
    ">>> lt.nn.functional.max_pool1d(lt.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)\ntensor([[3., 7.]])",
    ">>> lt.max_pool1d_with_indices(lt.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)\n(tensor([[3., 4.]]), tensor([[1, 3]]))",
)
max_pool2d, max_pool2d_with_indices = _make_max_pools(
    2,
    ">>> lt.nn.functional.max_pool2d(lt.ones(1, 4, 4), 2).shape\nlazytensor.Size([1, 2, 2])",
    ">>> lt.nn.functional.max_pool2d_with_indices(lt.arange(4.0).reshape(1, 2, 2), 2)\n"
    "(tensor([[[3.]]]), tensor([[[3]]]))",
)
max_pool3d, max_pool3d_with_indices = _make_max_pools(
    3,
    ">>> lt.nn.functional.max_pool3d(lt.ones(1, 4, 4, 4), 2).shape\nlazytensor.Size([1, 2, 2, 2])",
    ">>> lt.nn.functional.max_pool3d_with_indices(lt.arange(8.0).reshape(1, 2, 2, 2), 2)\n"
    "(tensor([[[[7.]]]]), tensor([[[[7]]]]))",
)


def _avg_pool(rank: int, input: Tensor, *options: Any) -> Tensor:
    """Return average pooling with `rank` spatial dimensions.

    `options` are kernel_size, stride, padding, ceil_mode, count_include_pad and divisor_override. Raises ShapeError if
    the divisor is 0 or the options do not fit the input.
    """
    kernel_size, stride, padding, ceil_mode, include_pad, divisor = options
    attrs = _window_attributes(f"avg_pool{rank}d", rank, input, (kernel_size, stride, padding, 1, ceil_mode))
    del attrs["dilation"]
    if divisor == 0:
        raise ShapeError("divisor must be not zero", where=source.where(), hint="Pass a divisor_override other than 0.")
    around = to_ntuple(padding, rank, "padding")
    (x,) = cast_to_half(operand_node(input))
    return tensor_of(call("avg_pool", x, around=around, include_pad=include_pad, divisor=divisor, **attrs), input)


def avg_pool1d(
    input: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean over windows of `input` [N, C, L] or [C, L]: [..., L'].

    - `kernel_size`, `stride`: window length, and distance of windows (`kernel_size` if None).
    - `padding`: zeros added at both ends, at most half the kernel size.
    - `ceil_mode`: keep a last, partial window.
    - `count_include_pad`: whether padding counts in the divisor.

    Raises ShapeError if no window fits or an option is invalid.

    >>> import lazytensor as lt
    >>> lt.nn.functional.avg_pool1d(lt.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean over windows of `input` [N, C, H, W] or [C, H, W]: [..., H', W'].

    - `kernel_size`, `stride`: window extents, and distances of windows (`kernel_size` if None).
    - `padding`: zeros added on both sides, at most half the kernel size.
    - `ceil_mode`: keep last, partial windows.
    - `count_include_pad`: whether padding counts in the divisor.
    - `divisor_override`: divide the sums by this number.

    Raises IndexInvalid for fewer than three dimensions, ShapeError if no window fits or an option is invalid, and
    TypeUnsupported for integers other than int64.

    >>> import lazytensor as lt
    >>> lt.nn.functional.avg_pool2d(lt.ones(1, 4, 4), 2).shape
    lazytensor.Size([1, 2, 2])
    """
    normalize_dim(-3, input.ndim)
    if input.dtype is not int64:
        require_elements(input, "f", "avg_pool2d")
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean over windows of `input` [N, C, D, H, W] or [C, D, H, W]: [..., D', H', W'].

    - `kernel_size`, `stride`: window extents, and distances of windows (`kernel_size` if None).
    - `padding`: zeros added on both sides, at most half the kernel size.
    - `ceil_mode`: keep last, partial windows.
    - `count_include_pad`: whether padding counts in the divisor.
    - `divisor_override`: divide the sums by this number.

    Raises ShapeError if no window fits or an option is invalid.

    >>> import lazytensor as lt
    >>> lt.nn.functional.avg_pool3d(lt.ones(1, 4, 4, 4), 2).shape
    lazytensor.Size([1, 2, 2, 2])
    """
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(rank: int, input: Tensor, p: float, kernel_size: Extents, stride: Any, ceil_mode: bool) -> Tensor:
    mean = _avg_pool(rank, input ** float(p), kernel_size, stride, 0, ceil_mode, True, None)
    # PyTorch's formula, for odd powers of negative elements, whose sum may be negative.
    signed = pw.sign(mean) * relu(pw.abs(mean))
    return (signed * math.prod(to_ntuple(kernel_size, rank, "kernel_size"))) ** (1 / float(p))


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm (sum of x**p)**(1/p) over windows of `input` [N, C, L] or [C, L]: [..., L'].

    `norm_type` is p. The other parameters are those of `avg_pool1d`. Raises ShapeError if no window fits.

    >>> import lazytensor as lt
    >>> lt.nn.functional.lp_pool1d(lt.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm (sum of x**p)**(1/p) over windows of `input` [N, C, H, W] or [C, H, W]: [..., H', W'].

    `norm_type` is p. The other parameters are those of `avg_pool2d`. Raises ShapeError if no window fits.

    >>> import lazytensor as lt
    >>> lt.nn.functional.lp_pool2d(lt.ones(1, 2, 2), 1, 2)
    tensor([[[4.]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Extents, stride: Extents | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm (sum of x**p)**(1/p) over windows of `input`: [..., D', H', W'].

    `input` is [N, C, D, H, W] or [C, D, H, W]. `norm_type` is p. The other parameters are those of `avg_pool3d`. Raises
    ShapeError if no window fits.

    >>> import lazytensor as lt
    >>> lt.nn.functional.lp_pool3d(lt.ones(1, 1, 2, 2, 2), 2, 2)
    tensor([[[[[2.8284]]]]])
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


OutputSize = int | None | Sequence[int | None]


def _resolve_output_size(name: str, rank: int, input: Tensor, output_size: OutputSize) -> Dims:
    """Return the `rank` output extents of adaptive pooling, where None stands for the input extent.

    A single value, also in a tuple, is used for all dimensions. Raises ShapeError for an input of another rank or
    negative extents, OptionInvalid for as many values as `input` has dimensions or more, ValueError for another
    wrong number of values, and MemoryMissing for more than MAX_REGIONS regions.
    """
    # PyTorch checks the length of a list before the rank of the input.
    if isinstance(output_size, list | tuple) and rank > 1 and len(output_size) >= input.ndim:
        raise OptionInvalid(
            f"Input dimension should be at least {len(output_size) + 1}",
            where=source.where(),
            hint="Add dimensions with unsqueeze().",
        )
    _check_rank(name, rank, input)
    # None keeps the extent of the input.
    given = (output_size,) * rank if isinstance(output_size, int) or output_size is None else tuple(output_size)
    if len(given) == 1:
        given = given * rank
    extents = input.spec.shape[-rank:]
    outputs = tuple(e if o is None else int(o) for o, e in zip(given, extents, strict=True))
    count = math.prod(outputs)
    if any(o < 0 for o in outputs):
        raise ShapeError(
            f"{name}: elements of output_size must be greater than or equal to 0",
            where=source.where(),
            hint="Pass output sizes of at least 0.",
        )
    # All regions are listed.
    if count > MAX_REGIONS:
        raise MemoryMissing(
            f"{name}: an output of {count:,} regions is larger than any memory", 0, where=source.where()
        )
    return outputs


def _adaptive_regions(extent: int, count: int) -> tuple[tuple[int, int], ...]:
    """Return start and end of each of `count` regions that cover an extent.

    Neighbouring regions may overlap by one element.
    """
    # The start is rounded down and the end up, so that every element is in a region, even if there are more regions
    # than elements.
    return tuple((i * extent // count, -(-(i + 1) * extent // count)) for i in range(count))


def _adaptive_avg(rank: int, input: Tensor, output_size: OutputSize) -> Tensor:
    """Return adaptive average pooling with `rank` spatial dimensions: means of regions that cover the input.

    `output_size` is the number of regions in each dimension, and errors are raised, as in `_resolve_output_size`.
    """
    outputs = _resolve_output_size(f"adaptive_avg_pool{rank}d", rank, input, output_size)
    extents = input.spec.shape[-rank:]
    # Equal regions are windows without overlap, for which the vendor's front end has an operation.
    if all(o and e % o == 0 for e, o in zip(extents, outputs, strict=True)):
        if all(o == 1 for o in outputs):
            # The last dimension first, as the vendor's front end lists them.
            dims = tuple(reversed(range(input.ndim - rank, input.ndim)))
            return tensor_of(call("mean", operand_node(input), dims=dims, keepdim=True), input)
        kernel = tuple(e // o for e, o in zip(extents, outputs, strict=True))
        none = (0,) * rank
        window = {"kernel": kernel, "stride": kernel, "padding": ((0, 0),) * rank, "around": none}
        return tensor_of(call("avg_pool", operand_node(input), include_pad=True, divisor=None, **window), input)
    x = operand_node(input)
    for dim, (extent, count) in enumerate(zip(extents, outputs, strict=True), input.ndim - rank):
        x = apply_taps(x, dim, _region_taps(extent, count))
    return tensor_of(x, input)


def _region_taps(extent: int, count: int) -> list[Tap]:
    """Return the mean over the `count` regions of adaptive pooling along a dimension, as pairs of indices and weights.

    There are as many pairs as the longest region has elements. Pair j has element j of each region; shorter regions
    repeat their last element with weight 0.
    """
    regions = _adaptive_regions(extent, count)
    longest = max((b - a for a, b in regions), default=0)
    taps = []
    for j in range(max(longest, 1)):
        # Shorter regions read their last element with weight 0.
        index = tuple(min(a + j, extent - 1) for a, _ in regions)
        taps.append((index, np.array([(a + j < b) / (b - a) for a, b in regions])))
    return taps


def adaptive_avg_pool1d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Return the means of `output_size` regions that cover L: [N, C, L] or [C, L] -> [..., output_size].

    None keeps the extent. Region i is from floor(i * L / size) to ceil((i + 1) * L / size). Raises ShapeError for
    another rank.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_avg_pool1d(lt.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Return the means of regions that cover H and W: [N, C, H, W] or [C, H, W] -> [..., H', W'].

    `output_size` is H' and W', or one number for both; None keeps an extent. Regions are those of
    `adaptive_avg_pool1d`. Raises ShapeError for another rank, and TypeUnsupported for integers.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_avg_pool2d(lt.ones(1, 4, 4), 2).shape
    lazytensor.Size([1, 2, 2])
    """
    out = _adaptive_avg(2, input, output_size)
    if out.spec.size:
        require_elements(input, "f", "adaptive_avg_pool2d")
    return out


def adaptive_avg_pool3d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Return the means of regions that cover D, H and W: [N, C, D, H, W] or [C, D, H, W] -> [..., D', H', W'].

    `output_size` is D', H' and W', or one number for all; None keeps an extent. Regions are those of
    `adaptive_avg_pool1d`. Raises ShapeError for another rank.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_avg_pool3d(lt.ones(1, 4, 4, 4), 2).shape
    lazytensor.Size([1, 2, 2, 2])
    """
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(rank: int, input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    outputs = _resolve_output_size(f"adaptive_max_pool{rank}d", rank, input, output_size)
    regions = tuple(_adaptive_regions(e, o) for e, o in zip(input.spec.shape[-rank:], outputs, strict=True))
    places = call("region_argmax", operand_node(input), regions=regions)
    values = _gather_maxima(input, operand_node(input), places, rank)
    return (values, tensor_of(places, input)) if return_indices else values


def adaptive_max_pool1d(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the maxima of `output_size` regions that cover L: [N, C, L] or [C, L] -> [..., output_size].

    None keeps the extent. Regions are those of `adaptive_avg_pool1d`. If `return_indices` is true, return a pair of the
    maxima and their indices along L. Raises ShapeError for another rank.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_max_pool1d(lt.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[3., 7.]])
    """
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the maxima of regions that cover H and W: [N, C, H, W] or [C, H, W] -> [..., H', W'].

    `output_size` is H' and W', or one number for both; None keeps an extent. If `return_indices` is true, return a pair
    of the maxima and their flat indices in H x W. Raises ShapeError for another rank.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_max_pool2d(lt.ones(1, 4, 4), 2).shape
    lazytensor.Size([1, 2, 2])
    """
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the maxima of regions that cover D, H and W: [N, C, D, H, W] or [C, D, H, W] -> [..., D', H', W'].

    `output_size` is D', H' and W', or one number for all; None keeps an extent. If `return_indices` is true, return a
    pair of the maxima and their flat indices in D x H x W. Raises ShapeError for another rank.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_max_pool3d(lt.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the maxima of `adaptive_max_pool1d` and their indices: two tensors [..., output_size].

    `return_indices` is ignored. Raises as `adaptive_max_pool1d` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_max_pool1d_with_indices(lt.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    (tensor([[3., 4.]]), tensor([[1, 3]]))
    """
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the maxima of `adaptive_max_pool2d` and their flat indices: two tensors [..., H', W'].

    `return_indices` is ignored. Raises as `adaptive_max_pool2d` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_max_pool2d_with_indices(lt.arange(4.0).reshape(1, 2, 2), 1)
    (tensor([[[3.]]]), tensor([[[3]]]))
    """
    return _adaptive_max(2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Any:
    """Return the maxima of `adaptive_max_pool3d` and their flat indices: two tensors [..., D', H', W'].

    `return_indices` is ignored. Raises as `adaptive_max_pool3d` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.adaptive_max_pool3d_with_indices(lt.arange(8.0).reshape(1, 2, 2, 2), 1)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    return _adaptive_max(3, input, output_size, True)


def _max_unpool(rank: int, input: Tensor, indices: Tensor, *options: Any) -> Tensor:
    """Return max unpooling with `rank` spatial dimensions: `input` at the flat spatial `indices`, zeros elsewhere.

    `options` are kernel_size, stride, padding and output_size. Without output_size the extents are the smallest that
    pool to those of `input`. Raises ShapeError unless `indices` is int64 in the shape of `input`, and OptionInvalid if
    output_size differs from these extents by the stride or more.
    """
    kernel_size, stride, padding, output_size = options
    kernel = to_ntuple(kernel_size, rank, "kernel_size")
    steps = kernel if stride is None else to_ntuple(stride, rank, "stride")
    around = to_ntuple(padding, rank, "padding")
    if indices.dtype is not int64 or indices.spec.shape != input.spec.shape:
        raise ShapeError(
            f"elements in indices should be type int64 in the shape {list(input.shape)}, but got {indices.spec}",
            where=source.where(),
            hint="Pass the indices that max pooling returned.",
        )
    sizes = zip(input.spec.shape[-rank:], kernel, steps, around, strict=True)
    # The smallest extents that pool to the input's. `output_size` selects one of the candidates within the stride.
    extents = tuple((e - 1) * s + k - 2 * p for e, k, s, p in sizes)
    if output_size is not None:
        wanted = tuple(output_size)[-rank:]
        if any(abs(w - e) >= s for w, e, s in zip(wanted, extents, steps, strict=True)):
            raise OptionInvalid(
                f"invalid output_size {list(wanted)}: it must differ from {list(extents)} by less than the stride",
                where=source.where(),
                hint="Pass an output_size within this range, or omit it.",
            )
        extents = wanted
    # Indices are flat in the larger plane. If two are equal, as with overlapping windows, one value remains.
    places, values = _flatten_spatial(indices.node, rank), _flatten_spatial(operand_node(input), rank)
    out = call("put_places", values, places, extent=math.prod(extents), accumulate=False)
    return tensor_of(reshape(out, (*input.spec.shape[:-rank], *extents)), input)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` at the positions `indices` that max_pool1d returned.

    [..., L'] gives [..., L]. L is (L' - 1) * stride + kernel_size - 2 * padding, unless `output_size` gives another one
    within the stride. Raises ShapeError if `indices` is not int64 in the shape of `input`, and OptionInvalid (a
    ValueError) for an invalid `output_size`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.max_unpool1d(lt.tensor([[5.0]]), lt.tensor([[1]]), 2)
    tensor([[0., 5.]])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` at the flat positions `indices` that max_pool2d returned.

    [..., H', W'] gives [..., H, W]. Each extent is (H' - 1) * stride + kernel_size - 2 * padding, unless `output_size`
    gives another one within the stride. Raises ShapeError if `indices` is not int64 in the shape of `input`, and
    OptionInvalid (a ValueError) for an invalid `output_size`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.max_unpool2d(lt.tensor([[[5.0]]]), lt.tensor([[[3]]]), 2)
    tensor([[[0., 0.],
             [0., 5.]]])
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Extents,
    stride: Extents | None = None,
    padding: Extents = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the elements of `input` at the flat positions `indices` that max_pool3d returned.

    [..., D', H', W'] gives [..., D, H, W]. Each extent is (D' - 1) * stride + kernel_size - 2 * padding, unless
    `output_size` gives another one within the stride. Raises ShapeError if `indices` is not int64 in the shape of
    `input`, and OptionInvalid (a ValueError) for an invalid `output_size`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.max_unpool3d(lt.tensor([[[[5.0]]]]), lt.tensor([[[[1]]]]), (1, 1, 2))
    tensor([[[[0., 5.]]]])
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
