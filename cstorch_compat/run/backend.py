"""The backends that a script can create, and the data that a run on one of them collects."""

import enum
import importlib
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from cstorch_compat.run import setting_checks
from cstorch_compat.run.eager_session import EagerSession
from cstorch_compat.run.flags import FlagGroup
from cstorch_compat.run.options import RunOptions
from cstorch_compat.run.setting_checks import ExploredSizes
from cstorch_compat.run.wafer_session import WaferSession, WaferSettings
from cstorch_compat.run.wafer_state import LAZY_DEVICE, WaferState, refuse_reading
from lazytensor import random
from lazytensor.compiler.pipeline import CSX, Compilation
from lazytensor.core import source
from lazytensor.core.device import set_reading_rule
from lazytensor.core.step import StepRunner
from lazytensor.core.tensor import Device
from lazytensor.errors import ArgumentInvalid
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.program import Density, Program
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store


class BackendType(enum.Enum):
    """The kinds of backends."""

    CPU = 1
    GPU = 2
    CSX = 3

    @staticmethod
    def from_str(backend_type: str) -> "BackendType":
        """Return the member with the name `backend_type`, in upper or lower case.

        Raises ValueError for an unknown name.
        """
        try:
            return BackendType[backend_type.upper()]
        except KeyError:
            raise ValueError(
                f"Invalid Cerebras PyTorch backend type specified. Expected one of {list(BACKEND_NAMES)}. "
                f"Got {backend_type}."
                "\n  Pass one of these names."
            ) from None

    @property
    def is_cpu(self) -> bool:
        """Whether this is the CPU."""
        return self is BackendType.CPU

    @property
    def is_gpu(self) -> bool:
        """Whether this is the GPU."""
        return self is BackendType.GPU

    @property
    def is_csx(self) -> bool:
        """Whether this is the wafer."""
        return self is BackendType.CSX


BACKEND_NAMES = tuple(kind.name for kind in BackendType)
"""The names of the members of BackendType."""


@dataclass(kw_only=True)
class Backend:
    """A backend, as `cstorch.backend(...)` returns it. A process has at most one.

    backend_type, options, flags: its kind, the options of the command line, and the settings of `cstorch.backends.csx`
    artifact_dir: the folder for the texts of each loop
    compile_dir: the folder for compiled kernels; None for the cache folder
    validate_only: whether loops stop after lowering their first step
    compile_only: whether loops stop after planning their first step
    cluster_config: the script's ClusterConfig, or None
    reports: the plan report of each compiled program
    compilations: the compilations of those programs, if `options.keeps_compilations`
    loops: the measured rates of each finished loop
    prepared: the models passed to `cstorch.compile`, in order
    tracing: nesting depth of traced functions that are running
    before_loop: functions that the executor calls before a loop
    at_first_step: functions that the executor calls when the first step of a loop has begun
    annotations: facts on each state for the compiler, by state name
    densities: the fraction of each state that its mask keeps, by state name
    arrivals: functions that get each tensor fetched from the wafer and its name, by handle number
    appliance: always None; the connection to the cluster in the original
    """

    backend_type: BackendType
    artifact_dir: pathlib.Path
    options: RunOptions
    flags: FlagGroup
    compile_dir: pathlib.Path | None = None
    validate_only: bool = False
    compile_only: bool = False
    cluster_config: Any = None
    reports: list[Any] = field(default_factory=list)
    compilations: list[Compilation] = field(default_factory=list)
    loops: list[Any] = field(default_factory=list)
    prepared: list[Any] = field(default_factory=list)
    tracing: int = 0
    before_loop: list[Callable[[], None]] = field(default_factory=list)
    at_first_step: list[Callable[[], None]] = field(default_factory=list)
    annotations: dict[str, dict[str, float]] = field(default_factory=dict)
    densities: dict[str, Density] = field(default_factory=dict)
    arrivals: dict[int, Callable[[Any, str], None]] = field(default_factory=dict)
    appliance: None = None

    def __post_init__(self) -> None:
        host = HostBackend()
        self.is_cpu, self.is_gpu, self.is_csx = (self.backend_type is kind for kind in BackendType)
        self.torch_device = LAZY_DEVICE if self.is_csx else Device("cpu", 0)
        if self.is_csx:
            # Imported here, because a run on the CPU does not need the simulator, which doubles the import time.
            wafer_backend = importlib.import_module("wse_sim").WaferBackend
            wafer = wafer_backend(host, self.options.machine, self.options.mode, self.noted)
            self.store: Store = WaferState(lambda: self.flags.debug.lazy_initialization)
            self.runner = StepRunner(wafer, self.store, CSX)
            set_reading_rule(None if self.is_e2e_execution else refuse_reading)
        else:
            self.store = Store()
            self.runner = StepRunner(host, self.store)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Backend":
        """Return the backend itself, so that a deep copy of a prepared model belongs to the same backend."""
        return self

    @property
    def _impl(self) -> "Backend":
        """The backend itself. The original has a separate object here, which the Model Zoo accesses."""
        return self

    @property
    def is_e2e_execution(self) -> bool:
        """Whether steps are executed: neither `validate_only` nor `compile_only` is set."""
        return not (self.validate_only or self.compile_only)

    @property
    def is_tracing(self) -> bool:
        """Whether a traced function is running."""
        return self.tracing > 0

    def noted(self, program: Program) -> Program:
        """Return `program` with the script's settings for its plan.

        These are the densities of masked weights, the precision level, the micro-batching and the number of systems.
        """
        micro_batching, systems = self.planning
        return replace(
            program,
            density=dict(self.densities),
            precision_level=self.flags.precision.optimization_level,
            micro_batching=micro_batching,
            systems=systems,
        )

    @property
    def planning(self) -> tuple[MicroBatching, int]:
        """How the batch is split into micro-batches, and the number of systems (1 without a ClusterConfig)."""
        systems: int = getattr(self.cluster_config, "num_csx", None) or 1
        return _parse_micro_batching(self.flags.performance.micro_batch_size), systems

    @property
    def cluster(self) -> "ClusterJobs":
        """The object for cluster jobs of this run."""
        return ClusterJobs(self)

    def to_cpu(self, tensor: Any) -> Any:
        """Return `tensor.to("cpu")`. On CSX only a step closure gets the value."""
        return tensor.to("cpu")

    @property
    def device(self) -> "DeviceScope":
        """A context manager under which new models are placed on this backend's device."""
        return DeviceScope(self)

    def next_folder(self) -> pathlib.Path:
        """Return the folder for the files of the next loop: the first free number under `artifact_dir`.

        It is not created.
        """
        # Keep the folders of older runs.
        number = 1
        while (folder := self.artifact_dir / "executors" / f"{number:06d}").exists():
            number += 1
        return folder

    def session(self, kind: type[WaferSession] = WaferSession) -> Any:
        """Return a new session for one loop: EagerSession on the CPU, and an instance of `kind` on CSX.

        If `options.session` is set, as in a check, that function makes the session instead.
        """
        # A check or plan records steps instead of running them, on any backend.
        if self.options.session is not None:
            return self.options.session(self)
        if not isinstance(self.store, WaferState):
            return EagerSession(self.runner, self.store)
        settings = WaferSettings(
            # The folder is created with its first file, so a loop without a step creates none.
            folder=self.next_folder(),
            half=self.options.half,
            execute="trace" if self.validate_only else "compile" if self.compile_only else "all",
            closure_lag=self.options.closure_lag,
            strict=self.options.strict,
            # Pass the dict itself: a sparsity algorithm adds its parameters later, when the loop begins.
            notes=self.annotations,
            level=self.flags.precision.optimization_level,
            planning=self.planning,
            retrace=self.flags.debug.retrace_every_iteration,
            compile_dir=str(self.compile_dir or ""),
            widen_cbfloat16=self.flags.debug.implicit_cast_cb16_to_fp32,
            arrivals=self.arrivals,
        )
        return kind(self.runner, self.store, settings, self._compiled)

    def _compiled(self, compilation: Compilation) -> None:
        """Store the report of a compiled program, and the compilation itself if `options.keeps_compilations`."""
        self.reports.append(compilation.executable.report)
        # A compilation holds a graph and a program. A long run with many shapes must be able to free them.
        if self.options.keeps_compilations:
            self.compilations.append(compilation)

    def __str__(self) -> str:
        return f"CerebrasBackend({self.backend_type.name})"


def _parse_micro_batching(value: Any) -> MicroBatching:
    """Return the MicroBatching for a value of the flag `micro_batch_size`."""
    if value is None:
        return MicroBatching("whole")
    if isinstance(value, ExploredSizes):
        return MicroBatching("explore", value.least, value.most)
    return AUTO if value == "auto" else MicroBatching("size", int(value))


@dataclass
class ClusterJobs:
    """The interface for cluster jobs. The simulator runs in this process, so its methods do nothing."""

    owner: Backend
    client: None = None  # the client of the job service in the original

    @property
    def config(self) -> Any:
        """The cluster configuration of the backend. Assigning replaces it."""
        return self.owner.cluster_config

    @config.setter
    def config(self, value: Any) -> None:
        self.owner.cluster_config = value

    @property
    def workflow_id(self) -> str | None:
        """The reservation that jobs belong to, or None if the cluster configuration names none."""
        return getattr(self.owner.cluster_config, "workflow_id", None)

    def start_workflow(self, lock_resources: bool = True) -> bool:
        """Return True. The original reserves systems for later jobs."""
        return True

    def stop_workflow(self) -> None:
        """Do nothing. The original releases the reserved systems."""

    def check_storage_connectivity(self) -> None:
        """Do nothing. The original checks that the cluster can access the storage."""


@dataclass(repr=False)
class DeviceScope:
    """The context manager `with backend.device:`. Tensors made in the block are placed on the backend's device.

    Random numbers in the block come from a separate generator, which is seeded by the default one.
    """

    owner: Backend

    def __enter__(self) -> "DeviceScope":
        self.owner.torch_device.__enter__()
        random.enter_scope()
        return self

    def __exit__(self, *_: object) -> None:
        random.leave_scope()
        self.owner.torch_device.__exit__()

    @property
    def config(self) -> FlagGroup:
        """The `debug` flags, such as lazy_initialization and drop_data.

        Scripts for releases 2.0 to 2.2 set them here.
        """
        debug: FlagGroup = self.owner.flags.debug
        return debug

    def __str__(self) -> str:
        return self.owner.torch_device.type

    __repr__ = __str__


def make_cpu_backend(
    options: RunOptions, flags: FlagGroup, artifact_dir: Any = None, mixed_precision: Any = None
) -> Backend:
    """Return the CPU backend, which computes each step when it is called.

    `artifact_dir` defaults to the working directory. Raises ValueError if `mixed_precision` is given, as release 2.10
    does.
    """
    if mixed_precision is not None:
        raise setting_checks.make_value_error(
            "mixed_precision",
            mixed_precision,
            "Passing mixed_precision to the CPU backend is no longer allowed.",
            "Use the context manager cstorch.amp.autocast() instead.",
        )
    return Backend(
        backend_type=BackendType.CPU, artifact_dir=pathlib.Path(artifact_dir or "."), options=options, flags=flags
    )


def refuse_gpu_backend(
    options: RunOptions,
    flags: FlagGroup,
    artifact_dir: Any = None,
    enable_distributed: bool = False,
    main_process_id: int = 0,
    dist_backend: str = "nccl",
    init_method: str = "env://",
    sync_batchnorm: bool = False,
) -> Backend:
    """Raise RuntimeError with the message of a machine without CUDA. All arguments are ignored."""
    raise RuntimeError(
        "GPU was specified as the target device, but CUDA is not available. Please make sure you have a PyTorch "
        "installation with CUDA enabled to run on GPU\n"
        '  Use cstorch.backend("CPU"), which gives the same float32 values.'
        '\n  Use cstorch.backend("CPU").'
    )


def make_csx_backend(
    options: RunOptions,
    flags: FlagGroup,
    artifact_dir: Any = None,
    compile_dir: Any = None,
    compile_only: bool = False,
    validate_only: bool = False,
    cluster_config: Any = None,
) -> Backend:
    """Return the wafer's backend. `artifact_dir` defaults to "cerebras_logs".

    Raises ValueError if both `compile_only` and `validate_only` are set or if the cluster has no system. Raises
    ClusterConfigInvalid, an AttributeError and TypeError, if `cluster_config` has no attribute `num_csx`.
    """
    setting_checks.refuse_both_stops(compile_only, validate_only)
    _require_cluster(cluster_config)
    return Backend(
        backend_type=BackendType.CSX,
        artifact_dir=pathlib.Path(artifact_dir or "cerebras_logs"),
        options=options,
        flags=flags,
        compile_dir=pathlib.Path(compile_dir) if compile_dir else None,
        validate_only=validate_only,
        compile_only=compile_only,
        cluster_config=cluster_config,
    )


class ClusterConfigInvalid(ArgumentInvalid, AttributeError):
    """The error for a `cluster_config` that is no ClusterConfig. Release 2.10 raises AttributeError."""


def _require_cluster(config: Any) -> None:
    """Raise ClusterConfigInvalid unless `config` is None or has `num_csx`.

    Raise ValueError if `num_csx` is 0 or None.
    """
    if config is None:
        return
    if not hasattr(config, "num_csx"):
        raise ClusterConfigInvalid(
            f"cluster_config is {config!r}",
            where=source.where(),
            hint="Pass a cstorch.distributed.ClusterConfig.",
            lead=f"{type(config).__name__!r} object has no attribute 'num_csx'",
        )
    if not config.num_csx:
        message = f"num_csx in the cluster config must be a positive integer, got {config.num_csx}"
        raise setting_checks.make_value_error("num_csx", config.num_csx, message, "Use 1 or more systems.")


BACKEND_FACTORIES: dict[str, Callable[..., Backend]] = {
    "CPU": make_cpu_backend,
    "GPU": refuse_gpu_backend,
    "CSX": make_csx_backend,
}
"""The function that makes a backend of each type. It takes the options, the flags, and the script's arguments."""
