"""What the module `cerebras.pytorch.backend` has beside the function of that name."""

import inspect
from collections.abc import Callable, Mapping

from cstorch_compat.run import process
from cstorch_compat.run.backend import BACKEND_FACTORIES, Backend, BackendType
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core.tensor import Tensor

_INTERNAL_PARAMETERS = ("options", "flags")
"""What the makers take from the run and not from scripts."""


def current_backend_impl(raise_exception: bool = True) -> Backend:
    """The backend that was made; here it is its own implementation. Raises RuntimeError if there is none."""
    return process.current_backend(raise_exception)


def get_backend_args(backend_type: str | BackendType) -> Mapping[str, inspect.Parameter]:
    """The parameters of a kind of backend by name, as its class has them. Raises ValueError for an unknown kind."""
    kind = backend_type if isinstance(backend_type, BackendType) else BackendType.from_str(backend_type)
    parameters = inspect.signature(BACKEND_FACTORIES[kind.name]).parameters
    # The makers here are functions; tools that read the original's classes skip its first two parameters by name.
    own = {name: inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "backend_type")}
    return {**own, **{name: parameter for name, parameter in parameters.items() if name not in _INTERNAL_PARAMETERS}}


def register_after_tensor_to_cpu(hook: Callable[[Tensor, str], None]) -> RemovableHandle:
    """Call a function with each tensor that comes from the wafer to the client, and its name.

    Raises RuntimeError if there is no backend.
    """
    return RemovableHandle(process.current_backend().arrivals, hook)
