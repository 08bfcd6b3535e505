"""The functions of `cerebras.pytorch` itself: closures, tensors on the device of the run, files."""

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
"""What bfloat16 is on the way through NumPy; the note tells it from whole numbers on the way back."""


def step_closure(closure: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that reads values: its calls wait until the step has run.

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
    """Decorate a function that saves state: its calls wait, and are made on checkpoint steps only.

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
    """The backend that was made. Raises RuntimeError if there is none.

    >>> import cerebras.pytorch as cstorch
    >>> backend = cstorch.backend("CPU")
    >>> cstorch.current_backend() is backend
    True
    """
    return process.current_backend(raise_exception)


def full(shape: Any, value: float, dtype: Any = None) -> Tensor:
    """A tensor of one value everywhere, on the device of the run.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.full((2,), 7)
    tensor([7, 7])
    """
    return creation.full(shape, value, dtype=_dtype(dtype), device=process.state_device())


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor of zeros, on the device of the run.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.zeros(2)
    tensor([0., 0.])
    """
    return creation.zeros(*_extents(shape), dtype=_dtype(dtype), device=process.state_device())


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor of ones, on the device of the run.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.ones(2)
    tensor([1., 1.])
    """
    return creation.ones(*_extents(shape), dtype=_dtype(dtype), device=process.state_device())


def full_like(other: Tensor, value: float, dtype: Any = None) -> Tensor:
    """A tensor of one value, with the shape, dtype and device of another.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.full_like(torch.ones(2), 7)
    tensor([7., 7.])
    """
    return creation.full_like(other, value, dtype=dtype)


def zeros_like(other: Tensor, dtype: Any = None) -> Tensor:
    """Zeros with the shape, dtype and device of another tensor.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.zeros_like(torch.ones(2))
    tensor([0., 0.])
    """
    return creation.zeros_like(other, dtype=dtype)


def ones_like(other: Tensor, dtype: Any = None) -> Tensor:
    """Ones with the shape, dtype and device of another tensor.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.ones_like(torch.zeros(2))
    tensor([1., 1.])
    """
    return creation.ones_like(other, dtype=dtype)


def _dtype(dtype: Any) -> DType | None:
    # Extents one by one, as PyTorch takes them, put a number here.
    if dtype is not None and not isinstance(dtype, DType):
        raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(dtype).__name__}: give the shape as a tuple")
    return dtype


def _extents(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor of the array's values.

    Raises AttributeError or TypeError for what is no array, ValueError for one that is stored backwards.

    >>> import numpy as np
    >>> import cerebras.pytorch as cstorch
    >>> cstorch.from_numpy(np.arange(3))
    tensor([0, 1, 2])
    """
    # The kinds of errors and their words are those of the original, which asks the argument for its flags.
    if isinstance(array, np.generic):
        raise TypeError(f"expected np.ndarray (got numpy.{type(array).__name__})")
    if isinstance(array, np.ndarray) and any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if isinstance(array, np.ndarray) and array.dtype.metadata == BFLOAT16_BITS_DTYPE.metadata is not None:
        words = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16
        return creation.from_numpy(words.view(np.float32)).to(bfloat16)
    if not isinstance(array, np.ndarray):
        raise AttributeError(f"{type(array).__name__!r} object has no attribute 'flags': expected a NumPy array")
    return creation.from_numpy(array)


def to_numpy(tensor: Tensor) -> np.ndarray:
    """The values as a NumPy array, of bfloat16 its bits as int16. Raises RuntimeError if it requires a gradient.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.to_numpy(torch.arange(3))
    array([0, 1, 2])
    """
    # Scripts catch built-in errors; ours say more and stay behind them as the cause.
    with reraise_as_builtin():
        if tensor.dtype is bfloat16 and not tensor.requires_grad:
            # The upper half of a float32, as the original hands on what NumPy has no type for.
            return (tensor.float().numpy().view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16_BITS_DTYPE)
        return tensor.numpy()


def make_constant(tensor: Any) -> Any:
    """A tensor of the client as a constant of the traced step; on other backends, or anything else, unchanged.

    >>> import torch, cerebras.pytorch as cstorch
    >>> cstorch.make_constant(torch.ones(2))
    tensor([1., 1.])
    """
    is_traced = process.use_cs() and isinstance(tensor, Tensor)
    return copy_as_constant(tensor, process.current_torch_device()) if is_traced else tensor


class name_scope:
    """Names the operations of a block in printed graphs; `raw` says nothing here.

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
    """Kept for scripts that call it: a prefix of debug names in the original's compiler."""


def save(state_dict: Any, ckpt_path: Any) -> None:
    """Write a structure of tensors, numbers and strings to a new H5 file.

    Raises FileExistsError if there is a file already, FileNotFoundError if the folder is missing.

    >>> import os, tempfile
    >>> import torch, cerebras.pytorch as cstorch
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.mdl")
    >>> cstorch.save({"weight": torch.ones(2)}, path)
    >>> cstorch.load(path)
    {'weight': tensor([1., 1.])}
    """
    # Python's own question says what is no path, in the words that the original answers with.
    if os.path.exists(ckpt_path) and not isinstance(ckpt_path, str | os.PathLike):
        raise FileExistsError(
            f"Checkpoint at '{ckpt_path}' already exists. Please delete the checkpoint and run again."
        )
    with reraise_as_builtin():
        checkpoint.save(state_dict, ckpt_path)


def load(ckpt_path: Any, map_location: Any = None, **kwargs: Any) -> Any:
    """The structure in an H5, safetensors or PyTorch file; tensors of the first two are read when they are used.

    Raises FileNotFoundError, KeyError or RuntimeError for a file that is missing, foreign or half-written. A pickled
    object stays closed: a stand-in comes instead, and using it is an error.

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
        )
    with reraise_as_builtin():
        return checkpoint.load(ckpt_path, map_location, read_torch=save_and_load.load, **kwargs)


_generating_docs = False
"""What the Model Zoo asks before it replaces classes by empty ones for its pages."""
