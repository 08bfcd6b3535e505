"""Pictures as PNG, without a library: what TensorBoard shows of an array."""

import struct
import zlib

import numpy as np

COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""By channels: grey, red-green-blue, and that with transparency (PNG specification, section 11.2.2)."""
MAX_GRID_COLUMNS = 8
"""Pictures beside each other in a grid, as PyTorch's writer has it."""


def encode_png_image(pixels: np.ndarray) -> bytes:
    """The file of a picture of bytes, [height, width, channels]."""
    height, width, channels = pixels.shape
    # Each row begins with the number of its filter: none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_encode_chunk(kind, data) for kind, data in parts)


def _encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def to_pixels(array: np.ndarray, dataformats: str) -> np.ndarray:
    """An array in the order that `dataformats` names, such as "CHW" or "NHWC", as bytes [height, width, channels].

    Fractions are of 255; several pictures become a grid, and a grey picture gets three channels, as in PyTorch's
    writer. Raises ValueError for another rank, or an order that is none.
    """
    order = dataformats.upper()
    if len(order) != array.ndim or len(set(order)) != len(order) or not {"H", "W"} <= set(order) <= set("NCHW"):
        raise ValueError(f"the array has {array.ndim} dimensions, and dataformats={dataformats!r} names {len(order)}")
    # Missing dimensions in front, then all in one order.
    # A picture alone is a batch of one, and a grey one may have no dimension for its channel.
    missing = [d for d in "NC" if d not in order]
    array = array.reshape(*(1 for _ in missing), *array.shape)
    array = array.transpose([("".join(missing) + order).index(d) for d in "NHWC"])
    # Bytes are what is shown; anything else is a fraction of white.
    if array.dtype != np.uint8:
        array = np.clip(np.asarray(array, np.float64) * 255, 0, 255).astype(np.uint8)
    if array.shape[3] == 1:
        array = np.repeat(array, 3, 3)
    if array.shape[3] not in COLOUR_TYPES:
        raise ValueError(f"a picture has 1, 3 or 4 channels, and this one {array.shape[3]}")
    return array[0] if len(array) == 1 else _make_grid(array)


def _make_grid(pictures: np.ndarray) -> np.ndarray:
    count, height, width, channels = pictures.shape
    columns = min(count, MAX_GRID_COLUMNS)
    rows = -(-count // columns)
    # Places without a picture stay black.
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = pictures
    return grid.reshape(rows, columns, height, width, channels).swapaxes(1, 2).reshape(rows * height, -1, channels)
