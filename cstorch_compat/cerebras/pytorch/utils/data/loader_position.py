"""Where a worker is in its data: what a restartable loader may ask while it says its own state."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class DataLoaderCheckpoint:
    """What a worker has done in this run.

    `appliance_step` is the step of the run, `worker_step` how often it was this worker's turn, `samples_streamed` how
    many samples it gave; `user_state_dict` is left for the loader.
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
        """The number of the worker among those of all systems."""
        return self.wse_id * self.num_workers_per_csx + self.local_worker_id

    @property
    def total_num_workers(self) -> int:
        """The number of the workers of all systems."""
        return self.num_csx * self.num_workers_per_csx


_offered_checkpoint: DataLoaderCheckpoint | None = None


@contextmanager
def offer_checkpoint(place: DataLoaderCheckpoint) -> Iterator[None]:
    """Let a loader's `state_dict`, called in the block, ask for the place once."""
    global _offered_checkpoint
    # Offered and not passed: `state_dict` of a loader is PyTorch's, and takes no parameter for it.
    _offered_checkpoint = place
    try:
        yield
    finally:
        _offered_checkpoint = None


def claim_checkpoint() -> DataLoaderCheckpoint:
    """The place. Raises RuntimeError when asked for a second time, or outside `state_dict`."""
    global _offered_checkpoint
    if _offered_checkpoint is None:
        raise RuntimeError(
            "Unable to fetch CSX Worker state: `cstorch.distributed.get_worker_state()` must only be called once "
            "inside your dataloader's implementation of `state_dict`."
        )
    # Once only, as the original's message demands.
    place, _offered_checkpoint = _offered_checkpoint, None
    return place
