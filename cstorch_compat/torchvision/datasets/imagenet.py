"""The ImageNet data set from local folders, reading of image files, and helpers of torchvision's data sets."""

import enum
import os
from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat.torchvision.datasets.folder import ImageFolder
from cstorch_compat.torchvision.transforms import functional
from cstorch_compat.torchvision.transforms.transforms import pil_to_tensor
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid

SPLITS = ("train", "val")


class StandardTransform:
    """A function (image, target) -> (image, target) that applies a transform to each. None leaves a value unchanged."""

    def __init__(
        self, transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None
    ):
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        image = input if self.transform is None else self.transform(input)
        return image, target if self.target_transform is None else self.target_transform(target)


def verify_str_arg(value: Any, arg: str | None = None, valid_values: Iterable[str] | None = None) -> str:
    """Return `value`. Raises ValueError if it is not text, or not one of `valid_values` if these are given."""
    if not isinstance(value, str):
        what = f"for argument {arg}" if arg else ""
        raise OptionInvalid(
            f"Expected type str {what}, but got type {type(value)}.".replace(" ,", ","),
            where=source.where(),
            hint="Pass a string.",
        )
    known = None if valid_values is None else list(valid_values)
    if known is not None and value not in known:
        raise OptionInvalid(
            f"Unknown value '{value}' for argument {arg}. Valid values are {{{known}}}.",
            where=source.where(),
            hint="Pass one of these values.",
        )
    return value


class ImageNet(ImageFolder):
    """The ImageNet images in ROOT/train or ROOT/val, unpacked to one folder for each class id (WordNet id).

    Raises FileNotFoundError if the folder is missing, and ValueError if `split` is neither "train" nor "val".
    """

    def __init__(self, root: Any, split: str = "train", **options: Any):
        self.split = verify_str_arg(split, "split", SPLITS)
        super().__init__(os.path.join(os.path.expanduser(root), self.split), **options)
        self.wnids, self.wnid_to_idx = self.classes, self.class_to_idx

    def extra_repr(self) -> str:
        """Return the split, "train" or "val"."""
        return f"Split: {self.split}"


class ImageReadMode(enum.Enum):
    """An enumeration of the channels that a read image has."""

    UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA = range(5)


PIL_MODES = {
    ImageReadMode.GRAY: "L",
    ImageReadMode.GRAY_ALPHA: "LA",
    ImageReadMode.RGB: "RGB",
    ImageReadMode.RGB_ALPHA: "RGBA",
}
"""Pillow's mode for each read mode. UNCHANGED has none."""


def read_image(path: Any, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, **_: Any) -> Tensor:
    """Return the image in a file or file-like object as uint8 [channels, height, width].

    `mode` is an `ImageReadMode` or its name, in any case, and selects the channels; UNCHANGED keeps those of the file.
    Raises KeyError for an unknown name, and DataError if Pillow is not installed. Other arguments have no effect.
    """
    wanted = PIL_MODES.get(ImageReadMode[mode.upper()] if isinstance(mode, str) else mode)
    with functional.require_pillow().open(path) as image:
        return pil_to_tensor(image if wanted is None else image.convert(wanted))
