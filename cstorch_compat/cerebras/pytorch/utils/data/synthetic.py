"""A synthetic data set, and the computation of the number of steps of a run."""

import itertools
from collections.abc import Iterator
from typing import Any

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import setting_checks
from lazytensor.core import pytree
from lazytensor.core.tensor import Tensor
from lazytensor.data.dataset import IterableDataset


class IterDataPipe(IterableDataset[Any]):
    """The base class of sample streams in PyTorch. It has no behaviour here."""


class SyntheticDataset(IterDataPipe):
    """An iterable data set that yields the same nested structure of tensors repeatedly.

    `sample_spec` is a nested structure of tensors, or of functions from the sample's index to a tensor. Without
    `num_samples` the stream is endless. Raises ValueError if `sample_spec` contains other leaves or none. Raises
    TypeError if `num_samples` is not an int, and ValueError if it is below 1.

    >>> import torch, cerebras.pytorch as cstorch
    >>> len(cstorch.utils.data.SyntheticDataset(torch.ones(2), num_samples=8))
    8
    """

    def __init__(self, sample_spec: Any, num_samples: int | None = None):
        self._leaves, self._form = pytree.tree_flatten(sample_spec)
        if not self._leaves:
            raise ValueError(
                "`sample_spec` contains no `torch.Tensor` and no `Callable`"
                "\n  Put a tensor or a function into sample_spec."
            )
        for leaf in self._leaves:
            if not isinstance(leaf, Tensor) and not callable(leaf):
                raise ValueError(
                    "`sample_spec` is expected to contain a python tree of `torch.Tensor`, or `Callable`, but got an "
                    f"item of type `{type(leaf)}`. Note that supported data structures for holding leaf nodes in the "
                    "tree are tuples, lists, dicts and named tuples."
                    "\n  Put only tensors and functions into sample_spec."
                )
        if num_samples is not None and not isinstance(num_samples, int):
            raise TypeError(
                f"`num_samples` must be a positive integer or None, got {type(num_samples)}"
                "\n  Pass a positive integer, or None."
            )
        if num_samples is not None and num_samples < 1:
            raise ValueError(
                f"`num_samples` must be a positive integer or None, got {num_samples}"
                "\n  Pass a positive integer, or None."
            )
        self._count = num_samples

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(
            "Subclasses of Dataset should implement __getitem__.\n  Define __getitem__(self, index) in the class."
        )

    def __iter__(self) -> Iterator[Any]:
        # Functions get the index, so that samples may differ but are the same in every epoch.
        for i in itertools.count() if self._count is None else range(self._count):
            leaves = [leaf if isinstance(leaf, Tensor) else leaf(i) for leaf in self._leaves]
            yield pytree.tree_unflatten(leaves, self._form)

    def __len__(self) -> int:
        if self._count is None:
            raise TypeError(
                f"`{type(self).__name__}` does not have a length: it was created without `num_samples`"
                "\n  Pass num_samples when you create it."
            )
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
    """Return the number of steps to run: the smallest of the limits that are given.

    - `num_steps`: the number of steps.
    - `num_epochs`: the number of passes over the loader instead; both raise ValueError.
    - `max_steps`: the global step at which training ends; the limit is `max_steps` - `initial_step`.
    - `steps_per_epoch`: the length of an epoch; by default that of `dataloader`, divided by `grad_accum_steps`.
    - `grad_accum_steps`: the number of batches of a step.

    Raises ValueError if all three limits are missing, or if a count is not an int or is below 1 (0 for `initial_step`).
    Raises ValueError if the loader has fewer steps than `steps_per_epoch`. Raises RuntimeError if `initial_step` is not
    before `max_steps`.
    """
    counts = {"num_steps": num_steps, "max_steps": max_steps, "num_epochs": num_epochs}
    for name, value in {**counts, "steps_per_epoch": steps_per_epoch}.items():
        if value is not None:
            _require_count(name, value, 1)
    _require_count("initial_step", initial_step, 0)
    _require_count("grad_accum_steps", grad_accum_steps, 1)
    if num_epochs is not None and num_steps is not None:
        raise ValueError("Only one of `num_epochs` or `num_steps` can be specified.\n  Omit one of the two.")
    if all(value is None for value in counts.values()):
        raise ValueError("One of num_epochs, num_steps, or max_steps must be provided\n  Pass one of them.")
    if max_steps is not None and initial_step >= max_steps:
        raise RuntimeError(
            f"Initial global step {initial_step} already exceeds max step {max_steps}.\n  Increase max_steps."
        )
    # max_steps counts from the first run on, the other limits from this run.
    bounds = [] if max_steps is None else [max_steps - initial_step]
    if num_steps is not None:
        bounds.append(num_steps)
    if num_epochs is not None:
        bounds.append(num_epochs * _count_epoch_steps(dataloader, steps_per_epoch, grad_accum_steps))
    return min(bounds)


def _require_count(name: str, value: Any, least: int) -> None:
    """Raise ValueError unless `value` is an int of at least `least`.

    None raises it too. `name` is used in the message.
    """
    if value is None:
        message = f"`{name}` cannot be None."
    elif not isinstance(value, int):
        message = f"`{name}` must be an integer, but got {type(value)}."
    elif value < 0:
        message = f"`{name}` cannot be negative, but got {value}."
    elif value < least:
        message = f"`{name}` must be greater than zero."
    else:
        return
    with reraise_as_builtin():
        raise setting_checks.make_value_error(name, value, message, f"Give an integer of at least {least}.")


def _count_epoch_steps(dataloader: Any, steps_per_epoch: int | None, grad_accum_steps: int) -> int:
    """Return the number of steps of an epoch: `steps_per_epoch`, or the loader's batches divided by `grad_accum_steps`.

    Batches that do not fill a step are not counted. Raises ValueError if the loader has no length and `steps_per_epoch`
    is None, or if the loader has fewer steps than `steps_per_epoch`.
    """
    try:
        # Batches at the end of an epoch that do not fill a step are dropped.
        there = len(dataloader) // grad_accum_steps
    except TypeError:
        if steps_per_epoch is None:
            raise ValueError(
                "The dataloader has no length: pass `num_steps` or `steps_per_epoch`"
                "\n  Pass num_steps or steps_per_epoch."
            ) from None
        return steps_per_epoch
    # An epoch may be shortened, but not be longer than the loader.
    if steps_per_epoch is not None and steps_per_epoch > there:
        raise ValueError(
            f"The requested steps per epoch of {steps_per_epoch} exceeds total steps in an epoch, which is {there}."
            "\n  Reduce steps_per_epoch."
        )
    return steps_per_epoch or there
