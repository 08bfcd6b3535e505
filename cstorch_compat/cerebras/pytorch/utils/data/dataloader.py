"""DataLoader over an input function."""

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
"""For the loaders of a run, by which scripts tell them apart."""


class DataLoader:
    """Wraps a function that makes a data loader, so that each worker can call it for itself.

    The client calls it too, when it first needs the loader. On CSX with one system and one worker the client's loader
    is the worker's. A restartable loader (see `RestartableDataLoader`) is asked for its state, and given it back, where
    it is read: in the workers.
    """

    def __init__(self, input_fn: Callable[..., Any], *args: Any, **kwargs: Any):
        if not callable(input_fn):
            raise TypeError(
                "Expected a callable that constructs and returns a `torch.utils.data.DataLoader` or an iterable that "
                "returns a structure containing torch tensors."
            )
        self.input_fn = input_fn
        self.id = next(_loader_numbers.value)
        self._make = partial(input_fn, *args, **kwargs)
        self._loader: Any = None
        self._loading: tuple[Any, bool] | None = None
        self._kept: dict[int, Any] = {}
        self._is_streaming = False

    def __copy__(self) -> "DataLoader":
        # A loader of its own, from the first batch on: the Model Zoo validates with a copy each time.
        return type(self)(self._make.func, *self._make.args, **self._make.keywords)

    @property
    def dataloader(self) -> Any:
        """What the input function gave; it is called once."""
        if self._loader is None:
            # With one worker the client stands for it, so the input function may ask for its rank.
            try:
                with process_role.role_context(_single_worker()):
                    self._loader = self._make()
            except ModuleNotFoundError as e:
                _add_path_note(e)
                raise
        return self._loader

    @property
    def is_restartable(self) -> bool:
        """Whether the inner loader can save and restore its place."""
        return is_restartable(self.dataloader)

    def state_dict(self) -> Any:
        """The state that the inner loader makes of those of all workers, as it was after this step.

        In a closure, this step is the one that the closure was called in, however late it is made.
        Raises RuntimeError outside a loop over this loader, after a step that is no checkpoint step, and for loaders
        that are not restartable.
        """
        if not self.is_restartable:
            raise RuntimeError(NOT_RESTARTABLE_MESSAGE.format("getting"))
        executor = process.current_executor()
        # A closure that is late asks in the middle of a later step, and means its own.
        step = executor.session.closures.step or executor.user_iteration
        if step not in self._kept:
            raise RuntimeError(STATE_TOO_EARLY_MESSAGE)
        return self._kept[step]

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Have the next loop go on from a state: each worker's loader gets its part of it.

        Raises RuntimeError in a loop over this loader, and for loaders that are not restartable.
        """
        if not self.is_restartable:
            raise RuntimeError(NOT_RESTARTABLE_MESSAGE.format("setting"))
        if self._is_streaming:
            raise RuntimeError(STATE_TOO_LATE_MESSAGE)
        self._loading = (state_dict, strict)

    def keep(self, stream: BatchStream, step: int) -> None:
        """Have the state after the present step, if there is one, ready for `state_dict`, until closures are made."""
        if self.is_restartable:
            # Late closures still ask for the states of the steps that they were called in.
            oldest = step - process.RUN.options.closure_lag
            late = {at: state for at, state in self._kept.items() if oldest <= at < step}
            self._kept = {**late, step: self.dataloader.aggregate_state_dict(stream.states())}

    def stream(self, num_steps: int, checkpoints: Schedule | None) -> BatchStream:
        """Batches without end of the client's loader, or those of `num_steps` steps from worker processes."""
        stream = self._stream(num_steps, checkpoints)
        self._is_streaming = True
        return stream

    def release(self, stream: BatchStream) -> None:
        """The loop over a stream is over."""
        stream.close()
        self._is_streaming = False

    def _stream(self, num_steps: int, checkpoints: Schedule | None) -> BatchStream:
        loading, self._loading = self._loading, None
        self._kept = {}
        owner = process.current_backend()
        cluster = process_role.Cluster.of(owner.cluster_config)
        # Workers only where there is more than one system or worker to feed; else a debugger can stop in the loader.
        if not (owner.is_csx and owner.is_e2e_execution) or cluster.workers == 1:
            return LocalStream(lambda: self.dataloader, loading, _single_worker())
        # Workers run ahead of the client and cannot be asked afterwards: they say their state at each of these steps.
        wanted = checkpoints if self.is_restartable else None
        # One batch of the client's own loader says what form the workers' shares are to have.
        first = next(RepeatedLoader(self.dataloader))
        return WorkerStream(self._make, loading, cluster, first, num_steps, wanted)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataloader)


def _add_path_note(error: ModuleNotFoundError) -> None:
    """Add a note to the error of the client's call where the workers look into more folders than the client."""
    owner = process.current_backend(raise_exception=False)
    if owner is not None and process_role.Cluster.of(owner.cluster_config).python_paths:
        error.add_note(
            "The client calls the input function too, and only workers look into python_paths.\n"
            "  Add the folder to PYTHONPATH, or import the module where cstorch.distributed.is_streamer() is true."
        )


def _single_worker() -> process_role.Role | None:
    """The worker that the client stands for; None where there are others, or where nothing is streamed."""
    owner = process.current_backend(raise_exception=False)
    if owner is None or not owner.is_csx:
        return None
    cluster = process_role.Cluster.of(owner.cluster_config)
    return process_role.Role(0, cluster) if cluster.workers == 1 else None
