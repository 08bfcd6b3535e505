"""The record of one step's cells: which it was fed, read or wrote, which it made, and how each gets out again.

A cell leads two lives while a step is captured. Outside it points to a value, or to nothing while its value is at home
in a store; inside it points to a node of the step. The record keeps the outside of each cell, so that the step can be
forgotten, executed, or shown for a while with its results.
"""

import weakref
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lazytensor.core import source
from lazytensor.core.shared_memory import SharedMemory, has_equal_bits
from lazytensor.core.storage import ActiveCapture, Storage, read, unpin, value_of
from lazytensor.errors import StateError
from lazytensor.ir.graph import Node, leaf, node_from_template, topological, unique_id
from lazytensor.ir.types import Type
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store

UNNAMED_PREFIX = "unnamed."
"""The beginning of the names of tensors from before a step that no model, optimizer or metric has named."""
# Of each store, which cell stands for a name now. A cell that lost its name to another one keeps its value by itself.
_named_storages: "weakref.WeakKeyDictionary[Store, dict[str, weakref.ref[Storage]]]" = weakref.WeakKeyDictionary()


class InputStorage(NamedTuple):
    """A cell of the batch: what it was outside, its leaf in the step, and the array that the step is executed on."""

    cell: Storage
    before: Node | None
    leaf: Node
    array: np.ndarray


# A cell from before the step that the step reads or writes, what it was outside, and its leaf in the step. A plain
# tuple: one is built for each parameter in each step, and a named one takes several times as long.
StateStorage = tuple[Storage, Node | None, Node]


class CapturedStorages:
    """The cells of one step over one store; `epoch` is what they belong to while the step is recorded."""

    def __init__(self, store: Store, epoch: ActiveCapture):
        self.store, self.epoch = store, epoch
        self._owners = _named_storages.setdefault(store, {})
        self.inputs: list[InputStorage] = []
        self.touched: list[StateStorage] = []
        # Weakly: a value that nobody holds when the step ends is no output of it.
        self.born: list[weakref.ref[Storage]] = []
        self.settled: list[weakref.ref[Storage]] = []
        self._symbolic: list[tuple[Storage, Node | None]] = []
        self._unchanged: list[tuple[Storage, Node]] = []
        # Cells that share memory with NumPy: the memory, and the value that the step began with.
        self._pinned: list[tuple[Storage, SharedMemory, Node]] = []
        self._has_run = False

    def feed(self, cell: Storage, index: int, name: str) -> None:
        """Make the cell's value input number `index` of the step."""
        self._unpin(cell)
        # Before the cell is changed: its value is read in the world outside.
        array = value_of(read(cell))
        # Leaves go by index and name, not by array: the graph of the next batch is the same graph.
        batch = _batch_leaf(index, name, cell.type)
        self.inputs.append(InputStorage(cell, cell.node, batch, array))
        cell.node, cell.epoch = batch, self.epoch

    def new_input_storage(self, array: np.ndarray, type: Type) -> Storage:
        """A new cell with a value for this step alone, which is one more input: the next one's graph is the same."""
        place = len(self.inputs)
        before = leaf(array, type)
        batch = _batch_leaf(place, f"draw_{place}", type)
        cell = Storage(before)
        self.inputs.append(InputStorage(cell, before, batch, array))
        cell.node, cell.epoch = batch, self.epoch
        return cell

    def touch(self, cell: Storage) -> None:
        """Replace an outside cell by a state leaf, and see that the store holds its value.

        Raises StateError for a cell of another step, and for a second cell of this step under one name.
        """
        if cell.epoch is not None:
            raise StateError("a tensor of one step is used in another", where=source.where())
        self._unpin(cell)
        # A tensor that nobody registered may still outlive the step, as a closure's running total does.
        if not cell.state:
            cell.state = f"{UNNAMED_PREFIX}{unique_id()}"
        if cell.home is not self.store:
            self._claim_name(cell)
        if cell.node is not None or cell.home is not self.store:
            self._bring(cell)
        # The same leaf in each step: a step that is traced again then finds its own graph by identity.
        state = cell.leaf
        if state is None or state.attrs["id"] != cell.state:
            state = cell.leaf = _state_leaf(cell.state, cell.type)
        self.touched.append((cell, cell.node, state))
        cell.node, cell.epoch = state, self.epoch

    def _unpin(self, cell: Storage) -> None:
        """Let a step compute with a copy of shared memory, as on a device, until it ends."""
        memory = cell.home
        if isinstance(memory, SharedMemory):
            unpin(cell)
            assert cell.node is not None
            self._pinned.append((cell, memory, cell.node))

    def _restore_pins(self) -> None:
        """Let storages share memory with NumPy again, as before the step, and copy what the step wrote to it."""
        for cell, memory, before in self._pinned:
            if cell.epoch is not None or isinstance(cell.home, SharedMemory):
                continue
            n = cell.node
            if n is None:
                assert cell.home is not None
                n = leaf(cell.home.copy(cell.state), cell.type)
            value = value_of(n)
            # What the script wrote to the array during the step stays, if the step wrote nothing.
            if not has_equal_bits(value, value_of(before), cell.type.dtype):
                memory.write(n, value)
            cell.node, cell.home, cell.synced = None, memory, None
        self._pinned = []

    def _bring(self, cell: Storage) -> None:
        """Give the store the cell's value, unless what the store has is the newest."""
        if cell.node is None:
            if cell.home is not self.store:
                assert cell.home is not None
                self.store.hold(cell.state, cell.home.copy(cell.state))
                cell.home = self.store
        elif cell.home is not self.store or cell.node is not cell.synced:
            self.store.hold(cell.state, _outside_value(cell.node))
            cell.home, cell.synced = self.store, cell.node

    def _claim_name(self, cell: Storage) -> None:
        """Make a cell the one that its name stands for in the store. Raises StateError if this step uses another."""
        owners = self._owners
        other = owners[cell.state]() if cell.state in owners else None
        if other is not None and other is not cell and other.home is self.store:
            if other.epoch is self.epoch:
                raise StateError(
                    f"two tensors of this step are called {cell.state!r}",
                    where=source.where(),
                    hint="Give each tensor that outlives the step a name of its own.",
                )
            # The other one's value is about to be overwritten in the store: it takes a copy along.
            if other.node is None:
                other.node = leaf(self.store.array(cell.state).copy(), other.type)
            other.home, other.synced = None, None
        owners[cell.state] = weakref.ref(cell)

    def live_storages(self) -> list[Storage]:
        """The cells that were made or written in this step and that somebody still holds."""
        # By identity, since a cell that was written twice was noted twice; in order, which is the order of the outputs.
        return list({id(c): c for r in self.born if (c := r()) is not None}.values())

    def state(self) -> dict[str, Node]:
        """The leaf of each piece of state that the step uses."""
        return {c.state: state for c, _, state in self.touched}

    def used_state(self, outputs: Sequence[Node], updates: Mapping[str, Node]) -> dict[str, Node]:
        """The same without unnamed state that the step neither changes nor needs for its results."""
        state = self.state()
        if not any(name.startswith(UNNAMED_PREFIX) for name in state):
            return state
        needed = set(topological([*outputs, *updates.values()]))
        return {
            name: n
            for name, n in state.items()
            if not name.startswith(UNNAMED_PREFIX) or n in needed or name in updates
        }

    def updates(self) -> dict[str, Node]:
        """The new value of each piece of state that the step changes."""
        return {c.state: c.node for c, _, state in self.touched if c.node is not state and c.node is not None}

    def values_before(self, known: Container[Node] = ()) -> dict[Node, np.ndarray]:
        """The values that the step begins with, by leaf, without those of the leaves that are known."""
        batch = {fed.leaf: fed.array for fed in self.inputs}
        asked = [(c, state) for c, _, state in self.touched if state not in batch and state not in known]
        # The store is overwritten by the step's end, and whoever reads may keep the array.
        return {**batch, **{state: self.store.copy(c.state) for c, state in asked}}

    def client_values(self, n: Node) -> dict[Node, np.ndarray] | None:
        """The values of the leaves that a node depends on; None if one of them is of the batch or of named state."""
        outside = {
            state: (cell, before) for cell, before, state in self.touched if cell.state.startswith(UNNAMED_PREFIX)
        }
        known: dict[Node, np.ndarray] = {}
        for i in topological([n], lambda i: i.value is not None):
            if i.op == "batch" or (i.op == "state" and i not in outside):
                return None
            if i.op == "state":
                cell, before = outside[i]
                known[i] = self.store.array(cell.state).copy() if before is None else _outside_value(before)
        return known

    def hand_out(self, waiting: Iterable[Storage], values: Sequence[np.ndarray]) -> None:
        """Put the results of the executed step into the cells that wait, and send state home."""
        for cell, value in zip(waiting, values, strict=True):
            cell.node, cell.epoch = leaf(value, cell.type), None
        self._release()
        for cell, _, _ in self.touched:
            cell.node, cell.synced, cell.epoch = None, None, None
        for cell, kept in self._unchanged:
            cell.node = cell.synced = kept
        self._has_run = True
        for cell, before, batch, _ in self.inputs:
            cell.node = before if cell.node is batch else cell.node
            cell.epoch = None

    def _release(self) -> None:
        """Let the cells whose values are known outlive the step."""
        for cell in (c for r in self.settled if (c := r()) is not None):
            if cell.node is not None and cell.node.value is not None:
                cell.epoch = None

    def keep_on_client(self) -> set[str]:
        """Let unnamed tensors that the step only reads keep their values outside of it. Return their names as state."""
        # In a step that is replayed every cell shows its state again, whatever the program does to it.
        if not self._has_run:
            self._unchanged = [
                (cell, before)
                for cell, before, state in self.touched
                if before is not None and cell.node is state and cell.state.startswith(UNNAMED_PREFIX)
            ]
        return {cell.state for cell, _ in self._unchanged}

    def remember(self, waiting: Iterable[Storage]) -> None:
        """Keep what cells are inside the step, while they are seen from outside."""
        self._symbolic = [(c, c.node) for c in waiting]

    def restore_symbolic(self) -> None:
        """Make every cell what it was inside the step; state that was changed meanwhile goes to the store."""
        for cell, _, state in self.touched:
            # Written from outside, by a closure or a loaded checkpoint: what was only read is the same leaf still.
            # A cell that still points to what was fetched was read and not written.
            if cell.node is not None and cell.node is not cell.synced:
                self.store.hold(cell.state, _outside_value(cell.node))
            cell.node, cell.synced, cell.epoch = state, None, self.epoch
        for cell, n in self._symbolic:
            unpin(cell)
            cell.node, cell.epoch = n, self.epoch
        for cell in (c for r in self.settled if (c := r()) is not None):
            cell.epoch = self.epoch
        for cell, _, batch, _ in self.inputs:
            cell.node, cell.epoch = batch, self.epoch

    def drop_fetched(self) -> None:
        """Forget what was read of the state since it was shown: who reads again asks the store again."""
        for cell, _, _ in self.touched:
            if cell.node is cell.synced:
                cell.node = cell.synced = None

    def restore(self) -> None:
        """Make every cell what it was before the step."""
        self._release()
        for cell, before, _ in self.touched:
            # Once the step has run the store has the newest value, whatever the cell was before.
            cell.node, cell.epoch = None if self._has_run else before, None
        for cell, kept in self._unchanged:
            # The script may change it before the next execution, which takes its value then.
            cell.node, cell.home, cell.synced = kept, None, None
        for cell, before, _, _ in self.inputs:
            cell.node, cell.epoch = before, None
        self._restore_pins()

    def end(self) -> None:
        """Let go of the step, which was executed, of its cells and of its batch."""
        self._restore_pins()
        self.inputs, self.touched, self.born, self.settled, self._symbolic = [], [], [], [], []
        self._unchanged = []
        del self.epoch


def _batch_leaf(index: int, name: str, type: Type) -> Node:
    # As `node` makes it, which would sort the attributes.
    items = ("index", index, int), ("name", name, str), ("type", type, Type)
    return node_from_template(("batch", {"index": index, "name": name, "type": type}, items, type, None, False), ())


def _state_leaf(id: str, type: Type) -> Node:
    # Sorted as well.
    items = ("id", id, str), ("type", type, Type)
    return node_from_template(("state", {"id": id, "type": type}, items, type, None, False), ())


def _outside_value(n: Node) -> np.ndarray:
    """The value of a node from before the step, while the step is being captured."""
    if n.value is None:
        n.value = evaluate([n], {})[0]
    return n.value
