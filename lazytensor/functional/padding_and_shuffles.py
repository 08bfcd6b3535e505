"""Padding, and rearrangements of pixels and channels."""

from collections.abc import Sequence

import numpy as np

from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.errors import OptionInvalid, OptionMissing, ShapeError
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import prepare_stored
from lazytensor.functional.views import permute, reshape
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call, const
from lazytensor.ops.op import refuse_overflow
from lazytensor.ops.pool import pick_along
from lazytensor.ops.shape import slice_

Tap = tuple[tuple[int, ...], np.ndarray]
"""The input index that each output element reads, and its weight."""


def apply_taps(x: Node, dim: int, taps: Sequence[Tap]) -> Node:
    """Return the weighted sum of gathers along `dim`, one for each tap.

    A tap is a pair (indices, weights): for each output element the index of an input element, and its weight.
    """
    total = None
    for index, weights in taps:
        part = pick_along(x, index, dim)
        # Weights of 1 need no product, so nearest-neighbour sampling and padding are gathers only.
        if not np.all(weights == 1):
            t = part.type
            by = const(weights.astype(t.dtype.host), Type((len(index),), t.dtype))
            by = call("broadcast_in_dim", by, shape=t.shape, dims=(dim,))
            part = part * by
        total = part if total is None else total + part
    assert total is not None
    return total


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Return `input` padded, or cropped by negative numbers, at both ends of its last dimensions.

    - `pad`: pairs (before, after), for the last dimension first.
    - `mode`: "constant", "reflect", "replicate" or "circular".
    - `value`: the padding value of "constant", 0 if None.

    Raises ShapeError for an odd number of values, more pairs than dimensions, and padding that does not fit the extent.
    Raises OptionMissing for another mode, and OptionInvalid (a ValueError) if `value` is given with another mode.

    >>> import lazytensor as lt
    >>> lt.nn.functional.pad(lt.tensor([1, 2]), (1, 1))
    tensor([0, 1, 2, 0])
    """
    # The first pair belongs to the last dimension; dimensions without a pair are unchanged.
    widths = [int(p) for p in pad]
    if len(widths) % 2 or len(widths) // 2 > input.ndim:
        raise ShapeError(
            f"Padding length must be divisible by 2 and at most twice the number of dimensions of the input; got "
            f"{widths} for {list(input.shape)}",
            where=source.where(),
            hint="Pass a pair (before, after) for each padded dimension, the last dimension first.",
        )
    # Reversed here, so that pairs are in the order of the dimensions.
    pairs = [(0, 0)] * (input.ndim - len(widths) // 2) + list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    if mode == "constant":
        return tensor_of(_pad_constant(operand_node(input), pairs, value or 0), input)
    if mode not in ("reflect", "replicate", "circular"):
        raise OptionMissing(
            f"Unrecognised padding mode {mode}",
            where=source.where(),
            hint='Use "constant", "reflect", "replicate" or "circular".',
        )
    if value is not None and value != 0:
        raise OptionInvalid(
            f"Padding mode '{mode}' doesn't take in value argument", where=source.where(), hint="Omit value."
        )
    n = operand_node(input)
    if mode == "circular" and half_type() is not None:
        return tensor_of(_pad_circular(n, pairs), input)
    for dim, (low, high) in enumerate(pairs):
        if low or high:
            n = pick_along(n, _border_indices(mode, n.type.shape[dim], low, high), dim)
    return tensor_of(n, input)


_pad = pad  # a parameter of `constant_pad_nd` is named `pad`


def _pad_circular(x: Node, pairs: list[tuple[int, int]]) -> Node:
    """Return `x` with circular padding, recorded as zero padding and copies of the opposite end.

    The vendor's front end records these operations.
    """
    for dim, (low, high) in enumerate(pairs):
        _border_indices("circular", x.type.shape[dim], low, high)
    n = _pad_constant(x, pairs, 0)
    for dim, (low, high) in reversed(list(enumerate(pairs))):
        extent = n.type.shape[dim]
        for to, source_at, count in ((0, extent - high - low, low), (extent - high, low, high)):
            if count > 0:
                places = [tuple(at if d == dim else 0 for d in range(len(pairs))) for at in (source_at, to)]
                ends = [
                    tuple(at + count if d == dim else e for d, e in enumerate(n.type.shape)) for at in (source_at, to)
                ]
                part = slice_(n, places[0], ends[0])
                n = call("slice_update", n, part, starts=places[1], limits=ends[1], strides=(1,) * len(pairs))
    return n


def _pad_constant(x: Node, pairs: list[tuple[int, int]], value: float) -> Node:
    """Return `x` padded with `value`, by pairs (before, after) in the order of the dimensions.

    Raises ShapeError if the result would have a negative extent.
    """
    shape = x.type.shape
    extents = tuple(e + low + high for e, (low, high) in zip(shape, pairs, strict=True))
    if min(extents, default=0) < 0:
        raise ShapeError(
            f"The input size {list(shape)}, plus padding {pairs}, resulted in a negative output size",
            where=source.where(),
            hint="Reduce the negative padding.",
        )
    if x.type.dtype.kind == "i":
        refuse_overflow(float(value), x.type.dtype)
    number = prepare_stored(value, x.type.dtype, extents).attrs["value"]
    return call("constant_pad", x, pairs=tuple(pairs), value=number) if any(map(any, pairs)) else x


def _border_indices(mode: str, extent: int, low: int, high: int) -> tuple[int, ...]:
    """Return the input index that each element of the padded dimension reads, for a mode other than "constant".

    Raises ShapeError if the padding is too large for the extent.
    """
    # Indices are constants, since shapes are known, so that padding is a gather.
    places = range(-low, extent + high)
    most = {"reflect": extent - 1, "circular": extent}.get(mode)
    # PyTorch wraps or mirrors only once.
    if most is not None and max(low, high) > most:
        raise ShapeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding ({low}, {high}) "
            f"at a dimension of extent {extent}",
            where=source.where(),
            hint='Reduce the padding below the extent, or use mode="replicate".',
        )
    if mode == "replicate":
        return tuple(min(max(p, 0), extent - 1) for p in places)
    if mode == "circular":
        # Negative padding crops first; the remaining elements are repeated.
        first, count = max(-low, 0), extent - max(-low, 0) - max(-high, 0)
        return tuple(first + (p - first) % count for p in places)
    # The inner absolute value mirrors at the first element, the outer one at the last. The ends are not repeated.
    return tuple(extent - 1 - abs(extent - 1 - abs(p)) for p in places)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return [..., C * r * r, H, W] rearranged to [..., C, H * r, W * r], where r is `upscale_factor`.

    Raises ShapeError if r * r does not divide the number of channels, or for fewer than three dimensions.

    >>> import lazytensor as lt
    >>> lt.pixel_shuffle(lt.ones(1, 4, 2, 2), 2).shape
    lazytensor.Size([1, 1, 4, 4])
    """
    r = upscale_factor
    _require_rank(input, 3, "pixel_shuffle")
    *lead, channels, height, width = input.spec.shape
    if r <= 0 or channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but {channels} is not divisible by {r * r}",
            where=source.where(),
            hint="Change the number of channels or upscale_factor.",
        )
    n = len(lead)
    # Channel c * r * r + i * r + j goes to row i and column j of each square (Shi et al. 2016).
    split = reshape(input, (*lead, channels // (r * r), r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return reshape(permute(split, order), (*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return [..., C, H * r, W * r] rearranged to [..., C * r * r, H, W], where r is `downscale_factor`.

    Raises ShapeError if r does not divide height and width, or for fewer than three dimensions.

    >>> import lazytensor as lt
    >>> lt.pixel_unshuffle(lt.ones(1, 1, 4, 4), 2).shape
    lazytensor.Size([1, 4, 2, 2])
    """
    r = downscale_factor
    _require_rank(input, 3, "pixel_unshuffle")
    *lead, channels, height, width = input.spec.shape
    if r <= 0 or height % r or width % r:
        raise ShapeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but {height} x {width} is "
            f"not divisible by {r}",
            where=source.where(),
            hint="Crop or pad the image to a multiple of downscale_factor.",
        )
    n = len(lead)
    split = reshape(input, (*lead, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return reshape(permute(split, order), (*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return [N, C, ...] with the channels of all `groups` interleaved, in the same shape.

    Channel k of group g moves to position k * groups + g. Raises ShapeError if `groups` does not divide C, or for fewer
    than three dimensions.

    >>> import lazytensor as lt
    >>> lt.channel_shuffle(lt.arange(4).reshape(1, 4, 1, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    _require_rank(input, 3, "channel_shuffle")
    n, channels, *rest = input.spec.shape
    if groups <= 0 or channels % groups:
        raise ShapeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups.",
            where=source.where(),
            hint="Choose a divisor of the number of channels.",
        )
    split = reshape(input, (n, groups, channels // groups, *rest))
    return reshape(permute(split, (0, 2, 1, *range(3, split.ndim))), input.spec.shape)


def _require_rank(input: Tensor, rank: int, name: str) -> None:
    if input.ndim < rank:
        raise ShapeError(
            f"{name} expects input to have at least {rank} dimensions, but got input with {input.ndim} dimension(s)",
            where=source.where(),
            hint="Add dimensions with unsqueeze().",
        )


def constant_pad_nd(x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Return `x` padded with `value`.

    `pad` holds pairs (before, after), for the last dimension first; negative ones crop. Raises ShapeError for an odd
    number of values, more pairs than dimensions, and crops larger than the extent.

    >>> import lazytensor as lt
    >>> lt.constant_pad_nd(lt.tensor([1, 2]), (1, 2), 0)
    tensor([0, 1, 2, 0, 0])
    """
    return _pad(x, pad, "constant", value)
