"""Read checkpoint files in HDF5: arrays lazily, all other values immediately.

The layout is that of cerebras_pytorch 2.10 (see `h5write`). Older layouts than 0.5 can be read but not written. Nothing
is ever unpickled.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import h5py
import numpy as np

from cstorch_compat.files import checksums, treespec
from cstorch_compat.files.atomic_write import CheckpointMissing
from cstorch_compat.files.checksums import Trailer
from cstorch_compat.files.h5layout import (
    DTYPE_CODES,
    LAYOUT_VERSION,
    MAX_AXES,
    METADATA_SUFFIX,
    SCALAR_TYPES,
    VersionMissing,
    is_storable,
)
from cstorch_compat.files.lz4 import StoredArray, read_attributes
from cstorch_compat.files.pickled import DeferredObject
from cstorch_compat.files.rawfile import RawFile
from cstorch_compat.files.trial_process import Heartbeat, read_in_trial_process
from lazytensor.core import dtype as dtypes
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import DTYPES_BY_FILE_DTYPE, FILE_DTYPES, encode_elements
from lazytensor.core.file_array import FILE_READER_ERRORS, LazyArray, report_file_errors
from lazytensor.errors import CheckpointError

Values = dict[str, object]
"""The values of leaves by their dotted key."""
BuildTree = Callable[[Values], object]
"""A function that builds the tree from the values of its leaves."""
_h5py: Any = h5py  # its stubs do not describe the low-level interface completely
_TENSOR_DTYPES = {f"torch.{dtype.name}": dtype for dtype in DTYPE_CODES}
_MAX_FILL_BYTES = 1 << 44  # more than any host has; the shape of a filled array is not bounded by stored bytes
_NO_NAMEDTUPLES: Mapping[str, type] = MappingProxyType({})
# Releases up to 1.8 have no `__H5_TYPE__`. A leaf without any of these marks is a tensor.
_TYPE_OF_MARK = {
    "is_none": "NoneH5Type",
    "is_string": "StringH5Type",
    "is_constructible": "ObjectH5Type",
    "is_scalar": "ScalarH5Type",
}
_LEAF_MARKS = {"__H5_TYPE__", "is_bfloat16", *_TYPE_OF_MARK}


@dataclass(frozen=True)
class _Pickle:
    """A marker for a pickled object, which is not read."""

    key: str


def read(
    path: str | os.PathLike[str],
    make_leaf: Callable[[LazyArray], object],
    namedtuples: Mapping[str, type] = _NO_NAMEDTUPLES,
    pickled: Callable[[str], object] = DeferredObject,
) -> object:
    """Return the tree in the file at `path`, with `make_leaf(array)` in place of each LazyArray `array`.

    `namedtuples` are the namedtuple classes that may occur, by recorded name. `pickled` is called with the key of each
    pickled object and returns its replacement. A file without checksums is read in a child process first, because
    damaged tables can make HDF5 hang or crash.

    Raises CheckpointMissing if there is no file, VersionMissing if it is HDF5 but no checkpoint, and CheckpointError if
    it is damaged or no HDF5 file.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise CheckpointMissing(f"{path} does not exist", hint="Check the path.")
    with _translate_errors(path):
        source = RawFile(path)
        # Verify the tables before HDF5 reads them, because some damaged tables make it loop forever.
        with report_file_errors("the checkpoint cannot be read", path):
            checks = checksums.read_trailer(source)
    if checks is None and source.is_hdf5:
        read_in_trial_process(lambda beat: _read_tables(source, None, namedtuples, beat), path)
    values, build = _read_tables(source, checks, namedtuples)
    # Outside of the handlers above, so that exceptions of the caller's functions are not translated.
    leaves = {key: _convert_leaf(value, make_leaf, pickled) for key, value in values.items()}
    with report_file_errors("the checkpoint cannot be rebuilt", path):
        return build(leaves)


def _convert_leaf(value: object, make_leaf: Callable[[LazyArray], object], pickled: Callable[[str], object]) -> object:
    """Return `make_leaf(value)` for an array, `pickled(key)` for a pickled object, and other values unchanged."""
    if isinstance(value, LazyArray):
        return make_leaf(value)
    return pickled(value.key) if isinstance(value, _Pickle) else value


def _read_tables(
    source: RawFile, checks: Trailer | None, namedtuples: Mapping[str, type], beat: Heartbeat = lambda: None
) -> tuple[Values, BuildTree]:
    """Return the values in the file `source`, and the function that builds the tree from them.

    All tables of the file are read and the HDF5 handle is closed. LazyArrays then read byte ranges of an open
    descriptor, so the file may be replaced meanwhile; they are verified by the checksums `checks`, unless that is None.
    `namedtuples` are the namedtuple classes that may occur, by recorded name. `beat` is called before each leaf.

    Raises VersionMissing if the file is no checkpoint, and CheckpointError if it is damaged.
    """
    with _translate_errors(source.path):
        file = source.open_hdf5()
    with file, report_file_errors("the checkpoint cannot be read", source.path):
        reader = _CheckpointReader(file, source, h5py.h5o.get_info(file.id).fileno, read_attributes(file), checks, beat)
        return _read_legacy(reader) if _is_legacy(reader) else _read_leaves(reader, namedtuples)


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Raise a CheckpointError for the file `path` in place of the errors that file readers raise for a damaged file.

    These are the FILE_READER_ERRORS, such as OSError, ValueError and TypeError. A CheckpointError of the block
    propagates unchanged, and so do other exceptions.
    """
    try:
        yield
    except CheckpointError:
        raise
    except FILE_READER_ERRORS as e:
        raise CheckpointError(
            f"Failed to load checkpoint file `{path}`.",
            hint=f"Use another copy: this file is no checkpoint, or is truncated ({e}).",
        ) from e


@dataclass(frozen=True)
class _CheckpointReader:
    """The state for reading leaves: the open file, its root attributes, and its checksums.

    `number` is HDF5's number of the open file. `beat` is called before each leaf.
    """

    file: h5py.File
    source: RawFile
    number: int  # HDF5's number of the open file
    attributes: dict[str, Any]
    checks: Trailer | None = None
    beat: Heartbeat = lambda: None


def _is_legacy(reader: _CheckpointReader) -> bool:
    """Return whether the file has a layout older than 0.5.

    This is an older version, or no version but leaves of a checkpoint. Raises VersionMissing if it has neither a
    version nor leaves, so it is no checkpoint. Raises CheckpointError if a file of layout 0.5 or later was not
    written completely.
    """
    path = reader.source.path
    # The original's load fails with a KeyError here, even for its own files without a version. Files with the marks of
    # leaves are read; any other HDF5 file gets the KeyError.
    if "__version__" not in reader.attributes:
        if any(_LEAF_MARKS & set(item.attrs) for item in reader.file.values()):
            return True
        raise VersionMissing(
            "the attribute '__version__' is missing", where=path, hint="Pass a checkpoint; this is another HDF5 file."
        )
    # Read a later layout as 0.5, as the original does.
    if float(reader.attributes["__version__"]) < LAYOUT_VERSION:
        return True
    # The attribute is written last. Without it the file is incomplete.
    if not reader.attributes.get("__SUCCESS__", False):
        raise CheckpointError(
            f"Cannot load partially written checkpoint at {path}", where=path, hint="Use an earlier checkpoint."
        )
    return False


def _read_leaves(reader: _CheckpointReader, namedtuples: Mapping[str, type]) -> tuple[Values, BuildTree]:
    """Return the value of each leaf by key, and the function that builds the tree from converted values.

    A link has no value: it becomes the same object as its target. Raises CheckpointError for a leaf that cannot be read
    and for a link without a target.
    """
    # The description of the tree lists the keys. Other attributes are ignored.
    root = treespec.parse_spec(reader.attributes["__spec__"], namedtuples)
    keys = tuple(treespec.leaf_keys(root))
    values: Values = {}
    links: dict[str, str] = {}
    for key in keys:
        reader.beat()
        with report_file_errors(f"{key!r} cannot be read", reader.source.path):
            name, descriptor = _read_descriptor(reader, key)
            if descriptor["__TYPE__"] == "LinkedObject":
                links[key] = descriptor["key"]
            else:
                values[key] = _read_leaf(reader, key, name, descriptor)
    # A link must refer to a stored leaf, as the writer ensures, so that links cannot form a cycle.
    for key, original in links.items():
        if original not in values:
            raise CheckpointError(
                f"{key!r} is a link to {original!r}, which has no value",
                where=reader.source.path,
                hint="Restore the file from a copy, or save the checkpoint again.",
            )
    # Linked entries become the same object, so that tied weights stay tied.
    return values, lambda leaves: treespec.rebuild_tree(root, (leaves[links.get(key, key)] for key in keys))


def _read_descriptor(reader: _CheckpointReader, key: str) -> tuple[str, dict[str, Any]]:
    """Return the name under which a leaf is stored, and its metadata.

    A filled array consists of two objects: `<key>.0` with the fill value and `<key>.1` with the type. Only the first is
    listed, and it is sufficient.
    """
    metadata = json.loads(reader.attributes[key + METADATA_SUFFIX])
    # Exactly one name: the leaf's, or its `.0`. The original was not seen to write more.
    (name,) = metadata["__objects__"]
    descriptor = metadata[name + METADATA_SUFFIX]
    # The type may be only in the dataset's attributes. The original reads such files too.
    return name, descriptor if "__TYPE__" in descriptor else read_attributes(reader.file[name]) | descriptor


def _read_leaf(reader: _CheckpointReader, key: str, name: str, descriptor: dict[str, Any]) -> object:
    """Return the value of a leaf by the type in its metadata `descriptor`.

    The value is a LazyArray, number, string, None, or _Pickle. `name` is the dataset of an array. Raises
    CheckpointError for an unknown type.
    """
    kind = descriptor["__TYPE__"]
    if kind == "NoneSerializer":
        return None
    if kind == "StringSerializer":
        return _check_type(descriptor["string_value"], (str,))
    if kind == "ScalarSerializer":
        return _check_type(descriptor["scalar_value"], SCALAR_TYPES)
    # A dill pickle in an attribute of an empty dataset. Do not read it: unpickling can run any code.
    if kind == "ObjectSerializer":
        return _Pickle(key)
    if kind == "DeferredFullTensor":
        return _make_filled_array(reader, key, descriptor)
    if kind == "TorchTensorSerializer":
        # The metadata and the dataset must agree, because tensors get their dtype before their data is read.
        (shape,), (dtype,) = descriptor["shapes"], descriptor["dtypes"]
        return _make_stored_array(reader, key, name, True, _parse_dtype(dtype), _shape(shape))
    if kind == "NumpyArraySerializer":
        return _make_stored_array(reader, key, name, False, dtypes.bfloat16 if descriptor.get("is_bfloat16") else None)
    raise CheckpointError(f"its type {kind!r} is unknown", hint="Save the checkpoint again without it.")


def _check_type(value: Any, kinds: tuple[type, ...]) -> Any:
    """Return `value` if its exact type is in `kinds`. Otherwise raise CheckpointError."""
    # Compare exact types, because True is an int for isinstance. Another type means that the file is damaged.
    if type(value) not in kinds:
        raise CheckpointError(f"its value {value!r} does not have the declared type")
    return value


def _parse_dtype(name: str) -> DType:
    """Return the dtype for a name such as "torch.float32". Raises CheckpointError if the format does not have it."""
    dtype = _TENSOR_DTYPES.get(name)
    if dtype is None:
        raise CheckpointError(f"the checkpoint format does not support tensors of {name}")
    return dtype


def _shape(sizes: Any) -> tuple[int, ...]:
    """Return the list `sizes` as a tuple of integers.

    Raises CheckpointError unless it is a list of at most MAX_AXES integers that are not negative. A bool is not an
    integer here.
    """
    # Other JSON values, such as null or "", come from damaged files.
    if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes) or len(sizes) > MAX_AXES:
        raise CheckpointError(f"{sizes!r} is not a shape")
    return tuple(sizes)


def _make_filled_array(reader: _CheckpointReader, key: str, descriptor: dict[str, Any]) -> LazyArray:
    """Return a LazyArray of a FullLeaf, whose metadata has shape, dtype and the value of all elements.

    It is allocated when it is read. Raises CheckpointError for an invalid shape, dtype or value, and if it needs more
    than _MAX_FILL_BYTES.
    """
    dtype, shape = _parse_dtype(descriptor["dtype"]), _shape(descriptor["shape"])
    # Other arrays are bounded by their bytes in the file. Here a few digits could request all memory, at a later line
    # of the script.
    if math.prod(shape) * dtype.host.itemsize > _MAX_FILL_BYTES:
        raise CheckpointError(f"its shape {shape} needs more than {_MAX_FILL_BYTES:,} bytes")
    with np.errstate(all="ignore"):  # the fill value may be infinite
        value = dtypes.round_to(np.asarray(_check_type(descriptor["fill_value"], SCALAR_TYPES), dtype.host), dtype)
    load = partial(np.full, shape, encode_elements(value, dtype), FILE_DTYPES[dtype])
    return LazyArray(
        key=key,
        shape=shape,
        dtype=dtype,
        kind=FILE_DTYPES[dtype],
        is_tensor=True,
        where=reader.source.path,
        load=load,
        stored_bytes=0,
        packing="fill",
    )


def _make_stored_array(
    reader: _CheckpointReader,
    key: str,
    name: str,
    is_tensor: bool,
    dtype: DType | None,
    shape: tuple[int, ...] | None = None,
) -> LazyArray:
    """Return the LazyArray of the dataset `name`, for the leaf `key`.

    `dtype` and `shape` are those of the metadata; None stands for that of the dataset. Raises CheckpointError if they
    do not match the dataset, if there is no dataset of numbers, and for a tensor whose dtype the format does not have.
    """
    # Use the low-level interface: the high-level one made loading take half as long again.
    dataset = _h5py.h5o.open(reader.file.id, name.encode())
    # A key with a slash may refer to a group, and the original's pickles are datasets without a shape.
    is_array = isinstance(dataset, _h5py.h5d.DatasetID)
    if not is_array or dataset.get_space().get_simple_extent_type() == _h5py.h5s.NULL or not is_storable(dataset.dtype):
        raise CheckpointError("its dataset is not an array of numbers")
    stored_shape = dataset.shape
    # Compare in one byte order. Files of big-endian hosts are converted when they are loaded.
    kind = dataset.dtype.newbyteorder("<")
    if dtype is not None and kind != np.dtype(DTYPE_CODES[dtype][1]):
        raise CheckpointError(f"it is declared {dtype!r} but stored as {kind}")
    if shape not in (None, stored_shape):
        raise CheckpointError(f"it is declared {shape} but stored as {stored_shape}")
    # Legacy files and NumPy arrays declare no dtype besides the dataset's. An unlisted dtype is an error for a tensor
    # only.
    if dtype is None:
        dtype = DTYPES_BY_FILE_DTYPE.get(kind)
        if is_tensor and dtype not in DTYPE_CODES:
            raise CheckpointError(f"the checkpoint format does not support tensors of {kind}")
    # StoredArray checks the location of the data. h5py is not needed for this array afterwards.
    stored = StoredArray(reader.source, reader.number, dataset, reader.checks)
    kind = kind if dtype is None else FILE_DTYPES[dtype]
    load = partial(_load, stored, kind)
    size = sum(extent.size for extent in stored.extents)
    packing = "lz4" if any(extent.is_packed for extent in stored.extents) else ""
    return LazyArray(
        key=key,
        shape=stored_shape,
        dtype=dtype,
        kind=kind,
        is_tensor=is_tensor,
        where=reader.source.path,
        load=load,
        stored_bytes=size,
        packing=packing,
        is_checked=stored.is_checked,
    )


def _load(stored: StoredArray, kind: np.dtype) -> np.ndarray:
    """Read an array as little-endian and reinterpret its bits as dtype `kind`, as for bfloat16."""
    array = stored.read()
    # Only the byte order may differ, and bfloat16 is stored as int16.
    return array.astype(array.dtype.newbyteorder("<"), copy=False).view(kind)


def _read_legacy(reader: _CheckpointReader) -> tuple[Values, BuildTree]:
    """Return the leaves of a file with an older layout: one dataset per leaf, under its percent-encoded key.

    The tree in such a file is a pickle, so the nesting is derived from the keys.
    """
    values = {}
    for name in reader.file:
        key = unquote(name)
        reader.beat()
        with report_file_errors(f"{key!r} cannot be read", reader.source.path):
            # Legacy names are percent-encoded, because HDF5 treats a slash as a path. The current layout does not
            # encode them.
            values[key] = _read_legacy_leaf(reader, key, name)
    return values, treespec.nest_by_keys


def _read_legacy_leaf(reader: _CheckpointReader, key: str, name: str) -> object:
    """Return the value of a leaf in an older layout: a LazyArray, number, string, None, or _Pickle.

    Raises CheckpointError for an unknown type.
    """
    marks = read_attributes(reader.file[name])
    kind = marks.get("__H5_TYPE__") or _find_marked_type(marks)
    if kind in ("TorchTensorH5Type", "NumpyArrayH5Type"):
        dtype = dtypes.bfloat16 if marks.get("is_bfloat16") else None
        return _make_stored_array(reader, key, name, kind == "TorchTensorH5Type", dtype)
    # Later layouts have JSON in place of this 0-d dataset.
    if kind == "ScalarH5Type":
        return _check_type(reader.file[name][()].item(), SCALAR_TYPES)
    if kind == "StringH5Type":
        # An attribute if the file has `__H5_TYPE__`, a text dataset in releases up to 1.8.
        return _check_type(marks["string_value"] if "string_value" in marks else _read_text(reader.file[name]), (str,))
    if kind == "NoneH5Type":
        return None
    if kind == "ObjectH5Type":
        return _Pickle(key)
    raise CheckpointError(f"its type {kind!r} is unknown", hint="Convert the file with the release that wrote it.")


def _find_marked_type(marks: Mapping[str, Any]) -> str:
    """Return the type of a leaf in files of releases up to 1.8, which mark all leaves that are no tensors."""
    return next((kind for mark, kind in _TYPE_OF_MARK.items() if marks.get(mark)), "TorchTensorH5Type")


def _read_text(dataset: h5py.Dataset) -> object:
    """Return the text in a scalar dataset of strings, or None for any other dataset."""
    # Other datasets are damaged; `_check_type` raises the error.
    is_text = isinstance(dataset, h5py.Dataset) and h5py.check_string_dtype(dataset.dtype) and dataset.shape == ()
    return dataset.asstr()[()] if is_text else None
