"""The API of release 1.8: one call of `configure` for the process, then `compile` with the name of a backend."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cstorch_compat.generations.early import data_executors
from cstorch_compat.generations.early.cs_config import CSConfig
from cstorch_compat.run import compile_model, process, setting_checks, settings, steps
from lazytensor.core import source
from lazytensor.errors import OptionInvalid, StateError
from lazytensor.random import manual_seed

WAFER_BACKEND_NAME = "WSE_WS"
"""The name of the system's backend. Weight streaming is the only mode of this API."""
APPLIANCE_COMPILE_DIR = "/opt/cerebras/cached_compile"
"""The default folder for compiled kernels. It is on the appliance and not on the user's machine."""


@dataclass(frozen=True)
class Configuration:
    """The settings given to `configure` that have an effect."""

    compile_dir: Any = None
    compile_only: bool = False
    validate_only: bool = False
    cluster: CSConfig | None = None


_configuration = process.RunLocal[Configuration | None](lambda: None)
"""The settings given to `configure`, or None before its call."""


@dataclass(frozen=True)
class BackendName:
    """The name of the backend of a compiled model."""

    name: str

    def is_wse(self) -> bool:
        """Return whether the backend is the system."""
        return self.name == WAFER_BACKEND_NAME

    def is_gpu(self) -> bool:
        """Return whether the backend is a GPU."""
        return self.name == "GPU"


def configure(
    model_dir: Any = "./",
    compile_dir: Any = APPLIANCE_COMPILE_DIR,
    compile_only: bool = False,
    validate_only: bool = False,
    checkpoint_steps: int = 0,
    num_csx: int = 1,
    max_wgt_servers: int = 24,
    mount_dirs: list[str] | None = None,
    python_paths: list[str] | None = None,
    transfer_processes: int = 5,
    num_workers_per_csx: int = 1,
    job_labels: list[str] | None = None,
    max_act_per_csx: int = 1,
    seed: int | None = None,
    mgmt_address: str | None = None,
    credentials_path: str | None = None,
    debug_args: Any = None,
    execution_strategy: Any = None,
    job_time_sec: int | None = None,
    disable_version_check: bool = False,
) -> None:
    """Store the settings for the only run of this process. Call it once, before the model is created.

    `cstorch_compat.run.settings` lists the settings that have an effect. `seed` seeds the random number generators.
    `checkpoint_steps` is the interval at which state can be fetched; 0 means never. The default `compile_dir` means the
    compiler's own cache.

    Raises StateError at a second call or after `compile`. Raises ValueError for a count below its minimum, and for
    `compile_only` together with `validate_only`. Raises TypeError for a value of the wrong type or an unknown setting.
    """
    checkpoint_steps = setting_checks.make_interval_check(0, OptionInvalid)("checkpoint_steps", checkpoint_steps) or 0
    cluster: dict[str, Any] = {
        "mgmt_address": mgmt_address,
        "credentials_path": credentials_path,
        "num_csx": num_csx,
        "max_wgt_servers": max_wgt_servers,
        "max_act_per_csx": max_act_per_csx,
        "num_workers_per_csx": num_workers_per_csx,
        "job_labels": job_labels,
        "job_time_sec": job_time_sec,
        "mount_dirs": mount_dirs,
        "python_paths": python_paths,
        "disable_version_check": disable_version_check,
        "debug_args": debug_args,
        "transfer_processes": transfer_processes,
    }
    configuration = Configuration(
        compile_dir=setting_checks.check_optional_path("compile_dir", compile_dir),
        compile_only=setting_checks.check_bool("compile_only", compile_only),
        validate_only=setting_checks.check_bool("validate_only", validate_only),
        cluster=CSConfig(**cluster),
    )
    setting_checks.refuse_both_stops(compile_only, validate_only)
    model_dir = setting_checks.check_optional_path("model_dir", model_dir)
    seed = setting_checks.make_type_check(int, type(None))("seed", seed)
    if _configuration.value is not None or process.current_backend(raise_exception=False) is not None:
        raise StateError(
            "cstorch.configure can only be called once in a process, and before cstorch.compile: it applies globally",
            where=source.where(),
            hint="Start another process for a run with another configuration.",
        )
    _configuration.value = configuration
    data_executors.configured_checkpoint_steps.value = checkpoint_steps
    settings.note_without_effect(
        "configure", {"model_dir": model_dir, "execution_strategy": execution_strategy}, {"model_dir": "./"}
    )
    if seed is not None:
        manual_seed(seed)


def compile(model: Any, backend: Any = "wse_ws") -> Any:
    """Prepare `model` for a backend, and return the prepared model.

    `backend` is a name such as "wse_ws" or "cpu", or in release 1.9 a backend object. A backend named for the first
    time is created with the settings of `configure`; later models use the same one. The result calls the model, has its
    public methods, and has the attribute `backend`.
    """
    if not isinstance(backend, str):
        compiled: Any = compile_model.compile_model(model, backend)
        compiled.backend = process.current_backend()
        return compiled
    name, configuration = backend.upper(), _configuration.value or Configuration()
    if process.current_backend(raise_exception=False) is None:
        if name == WAFER_BACKEND_NAME:
            process.make_backend(
                "CSX",
                compile_dir=None if configuration.compile_dir == APPLIANCE_COMPILE_DIR else configuration.compile_dir,
                compile_only=configuration.compile_only,
                validate_only=configuration.validate_only,
                cluster_config=configuration.cluster,
            )
        else:
            process.make_backend(name)
    compiled = compile_model.compile_model(model, process.current_backend())
    compiled.backend = BackendName(name)
    return compiled


def compile_step(step_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that computes a step, so that it is traced.

    A data loader of release 1.8 that is passed as an argument inside its loop is replaced by its current batch. This
    issues a warning once for each loader.
    """
    traced = steps.trace_function(step_fn)

    def step(*args: Any, **kwargs: Any) -> Any:
        values = [data_executors.resolve_batch(a, step_fn.__name__) for a in args]
        return traced(*values, **{k: data_executors.resolve_batch(v, step_fn.__name__) for k, v in kwargs.items()})

    return step
