"""Image grids and their files: `torchvision.utils`."""

import math
from typing import Any

from cstorch_compat.torchvision.transforms import functional
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import ArgumentInvalid
from lazytensor.functional.creation import full
from lazytensor.functional.joining_and_splitting import cat, stack


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Return images [N, C, H, W], or a list of images [C, H, W], arranged in a grid as one image [C, height, width].

    - `nrow`: the maximum number of images in a row.
    - `padding`, `pad_value`: the width in pixels and the value of the borders and of unused positions.
    - `normalize`: scale values to 0..1, from `value_range` or from the minimum and maximum of all images.
    - `scale_each`: scale each image separately.

    Single-channel images get three equal channels. A single image, or a tensor with two or three dimensions, is
    returned without borders. The result has no gradient.
    """
    with grad_mode(False):
        images: Tensor = stack(list(tensor), 0) if isinstance(tensor, list) else tensor
        if images.dim() == 2:
            images = images.unsqueeze(0)
        if images.dim() == 3:
            images = (cat([images] * 3, 0) if images.size(0) == 1 else images).unsqueeze(0)
        # Greyscale images get three channels.
        if images.dim() == 4 and images.size(1) == 1:
            images = cat([images] * 3, 1)
        if normalize:
            images = _normalize(images, value_range, scale_each)
        if images.size(0) == 1:
            return images.squeeze(0)
        return _fill_grid(images, nrow, padding, pad_value)


def _normalize(images: Tensor, value_range: Any, scale_each: bool) -> Tensor:
    if value_range is not None and not isinstance(value_range, tuple):
        raise ArgumentInvalid(
            f"value_range has to be a tuple (min, max) if specified. min and max are numbers, but got {value_range!r}",
            where=source.where(),
            hint="Pass two numbers as a tuple.",
        )
    if scale_each:
        return stack([_scale_to_unit(image, value_range) for image in images], 0)
    return _scale_to_unit(images, value_range)


def _scale_to_unit(image: Tensor, value_range: Any) -> Tensor:
    """Return values scaled to 0..1 from `value_range`, or from the minimum and maximum if it is None.

    Values outside of the range are clamped to it first. An image of equal values gives zeros.
    """
    # The minimum and maximum are those of all images, unless each is scaled separately.
    low, high = value_range or (float(image.min()), float(image.max()))
    return (image.clamp(min=low, max=high) - low) / max(high - low, 1e-5)


def _fill_grid(images: Tensor, nrow: int, padding: int, pad_value: float) -> Tensor:
    """Return images [N, C, H, W] as one image, in rows of `nrow` with borders of `padding` pixels.

    If there are fewer images than `nrow`, a row has only these. Borders and unused positions have the value
    `pad_value`.
    """
    count, channels, h, w = (int(e) for e in images.shape)
    across = min(nrow, count)
    down = math.ceil(count / across)
    height, width = h + padding, w + padding
    # Unused positions of the last row keep the value of the borders.
    grid = full((channels, height * down + padding, width * across + padding), pad_value, dtype=images.dtype)
    for k in range(count):
        top, left = (k // across) * height + padding, (k % across) * width + padding
        grid[:, top : top + h, left : left + w] = images[k]
    return grid


def save_image(tensor: Any, fp: Any, format: str | None = None, **options: Any) -> None:
    """Write a grid of images to a path or open file. Further options are those of `make_grid`.

    Values in 0..1 become the bytes 0 to 255, rounded; others are clamped. `format` is Pillow's name of the file format;
    None derives it from the path. Raises DataError if Pillow is not installed.
    """
    grid = make_grid(tensor, **options)
    # Add a half to round, because the conversion to bytes truncates.
    values = (grid * 255 + 0.5).clamp(min=0, max=255).permute(1, 2, 0).to(dt.uint8)
    functional.require_pillow().fromarray(values.numpy()).save(fp, format=format)
