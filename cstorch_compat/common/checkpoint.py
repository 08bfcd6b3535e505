"""`cstorch.save` and `cstorch.load`: state dicts in H5 files, tensors read when somebody looks."""

from typing import Any

from cstorch_compat.common import h5read, h5write
from cstorch_compat.common.h5write import ArrayLeaf
from cstorch_compat.common.tree import flatten
from lazytensor.dtype import round_to
from lazytensor.ir.types import StateId, Type
from lazytensor.lazyarray import LazyArray
from lazytensor.tensor import CPU, Device, Tensor
from lazytensor.trace import Cell


class DeferredTorchTensor(Tensor):
    """A tensor whose values are read from a checkpoint at the first use; changing it does not change the file."""


class _FileHome:
    """Stands in for the store of state: brings the one array of a file home."""

    def __init__(self, source: LazyArray):
        self.source = source

    def copy(self, state: StateId) -> Any:
        """The values, read now."""
        return self.source.read()

    def claim(self, state: StateId) -> None:
        """A tensor of a file may be changed: the file stays as it is."""


def _deferred(source: LazyArray) -> Any:
    if not source.is_tensor:
        return source.read()
    assert source.dtype is not None
    return DeferredTorchTensor(Cell.at_home(_FileHome(source), Type(source.shape, source.dtype)))


def _described(obj: object) -> ArrayLeaf | None:
    if not isinstance(obj, Tensor):
        return None
    if obj.requires_grad:
        raise RuntimeError("a tensor that requires grad cannot be saved: pass model.state_dict(), or tensor.detach()")
    return ArrayLeaf(lambda: round_to(obj.array("saving it"), obj.dtype), obj.dtype)


def save(state_dict: Any, checkpoint_file: Any) -> None:
    """Write a structure of tensors, numbers and strings to a new H5 file.

    Raises FileExistsError if there is a file already, FileNotFoundError if the folder is missing. The file appears
    under its name when it is complete.
    """
    h5write.write(checkpoint_file, state_dict, _described)


def load(checkpoint_file: Any, map_location: Any = None, **options: Any) -> Any:
    """The structure in an H5 file; its tensors are read when they are used.

    Raises FileNotFoundError, KeyError or RuntimeError for a file that is missing, foreign or half-written. Pickled
    objects are refused, never loaded.
    """
    device = _location(map_location)
    tree = h5read.read(checkpoint_file, _deferred)
    if device is not CPU:
        for _, t in flatten(tree):
            t.device = device
    return tree


def _location(map_location: Any) -> Device:
    if map_location is None or map_location == "cache":
        return CPU
    if not isinstance(map_location, str | Device):
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({type(map_location).__name__}), but expected a "
            "torch.device or its name"
        )
    device = Device(map_location)
    if device.type not in ("cpu", "meta", "lazy"):
        raise RuntimeError(f"Expected one of cpu, lazy, meta device type at start of device string: {map_location}")
    return CPU if device.type == "cpu" else device
