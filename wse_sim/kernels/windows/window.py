"""Windows that go over images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lazytensor.errors import LazyError

Pair = tuple[int, int]
T = TypeVar("T")
DIMENSIONS = 2


@dataclass(frozen=True)
class Window:
    """Taps down and across, how far from place to place and from tap to tap, and the padding before and behind."""

    kernel: Pair
    stride: Pair = (1, 1)
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    dilation: Pair = (1, 1)

    @classmethod
    def of(cls, attrs: Mapping[str, Any], kernel: Sequence[int]) -> "Window":
        """By the attributes of an operation over one or two dimensions. Raises LazyError for more."""
        if len(kernel) > DIMENSIONS:
            raise LazyError(f"a window of {len(kernel)} dimensions", hint="Use windows over one or two dimensions.")
        ones = (1,) * len(kernel)
        return cls(
            kernel=_two(kernel, 1),
            stride=_two(attrs["stride"], 1),
            padding=_two(attrs["padding"], (0, 0)),
            dilation=_two(attrs.get("dilation", ones), 1),
        )

    @property
    def taps(self) -> int:
        """Elements under the window."""
        return self.kernel[0] * self.kernel[1]

    def places(self, extents: Pair) -> Pair:
        """How often it fits down and across an image."""
        axes = zip(extents, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        down, across = ((e + sum(p) - d * (k - 1) - 1) // s + 1 for e, k, s, p, d in axes)
        return down, across


def image(extents: Sequence[int]) -> Pair:
    """The extents of an image of one or two dimensions, down and across."""
    return _two(extents, 1)


def _two(values: Sequence[T], fill: T) -> tuple[T, T]:
    """One for each dimension; what has one dimension is an image of one row, for which `fill` stands."""
    down, across = values if len(values) == DIMENSIONS else (fill, *values)
    return down, across
