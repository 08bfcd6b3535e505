"""Checkpoint files: a tree of arrays and scalars in one flat HDF5 file, written at once and read lazily.

Every leaf has a dotted key. An array is a dataset of that name; what a leaf is stands in a JSON attribute
`<key>.__metadata__`, the containers in `__spec__` (see treespec). Nothing is ever pickled or unpickled. The layout is
that of cerebras_pytorch 2.10; files older than layout 0.5 are read, but not written.
"""

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import h5py
import numpy as np

from cstorch_compat.common import treespec
from cstorch_compat.common.lz4 import StoredArray, StoredFile, attributes
from lazytensor import dtype as dtypes
from lazytensor.dtype import DType
from lazytensor.errors import CheckpointError

LAYOUT_VERSION = 0.5
CSTORCH_VERSION = "2.10.0"
_METADATA = ".__metadata__"
_MOST_FILL_BYTES = 1 << 44  # beyond any host; a filled array has no stored bytes that would bound its shape
_MOST_AXES = 32  # of an HDF5 dataset
_NO_NAMEDTUPLES: Mapping[str, type] = MappingProxyType({})
_SCALARS = (bool, int, float)
_ARRAY_KINDS = "biufc"
# Tensor types that a file can hold: the format's code for each, and the NumPy type of its dataset.
_CODES = {
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
_OF_KIND = {d.host: d for d in dtypes.ALL if not d.is_half} | {np.dtype("f2"): dtypes.float16}
# What h5py and json raise for a file that is not what it seems.
_FOREIGN_ERRORS = (OSError, RuntimeError, ValueError, TypeError, LookupError, OverflowError, AttributeError)


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """There is no file, or no directory for it."""


class CheckpointExists(CheckpointError, FileExistsError):
    """A checkpoint would be overwritten."""


class VersionMissing(CheckpointError, KeyError):
    """An HDF5 file that is not a checkpoint."""

    def __str__(self) -> str:  # KeyError would show the repr of the text
        return self.args[0]


class DtypeRefused(CheckpointError, ValueError):
    """The format has no code for a tensor's type."""


class LeafRefused(CheckpointError, TypeError):
    """An object that a checkpoint cannot hold."""


@dataclass(frozen=True)
class ArrayLeaf:
    """A tensor to be written: its values in the host type of `dtype`, or a callable that gives them when needed."""

    array: np.ndarray | Callable[[], np.ndarray]
    dtype: DType


@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array in a file, read when asked for.

    `is_tensor` is False for what was saved as a NumPy array; its `dtype` is None if no tensor type corresponds.
    """

    key: str
    shape: tuple[int, ...]
    dtype: DType | None
    is_tensor: bool
    where: str
    load: Callable[[], np.ndarray] = field(repr=False)

    def read(self) -> np.ndarray:
        """A new array of the values: in the host type of `dtype` for a tensor, in its own type for a NumPy array.

        Works after the file was deleted or replaced. Raises CheckpointError when its bytes are damaged.
        """
        with _reported(f"{self.key!r} cannot be read", self.where):
            return self.load()


@contextmanager
def _reported(what: str, where: str = "") -> Iterator[None]:
    """Turn what h5py, json and NumPy raise about a file into our error that says `what` failed."""
    try:
        yield
    except CheckpointError as e:
        if e.where:
            raise
        raise CheckpointError(f"{what}: {e.what}", where=where, todo=e.todo) from e
    except (*_FOREIGN_ERRORS, MemoryError) as e:
        raise CheckpointError(f"{what}: {e}", where=where, todo="Restore the file from a copy.") from e


# Writing


def write(
    path: str | os.PathLike,
    tree: object,
    describe: Callable[[object], ArrayLeaf | None],
    namedtuples: Mapping[str, type] = _NO_NAMEDTUPLES,
) -> None:
    """Write `tree` to a new file that appears under `path` only when it is complete.

    `describe` gives the ArrayLeaf of a tensor and None for any other object. An object that occurs twice is stored
    once. `namedtuples` gives the namedtuple classes that may occur, by the name to record. Raises CheckpointMissing,
    CheckpointExists, DtypeRefused, LeafRefused or CheckpointError; then nothing is left behind.
    """
    path = os.fspath(path)
    _check_target(path)
    flat = treespec.flatten(tree, namedtuples)
    # Everything that can be refused is refused here, so that no file is begun in vain.
    leaves = [(leaf.key, _plan(leaf, describe)) for leaf in flat.leaves]
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        _write_file(temporary, flat.spec, leaves)
        _check_target(path)
        os.rename(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _check_target(path: str) -> None:
    if os.path.lexists(path):
        raise CheckpointExists(
            f"Checkpoint at '{path}' already exists. A checkpoint never overwrites another one.",
            todo="Save under another name, or delete the old file first.",
        )
    directory = os.path.dirname(path)
    if not os.path.isdir(directory or os.curdir) or not path:
        raise CheckpointMissing(
            f"there is no directory {directory!r} for the checkpoint '{path}'",
            todo="Create it first, for example with os.makedirs.",
        )


def _plan(occurrence: treespec.Leaf, describe: Callable) -> object:
    """What to write: an ArrayLeaf, a NumPy array, or the descriptor of something without a dataset."""
    key, leaf = occurrence.key, occurrence.value
    if occurrence.original != key:
        return {"key": occurrence.original, "__LINKED__": True, "__TYPE__": "LinkedObject", "__NONE__": True}
    array = describe(leaf)
    if array is None and not isinstance(leaf, np.ndarray):
        return _scalar_descriptor(key, leaf)
    if not key:
        raise LeafRefused("an array without a key cannot be saved", todo="Put it into a dict: {'x': tensor}.")
    if array is None:
        return _plain_array(key, leaf)
    if array.dtype not in _CODES:
        raise DtypeRefused(
            f"{key!r} is a tensor of {array.dtype!r}, for which the checkpoint format has no code",
            todo=f"Convert it to one of {', '.join(d.name for d in _CODES)} before saving.",
        )
    return array


def _plain_array(key: str, array: Any) -> np.ndarray:
    if type(array) in (np.ndarray, np.memmap) and _is_storable(array.dtype):
        return array
    raise LeafRefused(
        f"{key!r} is a NumPy array of type {type(array).__name__} and {array.dtype}",
        todo="Save plain arrays of bool, integer, float or complex numbers.",
    )


def _is_storable(kind: np.dtype) -> bool:
    return kind.kind in _ARRAY_KINDS and kind.itemsize <= (16 if kind.kind == "c" else 8)


def _scalar_descriptor(key: str, leaf: object) -> dict:
    value = leaf.item() if isinstance(leaf, np.generic) else leaf  # a NumPy scalar would have to be pickled
    if value is None:
        return {"__TYPE__": "NoneSerializer", "__NONE__": True}
    if type(value) is str:
        return {"string_value": value, "__TYPE__": "StringSerializer", "__NONE__": True}
    if type(value) in _SCALARS:
        return {"scalar_value": value, "__TYPE__": "ScalarSerializer", "__NONE__": True}
    raise LeafRefused(
        f"{key!r} is a {type(leaf).__module__}.{type(leaf).__qualname__}, which a checkpoint would have to pickle",
        todo="Save tensors, NumPy arrays, int, float, bool, str or None in dict, OrderedDict, list, tuple or set; "
        "convert other containers, and register namedtuple classes.",
    )


def _write_file(path: str, spec: str, leaves: list[tuple[str, object]]) -> None:
    with _reported("the file cannot be created", path):
        # The 1.8 objects index many attributes and carry checksums; every HDF5 since reads them.
        file = h5py.File(path, "x", libver=("v108", "latest"))
    with file:
        file.attrs["__version__"] = LAYOUT_VERSION
        file.attrs["__cstorch_version__"] = CSTORCH_VERSION
        file.attrs["__spec__"] = spec
        for key, leaf in leaves:
            array = None if isinstance(leaf, dict) else _to_stored(key, leaf)
            with _reported(f"{key!r} cannot be written", path):
                _write_leaf(file, key, leaf, array)
        file.attrs["__SUCCESS__"] = True
        with _reported("the file cannot be completed", path):
            file.flush()
            os.fsync(file.id.get_vfd_handle())  # else a power failure could leave the new name without its bytes


def _write_leaf(file: h5py.File, key: str, leaf: object, array: np.ndarray | None) -> None:
    descriptor = leaf
    if array is not None:
        if array.ndim > _MOST_AXES:
            raise CheckpointError(f"it has {array.ndim} axes", todo=f"A file holds at most {_MOST_AXES}: reshape it.")
        descriptor = _array_descriptor(leaf, array)
        dataset = file.create_dataset(key, data=array)
        for name, value in descriptor.items():
            dataset.attrs[name] = value
    metadata = {"__spec__": treespec.spec_of_leaf(key), "__objects__": [key], key + _METADATA: descriptor}
    file.attrs[key + _METADATA] = json.dumps(metadata, indent=4)


def _array_descriptor(leaf: object, array: np.ndarray) -> dict:
    if not isinstance(leaf, ArrayLeaf):
        return {"is_bfloat16": False, "__TYPE__": "NumpyArraySerializer", "__NUMPY__": True, "compressed": False}
    return {
        "__TORCH__": True,
        "shapes": [list(array.shape)],
        "dtypes": [f"torch.{leaf.dtype.name}"],
        "rtfx_dtypes": [_CODES[leaf.dtype][0]],
        "__TYPE__": "TorchTensorSerializer",
        "__NUMPY__": True,
        "compressed": False,
    }


def _to_stored(key: str, leaf: object) -> np.ndarray:
    """The values of a leaf as its dataset holds them: little-endian, in C order, half types in two bytes."""
    if not isinstance(leaf, ArrayLeaf):
        array = np.asarray(leaf)
        return np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    given = np.asarray(leaf.array() if callable(leaf.array) else leaf.array)
    if not np.can_cast(given.dtype, leaf.dtype.host, "safe"):
        raise CheckpointError(
            f"{key!r} is declared {leaf.dtype!r} but its values are {given.dtype}", todo="Convert the values first."
        )
    array = dtypes.round_to(given.astype(leaf.dtype.host, copy=False), leaf.dtype)
    if leaf.dtype is not dtypes.bfloat16:
        with np.errstate(over="ignore"):
            return np.asarray(array, _CODES[leaf.dtype][1], order="C")
    bits = array.view(np.uint32)
    # Cutting a NaN whose payload is all in the lower half would leave an infinity: make that one quiet.
    bits = np.where(np.isnan(array) & (bits & 0x7F0000 == 0), bits | 0x400000, bits)
    return np.asarray(bits >> np.uint32(16), np.uint16, order="C").view("<i2")


# Reading


@dataclass(frozen=True)
class _Pickle:
    """A pickled object that was found, and stays closed."""

    key: str


def refuse_pickle(key: str) -> object:
    """Raise CheckpointError: a pickle can run any code, so none is ever opened."""
    raise CheckpointError(
        f"{key!r} is a pickled Python object, and pickles are never loaded",
        todo="Save the checkpoint again without it; NumPy scalars become plain ones by .item().",
    )


def read(
    path: str | os.PathLike,
    make_leaf: Callable[[LazyArray], object],
    namedtuples: Mapping[str, type] = _NO_NAMEDTUPLES,
    pickled: Callable[[str], object] = refuse_pickle,
) -> object:
    """The tree in the file at `path`, with `make_leaf` of a LazyArray for every array.

    `pickled` is called with the key of each pickled object and gives what stands in its place; it refuses the file
    unless told otherwise. Raises CheckpointMissing, VersionMissing or CheckpointError.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise CheckpointMissing(f"{path} does not exist", todo="Look for a typing error in the path.")
    with _opened(path) as (file, source), _reported("the checkpoint cannot be read", path):
        reader = _Reader(file, source, attributes(file))
        values, build = _read_legacy(reader) if _is_legacy(reader) else _read_leaves(reader, namedtuples)
    # Outside the handlers above: what the caller's functions raise is theirs.
    made = {key: _finish(value, make_leaf, pickled) for key, value in values.items()}
    with _reported("the checkpoint cannot be rebuilt", path):
        return build(made)


def _finish(value: object, make_leaf: Callable, pickled: Callable) -> object:
    if isinstance(value, LazyArray):
        return make_leaf(value)
    return pickled(value.key) if isinstance(value, _Pickle) else value


@contextmanager
def _opened(path: str) -> Iterator[tuple[h5py.File, StoredFile]]:
    try:
        source = StoredFile(path)
        file = source.hdf5()
    except _FOREIGN_ERRORS as e:
        raise CheckpointError(
            f"Failed to load checkpoint file `{path}`.",
            todo=f"It is no checkpoint, or was cut short: use another copy. ({e})",
        ) from e
    with file:
        yield file, source


@dataclass(frozen=True)
class _Reader:
    """What reading one leaf needs."""

    file: h5py.File
    source: StoredFile
    attributes: dict[str, Any]


def _is_legacy(reader: _Reader) -> bool:
    path = reader.source.path
    if "__version__" not in reader.attributes:
        raise VersionMissing("'__version__' is not among its attributes", where=path, todo="It is HDF5, no checkpoint.")
    if float(reader.attributes["__version__"]) < LAYOUT_VERSION:
        return True
    if not reader.attributes.get("__SUCCESS__", False):
        raise CheckpointError(
            f"Cannot load partially written checkpoint at {path}", where=path, todo="Use an earlier checkpoint."
        )
    return False


def _read_leaves(reader: _Reader, namedtuples: Mapping[str, type]) -> tuple[dict[str, object], Callable]:
    """The value of each key that has its own, and the function that makes the tree of them."""
    root = treespec.parse(reader.attributes["__spec__"], namedtuples)
    keys = tuple(treespec.keys(root))
    values: dict[str, object] = {}
    links: dict[str, str] = {}
    for key in keys:
        with _reported(f"{key!r} cannot be read", reader.source.path):
            name, descriptor = _descriptor(reader, key)
            if descriptor["__TYPE__"] == "LinkedObject":
                links[key] = descriptor["key"]
            else:
                values[key] = _read_leaf(reader, key, name, descriptor)
    for key, original in links.items():
        if original not in values:
            raise CheckpointError(f"{key!r} is a link to {original!r}, which holds no value", where=reader.source.path)
    return values, lambda made: treespec.rebuild(root, (made[links.get(key, key)] for key in keys))


def _descriptor(reader: _Reader, key: str) -> tuple[str, dict]:
    """The name under which a leaf is stored, and what its metadata says about it.

    An array that was never computed is two objects, `<key>.0` with its fill value and `<key>.1` with its type; only
    the first one is listed, and it says all.
    """
    metadata = json.loads(reader.attributes[key + _METADATA])
    (name,) = metadata["__objects__"]
    descriptor = metadata[name + _METADATA]
    return name, descriptor if "__TYPE__" in descriptor else attributes(reader.file[name]) | descriptor


def _read_leaf(reader: _Reader, key: str, name: str, descriptor: dict) -> object:
    kind = descriptor["__TYPE__"]
    if kind == "NoneSerializer":
        return None
    if kind == "StringSerializer":
        return _checked(descriptor["string_value"], (str,))
    if kind == "ScalarSerializer":
        return _checked(descriptor["scalar_value"], _SCALARS)
    if kind == "ObjectSerializer":
        return _Pickle(key)
    if kind == "DeferredFullTensor":
        return _filled(reader, key, descriptor)
    if kind == "TorchTensorSerializer":
        (shape,), (dtype,) = descriptor["shapes"], descriptor["dtypes"]
        return _stored(reader, key, name, True, _tensor_dtype(dtype), _shape(shape))
    if kind == "NumpyArraySerializer":
        return _stored(reader, key, name, False, dtypes.bfloat16 if descriptor.get("is_bfloat16") else None)
    raise CheckpointError(f"it is of the unknown type {kind!r}", todo="Save the checkpoint again without it.")


def _checked(value: Any, kinds: tuple[type, ...]) -> Any:
    if type(value) not in kinds:
        raise CheckpointError(f"its value {value!r} is not of the type that its description says")
    return value


def _tensor_dtype(name: str) -> DType:
    found = {f"torch.{dtype.name}": dtype for dtype in _CODES}.get(name)
    if found is None:
        raise CheckpointError(f"the checkpoint format has no tensors of {name}")
    return found


def _shape(sizes: Any) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in sizes) or len(sizes) > _MOST_AXES:
        raise CheckpointError(f"{sizes!r} is not a shape")
    return tuple(sizes)


def _filled(reader: _Reader, key: str, descriptor: dict) -> LazyArray:
    dtype, shape = _tensor_dtype(descriptor["dtype"]), _shape(descriptor["shape"])
    if math.prod(shape) * dtype.host.itemsize > _MOST_FILL_BYTES:
        raise CheckpointError(f"its shape {shape} is larger than any memory")
    with np.errstate(all="ignore"):  # an infinity is a fill value too
        value = dtypes.round_to(dtype.host.type(_checked(descriptor["fill_value"], _SCALARS)), dtype)
    load = partial(np.full, shape, value, dtype.host)
    return LazyArray(key, shape, dtype, True, reader.source.path, load)


def _stored(
    reader: _Reader, key: str, name: str, is_tensor: bool, dtype: DType | None, shape: tuple[int, ...] | None = None
) -> LazyArray:
    """The array in a dataset; `dtype` and `shape` are what the file says elsewhere, and have to agree."""
    dataset = reader.file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None or not _is_storable(dataset.dtype):
        raise CheckpointError("there is no array of numbers under its name")
    kind = dataset.dtype.newbyteorder("<")
    if dtype is not None and kind != np.dtype(_CODES[dtype][1]):
        raise CheckpointError(f"it is declared {dtype!r} but stored as {kind}")
    if shape not in (None, dataset.shape):
        raise CheckpointError(f"it is declared {shape} but stored as {dataset.shape}")
    if dtype is None:
        dtype = _OF_KIND.get(kind)
        if is_tensor and dtype not in _CODES:
            raise CheckpointError(f"the checkpoint format has no tensors of {kind}")
    load = partial(_load, StoredArray(reader.source, dataset), dtype if is_tensor or dtype is dtypes.bfloat16 else None)
    return LazyArray(key, dataset.shape, dtype, is_tensor, reader.source.path, load)


def _load(stored: StoredArray, dtype: DType | None) -> np.ndarray:
    """The values in the host type of `dtype`, or as they are without one."""
    array = stored.read()
    if dtype is dtypes.bfloat16:
        bits = array.astype(np.int16, copy=False).view(np.uint16).astype(np.uint32)
        return np.asarray(bits << np.uint32(16)).view(np.float32)
    return array.astype(array.dtype.newbyteorder("=") if dtype is None else dtype.host, copy=False)


def _read_legacy(reader: _Reader) -> tuple[dict[str, object], Callable]:
    """The leaves of a file of the older layout: one dataset for each, under its percent-encoded key.

    Its tree is described by a pickle, so the nesting is guessed from the keys.
    """
    values = {}
    for name in reader.file:
        key = unquote(name)
        with _reported(f"{key!r} cannot be read", reader.source.path):
            values[key] = _read_legacy_leaf(reader, key, name)
    return values, treespec.nest


def _read_legacy_leaf(reader: _Reader, key: str, name: str) -> object:
    said = attributes(reader.file[name])
    kind = said.get("__H5_TYPE__")
    if kind in ("TorchTensorH5Type", "NumpyArrayH5Type"):
        dtype = dtypes.bfloat16 if said.get("is_bfloat16") else None
        return _stored(reader, key, name, kind == "TorchTensorH5Type", dtype)
    if kind == "ScalarH5Type":
        return _checked(reader.file[name][()].item(), _SCALARS)
    if kind == "StringH5Type":
        return _checked(said["string_value"], (str,))
    if kind == "NoneH5Type":
        return None
    if kind == "ObjectH5Type":
        return _Pickle(key)
    raise CheckpointError(
        f"it is of the unknown type {kind!r}", todo="Convert the file with the release that wrote it."
    )
