"""The layout of checkpoint files, which writer and reader share: that of cerebras_pytorch 2.10."""

import numpy as np

from lazytensor.core import dtype as dtypes
from lazytensor.errors import CheckpointError

# The original reads every file from 0.5 on as 0.5, and older ones by its legacy reader. Without the attribute its load
# fails with a KeyError, hence the base class of VersionMissing.
LAYOUT_VERSION = 0.5
# Written into each file and never read: the release with this layout, not the version of this package.
CSTORCH_VERSION = "2.10.0"
VERSION_KEY = "__cstorch_version__"  # the attribute with CSTORCH_VERSION
# The metadata of a leaf is an attribute of the root, under its key and this suffix, because a scalar has no dataset.
# These texts have variable length: HDF5 stores them outside of object headers, which are limited to 64 KiB (254 KB of
# `__spec__` were tried).
METADATA_SUFFIX = ".__metadata__"
MAX_AXES = 32  # the limit of HDF5 datasets
# Types that JSON restores exactly, including NaN, infinities and integers of any size. The original pickles NumPy
# scalars, which are not among them.
SCALAR_TYPES = (bool, int, float)
# Tensor dtypes that a file can contain, with the format's code and the NumPy dtype of the dataset. The codes are those
# of the vendor's element types. The original refuses int8 and complex numbers, which have no code. HDF5 has no
# bfloat16: its bits are stored as int16, and only the code and the name in `dtypes` distinguish them from integers.
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
# Text, times, records and objects are excluded: their bytes need a pickle or a dtype description.
_ARRAY_KINDS = "biufc"


class VersionMissing(CheckpointError, KeyError):
    """An HDF5 file is no checkpoint."""

    def __str__(self) -> str:  # KeyError shows the repr of the text
        return str(self.args[0])


class DtypeRefused(CheckpointError, ValueError):
    """The format has no code for the dtype of a tensor."""


class LeafRefused(CheckpointError, TypeError):
    """A checkpoint cannot contain this object."""


def is_storable(kind: np.dtype) -> bool:
    """Return whether a NumPy dtype is one of plain numbers that a checkpoint can contain. longdouble is not."""
    # longdouble (12 or 16 bytes) and its complex type differ between machines.
    return kind.kind in _ARRAY_KINDS and kind.itemsize <= (16 if kind.kind == "c" else 8)
