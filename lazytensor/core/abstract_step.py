"""Abstract steps: record a training step from shapes and types only, without arrays.

Inside `mode()`, parameters get no array and only values that are read are computed. Recording a step therefore needs
neither the memory nor the time of its tensors, however large the model is. Values that do not depend on parameters or
on the batch, such as masks and counters of the script, are still available. Reading any other value raises TraceError,
as on the wafer.
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
"""Compilation target for steps that are planned but not executed: the passes of CSX without the printing of CIRH."""


@contextmanager
def mode() -> Iterator[None]:
    """Enable abstract mode in the block: new parameters get no array, and only values that are read are computed.

    It applies to all threads of the process. The previous mode is restored at the end.
    """
    before, storage.is_abstract = storage.is_abstract, True
    try:
        yield
    finally:
        storage.is_abstract = before


def tensor(shape: Sequence[int], dtype: DType = float32) -> Tensor:
    """Return a tensor that has a shape and a type but no array."""
    return tensor_from_storage(Storage(storage.new_abstract_leaf(Type(tuple(shape), dtype))))


class AbstractStorages(CapturedStorages):
    """The storages of a step that is recorded without values."""

    def feed(self, cell: Storage, index: int, name: str) -> None:
        """Make `cell` input number `index` of the step, under `name`.

        Its value is not read: zeros in its shape are recorded as the array of the input.
        """
        batch = node("batch", (), {"index": index, "name": name, "type": cell.type}, cell.type)
        self.inputs.append(InputStorage(cell, cell.node, batch, _zeros_without_memory(cell.type)))
        cell.node, cell.epoch = batch, self.epoch

    def _bring(self, cell: Storage) -> None:
        """Do nothing: the store gets no values."""

    def values_before(self, known: Container[Node] = ()) -> dict[Node, np.ndarray]:
        """Return, by `state` node, the values from before the step of the state that the step has read so far.

        State that depends on a parameter without an array, or whose value is only in a store, is left out. `known` is
        ignored.
        """
        befores = {state: before for _, before, state in self.touched if before is not None}
        return {state: storage.value_of(n) for state, n in befores.items() if storage.is_computable(n)}


def _zeros_without_memory(t: Type) -> np.ndarray:
    # A broadcast of one element, whatever the shape.
    return np.broadcast_to(np.zeros((), t.dtype.host), t.shape)


class AbstractCapture(Capture):
    """A step that is recorded and never executed.

    With `shows_zeros`, reads of unavailable values return zeros instead of raising TraceError, for scripts that only
    print what they read.
    """

    has_calls = True

    def __init__(self, shows_zeros: bool = False) -> None:
        super().__init__(Store(), readable=False)
        self.shows_zeros = shows_zeros
        # Replaces the storages that the base class created, which would write values to the store.
        self.cells = AbstractStorages(self.store, self)
        self.touch = self.cells.touch

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """Return the value of a node that depends on no parameter and no input of the batch.

        State has its value from the start of the step. For any other node, return zeros with `shows_zeros`, else raise
        TraceError (ClientValueError for ".numpy()"). `what` names the reading call. The value is not cached.
        """
        # Inline function calls: the node may be one result of a call, and depend on only some of its operands.
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
        """Return None: `value_of` covers values of the client too."""

    def _refused(self, n: Node, what: str) -> np.ndarray:
        """Return zeros of the type of `n` with `shows_zeros`; otherwise raise TraceError as `Capture.value_of` does."""
        return _zeros_without_memory(n.type) if self.shows_zeros else super().value_of(n, what)


def program_of(graph: Graph) -> Program:
    """Return the program of a recorded step, compiled for `PLAN_TARGET`."""
    return compile_graph(inline_calls(graph), PLAN_TARGET)


def record(
    step: Callable[..., Any], batch: Mapping[str, Tensor] | Sequence[Tensor], half: DType | None = None
) -> StepFamily:
    """Return the programs of `step(*batch)`, or `step(**batch)` for a mapping, for every batch size.

    Only the shapes and types of the tensors in `batch` are used. The batch size is the first dimension of the first
    tensor in which that is not 0; for another size, the first dimension of each input that equals it is replaced, and
    `step` is called again when a program for that size is requested. `half` is the type for matrix products. Create
    parameters in `mode()`, otherwise they keep their arrays. Raises TraceError, with the user's line, if `step` reads a
    value, and CompileError if no tensor has a batch size.

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
    """Record `call()` in abstract mode and return its graph.

    `batch` names the tensors that are inputs; they must be those that `call` uses. The outputs are the tensors that
    `call` returns. `half` is the type for matrix products. Calls of functions are not inlined. All storages get their
    values from before the step back at the end, but `.grad` attributes are not restored.
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
    """Return the graph of a capture, with only the tensors of `fetches` (a tensor, a sequence or None) as outputs.

    Members of `fetches` that are no tensors are skipped, and equal nodes occur once. The functions registered with
    `run_at_end` are called first, once. Calls of functions are not inlined; use `inline_calls` for consumers other than
    the planner.
    """
    # The outputs of a capture are all tensors that are still referenced; a plan needs only the fetched ones.
    traced, _ = capture.graph()
    listed = [fetches] if isinstance(fetches, Tensor) else list(fetches or ())
    outputs = tuple(dict.fromkeys(t.node for t in listed if isinstance(t, Tensor)))
    return Graph(traced.inputs, traced.state, outputs, traced.updates)


def leading_extent(types: Any) -> int:
    """Return the batch size: the first dimension of the first type that has dimensions and is not empty in the first.

    Raises CompileError if there is none.
    """
    size = next((t.shape[0] for t in types if t.shape and t.shape[0]), None)
    if size is None:
        raise CompileError(
            "the batch has no tensor with samples in its first dimension", hint="Pass the batch to the step as tensors."
        )
    return int(size)


def replace_batch_size(t: Type, own: int, size: int) -> Type:
    """Return the type `t` with its first dimension replaced by `size` if that dimension is `own`, else `t` itself."""
    if not t.shape or t.shape[0] != own:
        return t
    return Type((size, *t.shape[1:]), t.dtype)
