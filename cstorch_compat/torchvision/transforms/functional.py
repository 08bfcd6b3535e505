"""Transforms of a single image as functions: `torchvision.transforms.functional`.

An image is a Pillow image, a tensor [..., height, width] or an array [height, width] or [height, width, channels]. The
result has the same type. Pillow is optional; functions that need it raise DataError without it.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.data import DataOptionError, SampleTypeError
from lazytensor.errors import DataError, OptionInvalid
from lazytensor.functional import creation

try:
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps
except ImportError:  # Pillow is an optional dependency
    Image = ImageEnhance = ImageFilter = ImageOps = None  # type: ignore[assignment]

ROUNDING_BIAS = 1e-6
"""The number added before rounding to integers, so that halves round up in spite of rounding errors."""


class InterpolationMode(Enum):
    """An enumeration of interpolation methods."""

    NEAREST, NEAREST_EXACT, BILINEAR, BICUBIC = "nearest", "nearest-exact", "bilinear", "bicubic"
    BOX, HAMMING, LANCZOS = "box", "hamming", "lanczos"


# Pillow's numbers of the methods.
_PILLOW_FILTERS = {"nearest": 0, "nearest-exact": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
GREY_WEIGHTS = np.array([0.2989, 0.587, 0.114])
"""The weights of red, green and blue in the brightness."""


def require_pillow() -> Any:
    """Return the module PIL.Image. Raises DataError if Pillow is not installed."""
    if Image is None:
        raise DataError(
            "reading image files needs the package Pillow, which is not installed",
            where=source.where(),
            hint="Install it: pip install pillow",
        )
    return Image


def is_pillow(img: Any) -> bool:
    """Return whether `img` is a Pillow image."""
    return Image is not None and isinstance(img, Image.Image)


def to_channels_first(pic: Any) -> np.ndarray:
    """Return a Pillow image or array as a new array [channels, height, width].

    One-bit images get the values 0 and 255. Raises SampleTypeError for other objects, and DataError unless there are 2
    or 3 dimensions.
    """
    if isinstance(pic, Tensor) or not hasattr(pic, "__array_interface__"):
        raise SampleTypeError(
            f"pic should be PIL Image or ndarray. Got {type(pic)}",
            where=source.where(),
            hint="Apply ToTensor before the other transforms, to the samples of the data set.",
        )
    array = np.asarray(pic)
    if array.ndim not in (2, 3):
        what = f"pic should be 2/3 dimensional. Got {array.ndim} dimensions."
        raise DataError(what, where=source.where(), hint="Give an array [height, width] or [height, width, channels].")
    # A copy, because the image may belong to the data set. One-bit images give bools.
    array = array.astype(np.uint8) * 255 if array.dtype == np.bool_ else array
    return np.array(array[None] if array.ndim == 2 else array.transpose(2, 0, 1), order="C")


def to_planes(img: Any) -> np.ndarray:
    """Return the values of an image as an array whose last dimensions are height and width.

    A tensor keeps its dimensions; a Pillow image or array becomes a new array [channels, height, width]. Raises the
    errors of `to_channels_first`.
    """
    return img.array("a transform") if isinstance(img, Tensor) else to_channels_first(img)


def planes_to_image(img: Any, planes: np.ndarray) -> Any:
    """Return planes [..., height, width] as an image of the same type as `img`.

    For a tensor it is a tensor of its dtype. For an array it has the order [height, width, channels], or [height,
    width] if `img` has two dimensions and there is one plane. For a Pillow image it has the mode of `img`.
    """
    if isinstance(img, Tensor):
        return creation.tensor(np.ascontiguousarray(planes), dtype=img.dtype)
    array = planes[0] if len(planes) == 1 and np.asarray(img).ndim == 2 else planes.transpose(1, 2, 0)
    return Image.fromarray(np.ascontiguousarray(array), img.mode) if is_pillow(img) else array


def get_image_size(img: Any) -> list[int]:
    """Return [width, height] of a Pillow image, a tensor [..., height, width] or an array [height, width, ...]."""
    if is_pillow(img):
        return list(img.size)
    shape = img.spec.shape if isinstance(img, Tensor) else np.asarray(img).shape
    height, width = shape[-2:] if isinstance(img, Tensor) else shape[:2]
    return [int(width), int(height)]


def get_dimensions(img: Any) -> list[int]:
    """Return [channels, height, width]. A Pillow image or array with two dimensions has one channel."""
    width, height = get_image_size(img)
    return [len(to_planes(img)), height, width]


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Return a rectangle of an image, given in pixels. Pixels outside of the image are 0.

    `top` and `left` may be negative.
    """
    if is_pillow(img):
        return img.crop((left, top, left + width, top + height))
    planes = to_planes(img)
    for axis, start, extent in ((-2, top, height), (-1, left, width)):
        pads = [(0, 0)] * planes.ndim
        pads[axis] = (max(-start, 0), max(start + extent - planes.shape[axis], 0))
        planes = np.pad(planes, pads) if any(pads[axis]) else planes
        first = max(start, 0)
        planes = planes.take(range(first, first + extent), axis)
    return planes_to_image(img, planes)


def center_crop(img: Any, output_size: Any) -> Any:
    """Return the centre of an image with the size `output_size`, a number or (height, width).

    A smaller image is padded with 0 first. If the margins cannot be equal, the difference of one pixel is on either
    side, because half margins are rounded to even numbers.
    """
    pair = [output_size] if isinstance(output_size, int) else list(output_size)
    height, width = pair[0], pair[-1]
    w, h = get_image_size(img)
    if width > w or height > h:
        margins = [max((width - w) // 2, 0), max((height - h) // 2, 0)]
        margins += [max((width - w + 1) // 2, 0), max((height - h + 1) // 2, 0)]
        img = pad(img, margins)
        w, h = get_image_size(img)
        if (width, height) == (w, h):
            return img
    # round() rounds halves to even, as in torchvision, so the larger margin is not always on the same side.
    return crop(img, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Return an image scaled to `size`.

    `size` is (height, width), or a number for the shorter side. `max_size` limits the longer side in that case. A
    Pillow image that has this size already is returned itself. Tensors and arrays support only bilinear interpolation
    with antialiasing; other options raise DataOptionError. `antialias` has no effect for Pillow images.
    """
    kind = interpolation_name(interpolation)
    w, h = get_image_size(img)
    height, width = _target_size(size, w, h, max_size)
    if is_pillow(img):
        return img if (width, height) == (w, h) else img.resize((width, height), _PILLOW_FILTERS[kind])
    if kind != "bilinear" or antialias is False:
        raise DataOptionError(
            f"Resize supports only bilinear with antialiasing for arrays and tensors, but got {kind}, {antialias=}",
            where=source.where(),
            hint="Pass only the size, or resize Pillow images.",
        )
    return planes_to_image(img, resize_planes(to_planes(img), height, width))


def interpolation_name(interpolation: Any) -> str:
    """Return the name of an interpolation method, given as an enum, a name or Pillow's number.

    Raises DataOptionError for an unknown name, and StopIteration for an unknown number.
    """
    value = getattr(interpolation, "value", interpolation)
    if isinstance(value, int):
        return next(name for name, number in _PILLOW_FILTERS.items() if number == value)
    if str(value) not in _PILLOW_FILTERS:
        raise DataOptionError(
            f"interpolation {value!r} is unknown", where=source.where(), hint="Use a value of InterpolationMode."
        )
    return str(value)


def _target_size(size: Any, w: int, h: int, max_size: int | None) -> tuple[int, int]:
    if not isinstance(size, int) and len(size) == 2:
        return int(size[0]), int(size[1])
    wanted = size if isinstance(size, int) else size[0]
    short, long = min(w, h), max(w, h)
    # The longer side is truncated, as in torchvision.
    new_short, new_long = wanted, int(wanted * long / short)
    if max_size is not None and new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if w <= h else (new_short, new_long)


def resize_planes(planes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return images scaled in their last two dimensions by bilinear interpolation with antialiasing.

    Each new pixel is a weighted mean of old pixels under a triangle. The triangle is two old or two new pixels wide,
    whichever is larger. Integer values are rounded.
    """
    rows, columns = _triangle_weights(planes.shape[-2], height), _triangle_weights(planes.shape[-1], width)
    # Each axis is scaled by a matrix product, in float64, because the last digits decide a tie between two integers.
    out = rows @ planes.astype(np.float64) @ columns.T
    if planes.dtype.kind in "iu":
        out = np.floor(out + (0.5 + ROUNDING_BIAS))
    scaled: np.ndarray = out.astype(planes.dtype)
    return scaled


def _triangle_weights(before: int, after: int) -> np.ndarray:
    """Return the weights [after, before] of old pixels in each new pixel. Each row sums to 1."""
    scale = before / after
    # Pixels are areas, with centres at halves on both grids.
    centres = (np.arange(after) + 0.5) * scale
    distance = np.abs(np.arange(before) + 0.5 - centres[:, None])
    # Wider than an old pixel only if the image shrinks, which gives the antialiasing.
    weights: np.ndarray = np.maximum(1 - distance / max(scale, 1.0), 0)
    # At the borders, the part of the triangle outside of the image is dropped.
    weights /= weights.sum(1, keepdims=True)
    return weights


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = "bilinear",
    antialias: Any = True,
) -> Any:
    """Return a rectangle of an image, given in pixels, scaled to `size`. See `crop` and `resize`."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Return an image mirrored horizontally."""
    return ImageOps.mirror(img) if is_pillow(img) else planes_to_image(img, to_planes(img)[..., ::-1])


def vflip(img: Any) -> Any:
    """Return an image mirrored vertically."""
    return ImageOps.flip(img) if is_pillow(img) else planes_to_image(img, to_planes(img)[..., ::-1, :])


def pad(img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Return an image with borders.

    `padding` is one width (a number or a list of one), [left and right, top and bottom], or [left, top, right, bottom],
    in pixels. `fill` is one value, or one for each channel, and applies to the mode "constant". Other values of
    `padding_mode` are those of `numpy.pad`, such as "reflect".
    """
    sides = [padding] * 4 if isinstance(padding, int) else list(padding)
    sides = sides * 4 if len(sides) == 1 else sides * 2 if len(sides) == 2 else sides
    left, top, right, bottom = sides
    planes = to_planes(img)
    pads = [(0, 0)] * (planes.ndim - 2) + [(top, bottom), (left, right)]
    if padding_mode == "constant":
        fills = np.broadcast_to(np.asarray(fill, planes.dtype), (len(planes),))
        return planes_to_image(
            img, np.stack([np.pad(p, pads[1:], constant_values=f) for p, f in zip(planes, fills, strict=True)])
        )
    return planes_to_image(img, np.pad(planes, pads, mode=padding_mode))  # type: ignore[call-overload]


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Return the brightness of an image with `num_output_channels` (1 or 3) equal channels.

    A tensor or array that does not have three channels is only repeated. Integer results are truncated.
    """
    if is_pillow(img):
        grey = img.convert("L")
        return grey if num_output_channels == 1 else Image.merge("RGB", [grey] * 3)
    planes = to_planes(img)
    if planes.shape[-3] == 3:
        # Integers are weighted in float64, so that they are truncated only once.
        weights = GREY_WEIGHTS.astype(planes.dtype) if planes.dtype.kind == "f" else GREY_WEIGHTS
        planes = np.tensordot(weights, planes, (0, -3))[None].astype(planes.dtype)
    return planes_to_image(img, np.repeat(planes, num_output_channels, -3))


def _blend(img: Any, other: np.ndarray, factor: float) -> Any:
    planes = to_planes(img)
    most = 1.0 if planes.dtype.kind == "f" else 255
    # Interpolate between the image and a black, grey or constant image.
    mixed = factor * planes + (1.0 - factor) * other
    return planes_to_image(img, np.clip(mixed, 0, most).astype(planes.dtype))


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Return an image with all values multiplied by a factor. 0 gives black and 1 the same image.

    Values are clamped to 0..255, or to 0..1 for floating-point numbers.
    """
    if is_pillow(img):
        return ImageEnhance.Brightness(img).enhance(brightness_factor)
    return _blend(img, np.zeros(1), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Return an image whose differences from the mean brightness are multiplied by a factor.

    The mean is one number for the whole image. 0 gives a uniform grey, and 1 the same image. Values are clamped to
    0..255, or to 0..1 for floating-point numbers.
    """
    if is_pillow(img):
        return ImageEnhance.Contrast(img).enhance(contrast_factor)
    grey = to_planes(rgb_to_grayscale(img))
    return _blend(img, grey.mean((-3, -2, -1), keepdims=True), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Return an image whose differences from its greyscale version are multiplied by a factor.

    0 gives the greyscale image, and 1 the same image. Values are clamped to 0..255, or to 0..1 for floating-point
    numbers.
    """
    if is_pillow(img):
        return ImageEnhance.Color(img).enhance(saturation_factor)
    return _blend(img, to_planes(rgb_to_grayscale(img)), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Return a Pillow image with its hue shifted by a fraction of the colour circle from -0.5 to 0.5.

    Greyscale images are returned unchanged. Raises ValueError outside of this range, and DataOptionError for tensors
    and arrays.
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise OptionInvalid(
            f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].",
            where=source.where(),
            hint="Pass a factor between -0.5 and 0.5.",
        )
    if not is_pillow(img):
        raise DataOptionError(
            "adjusting the hue of tensors is not supported",
            where=source.where(),
            hint="Adjust the hue before ToTensor.",
        )
    if img.mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    # Bytes wrap around, like the colour circle.
    turned = np.asarray(hue, np.uint8) + np.int32(hue_factor * 255).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned, "L"), saturation, value)).convert(img.mode)


def rotate(
    img: Any, angle: float, interpolation: Any = "nearest", expand: bool = False, center: Any = None, fill: Any = None
) -> Any:
    """Return a Pillow image rotated counterclockwise by `angle` degrees.

    `expand` enlarges the result to hold the whole rotated image. `center` is (x, y) in pixels; None is the centre of
    the image. `fill` is the colour outside of the image: one number for all bands, or one for each; None is black.
    Raises DataOptionError for tensors and arrays.
    """
    if not is_pillow(img):
        raise DataOptionError(
            "rotating tensors is not supported", where=source.where(), hint="Rotate images before ToTensor."
        )
    bands = len(img.getbands())
    if isinstance(fill, int | float):
        fill = (fill,) * bands if bands > 1 else fill
    elif fill is not None:
        fill = tuple(fill) if bands > 1 else fill[0]
    return img.rotate(angle, _PILLOW_FILTERS[interpolation_name(interpolation)], expand, center, fillcolor=fill)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Return an image blurred by a Gaussian kernel. Integer values are rounded.

    `kernel_size` is one size or [horizontal, vertical], in pixels. `sigma` is the standard deviation in pixels, one
    number or [horizontal, vertical]; it is derived from the size if None.
    """
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    widths = [0.3 * ((k - 1) * 0.5 - 1) + 0.8 for k in sizes] if sigma is None else sigma
    widths = [float(widths)] * 2 if isinstance(widths, int | float) else [float(widths[0]), float(widths[-1])]
    # The kernel is separable: one pass along each dimension.
    planes = to_planes(img).astype(np.float64)
    for axis, size, width in ((-1, sizes[0], widths[0]), (-2, sizes[1], widths[1])):
        planes = _blur_axis(planes, axis, size, width)
    if to_planes(img).dtype.kind in "iu":
        planes = np.round(planes)
    return planes_to_image(img, planes.astype(to_planes(img).dtype))


def _blur_axis(planes: np.ndarray, axis: int, size: int, width: float) -> np.ndarray:
    half = (size - 1) * 0.5
    bell = np.exp(-0.5 * (np.linspace(-half, half, size) / width) ** 2)
    bell /= bell.sum()
    pads = [(0, 0)] * planes.ndim
    pads[axis] = (size // 2, size // 2)
    wide, extent = np.pad(planes, pads, mode="reflect"), planes.shape[axis]
    parts = [b * wide.take(range(k, k + extent), axis) for k, b in enumerate(bell)]
    blurred: np.ndarray = np.sum(parts, 0)
    return blurred


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Return a tensor [channels, height, width] or an array [height, width, channels] as a Pillow image.

    The channels may be missing. Floating-point values of a tensor in 0..1 are multiplied by 255 and truncated, unless
    `mode` is "F". `mode` is that of Pillow; None derives it from the array. Raises DataError if Pillow is not
    installed.
    """
    module = require_pillow()
    if isinstance(pic, Tensor):
        planes = pic.array("ToPILImage")
        planes = planes[None] if planes.ndim == 2 else planes
        # Truncated instead of rounded, as in torchvision.
        planes = (planes * 255).astype(np.uint8) if planes.dtype.kind == "f" and mode != "F" else planes
        pic = planes.transpose(1, 2, 0)
    array = np.asarray(pic)
    array = array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array
    return module.fromarray(np.ascontiguousarray(array), mode)


def open_image(path: Any) -> Any:
    """Return the image in a file as an RGB image of Pillow."""
    with open(path, "rb") as f:
        return require_pillow().open(f).convert("RGB")
