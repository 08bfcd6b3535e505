"""The session that a cstorch script gets while its step is recorded for a plan: of the batch it sees types alone."""

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
    """Takes the place of the wafer's session: records the first step, and ends the script behind it."""

    def __init__(self, batch: StepBatch):
        super().__init__(AbstractCapture(batch.shows_zeros))
        self.batch = batch

    def begin(self, batch: Any) -> Any:
        """Take in a batch; the loop sees tensors that have no values."""
        seen = map_tensors(self.batch.resize_batch(batch), _drop_value)
        for i, (path, t) in enumerate(flatten(seen)):
            self.capture.feed(t.cell, i, f"input{path}")
        self.capture.__enter__()
        self.capture.pause()
        return seen

    def end(self, step: int, is_checkpoint: bool, next_checkpoint: NextCheckpoint) -> None:
        """The step is recorded. Raises StepRecorded with its graph."""
        # Where closures take nothing of the step, what its functions return is what it is for.
        fetches = find_fetched_tensors(self._take_closure_calls()) or [
            t for t in self._returned() if t.cell.home is None
        ]
        raise StepRecorded(abstract_step.graph_of(self.capture, fetches))


def _drop_value(t: Tensor) -> Tensor:
    seen = tensor_from_storage(Storage(storage.new_abstract_leaf(t.spec)))
    seen.device = LAZY_DEVICE
    return seen
