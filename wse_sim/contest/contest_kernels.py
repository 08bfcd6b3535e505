"""Kernels of the ISPD-2020 contest: their cost on a rectangle, and the rectangles on which they keep a time.

A kernel cuts its image into h x w tiles, its input channels into c parts and its output channels into k parts. It is h
w (c + 1) PEs high and 3 k wide, because forward, backward and update are placed side by side. Blocks consist of three
or four adjacent convolutions that share h and w. Source: the contest's benchmark description, pages 2 to 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from wse_sim.floorplanning.shape_curves import ShapeCurve, curve_from_arrays
from wse_sim.layout import ceil_div

IntArray = NDArray[np.int64]

COPIES_PER_CONVOLUTION = 3
"""A convolution is on the mesh three times: for forward, backward and update."""


@dataclass(frozen=True)
class Conv:
    """A convolution.

    - `H`, `W`: height and width of the image in pixels
    - `R`, `S`: height and width of the filters
    - `C`, `K`: input and output channels
    - `T`: stride
    """

    H: int
    W: int
    R: int
    S: int
    C: int
    K: int
    T: int

    def time(self, h: int, w: int, c: int, k: int) -> Fraction:
        """Return the cycles of a sample if the image is cut into h x w tiles and channels into c and k parts.

        It is an exact fraction: the operations of the largest part, over the square of the stride.
        """
        tiles = ceil_div(self.H, h) * ceil_div(self.W, w) * ceil_div(self.C, c) * ceil_div(self.K, k)
        return Fraction(tiles * self.R * self.S, self.T**2)

    def memory(self, h: int, w: int, c: int, k: int) -> Fraction:
        """Return the words on one PE, an exact fraction: its weights and its tile of the image.

        The image has a border for the filter. Weights are cut by c and k; the image is cut by h, w and k.
        """
        weights = Fraction(self.C * self.K * self.R * self.S, c * k)
        return weights + Fraction((self.W + self.S - 1) * (self.H + self.R - 1) * self.K, w * h * k)


def dblock(h: int, w: int, f: int) -> tuple[Conv, ...]:
    """Return the three convolutions of a block that keeps the size of its h x w image and its `f` features.

    The inner convolution has a quarter of the features.
    """
    image = (h, w)
    return _square_conv(image, 1, f, f // 4), _square_conv(image, 3, f // 4, f // 4), _square_conv(image, 1, f // 4, f)


def _square_conv(image: tuple[int, int], side: int, c: int, k: int, stride: int = 1) -> Conv:
    return Conv(H=image[0], W=image[1], R=side, S=side, C=c, K=k, T=stride)


def cblock(h: int, w: int, f: int) -> tuple[Conv, ...]:
    """Return the four convolutions of a block that halves its h x w image (rounded up), with the shortcut last.

    `f` is the number of features of the result; the image has half of them.
    """
    image, half = (h, w), (ceil_div(h, 2), ceil_div(w, 2))
    return (
        _square_conv(image, 1, f // 2, f // 4),
        _square_conv(image, 3, f // 4, f // 4, stride=2),
        _square_conv(half, 1, f // 4, f),
        _square_conv(image, 1, f // 2, f, stride=2),
    )


@dataclass(frozen=True)
class ContestKernel:
    """A kernel of a problem: its name, its kind ("conv", "cblock" or "dblock") and its convolutions."""

    name: str
    kind: str
    convs: tuple[Conv, ...]


@dataclass(frozen=True)
class KernelParameters:
    """How a kernel is cut: h and w of its image, and c and k of each of its convolutions."""

    h: int
    w: int
    c: tuple[int, ...]
    k: tuple[int, ...]

    @property
    def width(self) -> int:
        """Return the width in PEs before rotation."""
        return COPIES_PER_CONVOLUTION * sum(self.k)

    @property
    def height(self) -> int:
        """Return the height in PEs before rotation."""
        return self.h * self.w * (max(self.c) + 1)


@dataclass(frozen=True)
class ParameterChoices:
    """All ways to cut a kernel within a time and the memory, as arrays.

    - `convs`: the convolutions
    - `h`, `w`, `c`: [choices]
    - `k`: [convolutions, choices], the least k of each convolution
    """

    convs: tuple[Conv, ...]
    h: IntArray
    w: IntArray
    c: IntArray
    k: IntArray

    @property
    def widths(self) -> IntArray:
        """Return the width of each choice in PEs before rotation."""
        return COPIES_PER_CONVOLUTION * np.asarray(self.k.sum(axis=0))

    @property
    def heights(self) -> IntArray:
        """Return the height of each choice in PEs before rotation."""
        return self.h * self.w * (self.c + 1)

    def parameters(self, n: int) -> KernelParameters:
        """Return the parameters of choice `n`. The c of a convolution is at most its number of input channels."""
        c = tuple(min(int(self.c[n]), conv.C) for conv in self.convs)
        return KernelParameters(int(self.h[n]), int(self.w[n]), c, tuple(int(k) for k in self.k[:, n]))

    def curve(self, width: int, height: int) -> ShapeCurve:
        """Return the shape curve (least height for each width) of the kernel on a mesh, with and without rotation.

        Choices that exceed the mesh are left out.
        """
        upright, high = self.widths, self.heights
        return curve_from_arrays(np.concatenate([upright, high]), np.concatenate([high, upright]), width, height)


def find_parameter_choices(convs: Sequence[Conv], time: int, memory_limit: int, side: int) -> ParameterChoices:
    """Return all ways to cut a kernel so that it takes at most `time` cycles and `memory_limit` words on a PE.

    No side is longer than `side` PEs. The k of each convolution is the least possible one. The arrays are empty if
    there is no way.
    """
    h, w, c = _image_and_channel_splits(side)
    # More parts than pixels or channels are useless.
    useful = (h <= max(v.H for v in convs)) & (w <= max(v.W for v in convs)) & (c <= max(v.C for v in convs))
    h, w, c = h[useful], w[useful], c[useful]
    k = np.stack([_least_k(conv, time, memory_limit, h, w, np.minimum(c, conv.C)) for conv in convs])
    allowed = np.all([row <= conv.K for row, conv in zip(k, convs, strict=True)], axis=0)
    allowed &= k.sum(axis=0) * COPIES_PER_CONVOLUTION <= side
    return ParameterChoices(tuple(convs), h[allowed], w[allowed], c[allowed], k[:, allowed])


def _least_k(conv: Conv, time: int, memory_limit: int, h: IntArray, w: IntArray, c: IntArray) -> IntArray:
    """Return the least k that keeps time and memory for each choice of h, w and c, three arrays of equal length.

    It is more than the output channels if none does.
    """
    # For the time: the rounds of output channels that are possible with these tiles and input channels.
    tiles = -(-conv.H // h) * -(-conv.W // w) * -(-conv.C // c) * conv.R * conv.S
    rounds = time * conv.T**2 // tiles
    for_time = np.where(rounds > 0, -(-conv.K // np.maximum(rounds, 1)), conv.K + 1)
    # For the memory: both terms fall with 1 / k. Multiply out to avoid rounding fractions.
    pixels = (conv.W + conv.S - 1) * (conv.H + conv.R - 1)
    words = conv.K * (conv.C * conv.R * conv.S * h * w + pixels * c)
    return np.maximum(for_time, -(-words // (memory_limit * c * h * w)))


@cache
def _image_and_channel_splits(side: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return three arrays of all h, w, c, at least 1, with h w (c + 1) of at most `side`. Cached."""
    # There are some ten thousand, so no heuristic has to exclude any.
    rows = [
        (h, w, c)
        for h in range(1, side // 2 + 1)
        for w in range(1, side // (2 * h) + 1)
        for c in range(1, side // (h * w))
    ]
    h, w, c = np.array(rows, np.int64).reshape(-1, 3).T
    return h, w, c
