"""Reads checkpoint files: arrays lazily, everything else at once.

The layout is that of cerebras_pytorch 2.10 (see h5write); files older than layout 0.5 are read, but not written.
Nothing is ever unpickled.
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
BuildTree = Callable[[Values], object]
_h5py: Any = h5py  # its stubs do not know the lower interface in full
_TENSOR_DTYPES = {f"torch.{dtype.name}": dtype for dtype in DTYPE_CODES}
_MAX_FILL_BYTES = 1 << 44  # beyond any host; a filled array has no stored bytes that would bound its shape
_NO_NAMEDTUPLES: Mapping[str, type] = MappingProxyType({})
# Releases up to 1.8 have no `__H5_TYPE__`; a leaf with none of these marks is a tensor.
_TYPE_OF_MARK = {
    "is_none": "NoneH5Type",
    "is_string": "StringH5Type",
    "is_constructible": "ObjectH5Type",
    "is_scalar": "ScalarH5Type",
}
_LEAF_MARKS = {"__H5_TYPE__", "is_bfloat16", *_TYPE_OF_MARK}


@dataclass(frozen=True)
class _Pickle:
    """A pickled object that was found, and stays closed."""

    key: str


def read(
    path: str | os.PathLike[str],
    make_leaf: Callable[[LazyArray], object],
    namedtuples: Mapping[str, type] = _NO_NAMEDTUPLES,
    pickled: Callable[[str], object] = DeferredObject,
) -> object:
    """The tree in the file at `path`, with `make_leaf` of a LazyArray for every array.

    `pickled` is called with the key of each pickled object and gives what stands in its place. Raises
    CheckpointMissing, VersionMissing or CheckpointError.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise CheckpointMissing(f"{path} does not exist", hint="Look for a typing error in the path.")
    with _translate_errors(path):
        source = RawFile(path)
        # Before HDF5 sees them: some damaged tables keep it busy for ever.
        with report_file_errors("the checkpoint cannot be read", path):
            checks = checksums.read_trailer(source)
    if checks is None and source.is_hdf5:
        read_in_trial_process(lambda beat: _read_tables(source, None, namedtuples, beat), path)
    values, build = _read_tables(source, checks, namedtuples)
    # Outside the handlers above: what the caller's functions raise is theirs.
    leaves = {key: _convert_leaf(value, make_leaf, pickled) for key, value in values.items()}
    with report_file_errors("the checkpoint cannot be rebuilt", path):
        return build(leaves)


def _convert_leaf(value: object, make_leaf: Callable[[LazyArray], object], pickled: Callable[[str], object]) -> object:
    if isinstance(value, LazyArray):
        return make_leaf(value)
    return pickled(value.key) if isinstance(value, _Pickle) else value


def _read_tables(
    source: RawFile, checks: Trailer | None, namedtuples: Mapping[str, type], beat: Heartbeat = lambda: None
) -> tuple[Values, BuildTree]:
    """What stands in the file, and the function that makes the tree of it. `beat` is called before each leaf.

    All of the file's tables are read here, and the HDF5 handle is closed; what remains are byte ranges of a descriptor.
    The file may be replaced while a script trains.
    """
    with _translate_errors(source.path):
        file = source.open_hdf5()
    with file, report_file_errors("the checkpoint cannot be read", source.path):
        reader = _CheckpointReader(file, source, h5py.h5o.get_info(file.id).fileno, read_attributes(file), checks, beat)
        return _read_legacy(reader) if _is_legacy(reader) else _read_leaves(reader, namedtuples)


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Turn what others raise about a file that is no HDF5 into our error."""
    try:
        yield
    except CheckpointError:
        raise
    except FILE_READER_ERRORS as e:
        raise CheckpointError(
            f"Failed to load checkpoint file `{path}`.",
            hint=f"It is no checkpoint, or was cut short: use another copy. ({e})",
        ) from e


@dataclass(frozen=True)
class _CheckpointReader:
    """What reading one leaf needs."""

    file: h5py.File
    source: RawFile
    number: int  # by which HDF5 tells the file from others
    attributes: dict[str, Any]
    checks: Trailer | None = None
    beat: Heartbeat = lambda: None


def _is_legacy(reader: _CheckpointReader) -> bool:
    path = reader.source.path
    # The original's load fails with a KeyError here, even for its own files from before there were versions. Their
    # marks give them away, so they are read; any other HDF5 file gets the KeyError.
    if "__version__" not in reader.attributes:
        if any(_LEAF_MARKS & set(item.attrs) for item in reader.file.values()):
            return True
        raise VersionMissing("'__version__' is not among its attributes", where=path, hint="It is HDF5, no checkpoint.")
    # A later layout than 0.5 is read as 0.5, as by the original: what it adds is unknown, what it keeps is checked.
    if float(reader.attributes["__version__"]) < LAYOUT_VERSION:
        return True
    # Written last: its absence says that the writer died.
    if not reader.attributes.get("__SUCCESS__", False):
        raise CheckpointError(
            f"Cannot load partially written checkpoint at {path}", where=path, hint="Use an earlier checkpoint."
        )
    return False


def _read_leaves(reader: _CheckpointReader, namedtuples: Mapping[str, type]) -> tuple[Values, BuildTree]:
    """The value of each key that has its own, and the function that makes the tree of them."""
    # The description decides which keys there are; attributes that it does not name are left alone.
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
    # A link is to a leaf of its own and never to another link, since the writer links each occurrence to the first.
    # Held to it, a file cannot describe a circle.
    for key, original in links.items():
        if original not in values:
            raise CheckpointError(f"{key!r} is a link to {original!r}, which holds no value", where=reader.source.path)
    # Tied entries become the very same object, so that tied weights of a model stay tied after loading.
    return values, lambda leaves: treespec.rebuild_tree(root, (leaves[links.get(key, key)] for key in keys))


def _read_descriptor(reader: _CheckpointReader, key: str) -> tuple[str, dict[str, Any]]:
    """The name under which a leaf is stored, and what its metadata says about it.

    An array that was never computed is two objects, `<key>.0` with its fill value and `<key>.1` with its type; only
    the first one is listed, and it says all.
    """
    metadata = json.loads(reader.attributes[key + METADATA_SUFFIX])
    # One name, that of the leaf or its `.0`; more than one is nothing that the original was seen to write.
    (name,) = metadata["__objects__"]
    descriptor = metadata[name + METADATA_SUFFIX]
    # The original reads files whose JSON lacks the type, since the dataset repeats it.
    return name, descriptor if "__TYPE__" in descriptor else read_attributes(reader.file[name]) | descriptor


def _read_leaf(reader: _CheckpointReader, key: str, name: str, descriptor: dict[str, Any]) -> object:
    kind = descriptor["__TYPE__"]
    if kind == "NoneSerializer":
        return None
    if kind == "StringSerializer":
        return _check_type(descriptor["string_value"], (str,))
    if kind == "ScalarSerializer":
        return _check_type(descriptor["scalar_value"], SCALAR_TYPES)
    # A dill pickle in an attribute of an empty dataset. It is not even fetched: a pickle can run any code.
    if kind == "ObjectSerializer":
        return _Pickle(key)
    if kind == "DeferredFullTensor":
        return _make_filled_array(reader, key, descriptor)
    if kind == "TorchTensorSerializer":
        # What is declared here and the dataset have to agree, because tensors are typed before their bytes are read.
        (shape,), (dtype,) = descriptor["shapes"], descriptor["dtypes"]
        return _make_stored_array(reader, key, name, True, _parse_dtype(dtype), _shape(shape))
    if kind == "NumpyArraySerializer":
        return _make_stored_array(reader, key, name, False, dtypes.bfloat16 if descriptor.get("is_bfloat16") else None)
    raise CheckpointError(f"it is of the unknown type {kind!r}", hint="Save the checkpoint again without it.")


def _check_type(value: Any, kinds: tuple[type, ...]) -> Any:
    # By exact type, since True is an int to isinstance, and a file that says so was tampered with or damaged.
    if type(value) not in kinds:
        raise CheckpointError(f"its value {value!r} is not of the type that its description says")
    return value


def _parse_dtype(name: str) -> DType:
    dtype = _TENSOR_DTYPES.get(name)
    if dtype is None:
        raise CheckpointError(f"the checkpoint format has no tensors of {name}")
    return dtype


def _shape(sizes: Any) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in sizes) or len(sizes) > MAX_AXES:
        raise CheckpointError(f"{sizes!r} is not a shape")
    return tuple(sizes)


def _make_filled_array(reader: _CheckpointReader, key: str, descriptor: dict[str, Any]) -> LazyArray:
    dtype, shape = _parse_dtype(descriptor["dtype"]), _shape(descriptor["shape"])
    # Any other array is bounded by the bytes that the file holds for it. Here a few digits of JSON could ask for
    # all of the memory, some time later and in an unrelated line of the script.
    if math.prod(shape) * dtype.host.itemsize > _MAX_FILL_BYTES:
        raise CheckpointError(f"its shape {shape} is larger than any memory")
    with np.errstate(all="ignore"):  # an infinity is a fill value too
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
    """The array in a dataset; `dtype` and `shape` are what the file says elsewhere, and have to agree."""
    # By the lower interface of h5py: for the upper one alone loading took half as long again.
    dataset = _h5py.h5o.open(reader.file.id, name.encode())
    # A key with a slash would lead to a group, and the original's pickles are datasets without a shape.
    is_array = isinstance(dataset, _h5py.h5d.DatasetID)
    if not is_array or dataset.get_space().get_simple_extent_type() == _h5py.h5s.NULL or not is_storable(dataset.dtype):
        raise CheckpointError("there is no array of numbers under its name")
    stored_shape = dataset.shape
    # Compared in one byte order: files of big-endian hosts are read, and turned round when they are loaded.
    kind = dataset.dtype.newbyteorder("<")
    if dtype is not None and kind != np.dtype(DTYPE_CODES[dtype][1]):
        raise CheckpointError(f"it is declared {dtype!r} but stored as {kind}")
    if shape not in (None, stored_shape):
        raise CheckpointError(f"it is declared {shape} but stored as {stored_shape}")
    # Legacy files and NumPy arrays say nothing of their type but what the dataset has. There a tensor of an
    # unlisted type is an error, an array is not.
    if dtype is None:
        dtype = DTYPES_BY_FILE_DTYPE.get(kind)
        if is_tensor and dtype not in DTYPE_CODES:
            raise CheckpointError(f"the checkpoint format has no tensors of {kind}")
    # From here on h5py is not needed for this array, and its place in the file is checked.
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
    array = stored.read()
    # Only the order of the bytes may differ, but for bfloat16, which stands as int16 in the dataset.
    return array.astype(array.dtype.newbyteorder("<"), copy=False).view(kind)


def _read_legacy(reader: _CheckpointReader) -> tuple[Values, BuildTree]:
    """The leaves of a file of the older layout: one dataset for each, under its percent-encoded key.

    Its tree is described by a pickle, so the nesting is guessed from the keys.
    """
    values = {}
    for name in reader.file:
        key = unquote(name)
        reader.beat()
        with report_file_errors(f"{key!r} cannot be read", reader.source.path):
            # Legacy names are percent-encoded since HDF5 takes a slash for a path; the current layout does not
            # encode them.
            values[key] = _read_legacy_leaf(reader, key, name)
    return values, treespec.nest_by_keys


def _read_legacy_leaf(reader: _CheckpointReader, key: str, name: str) -> object:
    marks = read_attributes(reader.file[name])
    kind = marks.get("__H5_TYPE__") or _find_marked_type(marks)
    if kind in ("TorchTensorH5Type", "NumpyArrayH5Type"):
        dtype = dtypes.bfloat16 if marks.get("is_bfloat16") else None
        return _make_stored_array(reader, key, name, kind == "TorchTensorH5Type", dtype)
    # A 0-d dataset where later layouts have JSON.
    if kind == "ScalarH5Type":
        return _check_type(reader.file[name][()].item(), SCALAR_TYPES)
    if kind == "StringH5Type":
        # An attribute beside `__H5_TYPE__`, a dataset of text in releases up to 1.8.
        return _check_type(marks["string_value"] if "string_value" in marks else _read_text(reader.file[name]), (str,))
    if kind == "NoneH5Type":
        return None
    if kind == "ObjectH5Type":
        return _Pickle(key)
    raise CheckpointError(
        f"it is of the unknown type {kind!r}", hint="Convert the file with the release that wrote it."
    )


def _find_marked_type(marks: Mapping[str, Any]) -> str:
    """The type of a leaf of the releases up to 1.8, which have a mark for everything that is no tensor."""
    return next((kind for mark, kind in _TYPE_OF_MARK.items() if marks.get(mark)), "TorchTensorH5Type")


def _read_text(dataset: h5py.Dataset) -> object:
    # Anything else under the mark of a text is damage, and the check of the value says so.
    is_text = isinstance(dataset, h5py.Dataset) and h5py.check_string_dtype(dataset.dtype) and dataset.shape == ()
    return dataset.asstr()[()] if is_text else None
