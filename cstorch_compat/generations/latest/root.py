"""The functions of `cerebras.pytorch` itself: closures, tensors on the device of the run, files."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.files import checkpoint
from cstorch_compat.names.builtin_errors import as_builtin
from cstorch_compat.nn.wafer_functional import constant
from cstorch_compat.run import process, steps
from cstorch_compat.run.backend import Backend
from lazytensor import source
from lazytensor.functions import creation
from lazytensor.tensor import Tensor


def step_closure(closure: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that reads values: its calls wait until the step has run."""
    return steps.closure(closure, needs_checkpoint=False)


def checkpoint_closure(closure: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that saves state: its calls wait, and are made on checkpoint steps only."""
    return steps.closure(closure, needs_checkpoint=True)


def current_backend(raise_exception: bool = True, raise_warning: bool = True) -> Backend:
    """The backend that was made. Raises RuntimeError if there is none."""
    return process.current_backend(raise_exception)


def full(size: Any, fill_value: float, *, dtype: Any = None) -> Tensor:
    """A tensor of one value everywhere, on the device of the run."""
    return creation.full(size, fill_value, dtype=dtype, device=process.state_device())


def zeros(size: Any, *, dtype: Any = None) -> Tensor:
    """A tensor of zeros, on the device of the run."""
    return creation.zeros(*_extents(size), dtype=dtype, device=process.state_device())


def ones(size: Any, *, dtype: Any = None) -> Tensor:
    """A tensor of ones, on the device of the run."""
    return creation.ones(*_extents(size), dtype=dtype, device=process.state_device())


def _extents(size: Any) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor of the array's values. Raises AttributeError for what is no array."""
    # The words are those of the original, which asks the argument for its flags.
    if not isinstance(array, np.ndarray):
        raise AttributeError(f"{type(array).__name__!r} object has no attribute 'flags': expected a NumPy array")
    return creation.from_numpy(array)


def to_numpy(value: Tensor) -> np.ndarray:
    """The values as a NumPy array. Raises RuntimeError for a tensor that requires a gradient."""
    # Scripts catch built-in errors; ours say more and stay behind them as the cause.
    with as_builtin():
        return value.numpy()


def make_constant(value: Any) -> Any:
    """A tensor of the client as a constant of the traced step; on other backends, or anything else, unchanged."""
    return constant(value, process.current_torch_device()) if process.use_cs() and isinstance(value, Tensor) else value


class name_scope:
    """Names the operations of a block in printed graphs."""

    def __init__(self, scope_name: str):
        self.scope_name = scope_name

    def __enter__(self) -> None:
        source.push_scope(self.scope_name)

    def __exit__(self, *_: object) -> None:
        source.pop_scope()


def set_debug_scope(name: str) -> None:
    """Kept for scripts that call it: a prefix of debug names in the original's compiler."""


def save(state_dict: Any, checkpoint_file: Any) -> None:
    """Write a structure of tensors, numbers and strings to a new H5 file.

    Raises FileExistsError if there is a file already, FileNotFoundError if the folder is missing.
    """
    with as_builtin():
        checkpoint.save(state_dict, checkpoint_file)


def load(checkpoint_file: Any, map_location: Any = None, **options: Any) -> Any:
    """The structure in an H5, safetensors or PyTorch file; tensors of the first two are read when they are used.

    Raises FileNotFoundError, KeyError or RuntimeError for a file that is missing, foreign or half-written. A pickled
    object stays closed: a stand-in comes instead, and using it is an error.
    """
    with as_builtin():
        return checkpoint.load(checkpoint_file, map_location, **options)


_generating_docs = False
"""What the Model Zoo asks before it replaces classes by empty ones for its pages."""
