"""`cstorch.save` and `cstorch.load`: state dicts in HDF5 files. Tensors are read at their first use."""

import os
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

from cstorch_compat.files import h5read, h5write, safetensors
from cstorch_compat.files.detect_format import detect_format
from cstorch_compat.files.h5write import ArrayLeaf, FullLeaf
from cstorch_compat.files.pickled import DeferredObject
from cstorch_compat.files.tree import flatten
from lazytensor import serialization
from lazytensor.core import source
from lazytensor.core.dtype import round_to
from lazytensor.core.file_array import LazyArray
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import CPU, Device, Tensor, tensor_of_class
from lazytensor.errors import ArgumentInvalid, CheckpointError, ShapeError
from lazytensor.ir.types import StateId, Type
from lazytensor.system import atomic_files


# The original returns these classes for every map_location, even on the CPU; the names are the same.
class DeferredTorchTensor(Tensor):
    """A tensor whose values are read from a checkpoint at the first use. Changing it does not change the file."""


class DeferredSafeTensor(Tensor):
    """A tensor whose values are read from a safetensors file at the first use."""


class _FileStore:
    """A state store with one array of a file, from which a deferred tensor gets its values."""

    def __init__(self, source: LazyArray):
        self.source = source

    def copy(self, state: StateId) -> Any:
        """Read the values from the file."""
        return self.source.read()

    def claim(self, state: StateId) -> None:
        """Do nothing: the tensor may be changed, and the file is not."""


def _make_deferred_tensor(lazy: LazyArray, kind: type[Tensor] = DeferredTorchTensor) -> Any:
    """Return a tensor of class `kind` that reads `lazy` at its first use. A NumPy array is read immediately."""
    # The original returns NumPy arrays immediately too. No lazy object could replace one in computations.
    if not lazy.is_tensor:
        return lazy.read()
    # Both readers refuse tensors without a tensor dtype.
    assert lazy.dtype is not None
    return tensor_of_class(kind, Storage.from_store(_FileStore(lazy), Type(lazy.shape, lazy.dtype)))


def _describe_leaf(obj: object) -> ArrayLeaf | FullLeaf | None:
    """Return how `save` writes an object: an ArrayLeaf, a FullLeaf, or None if it is no tensor.

    Raises CheckpointError for a tensor that requires a gradient.
    """
    if not isinstance(obj, Tensor):
        return None
    # The original raises RuntimeError on the same condition: it saves state dicts, not parameters.
    if obj.requires_grad:
        raise CheckpointError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            hint=f"{source.where()}: save model.state_dict(), or tensor.detach().",
        )
    n = obj.node
    # `cstorch.full` and new optimizer state on the wafer are one value until they are used. Write that value without
    # allocating the tensor. The original writes this form only in a CSX run.
    if obj.device.type == "lazy" and n.op == "full":
        return FullLeaf(obj.spec.shape, obj.dtype, n.attrs["value"])
    # Fetch the values when they are written, so that one tensor at a time is in memory. Round them, because a storage
    # with a half type is computed in a wider one.
    return ArrayLeaf(lambda: round_to(obj.array("saving it"), obj.dtype), obj.dtype)


def save(state_dict: Any, checkpoint_file: Any) -> None:
    """Write a structure of tensors, NumPy arrays, numbers and strings to the new HDF5 file `checkpoint_file`.

    The structure consists of dicts, lists, tuples and sets. The file appears under its name only when it is complete.
    Raises FileExistsError if the file exists, FileNotFoundError if its folder does not, and CheckpointError for values
    that the format cannot store, and for tensors that require a gradient.
    """
    h5write.write(checkpoint_file, state_dict, _describe_leaf)


def load(
    checkpoint_file: Any,
    map_location: Any = None,
    *,
    read_torch: Callable[..., Any] = serialization.load,
    **options: Any,
) -> Any:
    """Return the structure in an HDF5, safetensors or PyTorch file. The format is detected from the contents.

    Tensors of HDF5 and safetensors files are read at their first use. NumPy arrays, and numbers without a tensor dtype,
    are returned as NumPy arrays. Tensors are placed on `map_location` (default: the CPU). `options` are passed to
    `read_torch`, which reads PyTorch files. Temporary files of killed processes in the same folder are removed.

    A pickled object in an HDF5 file is never loaded: it becomes a DeferredObject, with a warning. Raises
    FileNotFoundError for a missing file, KeyError for an HDF5 file that is no checkpoint, and RuntimeError for a
    damaged or unknown file.
    """
    path = os.fspath(checkpoint_file)
    atomic_files.remove_leftovers(pathlib.Path(path).parent)
    if not os.path.isfile(path):
        return h5read.read(path, _make_deferred_tensor)  # raises an error for the missing file
    # Detect the format by content: the original tries one reader after another, and file names end in .mdl, .h5, .bin
    # or have no suffix.
    kind = detect_format(path)
    if kind in ("torch", "legacy torch"):
        return _load_torch(path, map_location, options, read_torch)
    device = _parse_map_location(map_location)
    tree: Any = safetensors.read(path) if kind == "safetensors" else _load_h5(path)
    if kind == "safetensors":
        tree = {key: _make_deferred_tensor(lazy, DeferredSafeTensor) for key, lazy in tree.items()}
    # Set only the device. The values are moved when they are read.
    if device is not CPU:
        for _, t in flatten(tree):
            t.device = device
    return tree


def _load_h5(path: str) -> Any:
    """Return the structure in the HDF5 file `path`.

    Tensors are read at their first use, NumPy arrays immediately. Pickled objects are never loaded. Each becomes a
    DeferredObject, which raises CheckpointError when it is used, and one warning names all of them.
    """
    closed: list[str] = []

    # A pickled leaf, such as a NumPy scalar in an old state dict, must not prevent loading the weights. Warn once, and
    # raise an error when it is used.
    def stand_in(key: str) -> DeferredObject:
        closed.append(key)
        return DeferredObject(key)

    tree = h5read.read(path, _make_deferred_tensor, pickled=stand_in)
    if closed:
        warnings.warn(
            f"{path} contains pickled Python objects, which are never loaded; their use raises an error: "
            f"{', '.join(closed)}",
            stacklevel=4,
        )
    return tree


def _load_torch(path: str, map_location: Any, options: dict[str, Any], read_torch: Callable[..., Any]) -> Any:
    """Return the structure in the PyTorch file `path`, as `read_torch(path, location, **options)` returns it.

    `weights_only` is False unless `options` has it. `map_location` "cache" stands for the CPU. A CheckpointError of
    `read_torch` is raised again with `path` in its text.
    """
    try:
        # Only the original has the location `cache`. It also loads without `weights_only`.
        location = "cpu" if map_location == "cache" else map_location
        return read_torch(path, location, **{"weights_only": False, **options})
    except CheckpointError as e:
        what = f"Failed to load checkpoint file `{path}`: {e.what}"
        raise CheckpointError(what, where=source.where(), hint=e.hint) from e


def _parse_map_location(map_location: Any) -> Device:
    """Return the device of `map_location`; the CPU for None and "cache".

    Raises TypeError or RuntimeError with PyTorch's message for an invalid one.
    """
    if map_location is None or map_location == "cache":
        return CPU
    # The next two messages are PyTorch's.
    if not isinstance(map_location, str | Device):
        raise ArgumentInvalid(
            f"to() received an invalid combination of arguments - got ({type(map_location).__name__}), but expected a "
            "torch.device or its name",
            where=source.where(),
            hint="Pass a device or its name.",
        )
    device = Device(map_location)
    if device.type not in ("cpu", "meta", "lazy"):
        raise ShapeError(
            f"Expected one of cpu, lazy, meta device type at start of device string: {map_location}",
            where=source.where(),
            hint='Pass "cpu", "lazy" or "meta".',
        )
    return CPU if device.type == "cpu" else device
