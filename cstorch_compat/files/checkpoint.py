"""`cstorch.save` and `cstorch.load`: state dicts in H5 files, tensors read when somebody looks."""

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
from lazytensor.errors import CheckpointError
from lazytensor.ir.types import StateId, Type
from lazytensor.system import atomic_files


# The original gives such a tensor for every map_location, even on the CPU; both classes have its names.
class DeferredTorchTensor(Tensor):
    """A tensor whose values are read from a checkpoint at the first use; changing it does not change the file."""


class DeferredSafeTensor(Tensor):
    """A tensor whose values are read from a safetensors file at the first use."""


class _FileStore:
    """Stands in for the store of state: brings the one array of a file home."""

    def __init__(self, source: LazyArray):
        self.source = source

    def copy(self, state: StateId) -> Any:
        """The values, read now."""
        return self.source.read()

    def claim(self, state: StateId) -> None:
        """A tensor of a file may be changed: the file stays as it is."""


def _make_deferred_tensor(lazy: LazyArray, kind: type[Tensor] = DeferredTorchTensor) -> Any:
    # The original gives NumPy arrays at once; nothing else could stand for one where a script computes with it.
    if not lazy.is_tensor:
        return lazy.read()
    # What is a tensor in the file has a tensor type: both readers refuse it otherwise.
    assert lazy.dtype is not None
    return tensor_of_class(kind, Storage.from_store(_FileStore(lazy), Type(lazy.shape, lazy.dtype)))


def _describe_leaf(obj: object) -> ArrayLeaf | FullLeaf | None:
    if not isinstance(obj, Tensor):
        return None
    # The type (RuntimeError) and the condition are the original's, which saves state dicts and no parameters.
    if obj.requires_grad:
        raise CheckpointError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
            hint=f"{source.where()}: save model.state_dict(), or tensor.detach().",
        )
    n = obj.node
    # On the wafer `cstorch.full` and fresh optimizer state are one value until somebody computes with them; saving
    # them must not bring them to life. The original writes this form from a CSX run alone, and so do we.
    if obj.device.type == "lazy" and n.op == "full":
        return FullLeaf(obj.spec.shape, obj.dtype, n.attrs["value"])
    # Fetched when its turn comes, so that one tensor at a time is in memory. Rounded to the declared type because a
    # cell of a half type is computed in a wider one.
    return ArrayLeaf(lambda: round_to(obj.array("saving it"), obj.dtype), obj.dtype)


def save(state_dict: Any, checkpoint_file: Any) -> None:
    """Write a structure of tensors, numbers and strings to a new H5 file.

    Raises FileExistsError if there is a file already, FileNotFoundError if the folder is missing. The file appears
    under its name when it is complete.
    """
    h5write.write(checkpoint_file, state_dict, _describe_leaf)


def load(
    checkpoint_file: Any,
    map_location: Any = None,
    *,
    read_torch: Callable[..., Any] = serialization.load,
    **options: Any,
) -> Any:
    """The structure in an H5, safetensors or PyTorch file; which of them it is, its first bytes say.

    Tensors of the first two are read when they are used; NumPy arrays, and numbers for which there is no tensor type,
    come as NumPy arrays. `options` go to `read_torch`, which reads PyTorch files. Raises FileNotFoundError, KeyError or
    RuntimeError for a file that is missing, foreign or damaged. Pickled objects of H5 files are
    never loaded: a DeferredObject stands for each.
    """
    path = os.fspath(checkpoint_file)
    atomic_files.remove_leftovers(pathlib.Path(path).parent)
    if not os.path.isfile(path):
        return h5read.read(path, _make_deferred_tensor)  # which says what is wrong
    # By content, since the original tries one reader after another and takes the first that succeeds; a name says
    # nothing (checkpoints end in .mdl, .h5, .bin or not at all).
    kind = detect_format(path)
    if kind in ("torch", "legacy torch"):
        return _load_torch(path, map_location, options, read_torch)
    device = _parse_map_location(map_location)
    tree: Any = safetensors.read(path) if kind == "safetensors" else _load_h5(path)
    if kind == "safetensors":
        tree = {key: _make_deferred_tensor(lazy, DeferredSafeTensor) for key, lazy in tree.items()}
    # Moved by name only: the values are fetched to the device when they are used, so the file is still not read.
    if device is not CPU:
        for _, t in flatten(tree):
            t.device = device
    return tree


def _load_h5(path: str) -> Any:
    closed: list[str] = []

    # One pickled leaf (a NumPy scalar in an old state dict is enough) must not cost the weights beside it: it is
    # named in one warning, and is an error when used.
    def stand_in(key: str) -> DeferredObject:
        closed.append(key)
        return DeferredObject(key)

    tree = h5read.read(path, _make_deferred_tensor, pickled=stand_in)
    if closed:
        warnings.warn(
            f"{path} holds pickled Python objects, which are never opened; using one is an error: {', '.join(closed)}",
            stacklevel=4,
        )
    return tree


def _load_torch(path: str, map_location: Any, options: dict[str, Any], read_torch: Callable[..., Any]) -> Any:
    try:
        # `cache` is a location of the original's own, which no PyTorch reader knows. The original trusts its files.
        location = "cpu" if map_location == "cache" else map_location
        return read_torch(path, location, **{"weights_only": False, **options})
    except CheckpointError as e:
        what = f"Failed to load checkpoint file `{path}`: {e.what}"
        raise CheckpointError(what, where=source.where(), hint=e.hint) from e


def _parse_map_location(map_location: Any) -> Device:
    if map_location is None or map_location == "cache":
        return CPU
    # The texts of this refusal and the next one are PyTorch's, as a wrong location gives them there.
    if not isinstance(map_location, str | Device):
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({type(map_location).__name__}), but expected a "
            "torch.device or its name"
        )
    device = Device(map_location)
    if device.type not in ("cpu", "meta", "lazy"):
        raise RuntimeError(f"Expected one of cpu, lazy, meta device type at start of device string: {map_location}")
    return CPU if device.type == "cpu" else device
