"""The state of this process's run: settings, one backend, and the running executor.

A process has one backend, as with the original. Other modules keep their state of the run in `RunLocal` objects, so
that `RUN.reset()` makes a second run in the same process, as in tests, independent of the first.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.profiling import spans
from cstorch_compat.run.backend import BACKEND_FACTORIES, BACKEND_NAMES, Backend
from cstorch_compat.run.flags import CSX_SETTINGS, FlagGroup
from cstorch_compat.run.options import RunOptions
from cstorch_compat.run.wafer_state import LAZY_DEVICE
from lazytensor import errors, random
from lazytensor.core import source, storage
from lazytensor.core.device import set_reading_rule
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import CPU, Device, set_grad_enabled
from lazytensor.functional import random_state
from lazytensor.functional.type_promotion import set_default_dtype
from lazytensor.ir import graph
from lazytensor.nn import hooks
from lazytensor.ops.op import clear_splat_cache
from lazytensor.optim.traced import optimizer as traced_optimizer

NO_BACKEND = (
    "No active Cerebras backend found. Please make sure that your model has been prepared for compilation.\n"
    "You can do this using a call to:\n\n\tcompiled_model = cstorch.compile(model, backend)"
)
"""Error message if no backend exists."""
NO_EXECUTOR = (
    "Detected that a data executor was not used.\nPlease wrap your dataloader in a Cerebras DataExecutor:\n\n"
    "\texecutor = cstorch.utils.data.DataExecutor(dataloader, ...)"
)
"""Error message outside of a loop over a DataExecutor."""

T = TypeVar("T")


class RunState:
    """The state of one run.

    options: the options of the command line
    flags: the settings of `cstorch.backends.csx`
    backend: the backend, or None
    executor: the executor whose loop is running, or None
    slots: the values of RunLocal objects
    """

    def __init__(self) -> None:
        self.options = RunOptions()
        # Settings are compiled into the program, so they must not change while a loop runs.
        self.flags = FlagGroup("csx", CSX_SETTINGS, lambda: self.executor is not None)
        self.backend: Backend | None = None
        self.executor: Any = None  # the executor whose loop is running
        self.slots: dict[RunLocal[Any], Any] = {}

    def reset(self) -> None:
        """Reset to the state of a new process: no backend, loop or step, and default settings and seeds.

        Also resets the global state of lazytensor. Tensors, models and optimizers of the previous run must not be used
        again.
        """
        if self.executor is not None:
            self.executor.session.close()
        self.options, self.backend, self.executor = RunOptions(), None, None
        # Reset the tree in place, because modules of the API refer to it.
        self.flags.restore()
        self.slots.clear()
        spans.stop_recording()
        # Reset the global state of lazytensor too: captures, random numbers, hooks and the refusal reporter.
        storage.reset()
        errors.report_to(None)
        source.reset()
        set_grad_enabled(True)
        set_reading_rule(None)
        set_default_dtype(float32)
        random.default_generator.restart()
        random_state.restart_draws()
        hooks.clear_global_hooks()
        traced_optimizer.forget()
        # Clear the table of interned nodes: equal nodes of the new run would get the old script's lines.
        clear_splat_cache()
        graph.clear_intern_table()


RUN = RunState()
"""The run of this process."""


class RunLocal(Generic[T]):
    """A value that another module keeps for the duration of a run. `make()` returns the initial value of each run."""

    def __init__(self, make: Callable[[], T]):
        self.make = make

    @property
    def value(self) -> T:
        """The value in the current run. Assigning replaces it."""
        if self not in RUN.slots:
            RUN.slots[self] = self.make()
        present: T = RUN.slots[self]
        return present

    @value.setter
    def value(self, value: T) -> None:
        RUN.slots[self] = value


def make_backend(backend_type: Any = None, *args: Any, **kwargs: Any) -> Backend:
    """Create the backend of this process and return it; without `backend_type` return the existing one.

    `backend_type` is "CPU", "GPU" or "CSX", or a BackendType. The CPU accepts `artifact_dir`; CSX also accepts
    `compile_dir`, `compile_only`, `validate_only` and `cluster_config`.

    Raises RuntimeError if a backend exists already, if none exists and no type is given, and for the GPU. Raises
    ValueError for an unknown type, and TypeError for a type that is no string and for an unknown argument.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.backend("CPU").is_cpu
    True
    """
    if backend_type is None:
        return current_backend()
    named = getattr(backend_type, "name", backend_type)
    if not isinstance(named, str):
        raise TypeError(
            f"Expected the type of a backend as one of {list(BACKEND_NAMES)}. Got {backend_type}."
            "\n  Pass one of these names."
        )
    # The command line overrides the script: a check runs every script on CSX.
    kind = RUN.options.backend or named.upper()
    if kind not in BACKEND_NAMES:
        raise ValueError(
            f"Invalid Cerebras PyTorch backend type specified. Expected one of {list(BACKEND_NAMES)}. Got "
            f"{backend_type}."
            "\n  Pass one of these names."
        )
    if RUN.backend is not None:
        raise RuntimeError(
            f"Cannot instantiate multiple backends. A backend with type {RUN.backend.backend_type.name} has already "
            "been instantiated.\nUse cstorch.backend() to access the existing backend."
            "\n  Call cstorch.backend() without arguments."
        )
    with reraise_as_builtin():
        RUN.backend = BACKEND_FACTORIES[kind](RUN.options, RUN.flags, *args, **kwargs)
    return RUN.backend


def current_backend(raise_exception: bool = True) -> Backend:
    """Return the backend of this process.

    Without one, raise RuntimeError, or return None if `raise_exception` is False.
    """
    if RUN.backend is None and raise_exception:
        raise RuntimeError(NO_BACKEND + '\n  Call cstorch.backend("CSX") first.')
    return RUN.backend  # type: ignore[return-value]


def use_cs() -> bool:
    """Return whether the backend is a CSX.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.use_cs()
    False
    """
    return RUN.backend is not None and RUN.backend.is_csx


def current_torch_device() -> Device:
    """Return the device of the backend, or the CPU if there is no backend.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.current_torch_device()
    device(type='cpu')
    """
    return RUN.backend.torch_device if RUN.backend is not None else CPU


def state_device() -> Device:
    """Return the device for optimizer and metric state."""
    return LAZY_DEVICE if use_cs() else CPU


def running_executor() -> Any:
    """Return the executor whose loop is running, or None outside of a loop."""
    return RUN.executor


def current_executor() -> Any:
    """Return the executor whose loop is running. Raises RuntimeError outside of a loop.

    >>> import torch, cerebras.pytorch as cstorch
    >>> backend = cstorch.backend("CPU")
    >>> loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(2)])
    >>> executor = cstorch.utils.data.DataExecutor(loader, num_steps=1)
    >>> [cstorch.current_executor() is executor for batch in executor]
    [True]
    """
    if RUN.executor is None:
        raise RuntimeError(NO_EXECUTOR)
    return RUN.executor


def enter_executor(executor: Any) -> Any:
    """Make `executor` the running one and return the previous one."""
    before, RUN.executor = RUN.executor, executor
    return before


def leave_executor(executor: Any, before: Any) -> None:
    """Make `before` the running executor again, unless `RUN` was reset meanwhile."""
    if RUN.executor is executor:
        RUN.executor = before
