"""NumPy's npz files: a zip archive of arrays, which are read on demand and written one at a time.

NumPy has no bfloat16. Its bits are stored as the void dtype `V2`, as by programs that use `ml_dtypes`.
"""

import math
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import IO

import numpy as np
from numpy.lib import format as npy

from cstorch_compat.files.atomic_write import new_file
from cstorch_compat.files.h5layout import is_storable
from cstorch_compat.files.rawfile import RawFile
from cstorch_compat.files.treespec import check_name
from lazytensor.core import dtype as dt
from lazytensor.core.element_bytes import DTYPES_BY_FILE_DTYPE, FILE_DTYPES
from lazytensor.core.file_array import LazyArray, report_file_errors
from lazytensor.errors import CheckpointError
from lazytensor.serialization.lazy_storages import read_into

_SUFFIX = ".npy"
"""The suffix that NumPy appends to the name of each array."""
_BFLOAT16_STORAGE = np.dtype("V2")
"""The NumPy dtype for the bits of bfloat16."""
# A damaged or malicious header may declare any size. Check it against this bound before allocating memory.
_MAX_DEFLATE_RATIO = 1032
"""The largest number of bytes that deflate can store in one byte."""
_DTYPE_OF_KIND = DTYPES_BY_FILE_DTYPE | {_BFLOAT16_STORAGE: dt.bfloat16}
"""The tensor dtype of each NumPy dtype in a file."""


def read(path: str) -> dict[str, LazyArray]:
    """Return the arrays of a file by name. Values are read when they are used.

    Raises CheckpointError for arrays of objects or text, for two arrays of one name, and for a damaged file.
    """
    with report_file_errors("the npz file cannot be read", path):
        archive = zipfile.ZipFile(RawFile(path).stream())  # closed when the last array is freed
        arrays = {}
        for info in archive.infolist():
            # NumPy appends the suffix to each name.
            key = info.filename.removesuffix(_SUFFIX)
            if key in arrays:
                raise CheckpointError(f"it has two arrays with the name {key!r}")
            with report_file_errors(f"{key!r} cannot be read", path):
                arrays[key] = _make_lazy_array(path, archive, info, key)
        return arrays


def _make_lazy_array(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str) -> LazyArray:
    """Return the LazyArray for the member `info` of the archive, with the name `key`.

    Raises CheckpointError for a dtype that is not numeric, and if the shape in the header does not match the member's
    size.
    """
    with archive.open(info) as stream:
        shape, is_fortran, kind = _read_header(stream)
        begin = stream.tell()
    if kind != _BFLOAT16_STORAGE and not is_storable(kind):
        raise CheckpointError(f"its dtype {kind} is not numeric", hint="Save only arrays of numbers.")
    nbytes = math.prod(shape) * kind.itemsize
    # The shape in the header, the size in the archive and the bound of deflate must agree.
    if info.file_size != begin + nbytes or info.file_size > (info.compress_size + 1) * _MAX_DEFLATE_RATIO:
        raise CheckpointError(f"its {info.file_size} bytes do not match {kind}{list(shape)}")
    dtype = _DTYPE_OF_KIND.get(kind.newbyteorder("<"))
    # Convert to little-endian when reading, because all writers need it.
    target = kind.newbyteorder("<") if dtype is None else FILE_DTYPES[dtype]
    load = partial(_load, archive, info, begin, shape, is_fortran, kind, target)
    packing = "" if info.compress_type == zipfile.ZIP_STORED else "deflate"
    return LazyArray(
        key=key,
        shape=shape,
        dtype=dtype,
        kind=target,
        is_tensor=dtype is not None,
        where=path,
        load=load,
        stored_bytes=info.compress_size,
        packing=packing,
        is_checked=True,
    )


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, whether it is in Fortran order, and dtype from an npy header.

    Raises CheckpointError for version 3.
    """
    version = npy.read_magic(stream)
    # Version 3 is for field names outside of Latin-1, which arrays of numbers do not have.
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise CheckpointError(f"its npy version {version} is not supported")
    return readers[version](stream)


def _load(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    begin: int,
    shape: tuple[int, ...],
    is_fortran: bool,
    kind: np.dtype,
    target: np.dtype,
) -> np.ndarray:
    """Read an array from the archive, in C order and little-endian. `begin` is the length of its header."""
    flat = np.empty(math.prod(shape), kind)
    with archive.open(info) as stream:
        # Skip the header: a stream starts at the beginning of the member.
        stream.read(begin)
        read_into(stream, flat)
    array = flat.reshape(shape, order="F" if is_fortran else "C")
    if kind == _BFLOAT16_STORAGE:
        array = array.view(target)
    return np.asarray(array, target, order="C")


def write(path: str, arrays: Mapping[str, LazyArray], *, replace: bool = False) -> None:
    """Write the arrays, one after another and uncompressed, to the new file `path`.

    An existing file is replaced only if `replace`. Raises CheckpointError for names that a file cannot have, and the
    errors of `new_file`.
    """
    with new_file(path, replace) as temporary, zipfile.ZipFile(temporary, "x", zipfile.ZIP_STORED) as archive:
        for key, a in arrays.items():
            check_name(key)
            kind = _BFLOAT16_STORAGE if a.dtype is dt.bfloat16 else a.kind
            # The size is unknown in advance. Without force_zip64, writing an array over 2 GiB fails midway.
            with archive.open(zipfile.ZipInfo(key + _SUFFIX), "w", force_zip64=True) as stream:
                npy.write_array_header_1_0(
                    stream, {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": a.shape}
                )
                stream.write(a.stored().reshape(-1).view(np.uint8).data)
