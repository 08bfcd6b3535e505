"""Queries for the role of the current process: `cerebras.pytorch.distributed`.

A process is the client, or a worker that streams data while the loader's input function runs in it.
"""

from cstorch_compat.cerebras.pytorch.utils.data import loader_position, process_role
from cstorch_compat.cerebras.pytorch.utils.data.loader_position import DataLoaderCheckpoint
from cstorch_compat.names.builtin_errors import reraise_as_builtin


def is_streamer() -> bool:
    """Return whether this process is a worker."""
    return process_role.current_role() is not None


def is_receiver() -> bool:
    """Return whether this process receives results. This is True in the client only."""
    return process_role.current_role() is None


def is_master_ordinal(local: bool = False) -> bool:
    """Return whether this process is the client. `local` has no effect."""
    return process_role.current_role() is None


def get_ordinal() -> int:
    """Return the rank of this worker, or 0 in the client."""
    worker = process_role.current_role()
    return 0 if worker is None else worker.rank


def get_streaming_rank() -> int:
    """Return the rank of this worker among the workers of all systems. Raises AssertionError in the client."""
    with reraise_as_builtin():
        return process_role.streaming_rank()


def num_streamers() -> int:
    """Return the number of workers that stream data, if called in a worker. Returns 0 in the client."""
    worker = process_role.current_role()
    return 0 if worker is None else worker.cluster.workers


def num_receivers() -> int:
    """Return 1 in the client and 0 in a worker."""
    return int(process_role.current_role() is None)


def num_tasks() -> int:
    """Return the number of workers, if called in a worker. Returns 1 in the client."""
    return num_streamers() or 1


def get_streaming_batch_size(effective_batch_size: int, global_rank: int | None = None) -> int:
    """Return the number of samples of each batch that a worker streams.

    In a worker this is its share of the run's batch, or that of the worker `global_rank` if given. In the client, or if
    the batch was not divided, it is `effective_batch_size`. Raises TypeError if that is not an int, and in a worker
    ValueError for an invalid rank.
    """
    if not isinstance(effective_batch_size, int):
        raise TypeError(
            f"Expected effective batch size to be an integer, but got type {type(effective_batch_size)} with value "
            f"{effective_batch_size}."
            "\n  Pass the batch size as an integer."
        )
    worker = process_role.current_role()
    return effective_batch_size if worker is None else worker.batch_size(effective_batch_size, global_rank)


def get_worker_state() -> DataLoaderCheckpoint:
    """Return the streaming position of this worker, for the loader's state dict.

    It may be called once inside a loader's `state_dict` method. Any other call raises RuntimeError.
    """
    return loader_position.claim_checkpoint()
