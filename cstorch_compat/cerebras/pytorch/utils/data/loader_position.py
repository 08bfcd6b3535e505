"""The streaming position of a worker, which a restartable loader may read while it returns its state."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class DataLoaderCheckpoint:
    """The streaming position of a worker in a run.

    - `local_worker_id`: its index among the workers of its system.
    - `num_workers_per_csx`: the number of workers of each system.
    - `num_csx`: the number of systems.
    - `wse_id`: the index of its system.
    - `appliance_step`: the step of the run.
    - `worker_step`: the number of steps that this worker has fed.
    - `samples_streamed`: the number of samples that this worker has streamed.
    - `user_state_dict`: free for use by the loader.
    """

    local_worker_id: int
    num_workers_per_csx: int
    num_csx: int
    wse_id: int
    appliance_step: int
    worker_step: int
    samples_streamed: int
    user_state_dict: Any = None

    @property
    def global_worker_id(self) -> int:
        """Return the index of the worker among those of all systems."""
        return self.wse_id * self.num_workers_per_csx + self.local_worker_id

    @property
    def total_num_workers(self) -> int:
        """Return the number of workers of all systems."""
        return self.num_csx * self.num_workers_per_csx


_offered_checkpoint: DataLoaderCheckpoint | None = None
"""The position that `claim_checkpoint` returns next, or None."""


@contextmanager
def offer_checkpoint(place: DataLoaderCheckpoint) -> Iterator[None]:
    """Return a context manager in which the first call of `claim_checkpoint` returns `place`.

    `place` is the streaming position of a worker.
    """
    global _offered_checkpoint
    # A global variable, because `state_dict` of a loader has no parameter for the position.
    _offered_checkpoint = place
    try:
        yield
    finally:
        _offered_checkpoint = None


def claim_checkpoint() -> DataLoaderCheckpoint:
    """Return the offered position. Raises RuntimeError at a second call, and outside a loader's `state_dict`."""
    global _offered_checkpoint
    if _offered_checkpoint is None:
        raise RuntimeError(
            "Unable to fetch CSX Worker state: `cstorch.distributed.get_worker_state()` must only be called once "
            "inside your dataloader's implementation of `state_dict`."
            "\n  Call it once, in the state_dict() of the dataloader."
        )
    # The original allows only one call.
    place, _offered_checkpoint = _offered_checkpoint, None
    return place
