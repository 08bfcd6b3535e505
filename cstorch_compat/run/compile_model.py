"""`cstorch.compile`: prepare a model for a backend by naming its state and placing it on the device."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run.backend import Backend
from cstorch_compat.run.process import RUN, make_backend
from cstorch_compat.run.wafer_state import LAZY_DEVICE
from lazytensor.core import source, storage
from lazytensor.core.tensor import CPU
from lazytensor.errors import NameMissing, TraceError, refuse
from lazytensor.nn import Module
from lazytensor.nn.module_scopes import name_scopes


def compile_model(model: Any, backend: Any = None) -> Callable[..., Any]:
    """Prepare `model` for a backend and return a function that calls it and has its public methods as attributes.

    Parameters and buffers get names and move to the backend's device; a second call for the same model does not repeat
    this. `backend` is a Backend or a name such as "CSX". None is the existing backend, or a new CPU backend. Sets the
    attributes `device` and `apply` of the model.

    Raises TypeError for None, numbers and strings, and AttributeError for other objects without `train`. On CSX,
    calling the result before any loop over a DataExecutor is refused. So is a second model in the same loop.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 3), cstorch.backend("CPU"))
    >>> model(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """
    owner = _resolve_backend(backend)
    # The original fails here with these errors, because it makes a weak reference to the model.
    if model is None or isinstance(model, int | float | str):
        raise TypeError(f"cannot create weak reference to {type(model).__name__!r} object\n  Pass a torch.nn.Module.")
    if not hasattr(model, "train"):
        raise AttributeError(f"{type(model).__name__!r} object has no attribute 'train'")
    # Write to __dict__ directly: Module.__setattr__ would register the values as parts of the model.
    if "_compiled" not in model.__dict__:
        model.__dict__["_compiled"] = owner
        number = len(owner.prepared)
        _name_state(model, f"model_{number}" if number else "model", owner)
        owner.prepared.append(model)
        # Scripts read `model.device` to place other tensors.
        model.__dict__["device"] = owner.torch_device
        model.__dict__["apply"] = functools.partial(_apply_to_model, model)

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with reraise_as_builtin():
            _refuse_second_model(model)
            _refuse_without_step(owner)
            return model(*args, **kwargs)

    compiled.__name__ = "_wrapped_call_impl"  # the name in the original
    # Scripts call train(), state_dict() and their own methods on the result.
    for name in dir(model):
        if not name.startswith("_") and callable(getattr(model, name)):
            setattr(compiled, name, getattr(model, name))
    compiled.__dict__["device"] = owner.torch_device
    return compiled


def _refuse_without_step(owner: Backend) -> None:
    """Refuse a call of a compiled model on CSX before the first loop: nothing would run the operations."""
    if owner.is_csx and RUN.executor is None and owner.tracing == 0 and not owner.loops:
        # The original fails here with an AttributeError, because the first loop creates an attribute that it needs.
        error = NameMissing(
            "a compiled model was called on CSX before a loop over a DataExecutor",
            where=source.where(),
            hint="Call it in a function decorated with @cstorch.trace, inside such a loop.",
        )
        refuse("outside trace", error)


def _refuse_second_model(model: Any) -> None:
    """Refuse the call of a prepared model in a loop that has called another one. Record the first model of a loop."""
    executor = RUN.executor
    if executor is None:
        return
    # The program of a loop is one graph. A second model would share neither names nor state with the first.
    if executor.model is None:
        executor.model = model
    if executor.model is not model:
        error = TraceError(
            "Detected that more than one compiled model was used in a step function.",
            where=source.where(),
            hint="Make the models parts of one torch.nn.Module, and compile that.",
        )
        refuse("second model", error, type(model).__name__)


def _apply_to_model(model: Any, fn: Any) -> Any:
    """Apply `fn` to a prepared model, in place of `model.apply`.

    An object with a method `apply`, such as a sparsity algorithm, gets the whole model. A function gets each module.
    """
    is_whole = hasattr(fn, "apply") and not isinstance(fn, Module)
    return fn.apply(model) if is_whole else type(model).apply(model, fn)


def _named_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield each parameter and buffer with each of its names, in the order of the state dict."""
    for path, module in model.named_modules(remove_duplicate=False):
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield f"{path}.{name}" if path else name, tensor


def _name_state(model: Any, prefix: str, owner: Backend) -> None:
    """Register each parameter and buffer under `prefix` and its path, and set its device.

    Name the scopes of the modules.

    A tensor with several names gets the last one.
    """
    # A tensor with several names gets the last one, as in the original.
    names = {id(t.cell): (name, t) for name, t in _named_tensors(model)}
    for name, tensor in names.values():
        storage.register(tensor.cell, f"{prefix}.{name}")
        tensor.device = LAZY_DEVICE if owner.is_csx else CPU
    # Operations record the scope of their layer, which names kernels in the report.
    name_scopes(model, prefix)


def _resolve_backend(backend: Any) -> Backend:
    """Return the backend for the argument of `cstorch.compile`: a backend object as it is.

    None gives the current backend, or else a new CPU backend. The name of the current backend's type gives that
    backend, and any other name a new backend.
    """
    if isinstance(backend, Backend):
        return backend
    if backend is None:
        return RUN.backend or make_backend("CPU")
    if RUN.backend is not None and RUN.backend.backend_type.name == str(backend).upper():
        return RUN.backend
    return make_backend(backend)
