"""Release 1.8: one `configure` for the whole process, then `compile` by the name of a backend."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cstorch_compat.generations.early import early_executors
from cstorch_compat.generations.early.cluster import CSConfig
from cstorch_compat.run import prepare, process, steps
from lazytensor import source
from lazytensor.errors import StateError
from lazytensor.random import manual_seed

STREAMING = "WSE_WS"
"""The name of the system's backend: weight streaming, the only mode of this API."""


@dataclass(frozen=True)
class Configuration:
    """What `configure` was given, as far as it has an effect here."""

    compile_dir: str | None = None
    compile_only: bool = False
    validate_only: bool = False
    cluster: CSConfig | None = None


_configuration = process.Slot[Configuration | None](lambda: None)


@dataclass(frozen=True)
class BackendName:
    """What a compiled model says of its backend."""

    name: str

    def is_wse(self) -> bool:
        """Whether it is the system."""
        return self.name == STREAMING

    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.name == "GPU"


def configure(
    model_dir: str = "./",
    compile_dir: str | None = None,
    compile_only: bool = False,
    validate_only: bool = False,
    checkpoint_steps: int = 0,
    seed: int | None = None,
    **cluster: Any,
) -> None:
    """Say how the one run of this process is to be done; to be called before the model is made.

    The other settings are those of CSConfig, and `execution_strategy`. Raises StateError for a second call, or after
    `compile`; TypeError for an unknown setting.
    """
    cluster.pop("execution_strategy", None)
    config = CSConfig(**cluster)
    if _configuration.value is not None or process.current_backend(raise_exception=False) is not None:
        raise StateError(
            "cstorch.configure can only be called once in a process, and before cstorch.compile: it applies globally",
            where=source.where(),
            hint="Start a process of its own for a run with another configuration.",
        )
    _configuration.value = Configuration(compile_dir, compile_only, validate_only, config)
    early_executors.configured_checkpoint_steps.value = checkpoint_steps
    if seed is not None:
        manual_seed(seed)


def compile(model: Any, backend: Any = "wse_ws") -> Any:
    """Prepare a module for the backend of that name, or in release 1.9 for a backend that was made.

    The result calls the model, carries its public methods, and names its backend.
    """
    if not isinstance(backend, str):
        compiled: Any = prepare.compile_model(model, backend)
        compiled.backend = process.current_backend()
        return compiled
    name, configuration = backend.upper(), _configuration.value or Configuration()
    # A second model of the process joins the backend of the first.
    if process.current_backend(raise_exception=False) is None:
        if name == STREAMING:
            process.make_backend(
                "CSX",
                compile_dir=configuration.compile_dir,
                compile_only=configuration.compile_only,
                validate_only=configuration.validate_only,
                cluster_config=configuration.cluster,
            )
        else:
            process.make_backend(name)
    compiled = prepare.compile_model(model, process.current_backend())
    compiled.backend = BackendName(name)
    return compiled


def compile_step(step_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as the body of a step. A data loader that is passed to it stands for its present batch."""
    traced = steps.trace_function(step_fn)

    def step(*args: Any, **kwargs: Any) -> Any:
        values = [early_executors.batch_of(a, step_fn.__name__) for a in args]
        return traced(*values, **{k: early_executors.batch_of(v, step_fn.__name__) for k, v in kwargs.items()})

    return step
