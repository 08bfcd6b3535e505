"""The top-level functions of `cerebras.pytorch`.

They are closures, creation of tensors on the device of the run, conversion to and from NumPy, and checkpoints.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.cerebras.pytorch.nn.functional import copy_as_constant
from cstorch_compat.files import checkpoint
from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import process, steps
from cstorch_compat.run.backend import Backend
from cstorch_compat.torch.serialization import save_and_load
from lazytensor.core import source
from lazytensor.core.dtype import DType, bfloat16
from lazytensor.core.tensor import Tensor
from lazytensor.functional import creation

BFLOAT16_BITS_DTYPE = np.dtype(np.int16, metadata={"torch.dtype": "bfloat16"})
"""The NumPy dtype that holds bfloat16 bits as int16. Its metadata distinguishes it from plain integers."""


def step_closure(closure: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that reads tensor values, so that its calls are deferred until the values are available.

    In a loop over a DataExecutor a call waits until its step has run. Outside a loop it waits for the first step of the
    next loop. Without a backend the function is called at once.

    >>> import torch, cerebras.pytorch as cstorch
    >>> @cstorch.step_closure
    ... def log(loss):
    ...     print(f"{loss.item():.2f}")
    ...
    >>> log(torch.tensor(0.25))
    0.25
    """
    return steps.make_public_closure(closure, needs_checkpoint=False)


def checkpoint_closure(closure: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that saves state, so that its calls are deferred and made on checkpoint steps only.

    A call without a backend raises RuntimeError.

    >>> import torch, cerebras.pytorch as cstorch
    >>> @cstorch.checkpoint_closure
    ... def keep(step):
    ...     print("checkpoint of step", step)
    ...
    >>> keep.__name__
    'keep'
    """
    return steps.make_public_closure(closure, needs_checkpoint=True)


def current_backend(raise_exception: bool = True, raise_warning: bool = True) -> Backend:
    """Return the backend that the script created.

    Without a backend, raise RuntimeError if `raise_exception` is True. `raise_warning` has no effect.

    >>> import cerebras.pytorch as cstorch
    >>> backend = cstorch.backend("CPU")
    >>> cstorch.current_backend() is backend
    True
    """
    return process.current_backend(raise_exception)


def full(shape: Any, value: float, dtype: Any = None) -> Tensor:
    """Return a tensor of the given shape filled with `value`, on the device of the run.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.full((2,), 7)
    tensor([7, 7])
    """
    return creation.full(shape, value, dtype=_dtype(dtype), device=process.state_device())


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of zeros on the device of the run. `shape` is an int or a tuple.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.zeros(2)
    tensor([0., 0.])
    """
    return creation.zeros(*_extents(shape), dtype=_dtype(dtype), device=process.state_device())


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of ones on the device of the run. `shape` is an int or a tuple.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.ones(2)
    tensor([1., 1.])
    """
    return creation.ones(*_extents(shape), dtype=_dtype(dtype), device=process.state_device())


def full_like(other: Tensor, value: float, dtype: Any = None) -> Tensor:
    """Return a tensor filled with `value`, with the shape and device of `other`, and its dtype unless `dtype` is given.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.full_like(torch.ones(2), 7)
    tensor([7., 7.])
    """
    return creation.full_like(other, value, dtype=dtype)


def zeros_like(other: Tensor, dtype: Any = None) -> Tensor:
    """Return a tensor of zeros with the shape and device of `other`, and its dtype unless `dtype` is given.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.zeros_like(torch.ones(2))
    tensor([0., 0.])
    """
    return creation.zeros_like(other, dtype=dtype)


def ones_like(other: Tensor, dtype: Any = None) -> Tensor:
    """Return a tensor of ones with the shape and device of `other`, and its dtype unless `dtype` is given.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.ones_like(torch.zeros(2))
    tensor([1., 1.])
    """
    return creation.ones_like(other, dtype=dtype)


def _dtype(dtype: Any) -> DType | None:
    # A shape given as separate ints, as in PyTorch, passes an int as `dtype`.
    if dtype is not None and not isinstance(dtype, DType):
        raise TypeError(
            f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}: give the shape as a tuple"
            "\n  Pass the shape as a tuple, and the dtype as the second argument."
        )
    return dtype


def _extents(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor with the values of `array`. An array from `to_numpy` of a bfloat16 tensor gives bfloat16 again.

    Raises TypeError for a NumPy scalar, AttributeError for other objects, and ValueError for an array with negative
    strides.

    >>> import numpy as np
    >>> import cerebras.pytorch as cstorch
    >>> cstorch.from_numpy(np.arange(3))
    tensor([0, 1, 2])
    """
    # The error types and messages are those of the original.
    if isinstance(array, np.generic):
        raise TypeError(f"expected np.ndarray (got numpy.{type(array).__name__})\n  Pass a NumPy array.")
    if isinstance(array, np.ndarray) and any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
            "\n  Pass array.copy()."
        )
    if isinstance(array, np.ndarray) and array.dtype.metadata == BFLOAT16_BITS_DTYPE.metadata is not None:
        words = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16
        return creation.from_numpy(words.view(np.float32)).to(bfloat16)
    if not isinstance(array, np.ndarray):
        raise AttributeError(f"{type(array).__name__!r} object has no attribute 'flags': expected a NumPy array")
    return creation.from_numpy(array)


def to_numpy(tensor: Tensor) -> np.ndarray:
    """Return the values of `tensor` as a NumPy array. bfloat16 values are returned as their bits, with dtype int16.

    Raises RuntimeError if `tensor` requires a gradient.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.to_numpy(torch.arange(3))
    array([0, 1, 2])
    """
    # Scripts catch built-in exceptions, so errors of this package become their cause.
    with reraise_as_builtin():
        if tensor.dtype is bfloat16 and not tensor.requires_grad:
            # bfloat16 is the upper half of a float32. NumPy has no bfloat16, and the original also returns the bits.
            return (tensor.float().numpy().view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16_BITS_DTYPE)
        return tensor.numpy()


def make_constant(tensor: Any) -> Any:
    """Return a tensor of the client as a constant of the traced step on CSX.

    On other backends the argument is returned unchanged, and so is anything that is not a tensor.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.make_constant(torch.ones(2))
    tensor([1., 1.])
    """
    is_traced = process.use_cs() and isinstance(tensor, Tensor)
    return copy_as_constant(tensor, process.current_torch_device()) if is_traced else tensor


class name_scope:
    """A context manager that adds `name` to the scope of operations in printed graphs. `raw` has no effect.

    >>> import torch, cerebras.pytorch as cstorch, lazytensor as lt
    >>> def double(x):
    ...     with cstorch.name_scope("head"):
    ...         return x * 2
    >>> [node.where.scope for node in lt.trace_graph(double, torch.ones(2)).nodes() if node.where]
    ['head', 'head']
    """

    def __init__(self, name: str, raw: bool = False):
        self.name = name

    def __enter__(self) -> None:
        source.push_block(self.name)

    def __exit__(self, *_: object) -> None:
        source.pop_scope()


def set_debug_scope(name: str) -> None:
    """Do nothing. The original sets a prefix for debug names of its compiler."""


def save(state_dict: Any, ckpt_path: Any) -> None:
    """Write a nested structure of tensors, numbers and strings to a new HDF5 checkpoint.

    Raises FileExistsError if `ckpt_path` exists, and FileNotFoundError if its folder does not exist.

    >>> import os, tempfile
    >>> import torch, cerebras.pytorch as cstorch
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.mdl")
    >>> cstorch.save({"weight": torch.ones(2)}, path)
    >>> cstorch.load(path)
    {'weight': tensor([1., 1.])}
    """
    # os.path.exists raises the original's error for an object that is not a path.
    if os.path.exists(ckpt_path) and not isinstance(ckpt_path, str | os.PathLike):
        raise FileExistsError(
            f"Checkpoint at '{ckpt_path}' already exists. Please delete the checkpoint and run again."
        )
    with reraise_as_builtin():
        checkpoint.save(state_dict, ckpt_path)


def load(ckpt_path: Any, map_location: Any = None, **kwargs: Any) -> Any:
    """Return the nested structure stored in an HDF5, safetensors or PyTorch file.

    Tensors of the first two formats are read from the file when they are first used. `map_location` is that of
    `torch.load`. A pickled object is not unpickled; a placeholder is returned in its place, which raises an error when
    used.

    Raises FileNotFoundError, KeyError or RuntimeError if the file is missing, has another format or is incomplete.

    >>> import os, tempfile
    >>> import torch, cerebras.pytorch as cstorch
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.mdl")
    >>> cstorch.save({"epoch": 3}, path)
    >>> cstorch.load(path)["epoch"]
    3
    """
    if not isinstance(ckpt_path, str | os.PathLike):
        raise RuntimeError(
            f"Failed to load checkpoint file `{ckpt_path}`.\n  Give a path: tensors are read when they are used."
            "\n  Pass the path of a checkpoint."
        )
    with reraise_as_builtin():
        return checkpoint.load(ckpt_path, map_location, read_torch=save_and_load.load, **kwargs)


_generating_docs = False
"""Always False. The Model Zoo reads it to decide whether to replace classes by empty ones for its documentation."""
