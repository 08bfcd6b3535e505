"""An array in a file, read when asked for."""

import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from lazytensor.core.dtype import DType, bfloat16
from lazytensor.core.element_bytes import decode_elements
from lazytensor.errors import CheckpointError

# What readers of files (h5py, zipfile, json, struct, NumPy) raise for one that is not what it seems.
FILE_READER_ERRORS = (
    *(OSError, EOFError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, AttributeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    # The header of an npy file is a text of Python's, and is split by its tokens.
    *(tokenize.TokenError, SyntaxError),
)


# By identity: equal fields do not say that two files hold the same numbers.
@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array of numbers under a key of the file `where`.

    `load` gives its elements as the file holds them (see `element_bytes`), of the NumPy type `kind`. `is_tensor` is
    False for what was saved as a NumPy array; its `dtype` is None if no tensor type corresponds.
    """

    key: str
    shape: tuple[int, ...]
    dtype: DType | None
    kind: np.dtype
    is_tensor: bool
    where: str
    load: Callable[[], np.ndarray] = field(repr=False)
    stored_bytes: int | None = None  # what it takes in the file, where that is known
    packing: str = ""  # how its bytes are compressed
    is_checked: bool = False  # whether reading it compares a checksum

    @property
    def nbytes(self) -> int:
        """The size of its elements, uncompressed."""
        return math.prod(self.shape) * self.kind.itemsize

    def stored(self) -> np.ndarray:
        """A new array of the elements as the file holds them.

        Works after the file was deleted or replaced. Raises CheckpointError when its bytes are damaged.
        """
        with report_file_errors(f"{self.key!r} cannot be read", self.where):
            return self.load()

    def read(self) -> np.ndarray:
        """A new array of the values: in the host type of `dtype` for a tensor, in its own type for a NumPy array.

        Raises CheckpointError when its bytes are damaged.
        """
        array = self.stored()
        # bfloat16 is bits in the file whoever saved it; other NumPy arrays come back in the type that they had.
        is_plain = self.dtype is None or not (self.is_tensor or self.dtype is bfloat16)
        return array if is_plain else decode_elements(array, self.dtype)  # type: ignore[arg-type]


@contextmanager
def report_file_errors(what: str, where: str = "", hint: str = "Restore the file from a copy.") -> Iterator[None]:
    """Turn what others raise about a file into our error that says `what` failed."""
    try:
        yield
    except CheckpointError as e:
        # The inner error names its file already; the outer would only say less.
        if e.where:
            raise
        raise CheckpointError(f"{what}: {e.what}", where=where, hint=e.hint or hint) from e
    except FILE_READER_ERRORS as e:
        # HDF5 tells an error of the system in a paragraph of addresses and sizes.
        why = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else e
        raise CheckpointError(f"{what}: {why}", where=where, hint=hint) from e
