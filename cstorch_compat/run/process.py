"""The state of a run: one backend in a process, models prepared for it, the executor whose loop is running."""

import functools
import pathlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cstorch_compat.names.builtin_errors import as_builtin
from cstorch_compat.run.closures import Call
from cstorch_compat.run.flags import CSX, Group
from cstorch_compat.run.session import LAZY, EagerSession, WaferSession, WaferSettings
from cstorch_compat.run.wafer_state import WaferState
from lazytensor import source, trace
from lazytensor.compiler.lower import lower_to_cirh
from lazytensor.dtype import DType, float16
from lazytensor.errors import TraceError, refuse
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.store import Store
from lazytensor.step import StepRunner
from lazytensor.tensor import CPU, Device
from wse_sim import WaferBackend

NO_BACKEND = (
    "No active Cerebras backend found. Please make sure that your model has been prepared for compilation.\n"
    "You can do this using a call to:\n\n\tcompiled_model = cstorch.compile(model, backend)"
)
NO_EXECUTOR = (
    "Detected that a data executor was not used.\nPlease wrap your dataloader in a Cerebras DataExecutor:\n\n"
    "\texecutor = cstorch.utils.data.DataExecutor(dataloader, ...)"
)
TYPES = ("CPU", "GPU", "CSX")


@dataclass
class Options:
    """What `lazywafer run` decides for the whole process."""

    machine: str = "wse2"
    mode: str = "auto"
    progress: bool = False
    half: DType = float16
    closure_lag: int = 0
    strict: bool = False
    backend: str = ""  # takes the place of what the script asks for
    steps: int = 0  # most steps of a loop; 0 for as many as the script asks for
    session: "Callable[[Backend], Any] | None" = None  # makes the executions, instead of the backend


options = Options()


@dataclass
class Backend:
    """Where a run takes place. One per process; made by `cstorch.backend(...)`."""

    backend_type: str
    artifact_dir: pathlib.Path
    compile_dir: pathlib.Path | None = None
    validate_only: bool = False
    compile_only: bool = False
    cluster_config: Any = None
    reports: list[Any] = field(default_factory=list)
    loops: list[Any] = field(default_factory=list)  # the rates of the loops that are over
    models: int = 0
    before_loop: list[Callable[[], None]] = field(default_factory=list)
    annotations: dict[str, dict[str, float]] = field(default_factory=dict)  # by state: what the compiler is told of it

    def __post_init__(self) -> None:
        host = HostBackend()
        self.is_cpu, self.is_gpu, self.is_csx = (self.backend_type == kind for kind in TYPES)
        self.torch_device = LAZY if self.is_csx else Device("cpu", 0)
        if self.is_csx:
            wafer = WaferBackend(host, options.machine, options.mode)
            self.store: Store = WaferState()
            self.runner = StepRunner(wafer, self.store, lower_to_cirh)
        else:
            self.store = Store()
            self.runner = StepRunner(host, self.store)

    @property
    def is_e2e_execution(self) -> bool:
        """Whether steps are executed, and not only traced or compiled."""
        return not (self.validate_only or self.compile_only)

    @property
    def is_tracing(self) -> bool:
        """Whether a traced function is running."""
        return _tracing > 0

    @property
    def device(self) -> "DeviceScope":
        """A context manager under which models are made for this backend."""
        return DeviceScope(self)

    def next_folder(self) -> pathlib.Path:
        """Where the next execution leaves its files; it is not there yet."""
        number = 1
        while (folder := self.artifact_dir / "executors" / f"{number:06d}").exists():
            number += 1
        return folder

    def session(self, kind: type[WaferSession] = WaferSession) -> EagerSession | WaferSession:
        """A new execution; on CSX of a kind."""
        if options.session is not None:
            return options.session(self)
        if not isinstance(self.store, WaferState):
            return EagerSession(self.runner, self.store)
        execute = "trace" if self.validate_only else "compile" if self.compile_only else "all"
        settings = WaferSettings(
            self.next_folder(),
            options.half,
            execute=execute,
            closure_lag=options.closure_lag,
            strict=options.strict,
            notes=self.annotations,
            level=flags.precision.optimization_level,
            retrace=flags.debug.retrace_every_iteration,
            compile_dir=str(self.compile_dir or ""),
            widen_cbfloat16=flags.debug.implicit_cast_cb16_to_fp32,
        )
        return kind(self.runner, self.store, settings, self.reports.append)

    def __str__(self) -> str:
        return f"CerebrasBackend({self.backend_type})"


@dataclass(repr=False)
class DeviceScope:
    """`with backend.device:` as scripts write it: what is made in the block lives on the backend's device."""

    owner: Backend

    def __enter__(self) -> "DeviceScope":
        self.owner.torch_device.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.owner.torch_device.__exit__()

    @property
    def config(self) -> Group:
        """Settings such as lazy_initialization and drop_data, where scripts for 2.0 to 2.2 look for them."""
        return flags.debug

    def __str__(self) -> str:
        return self.owner.torch_device.type

    __repr__ = __str__


flags = Group("csx", CSX, lambda: _executor is not None)
"""The settings under `cerebras.pytorch.backends.csx`."""
_backend: Backend | None = None
_executor: Any = None
_tracing = 0


def make_backend(backend_type: Any = None, *args: Any, **kwargs: Any) -> Backend:
    """The backend of this process; without a type the one that was made before.

    CPU takes artifact_dir; CSX also compile_dir, compile_only, validate_only and cluster_config. GPU is the CPU, with
    a warning that says so.
    Raises RuntimeError for a second one or a missing one, ValueError for an unknown type, TypeError for one that is
    no text and for an unknown argument.
    """
    global _backend
    if backend_type is None:
        return current_backend()
    named = getattr(backend_type, "name", backend_type)
    if not isinstance(named, str):
        raise TypeError(f"Expected the type of a backend as one of {list(TYPES)}. Got {backend_type}.")
    kind = options.backend or named.upper()
    if kind not in TYPES:
        raise ValueError(
            f"Invalid Cerebras PyTorch backend type specified. Expected one of {list(TYPES)}. Got {backend_type}."
        )
    if _backend is not None:
        raise RuntimeError(
            f"Cannot instantiate multiple backends. A backend with type {_backend.backend_type} has already been "
            "instantiated.\nUse cstorch.backend() to access the existing backend."
        )
    _backend = _MAKERS[kind](*args, **kwargs)
    return _backend


def _cpu(artifact_dir: Any = None) -> Backend:
    return Backend("CPU", pathlib.Path(artifact_dir or "."))


def _gpu(
    artifact_dir: Any = None,
    enable_distributed: bool = False,
    main_process_id: int = 0,
    dist_backend: str = "nccl",
    init_method: str = "env://",
    sync_batchnorm: bool = False,
) -> Backend:
    warn("There is no GPU here: the GPU backend runs on the CPU, with the same float32 numbers.")
    return Backend("GPU", pathlib.Path(artifact_dir or "."))


def _csx(
    artifact_dir: Any = None,
    compile_dir: Any = None,
    compile_only: bool = False,
    validate_only: bool = False,
    cluster_config: Any = None,
) -> Backend:
    if compile_only and validate_only:
        raise ValueError("compile_only and validate_only exclude each other")
    folder = pathlib.Path(artifact_dir or "cerebras_logs")
    cache = pathlib.Path(compile_dir) if compile_dir else None
    return Backend("CSX", folder, cache, validate_only, compile_only, cluster_config)


_MAKERS: dict[str, Callable[..., Backend]] = {"CPU": _cpu, "GPU": _gpu, "CSX": _csx}


def current_backend(raise_exception: bool = True) -> Backend:
    """The backend that was made. Raises RuntimeError if there is none."""
    if _backend is None and raise_exception:
        raise RuntimeError(NO_BACKEND)
    return _backend  # type: ignore[return-value]


def use_cs() -> bool:
    """Whether the run takes place on a CSX."""
    return _backend is not None and _backend.is_csx


def current_torch_device() -> Device:
    """The device that tensors of the run live on."""
    return _backend.torch_device if _backend is not None else CPU


def state_device() -> Device:
    """The device of optimizer and metric state."""
    return LAZY if use_cs() else CPU


def running_executor() -> Any:
    """The executor whose loop is running; None outside a loop."""
    return _executor


def current_executor() -> Any:
    """The executor whose loop is running. Raises RuntimeError outside a loop."""
    if _executor is None:
        raise RuntimeError(NO_EXECUTOR)
    return _executor


def enter_executor(executor: Any) -> Any:
    """Make an executor the running one; returns the one before it."""
    global _executor
    before, _executor = _executor, executor
    return before


def compile_model(model: Any, backend: Any = None) -> Callable:
    """Prepare a module: name its parameters and buffers, put them on the backend's device.

    Returns a function that calls the model and carries its public methods.
    """
    owner = _backend_for(backend)
    if "_compiled" not in model.__dict__:
        model.__dict__["_compiled"] = owner
        _name_state(model, "model" if owner.models == 0 else f"model_{owner.models}", owner)
        owner.models += 1
        model.__dict__["apply"] = functools.partial(_apply, model)

    def compiled(*args: Any, **kwargs: Any) -> Any:
        with as_builtin():
            _refuse_second(model)
            return model(*args, **kwargs)

    for name in dir(model):
        if not name.startswith("_") and callable(getattr(model, name)):
            setattr(compiled, name, getattr(model, name))
    compiled.device = owner.torch_device  # type: ignore[attr-defined]
    return compiled


def _refuse_second(model: Any) -> None:
    """Refuse a prepared model in a loop that has called another one."""
    if _executor is None:
        return
    if _executor.model is None:
        _executor.model = model
    if _executor.model is not model:
        error = TraceError(
            "Detected that more than one compiled model was used in a step function.",
            where=source.where(),
            hint="Make the models parts of one torch.nn.Module, and compile that.",
        )
        refuse("second model", error, type(model).__name__)


def _apply(model: Any, fn: Any) -> Any:
    """`model.apply` of a prepared model: a sparsity algorithm takes the model as a whole."""
    return fn.apply(model) if hasattr(fn, "sparsify_module") else type(model).apply(model, fn)


def _name_state(model: Any, prefix: str, owner: Backend) -> None:
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        trace.register(tensor.cell, f"{prefix}.{name}")
        tensor.device = LAZY if owner.is_csx else CPU
    for name, module in model.named_modules():
        module.__dict__["_scope"] = name.rpartition(".")[2] or prefix


def _backend_for(backend: Any) -> Backend:
    if isinstance(backend, Backend):
        return backend
    if backend is None:
        return _backend or make_backend("CPU")
    if _backend is not None and _backend.backend_type == str(backend).upper():
        return _backend
    return make_backend(backend)


def trace_function(step_fn: Callable) -> Callable:
    """Mark a function as the body of a step: everything in it belongs to the graph that is compiled."""

    def generated_trace_fn(*args: Any, **kwargs: Any) -> Any:
        global _tracing
        executor = current_executor()
        _tracing += 1
        try:
            with as_builtin():
                return executor.session.call(step_fn, args, kwargs)
        finally:
            _tracing -= 1

    generated_trace_fn.__qualname__ = "trace.<locals>.generated_trace_fn"
    return generated_trace_fn


def closure(function: Callable, needs_checkpoint: bool) -> Callable:
    """A function that is called when the step is over; where no loop runs, at once, or not at all for a checkpoint.

    A call made by a closure waits for the end of the next step, as in the original.
    """

    @functools.wraps(function)
    def queued(*args: Any, **kwargs: Any) -> Any:
        if _executor is not None:
            session = _executor.session
            held = session.held(args), session.held(kwargs)
            session.closures.queue.append(Call(function, *held, needs_checkpoint, source.where()))
            return None
        if not needs_checkpoint:
            return function(*args, **kwargs)
        warn(f"{function.__name__} was not called: state is fetched in the loop over a cstorch.utils.data.DataExecutor")
        return None

    return queued


def warn(text: str) -> None:
    """Warn at the user's line."""
    place = source.where()
    warnings.warn_explicit(text, UserWarning, place.file, place.line)
