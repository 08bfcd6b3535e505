"""Data made up on the spot, and how the steps of a run are counted."""

import itertools
from collections.abc import Iterator
from typing import Any

from lazytensor import pytree
from lazytensor.data.dataset import IterableDataset
from lazytensor.data.sampler import Sampler, draw_seed
from lazytensor.random import Generator
from lazytensor.tensor import Tensor


class IterDataPipe(IterableDataset[Any]):
    """The base that PyTorch gives to streams of samples; here nothing but a name."""


class SyntheticDataset(IterDataPipe):
    """The same sample again and again, in any nesting of tensors and of functions from the sample's number to tensors.

    Without `num_samples` the stream does not end. Raises ValueError for anything else in the nesting, TypeError for a
    number of samples that is no number, ValueError for one below 1.
    """

    def __init__(self, sample_spec: Any, num_samples: int | None = None):
        self._leaves, self._form = pytree.tree_flatten(sample_spec)
        if not self._leaves:
            raise ValueError("`sample_spec` holds no `torch.Tensor` and no `Callable`")
        for leaf in self._leaves:
            if not isinstance(leaf, Tensor) and not callable(leaf):
                raise ValueError(
                    "`sample_spec` is expected to contain a python tree of `torch.Tensor`, or `Callable`, but got an "
                    f"item of type `{type(leaf)}`. Note that supported data structures for holding leaf nodes in the "
                    "tree are tuples, lists, dicts and named tuples."
                )
        if num_samples is not None and not isinstance(num_samples, int):
            raise TypeError(f"`num_samples` must be a positive integer or None, got {type(num_samples)}")
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"`num_samples` must be a positive integer or None, got {num_samples}")
        self._count = num_samples

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __iter__(self) -> Iterator[Any]:
        for i in itertools.count() if self._count is None else range(self._count):
            made = [leaf if isinstance(leaf, Tensor) else leaf(i) for leaf in self._leaves]
            yield pytree.tree_unflatten(made, self._form)

    def __len__(self) -> int:
        if self._count is None:
            raise TypeError(f"`{type(self).__name__}` does not have a length: it was made without `num_samples`")
        return self._count


def compute_num_steps(
    dataloader: Any,
    initial_step: int = 0,
    num_steps: int | None = None,
    max_steps: int | None = None,
    num_epochs: int | None = None,
    steps_per_epoch: int | None = None,
    grad_accum_steps: int = 1,
) -> int:
    """How many steps to run: num_steps, or num_epochs of the loader, and no further than step max_steps.

    An epoch has a step for every `grad_accum_steps` batches. Raises ValueError for counts that contradict each other
    or are below 1, RuntimeError if `initial_step` is past the end.
    """
    counts = {"num_steps": num_steps, "max_steps": max_steps, "num_epochs": num_epochs}
    for name, value in {**counts, "steps_per_epoch": steps_per_epoch}.items():
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be greater than zero.")
    if num_epochs is not None and num_steps is not None:
        raise ValueError("Only one of `num_epochs` or `num_steps` can be specified.")
    if all(value is None for value in counts.values()):
        raise ValueError("One of num_epochs, num_steps, or max_steps must be provided")
    if max_steps is not None and initial_step >= max_steps:
        raise RuntimeError(f"Initial global step {initial_step} already exceeds max step {max_steps}.")
    bounds = [] if max_steps is None else [max_steps - initial_step]
    if num_steps is not None:
        bounds.append(num_steps)
    if num_epochs is not None:
        bounds.append(num_epochs * _epoch_steps(dataloader, steps_per_epoch, grad_accum_steps))
    return min(bounds)


def _epoch_steps(dataloader: Any, steps_per_epoch: int | None, grad_accum_steps: int) -> int:
    try:
        there = len(dataloader) // grad_accum_steps
    except TypeError:
        if steps_per_epoch is None:
            raise ValueError("The dataloader has no length: give `num_steps` or `steps_per_epoch`") from None
        return steps_per_epoch
    if steps_per_epoch is not None and steps_per_epoch > there:
        raise ValueError(
            f"The requested steps per epoch of {steps_per_epoch} exceeds total steps in an epoch, which is {there}."
        )
    return steps_per_epoch or there


class DistributedSampler(Sampler[Any]):
    """Indices, or batches of them, in an order that all workers would share; here there is one worker.

    `start_index` skips samples at the beginning; `num_samples` above the size of the data begins it again. With a
    seed the orders of the epochs are reproducible. Raises ValueError for counts below 1.
    """

    def __init__(
        self,
        data_source: Any,
        shuffle: bool = True,
        seed: int | None = None,
        start_index: int = 0,
        shard: bool = True,
        batch_size: int | None = None,
        drop_last: bool = True,
        num_samples: int | None = None,
        pad_last: bool = False,
    ):
        super().__init__(data_source)
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be None or at least 1, got {batch_size}")
        if num_samples is not None and num_samples < 1:
            raise ValueError(f"num_samples must be None or at least 1, got {num_samples}")
        self.shuffle, self.shard, self.pad_last = shuffle, shard, pad_last
        self.batch_size, self.drop_last, self.start_index = batch_size, drop_last, start_index
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self._generator = Generator()
        self._generator.manual_seed(draw_seed(None) if seed is None else seed)

    def _indices(self) -> list[int]:
        size, found = len(self.data_source), []  # type: ignore[arg-type, var-annotated]
        while len(found) < self.num_samples:
            found += self._generator.permutation(size).tolist() if self.shuffle else range(size)
        return found[self.start_index : self.num_samples]

    def __iter__(self) -> Iterator[Any]:
        indices = self._indices()
        if self.batch_size is None:
            yield from indices
            return
        for start in range(0, len(indices), self.batch_size):
            batch = indices[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch + batch[-1:] * (self.batch_size - len(batch)) if self.pad_last else batch

    def __len__(self) -> int:
        count = self.num_samples - self.start_index
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def set_state(self, start_index: int) -> None:
        """Go on at another sample."""
        self.start_index = start_index
