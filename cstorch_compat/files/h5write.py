"""Write checkpoint files: a tree of arrays and scalars as one flat HDF5 file.

Every leaf has a dotted key. An array is a dataset of that name. The JSON attribute `<key>.__metadata__` describes the
leaf, and `__spec__` the containers (see `treespec`). Nothing is ever pickled.
"""

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np

from cstorch_compat.files import treespec
from cstorch_compat.files.atomic_write import DISK_FULL_HINT, new_file
from cstorch_compat.files.h5_file_object import BackgroundWriter, H5Sink, close_on_failure
from cstorch_compat.files.h5attributes import put_text
from cstorch_compat.files.h5layout import (
    CSTORCH_VERSION,
    DTYPE_CODES,
    LAYOUT_VERSION,
    MAX_AXES,
    METADATA_SUFFIX,
    SCALAR_TYPES,
    VERSION_KEY,
    DtypeRefused,
    LeafRefused,
    is_storable,
)
from cstorch_compat.files.h5templates import DatasetTemplates, open_templates
from lazytensor.core import dtype as dtypes
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import encode_elements
from lazytensor.core.file_array import LazyArray, report_file_errors
from lazytensor.errors import CheckpointError
from lazytensor.system.signals import defer_signals

_KEY_PLACEHOLDER = "@key@"
"""Stands for the key in a cached metadata text."""
_NO_NAMEDTUPLES: Mapping[str, type] = MappingProxyType({})


@dataclass(frozen=True)
class ArrayLeaf:
    """A tensor to write.

    `array` has its values in the host type of `dtype`, or is a function that returns them when needed.
    """

    array: np.ndarray | Callable[[], np.ndarray]
    dtype: DType


@dataclass(frozen=True)
class FullLeaf:
    """A tensor with the same value everywhere. The file contains only the value."""

    shape: tuple[int, ...]
    dtype: DType
    value: float


LeafDescription = ArrayLeaf | FullLeaf | LazyArray | None
"""How an object is written. None means that it is no tensor."""


def write(
    path: str | os.PathLike[str],
    tree: object,
    describe: Callable[[object], LeafDescription],
    namedtuples: Mapping[str, type] = _NO_NAMEDTUPLES,
    *,
    replace: bool = False,
) -> None:
    """Write `tree` to a new file that appears under `path` only when it is complete.

    `describe` returns the ArrayLeaf or FullLeaf of a tensor, a LazyArray of another file, and None for other objects.
    Arrays are requested one at a time. An object that occurs twice is stored once and linked. `namedtuples` are the
    namedtuple classes that may occur, by the name to record. An existing file is replaced only if `replace`.

    No file remains after an error. Raises

    - CheckpointExists if `path` exists and `replace` is False, and CheckpointMissing if its folder does not exist,
    - DtypeRefused for a tensor whose dtype the format does not have,
    - LeafRefused for an object that would have to be pickled, and for an array that is the whole tree,
    - CheckpointError for a key that the file cannot contain, an array of more than MAX_AXES dimensions, values that
      cannot be cast safely to the declared dtype, and if writing fails.
    """
    path = os.fspath(path)
    # Check the keys before an existing file is touched.
    flat = treespec.flatten(tree, namedtuples)
    # Refuse invalid leaves before the first byte is written. Check the target before the tensors, which may have to be
    # computed.
    with new_file(path, replace) as temporary:
        leaves = [(leaf.key, _plan_leaf(leaf, describe)) for leaf in flat.leaves]
        _write_file(temporary, flat.spec, leaves)


def _plan_leaf(occurrence: treespec.TreeLeaf, describe: Callable[[object], LeafDescription]) -> object:
    """Return what to write for a leaf.

    This is an ArrayLeaf, FullLeaf or LazyArray for a tensor, a NumPy array, or a dict of metadata for a scalar or a
    link to an earlier occurrence. Raises LeafRefused or DtypeRefused for values that cannot be stored.
    """
    key, leaf = occurrence.key, occurrence.value
    # Leaves are linked by identity, as in the original. This includes interned scalars: each further `1`, `True` or
    # `None` is a link to the first. Views of one storage are different objects and are stored twice.
    if occurrence.original != key:
        return {"key": occurrence.original, "__LINKED__": True, "__TYPE__": "LinkedObject", "__NONE__": True}
    array = describe(leaf)
    if array is None and not isinstance(leaf, np.ndarray):
        return _scalar_descriptor(key, leaf)
    # The name of a dataset is its key, and a tensor at the root has none. The original fails with a TypeError there. A
    # scalar at the root can be saved, because its metadata is an attribute.
    if not key:
        raise LeafRefused("an array without a key cannot be saved", hint="Put it into a dict: {'x': tensor}.")
    if array is None:
        return _require_plain_array(key, leaf)
    # A NumPy array of another file stays one.
    if isinstance(array, LazyArray) and not array.is_tensor:
        return array
    if array.dtype not in DTYPE_CODES:
        kind = "an unknown type" if array.dtype is None else f"torch.{array.dtype.name}"
        raise DtypeRefused(
            f"{key!r} is a tensor of {kind}, for which the checkpoint format has no code",
            hint=f"Convert it to one of {', '.join(d.name for d in DTYPE_CODES)} before saving.",
        )
    return array


def _require_plain_array(key: str, array: Any) -> np.ndarray:
    """Return `array` if it is a NumPy array or memmap of plain numbers.

    Raises LeafRefused with the key for other subclasses and other dtypes.
    """
    # Compare exact types: masked arrays and records have more than their numbers, which would be lost.
    if type(array) in (np.ndarray, np.memmap) and is_storable(array.dtype):
        plain: np.ndarray = array
        return plain
    raise LeafRefused(
        f"{key!r} is a NumPy array of class {type(array).__name__} and dtype {array.dtype}, which is not supported",
        hint="Save plain arrays of bool, integer, float or complex numbers.",
    )


def _scalar_descriptor(key: str, leaf: object) -> dict[str, Any]:
    """Return the metadata of None, a str, bool, int or float, or a NumPy scalar of these.

    Raises LeafRefused for other objects, also for instances of subclasses.
    """
    value = leaf.item() if isinstance(leaf, np.generic) else leaf  # otherwise a NumPy scalar would have to be pickled
    if value is None:
        return {"__TYPE__": "NoneSerializer", "__NONE__": True}
    if type(value) is str:
        return {"string_value": value, "__TYPE__": "StringSerializer", "__NONE__": True}
    if type(value) in SCALAR_TYPES:
        return {"scalar_value": value, "__TYPE__": "ScalarSerializer", "__NONE__": True}
    raise LeafRefused(
        f"{key!r} is a {type(leaf).__module__}.{type(leaf).__qualname__}, which a checkpoint would have to pickle",
        hint="Save tensors, NumPy arrays, int, float, bool, str or None in dict, OrderedDict, list, tuple or set; "
        "convert other containers, and register namedtuple classes.",
    )


def _write_file(path: str, spec: str, leaves: list[tuple[str, object]]) -> None:
    """Write the leaves and the tree description `spec` to the new HDF5 file `path`, then append the checksums.

    Raises CheckpointError with the key of a leaf that cannot be written.
    """
    # Objects of HDF5 1.8 have an index of attributes and checksums, and every later HDF5 reads them. In h5py's default,
    # the oldest version, finding a name is a linear search, and the root has an attribute per leaf.
    with H5Sink(path) as sink, close_on_failure(sink), _open_h5(sink) as file:
        # Write the version first and __SUCCESS__ last: a file that was cut short then differs from one of another
        # layout. Both readers refuse a file without __SUCCESS__.
        with defer_signals():
            file.attrs["__version__"] = LAYOUT_VERSION
            file.attrs[VERSION_KEY] = CSTORCH_VERSION
            file.attrs["__spec__"] = spec
        with open_templates(path) as kinds, BackgroundWriter(sink) as beside:
            for key, leaf in leaves:
                # Write one leaf at a time, because a checkpoint may exceed the memory. Check for errors after each one,
                # so that a full disk is reported immediately and with the leaf's key.
                _write_leaf(file, key, leaf, path, kinds, beside)
                with report_file_errors(f"{key!r} cannot be written", path, hint=DISK_FULL_HINT):
                    sink.check()
        # HDF5 writes most tables when it closes the file, so check for errors afterwards.
        with defer_signals():
            file.attrs["__SUCCESS__"] = True
            file.close()
        sink.check()
        sink.append_checksums(beside.checksums)
        sink.check()


def _open_h5(sink: H5Sink) -> h5py.File:
    """Return an h5py file that writes to `sink`."""
    # Defer signals: HDF5 calls the sink, and would lose or replace an exception raised there.
    with defer_signals():
        return h5py.File(sink, "w", libver=("v108", "latest"))


def _write_leaf(
    file: h5py.File, key: str, leaf: object, path: str, kinds: DatasetTemplates, beside: BackgroundWriter
) -> None:
    """Write a leaf to `file`. The background writer `beside` writes the bytes of a large array.

    `leaf` is a result of `_plan_leaf`. Raises CheckpointError with the key if it cannot be written, and for an array of
    more than MAX_AXES dimensions.
    """
    # A FullLeaf has no dataset; its attribute is complete. The original does the same for lazily initialized state of a
    # CSX run. Optimizer state that is still zero takes a few hundred bytes.
    if isinstance(leaf, FullLeaf):
        with report_file_errors(f"{key!r} cannot be written", path, hint=DISK_FULL_HINT), defer_signals():
            file.attrs[key + METADATA_SUFFIX] = json.dumps(_full_leaf_metadata(key, leaf), indent=4)
        return
    # Outside of the handler below, because errors in reading the values have their own message.
    array = None if isinstance(leaf, dict) else _to_stored(key, leaf)
    descriptor = leaf if isinstance(leaf, dict) else {}
    with report_file_errors(f"{key!r} cannot be written", path, hint=DISK_FULL_HINT), defer_signals():
        if array is not None:
            # Contiguous and uncompressed, which the original reads too: LZ4 hardly compresses weights, and every HDF5
            # reader can open the file. HDF5's own error for too many axes does not name the tensor.
            if array.ndim > MAX_AXES:
                raise CheckpointError(
                    f"it has {array.ndim} dimensions", hint=f"Reshape it to at most {MAX_AXES} dimensions."
                )
            descriptor = _array_descriptor(leaf, array)
            beside.put(key, array, kinds.copy(file, key, array, descriptor))
            # Wait, because an array of another file is in memory only for this copy.
            if isinstance(leaf, LazyArray):
                beside.wait()
        put_text(file, key + METADATA_SUFFIX, _format_metadata(key, descriptor))


def _format_metadata(key: str, descriptor: dict[str, Any]) -> str:
    """Return the metadata text of a leaf.

    The texts of equal tensors are cached, because indented JSON is slow in Python.
    """
    if "__NUMPY__" in descriptor and re.fullmatch(r"[\w.]+", key, re.ASCII):
        return _format_metadata_template(json.dumps(descriptor)).replace(_KEY_PLACEHOLDER, key)
    return _format_indented_metadata(key, descriptor)


@functools.lru_cache(maxsize=256)
def _format_metadata_template(descriptor: str) -> str:
    """Return the metadata text of a tensor with a placeholder for its key. `descriptor` is JSON."""
    return _format_indented_metadata(_KEY_PLACEHOLDER, json.loads(descriptor))


def _format_indented_metadata(key: str, descriptor: dict[str, Any]) -> str:
    """Return the metadata text of a leaf."""
    # The metadata of each leaf contains the description of a dict with only this leaf. The original's reader requires
    # it.
    metadata = {"__spec__": treespec.leaf_spec(key), "__objects__": [key], key + METADATA_SUFFIX: descriptor}
    return json.dumps(metadata, indent=4)


def _full_leaf_metadata(key: str, leaf: FullLeaf) -> dict[str, Any]:
    """Return the metadata of a FullLeaf: two objects, one with the fill value and one with the type of the tensor."""
    fill = {
        "shape": list(leaf.shape),
        "dtype": f"torch.{leaf.dtype.name}",
        "fill_value": leaf.value,
        "__TYPE__": "DeferredFullTensor",
        "__NONE__": True,
    }
    # Two objects, as in the original: `.0` is the fill value and is listed, `.1` is the tensor, without __NUMPY__
    # because it has no dataset.
    tensor = {**_tensor_descriptor(leaf.shape, leaf.dtype), "__TYPE__": "TorchTensorSerializer"}
    parts = {f"{key}.0{METADATA_SUFFIX}": fill, f"{key}.1{METADATA_SUFFIX}": tensor}
    return {"__spec__": treespec.nested_leaf_spec(key), "__objects__": [f"{key}.0"], **parts}


def _tensor_descriptor(shape: tuple[int, ...], dtype: DType) -> dict[str, Any]:
    """Return the part of the metadata that describes shape and dtype of a tensor."""
    return {
        "__TORCH__": True,
        # `shapes` and `dtypes` are lists with one entry in all known files of the original, whose reader requires them.
        "shapes": [list(shape)],
        "dtypes": [f"torch.{dtype.name}"],
        "rtfx_dtypes": [DTYPE_CODES[dtype][0]],
    }


def _array_descriptor(leaf: Any, array: np.ndarray) -> dict[str, Any]:
    """Return the metadata of a tensor or NumPy array with a dataset."""
    # A NumPy array has a flag for bits of bfloat16; a tensor has its dtype.
    if isinstance(leaf, np.ndarray) or (isinstance(leaf, LazyArray) and not leaf.is_tensor):
        is_bfloat16 = not isinstance(leaf, np.ndarray) and leaf.dtype is dtypes.bfloat16
        return {"is_bfloat16": is_bfloat16, "__TYPE__": "NumpyArraySerializer", "__NUMPY__": True, "compressed": False}
    kind = {"__TYPE__": "TorchTensorSerializer", "__NUMPY__": True, "compressed": False}
    return {**_tensor_descriptor(array.shape, leaf.dtype), **kind}


def _to_stored(key: str, leaf: Any) -> np.ndarray:
    """Return the values of `leaf` as its dataset contains them: little-endian and in C order.

    The values of an ArrayLeaf are computed if they are a function, and rounded to its dtype. Elements of a LazyArray
    keep the bits of their file, including NaN payloads. bfloat16 is stored as its bits in int16.

    Raises CheckpointError if NumPy cannot safely cast the dtype of an ArrayLeaf's values to the declared one, whatever
    the values are. `key` names the leaf in this error.
    """
    if isinstance(leaf, ArrayLeaf):
        values = np.asarray(leaf.array() if callable(leaf.array) else leaf.array)
        # A lossy cast would silently change the saved values.
        if not np.can_cast(values.dtype, leaf.dtype.host, "safe"):
            raise CheckpointError(
                f"{key!r} is declared torch.{leaf.dtype.name} but its values are {values.dtype}",
                hint="Convert the values first.",
            )
        # Round first: `encode_elements` truncates half types, and a value computed in float32 may be between two of
        # them.
        array = encode_elements(dtypes.round_to(values.astype(leaf.dtype.host, copy=False), leaf.dtype), leaf.dtype)
    else:
        # Copy the stored bits of another file, so that NaN payloads are preserved.
        array = leaf.stored() if isinstance(leaf, LazyArray) else np.asarray(leaf)
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    # bfloat16 is uint16 here and int16 in the format, with the same bits.
    is_bfloat16 = not isinstance(leaf, np.ndarray) and leaf.dtype is dtypes.bfloat16
    return array.view(DTYPE_CODES[dtypes.bfloat16][1]) if is_bfloat16 else array
