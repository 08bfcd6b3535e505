"""Encode arrays as PNG images, without an image library."""

import struct
import zlib

import numpy as np

from lazytensor.core import source
from lazytensor.errors import OptionInvalid

COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""The PNG colour type by number of channels: grey, RGB and RGBA (PNG specification, section 11.2.2)."""
MAX_GRID_COLUMNS = 8
"""Maximum number of images in a row of a grid, as in PyTorch's writer."""


def encode_png_image(pixels: np.ndarray) -> bytes:
    """Return an image as a PNG file. `pixels` is uint8 of shape [height, width, channels] with 1, 3 or 4 channels.

    Raises KeyError for another number of channels.
    """
    height, width, channels = pixels.shape
    # Each row begins with its filter type, 0 for none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_encode_chunk(kind, data) for kind, data in parts)


def _encode_chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def to_pixels(array: np.ndarray, dataformats: str) -> np.ndarray:
    """Return an array as uint8 pixels of shape [height, width, channels].

    `dataformats` gives the order of the dimensions, such as "CHW", "HW" or "NHWC". Arrays other than uint8 are
    fractions of 255 and are clipped. Several images become a grid, and a grey image gets three channels, as in
    PyTorch's writer. Raises ValueError if `dataformats` does not match the array, and for a number of channels other
    than 1, 3 and 4.
    """
    order = dataformats.upper()
    if len(order) != array.ndim or len(set(order)) != len(order) or not {"H", "W"} <= set(order) <= set("NCHW"):
        raise OptionInvalid(
            f"dataformats={dataformats!r} does not match an array of {array.ndim} dimensions",
            where=source.where(),
            hint='Pass dataformats with one letter for each dimension, such as "HWC".',
        )
    # Add missing dimensions N and C in front, then transpose to NHWC.
    missing = [d for d in "NC" if d not in order]
    array = array.reshape(*(1 for _ in missing), *array.shape)
    array = array.transpose([("".join(missing) + order).index(d) for d in "NHWC"])
    # uint8 is shown as it is; other arrays are fractions of 255.
    if array.dtype != np.uint8:
        array = np.clip(np.asarray(array, np.float64) * 255, 0, 255).astype(np.uint8)
    if array.shape[3] == 1:
        array = np.repeat(array, 3, 3)
    if array.shape[3] not in COLOUR_TYPES:
        raise OptionInvalid(
            f"an image must have 1, 3 or 4 channels, not {array.shape[3]}",
            where=source.where(),
            hint="Select 1, 3 or 4 channels.",
        )
    return array[0] if len(array) == 1 else _make_grid(array)


def _make_grid(pictures: np.ndarray) -> np.ndarray:
    """Return images of shape [count, height, width, channels] as one image, at most MAX_GRID_COLUMNS per row."""
    count, height, width, channels = pictures.shape
    columns = min(count, MAX_GRID_COLUMNS)
    rows = -(-count // columns)
    # Unused cells stay black.
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = pictures
    return grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2).reshape(rows * height, -1, channels)
