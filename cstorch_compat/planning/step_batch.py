"""The batch of a step that is recorded: as the script has it, or of another size."""

from dataclasses import dataclass
from typing import Any

from cstorch_compat.files.tree import map_tensors
from lazytensor.core import storage
from lazytensor.core.abstract_step import replace_batch_size
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.ir.graph import Graph


class StepRecorded(BaseException):
    """The step is recorded, and the script has nothing more to show. Not for the script to catch."""

    def __init__(self, graph: Graph):
        super().__init__("the step is recorded")
        self.graph = graph


@dataclass(frozen=True)
class StepBatch:
    """Batches of `own` samples, as the script has them, are to have `wanted` of them; 0 and 0 where they stay.

    With `shows_zeros` a value that is read in the step is zero, and not refused.
    """

    own: int = 0
    wanted: int = 0
    shows_zeros: bool = False

    def resize_batch(self, batch: Any) -> Any:
        """A batch of the size that is wanted: of a tensor that changes the type alone is left."""
        return map_tensors(batch, self._resized) if self.wanted else batch

    def _resized(self, t: Tensor) -> Tensor:
        spec = replace_batch_size(t.spec, self.own, self.wanted)
        if spec is t.spec or spec == t.spec:
            return t
        other = tensor_from_storage(Storage(storage.new_abstract_leaf(spec)))
        other.device = t.device
        return other

    def resize(self, cell: Storage) -> None:
        """The same for a cell that no loader gave, where it lies."""
        spec = replace_batch_size(cell.type, self.own, self.wanted) if self.wanted else cell.type
        if spec != cell.type:
            cell.type, cell.node, cell.synced = spec, storage.new_abstract_leaf(spec), None
