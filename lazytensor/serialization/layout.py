"""Validation of files in PyTorch's zip format: archive layout, storage sizes, tensor views and hashable keys."""

import math
import sys
import zipfile
from types import FunctionType
from typing import Any

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.errors import CheckpointError

STORAGE_DTYPES = {
    "DoubleStorage": dt.float64,
    "FloatStorage": dt.float32,
    "HalfStorage": dt.float16,
    "BFloat16Storage": dt.bfloat16,
    "LongStorage": dt.int64,
    "IntStorage": dt.int32,
    "ShortStorage": dt.int16,
    "CharStorage": dt.int8,
    "ByteStorage": dt.uint8,
    "BoolStorage": dt.bool_,
}
"""The element type of each of PyTorch's storage classes."""
_UNSUPPORTED_NAMES = {
    "complex tensors": "ComplexFloatStorage ComplexDoubleStorage complex32 complex64 complex128",
    "quantized tensors": "QInt8Storage QInt32Storage QUInt8Storage QUInt4x2Storage QUInt2x4Storage qint8 quint8 qint32 "
    "quint4x2 quint2x4",
    "8-bit floating-point tensors": "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu",
    "tensors of uint32 or uint64": "uint32 uint64",
}
UNSUPPORTED_GLOBALS = {
    f"torch {name}": what for what, names in _UNSUPPORTED_NAMES.items() for name in names.split()
} | {
    "torch._utils _rebuild_qtensor": "quantized tensors",
    "torch._utils _rebuild_sparse_tensor": "sparse tensors",
    "torch._utils _rebuild_nested_tensor": "nested tensors",
    "torch._utils _rebuild_wrapper_subclass": "tensors of a wrapper class",
    "torch._utils _rebuild_device_tensor_from_numpy": "tensors of an XLA or HPU device",
    "torch._utils _rebuild_device_tensor_from_cpu_tensor": "tensors of an XLA or HPU device",
    "torch.jit._pickle restore_type_tag": "a TorchScript model",
}
"""Names in PyTorch's files for objects that this package does not support, with a description."""
# A description has about 100 bytes per tensor, so the limit allows millions of tensors. Without a limit, a small file
# could claim gigabytes that would be read before any check.
MAX_DESCRIPTION_BYTES = 1 << 28
"""Maximum size of data.pkl in bytes; larger files are refused."""


MAX_STORAGE_ELEMENTS = 1 << 42
"""Maximum number of elements of a tensor, which exceeds any memory; larger ones are refused."""
MAX_KEY_VALUES = 10_000
"""Maximum number of values in a key of a dict or set, because hashing visits each of them."""


def file_error(
    what: str, hint: str = "Get the file again from a source that you trust: it is damaged or malicious."
) -> CheckpointError:
    """Return the error for an invalid file: what is wrong, the user's line, and a hint."""
    return CheckpointError(what, where=source.where(), hint=hint)


_TRUSTED_HASH_MODULES = sys.stdlib_module_names | {"lazytensor", "cstorch_compat"}
"""Packages whose classes may define `__hash__` for keys in a file."""


def check_hashable(key: Any) -> Any:
    """Return `key`, a key of a dict or a member of a set, after checking it. It need not be hashable.

    Raises CheckpointError if it is a tuple of more than MAX_KEY_VALUES values, or if hashing it would run code of a
    class of the script.
    """
    waiting = [check_walk(key, MAX_KEY_VALUES, "a key of the file")] if isinstance(key, tuple) else [key]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting += item
        code = type(item).__hash__
        if isinstance(code, FunctionType) and code.__module__.partition(".")[0] not in _TRUSTED_HASH_MODULES:
            raise file_error(
                f"a key in the file is a {type(item).__name__}, a class that defines its own hash function"
            )
    return key


def check_walk(value: Any, most: int, what: str) -> Any:
    """Return `value`, a nested container, after checking that a traversal visits at most `most` values.

    Tuples, lists, sets and the values of dicts are visited. Raises CheckpointError otherwise; `what` names the value.
    Shared parts count each time: 60 nested tuples, each with the previous one twice, have 2^60 values.
    """
    left, waiting = most, [value]
    while waiting:
        item = waiting.pop()
        left -= 1
        if isinstance(item, tuple | list | set):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        if left < len(waiting):
            raise file_error(f"{what} has more than {most:,} values, or contains itself")
    return value


def storage_record(archive: zipfile.ZipFile, name: str, dtype: DType, count: Any) -> zipfile.ZipInfo:
    """Return the zip record of a storage, which has the path `name` in the archive.

    Raises CheckpointError if it does not exist, or if its size is not that of `count` elements of `dtype`.
    """
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise file_error(f"the file has no storage {name!r}") from None
    # The size is stated twice, in the archive's directory and in the description. If they differ, the file is damaged
    # or malicious.
    if isinstance(count, bool) or not isinstance(count, int) or info.file_size != count * dtype.itemsize:
        raise file_error(f"storage {name!r} has {info.file_size} bytes for {count} elements of {dtype}")
    return info


def check_view(count: int, offset: Any, size: tuple[Any, ...], stride: tuple[Any, ...]) -> None:
    """Raise CheckpointError unless a view is valid and inside a storage of `count` elements.

    `offset`, `size` and `stride` count elements. They must be non-negative integers; bools are refused. `size` and
    `stride` must have the same length. The view may have at most MAX_STORAGE_ELEMENTS elements. A view without elements
    is inside at any offset.
    """
    # bool is a subclass of int in Python, but is not allowed here.
    numbers = (offset, *size, *stride)
    if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
        raise file_error("a tensor in the file has an offset, size or stride that is not an integer")
    # PyTorch has no negative strides, so the last element of a view has the largest index, and checking it is enough.
    if len(size) != len(stride) or min(numbers) < 0:
        raise file_error(
            f"a tensor of size {list(size)} has the invalid strides {list(stride)} or the invalid offset {offset}"
        )
    # With a stride of 0, a few bytes can represent any number of elements, which would exhaust the memory later.
    if math.prod(size) > MAX_STORAGE_ELEMENTS:
        raise file_error(f"a tensor of size {list(size)} is larger than any memory")
    # An empty view is always in bounds.
    last = last_element(offset, size, stride)
    if math.prod(size) and last >= count:
        raise file_error(f"a tensor reads element {last} of a storage with {count} elements")


def last_element(offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Return the index in the storage of the last element of a view with this `offset`, `size` and `stride`.

    All count elements. The result is meaningless for a view without elements.
    """
    return offset + sum((e - 1) * s for e, s in zip(size, stride, strict=True))


def description_root(archive: zipfile.ZipFile) -> str:
    """Return the folder of data.pkl in an archive, without a slash at its end.

    Raises CheckpointError unless there is exactly one data.pkl in a folder at the top level, of at most
    `MAX_DESCRIPTION_BYTES`, and all records are valid (see `_check_records`).
    """
    # PyTorch names the folder after the file, and other writers call it `archive`; accept any name at the top level.
    names = [n for n in archive.namelist() if n.rpartition("/")[2] == "data.pkl" and n.count("/") == 1]
    if len(names) != 1:
        raise file_error(f"the archive has {len(names)} descriptions (data.pkl); one is expected")
    if archive.getinfo(names[0]).file_size > MAX_DESCRIPTION_BYTES:
        raise file_error(f"the description of the file (data.pkl) has more than {MAX_DESCRIPTION_BYTES:,} bytes")
    root = names[0].rpartition("/")[0]
    _check_records(archive, root)
    return root


def _check_records(archive: zipfile.ZipFile, root: str) -> None:
    """Raise CheckpointError for an archive that no writer creates.

    This is an archive with compressed records, with two records of one name, or with records that claim more bytes than
    the file has, and one whose record `root`/byteorder is not "little".
    """
    names = archive.namelist()
    # Which of two equal names is read depends on the reader, so a file could deceive a security scanner.
    if len(set(names)) != len(names):
        raise file_error("the archive has two records with the same name")
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise file_error(f"the record {info.filename!r} is compressed, but PyTorch's records never are")
    # Overlapping records: a small file could fill the memory when all of them are read.
    stream = archive.fp
    assert stream is not None
    if sum(info.file_size for info in archive.infolist()) > stream.seek(0, 2):
        raise file_error("the records of the archive claim more bytes than the file has")
    # Check the size before reading the record.
    order = f"{root}/byteorder"
    if order in names and archive.getinfo(order).file_size < 16 and archive.read(order) != b"little":
        raise file_error("the file was written on a big-endian machine")
