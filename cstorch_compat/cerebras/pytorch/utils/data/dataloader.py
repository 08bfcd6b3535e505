"""The class `cerebras.pytorch.utils.data.DataLoader`, a data loader given as a function that creates it."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cstorch_compat.cerebras.pytorch.utils.data import process_role
from cstorch_compat.cerebras.pytorch.utils.data.batch_stream import BatchStream, LocalStream, WorkerStream
from cstorch_compat.cerebras.pytorch.utils.data.repeated_loader import RepeatedLoader, is_restartable
from cstorch_compat.cerebras.pytorch.utils.step_ranges import Schedule
from cstorch_compat.run import process

NOT_RESTARTABLE_MESSAGE = (
    "DataLoader is not configured for {} state. Please implement RestartableDataLoader interface to enable "
    "`state_dict()` and `load_state_dict()` methods."
)
STATE_TOO_EARLY_MESSAGE = (
    "DataLoader state can only be requested at a checkpoint step. Please ensure that `state_dict` is called on the "
    "`cstorch.utils.DataLoader` at a checkpoint step. If you're calling it inside of a method, please decorate it "
    "with the `cstorch.checkpoint_closure` method decorator."
)
STATE_TOO_LATE_MESSAGE = (
    "DataLoader state can only be loaded onto before execution. Please make sure to call `load_state_dict()` only "
    "before iterating the data executor."
)


_loader_numbers = process.RunLocal(partial(itertools.count, 1))
"""The number of the next loader of the run, which becomes its attribute `id`."""


class DataLoader:
    """A wrapper of an input function that creates a data loader, so that each worker can create its own.

    `args` and `kwargs` are passed to `input_fn`. The client calls it too, when it first needs the loader. On CSX with
    one system and one worker, the client's loader serves as the worker's. The state of a restartable loader (see
    `RestartableDataLoader`) is read and restored in the workers. Raises TypeError if `input_fn` is not callable.
    """

    def __init__(self, input_fn: Callable[..., Any], *args: Any, **kwargs: Any):
        if not callable(input_fn):
            raise TypeError(
                "Expected a callable that constructs and returns a `torch.utils.data.DataLoader` or an iterable that "
                "returns a structure containing torch tensors."
                "\n  Pass a function that returns a torch.utils.data.DataLoader."
            )
        self.input_fn = input_fn
        self.id = next(_loader_numbers.value)
        self._make = partial(input_fn, *args, **kwargs)
        self._loader: Any = None
        self._loading: tuple[Any, bool] | None = None
        self._kept: dict[int, Any] = {}
        self._is_streaming = False

    def __copy__(self) -> "DataLoader":
        # The copy starts at the first batch. The Model Zoo uses a new copy for each validation.
        return type(self)(self._make.func, *self._make.args, **self._make.keywords)

    @property
    def dataloader(self) -> Any:
        """Return the client's loader. The input function is called at the first access only.

        If it raises ModuleNotFoundError, the error gets a note about `python_paths` where that applies.
        """
        if self._loader is None:
            # With one worker the client has its role, so the input function may query the rank.
            try:
                with process_role.role_context(_single_worker()):
                    self._loader = self._make()
            except ModuleNotFoundError as e:
                _add_path_note(e)
                raise
        return self._loader

    @property
    def is_restartable(self) -> bool:
        """Return whether the wrapped loader can save and restore its position."""
        return is_restartable(self.dataloader)

    def state_dict(self) -> Any:
        """Return the state after the current step, which the wrapped loader aggregates from the states of all workers.

        In a closure, the current step is the one in which the script called the closure. Raises RuntimeError outside a
        loop over this loader, after a step that is not a checkpoint step, and if the loader is not restartable.
        """
        if not self.is_restartable:
            raise RuntimeError(
                NOT_RESTARTABLE_MESSAGE.format("getting")
                + "\n  Define state_dict() and load_state_dict() in the dataset or the dataloader."
            )
        executor = process.current_executor()
        # A deferred closure may run during a later step, but needs the state of the step in which it was called.
        step = executor.session.closures.step or executor.user_iteration
        if step not in self._kept:
            raise RuntimeError(STATE_TOO_EARLY_MESSAGE + "\n  Read the state inside the loop over the DataExecutor.")
        return self._kept[step]

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Store a state from which the next loop continues. Each worker's loader gets its part of it.

        `strict` is passed to the wrapped loader. Raises RuntimeError during a loop over this loader, and if the loader
        is not restartable.
        """
        if not self.is_restartable:
            raise RuntimeError(
                NOT_RESTARTABLE_MESSAGE.format("setting")
                + "\n  Define state_dict() and load_state_dict() in the dataset or the dataloader."
            )
        if self._is_streaming:
            raise RuntimeError(STATE_TOO_LATE_MESSAGE + "\n  Load the state before the loop over the DataExecutor.")
        self._loading = (state_dict, strict)

    def keep(self, stream: BatchStream, step: int) -> None:
        """Store the loader's state after step `step`, counted from 1, for later calls of `state_dict`.

        States that no deferred closure can need any more are discarded. Loaders that are not restartable are ignored.
        """
        if self.is_restartable:
            # Deferred closures may still need the states of earlier steps.
            oldest = step - process.RUN.options.closure_lag
            late = {at: state for at, state in self._kept.items() if oldest <= at < step}
            self._kept = {**late, step: self.dataloader.aggregate_state_dict(stream.states())}

    def stream(self, num_steps: int, checkpoints: Schedule | None) -> BatchStream:
        """Return the source of batches for a loop, and mark the loader as in use.

        It is the client's loader, or worker processes for `num_steps` steps if CSX executes and there is more than one
        worker.
        """
        stream = self._stream(num_steps, checkpoints)
        self._is_streaming = True
        return stream

    def release(self, stream: BatchStream) -> None:
        """Close `stream` at the end of its loop, and mark the loader as not in use."""
        stream.close()
        self._is_streaming = False

    def _stream(self, num_steps: int, checkpoints: Schedule | None) -> BatchStream:
        """Return the batch source for a loop, which loads the state stored by `load_state_dict`, if any.

        The stored state and the states kept for `state_dict` are cleared. The source is a LocalStream, or on CSX with
        several workers a WorkerStream, for which one batch of the client's loader is read.
        """
        loading, self._loading = self._loading, None
        self._kept = {}
        owner = process.current_backend()
        cluster = process_role.Cluster.of(owner.cluster_config)
        # Worker processes are used only with more than one worker. Otherwise a debugger can stop in the loader.
        if not (owner.is_csx and owner.is_e2e_execution) or cluster.workers == 1:
            return LocalStream(lambda: self.dataloader, loading, _single_worker())
        # Workers run ahead of the client, so they report their state at each of these steps.
        wanted = checkpoints if self.is_restartable else None
        # One batch of the client's loader defines the form of the workers' parts.
        first = next(RepeatedLoader(self.dataloader))
        return WorkerStream(self._make, loading, cluster, first, num_steps, wanted)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataloader)


def _add_path_note(error: ModuleNotFoundError) -> None:
    """Add a note to an import error of the client if only workers search the configured `python_paths`."""
    owner = process.current_backend(raise_exception=False)
    if owner is not None and process_role.Cluster.of(owner.cluster_config).python_paths:
        error.add_note(
            "The client calls the input function too, and only workers search python_paths.\n"
            "  Add the folder to PYTHONPATH, or import the module only if cstorch.distributed.is_streamer() is true."
        )


def _single_worker() -> process_role.Role | None:
    """Return the role of the only worker, which the client takes.

    Returns None if there are several workers or the backend is not CSX.
    """
    owner = process.current_backend(raise_exception=False)
    if owner is None or not owner.is_csx:
        return None
    cluster = process_role.Cluster.of(owner.cluster_config)
    return process_role.Role(0, cluster) if cluster.workers == 1 else None
