"""The top-level functions of `cerebras_torch`, the API of releases 1.2 to 1.8.

A plain PyTorch training loop inside a Session runs on the system.
"""

from collections.abc import Callable
from typing import Any

from cstorch_compat.cerebras.pytorch.amp.amp_state import set_half_dtype
from cstorch_compat.generations.cbtorch import modes
from cstorch_compat.generations.cbtorch.dataloader import DataLoader
from cstorch_compat.generations.cbtorch.internals import env
from cstorch_compat.run import compile_model, process, setting_checks, settings
from cstorch_compat.run.plain_loop import PlainLoop, current_plain_loop
from lazytensor.core import source
from lazytensor.core.dtype import cbfloat16
from lazytensor.core.tensor import Device
from lazytensor.errors import StateError
from lazytensor.nn.module import Module


def initialize(
    cs_ip: str | None = None,
    service_workdir: str | None = None,
    compile_dir: str | None = None,
    compile_only: bool = False,
    appliance: bool = False,
    use_cbfloat16: bool = False,
    use_appliance_data: bool = False,
    **others: Any,
) -> None:
    """Create the CSX backend of this process. Call it once, before the model is created.

    - `compile_dir`, `compile_only`: as in the current `cstorch.backend`.
    - `use_cbfloat16`: use cbfloat16 as the half type of matrix products.
    - other settings: `cstorch_compat.run.settings` lists the effective ones; unknown settings have no effect.

    Raises StateError if the process already has a backend, and TypeError for a value of the wrong type.
    """
    compile_dir = setting_checks.check_optional_path("compile_dir", compile_dir)
    service_workdir = setting_checks.check_optional_path("service_workdir", service_workdir)
    compile_only = setting_checks.check_bool("compile_only", compile_only)
    use_cbfloat16 = setting_checks.check_bool("use_cbfloat16", use_cbfloat16)
    if process.current_backend(raise_exception=False) is not None:
        raise StateError(
            "cbtorch.initialize was called a second time",
            where=source.where(),
            hint="Call it once in a process, before the model is made.",
        )
    if use_cbfloat16:
        set_half_dtype(cbfloat16)
    process.make_backend("CSX", compile_dir=compile_dir, compile_only=compile_only)
    given = {
        "cs_ip": cs_ip,
        "service_workdir": service_workdir,
        "appliance": appliance,
        "use_appliance_data": use_appliance_data,
        **others,
    }
    settings.note_without_effect("initialize", given, {"appliance": False, "use_appliance_data": False})
    env().service_workdir, env().compile_dir, env().appliance = service_workdir, compile_dir, appliance


def module(model: Module, device: Device | None = None) -> Module:
    """Prepare `model` for the system, and return it. Raises RuntimeError before `initialize`.

    `device` has no effect.
    """
    compile_model.compile_model(model, process.current_backend())
    return model


def dataloader(torch_dataloader: Any, use_parallel_loader: bool = True) -> DataLoader:
    """Return a wrapper of a PyTorch data loader, whose batches are on the device inside a Session.

    `use_parallel_loader` has no effect; a value other than True is reported as such.
    """
    settings.note_without_effect(
        "dataloader", {"use_parallel_loader": use_parallel_loader}, {"use_parallel_loader": True}
    )
    return DataLoader(torch_dataloader)


def optimizer(optimizer: Any) -> Any:
    """Return `optimizer`. Optimizers of `cbtorch.optim` are registered when they are created."""
    return optimizer


def compile(fabric_config_file: str | None = None, validate_only: bool = False) -> bool:
    """Compile the step that a Session is recording or has recorded, and return True.

    A step that is being recorded ends here and is not executed, and the loop gets no further batch. With
    `validate_only` the step is lowered but not planned. If the script is being checked or planned by a command, nothing
    is done. Raises RuntimeError before `initialize`, StateError if no step was recorded, and the compiler's error for a
    step that cannot be compiled.
    """
    owner = process.current_backend()
    is_only_traced = setting_checks.check_bool("validate_only", validate_only)
    settings.note_without_effect("compile", {"fabric_config_file": fabric_config_file})
    # A check or a plan handles the loop itself and reports what cannot be compiled.
    if process.RUN.options.session is not None:
        return True
    loop = current_plain_loop()
    if loop is not None:
        loop.compile_step(is_only_traced)
    if not owner.runner.has_lowered:
        raise StateError(
            "cbtorch.compile was called before a Session had recorded a step",
            where=source.where(),
            hint="Call it in the Session after loss.backward() and optimizer.step(), or after the Session.",
        )
    return True


class Session:
    """A context manager around training or evaluation loops.

    It is created as `Session(dataloader, mode)` or `Session(model, optimizer, criterion, mode=...)`. `mode` is "train",
    "eval" or "inference". Raises RuntimeError for "train_and_eval", and ValueError for other values.
    """

    def __init__(self, *objects: Any, mode: str | None = None, dataloader: Any = None):
        # Scripts pass a loader, or model, optimizer and criterion, before the mode.
        if objects and isinstance(objects[-1], str):
            *objects, mode = objects  # type: ignore[assignment]
        self.mode = modes.check_mode(mode)
        self._loop = PlainLoop()

    def __enter__(self) -> "Session":
        self._loop.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._loop.__exit__(*error)

    def add_step_closure(self, closure: Callable[..., Any], args: tuple[Any, ...] = (), **kwargs: Any) -> None:
        """Call `closure(*args, **kwargs)` with the values of tensors after the step has run."""
        self._loop.add_step_closure(closure, tuple(args), kwargs)

    def mark_step(self) -> None:
        """End the current step. This is needed if a loop is left early."""
        self._loop.mark_step()
