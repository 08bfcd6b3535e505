"""Functions of the module `cerebras.pytorch.backend` other than the callable `backend` itself."""

import inspect
from collections.abc import Callable, Mapping

from cstorch_compat.run import process
from cstorch_compat.run.backend import BACKEND_FACTORIES, Backend, BackendType
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core.tensor import Tensor

_INTERNAL_PARAMETERS = ("options", "flags")
"""Parameters of the backend factories that the run fills in. `get_backend_args` omits them."""


def current_backend_impl(raise_exception: bool = True) -> Backend:
    """Return the backend of the run. The original returns a separate implementation object here.

    Without a backend, raise RuntimeError, or return the result of `process.current_backend` if `raise_exception` is
    False.
    """
    return process.current_backend(raise_exception)


def get_backend_args(backend_type: str | BackendType) -> Mapping[str, inspect.Parameter]:
    """Return the constructor parameters of a backend type ("CPU", "CSX" or a `BackendType`) by name.

    The first two are "self" and "backend_type", as in the signature of the original's class. Raises ValueError for an
    unknown type.
    """
    kind = backend_type if isinstance(backend_type, BackendType) else BackendType.from_str(backend_type)
    parameters = inspect.signature(BACKEND_FACTORIES[kind.name]).parameters
    # The factories here are functions. Tools that read the original's classes skip its first two parameters by name.
    own = {name: inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", "backend_type")}
    return {**own, **{name: parameter for name, parameter in parameters.items() if name not in _INTERNAL_PARAMETERS}}


def register_after_tensor_to_cpu(hook: Callable[[Tensor, str], None]) -> RemovableHandle:
    """Register `hook(tensor, name)` to be called for each tensor that the wafer returns to the client.

    Returns a handle whose `remove()` unregisters the hook. Raises RuntimeError without a backend.
    """
    return RemovableHandle(process.current_backend().arrivals, hook)
