"""Windows that go over images, and images in a core's memory with their padding around them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lazytensor.errors import LazyError
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import operand_at

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


@dataclass(frozen=True)
class Frame:
    """`planes` images of `extents` at an address, one after the other, each with the padding of a window around it."""

    address: int
    planes: int
    extents: Pair
    window: Window
    dtype: str

    @property
    def around(self) -> Pair:
        """Extents with the padding."""
        down, across = (e + sum(p) for e, p in zip(self.extents, self.window.padding, strict=True))
        return down, across

    @property
    def plane(self) -> int:
        """Elements of an image with its padding."""
        down, across = self.around
        return down * across

    @property
    def elements(self) -> int:
        """Elements of all images."""
        return self.planes * self.plane

    def inner(self) -> Memory:
        """The images without their padding."""
        (top, _), (left, _) = self.window.padding
        down, across = self.around
        outer = (self.planes, down * across), (self.extents[0], across)
        return operand_at(self.address, self.dtype, top * across + left, outer=outer)

    def seen(self, planes: int, step: int, start: int = 0, steps: tuple[int, ...] = ()) -> Memory:
        """What a tap sees at all places: of `planes` images that are `step` elements apart.

        `start` is that of the tap, and loops go on by `steps`.
        """
        (down, across), width = self.window.stride, self.around[1]
        places = self.window.places(self.extents)[0]
        outer = ((planes, step), (places, down * width))
        return operand_at(self.address, self.dtype, start, across, steps, outer)

    @property
    def tap_steps(self) -> Pair:
        """Elements from a tap to that below it, and to the next."""
        down, across = self.window.dilation
        return down * self.around[1], across

    def taps(self) -> list[int]:
        """Where each tap of the window begins, row by row."""
        down, across = self.tap_steps
        return [i * down + j * across for i in range(self.window.kernel[0]) for j in range(self.window.kernel[1])]
