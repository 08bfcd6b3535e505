"""Transforms of images. An image is a NumPy array, [height, width] or [height, width, channels], or a tensor
[..., height, width]; an image of the Pillow package is taken as its array.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazytensor import source
from lazytensor.data import DataOptionError, SampleTypeError
from lazytensor.errors import DataError
from lazytensor.functions import creation, writing
from lazytensor.tensor import Tensor

TIE = 1e-6
"""Added before rounding to integers, so that a half rounds up whatever the order of the sum that gave it."""


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return "\n".join(["Compose(", *(f"    {t}" for t in self.transforms), ")"])


class PILToTensor:
    """An image as a tensor [channels, height, width] of the same values."""

    def __call__(self, pic: Any) -> Tensor:
        return creation.from_numpy(_channels_first(pic))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ToTensor(PILToTensor):
    """An image as a tensor [channels, height, width]; bytes become float32 from 0 to 1, other values stay."""

    def __call__(self, pic: Any) -> Tensor:
        array = _channels_first(pic)
        if array.dtype == np.uint8:
            array = array.astype(np.float32) / np.float32(255)
        return creation.from_numpy(array)


def _channels_first(pic: Any) -> np.ndarray:
    if isinstance(pic, Tensor) or not hasattr(pic, "__array_interface__"):
        raise SampleTypeError(
            f"pic should be PIL Image or ndarray. Got {type(pic)}",
            where=source.where(),
            hint="Apply ToTensor first in the chain, to what the data set returns.",
        )
    array = np.asarray(pic)
    if array.ndim not in (2, 3):
        raise DataError(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.", where=source.where())
    # A copy, for the image may belong to the data set.
    return np.array(array[None] if array.ndim == 2 else array.transpose(2, 0, 1), order="C")


class Normalize:
    """Subtracts a mean from each channel of a tensor [..., channels, height, width] and divides by a deviation."""

    def __init__(self, mean: Sequence[float] | float, std: Sequence[float] | float, inplace: bool = False):
        self.mean, self.std, self.inplace = mean, std, inplace
        self._mean, self._std = (np.atleast_1d(np.asarray(v, np.float32)).reshape(-1, 1, 1) for v in (mean, std))
        if not self._std.all():
            raise DataOptionError(
                f"std={std} has a zero, which leads to division by zero",
                where=source.where(),
                hint="Give a deviation above 0.",
            )

    def __call__(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_floating_point:
            raise SampleTypeError(
                f"Normalize takes a float tensor, and got {getattr(tensor, 'dtype', type(tensor))}",
                where=source.where(),
                hint="Apply ToTensor before Normalize.",
            )
        array = tensor.array("Normalize")
        channels = array.shape[-3] if array.ndim >= 3 else 0
        # One number serves every channel; any other count has to be that of the channels.
        if {self._mean.size, self._std.size} - {1, channels} or not channels:
            raise DataError(
                f"Normalize has {self._mean.size} means and {self._std.size} deviations, and the tensor is "
                f"{list(array.shape)}",
                where=source.where(),
                hint="Give one of each for every channel of [..., channels, height, width].",
            )
        kind = array.dtype.type
        # In the tensor's own type, as PyTorch does; float64 in between would change the last digit.
        values = (array - self._mean.astype(kind)) / self._std.astype(kind)
        # The array of a half tensor may be wider than its type, as bfloat16's is: the result is rounded anew.
        scaled = creation.tensor(values, dtype=tensor.dtype) if tensor.dtype.is_half else creation.from_numpy(values)
        return writing.copy_(tensor, scaled) if self.inplace else scaled

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


class Lambda:
    """A user's function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]):
        if not callable(lambd):
            raise SampleTypeError(
                f"Argument lambd should be callable, got {type(lambd).__name__}", where=source.where()
            )
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class Resize:
    """Scales an image, bilinear, to (height, width), or its shorter side to one number."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ):
        kind = str(getattr(interpolation, "value", interpolation)).lower()
        if kind not in ("bilinear", "2") or max_size is not None or antialias is False:
            raise DataOptionError(
                f"Resize knows bilinear interpolation with antialiasing only, and got {interpolation!r}, "
                f"max_size={max_size}, antialias={antialias}",
                where=source.where(),
                hint="Give the size alone, or scale the images beforehand.",
            )
        self.size = size

    def __call__(self, img: Any) -> Any:
        planes = _planes(img)
        height, width = planes.shape[-2:]
        if isinstance(self.size, int) or len(self.size) == 1:
            shorter = self.size if isinstance(self.size, int) else self.size[0]
            # Whole division, as in the original: the longer side is cut off, not rounded.
            target = [shorter * height // min(height, width), shorter * width // min(height, width)]
        else:
            target = list(self.size)
        return _like(img, resized(planes, *target))

    def __repr__(self) -> str:
        return f"Resize(size={self.size}, interpolation=bilinear, max_size=None, antialias=True)"


class CenterCrop:
    """The middle of an image, with zeros around it where the image is smaller."""

    def __init__(self, size: int | Sequence[int]):
        pair = [size] if isinstance(size, int) else list(size)
        self.size = (pair[0], pair[-1])

    def __call__(self, img: Any) -> Any:
        planes = _planes(img)
        for axis, wanted in zip((-2, -1), self.size, strict=True):
            planes = _centred(planes, axis, wanted)
        return _like(img, planes)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


def _centred(planes: np.ndarray, axis: int, wanted: int) -> np.ndarray:
    missing = wanted - planes.shape[axis]
    if missing > 0:
        pads = [(0, 0)] * planes.ndim
        pads[axis] = (missing // 2, missing - missing // 2)
        return np.pad(planes, pads)
    # Python rounds halves to even, and so does the original: an odd margin is not always larger on the same side.
    start = round(-missing / 2)
    return planes.take(range(start, start + wanted), axis)


def _planes(img: Any) -> np.ndarray:
    """The values of an image with height and width as the last dimensions."""
    return img.array("a transform") if isinstance(img, Tensor) else _channels_first(img)


def _like(img: Any, planes: np.ndarray) -> Any:
    """The planes as an image of the kind that `img` is."""
    if isinstance(img, Tensor):
        return creation.tensor(planes, dtype=img.dtype)
    return planes[0] if np.ndim(img) == 2 else planes.transpose(1, 2, 0)


def resized(planes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images scaled in their last two dimensions, bilinear; integers are rounded.

    Each new pixel is the mean of the old ones under a triangle as wide as two old or two new pixels, the larger.
    """
    rows, columns = _triangles(planes.shape[-2], height), _triangles(planes.shape[-1], width)
    # The scaling of each axis is one matrix; float64, for a tie between two integers is decided by the last digits.
    out = rows @ planes.astype(np.float64) @ columns.T
    if planes.dtype.kind in "iu":
        out = np.floor(out + (0.5 + TIE))
    scaled: np.ndarray = out.astype(planes.dtype)
    return scaled


def _triangles(before: int, after: int) -> np.ndarray:
    """The weight of each of `before` pixels in each of `after`; every row sums to 1."""
    scale = before / after
    # Pixels are areas: their centres lie at the halves, on both grids.
    centres = (np.arange(after) + 0.5) * scale
    distance = np.abs(np.arange(before) + 0.5 - centres[:, None])
    # Wider than one old pixel only where the image shrinks, which is what antialiasing means.
    weights: np.ndarray = np.maximum(1 - distance / max(scale, 1.0), 0)
    # At the borders a part of the triangle lies outside of the image and is left out.
    weights /= weights.sum(1, keepdims=True)
    return weights
