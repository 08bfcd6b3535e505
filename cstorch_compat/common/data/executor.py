"""The executor that pulls the steps of a run from a loader."""

import itertools
from collections.abc import Iterator
from typing import Any

from cstorch_compat import run
from cstorch_compat.common.data.loader import DataLoader
from cstorch_compat.common.progress import Progress
from cstorch_compat.common.tree import flatten
from lazytensor import source
from lazytensor.errors import DataError, refuse


class DataExecutor:
    """Iterates over a loader for `num_steps` steps, starting again when it is exhausted.

    State can be fetched after every `checkpoint_steps` steps and after the last one; 0 or None means never.
    """

    def __init__(
        self,
        dataloader: DataLoader,
        num_steps: int | None = None,
        checkpoint_steps: int | None = None,
        activation_steps: int | None = None,
        profiler_activities: Any = None,
    ):
        self.dataloader = _checked_loader(dataloader)
        self.num_steps = _checked_steps(dataloader, num_steps)
        self.checkpoint_steps = _checked_count("checkpoint_steps", checkpoint_steps, 0)
        self.activation_steps = _checked_count("activation_steps", activation_steps, 1)
        self.iteration = -1
        self.session: Any = None
        owner = run.current_backend()
        if not owner.is_e2e_execution and self.num_steps != 1:
            run.warn("Only one step is traced, because the backend was made with compile_only or validate_only.")
            self.num_steps = 1

    @property
    def user_iteration(self) -> int:
        """The number of the step, counted from 1."""
        return self.iteration + 1

    @property
    def is_initial_step(self) -> bool:
        """Whether this is the first step."""
        return self.iteration == 0

    @property
    def on_final_iteration(self) -> bool:
        """Whether this is the last step."""
        return self.iteration == self.num_steps - 1

    @property
    def is_checkpoint_step(self) -> bool:
        """Whether state can be fetched after this step."""
        return self._fetches_after(self.user_iteration)

    def _fetches_after(self, step: int) -> bool:
        every = self.checkpoint_steps
        return every is not None and every > 0 and (step % every == 0 or step == self.num_steps)

    def next_checkpoint_step(self) -> int | None:
        """The first step from this one on after which state can be fetched, counted from 1; None if there is none."""
        return next(filter(self._fetches_after, range(self.user_iteration, self.num_steps + 1)), None)

    def __len__(self) -> int:
        return self.num_steps

    def __iter__(self) -> Iterator[Any]:
        self.iteration = -1
        owner = run.current_backend()
        for prepare in owner.before_loop:
            prepare()
        self.session = owner.session()
        before = run.enter_executor(self)
        progress = Progress(self.num_steps, run.options.progress)
        try:
            for i, batch in enumerate(
                itertools.islice(self._batches(), min(self.num_steps, run.options.steps or self.num_steps))
            ):
                self.iteration = i
                yield self.session.begin(batch)
                self.session.end(i + 1, self.is_checkpoint_step, self.next_checkpoint_step)
                progress.step(i + 1)
            self.session.flush()
        finally:
            self.session.close()
            run.enter_executor(before)
            progress.close()

    def _batches(self) -> Iterator[Any]:
        """Batches without end, from the loader again and again."""
        while True:
            empty = True
            for batch in self.dataloader:
                empty = False
                yield _checked_batch(batch)
            if empty:
                return


def _checked_loader(dataloader: Any) -> DataLoader:
    if not isinstance(dataloader, DataLoader):
        raise TypeError(
            "Detected that dataloader was not wrapped using a cstorch.utils.data.DataLoader.\nPlease wrap your "
            "dataloader in a Cerebras Dataloader:\n\n\tdataloader = cstorch.utils.data.DataLoader(input_fn, ...)\n\n"
            "where `input_fn` is a callable that returns a PyTorch dataloader."
        )
    return dataloader


def _checked_steps(dataloader: DataLoader, num_steps: Any) -> int:
    if num_steps is None:
        try:
            return len(dataloader)
        except TypeError as e:
            raise RuntimeError(
                "Could not infer the number of steps as the length of the dataloader is not known. Please provide "
                "num_steps to the data executor"
            ) from e
    if num_steps < 1:
        raise RuntimeError(f"Expected num_steps to be an integer >= 1, but got {num_steps}")
    return int(num_steps)


def _checked_count(name: str, value: Any, least: int) -> int | None:
    if value is not None and (not isinstance(value, int) or value < least):
        raise RuntimeError(f'Expected {name} to be an integer >= {least} or "None". Got: {value}')
    return value


def _checked_batch(batch: Any) -> Any:
    tensors = flatten(batch)
    if not tensors:
        raise RuntimeError(
            "We could not detect any torch tensors in the input data returned by the dataloader. We expect the "
            f"dataloader to return a nested dict/list/tuple of tensors. Got {type(batch).__name__}."
        )
    sizes = {t.shape[0] if t.ndim else 1 for _, t in tensors}
    if len(sizes) > 1 and run.use_cs():
        error = DataError(
            f"Only uniform batch sizes are supported in CS runs, but the dataloader returned a batch with batch sizes "
            f"{sizes}.",
            where=source.where(),
            todo="Give every tensor of the batch the batch as first dimension.",
        )
        refuse("batch sizes", error)
    return batch
