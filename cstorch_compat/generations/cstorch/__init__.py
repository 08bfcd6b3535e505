"""What `import cerebras.pytorch` finds: the API of release 2.10, as far as it is there."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat import manifest, run
from cstorch_compat.common.checkpoint import load, save
from cstorch_compat.generations.cstorch import amp, backends, distributed, metrics, nn, optim, sparse, utils
from cstorch_compat.run import compile_model as compile
from cstorch_compat.run import current_executor, current_torch_device, use_cs
from cstorch_compat.run import make_backend as backend
from cstorch_compat.run import trace_function as trace
from lazytensor import source
from lazytensor.functions import creation
from lazytensor.functions.creation import from_numpy, full_like, ones_like, tensor, zeros_like
from lazytensor.tensor import Tensor

__version__ = "2.10.0"


def step_closure(closure: Callable) -> Callable:
    """Decorate a function that reads values: its calls wait until the step has run."""
    return run.closure(closure, needs_checkpoint=False)


def checkpoint_closure(closure: Callable) -> Callable:
    """Decorate a function that saves state: its calls wait, and are made on checkpoint steps only."""
    return run.closure(closure, needs_checkpoint=True)


def current_backend(raise_exception: bool = True, raise_warning: bool = True) -> run.Backend:
    """The backend that was made. Raises RuntimeError if there is none."""
    return run.current_backend(raise_exception)


def full(size: Any, fill_value: float, *, dtype: Any = None) -> Tensor:
    """A tensor of one value everywhere, on the device of the run."""
    return creation.full(size, fill_value, dtype=dtype, device=run.state_device())


def zeros(size: Any, *, dtype: Any = None) -> Tensor:
    """A tensor of zeros, on the device of the run."""
    return creation.zeros(*_extents(size), dtype=dtype, device=run.state_device())


def ones(size: Any, *, dtype: Any = None) -> Tensor:
    """A tensor of ones, on the device of the run."""
    return creation.ones(*_extents(size), dtype=dtype, device=run.state_device())


def _extents(size: Any) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def to_numpy(value: Tensor) -> np.ndarray:
    """The values as a NumPy array."""
    return value.numpy()


def make_constant(value: Any) -> Any:
    """A tensor that the compiler may fold; here every captured tensor that does not change is one."""
    return value


class name_scope:
    """Names the operations of a block in printed graphs."""

    def __init__(self, scope_name: str):
        self.scope_name = scope_name

    def __enter__(self) -> None:
        source.push_scope(self.scope_name)

    def __exit__(self, *_: object) -> None:
        source.pop_scope()


manifest.explain("cerebras.pytorch", sys.modules[__name__])
