"""Tensor storages: reading, writing and computing their values, inside and outside of a captured step.

A `Storage` refers to a graph node, which is its current value. Outside of a captured step, a node is computed when its
value is read. Inside one, the active `capture.Capture` is notified of each storage that is read, written or created.
Variables of type `Storage` are often called `cell` in this package.
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
from lazytensor.core.storage_versions import Snapshot, note_uncounted_writes, record_of_node, record_overwrite
from lazytensor.errors import StateError, TraceError
from lazytensor.ir import node_replay
from lazytensor.ir.graph import (
    NO_ATTRS,
    Node,
    computation,
    leaf,
    new_uninterned_node,
    new_unshared_leaf,
    node_template,
    set_merging,
    topological,
)
from lazytensor.ir.operation import OPS
from lazytensor.ir.types import Type
from lazytensor.runtime import blas, repeated_graphs, shared_products, unfused_program
from lazytensor.runtime.reference import evaluate

MAX_PENDING_STORAGES = 4000
"""Number of uncomputed storages after which all live ones are computed, so that a loop without reads has bounded
memory.
"""
MAX_CACHED_ELEMENTS = 65536
"""Largest size, in elements, of a value that an abstract run caches on its node after a read."""
MAX_SMALL_NODES = 8
MAX_SMALL_ELEMENTS = 65536
"""Limits of the graphs that `small_value` computes at once: operations, and elements of each operand and result."""


FREED_COUNT_KEY = "spent"
"""Key in `Node.memo`: the number of backward passes that have freed the saved values of the node."""


class Storage:
    """The elements that a tensor and its views share, like PyTorch's `UntypedStorage`.

    Fields:
    - `node`: the current value; None while the value is in `home`.
    - `type`: shape and element type.
    - `epoch`: the capture that the storage belongs to; None outside of captured steps.
    - `state`: the name of the storage as state of a step; "" before it has one.
    - `home`: the store, file or NumPy memory that holds the value while `node` is None.
    - `synced`: the node that the store's current value was read into; the store is up to date while it equals `node`.
    - `version`: the number of writes that backward notices.
    - `leaf`: the `state` node that represents the storage inside captured steps.
    - `is_inference`: whether the storage was created in inference mode.
    """

    __slots__ = ("node", "type", "epoch", "state", "home", "synced", "version", "leaf", "is_inference", "__weakref__")

    def __init__(self, n: Node):
        self.node: Node | None = n
        self.type: Type = n.type
        self.epoch: ActiveCapture | None = thread_state.current
        self.state: str = ""  # set by `register`, or by the first step that reads the storage
        self.home: ValueStore | None = None
        self.synced: Node | None = None
        self.version: int = 0
        self.leaf: Node | None = None
        self.is_inference: bool = False
        n.cells += 1

    @classmethod
    def outside(cls, n: Node) -> "Storage":
        """Return a storage with value `n` that counts as created before the step that is being captured."""
        cell = cls(n)
        cell.epoch = None
        return cell

    @classmethod
    def from_store(cls, home: "ValueStore", type: Type) -> "Storage":
        """Return a storage whose value is copied from `home` at the first read."""
        cell = cls.__new__(cls)
        cell.node, cell.type, cell.epoch, cell.state = None, type, None, ""
        cell.home, cell.synced, cell.version, cell.leaf, cell.is_inference = home, None, 0, None, False
        return cell


class ValueStore(Protocol):
    """The place of a storage's value while the storage has no node.

    It is a backend's state store, a file, a part of a flat buffer, or memory that NumPy shares.
    """

    def copy(self, state: str) -> np.ndarray:
        """Return a new array with the value of the storage that has the name `state`.

        Raises StateError if the value cannot be fetched now.
        """

    def claim(self, state: str) -> None:
        """Prepare for a change of the value outside of a step. Raises StateError if a change is not allowed now."""


class ActiveCapture(Protocol):
    """The interface of `capture.Capture` that storages use.

    Fields:
    - `rules`: the number of nodes with a custom gradient rule that were created in the step.
    - `readable`: whether values can be read while the step is captured.
    - `has_calls`: whether the graph may contain function calls that are not inlined.
    """

    rules: int
    readable: bool
    has_calls: bool

    def new_input_storage(self, array: np.ndarray, type: Type) -> Storage:
        """Return a new storage that is one more input of the step.

        It has the value `array` in this step and another value in the next one.
        """

    def record_written(self, cell: Storage) -> None:
        """Record that a storage was created or written in the step."""

    def settle(self, cell: Storage) -> None:
        """Record that a storage was created in the step with a value that needs no computation."""

    def touch(self, cell: Storage) -> None:
        """Make a storage that was created before the step part of the step's state."""

    def uses(self, n: Node) -> bool:
        """Return whether `n` is an operand of a differentiable operation that the step has computed."""

    def shows(self, n: Node, cell: Storage) -> bool:
        """Return whether the value of a live storage of the step, other than `cell`, is `n`."""

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """Return the value of a node of the step. `what` names the reading call in the error message.

        Raises TraceError if the step is not readable.
        """

    def client_value(self, n: Node) -> np.ndarray | None:
        """Return the value of a node that depends only on tensors kept by the client, such as counters of the script.

        Return None for any other node, and always None if the step is readable.
        """

    def run_at_end(self, action: Callable[[], None]) -> None:
        """Register a function that is called at the end of the step; its operations are recorded after all others."""


class ThreadState(threading.local):
    """State of each thread: the active capture, and the storages that wait for their computation.

    It is thread-local because a data loader's thread creates tensors while another thread captures a step.
    """

    current: ActiveCapture | None = None

    def __init__(self) -> None:
        # Storages with uncomputed values, outside of steps. Weak references: freed storages need no computation.
        self.pending: list[weakref.ref[Storage]] = []
        # The number of values that were read and of writes; a call that changes it is not remembered by its types.
        self.effects: int = 0


thread_state = ThreadState()
_capturing_thread: threading.Thread | None = None  # the thread that captures a step
has_used_inference_mode = False
"""Whether inference mode was ever enabled in this process. Until then no checks of inference tensors are made."""
is_abstract = False
"""Whether an abstract run is active: parameters have a type and no array, and only read values are computed.

See `abstract_step`.
"""


def set_active_capture(step: ActiveCapture | None) -> ActiveCapture | None:
    """Set the active capture of this thread, or clear it with None, and return the previous one.

    While a capture is active, equal calls in this thread share a node (`set_merging`). Raises TraceError if another
    live thread is capturing a step: inputs and state names are numbered per process.
    """
    global _capturing_thread
    thread, other = threading.current_thread(), _capturing_thread
    if step is not None and other is not None and other is not thread and other.is_alive():
        raise TraceError(
            f"the thread {thread.name!r} starts a step while the thread {other.name!r} is recording one",
            where=source.where(),
            hint=("Run one loop after the other, or each in a separate process: a process records one step at a time."),
        )
    _capturing_thread = None if step is None else thread
    before, thread_state.current = thread_state.current, step
    set_merging(step is not None)
    return before


def new_storage(n: Node) -> Storage:
    """Return a new storage with value `n`.

    Inside a captured step, the storage is registered with the capture. Outside, an uncomputed value is queued for
    computation, and all queued values are computed once there are more than `MAX_PENDING_STORAGES`; in an abstract run
    nothing is queued. Outside of both, a node that another storage already has, or that may be a view of one, is
    replaced by a distinct one: backward finds a storage by its node. Outside of a step in inference mode, the storage
    is marked as an inference tensor's.
    """
    if (n.cells or n.op == "full" or _is_view_of_storage(n)) and thread_state.current is None and not is_abstract:
        n = _make_distinct_node(n)
    cell = Storage(n)
    if (step := cell.epoch) is not None:
        # The test does not use n.value: whether a constant was computed before must not change the step's outputs.
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
    """Record on the node of a storage that the storage was created in inference mode."""
    if cell.node is not None:
        record_of_node(cell.node).inference = weakref.ref(cell)


def _make_distinct_node(n: Node) -> Node:
    """Return a new node equal to `n`, for a storage whose value would otherwise be a shared node.

    The shared node belongs to another storage, is a view of another storage, or is a constant of a formula. A "full"
    node is copied with its value; for any other operation the result is a `clone` node of `n`. If a storage has `n`,
    the use is counted on `n`.
    """
    if n.op == "full":
        twin = new_uninterned_node(node_template(n), ())
        twin.value = n.value
        return twin
    if n.cells:
        # Equal computations share one node. Each storage counts as one use, so each may run backward once.
        n.cells += 1
        record_of_node(n).clones += 1
    return _clone_node(n)


def _is_view_of_storage(n: Node) -> bool:
    """Return whether a node without gradient history is what a view of some storage has as its node.

    A copy of the view must not have this node: a write to the copy would count as a write to the view.
    """
    if n.tracks:
        return False
    base = n
    while base.inputs and not base.cells and (operation := OPS.get(base.op)) is not None and operation.put is not None:
        base = base.inputs[0]
    return base is not n and base.cells > 0


def _clone_node(n: Node) -> Node:
    return new_uninterned_node(("clone", NO_ATTRS, (), n.type, n.where, n.tracks), (n,))


def clone_if_tracked(n: Node) -> Node:
    """Return the value of a copy of a tensor with value `n`.

    This is a new `clone` node if gradients pass `n`, outside of steps and abstract runs; otherwise `n` itself.
    """
    return _clone_node(n) if n.tracks and thread_state.current is None and not is_abstract else n


def new_abstract_leaf(type: Type) -> Node:
    """Return a new leaf node that has a type and no array."""
    return new_unshared_leaf("leaf", type)


def is_abstract_leaf(n: Node) -> bool:
    """Return whether a node is a leaf without an array, as `new_abstract_leaf` makes it."""
    return n.op == "leaf" and n.value is None


def read(cell: Storage) -> Node:
    """Return the current value of a storage as a node.

    Inside a captured step, a storage from before the step becomes part of the step's state first. Outside, a value that
    is in a store is copied from it, and a storage that shares memory with NumPy gives a snapshot of the memory.
    """
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
    """Return a node with a snapshot of the memory of a pinned storage; the previous node if the memory is unchanged.

    If no NumPy array of the script is left, the node becomes the value of the storage, which is unpinned.
    """
    memory = cell.home
    assert isinstance(memory, SharedMemory)
    is_released = memory.is_released
    n = memory.node(is_last=is_released)
    if is_released:
        cell.node, cell.home = n, None
    elif n.storage is None:
        record_of_node(n).snapshot = Snapshot(memory.array, cell.type, cell)
    return n


def is_pinned(cell: Storage) -> bool:
    """Return whether the current value of a storage is in memory that it shares with NumPy; always False inside a step.

    "Pinned" in this module means "shares memory with NumPy"; it is unrelated to PyTorch's page-locked memory.
    """
    return cell.home.__class__ is SharedMemory and thread_state.current is None and cell.node is None


def is_in_store(cell: Storage) -> bool:
    """Return whether a store, a file or a flat buffer has the value of a storage: it has a `home` that is no memory."""
    return cell.home is not None and cell.home.__class__ is not SharedMemory


def unpin(cell: Storage) -> None:
    """Stop sharing memory with NumPy: the storage gets the current content of the memory as its value."""
    if isinstance(cell.home, SharedMemory):
        if cell.node is None:
            cell.node = cell.home.node(is_last=cell.home.is_released)
        cell.home = None


def pin(cell: Storage, is_shared: bool = True) -> SharedMemory | None:
    """Move the value of a storage, computed now if necessary, to memory that NumPy can share, and return the memory.

    If the memory `is_shared`, backward compares the former value with it. Otherwise only this package has the memory,
    and the caller records its first write.

    A pinned storage returns the memory that it has. Return None, and change nothing, if the storage is empty or belongs
    to a step, a step is being captured, an abstract run is active, or a store holds the storage under a name.
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
    cell.node, cell.home, cell.synced = None, memory, None
    if is_shared:
        record_of_node(n).snapshot = Snapshot(memory.array, cell.type, cell)
    return memory


def write_pinned(cell: Storage, n: Node, is_counted: bool = True) -> None:
    """Compute `n` and write its value to the memory of a pinned storage. The version is incremented if `is_counted`."""
    memory = cell.home
    assert isinstance(memory, SharedMemory)
    thread_state.effects += 1
    memory.write(n, value_of(n))
    if not is_counted:
        note_uncounted_writes()
    cell.version += is_counted


def write(cell: Storage, n: Node, is_counted: bool = True) -> None:
    """Make `n` the value of a storage.

    It is not computed now, except for a pinned storage; outside of a step it is queued. The version of the storage is
    incremented if `is_counted`; otherwise backward does not notice the write (`.data`). Inside a captured step, the
    write is recorded by the capture. In an abstract run, a write to a storage without an array is ignored. Raises
    StateError if the store that holds the value allows no change now.
    """
    if thread_state.current is None:
        if cell.home.__class__ is SharedMemory and cell.node is None:
            write_pinned(cell, n, is_counted)
            return
        # Skip the initialisation of parameters without an array: the values would never be read.
        if is_abstract and cell.node is not None and is_abstract_leaf(cell.node):
            return
        if cell.home is not None:
            cell.home.claim(cell.state)
        if (n.op == "full" or _is_view_of_storage(n)) and not is_abstract:
            n = _make_distinct_node(n)
        # The storage may have had this value before, such as a constant that `weight.data.zero_()` restores.
        if n.storage is not None:
            n.storage.forget(cell)
        if cell.node is not None and cell.node is not n:
            n.cells += 1
            record_overwrite(cell, cell.node, n, is_counted)
    elif cell.epoch is not thread_state.current:
        thread_state.current.touch(cell)
    cell.node = n
    cell.version += is_counted
    thread_state.effects += 1
    if thread_state.current is None:
        if cell.is_inference:
            _note_inference(cell)
        if n.value is None and not is_abstract:
            thread_state.pending.append(weakref.ref(cell))
    elif cell.home is None:
        thread_state.current.record_written(cell)


def write_all(members: Sequence[Storage], nodes: Sequence[Node]) -> None:
    """Write each node of `nodes` to the storage of the same index in `members`, as counted writes.

    It is a faster `write` that queues no uncomputed value. Only valid outside of captured steps and abstract runs, for
    new nodes that no storage has as its value. Raises ValueError for sequences of different lengths.
    """
    thread_state.effects += 1
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
    """Write each node of `nodes` to the storage of the same index in `members`, as `write` does but faster.

    Only valid inside a captured step that has read all of these storages. Unchanged storages are skipped.
    """
    step = thread_state.current
    assert step is not None
    for cell, n in zip(members, nodes, strict=True):
        if cell.node is not n:
            cell.node = n
            cell.version += 1
            if cell.home is None:
                step.record_written(cell)


def _fetch(cell: Storage) -> None:
    """Copy the value of a storage from its store."""
    assert cell.home is not None
    cell.node = cell.synced = leaf(cell.home.copy(cell.state), cell.type)


def register(cell: Storage, state: str) -> None:
    """Set the name of a storage, under which steps and stores identify it.

    A storage without a name, or with an automatic name ("unnamed."), is renamed: its value is first fetched from a
    store that has it under the old name. Raises StateError if the storage has another name.
    """
    if cell.state and cell.state != state and not cell.state.startswith("unnamed."):
        raise StateError(
            f"the tensor named {cell.state!r} was registered again as {state!r}",
            where=source.where(),
            hint="Register a tensor once; a module that shares a tensor keeps the first name.",
        )
    if cell.state != state and cell.home is not None and cell.home.__class__ is not SharedMemory:
        # The store has the value under the old name, so fetch it before the name changes.
        read(cell)
        cell.home, cell.synced = None, None
    cell.state = state


def _evaluate_roots(roots: list[Node], remember: bool = False) -> list[np.ndarray]:
    """Return the values of nodes outside of steps, in order.

    With `remember`, also keep the values that backward will need, on their nodes. A graph that was evaluated before is
    run as a compiled program, if there is one; otherwise each operation is evaluated.
    """
    order = computation(roots)
    kept = _values_for_backward(roots, order) if remember else []
    wanted = [*roots, *kept]
    values = repeated_graphs.evaluated(wanted, order)
    if values is None:
        # Results of BLAS depend on its number of threads, so use one; large products are split by `shared_products`.
        # A node with several results may have them already, although it has no value.
        is_whole = all(n.type.__class__ is Type for n in order)
        with blas.one_thread():
            return evaluate(roots, {}, remember, _evaluate_as_compiled, order if is_whole else None)
    for n, value in zip(wanted, values, strict=True):
        n.value = value
    return values[: len(roots)]


def _evaluate_as_compiled(n: Node, arrays: list[np.ndarray]) -> np.ndarray | None:
    """Return the value of a node whose compiled program rounds differently from NumPy, computed as the program does.

    `arrays` are the values of its operands. Return None for any other node.
    """
    product = shared_products.shared(n, arrays)
    return product if product is not None or not config.current().jit else unfused_program.shared(n, arrays)


def _values_for_backward(roots: list[Node], order: list[Node]) -> list[Node]:
    """Return the uncomputed nodes with gradient history below `roots`, whose values a backward pass may need.

    `order` is `computation(roots)`. Roots without gradient history, roots whose graph was freed, and nodes with several
    results do not count.
    """
    open = [r for r in roots if r.tracks and not (r.memo and FREED_COUNT_KEY in r.memo)]
    if not open:
        return []
    below = order if len(open) == len(roots) else computation(open)
    return [n for n in below if n.tracks and n.value is None and n.type.__class__ is Type]


def sync(is_of_integers: bool = False) -> None:
    """Compute all pending values of live storages outside of steps; with `is_of_integers` only those of integers.

    A computed value without gradient history becomes a leaf, which frees the nodes that it was computed from.
    """
    cells = [c for r in thread_state.pending if (c := r()) is not None]
    thread_state.pending = []
    if is_of_integers:
        chosen = [c.node is not None and _is_of_integers(c.node) for c in cells]
        thread_state.pending = [weakref.ref(c) for c, is_chosen in zip(cells, chosen, strict=True) if not is_chosen]
        cells = [c for c, is_chosen in zip(cells, chosen, strict=True) if is_chosen]
    # Evaluate all roots together, so that common operands are computed once.
    roots = list(dict.fromkeys(c.node for c in cells if c.node is not None and c.node.value is None))
    for n, value in zip(roots, _evaluate_roots(roots, remember=True), strict=True):
        n.value = value
    for c in cells:
        # Without gradient history the operands are no longer needed: a leaf frees them.
        if c.node is not None and c.node.value is not None and c.node.inputs and not c.node.tracks:
            c.node = leaf(c.node.value, c.type)
            c.node.cells = 1
            if c.is_inference:
                _note_inference(c)


def reset() -> None:
    """End any capture and abstract run, and clear the queue of pending values and the caches of repeated graphs."""
    global is_abstract, _capturing_thread
    thread_state.current, is_abstract, _capturing_thread = None, False, None
    set_merging(False)
    thread_state.pending.clear()
    repeated_graphs.forget()
    node_replay.clear_answered_queries()


def value_of(n: Node, what: str = "reading it", is_on_client: bool = False) -> np.ndarray:
    """Return the value of a node as an array, computing it and caching it on the node if necessary.

    `what` names the reading call in error messages. Inside a captured step whose values do not exist yet, this raises
    TraceError, unless `is_on_client` and the node depends only on tensors kept by the client. Outside of steps, all
    other pending values are computed too, but only integers if the node depends only on integers, and none if the node
    is a part of an array with a value. In an abstract run, the result is zeros if the node depends on a leaf without an
    array.
    """
    thread_state.effects += 1
    if n.value is not None:
        return n.value
    if (step := thread_state.current) is not None:
        value = step.client_value(n) if is_on_client else None
        return step.value_of(n, what) if value is None else value
    if is_abstract:
        return _evaluate_abstract(n)
    if (part := _part_of_value(n)) is not None:
        n.value = part
        return part
    # Integers that depend on integers only, such as indices, are computed separately. Otherwise the check of an index
    # would divide the graph of a step in two.
    sync(_is_of_integers(n))
    if n.value is None:
        n.value = _evaluate_roots([n])[0]
    return n.value


def _part_of_value(n: Node) -> np.ndarray | None:
    """Return a copy of the part that slices and selections show of an array with a value; None for another node.

    A loop that reads `x[i].item()` would else prepare a graph for each element: 20 us in place of 4.
    """
    steps: list[Node] = []
    while n.value is None:
        if n.op not in repeated_graphs.SLICING_OPS:
            return None
        steps.append(n)
        n = n.inputs[0]
    part = n.value
    for step in reversed(steps):
        part = OPS[step.op].eval(part, **step.attrs)
    return np.array(part, order="C")


def small_value(n: Node) -> np.ndarray | None:
    """Return the value of a node if it is computed already or a small graph gives it; otherwise None.

    A small graph has few operations on computed values of few elements; views may have any operand. Its value is
    computed now and cached on the node. Unlike `value_of`, this computes no other pending value. Return None for an
    uncomputed node inside steps and abstract runs, and for one with gradient history.
    """
    if n.value is not None or thread_state.current is not None or is_abstract or n.tracks:
        return n.value
    found: set[Node] = set()
    open = [n]
    while open:
        i = open.pop()
        if i.value is not None or i in found:
            continue
        found.add(i)
        if len(found) > MAX_SMALL_NODES or not _is_small(i):
            return None
        open += i.inputs
    n.value = _evaluate_roots([n])[0]
    return n.value


def _is_small(n: Node) -> bool:
    """Return whether the result of an operation, and its operands unless it is a view, have few elements.

    It is False for a leaf and for a node of a call (`GraphFunction`), whose size its operands do not show.
    """
    row = OPS.get(n.op)
    if row is None:
        return False
    operands = () if row.put is not None else n.inputs
    return n.op != "leaf" and all(
        isinstance(i.type, Type) and i.type.size <= MAX_SMALL_ELEMENTS for i in (n, *operands)
    )


def _is_of_integers(n: Node) -> bool:
    """Return whether `n` and all uncomputed nodes below it are integers or booleans."""
    seen, stack = {n}, [n]
    while stack:
        at = stack.pop()
        if at.value is None:
            if not isinstance(at.type, Type) or at.type.dtype.kind not in "iub":
                return False
            below = [i for i in at.inputs if i not in seen]
            seen.update(below)
            stack += below
    return True


def is_computable(n: Node) -> bool:
    """Return whether a node depends on no leaf without an array."""
    return not any(is_abstract_leaf(i) for i in topological([n], lambda i: i.value is not None))


def is_unknown_in_plan(n: Node) -> bool:
    """Return whether an abstract run has no value for the node `n` outside of its step. A read of it gives zeros."""
    return is_abstract and thread_state.current is None and not is_computable(n)


def _evaluate_abstract(n: Node) -> np.ndarray:
    """Return the value of a node outside of an abstract step; zeros if it depends on a leaf without an array.

    A value of at most `MAX_CACHED_ELEMENTS` elements is cached on the node.
    """
    if is_computable(n):
        array = evaluate([n], {})[0]
        # Small values are read repeatedly; a large one is not cached, to save memory.
        n.value = array if n.type.size <= MAX_CACHED_ELEMENTS else None
        return array
    # A broadcast of one zero: the value may be as large as a model.
    return np.broadcast_to(np.zeros((), n.type.dtype.host), n.type.shape)


def run_outside_capture(action: Callable[[], None]) -> None:
    """Call `action` as if no step were being captured in this thread."""
    before, thread_state.current = thread_state.current, None
    try:
        action()
    finally:
        thread_state.current = before
