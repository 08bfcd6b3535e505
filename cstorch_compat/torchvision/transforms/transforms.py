"""Transforms of images. An image is a NumPy array, [height, width] or [height, width, channels], a tensor
[..., height, width], or one of the Pillow package, and each comes out as what it was. Those that draw are in
`random`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cstorch_compat.torchvision.transforms import functional
from cstorch_compat.torchvision.transforms.functional import InterpolationMode
from lazytensor.core import source
from lazytensor.core.dtype import DType, float32
from lazytensor.core.tensor import Tensor
from lazytensor.data import DataOptionError, SampleTypeError
from lazytensor.errors import DataError
from lazytensor.functional import creation, in_place


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
        return creation.tensor_over_array(np.array(functional.to_channels_first(pic)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ToTensor(PILToTensor):
    """An image as a tensor [channels, height, width]; bytes become float32 from 0 to 1, other values stay."""

    def __call__(self, pic: Any) -> Tensor:
        array = functional.to_channels_first(pic)
        if array.dtype == np.uint8:
            array = array.astype(np.float32) / np.float32(255)
        return creation.tensor_over_array(np.array(array))


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
        scaled = (
            creation.tensor(values, dtype=tensor.dtype) if tensor.dtype.is_half else creation.tensor_over_array(values)
        )
        return in_place.copy_(tensor, scaled) if self.inplace else scaled

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
    """Scales an image to (height, width), or its shorter side to one number."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ):
        functional.interpolation_name(interpolation)
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def __call__(self, img: Any) -> Any:
        return functional.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        kind = functional.interpolation_name(self.interpolation)
        return f"Resize(size={self.size}, interpolation={kind}, max_size={self.max_size}, antialias={self.antialias})"


class CenterCrop:
    """The middle of an image, with zeros around it where the image is smaller."""

    def __init__(self, size: int | Sequence[int]):
        pair = [size] if isinstance(size, int) else list(size)
        self.size = (pair[0], pair[-1])

    def __call__(self, img: Any) -> Any:
        return functional.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


class Pad:
    """Borders around an image."""

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant"):
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def __call__(self, img: Any) -> Any:
        return functional.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class Grayscale:
    """The brightness of each pixel, in one channel or in three equal ones."""

    def __init__(self, num_output_channels: int = 1):
        self.num_output_channels = num_output_channels

    def __call__(self, img: Any) -> Any:
        return functional.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return f"Grayscale(num_output_channels={self.num_output_channels})"


class ToPILImage:
    """A tensor or an array as an image of Pillow."""

    def __init__(self, mode: str | None = None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return functional.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return "ToPILImage()"


class ConvertImageDtype:
    """A tensor in another type; bytes and numbers from 0 to 1 become each other."""

    def __init__(self, dtype: DType):
        self.dtype = dtype

    def __call__(self, image: Tensor) -> Tensor:
        return convert_image_dtype(image, self.dtype)


def convert_image_dtype(image: Tensor, dtype: DType = float32) -> Tensor:
    """A tensor in another type; bytes and numbers from 0 to 1 become each other."""
    if image.dtype is dtype or image.dtype.kind == dtype.kind:
        return image.to(dtype)
    if dtype.kind == "f":
        return image.to(dtype) / 255.0
    # A little less than 256 spreads 0 to 1 over the bytes evenly and keeps 1 below 256.
    return (image * (255 + 1.0 - 1e-3)).to(dtype)


class Identity:
    """An image as it is."""

    def __call__(self, img: Any) -> Any:
        return img


class ToImage(PILToTensor):
    """An image as a tensor of the same values; a tensor stays one."""

    def __call__(self, pic: Any) -> Tensor:
        return pic if isinstance(pic, Tensor) else super().__call__(pic)


class ToDtype:
    """A tensor in another type, with `scale` between bytes and numbers from 0 to 1."""

    def __init__(self, dtype: Any, scale: bool = False):
        self.dtype, self.scale = dtype, scale

    def __call__(self, img: Any) -> Any:
        if not isinstance(img, Tensor):
            return img
        return convert_image_dtype(img, self.dtype) if self.scale else img.to(self.dtype)


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """As `Normalize`."""
    return Normalize(mean, std, inplace)(tensor)


def to_tensor(pic: Any) -> Tensor:
    """As `ToTensor`."""
    return ToTensor()(pic)


def pil_to_tensor(pic: Any) -> Tensor:
    """As `PILToTensor`."""
    return PILToTensor()(pic)
