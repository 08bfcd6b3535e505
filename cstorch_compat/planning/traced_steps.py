"""The session of a cstorch script whose step is recorded for a plan. The batch has no values."""

from typing import Any

from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.planning.step_batch import StepBatch, StepRecorded
from cstorch_compat.run.recorded_session import RecordedSession, find_fetched_tensors
from cstorch_compat.run.session import NextCheckpoint
from cstorch_compat.run.wafer_state import LAZY_DEVICE
from lazytensor.core import abstract_step, storage
from lazytensor.core.abstract_step import AbstractCapture
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor, tensor_from_storage


class AbstractSession(RecordedSession):
    """A session that replaces the wafer's: it records the first step and ends the script."""

    def __init__(self, batch: StepBatch):
        super().__init__(AbstractCapture(batch.shows_zeros))
        self.batch = batch

    def begin(self, batch: Any) -> Any:
        """Start the step, leave its recording paused, and return the batch as tensors without values.

        The batch is resized by `self.batch` first.
        """
        seen = map_tensors(self.batch.resize_batch(batch), _drop_value)
        for i, (path, t) in enumerate(flatten(seen)):
            self.capture.feed(t.cell, i, f"input{path}")
        self.capture.__enter__()
        self.capture.pause()
        return seen

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """Raise StepRecorded with the graph of the step.

        Its outputs are the tensors that closures take, or the results of traced functions if there are none.
        """
        # If closures take nothing of the step, its outputs are the results of its functions.
        fetches = find_fetched_tensors(self._take_closure_calls()) or [
            t for t in self._returned() if not storage.is_in_store(t.cell)
        ]
        raise StepRecorded(abstract_step.graph_of(self.capture, fetches))


def _drop_value(t: Tensor) -> Tensor:
    """Return a tensor on the wafer's device with the same shape and dtype and without a value."""
    seen = tensor_from_storage(Storage(storage.new_abstract_leaf(t.spec)))
    seen.device = LAZY_DEVICE
    return seen
