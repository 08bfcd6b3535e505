"""Random image transforms. The random numbers and their order are those of torchvision."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cstorch_compat.torchvision.transforms import functional
from cstorch_compat.torchvision.transforms.functional import InterpolationMode
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.functional.creation import empty, rand, randint, randperm
from lazytensor.nn.module import Module


def _draw_unit() -> float:
    return float(rand(1).item())


def _draw_uniform(low: float, high: float) -> float:
    return float(empty(1).uniform_(low, high).item())


def _log_range(pair: Sequence[float]) -> tuple[float, float]:
    # float32, as in torchvision.
    low, high = np.log(np.asarray(pair, np.float32))
    return float(low), float(high)


def _draw_int(limit: int) -> int:
    return int(randint(0, limit, size=(1,)).item())


class RandomHorizontalFlip(Module):
    """A transform that mirrors an image horizontally with probability `p`."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return functional.hflip(img) if _draw_unit() < self.p else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(RandomHorizontalFlip):
    """A transform that mirrors an image vertically with probability `p`."""

    def forward(self, img: Any) -> Any:
        return functional.vflip(img) if _draw_unit() < self.p else img


class RandomCrop(Module):
    """A transform that cuts a random rectangle of `size` out of an image.

    `padding` is added first. With `pad_if_needed`, a smaller image is padded; otherwise it raises ValueError.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ):
        super().__init__()
        pair = [size] if isinstance(size, int) else list(size)
        self.size = (int(pair[0]), int(pair[-1]))
        self.padding, self.pad_if_needed, self.fill, self.padding_mode = padding, pad_if_needed, fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """Return (top, left, height, width) in pixels of a random rectangle of `output_size`, which is (height, width).

        No random number is drawn if the image has exactly this size. Raises ValueError if the image is too small.
        """
        w, h = functional.get_image_size(img)
        height, width = output_size
        if h < height or w < width:
            raise OptionInvalid(
                f"Required crop size {(height, width)} is larger than input image size {(h, w)}",
                where=source.where(),
                hint="Reduce the crop, or pass pad_if_needed=True.",
            )
        if (w, h) == (width, height):
            return 0, 0, h, w
        top = _draw_int(h - height + 1)
        return top, _draw_int(w - width + 1), height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = functional.pad(img, self.padding, self.fill, self.padding_mode)
        w, h = functional.get_image_size(img)
        if self.pad_if_needed and w < self.size[1]:
            img = functional.pad(img, [self.size[1] - w, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = functional.pad(img, [0, self.size[0] - h], self.fill, self.padding_mode)
        return functional.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"


class RandomResizedCrop(Module):
    """A transform that cuts out a rectangle of random area and aspect ratio, and scales it to `size`.

    `scale` is the range of the area as a fraction of the image, and `ratio` the range of width / height.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ):
        super().__init__()
        pair = [size] if isinstance(size, int) else list(size)
        self.size = (int(pair[0]), int(pair[-1]))
        self.scale, self.ratio, self.interpolation, self.antialias = scale, ratio, interpolation, antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Return (top, left, height, width) in pixels of a random rectangle.

        Its area is a fraction of the image's area in the range `scale`, and its ratio of width to height is in the
        range `ratio`, drawn uniformly in the logarithm. The first of ten draws that fits in the image is used.
        Otherwise it is the largest centred rectangle with the allowed ratio that is closest to that of the image.
        """
        width, height = functional.get_image_size(img)
        area = height * width
        logs = _log_range(ratio)
        for _ in range(10):
            target = area * _draw_uniform(scale[0], scale[1])
            shape = float(np.exp(np.float32(_draw_uniform(*logs))))
            w, h = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
            if 0 < w <= width and 0 < h <= height:
                top = _draw_int(height - h + 1)
                return top, _draw_int(width - w + 1), h, w
        whole = width / height
        if whole < min(ratio):
            w, h = width, round(width / min(ratio))
        elif whole > max(ratio):
            w, h = round(height * max(ratio)), height
        else:
            w, h = width, height
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        part = self.get_params(img, self.scale, self.ratio)
        return functional.resized_crop(img, *part, self.size, self.interpolation, self.antialias)

    def __repr__(self) -> str:
        kind = functional.interpolation_name(self.interpolation)
        scale, ratio = (tuple(round(v, 4) for v in pair) for pair in (self.scale, self.ratio))
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, interpolation={kind}, antialias=True)"
        )


class RandomGrayscale(Module):
    """A transform that converts an image to greyscale with probability `p`. The number of channels does not change."""

    def __init__(self, p: float = 0.1):
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        if _draw_unit() >= self.p:
            return img
        return functional.rgb_to_grayscale(img, functional.get_dimensions(img)[0])


class RandomRotation(Module):
    """A transform that rotates a Pillow image by a random angle in the range `degrees`.

    A single number d means the range from -d to d.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ):
        super().__init__()
        self.degrees = (-degrees, degrees) if isinstance(degrees, int | float) else tuple(degrees)
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def forward(self, img: Any) -> Any:
        # Drawn before the type of the image is checked.
        angle = _draw_uniform(float(self.degrees[0]), float(self.degrees[1]))
        return functional.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)


class ColorJitter(Module):
    """A transform that changes brightness, contrast, saturation and hue randomly, in random order.

    Each argument is a range of factors, or a number v for the range from 1 - v to 1 + v (for hue from -v to v).
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0):
        super().__init__()
        self.brightness, self.contrast = _parse_range(brightness, 1), _parse_range(contrast, 1)
        self.saturation, self.hue = _parse_range(saturation, 1), _parse_range(hue, 0)

    def forward(self, img: Any) -> Any:
        order = randperm(4).tolist()
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        # All factors are drawn first and then applied in the drawn order. A change that is not requested draws nothing.
        factors = [None if r is None else _draw_uniform(r[0], r[1]) for r in ranges]
        changes = (
            functional.adjust_brightness,
            functional.adjust_contrast,
            functional.adjust_saturation,
            functional.adjust_hue,
        )
        for i in order:
            factor = factors[i]
            if factor is not None:
                img = changes[i](img, factor)
        return img


def _parse_range(value: Any, centre: float) -> tuple[float, float] | None:
    if isinstance(value, int | float):
        if value < 0:
            raise OptionInvalid(
                f"If a single number, it must be non negative. Got {value}.",
                where=source.where(),
                hint="Pass a number of at least 0.",
            )
        low = centre - float(value)
        pair = (max(low, 0.0) if centre else low, centre + float(value))
    else:
        pair = (float(value[0]), float(value[1]))
    return None if pair[0] == pair[1] == centre else pair


class GaussianBlur(Module):
    """A transform that blurs an image with a random standard deviation in the range `sigma`."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)):
        super().__init__()
        self.kernel_size = kernel_size
        self.sigma = (sigma, sigma) if isinstance(sigma, int | float) else tuple(sigma)

    def forward(self, img: Any) -> Any:
        return functional.gaussian_blur(
            img, self.kernel_size, _draw_uniform(float(self.sigma[0]), float(self.sigma[1]))
        )


class RandomErasing(Module):
    """A transform that replaces a random rectangle of a tensor with probability `p`.

    `scale` is the range of the area as a fraction of the image, and `ratio` the range of height / width. `value` is the
    replacement, or "random" for normally distributed noise. If ten draws do not fit, the tensor is returned unchanged.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ):
        super().__init__()
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    def forward(self, img: Tensor) -> Tensor:
        if _draw_unit() >= self.p:
            return img
        channels, height, width = img.spec.shape[-3:]
        logs = _log_range(self.ratio)
        for _ in range(10):
            area = height * width * _draw_uniform(self.scale[0], self.scale[1])
            shape = float(np.exp(np.float32(_draw_uniform(*logs))))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if not (h < height and w < width):
                continue
            # The noise is drawn before the position.
            patch = empty(channels, h, w).normal_() if self.value == "random" else self.value
            top = _draw_int(height - h + 1)
            left = _draw_int(width - w + 1)
            out = img if self.inplace else img.clone()
            out[..., top : top + h, left : left + w] = patch
            return out
        return img


class RandomApply(Module):
    """A transform that applies a list of transforms with probability `p`."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        if self.p < _draw_unit():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img
