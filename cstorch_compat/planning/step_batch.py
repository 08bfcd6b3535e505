"""The batch size of a recorded step: the script's, or another one."""

from dataclasses import dataclass
from typing import Any

from cstorch_compat.files.tree import map_tensors
from lazytensor.core import storage
from lazytensor.core.abstract_step import replace_batch_size
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.ir.graph import Graph


class StepRecorded(BaseException):
    """Raised to end the script when its step is recorded.

    A BaseException, so that `except Exception` does not catch it.
    """

    def __init__(self, graph: Graph):
        super().__init__("the step is recorded")
        self.graph = graph


@dataclass(frozen=True)
class StepBatch:
    """The conversion of the script's batches of `own` samples to `wanted` samples. 0 and 0 leave them unchanged.

    `shows_zeros` is whether values that the step reads are zero instead of refused.
    """

    own: int = 0
    wanted: int = 0
    shows_zeros: bool = False

    def resize_batch(self, batch: Any) -> Any:
        """Return the batch with `wanted` samples. Tensors whose shape changes lose their values."""
        return map_tensors(batch, self._resized) if self.wanted else batch

    def _resized(self, t: Tensor) -> Tensor:
        """Return a tensor of the requested batch size, or the same tensor if its shape does not change."""
        spec = replace_batch_size(t.spec, self.own, self.wanted)
        if spec is t.spec or spec == t.spec:
            return t
        other = tensor_from_storage(Storage(storage.new_abstract_leaf(spec)))
        other.device = t.device
        return other

    def resize(self, cell: Storage) -> None:
        """Resize a storage in place. This applies to batch tensors that come from no loader."""
        spec = replace_batch_size(cell.type, self.own, self.wanted) if self.wanted else cell.type
        if spec != cell.type:
            cell.type, cell.node, cell.synced = spec, storage.new_abstract_leaf(spec), None
