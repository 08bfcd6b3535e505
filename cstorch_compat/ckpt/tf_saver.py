"""`tensorflow-to-h5` and `h5-to-tensorflow`: convert checkpoints of TensorFlow's saver to H5 and back.

TensorFlow reads and writes its own files. Variables keep their names, such as "dense/kernel". Variables that hold text,
such as TensorFlow 2's object graph, cannot be converted; their names are reported.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from cstorch_compat.ckpt.formats import FORMATS, read
from cstorch_compat.ckpt.leaves import flatten_tree
from cstorch_compat.files.atomic_write import CheckpointExists, CheckpointMissing
from cstorch_compat.files.h5layout import is_storable
from lazytensor.core import dtype as dt
from lazytensor.core.element_bytes import DTYPES_BY_FILE_DTYPE, FILE_DTYPES
from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError, OptionMissing


@dataclass(frozen=True)
class SaverVariable:
    """A variable of a saver's checkpoint. `kind` is TensorFlow's name of its dtype. `read()` returns a NumPy array."""

    name: str
    shape: tuple[int, ...]
    kind: str
    read: Callable[[], np.ndarray]


class Saver(Protocol):
    """The operations of TensorFlow that the conversion needs."""

    def variables(self, path: str) -> Sequence[SaverVariable]:
        """Return the variables in the checkpoint at `path`, which has no suffix."""

    def write(self, path: str, arrays: Mapping[str, np.ndarray], bfloat16: Sequence[str]) -> None:
        """Save arrays by name. Those named in `bfloat16` are uint16 arrays of bfloat16 bits."""


def make_lazy_arrays(variables: Sequence[SaverVariable], where: str) -> tuple[dict[str, LazyArray], list[str]]:
    """Return a LazyArray for each numeric variable, by name, and the names of the other variables, both sorted by name.

    `where` is the checkpoint in error messages.
    """
    arrays: dict[str, LazyArray] = {}
    others: list[str] = []
    for v in sorted(variables, key=lambda v: v.name):
        array = _convert_variable(v, where)
        if array is None:
            others.append(v.name)
        else:
            arrays[v.name] = array
    return arrays, others


def _convert_variable(v: SaverVariable, where: str) -> LazyArray | None:
    """Return the LazyArray of a variable, or None if it is not numeric. `where` is the checkpoint in error messages."""
    # TensorFlow returns a dtype of ml_dtypes, which plain NumPy does not have. Read the bits.
    if v.kind == dt.bfloat16.name:
        return _make_lazy_array(v, where, dt.bfloat16, FILE_DTYPES[dt.bfloat16], lambda: v.read().view("<u2"))
    try:
        kind = np.dtype(v.kind).newbyteorder("<")
    # NumPy has no such dtype: text, resources, quantized types.
    except TypeError:
        return None
    if not is_storable(kind):
        return None
    return _make_lazy_array(
        v, where, DTYPES_BY_FILE_DTYPE.get(kind), kind, lambda: np.asarray(v.read(), kind, order="C")
    )


def _make_lazy_array(
    v: SaverVariable, where: str, dtype: dt.DType | None, kind: np.dtype, load: Callable[[], np.ndarray]
) -> LazyArray:
    return LazyArray(
        key=v.name,
        shape=v.shape,
        dtype=dtype,
        kind=kind,
        is_tensor=dtype is not None,
        where=where,
        load=load,
    )


def collect_variables(tree: Any, names: Iterable[str] | None = None) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the arrays to save by dotted name, and the names of those that hold bfloat16 bits.

    Python numbers become 0-d arrays. `names` selects leaves; None stands for all. Raises CheckpointError for a name
    that the tree does not have, and for values that TensorFlow cannot store.
    """
    arrays: dict[str, np.ndarray] = {}
    bits: list[str] = []
    # A saver's checkpoint is a flat table.
    leaves = flatten_tree(tree)
    wanted = leaves.keys() if names is None else list(names)
    missing = [name for name in wanted if name not in leaves]
    if missing:
        raise CheckpointError(
            f"the checkpoint has no value {missing[0]!r}", hint="List the names with `lazywafer ckpt ls FILE`."
        )
    for name in wanted:
        leaf = leaves[name]
        if isinstance(leaf, LazyArray):
            arrays[name] = leaf.stored()
            bits += [name] if leaf.dtype is dt.bfloat16 else []
        elif isinstance(leaf, bool | int | float):
            arrays[name] = _number_to_array(name, leaf)
        else:
            raise CheckpointError(
                f"{name!r} is a {type(leaf).__name__}, but a saver checkpoint contains only numbers",
                hint="Convert only the part with the arrays first: lazywafer ckpt convert --key NAME.",
            )
    return arrays, bits


def _number_to_array(name: str, value: float) -> np.ndarray:
    """Return a number as a 0-d array. Raises CheckpointError for an int of more than 64 bits."""
    array = np.array(value)
    if not is_storable(array.dtype):
        raise CheckpointError(f"{name!r} is {value}, which does not fit in 64 bits", hint="Leave this value out.")
    return array


class TensorFlowSaver:
    """The saver of the installed TensorFlow. The constructor raises OptionMissing if TensorFlow is not installed."""

    def __init__(self) -> None:
        try:
            # Imported here, because TensorFlow is large, optional, and only used by these two programs.
            self._tf: Any = importlib.import_module("tensorflow")
        except ImportError as e:
            raise OptionMissing(
                f"TensorFlow is not installed ({e})", hint="Install it with `pip install lazywafer[tensorflow]`."
            ) from e

    def variables(self, path: str) -> list[SaverVariable]:
        """Return the variables of the checkpoint at `path`, without the suffix `.index`.

        Raises CheckpointMissing if there is no index file.
        """
        # A checkpoint has several files. Each checkpoint has an index file.
        if not os.path.exists(f"{path}.index"):
            raise CheckpointMissing(
                f"{path}.index does not exist", hint="Pass the path without a suffix, as in model.ckpt-100."
            )
        reader = self._tf.train.load_checkpoint(path)
        shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()

        def values(name: str) -> np.ndarray:
            return np.asarray(reader.get_tensor(name))

        return [SaverVariable(n, tuple(shape), kinds[n].name, partial(values, n)) for n, shape in shapes.items()]

    def write(self, path: str, arrays: Mapping[str, np.ndarray], bfloat16: Sequence[str]) -> None:
        """Save a checkpoint. All tensors are in memory at the same time.

        `bfloat16` are the names of arrays that hold the bits of bfloat16 numbers as 16-bit integers.
        """
        tensors = [
            self._tf.bitcast(self._tf.constant(a), self._tf.bfloat16) if name in bfloat16 else self._tf.constant(a)
            for name, a in arrays.items()
        ]
        slices = [""] * len(tensors)
        # The raw operation keeps the names. tf.train.Checkpoint would add an object graph.
        self._tf.raw_ops.SaveV2(prefix=path, tensor_names=list(arrays), shape_and_slices=slices, tensors=tensors)


def saver_to_h5(saver: Saver, saver_path: str, h5_path: str) -> list[str]:
    """Write a new H5 checkpoint, one variable after another. Return the names of variables that are not numeric.

    Raises CheckpointExists if `h5_path` exists.
    """
    arrays, others = make_lazy_arrays(saver.variables(saver_path), saver_path)
    FORMATS["h5"].write(h5_path, arrays, replace=False)
    return others


def h5_to_saver(saver: Saver, h5_path: str, saver_path: str, names: Iterable[str] | None = None) -> None:
    """Write a new saver checkpoint with all leaves of an H5 file, or with `names`.

    Raises CheckpointExists if there is one.
    """
    if os.path.exists(f"{saver_path}.index"):
        raise CheckpointExists(
            f"{saver_path}.index exists already", hint="Choose another name, or delete the old checkpoint."
        )
    saver.write(saver_path, *collect_variables(read(h5_path)[1], names))


def tensorflow_to_h5(argv: Sequence[str] | None = None) -> int:
    """Run the program `tensorflow-to-h5`, which converts a TensorFlow checkpoint, and return the exit status.

    `argv` has the path of the checkpoint and that of the new file; None takes the process's arguments. The status
    is 0, or 2 after an error of the conversion. Wrong arguments raise SystemExit.
    """
    parser = argparse.ArgumentParser(
        prog="tensorflow-to-h5", description="Convert Tensorflow Saver Checkpoint to Cerebras H5 Format"
    )
    parser.add_argument("saver_path", help="Path to existing saver checkpoint")
    parser.add_argument("h5_path", help="Path to store converted h5 checkpoint")
    options = parser.parse_args(argv)
    return _run_conversion(parser.prog, lambda: saver_to_h5(TensorFlowSaver(), options.saver_path, options.h5_path))


def h5_to_tensorflow(argv: Sequence[str] | None = None) -> int:
    """Run the program `h5-to-tensorflow` with the arguments `argv`. Return the exit status: 0, or 2 after an error."""
    parser = argparse.ArgumentParser(
        prog="h5-to-tensorflow", description="Convert Cerebras H5 Checkpoint to Tensorflow Saver Format"
    )
    parser.add_argument("h5_path", help="Path to existing h5 checkpoint")
    parser.add_argument("saver_path", help="Path to store converted saver checkpoint")
    options = parser.parse_args(argv)
    return _run_conversion(parser.prog, lambda: h5_to_saver(TensorFlowSaver(), options.h5_path, options.saver_path))


def _run_conversion(program: str, convert: Callable[[], list[str] | None]) -> int:
    """Call `convert`, print its errors and the names that it left out to stderr, and return the exit status.

    It is 2 after a CheckpointError, OptionMissing or OSError, otherwise 0. Other exceptions propagate.
    """
    try:
        left_out = convert()
    except (CheckpointError, OptionMissing, OSError) as e:
        print(f"{program}: {e}", file=sys.stderr)
        return 2
    for name in left_out or ():
        print(f"{program}: left out {name!r}, which is not numeric", file=sys.stderr)
    return 0
