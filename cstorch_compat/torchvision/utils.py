"""`torchvision.utils`: many images as one, and images in files."""

import math
from typing import Any

from cstorch_compat.torchvision.transforms import functional
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor, grad_mode
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
    """Images [N, C, H, W] side by side, `nrow` in a row, as one [3, ...]; with `normalize` shifted to 0..1."""
    with grad_mode(False):
        images: Tensor = stack(list(tensor), 0) if isinstance(tensor, list) else tensor
        if images.dim() == 2:
            images = images.unsqueeze(0)
        if images.dim() == 3:
            images = (cat([images] * 3, 0) if images.size(0) == 1 else images).unsqueeze(0)
        # Files have three colours, so grey ones get them.
        if images.dim() == 4 and images.size(1) == 1:
            images = cat([images] * 3, 1)
        if normalize:
            images = _normalize(images, value_range, scale_each)
        if images.size(0) == 1:
            return images.squeeze(0)
        return _fill_grid(images, nrow, padding, pad_value)


def _normalize(images: Tensor, value_range: Any, scale_each: bool) -> Tensor:
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
    if scale_each:
        return stack([_scale_to_unit(image, value_range) for image in images], 0)
    return _scale_to_unit(images, value_range)


def _scale_to_unit(image: Tensor, value_range: Any) -> Tensor:
    # Over all images together, unless each is asked for alone.
    low, high = value_range or (float(image.min()), float(image.max()))
    return (image.clamp(min=low, max=high) - low) / max(high - low, 1e-5)


def _fill_grid(images: Tensor, nrow: int, padding: int, pad_value: float) -> Tensor:
    count, channels, h, w = (int(e) for e in images.shape)
    across = min(nrow, count)
    down = math.ceil(count / across)
    height, width = h + padding, w + padding
    # The last row may have room left, which stays in the colour of the borders.
    grid = full((channels, height * down + padding, width * across + padding), pad_value, dtype=images.dtype)
    for k in range(count):
        top, left = (k // across) * height + padding, (k % across) * width + padding
        grid[:, top : top + h, left : left + w] = images[k]
    return grid


def save_image(tensor: Any, fp: Any, format: str | None = None, **options: Any) -> None:
    """Write images side by side to a file. Raises DataError if Pillow is not installed."""
    grid = make_grid(tensor, **options)
    # Half a step is added, so that a value is rounded where the conversion to bytes would cut it off.
    values = (grid * 255 + 0.5).clamp(min=0, max=255).permute(1, 2, 0).to(dt.uint8)
    functional.require_pillow().fromarray(values.numpy()).save(fp, format=format)
