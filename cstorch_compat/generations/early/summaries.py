"""Releases 1.8 to 2.3: scalars and tensors logged by name, where later a writer is called in a step closure.

They are written when the step has run: from 1.9 on by the writer of the executor, and nowhere without one; in 1.8 by
the writer that `save_summaries` is given.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.run import process, steps
from cstorch_compat.summaries.summary import SummaryWriter
from lazytensor.core import storage
from lazytensor.core.tensor import Tensor

_logged_scalars = process.RunLocal[dict[str, Any]](dict)
"""What `scalar_summary` was given since the last `save_summaries`."""


def _defer_until_known(action: Callable[..., None]) -> Callable[..., None]:
    """Call with values: at once where they are there, else when the step has run."""
    later = steps.make_closure(action, needs_checkpoint=False)

    def call(name: str, value: Any) -> None:
        (action if storage.thread_state.current is None else later)(name, value)

    call.__doc__ = action.__doc__
    return call


def _summarize_scalar(name: str, value: Any) -> None:
    """Log a scalar tensor or a number under `name`, with the writer of the running executor."""
    for writer, step in _writer_and_step():
        writer.add_scalar(name, float(value), step)


def _summarize_tensor(name: str, value: Tensor) -> None:
    """Log a tensor of any shape under `name`, with the writer of the running executor."""
    for writer, step in _writer_and_step():
        writer.add_tensor(name, value, step)


def _writer_and_step() -> Iterator[tuple[SummaryWriter, int]]:
    """The writer of the running executor, if it has one, and the step to write under."""
    executor = process.running_executor()
    # In 1.8 the executor has no writer; what is logged waits for `save_summaries`.
    writer = getattr(executor, "writer", None)
    if writer is not None:
        yield writer, executor.iteration + writer.base_step


def _scalar_summary(name: str, value: Any) -> None:
    """Keep a scalar under `name` for `save_summaries`."""
    _logged_scalars.value[name] = float(value)


summarize_scalar = _defer_until_known(_summarize_scalar)
summarize_tensor = _defer_until_known(_summarize_tensor)
scalar_summary = _defer_until_known(_scalar_summary)


def save_summaries(writer: Any, step: int) -> None:
    """Write the scalars that were logged since the last call."""
    for name, value in _logged_scalars.value.items():
        writer.add_scalar(name, value, step)
    _logged_scalars.value.clear()
