"""Writes checkpoint files: a tree of arrays and scalars in one flat HDF5 file.

Every leaf has a dotted key. An array is a dataset of that name; what a leaf is stands in a JSON attribute
`<key>.__metadata__`, the containers in `__spec__` (see treespec). Nothing is ever pickled.
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
_NO_NAMEDTUPLES: Mapping[str, type] = MappingProxyType({})


@dataclass(frozen=True)
class ArrayLeaf:
    """A tensor to be written: its values in the host type of `dtype`, or a callable that gives them when needed."""

    array: np.ndarray | Callable[[], np.ndarray]
    dtype: DType


@dataclass(frozen=True)
class FullLeaf:
    """A tensor of one value everywhere, of which the file keeps the value alone."""

    shape: tuple[int, ...]
    dtype: DType
    value: float


LeafDescription = ArrayLeaf | FullLeaf | LazyArray | None


def write(
    path: str | os.PathLike[str],
    tree: object,
    describe: Callable[[object], LeafDescription],
    namedtuples: Mapping[str, type] = _NO_NAMEDTUPLES,
    *,
    replace: bool = False,
) -> None:
    """Write `tree` to a new file that appears under `path` only when it is complete.

    `describe` gives the ArrayLeaf of a tensor, a LazyArray of another file, and None for any other object. Arrays are
    asked for one at a time. An object that occurs twice is stored once. `namedtuples` gives the namedtuple classes that
    may occur, by the name to record. Raises CheckpointMissing, CheckpointExists, DtypeRefused, LeafRefused or
    CheckpointError; then nothing is left behind.
    """
    path = os.fspath(path)
    # The keys are checked before anything else: a collision must not cost the file that stands there now.
    flat = treespec.flatten(tree, namedtuples)
    # Everything that can be refused is refused before the first byte, so that no file is begun in vain; the name of the
    # target is looked at before the tensors, which may have to be computed.
    with new_file(path, replace) as temporary:
        leaves = [(leaf.key, _plan_leaf(leaf, describe)) for leaf in flat.leaves]
        _write_file(temporary, flat.spec, leaves)


def _plan_leaf(occurrence: treespec.TreeLeaf, describe: Callable[[object], LeafDescription]) -> object:
    """What to write: a leaf, a NumPy array, or the descriptor of something without a dataset."""
    key, leaf = occurrence.key, occurrence.value
    # Identity decides, as in the original, and it does for interned scalars too: every further `1`, `True` or `None`
    # of a state dict becomes a link to the first. Views of one storage are different objects and are stored twice.
    if occurrence.original != key:
        return {"key": occurrence.original, "__LINKED__": True, "__TYPE__": "LinkedObject", "__NONE__": True}
    array = describe(leaf)
    if array is None and not isinstance(leaf, np.ndarray):
        return _scalar_descriptor(key, leaf)
    # The name of a dataset is its key, and a bare tensor at the root has none; the original fails there with a
    # TypeError. A bare scalar can be saved: its descriptor is an attribute.
    if not key:
        raise LeafRefused("an array without a key cannot be saved", hint="Put it into a dict: {'x': tensor}.")
    if array is None:
        return _require_plain_array(key, leaf)
    # What was a NumPy array in another file stays one, so that a conversion changes no type.
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
    # By exact type: masked arrays and records carry more than their numbers, and it would be lost in silence.
    if type(array) in (np.ndarray, np.memmap) and is_storable(array.dtype):
        plain: np.ndarray = array
        return plain
    raise LeafRefused(
        f"{key!r} is a NumPy array of type {type(array).__name__} and {array.dtype}",
        hint="Save plain arrays of bool, integer, float or complex numbers.",
    )


def _scalar_descriptor(key: str, leaf: object) -> dict[str, Any]:
    value = leaf.item() if isinstance(leaf, np.generic) else leaf  # a NumPy scalar would have to be pickled
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
    # The objects of HDF5 1.8 index many attributes and carry checksums, and every HDF5 since reads them. The oldest
    # kind, h5py's default, looks through a list for each name, and the root has an attribute for each leaf.
    with H5Sink(path) as sink, close_on_failure(sink), _open_h5(sink) as file:
        # The version goes first and __SUCCESS__ last, so that a reader can tell a file that was cut short from one
        # of another layout; both readers refuse a file without __SUCCESS__.
        with defer_signals():
            file.attrs["__version__"] = LAYOUT_VERSION
            file.attrs[VERSION_KEY] = CSTORCH_VERSION
            file.attrs["__spec__"] = spec
        with open_templates(path) as kinds, BackgroundWriter(sink) as beside:
            for key, leaf in leaves:
                # One leaf after another, and a look at the disk after each: a checkpoint may be larger than the memory,
                # and a full disk is to be told of the first leaf that did not fit rather than after minutes of writing
                # into nothing.
                _write_leaf(file, key, leaf, path, kinds, beside)
                with report_file_errors(f"{key!r} cannot be written", path, hint=DISK_FULL_HINT):
                    sink.check()
        # Closing is when HDF5 writes most of its tables, so only the check behind it says that the file is whole.
        with defer_signals():
            file.attrs["__SUCCESS__"] = True
            file.close()
        sink.check()
        sink.append_checksums(beside.checksums)
        sink.check()


def _open_h5(sink: H5Sink) -> h5py.File:
    # HDF5 calls the sink back, and what a signal raises in there is lost, or is another error in the end.
    with defer_signals():
        return h5py.File(sink, "w", libver=("v108", "latest"))


def _write_leaf(
    file: h5py.File, key: str, leaf: object, path: str, kinds: DatasetTemplates, beside: BackgroundWriter
) -> None:
    """Write a leaf, the bytes of a large array beside."""
    # A tensor of one value has no dataset at all: its attribute says everything, as the original does for what a
    # CSX run initializes lazily. Optimizer state that is still zero costs a few hundred bytes.
    if isinstance(leaf, FullLeaf):
        with report_file_errors(f"{key!r} cannot be written", path, hint=DISK_FULL_HINT), defer_signals():
            file.attrs[key + METADATA_SUFFIX] = json.dumps(_full_leaf_metadata(key, leaf), indent=4)
        return
    # Outside the handler below: what reading the values raises says itself where it comes from.
    array = None if isinstance(leaf, dict) else _to_stored(key, leaf)
    descriptor = leaf if isinstance(leaf, dict) else {}
    with report_file_errors(f"{key!r} cannot be written", path, hint=DISK_FULL_HINT), defer_signals():
        if array is not None:
            # Contiguous and not compressed, which the original loads as well: weights hardly shrink under LZ4, and
            # stock HDF5 readers can open the file. HDF5's own refusal names neither the tensor nor the bound.
            if array.ndim > MAX_AXES:
                raise CheckpointError(f"it has {array.ndim} axes", hint=f"A file holds at most {MAX_AXES}: reshape it.")
            descriptor = _array_descriptor(leaf, array)
            beside.put(key, array, kinds.copy(file, key, array, descriptor))
            # What comes from another file is in memory for this alone.
            if isinstance(leaf, LazyArray):
                beside.wait()
        put_text(file, key + METADATA_SUFFIX, _format_metadata(key, descriptor))


def _format_metadata(key: str, descriptor: dict[str, Any]) -> str:
    """The text that describes a leaf, which Python takes long to indent: once for all tensors alike."""
    if "__NUMPY__" in descriptor and re.fullmatch(r"[\w.]+", key, re.ASCII):
        return _format_metadata_template(json.dumps(descriptor)).replace(_KEY_PLACEHOLDER, key)
    return _format_indented_metadata(key, descriptor)


@functools.lru_cache(maxsize=256)
def _format_metadata_template(descriptor: str) -> str:
    return _format_indented_metadata(_KEY_PLACEHOLDER, json.loads(descriptor))


def _format_indented_metadata(key: str, descriptor: dict[str, Any]) -> str:
    # Each leaf repeats the description of the one-entry dict that it would be alone; the reader of the original
    # rebuilds it from there and fails without it, though the root's description says the same.
    metadata = {"__spec__": treespec.leaf_spec(key), "__objects__": [key], key + METADATA_SUFFIX: descriptor}
    return json.dumps(metadata, indent=4)


def _full_leaf_metadata(key: str, leaf: FullLeaf) -> dict[str, Any]:
    fill = {
        "shape": list(leaf.shape),
        "dtype": f"torch.{leaf.dtype.name}",
        "fill_value": leaf.value,
        "__TYPE__": "DeferredFullTensor",
        "__NONE__": True,
    }
    # Two objects, as the original writes them: `.0` is what fills the tensor and is the one listed, `.1` is the
    # tensor itself, without __NUMPY__ since it has no dataset.
    tensor = {**_tensor_descriptor(leaf.shape, leaf.dtype), "__TYPE__": "TorchTensorSerializer"}
    parts = {f"{key}.0{METADATA_SUFFIX}": fill, f"{key}.1{METADATA_SUFFIX}": tensor}
    return {"__spec__": treespec.nested_leaf_spec(key), "__objects__": [f"{key}.0"], **parts}


def _tensor_descriptor(shape: tuple[int, ...], dtype: DType) -> dict[str, Any]:
    return {
        "__TORCH__": True,
        # Lists, of one entry in every file that the original was seen to write; with `dtypes` what its reader
        # cannot do without.
        "shapes": [list(shape)],
        "dtypes": [f"torch.{dtype.name}"],
        "rtfx_dtypes": [DTYPE_CODES[dtype][0]],
    }


def _array_descriptor(leaf: Any, array: np.ndarray) -> dict[str, Any]:
    # A NumPy array says for itself whether its int16 are bits of bfloat16; a tensor says so by its type.
    if isinstance(leaf, np.ndarray) or (isinstance(leaf, LazyArray) and not leaf.is_tensor):
        is_bfloat16 = not isinstance(leaf, np.ndarray) and leaf.dtype is dtypes.bfloat16
        return {"is_bfloat16": is_bfloat16, "__TYPE__": "NumpyArraySerializer", "__NUMPY__": True, "compressed": False}
    kind = {"__TYPE__": "TorchTensorSerializer", "__NUMPY__": True, "compressed": False}
    return {**_tensor_descriptor(array.shape, leaf.dtype), **kind}


def _to_stored(key: str, leaf: Any) -> np.ndarray:
    """The values of a leaf as its dataset holds them: little-endian, in C order, half types in two bytes."""
    if isinstance(leaf, ArrayLeaf):
        values = np.asarray(leaf.array() if callable(leaf.array) else leaf.array)
        # A cast that loses something would change what was saved without a word.
        if not np.can_cast(values.dtype, leaf.dtype.host, "safe"):
            raise CheckpointError(
                f"{key!r} is declared torch.{leaf.dtype.name} but its values are {values.dtype}",
                hint="Convert the values first.",
            )
        # Rounded first: `encode_elements` cuts a half type, and a value computed in float32 may lie between two of
        # them.
        array = encode_elements(dtypes.round_to(values.astype(leaf.dtype.host, copy=False), leaf.dtype), leaf.dtype)
    else:
        # The bits as the other file has them, not decoded and encoded again, so that NaN payloads survive.
        array = leaf.stored() if isinstance(leaf, LazyArray) else np.asarray(leaf)
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    # The words of bfloat16 are unsigned here and signed in the format; the bits are the same.
    is_bfloat16 = not isinstance(leaf, np.ndarray) and leaf.dtype is dtypes.bfloat16
    return array.view(DTYPE_CODES[dtypes.bfloat16][1]) if is_bfloat16 else array
