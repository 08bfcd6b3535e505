"""Reading and writing of image files as tensors: `torchvision.io`. It needs Pillow. Videos are not supported."""

import io
import pathlib
from typing import Any, NoReturn

import numpy as np

from cstorch_compat.torchvision.datasets.imagenet import ImageReadMode, read_image
from cstorch_compat.torchvision.transforms.functional import require_pillow
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing
from lazytensor.functional import creation


def decode_image(
    input: Any, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: Any = False
) -> Tensor:
    """Return an encoded image as uint8 [channels, height, width].

    `input` is a uint8 tensor of the encoded bytes, or text, which is a path. `mode` selects the channels as in
    `read_image`. `apply_exif_orientation` has no effect.
    """
    return read_image(input if isinstance(input, str) else io.BytesIO(input.numpy().tobytes()), mode)


def read_file(path: str) -> Tensor:
    """Return the bytes of a file as a uint8 tensor."""
    return creation.tensor_over_array(np.frombuffer(pathlib.Path(path).read_bytes(), np.uint8).copy())


def write_file(filename: str, data: Tensor) -> None:
    """Write a uint8 tensor to a file as bytes."""
    pathlib.Path(filename).write_bytes(data.numpy().tobytes())


def _encode(input: Tensor, kind: str, **options: Any) -> bytes:
    array = input.numpy()
    buffer = io.BytesIO()
    image = require_pillow().fromarray(
        array[0] if array.shape[0] == 1 else np.ascontiguousarray(array.transpose(1, 2, 0))
    )
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Return a uint8 image [channels, height, width] encoded as PNG, as a uint8 tensor of the bytes."""
    return creation.tensor_over_array(
        np.frombuffer(_encode(input, "PNG", compress_level=compression_level), np.uint8).copy()
    )


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """Return a uint8 image [channels, height, width] encoded as JPEG, as a uint8 tensor of the bytes."""
    return creation.tensor_over_array(np.frombuffer(_encode(input, "JPEG", quality=quality), np.uint8).copy())


def write_png(input: Tensor, filename: str, compression_level: int = 6) -> None:
    """Write a uint8 image [channels, height, width] to a PNG file."""
    pathlib.Path(filename).write_bytes(_encode(input, "PNG", compress_level=compression_level))


def write_jpeg(input: Tensor, filename: str, quality: int = 75) -> None:
    """Write a uint8 image [channels, height, width] to a JPEG file."""
    pathlib.Path(filename).write_bytes(_encode(input, "JPEG", quality=quality))


def read_video(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise OptionMissing, because videos are not supported."""
    raise OptionMissing(
        "reading videos is not supported in this version",
        where=source.where(),
        hint="Convert the video to images first, and read those.",
    )
