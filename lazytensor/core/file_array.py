"""An array in a file that is read on demand."""

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

# Exceptions that file readers (h5py, zipfile, json, struct, NumPy) raise for damaged or foreign files.
FILE_READER_ERRORS = (
    *(OSError, EOFError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, AttributeError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    # NumPy parses the header of an npy file, which is Python source, with `tokenize`.
    *(tokenize.TokenError, SyntaxError),
)


# eq=False: equal fields do not mean that two files hold the same numbers.
@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array in the file `where`, under the name `key`, that is read on demand. Two objects are never equal.

    Fields:
    - `key`: the name of the array in the file.
    - `shape`: its shape.
    - `dtype`: the tensor type of the elements; None if no tensor type corresponds to a NumPy array's type.
    - `kind`: the NumPy type of the elements in the file (see `element_bytes`).
    - `is_tensor`: False if it was saved as a NumPy array.
    - `where`: the path of the file, for error messages.
    - `load`: a function that returns the elements as stored in the file.
    - `stored_bytes`: the size in the file; None if unknown.
    - `packing`: the name of the compression; "" if there is none.
    - `is_checked`: whether reading verifies a checksum.
    """

    key: str
    shape: tuple[int, ...]
    dtype: DType | None
    kind: np.dtype
    is_tensor: bool
    where: str
    load: Callable[[], np.ndarray] = field(repr=False)
    stored_bytes: int | None = None
    packing: str = ""
    is_checked: bool = False

    @property
    def nbytes(self) -> int:
        """The uncompressed size of the elements in bytes."""
        return math.prod(self.shape) * self.kind.itemsize

    def stored(self) -> np.ndarray:
        """Return a new array of the elements in the type `kind`, as stored in the file.

        Works after the file was deleted or replaced. Raises CheckpointError if the data is damaged.
        """
        with report_file_errors(f"{self.key!r} cannot be read", self.where):
            return self.load()

    def read(self) -> np.ndarray:
        """Return a new array of the values.

        A tensor is returned in the host type of `dtype`, a NumPy array in its saved type. bfloat16 values are always
        returned in their host type, float32. Raises CheckpointError if the data is damaged.
        """
        array = self.stored()
        # bfloat16 elements are stored as bits and always decoded; other NumPy arrays keep their saved type.
        is_plain = self.dtype is None or not (self.is_tensor or self.dtype is bfloat16)
        return array if is_plain else decode_elements(array, self.dtype)  # type: ignore[arg-type]


@contextmanager
def report_file_errors(what: str, where: str = "", hint: str = "Restore the file from a copy.") -> Iterator[None]:
    """Convert errors of file readers in the block into CheckpointError: "`what`: reason", for the file `where`.

    A CheckpointError that already has a location passes unchanged; one without gets `where`, `what` and `hint`.
    """
    try:
        yield
    except CheckpointError as e:
        # The inner error already has a location, which is more precise.
        if e.where:
            raise
        raise CheckpointError(f"{what}: {e.what}", where=where, hint=e.hint or hint) from e
    except FILE_READER_ERRORS as e:
        # HDF5's message for an operating system error is a paragraph of addresses and sizes; use the plain text.
        why = os.strerror(e.errno) if isinstance(e, OSError) and e.errno else e
        raise CheckpointError(f"{what}: {why}", where=where, hint=hint) from e
