"""What a file in PyTorch's zip format may look like: checked before anything of it is believed."""

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
"""The tensor type of each storage class."""
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
"""What PyTorch's files may hold and this package has no tensors for, by the name in the file."""
# A description has some 100 bytes for each tensor, so this is millions of them. Without a limit a file of a few bytes
# could claim gigabytes that are read before anything is checked.
MAX_DESCRIPTION_BYTES = 1 << 28
"""Bytes of data.pkl beyond which a file is not believed."""


MAX_STORAGE_ELEMENTS = 1 << 42
"""Elements of a tensor beyond which a file is not believed: more than any memory holds."""
MAX_KEY_VALUES = 10_000
"""Values in a key of a dict or a set, each of which is looked at whenever the key is."""


def file_error(what: str, hint: str = "The file is damaged or was made to deceive.") -> CheckpointError:
    """The error for a file that no writer makes, or that is not to be read."""
    return CheckpointError(what, where=source.where(), hint=hint)


_TRUSTED_HASH_MODULES = sys.stdlib_module_names | {"lazytensor", "cstorch_compat"}
"""Packages whose classes may hash the keys of a file."""


def check_hashable(key: Any) -> Any:
    """Return a key of a dict or a member of a set.

    Raises CheckpointError if hashing it takes too long, or runs code of a class of the script.
    """
    waiting = [check_walk(key, MAX_KEY_VALUES, "a key of the file")] if isinstance(key, tuple) else [key]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting += item
        code = type(item).__hash__
        if isinstance(code, FunctionType) and code.__module__.partition(".")[0] not in _TRUSTED_HASH_MODULES:
            raise file_error(f"a key of the file is a {type(item).__name__}, which is hashed by code of its own")
    return key


def check_walk(value: Any, most: int, what: str) -> Any:
    """The value. Raises CheckpointError if whoever walks, hashes or prints it meets more than `most` values.

    What is shared counts each time that it is met: sixty tuples, each of the one before twice, are 2^60 values.
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
            raise file_error(f"{what} is more than {most:,} values to who walks through it, or holds itself")
    return value


def storage_record(archive: zipfile.ZipFile, name: str, dtype: DType, count: Any) -> zipfile.ZipInfo:
    """The record of a storage. Raises CheckpointError if its bytes are not those of `count` elements."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise file_error(f"the file has no storage {name!r}") from None
    # One size is stated twice, in the archive's directory and in the description. If they differ, one of them lies, and
    # which one decides how much memory a reader takes or how far it reads.
    if isinstance(count, bool) or not isinstance(count, int) or info.file_size != count * dtype.itemsize:
        raise file_error(f"storage {name!r} has {info.file_size} bytes for {count} elements of {dtype}")
    return info


def check_view(count: int, offset: Any, size: tuple[Any, ...], stride: tuple[Any, ...]) -> None:
    """Raises CheckpointError unless a view of these numbers stays inside a storage of `count` elements."""
    # True and False pass as integers in Python, and nowhere else.
    numbers = (offset, *size, *stride)
    if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
        raise file_error("a tensor of the file is described by something else than numbers")
    # PyTorch has no negative strides, so the last element of a view is the one farthest in, and one check of it is
    # enough.
    if len(size) != len(stride) or min(numbers) < 0:
        raise file_error(f"a tensor of size {list(size)} has the strides {list(stride)} and the offset {offset}")
    # A stride of 0 lets a few bytes stand for any number of elements, which fails when somebody computes with them.
    if math.prod(size) > MAX_STORAGE_ELEMENTS:
        raise file_error(f"a tensor of size {list(size)} is larger than any memory")
    # A view without elements reaches nothing, wherever it starts.
    last = last_element(offset, size, stride)
    if math.prod(size) and last >= count:
        raise file_error(f"a tensor reaches element {last} of a storage of {count}")


def last_element(offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """The index of the last element that a view sees in its storage."""
    return offset + sum((e - 1) * s for e, s in zip(size, stride, strict=True))


def description_root(archive: zipfile.ZipFile) -> str:
    """The folder of data.pkl in an archive. Raises CheckpointError unless there is one, and all else is as written."""
    # PyTorch names the folder after the file, and other writers call it `archive`: any name will do, at one level.
    names = [n for n in archive.namelist() if n.rpartition("/")[2] == "data.pkl" and n.count("/") == 1]
    if len(names) != 1:
        raise file_error(f"the archive has {len(names)} descriptions (data.pkl); one is expected")
    # Before it is read, not after.
    if archive.getinfo(names[0]).file_size > MAX_DESCRIPTION_BYTES:
        raise file_error("the description of the file is larger than any real one")
    root = names[0].rpartition("/")[0]
    _check_records(archive, root)
    return root


def _check_records(archive: zipfile.ZipFile, root: str) -> None:
    """Refuse what no writer makes: compressed records, two of one name, big endian."""
    names = archive.namelist()
    # Which of the two is read depends on the reader: a file could show one content to a scanner, another to us.
    if len(set(names)) != len(names):
        raise file_error("the archive has two records of one name")
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise file_error(f"the record {info.filename!r} is compressed, and PyTorch's never are")
    # Records that overlap: a small file that would fill the memory when each is read.
    stream = archive.fp
    assert stream is not None
    if sum(info.file_size for info in archive.infolist()) > stream.seek(0, 2):
        raise file_error("the records of the archive claim more bytes than the file has")
    # The size first, since the record is read to be compared.
    order = f"{root}/byteorder"
    if order in names and archive.getinfo(order).file_size < 16 and archive.read(order) != b"little":
        raise file_error("the file was written on a big-endian machine")
