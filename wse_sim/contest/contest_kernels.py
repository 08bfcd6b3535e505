"""Kernels of the ISPD-2020 contest: what a convolution takes on a rectangle, and the rectangles that keep a time.

A kernel cuts its image into h x w tiles and its channels into c and k parts; it is h w (c + 1) PEs high and 3 k wide,
for forward, backward and update stand beside each other. Blocks are three or four convolutions side by side that share
h and w. Source: the contest's benchmark description, pages 2 to 4.
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
"""A convolution stands on the mesh three times: for the way forward, the way back, and the update."""


@dataclass(frozen=True)
class Conv:
    """A convolution: H x W pixels, R x S filters, C channels in and K out, and its stride T."""

    H: int
    W: int
    R: int
    S: int
    C: int
    K: int
    T: int

    def time(self, h: int, w: int, c: int, k: int) -> Fraction:
        """Cycles of a sample if the image is cut into h x w, the channels in into c and those out into k."""
        tiles = ceil_div(self.H, h) * ceil_div(self.W, w) * ceil_div(self.C, c) * ceil_div(self.K, k)
        return Fraction(tiles * self.R * self.S, self.T**2)

    def memory(self, h: int, w: int, c: int, k: int) -> Fraction:
        """Words on one PE: weights and a piece of the image."""
        weights = Fraction(self.C * self.K * self.R * self.S, c * k)
        return weights + Fraction((self.W + self.S - 1) * (self.H + self.R - 1) * self.K, w * h * k)


def dblock(h: int, w: int, f: int) -> tuple[Conv, ...]:
    """The convolutions of a block that keeps its image's size."""
    image = (h, w)
    return _square_conv(image, 1, f, f // 4), _square_conv(image, 3, f // 4, f // 4), _square_conv(image, 1, f // 4, f)


def _square_conv(image: tuple[int, int], side: int, c: int, k: int, stride: int = 1) -> Conv:
    return Conv(H=image[0], W=image[1], R=side, S=side, C=c, K=k, T=stride)


def cblock(h: int, w: int, f: int) -> tuple[Conv, ...]:
    """The convolutions of a block that halves its image, the way past them last."""
    image, half = (h, w), (ceil_div(h, 2), ceil_div(w, 2))
    return (
        _square_conv(image, 1, f // 2, f // 4),
        _square_conv(image, 3, f // 4, f // 4, stride=2),
        _square_conv(half, 1, f // 4, f),
        _square_conv(image, 1, f // 2, f, stride=2),
    )


@dataclass(frozen=True)
class ContestKernel:
    """A kernel of a problem."""

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
        """PEs in x, before it is turned."""
        return COPIES_PER_CONVOLUTION * sum(self.k)

    @property
    def height(self) -> int:
        """PEs in y, before it is turned."""
        return self.h * self.w * (max(self.c) + 1)


@dataclass(frozen=True)
class ParameterChoices:
    """All ways to cut a kernel within a time and the memory, as arrays: h, w, c, and the least k of each part."""

    convs: tuple[Conv, ...]
    h: IntArray
    w: IntArray
    c: IntArray
    k: IntArray

    @property
    def widths(self) -> IntArray:
        """PEs in x of each, before it is turned."""
        return COPIES_PER_CONVOLUTION * np.asarray(self.k.sum(axis=0))

    @property
    def heights(self) -> IntArray:
        """PEs in y of each, before it is turned."""
        return self.h * self.w * (self.c + 1)

    def parameters(self, n: int) -> KernelParameters:
        """Those of number `n`."""
        c = tuple(min(int(self.c[n]), conv.C) for conv in self.convs)
        return KernelParameters(int(self.h[n]), int(self.w[n]), c, tuple(int(k) for k in self.k[:, n]))

    def curve(self, width: int, height: int) -> ShapeCurve:
        """The least height for each width, the kernel turned or not."""
        # Turning a kernel swaps its sides.
        upright, high = self.widths, self.heights
        return curve_from_arrays(np.concatenate([upright, high]), np.concatenate([high, upright]), width, height)


def find_parameter_choices(convs: Sequence[Conv], time: int, memory_limit: int, side: int) -> ParameterChoices:
    """All ways to cut a kernel so that it takes at most `time` cycles, and no side is longer than `side`."""
    h, w, c = _image_and_channel_splits(side)
    # No more parts than there are pixels and channels: they would do nothing.
    useful = (h <= max(v.H for v in convs)) & (w <= max(v.W for v in convs)) & (c <= max(v.C for v in convs))
    h, w, c = h[useful], w[useful], c[useful]
    k = np.stack([_least_k(conv, time, memory_limit, h, w, np.minimum(c, conv.C)) for conv in convs])
    allowed = np.all([row <= conv.K for row, conv in zip(k, convs, strict=True)], axis=0)
    allowed &= k.sum(axis=0) * COPIES_PER_CONVOLUTION <= side
    return ParameterChoices(tuple(convs), h[allowed], w[allowed], c[allowed], k[:, allowed])


def _least_k(conv: Conv, time: int, memory_limit: int, h: IntArray, w: IntArray, c: IntArray) -> IntArray:
    """The least k that keeps time and memory, larger than the channels out where none does."""
    # Time first: how many rounds of channels out are left when tiles and channels in have had their share.
    tiles = -(-conv.H // h) * -(-conv.W // w) * -(-conv.C // c) * conv.R * conv.S
    rounds = time * conv.T**2 // tiles
    for_time = np.where(rounds > 0, -(-conv.K // np.maximum(rounds, 1)), conv.K + 1)
    # Then memory, solved for k: both of its terms fall with 1 / k. Multiplied out, so that no fraction is rounded.
    pixels = (conv.W + conv.S - 1) * (conv.H + conv.R - 1)
    words = conv.K * (conv.C * conv.R * conv.S * h * w + pixels * c)
    return np.maximum(for_time, -(-words // (memory_limit * c * h * w)))


@cache
def _image_and_channel_splits(side: int) -> tuple[IntArray, IntArray, IntArray]:
    """All h, w, c with h w (c + 1) of at most `side`."""
    # A few ten thousand, so that all can be tried: no cut is left out by a heuristic.
    rows = [
        (h, w, c)
        for h in range(1, side // 2 + 1)
        for w in range(1, side // (2 * h) + 1)
        for c in range(1, side // (h * w))
    ]
    h, w, c = np.array(rows, np.int64).reshape(-1, 3).T
    return h, w, c
