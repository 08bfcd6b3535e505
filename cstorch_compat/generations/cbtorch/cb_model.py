"""`cerebras_torch.core.cb_model`, known to scripts as `cm`: the roles in a run, and steps and closures.

A run is one process here, so that it is master, streamer and receiver at once.
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
    """Whether this is the first process."""
    return True


def is_streamer() -> bool:
    """Whether this process streams data."""
    return True


def is_receiver() -> bool:
    """Whether this process receives results."""
    return True


def get_ordinal() -> int:
    """The number of this process."""
    return 0


def get_streaming_rank() -> int:
    """The number of this process among those that stream data."""
    return 0


def num_tasks() -> int:
    """How many processes there are."""
    return 1


def is_wse_device() -> bool:
    """Whether the run takes place on the system."""
    return use_cs()


def is_appliance() -> bool:
    """Whether a cluster runs the program, and not this process."""
    return use_cs()


def to_cpu(struct: Any) -> Any:
    """A structure with its tensors on the client. Raises TraceError outside of closures while a step is recorded."""
    # Detached, since what leaves the step takes no part in its gradients.
    return map_tensors(struct, lambda t: t.detach().cpu())


def mark_step() -> None:
    """End the step; needed where a loop is left early."""
    loop = current_plain_loop()
    # Scripts call it in helper functions that also run on the CPU, where no loop is watched.
    if loop is not None:
        loop.mark_step()


def run_step_closures() -> None:
    """Kept for scripts that call it: the end of the step runs its closures."""


def get_run_step() -> int:
    """The number of the step, counted from 1; 0 outside of a Session."""
    loop = current_plain_loop()
    return 0 if loop is None else loop.user_iteration


def set_run_config(num_steps: int | None = None, checkpoint_steps: int = 0, fetch_steps: int = 1) -> None:
    """Kept for scripts that call it: state and results can be fetched after every step here."""


def set_target_num_replicas(number: int) -> None:
    """Kept for scripts that call it: the simulator chooses how often a model is laid out."""


def set_state_names(names: Mapping[str, Any]) -> None:
    """Kept for scripts that call it: parameters have the names of their modules."""


def set_metric_state_names(names: Mapping[str, Any]) -> None:
    """Kept for scripts that call it: the state of metrics has names of its own."""


def set_attribute(tensor: Any, attribute: str, value: Any) -> Any:
    """Kept for scripts that call it: a hint to the compiler. Gives the tensor back."""
    return tensor


def write_to_summary(writer: Any, step: int, dict_to_write: Mapping[str, Any] | None = None, **_: Any) -> None:
    """Write scalars by name, if there is a writer."""
    for name, value in (dict_to_write or {}).items():
        if writer is not None:
            writer.add_scalar(name, float(value), step)


def save(state_dict: Any, path: Any, master_only: bool = True) -> None:
    """Write a file of `torch.save`; to be called in a closure while a loop is running."""
    _save(state_dict, path)


def master_print(*text: Any, **options: Any) -> None:
    """Print."""
    print(*text, **options)


def rendezvous(tag: str) -> None:
    """Wait for the other processes, of which there are none."""


def mesh_reduce(tag: str, value: Any, function: Callable[[list[Any]], Any]) -> Any:
    """A function of the values of all processes."""
    return function([value])


def print_metrics_report() -> None:
    """Print how many samples a second were taken in."""
    print_update()


def print_update() -> None:
    """Print how many samples a second were taken in."""
    print(f"{rate_text(state().rate_tracker.global_rate())} samples/s")
