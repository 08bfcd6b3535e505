"""Summary functions of releases 1.8 to 2.3, which log scalars and tensors by name.

Values are written when the step has run. From release 1.9 on, the writer of the executor writes them; without a writer
they are dropped. In release 1.8, `save_summaries` writes them.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.run import process, steps
from cstorch_compat.summaries.summary import SummaryWriter
from lazytensor.core import storage
from lazytensor.core.tensor import Tensor

_logged_scalars = process.RunLocal[dict[str, Any]](dict)
"""The scalars given to `scalar_summary` since the last `save_summaries`, by name."""


def _defer_until_known(action: Callable[..., None]) -> Callable[..., None]:
    """Return a function (name, value) that calls `action` with its arguments.

    Outside of a traced step it does so at once. Inside one it does so when the step has run and the value is known.
    """
    later = steps.make_closure(action, needs_checkpoint=False)

    def call(name: str, value: Any) -> None:
        (action if storage.thread_state.current is None else later)(name, value)

    call.__doc__ = action.__doc__
    return call


def _summarize_scalar(name: str, value: Any) -> None:
    """Write a scalar tensor or a number under `name` with the writer of the running executor.

    Without a writer, do nothing.
    """
    for writer, step in _writer_and_step():
        writer.add_scalar(name, float(value), step)


def _summarize_tensor(name: str, value: Tensor) -> None:
    """Write a tensor of any shape under `name` with the writer of the running executor.

    Without a writer, do nothing.
    """
    for writer, step in _writer_and_step():
        writer.add_tensor(name, value, step)


def _writer_and_step() -> Iterator[tuple[SummaryWriter, int]]:
    """Yield one pair: the writer of the running executor, and the step to write under.

    The step is the executor's iteration, from 0, plus the base step of the writer. Yield nothing if there is no writer.
    """
    executor = process.running_executor()
    # In release 1.8 the executor has no writer; scalars are kept for `save_summaries`.
    writer = getattr(executor, "writer", None)
    if writer is not None:
        yield writer, executor.iteration + writer.base_step


def _scalar_summary(name: str, value: Any) -> None:
    """Store a scalar under `name` for `save_summaries`."""
    _logged_scalars.value[name] = float(value)


summarize_scalar = _defer_until_known(_summarize_scalar)
summarize_tensor = _defer_until_known(_summarize_tensor)
scalar_summary = _defer_until_known(_scalar_summary)


def save_summaries(writer: Any, step: int) -> None:
    """Write the scalars that were logged since the last call to `writer` at `step`, and clear them.

    If a name was logged more than once, only its last value is written.
    """
    for name, value in _logged_scalars.value.items():
        writer.add_scalar(name, value, step)
    _logged_scalars.value.clear()
