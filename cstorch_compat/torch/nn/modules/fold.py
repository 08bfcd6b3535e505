"""Sliding blocks of images as columns, and back: `unfold`, `fold` and their layers."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

from cstorch_compat.torch.nn.modules.utils import _pair
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ShapeError
from lazytensor.functional.argument_errors import guard_arguments
from lazytensor.functional.creation import zeros
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.joining_and_splitting import stack
from lazytensor.functional.type_promotion import require_elements
from lazytensor.functional.views import normalize_dim
from lazytensor.nn import Module
from lazytensor.nn import functional as F

IntOrPair = Any


class _BlockGrid:
    """The grid of sliding blocks over an image of `size` (height, width) with padding.

    Raises ShapeError if no block fits.
    """

    def __init__(
        self, size: tuple[int, int], kernel_size: IntOrPair, dilation: IntOrPair, padding: IntOrPair, stride: IntOrPair
    ):
        self.kernel, self.dilation, self.padding, self.stride = (
            _pair(p) for p in (kernel_size, dilation, padding, stride)
        )
        self.padded = [n + 2 * p for n, p in zip(size, self.padding, strict=True)]
        self.counts = [
            (n - d * (k - 1) - 1) // s + 1
            for n, k, d, s in zip(self.padded, self.kernel, self.dilation, self.stride, strict=True)
        ]
        if min(self.counts) < 1:
            raise ShapeError(
                f"Given input with spatial size ({size[0]}, {size[1]}), kernel_size={self.kernel}, "
                f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}, calculated shape of the "
                f"array of sliding blocks as ({self.counts[0]}, {self.counts[1]}), but its components must be at "
                "least one.",
                where=source.where(),
                hint="Increase the image or the padding, or reduce the kernel or the dilation.",
            )

    def windows(self) -> Iterator[tuple[Any, ...]]:
        """Yield, for each position inside a block, the index of the image elements at that position in all blocks."""
        for places in itertools.product(*map(range, self.kernel)):
            axes = zip(places, self.dilation, self.stride, self.counts, strict=True)
            yield (..., *(slice(p * d, p * d + s * (count - 1) + 1, s) for p, d, s, count in axes))


@partial(with_refusals, "im2col")
@guard_arguments
def unfold(
    input: Tensor, kernel_size: IntOrPair, dilation: IntOrPair = 1, padding: IntOrPair = 0, stride: IntOrPair = 1
) -> Tensor:
    """Return sliding blocks as columns: [N, C, H, W] -> [N, C * kernel elements, blocks], or both without N.

    Raises IndexInvalid for too few dimensions, and ShapeError for other shapes or if no block fits.
    """
    normalize_dim(2, input.ndim)
    if input.ndim > 4 or 0 in input.shape[1:]:
        raise ShapeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(input.shape)}",
            where=source.where(),
            hint="Add or remove dimensions, for example with unsqueeze(0) for the batch.",
        )
    require_elements(input, "fb", "unfold")
    blocks = _BlockGrid((input.shape[-2], input.shape[-1]), kernel_size, dilation, padding, stride)
    (top, left), image = blocks.padding, input
    if top or left:
        image = F.pad(input, (left, left, top, top))
    # One slice for each position in a block, because a block has few positions and there are many blocks.
    columns = stack([image[window].flatten(-2) for window in blocks.windows()], -2)
    return columns.flatten(-3, -2)


@partial(with_refusals, "fold")
@guard_arguments
def fold(
    input: Tensor,
    output_size: IntOrPair,
    kernel_size: IntOrPair,
    dilation: IntOrPair = 1,
    padding: IntOrPair = 0,
    stride: IntOrPair = 1,
) -> Tensor:
    """Return the sum of overlapping blocks: [N, C * kernel elements, blocks] -> [N, C, *output_size].

    The dimension N may be missing. Raises ShapeError if the number of columns is not the number of blocks.
    """
    height, width = _pair(output_size)
    blocks = _BlockGrid((height, width), kernel_size, dilation, padding, stride)
    elements, count = blocks.kernel[0] * blocks.kernel[1], blocks.counts[0] * blocks.counts[1]
    if input.ndim not in (2, 3) or input.shape[-2] % elements or input.shape[-1] != count:
        raise ShapeError(
            f"Given output_size=({height}, {width}), kernel_size={blocks.kernel}, dilation={blocks.dilation}, "
            f"padding={blocks.padding}, stride={blocks.stride}, expected input of shape [N, multiple of {elements}, "
            f"{count}], but got {list(input.shape)}",
            where=source.where(),
            hint="Pass blocks of this shape, or change output_size.",
        )
    lead, channels = input.shape[:-2], input.shape[-2] // elements
    columns = input.reshape(*lead, channels, elements, *blocks.counts)
    # Add in the order of positions in a block, as PyTorch does. The padded image needs no special case at the edges.
    image = zeros(*lead, channels, *blocks.padded, dtype=input.dtype, device=input.device)
    for i, window in enumerate(blocks.windows()):
        image[window] += columns[..., i, :, :]
    top, left = blocks.padding
    return image[..., top : top + height, left : left + width]


class Unfold(Module):
    """A layer that applies `unfold`."""

    def __init__(self, kernel_size: IntOrPair, dilation: IntOrPair = 1, padding: IntOrPair = 0, stride: IntOrPair = 1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Return sliding blocks as columns: [N, C, H, W] -> [N, C * kernel elements, blocks]."""
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the settings as text."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """A layer that applies `fold`."""

    def __init__(
        self,
        output_size: IntOrPair,
        kernel_size: IntOrPair,
        dilation: IntOrPair = 1,
        padding: IntOrPair = 0,
        stride: IntOrPair = 1,
    ):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the sum of blocks: [N, C * kernel elements, blocks] -> [N, C, *output_size]."""
        return fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the settings as text."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
