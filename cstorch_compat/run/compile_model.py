"""Preparing a model for the run: its state gets its names and its device, and calling it is watched."""

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
    """Prepare a module: name its parameters and buffers, put them on the backend's device.

    Returns a function that calls the model and carries its public methods.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 3), cstorch.backend("CPU"))
    >>> model(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """
    owner = _resolve_backend(backend)
    # The original keeps a weak reference to what it is given, which is where it notices what cannot be a model.
    if model is None or isinstance(model, int | float | str):
        raise TypeError(f"cannot create weak reference to {type(model).__name__!r} object")
    if not hasattr(model, "train"):
        raise AttributeError(f"{type(model).__name__!r} object has no attribute 'train'")
    # Into __dict__, past Module.__setattr__, which would take the backend or the method for part of the model.
    if "_compiled" not in model.__dict__:
        model.__dict__["_compiled"] = owner
        number = len(owner.prepared)
        _name_state(model, f"model_{number}" if number else "model", owner)
        owner.prepared.append(model)
        # Where the model lives from now on, for scripts that make tensors beside it.
        model.__dict__["device"] = owner.torch_device
        model.__dict__["apply"] = functools.partial(_apply_to_model, model)

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with reraise_as_builtin():
            _refuse_second_model(model)
            _refuse_without_step(owner)
            return model(*args, **kwargs)

    compiled.__name__ = "_wrapped_call_impl"  # what the original's function is called
    # Scripts call train(), state_dict() and methods of their own on what they get back.
    for name in dir(model):
        if not name.startswith("_") and callable(getattr(model, name)):
            setattr(compiled, name, getattr(model, name))
    compiled.__dict__["device"] = owner.torch_device
    return compiled


def _refuse_without_step(owner: Backend) -> None:
    """Refuse a call on the wafer before any loop over an executor: nothing would ever run what it records."""
    if owner.is_csx and RUN.executor is None and owner.tracing == 0 and not owner.loops:
        # The original meets a field here that the first loop makes, and raises the error that Python has for that.
        error = NameMissing(
            "a compiled model was called on CSX before a loop over a DataExecutor",
            where=source.where(),
            hint="Call it in a function decorated with @cstorch.trace, inside such a loop.",
        )
        refuse("outside trace", error)


def _refuse_second_model(model: Any) -> None:
    """Refuse a prepared model in a loop that has called another one."""
    executor = RUN.executor
    if executor is None:
        return
    # The program of a loop is one graph: a second model in it would not share names or state with the first.
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
    """`model.apply` of a prepared model: a sparsity algorithm and its kind take the model as a whole."""
    is_whole = hasattr(fn, "apply") and not isinstance(fn, Module)
    return fn.apply(model) if is_whole else type(model).apply(model, fn)


def _named_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Every parameter and buffer under every name that it has, in the order of the state dict."""
    for path, module in model.named_modules(remove_duplicate=False):
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield f"{path}.{name}" if path else name, tensor


def _name_state(model: Any, prefix: str, owner: Backend) -> None:
    # A tensor that stands in several places has the last one's name, as in the original.
    names = {id(t.cell): (name, t) for name, t in _named_tensors(model)}
    for name, tensor in names.values():
        storage.register(tensor.cell, f"{prefix}.{name}")
        tensor.device = LAZY_DEVICE if owner.is_csx else CPU
    # Operations carry the scope of the layer that made them, which names kernels in the report.
    name_scopes(model, prefix)


def _resolve_backend(backend: Any) -> Backend:
    if isinstance(backend, Backend):
        return backend
    if backend is None:
        return RUN.backend or make_backend("CPU")
    if RUN.backend is not None and RUN.backend.backend_type.name == str(backend).upper():
        return RUN.backend
    return make_backend(backend)
