"""The functions of `cerebras_torch.core.cb_model`, imported as `cm`: process roles, steps, closures and printing.

A run is one process here, which is master, streamer and receiver at once.
"""

from collections.abc import Callable, Mapping
from typing import Any

from cstorch_compat.files.tree import map_tensors
from cstorch_compat.generations.cbtorch.internals import state
from cstorch_compat.run.plain_loop import current_plain_loop
from cstorch_compat.run.process import use_cs
from cstorch_compat.torch.serialization.save_and_load import save as _save
from lazytensor.display.table import rate_text


def is_master_ordinal(local: bool = False) -> bool:
    """Return True: this is the only process."""
    return True


def is_streamer() -> bool:
    """Return True: this process streams data."""
    return True


def is_receiver() -> bool:
    """Return True: this process receives results."""
    return True


def get_ordinal() -> int:
    """Return 0, the rank of the only process."""
    return 0


def get_streaming_rank() -> int:
    """Return 0, the rank among the processes that stream data."""
    return 0


def num_tasks() -> int:
    """Return 1, the number of processes."""
    return 1


def is_wse_device() -> bool:
    """Return whether the backend is CSX."""
    return use_cs()


def is_appliance() -> bool:
    """Return whether the backend is CSX, which emulates a run on a cluster."""
    return use_cs()


def to_cpu(struct: Any) -> Any:
    """Return a nested structure with its tensors detached and moved to the client.

    Raises TraceError while a step is being recorded, except in closures.
    """
    return map_tensors(struct, lambda t: t.detach().cpu())


def mark_step() -> None:
    """End the current step. This is needed if a loop is left early. It has no effect outside of a Session."""
    loop = current_plain_loop()
    # Scripts also call it on the CPU, where there is no loop to watch.
    if loop is not None:
        loop.mark_step()


def run_step_closures() -> None:
    """Do nothing. The end of a step runs its closures."""


def get_run_step() -> int:
    """Return the number of the current step, counted from 1, or 0 outside of a Session."""
    loop = current_plain_loop()
    return 0 if loop is None else loop.user_iteration


def set_run_config(num_steps: int | None = None, checkpoint_steps: int = 0, fetch_steps: int = 1) -> None:
    """Do nothing. State and results can be fetched after every step."""


def set_target_num_replicas(number: int) -> None:
    """Do nothing. The planner chooses the number of replicas."""


def set_state_names(names: Mapping[str, Any]) -> None:
    """Do nothing. Parameters have the names of their modules."""


def set_metric_state_names(names: Mapping[str, Any]) -> None:
    """Do nothing. The state of metrics is named automatically."""


def set_attribute(tensor: Any, attribute: str, value: Any) -> Any:
    """Return `tensor`. In the original, the attribute is a hint to the compiler."""
    return tensor


def write_to_summary(writer: Any, step: int, dict_to_write: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Write scalars, given by name in `dict_to_write`, to `writer` at `step`. If `writer` is None, write nothing.

    Each value is converted to a float. Other keyword arguments are ignored.
    """
    for name, value in (dict_to_write or {}).items():
        if writer is not None:
            writer.add_scalar(name, float(value), step)


def save(state_dict: Any, path: Any, master_only: bool = True) -> None:
    """Write `state_dict` to `path` in the format of `torch.save`. Call it in a closure while a loop is running."""
    _save(state_dict, path)


def master_print(*text: Any, **options: Any) -> None:
    """Print like the built-in `print`."""
    print(*text, **options)


def rendezvous(tag: str) -> None:
    """Do nothing. There is only one process."""


def mesh_reduce(tag: str, value: Any, function: Callable[[list[Any]], Any]) -> Any:
    """Return `function([value])`: the reduction over the values of all processes, of which there is one."""
    return function([value])


def print_metrics_report() -> None:
    """Print the number of samples per second, as `print_update`."""
    print_update()


def print_update() -> None:
    """Print the number of samples per second."""
    print(f"{rate_text(state().rate_tracker.global_rate())} samples/s")
