"""The backends that a script can ask for, and what a run on one of them collects."""

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
        """The kind of a name, in any case. Raises ValueError for an unknown one."""
        try:
            return BackendType[backend_type.upper()]
        except KeyError:
            raise ValueError(
                f"Invalid Cerebras PyTorch backend type specified. Expected one of {list(BACKEND_NAMES)}. "
                f"Got {backend_type}."
            ) from None

    @property
    def is_cpu(self) -> bool:
        """Whether it is the CPU."""
        return self is BackendType.CPU

    @property
    def is_gpu(self) -> bool:
        """Whether it is the GPU."""
        return self is BackendType.GPU

    @property
    def is_csx(self) -> bool:
        """Whether it is the wafer."""
        return self is BackendType.CSX


BACKEND_NAMES = tuple(kind.name for kind in BackendType)


@dataclass(kw_only=True)
class Backend:
    """Where a run takes place. One per process; made by `cstorch.backend(...)`."""

    backend_type: BackendType
    artifact_dir: pathlib.Path
    options: RunOptions
    flags: FlagGroup
    compile_dir: pathlib.Path | None = None
    validate_only: bool = False
    compile_only: bool = False
    cluster_config: Any = None
    reports: list[Any] = field(default_factory=list)
    compilations: list[Compilation] = field(default_factory=list)  # of the programs with a report, if a page is wanted
    loops: list[Any] = field(default_factory=list)  # the rates of the loops that are over
    prepared: list[Any] = field(default_factory=list)  # models, in the order of their preparation
    tracing: int = 0  # how many traced functions are running, one inside the other
    before_loop: list[Callable[[], None]] = field(default_factory=list)
    at_first_step: list[Callable[[], None]] = field(default_factory=list)  # called when a loop's first step has begun
    annotations: dict[str, dict[str, float]] = field(default_factory=dict)  # by state: what the compiler is told of it
    densities: dict[str, Density] = field(default_factory=dict)  # by state: how much of it a mask keeps
    arrivals: dict[int, Callable[[Any, str], None]] = field(default_factory=dict)  # told of tensors that are fetched
    appliance: None = None  # what speaks to the cluster in the original

    def __post_init__(self) -> None:
        host = HostBackend()
        self.is_cpu, self.is_gpu, self.is_csx = (self.backend_type is kind for kind in BackendType)
        self.torch_device = LAZY_DEVICE if self.is_csx else Device("cpu", 0)
        if self.is_csx:
            # Imported here: a run on the CPU needs no simulator, which takes as long to load as all else.
            wafer_backend = importlib.import_module("wse_sim").WaferBackend
            wafer = wafer_backend(host, self.options.machine, self.options.mode, self.noted)
            self.store: Store = WaferState(lambda: self.flags.debug.lazy_initialization)
            self.runner = StepRunner(wafer, self.store, CSX)
            set_reading_rule(None if self.is_e2e_execution else refuse_reading)
        else:
            self.store = Store()
            self.runner = StepRunner(host, self.store)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Backend":
        """Itself: a copy of a prepared model belongs to the one backend of the process."""
        return self

    @property
    def _impl(self) -> "Backend":
        """The original's way to what is behind a backend, which the Model Zoo goes: here it is the backend itself."""
        return self

    @property
    def is_e2e_execution(self) -> bool:
        """Whether steps are executed, and not only traced or compiled."""
        return not (self.validate_only or self.compile_only)

    @property
    def is_tracing(self) -> bool:
        """Whether a traced function is running."""
        return self.tracing > 0

    def noted(self, program: Program) -> Program:
        """Return a program with what the script says of masks, precision, micro-batches and systems, for its plan."""
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
        """How the batch of a system is to be cut, and the number of systems."""
        systems: int = getattr(self.cluster_config, "num_csx", None) or 1
        return _parse_micro_batching(self.flags.performance.micro_batch_size), systems

    @property
    def cluster(self) -> "ClusterJobs":
        """The jobs of the run."""
        return ClusterJobs(self)

    def to_cpu(self, tensor: Any) -> Any:
        """A tensor on the client; on the wafer's backend only a closure has its value."""
        return tensor.to("cpu")

    @property
    def device(self) -> "DeviceScope":
        """A context manager under which models are made for this backend."""
        return DeviceScope(self)

    def next_folder(self) -> pathlib.Path:
        """Where the next execution leaves its files; it is not there yet."""
        # What an older run has left in this folder is kept.
        number = 1
        while (folder := self.artifact_dir / "executors" / f"{number:06d}").exists():
            number += 1
        return folder

    def session(self, kind: type[WaferSession] = WaferSession) -> Any:
        """A new execution; on CSX of a kind."""
        # The check looks at steps instead of running them, on whatever backend the script asks for.
        if self.options.session is not None:
            return self.options.session(self)
        if not isinstance(self.store, WaferState):
            return EagerSession(self.runner, self.store)
        settings = WaferSettings(
            # The folder is chosen now and made when the first text is written: a loop without a step leaves none.
            folder=self.next_folder(),
            half=self.options.half,
            execute="trace" if self.validate_only else "compile" if self.compile_only else "all",
            closure_lag=self.options.closure_lag,
            strict=self.options.strict,
            # The very dict: a sparsity algorithm notes its parameters when the loop begins, after this.
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
        self.reports.append(compilation.executable.report)
        # Each holds a graph and its program, which a long run with ever new shapes should be able to forget.
        if self.options.keeps_compilations:
            self.compilations.append(compilation)

    def __str__(self) -> str:
        return f"CerebrasBackend({self.backend_type.name})"


def _parse_micro_batching(value: Any) -> MicroBatching:
    """Return what the flag micro_batch_size asks for."""
    if value is None:
        return MicroBatching("whole")
    if isinstance(value, ExploredSizes):
        return MicroBatching("explore", value.least, value.most)
    return AUTO if value == "auto" else MicroBatching("size", int(value))


@dataclass
class ClusterJobs:
    """The jobs that a run has on a cluster. There is none: the simulator runs in this process, and needs no job."""

    owner: Backend
    client: None = None  # what speaks to the job service in the original

    @property
    def config(self) -> Any:
        """The description of the cluster."""
        return self.owner.cluster_config

    @config.setter
    def config(self, value: Any) -> None:
        self.owner.cluster_config = value

    @property
    def workflow_id(self) -> str | None:
        """The reservation that jobs belong to, if the description names one."""
        return getattr(self.owner.cluster_config, "workflow_id", None)

    def start_workflow(self, lock_resources: bool = True) -> bool:
        """Reserve systems for jobs to come. True: what there is, this run has."""
        return True

    def stop_workflow(self) -> None:
        """Give the systems back."""

    def check_storage_connectivity(self) -> None:
        """See whether the cluster reaches the storage; what the client writes to, the simulator reaches."""


@dataclass(repr=False)
class DeviceScope:
    """`with backend.device:` as scripts write it: what is made in the block lives on the backend's device.

    Random numbers of the block come from a generator of its own, which the default one seeds.
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
        """Settings such as lazy_initialization and drop_data, where scripts for 2.0 to 2.2 look for them."""
        debug: FlagGroup = self.owner.flags.debug
        return debug

    def __str__(self) -> str:
        return self.owner.torch_device.type

    __repr__ = __str__


def make_cpu_backend(
    options: RunOptions, flags: FlagGroup, artifact_dir: Any = None, mixed_precision: Any = None
) -> Backend:
    """Make the CPU backend, on which each call of a step computes at once, without a cluster compile.

    Raise a ValueError if `mixed_precision` is given, which release 2.10 does not take any more.
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
    """Refused as on a machine without a GPU. Raises RuntimeError."""
    raise RuntimeError(
        "GPU was specified as the target device, but CUDA is not available. Please make sure you have a PyTorch "
        "installation with CUDA enabled to run on GPU\n"
        '  Take cstorch.backend("CPU"), which gives the same float32 numbers.'
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
    """Make the wafer's backend.

    Raise a ValueError if both `compile_only` and `validate_only` are set, or if the cluster has no system, and an
    AttributeError that is a TypeError too for a `cluster_config` that is no description of a cluster.
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
    """Something else in the place of a ClusterConfig; release 2.10 raises AttributeError."""


def _require_cluster(config: Any) -> None:
    if config is None:
        return
    if not hasattr(config, "num_csx"):
        raise ClusterConfigInvalid(
            f"cluster_config is {config!r}",
            where=source.where(),
            hint="Give a cstorch.distributed.ClusterConfig.",
            lead=f"{type(config).__name__!r} object has no attribute 'num_csx'",
        )
    if not config.num_csx:
        message = f"num_csx in the cluster config must be a positive integer, got {config.num_csx}"
        raise setting_checks.make_value_error("num_csx", config.num_csx, message, "Give 1 or more systems.")


BACKEND_FACTORIES: dict[str, Callable[..., Backend]] = {
    "CPU": make_cpu_backend,
    "GPU": refuse_gpu_backend,
    "CSX": make_csx_backend,
}
"""What makes a backend of each type, out of the process's settings and the script's arguments."""
