"""Verification of MNIST's IDX files for `ckpt verify`. The format has no checksum, so only the length is checked.

A compressed file has the checksum of gzip, which is checked when the file is read to its end. The values are read by
`torchvision/datasets/mnist.py`, which describes the layout.
"""

import gzip
import math
import os
import struct
import zlib

from lazytensor.errors import CheckpointError

ITEM_BYTES = {0x08: 1, 0x09: 1, 0x0B: 2, 0x0C: 4, 0x0D: 4, 0x0E: 8}
"""Bytes per element, by the dtype code in the third byte of the file."""
CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time."""


def is_idx(path: str) -> bool:
    """Return whether a file has "idx" in its name and an IDX header, compressed or not; False if it cannot be read."""
    if "idx" not in os.path.basename(path):
        return False
    try:
        with _open(path) as stream:
            head = stream.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return len(head) == 4 and head[:2] == b"\0\0" and head[2] in ITEM_BYTES and head[3] > 0


def verify_idx(path: str) -> str:
    """Read a whole IDX file, and return a sentence for the user on the result of the check.

    Only a compressed file has a checksum; otherwise only the length is checked. Raises CheckpointError if the file is
    damaged or has the wrong length.
    """
    size = 0
    try:
        with _open(path) as stream:
            head = stream.read(4)
            extents = struct.unpack(f">{head[3]}I", stream.read(4 * head[3]))
            while chunk := stream.read(CHUNK_BYTES):
                size += len(chunk)
    except (OSError, EOFError, zlib.error, struct.error) as e:
        raise CheckpointError(f"the file is damaged: {e}", where=path, hint="Download the file again.") from e
    expected = math.prod(extents) * ITEM_BYTES[head[2]]
    if size != expected:
        what = f"the file has {size:,} bytes of values, but its header requires {expected:,}"
        raise CheckpointError(what, where=path, hint="Download the file again.")
    if path.endswith(".gz"):
        return f"IDX, compressed: the checksum of the {size:,} bytes is correct"
    return f"IDX: the length of {size:,} bytes is correct; the format has no checksum that would reveal changed bytes"


def _open(path: str) -> gzip.GzipFile:
    """Open a file for reading, decompressed if its name ends in ".gz"."""
    # A plain file has the same `read` method, but another class.
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]
