"""What this process holds of its run: settings, one backend, the running executor. `RUN.reset()` starts over.

The original keeps one backend for each process, and so does this. Everything else that lives as long as a run lies in a
`RunLocal` of it, so that a second run in one process, as tests want it, finds nothing of the first.
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
NO_EXECUTOR = (
    "Detected that a data executor was not used.\nPlease wrap your dataloader in a Cerebras DataExecutor:\n\n"
    "\texecutor = cstorch.utils.data.DataExecutor(dataloader, ...)"
)

T = TypeVar("T")


class RunState:
    """One run, from the first line of a script to its last."""

    def __init__(self) -> None:
        self.options = RunOptions()
        # Settings are compiled into the program, so they stand still while a loop runs.
        self.flags = FlagGroup("csx", CSX_SETTINGS, lambda: self.executor is not None)
        self.backend: Backend | None = None
        self.executor: Any = None  # whose loop is running
        self.slots: dict[RunLocal[Any], Any] = {}

    def reset(self) -> None:
        """Be as in a new process: no backend, no loop, no step, default settings and seeds.

        Tensors, models and optimizers of the run before are not to be used in the next one.
        """
        if self.executor is not None:
            self.executor.session.close()
        self.options, self.backend, self.executor = RunOptions(), None, None
        # Modules of the API hold the very tree, so it is emptied where it stands.
        self.flags.restore()
        self.slots.clear()
        spans.stop_recording()
        # The state of lazytensor is the process's too: what is recorded, what is drawn, and who is told of refusals.
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
        # A node that somebody still holds would be found for an equal one, and name a line of the script before.
        clear_splat_cache()
        graph.clear_intern_table()


RUN = RunState()
"""The run of this process."""


class RunLocal(Generic[T]):
    """A value that another module keeps for as long as the run lasts; `make` gives the one that a run begins with."""

    def __init__(self, make: Callable[[], T]):
        self.make = make

    @property
    def value(self) -> T:
        """What the present run has here."""
        if self not in RUN.slots:
            RUN.slots[self] = self.make()
        present: T = RUN.slots[self]
        return present

    @value.setter
    def value(self, value: T) -> None:
        RUN.slots[self] = value


def make_backend(backend_type: Any = None, *args: Any, **kwargs: Any) -> Backend:
    """The backend of this process; without a type the one that was made before.

    CPU takes artifact_dir; CSX also compile_dir, compile_only, validate_only and cluster_config.
    Raises RuntimeError for a second one, a missing one and the GPU, ValueError for an unknown type, TypeError for one
    that is no text and for an unknown argument.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.backend("CPU").is_cpu
    True
    """
    if backend_type is None:
        return current_backend()
    named = getattr(backend_type, "name", backend_type)
    if not isinstance(named, str):
        raise TypeError(f"Expected the type of a backend as one of {list(BACKEND_NAMES)}. Got {backend_type}.")
    # The command line has the last word: a check runs every script as if it asked for CSX.
    kind = RUN.options.backend or named.upper()
    if kind not in BACKEND_NAMES:
        raise ValueError(
            f"Invalid Cerebras PyTorch backend type specified. Expected one of {list(BACKEND_NAMES)}. Got "
            f"{backend_type}."
        )
    if RUN.backend is not None:
        raise RuntimeError(
            f"Cannot instantiate multiple backends. A backend with type {RUN.backend.backend_type.name} has already "
            "been instantiated.\nUse cstorch.backend() to access the existing backend."
        )
    with reraise_as_builtin():
        RUN.backend = BACKEND_FACTORIES[kind](RUN.options, RUN.flags, *args, **kwargs)
    return RUN.backend


def current_backend(raise_exception: bool = True) -> Backend:
    """The backend that was made. Raises RuntimeError if there is none."""
    if RUN.backend is None and raise_exception:
        raise RuntimeError(NO_BACKEND)
    return RUN.backend  # type: ignore[return-value]


def use_cs() -> bool:
    """Whether the run takes place on a CSX.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.use_cs()
    False
    """
    return RUN.backend is not None and RUN.backend.is_csx


def current_torch_device() -> Device:
    """The device that tensors of the run live on.

    >>> import cerebras.pytorch as cstorch
    >>> cstorch.current_torch_device()
    device(type='cpu')
    """
    return RUN.backend.torch_device if RUN.backend is not None else CPU


def state_device() -> Device:
    """The device of optimizer and metric state."""
    return LAZY_DEVICE if use_cs() else CPU


def running_executor() -> Any:
    """The executor whose loop is running; None outside a loop."""
    return RUN.executor


def current_executor() -> Any:
    """The executor whose loop is running. Raises RuntimeError outside a loop.

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
    """Make an executor the running one; returns the one before it."""
    before, RUN.executor = RUN.executor, executor
    return before


def leave_executor(executor: Any, before: Any) -> None:
    """Make the one before the running one again, unless the run has started over in the meantime."""
    if RUN.executor is executor:
        RUN.executor = before
