"""Abstract steps: recorded with parameters and batches that have a type and no array.

Inside `mode()` a parameter gets no array, and nothing is computed that nobody reads. A step is then recorded from types
alone: it costs neither the memory nor the time of its tensors, however large the model is. What does not depend on such
a tensor (a mask, a number of the script) still has its value; to ask for any other is refused as on the wafer.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazytensor.compiler.pipeline import CSX, PRINT_CIRH, Target, compile_graph
from lazytensor.core import autocast, storage
from lazytensor.core.capture import Capture
from lazytensor.core.captured_storages import CapturedStorages, InputStorage
from lazytensor.core.dtype import DType, float32
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph, Node, node, topological
from lazytensor.ir.graph_function import inline_calls
from lazytensor.ir.program import Program
from lazytensor.ir.program_family import StepFamily as StepFamily
from lazytensor.ir.types import Type
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store

PLAN_TARGET = Target("plan", tuple(p for p in CSX.passes if p is not PRINT_CIRH))
"""What a step is compiled for that is planned and not executed: the passes of CSX, without its text."""


@contextmanager
def mode() -> Iterator[None]:
    """Parameters made in the block have no array, and what nobody reads is not computed."""
    before, storage.is_abstract = storage.is_abstract, True
    try:
        yield
    finally:
        storage.is_abstract = before


def tensor(shape: Sequence[int], dtype: DType = float32) -> Tensor:
    """A tensor that has a type and no array."""
    return tensor_from_storage(Storage(storage.new_abstract_leaf(Type(tuple(shape), dtype))))


class AbstractStorages(CapturedStorages):
    """The cells of a step whose values are not asked for."""

    def feed(self, cell: Storage, index: int, name: str) -> None:
        """Make the cell's value input number `index` of the step."""
        batch = node("batch", (), {"index": index, "name": name, "type": cell.type}, cell.type)
        self.inputs.append(InputStorage(cell, cell.node, batch, _zeros_without_memory(cell.type)))
        cell.node, cell.epoch = batch, self.epoch

    def _bring(self, cell: Storage) -> None:
        """Leave the store without the value."""

    def values_before(self, known: Container[Node] = ()) -> dict[Node, np.ndarray]:
        """The values that are known when the step begins: those of tensors that the script made without parameters."""
        befores = {state: before for _, before, state in self.touched if before is not None}
        return {state: storage.value_of(n) for state, n in befores.items() if storage.is_computable(n)}


def _zeros_without_memory(t: Type) -> np.ndarray:
    # The shape of it in the memory of one element.
    return np.broadcast_to(np.zeros((), t.dtype.host), t.shape)


class AbstractCapture(Capture):
    """A step that is recorded and never executed.

    With `shows_zeros` what is read of it is zeros, for scripts that only print what they read.
    """

    has_calls = True

    def __init__(self, shows_zeros: bool = False) -> None:
        super().__init__(Store(), readable=False)
        self.shows_zeros = shows_zeros
        # In place of the cells that bring values into the store.
        self.cells = AbstractStorages(self.store, self)
        self.touch = self.cells.touch

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """The value of what depends on no parameter and no sample. Raises TraceError for anything else."""
        # A value of the client may stand behind an update and depend on a part of it alone.
        [n] = inline_calls(Graph((), {}, (n,), {})).outputs
        order = topological([n], lambda i: i.value is not None)
        if any(i.op == "batch" or storage.is_abstract_leaf(i) for i in order):
            return self._refused(n, what)
        known: dict[Node, np.ndarray] = {}
        # The client's values, as they were when the step began.
        if any(i.op == "state" for i in order):
            storage.run_outside_capture(lambda: known.update(self.cells.values_before()))
        if any(i.op == "state" and i not in known for i in order):
            return self._refused(n, what)
        return evaluate([n], known)[0]

    def client_value(self, n: Node) -> None:
        """None: `value_of` has the values of the client too."""

    def _refused(self, n: Node, what: str) -> np.ndarray:
        return _zeros_without_memory(n.type) if self.shows_zeros else super().value_of(n, what)


def program_of(graph: Graph) -> Program:
    """The program of a recorded step, which is bound to nothing."""
    return compile_graph(inline_calls(graph), PLAN_TARGET)


def record(
    step: Callable[..., Any], batch: Mapping[str, Tensor] | Sequence[Tensor], half: DType | None = None
) -> StepFamily:
    """The family of `step(*batch)`, or of `step(**batch)`, which updates parameters and returns what is fetched.

    Of the tensors of the batch the types alone are used; the leading extent of the first is the batch size. `half` is
    the type that products run in. Parameters are to be made in `mode()`, or they keep their arrays.
    Raises TraceError where the step asks for a value, with the user's line.

    >>> family = record(lambda x: (x * 2).sum(), [tensor((8, 4))])
    >>> [family.program(n).work.flops for n in (8, 16)]
    [64, 128]
    """
    given = dict(batch) if isinstance(batch, Mapping) else {str(i): t for i, t in enumerate(batch)}
    own = leading_extent(t.spec for t in given.values())

    def again(size: int) -> Program:
        tensors = {name: tensor(replace_batch_size(t.spec, own, size).shape, t.dtype) for name, t in given.items()}
        call = (lambda: step(**tensors)) if isinstance(batch, Mapping) else (lambda: step(*tensors.values()))
        return program_of(graph_of_step(call, tensors, half))

    return StepFamily(own, again(own), again)


def graph_of_step(call: Callable[[], Any], batch: Mapping[str, Tensor], half: DType | None = None) -> Graph:
    """What `call()` does with the tensors of a batch, without values, as `graph_of` says it.

    What it returns is fetched.
    """
    with mode():
        capture = AbstractCapture()
        for i, (name, t) in enumerate(batch.items()):
            capture.feed(t.cell, i, f"input.{name}")
        with autocast.autocast(half), capture:
            result = call()
            graph = graph_of(capture, result)
        capture.abandon()
        return graph


def graph_of(capture: Capture, fetches: Any) -> Graph:
    """What a capture has recorded, as a function whose outputs are the tensors of `fetches` alone.

    A planner takes it as it is; for all others its calls of functions are to be `inline_calls`.
    """
    # Outputs of the capture are all tensors that somebody still holds; of a plan only what is fetched counts.
    traced, _ = capture.graph()
    listed = [fetches] if isinstance(fetches, Tensor) else list(fetches or ())
    outputs = tuple(dict.fromkeys(t.node for t in listed if isinstance(t, Tensor)))
    return Graph(traced.inputs, traced.state, outputs, traced.updates)


def leading_extent(types: Any) -> int:
    """The batch size: the leading extent of the first of the types that has one. Raises CompileError without any."""
    size = next((t.shape[0] for t in types if t.shape and t.shape[0]), None)
    if size is None:
        raise CompileError("no tensor of the batch has a leading extent", hint="Give the step its batch as tensors.")
    return int(size)


def replace_batch_size(t: Type, own: int, size: int) -> Type:
    """The type for another batch: where the leading extent is the batch size it is the other one."""
    if not t.shape or t.shape[0] != own:
        return t
    return Type((size, *t.shape[1:]), t.dtype)
