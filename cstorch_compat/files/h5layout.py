"""What the writer and the reader of checkpoint files agree on: the layout of cerebras_pytorch 2.10."""

import numpy as np

from lazytensor import dtype as dtypes
from lazytensor.errors import CheckpointError

LAYOUT_VERSION = 0.5
CSTORCH_VERSION = "2.10.0"
METADATA = ".__metadata__"
MOST_AXES = 32  # of an HDF5 dataset
SCALARS = (bool, int, float)
# Tensor types that a file can hold: the format's code for each, and the NumPy type of its dataset.
CODES = {
    dtypes.bool_: (1, "?"),
    dtypes.int16: (3, "<i2"),
    dtypes.int32: (4, "<i4"),
    dtypes.int64: (5, "<i8"),
    dtypes.uint8: (6, "<u1"),
    dtypes.uint16: (7, "<u2"),
    dtypes.float16: (10, "<f2"),
    dtypes.float32: (11, "<f4"),
    dtypes.float64: (12, "<f8"),
    dtypes.bfloat16: (15, "<i2"),
}
_ARRAY_KINDS = "biufc"


class VersionMissing(CheckpointError, KeyError):
    """An HDF5 file that is not a checkpoint."""

    def __str__(self) -> str:  # KeyError would show the repr of the text
        return self.args[0]


class DtypeRefused(CheckpointError, ValueError):
    """The format has no code for a tensor's type."""


class LeafRefused(CheckpointError, TypeError):
    """An object that a checkpoint cannot hold."""


def is_storable(kind: np.dtype) -> bool:
    """Whether a NumPy type is one of plain numbers."""
    return kind.kind in _ARRAY_KINDS and kind.itemsize <= (16 if kind.kind == "c" else 8)
