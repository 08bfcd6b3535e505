"""The roles in a run: `cerebras.pytorch.distributed`."""

from cstorch_compat.cerebras.pytorch.utils.data import loader_position, process_role
from cstorch_compat.cerebras.pytorch.utils.data.loader_position import DataLoaderCheckpoint
from cstorch_compat.names.builtin_errors import reraise_as_builtin


def is_streamer() -> bool:
    """Whether this process, which calls the input function at the moment, is a worker."""
    return process_role.current_role() is not None


def is_receiver() -> bool:
    """Whether this process receives results: the client does."""
    return process_role.current_role() is None


def is_master_ordinal(local: bool = False) -> bool:
    """Whether this process is the client."""
    return process_role.current_role() is None


def get_ordinal() -> int:
    """The number of this worker; 0 of the client."""
    worker = process_role.current_role()
    return 0 if worker is None else worker.rank


def get_streaming_rank() -> int:
    """The number of this worker among those of all systems. Raises AssertionError in the client."""
    with reraise_as_builtin():
        return process_role.streaming_rank()


def num_streamers() -> int:
    """How many workers stream data, as a worker knows it; 0 in the client."""
    worker = process_role.current_role()
    return 0 if worker is None else worker.cluster.workers


def num_receivers() -> int:
    """How many processes receive results, as the client knows it; 0 in a worker."""
    return int(process_role.current_role() is None)


def num_tasks() -> int:
    """How many workers there are, as a worker knows it; 1 in the client."""
    return num_streamers() or 1


def get_streaming_batch_size(effective_batch_size: int, global_rank: int | None = None) -> int:
    """The share of the batch that this worker, or the one named, streams; the whole batch in the client.

    Raises TypeError for what is no number of samples.
    """
    if not isinstance(effective_batch_size, int):
        raise TypeError(
            f"Expected effective batch size to be an integer, but got type {type(effective_batch_size)} with value "
            f"{effective_batch_size}."
        )
    worker = process_role.current_role()
    return effective_batch_size if worker is None else worker.batch_size(effective_batch_size, global_rank)


def get_worker_state() -> DataLoaderCheckpoint:
    """What this worker has streamed. Raises RuntimeError except for one call inside a loader's `state_dict`."""
    return loader_position.claim_checkpoint()
