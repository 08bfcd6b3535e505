"""Windows that slide over images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lazytensor.errors import LazyError

Pair = tuple[int, int]
T = TypeVar("T")
DIMENSIONS = 2


@dataclass(frozen=True)
class Window:
    """A window over two dimensions: (down, across) extents of `kernel`, `stride`, `padding` and `dilation`.

    `padding` has a pair (before, after) for each dimension. The other fields are as in PyTorch's convolutions.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)

    @classmethod
    def of(cls, attrs: Mapping[str, Any], kernel: Sequence[int]) -> "Window":
        """Return the window of extents `kernel` with the `stride`, `padding` and `dilation` (by default 1) in `attrs`.

        `padding` has a pair (before, after) for each dimension. In one dimension the window is one row: the values are
        for across, and down has stride and dilation 1 and no padding. Raises LazyError for more than two dimensions.
        """
        if len(kernel) > DIMENSIONS:
            what = f"a window has {len(kernel)} dimensions, but mesh kernels support at most {DIMENSIONS}"
            raise LazyError(what, hint="Use windows over one or two dimensions.")
        ones = (1,) * len(kernel)
        return cls(
            kernel=_two(kernel, 1),
            stride=_two(attrs["stride"], 1),
            padding=_two(attrs["padding"], (0, 0)),
            dilation=_two(attrs.get("dilation", ones), 1),
        )

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return self.kernel[0] * self.kernel[1]

    def places(self, extents: Pair) -> Pair:
        """Return the output extents (down, across) for an image of `extents`, rounded down as in PyTorch."""
        axes = zip(extents, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        down, across = ((e + sum(p) - d * (k - 1) - 1) // s + 1 for e, k, s, p, d in axes)
        return down, across


def image(extents: Sequence[int]) -> Pair:
    """Return the extents (down, across) of an image of one or two dimensions."""
    return _two(extents, 1)


def _two(values: Sequence[T], fill: T) -> tuple[T, T]:
    """Return (down, across); values of one dimension are for across, and `fill` is for down."""
    down, across = values if len(values) == DIMENSIONS else (fill, *values)
    return down, across
