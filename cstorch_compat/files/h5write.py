"""Writes checkpoint files: a tree of arrays and scalars in one flat HDF5 file.

Every leaf has a dotted key. An array is a dataset of that name; what a leaf is stands in a JSON attribute
`<key>.__metadata__`, the containers in `__spec__` (see treespec). Nothing is ever pickled.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np

from cstorch_compat.files import treespec
from cstorch_compat.files.h5layout import (
    CODES,
    CSTORCH_VERSION,
    LAYOUT_VERSION,
    METADATA,
    MOST_AXES,
    SCALARS,
    DtypeRefused,
    LeafRefused,
    is_storable,
)
from cstorch_compat.files.h5sink import Sink
from cstorch_compat.files.newfile import NO_ROOM, new_file
from lazytensor import dtype as dtypes
from lazytensor.dtype import DType
from lazytensor.encoding import encoded
from lazytensor.errors import CheckpointError
from lazytensor.lazyarray import LazyArray, reported

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


Leaf = ArrayLeaf | FullLeaf | LazyArray | None


def write(
    path: str | os.PathLike,
    tree: object,
    describe: Callable[[object], Leaf],
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
    flat = treespec.flatten(tree, namedtuples)
    # Everything that can be refused is refused here, so that no file is begun in vain.
    with new_file(path, replace) as temporary:
        leaves = [(leaf.key, _plan(leaf, describe)) for leaf in flat.leaves]
        _write_file(temporary, flat.spec, leaves)


def _plan(occurrence: treespec.Leaf, describe: Callable[[object], Leaf]) -> object:
    """What to write: a leaf, a NumPy array, or the descriptor of something without a dataset."""
    key, leaf = occurrence.key, occurrence.value
    if occurrence.original != key:
        return {"key": occurrence.original, "__LINKED__": True, "__TYPE__": "LinkedObject", "__NONE__": True}
    array = describe(leaf)
    if array is None and not isinstance(leaf, np.ndarray):
        return _scalar_descriptor(key, leaf)
    if not key:
        raise LeafRefused("an array without a key cannot be saved", hint="Put it into a dict: {'x': tensor}.")
    if array is None:
        return _plain_array(key, leaf)
    if isinstance(array, LazyArray) and not array.is_tensor:
        return array
    if array.dtype not in CODES:
        raise DtypeRefused(
            f"{key!r} is a tensor of {array.dtype!r}, for which the checkpoint format has no code",
            hint=f"Convert it to one of {', '.join(d.name for d in CODES)} before saving.",
        )
    return array


def _plain_array(key: str, array: Any) -> np.ndarray:
    if type(array) in (np.ndarray, np.memmap) and is_storable(array.dtype):
        return array
    raise LeafRefused(
        f"{key!r} is a NumPy array of type {type(array).__name__} and {array.dtype}",
        hint="Save plain arrays of bool, integer, float or complex numbers.",
    )


def _scalar_descriptor(key: str, leaf: object) -> dict:
    value = leaf.item() if isinstance(leaf, np.generic) else leaf  # a NumPy scalar would have to be pickled
    if value is None:
        return {"__TYPE__": "NoneSerializer", "__NONE__": True}
    if type(value) is str:
        return {"string_value": value, "__TYPE__": "StringSerializer", "__NONE__": True}
    if type(value) in SCALARS:
        return {"scalar_value": value, "__TYPE__": "ScalarSerializer", "__NONE__": True}
    raise LeafRefused(
        f"{key!r} is a {type(leaf).__module__}.{type(leaf).__qualname__}, which a checkpoint would have to pickle",
        hint="Save tensors, NumPy arrays, int, float, bool, str or None in dict, OrderedDict, list, tuple or set; "
        "convert other containers, and register namedtuple classes.",
    )


def _write_file(path: str, spec: str, leaves: list[tuple[str, object]]) -> None:
    # The 1.8 objects index many attributes and carry checksums; every HDF5 since reads them.
    with Sink(path) as sink, h5py.File(sink, "w", libver=("v108", "latest")) as file:
        file.attrs["__version__"] = LAYOUT_VERSION
        file.attrs["__cstorch_version__"] = CSTORCH_VERSION
        file.attrs["__spec__"] = spec
        for key, leaf in leaves:
            _write_leaf(file, key, leaf, path)
            with reported(f"{key!r} cannot be written", path, hint=NO_ROOM):
                sink.check()
        file.attrs["__SUCCESS__"] = True
        file.close()
        sink.check()


def _write_leaf(file: h5py.File, key: str, leaf: object, path: str) -> None:
    if isinstance(leaf, FullLeaf):
        with reported(f"{key!r} cannot be written", path, hint=NO_ROOM):
            file.attrs[key + METADATA] = json.dumps(_filled(key, leaf), indent=4)
        return
    # Outside the handler below: what reading the values raises says itself where it comes from.
    array = None if isinstance(leaf, dict) else _to_stored(key, leaf)
    with reported(f"{key!r} cannot be written", path, hint=NO_ROOM):
        descriptor = leaf if array is None else _write_array(file, key, leaf, array)
        metadata = {"__spec__": treespec.spec_of_leaf(key), "__objects__": [key], key + METADATA: descriptor}
        file.attrs[key + METADATA] = json.dumps(metadata, indent=4)


def _filled(key: str, leaf: FullLeaf) -> dict:
    fill = {
        "shape": list(leaf.shape),
        "dtype": f"torch.{leaf.dtype.name}",
        "fill_value": leaf.value,
        "__TYPE__": "DeferredFullTensor",
        "__NONE__": True,
    }
    tensor = {**_tensor_descriptor(leaf.shape, leaf.dtype), "__TYPE__": "TorchTensorSerializer"}
    parts = {f"{key}.0{METADATA}": fill, f"{key}.1{METADATA}": tensor}
    return {"__spec__": treespec.spec_of_nested(key), "__objects__": [f"{key}.0"], **parts}


def _tensor_descriptor(shape: tuple[int, ...], dtype: DType) -> dict:
    return {
        "__TORCH__": True,
        "shapes": [list(shape)],
        "dtypes": [f"torch.{dtype.name}"],
        "rtfx_dtypes": [CODES[dtype][0]],
    }


def _write_array(file: h5py.File, key: str, leaf: object, array: np.ndarray) -> dict:
    """Write the dataset of an array, and return what describes it."""
    if array.ndim > MOST_AXES:
        raise CheckpointError(f"it has {array.ndim} axes", hint=f"A file holds at most {MOST_AXES}: reshape it.")
    descriptor = _array_descriptor(leaf, array)
    dataset = file.create_dataset(key, data=array)
    for name, value in descriptor.items():
        dataset.attrs[name] = value
    return descriptor


def _array_descriptor(leaf: Any, array: np.ndarray) -> dict:
    if isinstance(leaf, np.ndarray) or (isinstance(leaf, LazyArray) and not leaf.is_tensor):
        is_bfloat16 = not isinstance(leaf, np.ndarray) and leaf.dtype is dtypes.bfloat16
        return {"is_bfloat16": is_bfloat16, "__TYPE__": "NumpyArraySerializer", "__NUMPY__": True, "compressed": False}
    kind = {"__TYPE__": "TorchTensorSerializer", "__NUMPY__": True, "compressed": False}
    return {**_tensor_descriptor(array.shape, leaf.dtype), **kind}


def _to_stored(key: str, leaf: Any) -> np.ndarray:
    """The values of a leaf as its dataset holds them: little-endian, in C order, half types in two bytes."""
    if isinstance(leaf, ArrayLeaf):
        given = np.asarray(leaf.array() if callable(leaf.array) else leaf.array)
        if not np.can_cast(given.dtype, leaf.dtype.host, "safe"):
            raise CheckpointError(
                f"{key!r} is declared {leaf.dtype!r} but its values are {given.dtype}", hint="Convert the values first."
            )
        array = encoded(dtypes.round_to(given.astype(leaf.dtype.host, copy=False), leaf.dtype), leaf.dtype)
    else:
        array = leaf.stored() if isinstance(leaf, LazyArray) else np.asarray(leaf)
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    is_bfloat16 = not isinstance(leaf, np.ndarray) and leaf.dtype is dtypes.bfloat16
    return array.view(CODES[dtypes.bfloat16][1]) if is_bfloat16 else array
