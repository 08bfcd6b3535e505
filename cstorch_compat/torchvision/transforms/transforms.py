"""Transforms of images. Those that draw random numbers are in the module `random`.

An image is a NumPy array [height, width] or [height, width, channels], a tensor [..., height, width], or a Pillow
image. Unless stated otherwise the result has the same type.
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
from lazytensor.nn.module import Module


class Compose:
    """A transform that applies several transforms in order."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return "\n".join(["Compose(", *(f"    {t}" for t in self.transforms), ")"])


class PILToTensor:
    """A transform that converts an image or array to a tensor [channels, height, width] with the same values."""

    def __call__(self, pic: Any) -> Tensor:
        return creation.tensor_over_array(np.array(functional.to_channels_first(pic)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ToTensor(PILToTensor):
    """A transform that converts an image or array to a tensor [channels, height, width].

    uint8 values are scaled to float32 in 0..1; other values do not change.
    """

    def __call__(self, pic: Any) -> Tensor:
        array = functional.to_channels_first(pic)
        if array.dtype == np.uint8:
            array = array.astype(np.float32) / np.float32(255)
        return creation.tensor_over_array(np.array(array))


class Normalize(Module):
    """A transform that computes (tensor - mean) / std for each channel of a floating-point tensor.

    The tensor is [..., channels, height, width]. `mean` and `std` have one number for each channel, or one for all.
    Raises DataOptionError if a `std` is 0, SampleTypeError for another type, and DataError for another number of
    channels.
    """

    def __init__(self, mean: Sequence[float] | float, std: Sequence[float] | float, inplace: bool = False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace
        self._mean, self._std = (np.atleast_1d(np.asarray(v, np.float32)).reshape(-1, 1, 1) for v in (mean, std))
        if not self._std.all():
            raise DataOptionError(
                f"std={std} has a zero, which leads to division by zero",
                where=source.where(),
                hint="Use positive standard deviations.",
            )

    def forward(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_floating_point:
            raise SampleTypeError(
                f"Normalize needs a floating-point tensor, but got {getattr(tensor, 'dtype', type(tensor))}",
                where=source.where(),
                hint="Apply ToTensor before Normalize.",
            )
        array = tensor.array("Normalize")
        channels = array.shape[-3] if array.ndim >= 3 else 0
        # One number applies to all channels; otherwise there must be one for each.
        if {self._mean.size, self._std.size} - {1, channels} or not channels:
            raise DataError(
                f"Normalize has {self._mean.size} means and {self._std.size} deviations, but the tensor has shape "
                f"{list(array.shape)}",
                where=source.where(),
                hint="Give one mean and one deviation for each channel of [..., channels, height, width].",
            )
        kind = array.dtype.type
        # Computed in the tensor's dtype, as in PyTorch; float64 would change the last digit.
        values = (array - self._mean.astype(kind)) / self._std.astype(kind)
        # The array of a half-precision tensor may be wider than its dtype, such as bfloat16, so the result is rounded
        # again.
        scaled = (
            creation.tensor(values, dtype=tensor.dtype) if tensor.dtype.is_half else creation.tensor_over_array(values)
        )
        return in_place.copy_(tensor, scaled) if self.inplace else scaled

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


class Lambda:
    """A transform that calls a user's function. Raises SampleTypeError if it is not callable."""

    def __init__(self, lambd: Callable[[Any], Any]):
        if not callable(lambd):
            raise SampleTypeError(
                f"Argument lambd should be callable, got {type(lambd).__name__}",
                where=source.where(),
                hint="Pass a function of an image.",
            )
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class Resize(Module):
    """A transform that scales an image to (height, width), or its shorter side to one number.

    See `functional.resize`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ):
        super().__init__()
        functional.interpolation_name(interpolation)
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def forward(self, img: Any) -> Any:
        return functional.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        kind = functional.interpolation_name(self.interpolation)
        return f"Resize(size={self.size}, interpolation={kind}, max_size={self.max_size}, antialias={self.antialias})"


class CenterCrop(Module):
    """A transform that returns the centre of an image. A smaller image is padded with 0."""

    def __init__(self, size: int | Sequence[int]):
        super().__init__()
        pair = [size] if isinstance(size, int) else list(size)
        self.size = (pair[0], pair[-1])

    def forward(self, img: Any) -> Any:
        return functional.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


class Pad(Module):
    """A transform that adds borders to an image. See `functional.pad`."""

    def __init__(self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        return functional.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class Grayscale(Module):
    """A transform that returns the brightness of an image with one or three equal channels."""

    def __init__(self, num_output_channels: int = 1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return functional.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return f"Grayscale(num_output_channels={self.num_output_channels})"


class ToPILImage:
    """A transform that converts a tensor or an array to a Pillow image. See `functional.to_pil_image`."""

    def __init__(self, mode: str | None = None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return functional.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return "ToPILImage()"


class ConvertImageDtype(Module):
    """A transform that applies `convert_image_dtype`."""

    def __init__(self, dtype: DType):
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return convert_image_dtype(image, self.dtype)


def convert_image_dtype(image: Tensor, dtype: DType = float32) -> Tensor:
    """Return an image tensor with another dtype. Integers in 0..255 correspond to floating-point numbers in 0..1.

    Between two integer or two floating-point dtypes, values are only cast. Floating-point values are multiplied by
    255.999 and truncated for an integer dtype.
    """
    if image.dtype is dtype or image.dtype.kind == dtype.kind:
        return image.to(dtype)
    if dtype.kind == "f":
        return image.to(dtype) / 255.0
    # The factor is slightly below 256, which maps 0..1 evenly to 0..255.
    return (image * (255 + 1.0 - 1e-3)).to(dtype)


class Identity:
    """A transform that returns the image unchanged."""

    def __call__(self, img: Any) -> Any:
        return img


class ToImage(PILToTensor):
    """A transform that converts an image to a tensor with the same values. A tensor is returned unchanged."""

    def __call__(self, pic: Any) -> Tensor:
        return pic if isinstance(pic, Tensor) else super().__call__(pic)


class ToDtype:
    """A transform that converts a tensor to another dtype. Other objects are returned unchanged.

    With `scale`, integers in 0..255 correspond to floating-point numbers in 0..1.
    """

    def __init__(self, dtype: Any, scale: bool = False):
        self.dtype, self.scale = dtype, scale

    def __call__(self, img: Any) -> Any:
        if not isinstance(img, Tensor):
            return img
        return convert_image_dtype(img, self.dtype) if self.scale else img.to(self.dtype)


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """Return the normalized tensor, as `Normalize`."""
    return Normalize(mean, std, inplace)(tensor)


def to_tensor(pic: Any) -> Tensor:
    """Return an image as a tensor, as `ToTensor`."""
    return ToTensor()(pic)


def pil_to_tensor(pic: Any) -> Tensor:
    """Return an image as a tensor with the same values, as `PILToTensor`."""
    return PILToTensor()(pic)
