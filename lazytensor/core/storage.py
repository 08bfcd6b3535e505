"""Cells, the storage of tensors, and the step that is being captured, if there is one.

A cell points to the node that is its present value. Outside a step, nodes are run when somebody reads; inside one, the
step (see `capture`) is told of every cell that is read, written or made.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from lazytensor import config
from lazytensor.autograd.grad_recording import grad_recording_state
from lazytensor.core import source
from lazytensor.core.shared_memory import SharedMemory
from lazytensor.core.storage_versions import Snapshot, record_of_node, record_overwrite
from lazytensor.errors import StateError, TraceError
from lazytensor.ir import node_replay
from lazytensor.ir.graph import (
    NO_ATTRS,
    Node,
    leaf,
    new_uninterned_node,
    new_unshared_leaf,
    node_template,
    set_merging,
    topological,
)
from lazytensor.ir.types import Type
from lazytensor.runtime import blas, repeated_graphs, shared_products, unfused_program
from lazytensor.runtime.reference import evaluate

MAX_PENDING_STORAGES = 4000
"""Unread operations after which everything alive is computed, so that a loop that reads nothing cannot grow."""
MAX_CACHED_ELEMENTS = 65536
"""Elements up to which a value that was computed for a reader is kept where else nothing is computed."""


FREED_COUNT_KEY = "spent"
"""Key in a node's memo: how often gradients have passed it and needed its values."""


class Storage:
    """Storage of a tensor. `node` is its value; None while the value lives in the store between steps."""

    __slots__ = ("node", "type", "epoch", "state", "home", "synced", "version", "leaf", "is_inference", "__weakref__")

    def __init__(self, n: Node):
        self.node: Node | None = n
        self.type: Type = n.type
        self.epoch: ActiveCapture | None = thread_state.current  # the step that it belongs to
        self.state: str = ""  # StateId, given on registration or at the first step that reads the cell
        self.home: ValueStore | None = None  # the store that holds its value between steps
        self.synced: Node | None = None  # the leaf that the store's present value was read into
        self.version: int = 0  # counts writes
        self.leaf: Node | None = None  # the leaf that stands for it in steps
        self.is_inference: bool = False  # whether inference mode made it
        n.cells += 1

    @classmethod
    def outside(cls, n: Node) -> "Storage":
        """A cell that counts as made before the step that is being captured."""
        cell = cls(n)
        cell.epoch = None
        return cell

    @classmethod
    def from_store(cls, home: "ValueStore", type: Type) -> "Storage":
        """A cell whose value is brought from `home` when somebody reads it."""
        cell = cls.__new__(cls)
        cell.node, cell.type, cell.epoch, cell.state = None, type, None, ""
        cell.home, cell.synced, cell.version, cell.leaf, cell.is_inference = home, None, 0, None, False
        return cell


class ValueStore(Protocol):
    """Where a value lives while no node stands for it: the store of a backend, or a file."""

    def copy(self, state: str) -> np.ndarray:
        """The value, for the caller to keep. Raises StateError where it cannot be fetched now."""

    def claim(self, state: str) -> None:
        """Called before the value is changed outside a step; raises StateError if that is not allowed now."""


class ActiveCapture(Protocol):
    """The step that is being captured, as cells know it: `capture.Capture`."""

    rules: int
    readable: bool
    has_calls: bool

    def new_input_storage(self, array: np.ndarray, type: Type) -> Storage:
        """A new cell with a value that is known now and another one in the next step."""

    def record_written(self, cell: Storage) -> None:
        """Note a cell that was made or written in the step."""

    def settle(self, cell: Storage) -> None:
        """Note a cell that was made in the step around a value that is known."""

    def touch(self, cell: Storage) -> None:
        """Take a cell from before the step into it."""

    def uses(self, n: Node) -> bool:
        """Whether a gradient may come to a node from what was computed in the step."""

    def shows(self, n: Node, cell: Storage) -> bool:
        """Whether another cell of the step than `cell` has the node for its value."""

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """The value of a node of the step; `what` says in an error who asks. Raises TraceError where it has none."""

    def client_value(self, n: Node) -> np.ndarray | None:
        """The value of a node that depends on tensors of the client only; None for any other, and in an eager step."""

    def run_at_end(self, action: Callable[[], None]) -> None:
        """Have an action recorded after all else that the step does."""


class ThreadState(threading.local):
    """What each thread has for itself: a loader's thread makes tensors beside a step that another one records."""

    current: ActiveCapture | None = None

    def __init__(self) -> None:
        # Cells with a value to be computed outside of steps. Weakly: what nobody holds is never computed.
        self.pending: list[weakref.ref[Storage]] = []


thread_state = ThreadState()
_capturing_thread: threading.Thread | None = None  # who records a step
has_used_inference_mode = False
"""Whether a block of this process was in inference mode."""
is_abstract = False
"""Whether parameters have a type and no array, and nothing is computed that nobody reads (see `abstract_step`)."""


def set_active_capture(step: ActiveCapture | None) -> ActiveCapture | None:
    """Make a step the current one of this thread, or none; returns the one before.

    Raises TraceError while another thread records: both would number their inputs, and name their state, from one run.
    """
    global _capturing_thread
    thread, other = threading.current_thread(), _capturing_thread
    if step is not None and other is not None and other is not thread and other.is_alive():
        raise TraceError(
            f"a step is being recorded in the thread {other.name!r}, and {thread.name!r} begins another one",
            where=source.where(),
            hint="A process records one step at a time: run one loop after the other, or each in a process of its own.",
        )
    _capturing_thread = None if step is None else thread
    before, thread_state.current = thread_state.current, step
    set_merging(step is not None)
    return before


def new_storage(n: Node) -> Storage:
    """A cell for a value that was just computed; it will be fetched or materialized if it outlives its use.

    Outside of a step each cell has a node of its own, by which backward finds what became of its storage.
    """
    if (n.cells or n.op == "full") and thread_state.current is None and not is_abstract:
        n = _make_distinct_node(n)
    cell = Storage(n)
    if (step := cell.epoch) is not None:
        # Not by n.value: whether a constant was computed before must not change what the step returns.
        (step.settle if n.op in ("const", "leaf") else step.record_written)(cell)
    elif n.value is None and not is_abstract:
        thread_state.pending.append(weakref.ref(cell))
        if len(thread_state.pending) > MAX_PENDING_STORAGES:
            sync()
    if has_used_inference_mode and grad_recording_state.is_inference and step is None:
        cell.is_inference = True
        _note_inference(cell)
    return cell


def _note_inference(cell: Storage) -> None:
    """Note in the node of a cell that inference mode made the cell."""
    if cell.node is not None:
        record_of_node(cell.node).inference = weakref.ref(cell)


def _make_distinct_node(n: Node) -> Node:
    """Return a node for a cell whose value another cell shows, or a formula has for a constant."""
    if n.op == "full":
        twin = new_uninterned_node(node_template(n), ())
        twin.value = n.value
        return twin
    # Equal computations are one node, so that as many walks back may pass it as there are tensors of it.
    n.cells += 1
    record_of_node(n).clones += 1
    return _clone_node(n)


def _clone_node(n: Node) -> Node:
    return new_uninterned_node(("clone", NO_ATTRS, (), n.type, n.where, n.tracks), (n,))


def clone_if_tracked(n: Node) -> Node:
    """Return the value of a copy of a tensor with the value `n`: for autograd, it is another node outside of steps."""
    return _clone_node(n) if n.tracks and thread_state.current is None and not is_abstract else n


def new_abstract_leaf(type: Type) -> Node:
    """A new leaf that has a type and stands for no array."""
    return new_unshared_leaf("leaf", type)


def is_abstract_leaf(n: Node) -> bool:
    """Whether a node is such a leaf: every other one is made around its array."""
    return n.op == "leaf" and n.value is None


def read(cell: Storage) -> Node:
    """The present value of a cell, as a node of the step being captured or of the outside."""
    if (step := thread_state.current) is not None:
        if cell.epoch is not step:
            step.touch(cell)
    elif cell.node is None:
        if cell.home.__class__ is SharedMemory:
            return _snapshot(cell)
        _fetch(cell)
    assert cell.node is not None
    return cell.node


def _snapshot(cell: Storage) -> Node:
    """Return the present value of a pinned cell; end the pin if no array of the script is left."""
    memory = cell.home
    assert isinstance(memory, SharedMemory)
    n = memory.node()
    if n.storage is None:
        record_of_node(n).snapshot = Snapshot(memory.array, cell.type, memory)
    if memory.is_released:
        cell.node, cell.home = n, None
    return n


def is_pinned(cell: Storage) -> bool:
    """Return whether a cell shares memory with an array of the script, and is read outside of a step."""
    return cell.home.__class__ is SharedMemory and thread_state.current is None and cell.node is None


def unpin(cell: Storage) -> None:
    """Give a cell the present value of its memory, which it does not share from now on."""
    if isinstance(cell.home, SharedMemory):
        if cell.node is None:
            cell.node = cell.home.node()
        cell.home = None


def pin(cell: Storage) -> SharedMemory | None:
    """Move the value of a cell to memory that NumPy can share, and return the memory.

    Return None for a cell that a step or a store uses, and in an abstract run.
    """
    home = cell.home
    if isinstance(home, SharedMemory):
        return home
    if thread_state.current is not None or is_abstract or cell.epoch is not None or not cell.type.size:
        return None
    if home is not None and cell.state:
        return None
    n = read(cell)
    value_of(n)
    memory = SharedMemory.of_value(n)
    record_of_node(n).snapshot = Snapshot(memory.array, cell.type, memory)
    cell.node, cell.home, cell.synced = None, memory, None
    return memory


def write_pinned(cell: Storage, n: Node, is_counted: bool = True) -> None:
    """Make `n` the value of a pinned cell: its value is computed, and written to the memory, at once."""
    memory = cell.home
    assert isinstance(memory, SharedMemory)
    memory.write(n, value_of(n), is_counted)
    cell.version += is_counted


def write(cell: Storage, n: Node, is_counted: bool = True) -> None:
    """Make `n` the value of a cell; what is not counted is a write that backward does not notice."""
    if thread_state.current is None:
        if cell.home.__class__ is SharedMemory and cell.node is None:
            write_pinned(cell, n, is_counted)
            return
        # Initial values of what has none: they would be drawn, and never seen.
        if is_abstract and cell.node is not None and is_abstract_leaf(cell.node):
            return
        if cell.home is not None:
            cell.home.claim(cell.state)
        if n.op == "full" and not is_abstract:
            n = _make_distinct_node(n)
        # It shows this value again, perhaps: a constant that it began with may come back, as by `weight.data.zero_()`.
        if n.storage is not None:
            n.storage.losses.pop(id(cell), None)
        if cell.node is not None and cell.node is not n:
            n.cells += 1
            record_overwrite(cell, cell.node, n, is_counted)
    elif cell.epoch is not thread_state.current:
        thread_state.current.touch(cell)
    cell.node = n
    cell.version += is_counted
    if thread_state.current is None:
        if cell.is_inference:
            _note_inference(cell)
        if n.value is None and not is_abstract:
            thread_state.pending.append(weakref.ref(cell))
    elif cell.home is None:
        thread_state.current.record_written(cell)


def write_all(members: Sequence[Storage], nodes: Sequence[Node]) -> None:
    """As `write` for each, outside of a step and of the abstract one, of new leaves that no cell was given before."""
    for cell, n in zip(members, nodes, strict=True):
        if cell.home is not None:
            if cell.home.__class__ is SharedMemory:
                write_pinned(cell, n)
                continue
            cell.home.claim(cell.state)
        old = cell.node
        if old is not None:
            n.cells += 1
            record_overwrite(cell, old, n, True)
        cell.node = n
        cell.version += 1


def write_in_step(members: Sequence[Storage], nodes: Sequence[Node]) -> None:
    """As `write` for each, of cells that the step being captured has read."""
    step = thread_state.current
    assert step is not None
    for cell, n in zip(members, nodes, strict=True):
        if cell.node is not n:
            cell.node = n
            cell.version += 1
            if cell.home is None:
                step.record_written(cell)


def _fetch(cell: Storage) -> None:
    assert cell.home is not None
    cell.node = cell.synced = leaf(cell.home.copy(cell.state), cell.type)


def register(cell: Storage, state: str) -> None:
    """Give a cell its identity. Raises StateError if it has another one already."""
    if cell.state and cell.state != state and not cell.state.startswith("unnamed."):
        raise StateError(
            f"the tensor called {cell.state!r} was given a second name, {state!r}",
            where=source.where(),
            hint="Register a tensor once; a module that shares a tensor keeps the first name.",
        )
    if cell.state != state and cell.home is not None and cell.home.__class__ is not SharedMemory:
        # The store knows the value by the old name, so the cell takes it along.
        read(cell)
        cell.home, cell.synced = None, None
    cell.state = state


def _evaluate_roots(roots: list[Node], remember: bool = False) -> list[np.ndarray]:
    kept = _values_for_backward(roots) if remember else []
    wanted = [*roots, *kept]
    values = repeated_graphs.evaluated(wanted, topological(wanted, _has_value))
    if values is None:
        # With one thread of BLAS, whose results differ by how many it has; large products are shared in parts of our
        # own.
        with blas.one_thread():
            return evaluate(roots, {}, remember, _evaluate_as_compiled)
    for n, value in zip(wanted, values, strict=True):
        n.value = value
    return values[: len(roots)]


def _evaluate_as_compiled(n: Node, arrays: list[np.ndarray]) -> np.ndarray | None:
    """The value of a node that a compiled program would round otherwise than NumPy; None for any other."""
    product = shared_products.shared(n, arrays)
    return product if product is not None or not config.current().jit else unfused_program.shared(n, arrays)


def _values_for_backward(roots: list[Node]) -> list[Node]:
    """The nodes below `roots` whose values a gradient will ask for: no walk back has used them up."""
    open = [r for r in roots if r.tracks and not (r.memo and FREED_COUNT_KEY in r.memo)]
    return [n for n in topological(open, _has_value) if n.tracks and n.value is None and isinstance(n.type, Type)]


def _has_value(n: Node) -> bool:
    return n.value is not None


def sync() -> None:
    """Compute every live value that is still pending outside a step; without gradient history it becomes a leaf."""
    cells = [c for r in thread_state.pending if (c := r()) is not None]
    thread_state.pending = []
    # All at once, so that what they share is computed once.
    roots = list(dict.fromkeys(c.node for c in cells if c.node is not None and c.node.value is None))
    for n, value in zip(roots, _evaluate_roots(roots, remember=True), strict=True):
        n.value = value
    for c in cells:
        # A value without history lets go of the nodes that it was computed from, and of their values.
        if c.node is not None and c.node.value is not None and c.node.inputs and not c.node.tracks:
            c.node = leaf(c.node.value, c.type)
            c.node.cells = 1
            if c.is_inference:
                _note_inference(c)


def reset() -> None:
    """Leave whatever step is being captured, and compute nothing of what is pending until somebody reads it."""
    global is_abstract, _capturing_thread
    thread_state.current, is_abstract, _capturing_thread = None, False, None
    set_merging(False)
    thread_state.pending.clear()
    repeated_graphs.forget()
    node_replay.clear_answered_queries()


def value_of(n: Node, what: str = "reading it", is_on_client: bool = False) -> np.ndarray:
    """The array that a node stands for. Raise a TraceError inside a step whose values do not exist yet.

    The value of a tensor that `is_on_client` exists if it depends on tensors of the client only.
    """
    if n.value is not None:
        return n.value
    if (step := thread_state.current) is not None:
        value = step.client_value(n) if is_on_client else None
        return step.value_of(n, what) if value is None else value
    if is_abstract:
        return _evaluate_abstract(n)
    sync()
    if n.value is None:
        n.value = _evaluate_roots([n])[0]
    return n.value


def is_computable(n: Node) -> bool:
    """Whether a value of the outside depends on nothing that has none."""
    return not any(is_abstract_leaf(i) for i in topological([n], lambda i: i.value is not None))


def is_unknown_in_plan(n: Node) -> bool:
    """Whether a plan has no value for a node of the outside: what is read of it are zeros."""
    return is_abstract and thread_state.current is None and not is_computable(n)


def _evaluate_abstract(n: Node) -> np.ndarray:
    """What is seen of a value outside of the abstract step: zeros where it depends on what has no value."""
    if is_computable(n):
        array = evaluate([n], {})[0]
        # Small ones are asked for again and again; a large one is the caller's alone.
        n.value = array if n.type.size <= MAX_CACHED_ELEMENTS else None
        return array
    # One zero under all elements: what is asked for may be as large as a model.
    return np.broadcast_to(np.zeros((), n.type.dtype.host), n.type.shape)


def run_outside_capture(action: Callable[[], None]) -> None:
    """Run something as if no step were being traced: making state, for example."""
    before, thread_state.current = thread_state.current, None
    try:
        action()
    finally:
        thread_state.current = before
