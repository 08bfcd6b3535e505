"""What the writer and the reader of checkpoint files agree on: the layout of cerebras_pytorch 2.10."""

import numpy as np

from lazytensor.core import dtype as dtypes
from lazytensor.errors import CheckpointError

# The original reads every file from 0.5 on as if it were 0.5, and anything below by its legacy reader; without the
# attribute its load fails with a KeyError, hence the base of VersionMissing.
LAYOUT_VERSION = 0.5
# Recorded in each file and read by nobody: the release whose layout this is, not the one of this package.
CSTORCH_VERSION = "2.10.0"
VERSION_KEY = "__cstorch_version__"  # its attribute
# What a leaf is stands at the root under its key and this suffix, and not at its dataset: a scalar has none. These
# texts are of variable length, which HDF5 keeps outside of an object's header and its limit of 64 KiB (254 KB of
# `__spec__` were tried).
METADATA_SUFFIX = ".__metadata__"
MAX_AXES = 32  # of an HDF5 dataset
# By exact type: JSON gives these back as they were, NaN, infinities and integers of any size among them. A NumPy
# scalar is none of them, and the original pickles it.
SCALAR_TYPES = (bool, int, float)
# Tensor types that a file can hold: the format's code for each, and the NumPy type of its dataset. The codes are those
# of the vendor's element types; int8 and complex numbers have none, which is why the original refuses them. HDF5 has no
# bfloat16, so its bits lie there as int16, and only the code and the name in `dtypes` tell them from whole numbers.
DTYPE_CODES = {
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
# Texts, times, records and objects are left out: what their bytes mean would need a pickle or a dtype description.
_ARRAY_KINDS = "biufc"


class VersionMissing(CheckpointError, KeyError):
    """An HDF5 file that is not a checkpoint."""

    def __str__(self) -> str:  # KeyError would show the repr of the text
        return str(self.args[0])


class DtypeRefused(CheckpointError, ValueError):
    """The format has no code for a tensor's type."""


class LeafRefused(CheckpointError, TypeError):
    """An object that a checkpoint cannot hold."""


def is_storable(kind: np.dtype) -> bool:
    """Whether a NumPy type is one of plain numbers."""
    # longdouble (12 or 16 bytes) differs between machines, and so does its complex twin.
    return kind.kind in _ARRAY_KINDS and kind.itemsize <= (16 if kind.kind == "c" else 8)
