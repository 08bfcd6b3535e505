"""The storages of one captured step: its inputs, the state that it reads and writes, and the tensors that it creates.

While a step is captured, a storage that existed before refers to a node of the step; its value from before is kept
here. With these records the step can be abandoned (`restore`), executed (`hand_out`), or shown with its results for a
while and then continued (`remember`, `restore_symbolic`).
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
"""Prefix of the names of state tensors that no model, optimizer or metric has registered."""
# For each store, the storage that each name refers to. A storage that lost its name keeps a copy of its value.
_named_storages: "weakref.WeakKeyDictionary[Store, dict[str, weakref.ref[Storage]]]" = weakref.WeakKeyDictionary()


class InputStorage(NamedTuple):
    """An input of a step.

    - `cell`: the storage.
    - `before`: its value before the step.
    - `leaf`: its `batch` node in the step.
    - `array`: the array to execute the step on.
    """

    cell: Storage
    before: Node | None
    leaf: Node
    array: np.ndarray


# A storage from before the step that the step reads or writes, its value before the step, and its `state` node. A plain
# tuple, because one is created for each parameter in each step, and a named tuple takes several times as long.
StateStorage = tuple[Storage, Node | None, Node]


class CapturedStorages:
    """The storages of one step over one state store.

    `epoch` is the capture that they belong to while it is recorded.
    """

    def __init__(self, store: Store, epoch: ActiveCapture):
        self.store, self.epoch = store, epoch
        self._owners = _named_storages.setdefault(store, {})
        self.inputs: list[InputStorage] = []
        self.touched: list[StateStorage] = []
        # Weak references: a storage that was freed before the step ends is not an output.
        self.born: list[weakref.ref[Storage]] = []
        self.settled: list[weakref.ref[Storage]] = []
        self._symbolic: list[tuple[Storage, Node | None]] = []
        self._unchanged: list[tuple[Storage, Node]] = []
        # Storages that share memory with NumPy: the memory, and the value that the step began with.
        self._pinned: list[tuple[Storage, SharedMemory, Node]] = []
        self._has_run = False

    def feed(self, cell: Storage, index: int, name: str) -> None:
        """Make the value of `cell` input number `index` of the step, under `name`.

        The value is computed now. Inside the step the storage refers to a `batch` node. A storage that shares memory
        with NumPy is detached from it until the step ends.
        """
        self._unpin(cell)
        # Read the value before the storage refers to the step.
        array = value_of(read(cell))
        # The node is identified by index and name, not by its array, so the graph of the next batch is the same.
        batch = _batch_leaf(index, name, cell.type)
        self.inputs.append(InputStorage(cell, cell.node, batch, array))
        cell.node, cell.epoch = batch, self.epoch

    def new_input_storage(self, array: np.ndarray, type: Type) -> Storage:
        """Return a new storage that becomes one more input of the step, with `array` as its value in this execution.

        Random numbers use it: the value differs in each step, but the graph stays the same.
        """
        place = len(self.inputs)
        before = leaf(array, type)
        batch = _batch_leaf(place, f"draw_{place}", type)
        cell = Storage(before)
        self.inputs.append(InputStorage(cell, before, batch, array))
        cell.node, cell.epoch = batch, self.epoch
        return cell

    def touch(self, cell: Storage) -> None:
        """Make a storage from before the step part of its state: it gets a `state` node, and the store gets its value.

        A storage without a name gets an automatic one. Raises StateError for a storage of another step, and for a
        second storage of this step with the same name.
        """
        if cell.epoch is not None:
            raise StateError(
                "a tensor that was created in one step is used in another step",
                where=source.where(),
                hint="Return the tensor from its step, or compute it in the other step too.",
            )
        self._unpin(cell)
        # An unregistered tensor may still outlive the step, such as the running total of a closure.
        if not cell.state:
            cell.state = f"{UNNAMED_PREFIX}{unique_id()}"
        if cell.home is not self.store:
            self._claim_name(cell)
        if cell.node is not None or cell.home is not self.store:
            self._bring(cell)
        # Use the same node in each step, so that a step that is traced again has an identical graph.
        state = cell.leaf
        if state is None or state.attrs["id"] != cell.state:
            state = cell.leaf = _state_leaf(cell.state, cell.type)
        self.touched.append((cell, cell.node, state))
        cell.node, cell.epoch = state, self.epoch

    def _unpin(self, cell: Storage) -> None:
        """If a storage shares memory with NumPy, detach it until the step ends: the step computes with a copy."""
        memory = cell.home
        if isinstance(memory, SharedMemory):
            unpin(cell)
            assert cell.node is not None
            if memory.is_released:
                return  # the script has no array over it
            self._pinned.append((cell, memory, cell.node))

    def _restore_pins(self) -> None:
        """Make storages share memory with NumPy again, as before the step.

        A value that the step changed is copied to the shared memory. Otherwise the memory keeps its content, also what
        the script wrote to it during the step.
        """
        for cell, memory, before in self._pinned:
            if cell.epoch is not None or isinstance(cell.home, SharedMemory):
                continue
            n = cell.node
            if n is None:
                assert cell.home is not None
                n = leaf(cell.home.copy(cell.state), cell.type)
            value = value_of(n)
            # If the step did not change the value, keep what the script wrote to the array during the step.
            if not has_equal_bits(value, value_of(before), cell.type.dtype):
                memory.write(n, value)
            cell.node, cell.home, cell.synced = None, memory, None
        self._pinned = []

    def _bring(self, cell: Storage) -> None:
        """Write the value of a storage to the store, unless the store has the newest value."""
        if cell.node is None:
            if cell.home is not self.store:
                assert cell.home is not None
                self.store.hold(cell.state, cell.home.copy(cell.state))
                cell.home = self.store
        elif cell.home is not self.store or cell.node is not cell.synced:
            self.store.hold(cell.state, _outside_value(cell.node))
            cell.home, cell.synced = self.store, cell.node

    def _claim_name(self, cell: Storage) -> None:
        """Make `cell` the storage that its name refers to in the store.

        A storage that had the name before gets a copy of its value. Raises StateError if that storage belongs to this
        step.
        """
        owners = self._owners
        other = owners[cell.state]() if cell.state in owners else None
        if other is not None and other is not cell and other.home is self.store:
            if other.epoch is self.epoch:
                raise StateError(
                    f"two tensors of this step have the name {cell.state!r}",
                    where=source.where(),
                    hint="Give each tensor that outlives the step a different name.",
                )
            # The value of the other storage will be overwritten in the store, so copy it.
            if other.node is None:
                other.node = leaf(self.store.array(cell.state).copy(), other.type)
            other.home, other.synced = None, None
        owners[cell.state] = weakref.ref(cell)

    def live_storages(self) -> list[Storage]:
        """Return the storages that were created or written in this step and are still referenced.

        They are in the order of their first creation or write.
        """
        # Remove duplicates of storages that were written twice, and keep the order, which is that of the outputs.
        return list({id(c): c for r in self.born if (c := r()) is not None}.values())

    def state(self) -> dict[str, Node]:
        """Return the `state` node of each state tensor of the step, by name."""
        return {c.state: state for c, _, state in self.touched}

    def used_state(self, outputs: Sequence[Node], updates: Mapping[str, Node]) -> dict[str, Node]:
        """Return `state()` without unused unnamed tensors.

        An unnamed tensor is unused if it is neither updated nor needed to compute `outputs` and `updates`.
        """
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
        """Return the new value of each state tensor that the step changes, by name."""
        return {c.state: c.node for c, _, state in self.touched if c.node is not state and c.node is not None}

    def values_before(self, known: Container[Node] = ()) -> dict[Node, np.ndarray]:
        """Return the arrays that the step starts with, by `batch` or `state` node.

        State nodes in `known` are left out. Arrays of state are copies.
        """
        batch = {fed.leaf: fed.array for fed in self.inputs}
        asked = [(c, state) for c, _, state in self.touched if state not in batch and state not in known]
        # Copy: the step overwrites the store at its end, and the reader may keep the array.
        return {**batch, **{state: self.store.copy(c.state) for c, state in asked}}

    def client_values(self, n: Node) -> dict[Node, np.ndarray] | None:
        """Return the values from before the step of the `state` nodes that `n` depends on.

        Return None if `n` depends on the batch or on named state. Only unnamed state is kept by the client.
        """
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
        """Store the results of the executed step: `values[i]` becomes the value of `waiting[i]`.

        State tensors then have no node and read their value from the store. Tensors from `keep_on_client` and inputs
        get their value from before the step; an input that the step wrote keeps the new value. Storages no longer
        belong to the step.
        """
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
        """Let storages whose values needed no computation outlive the step."""
        for cell in (c for r in self.settled if (c := r()) is not None):
            if cell.node is not None and cell.node.value is not None:
                cell.epoch = None

    def keep_on_client(self) -> set[str]:
        """Find the unnamed tensors that the step only reads, and return their names as state.

        `hand_out` and `restore` then give them their values from before the step, outside of the store. The set of
        these tensors is determined before the first execution of the step and stays the same in later calls.
        """
        # In a replayed step every storage has its `state` node again, so only the first execution shows what is
        # written.
        if not self._has_run:
            self._unchanged = [
                (cell, before)
                for cell, before, state in self.touched
                if before is not None and cell.node is state and cell.state.startswith(UNNAMED_PREFIX)
            ]
        return {cell.state for cell, _ in self._unchanged}

    def remember(self, waiting: Iterable[Storage]) -> None:
        """Save the nodes that `waiting` storages have inside the step, for `restore_symbolic`."""
        self._symbolic = [(c, c.node) for c in waiting]

    def restore_symbolic(self) -> None:
        """Make every storage refer to its node inside the step again.

        State that was changed outside meanwhile, such as by a closure or a loaded checkpoint, is written to the store.
        """
        for cell, _, state in self.touched:
            # A storage whose node differs from `synced` was written outside, by a closure or a loaded checkpoint. One
            # that was only read still has the node that the store's value was copied to.
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
        """Discard values of state that were copied from the store for reading; the next read copies them again."""
        for cell, _, _ in self.touched:
            if cell.node is cell.synced:
                cell.node = cell.synced = None

    def restore(self) -> None:
        """Give every storage its value from before the step.

        If the step was executed, its state has the values in the store instead, that is, those after the last
        execution. Memory is shared with NumPy again.
        """
        self._release()
        for cell, before, _ in self.touched:
            # If the step was executed, the store has the newest value.
            cell.node, cell.epoch = None if self._has_run else before, None
        for cell, kept in self._unchanged:
            # Detach it from the store: the script may change it before the next execution, which then uses the new
            # value.
            cell.node, cell.home, cell.synced = kept, None, None
        for cell, before, _, _ in self.inputs:
            cell.node, cell.epoch = before, None
        self._restore_pins()

    def end(self) -> None:
        """Release the storages and the batch of an executed step, and restore shared memory with NumPy."""
        self._restore_pins()
        self.inputs, self.touched, self.born, self.settled, self._symbolic = [], [], [], [], []
        self._unchanged = []
        del self.epoch


def _batch_leaf(index: int, name: str, type: Type) -> Node:
    """Return the `batch` node of input number `index`."""
    # Equal to a node made by `node`, but faster: the attributes are already sorted.
    items = ("index", index, int), ("name", name, str), ("type", type, Type)
    return node_from_template(("batch", {"index": index, "name": name, "type": type}, items, type, None, False), ())


def _state_leaf(id: str, type: Type) -> Node:
    """Return the `state` node of the state tensor with the name `id`."""
    # The attributes are already sorted, as above.
    items = ("id", id, str), ("type", type, Type)
    return node_from_template(("state", {"id": id, "type": type}, items, type, None, False), ())


def _outside_value(n: Node) -> np.ndarray:
    """Return the value of a node from before the step, while a step is captured.

    It is computed if necessary and cached on the node.
    """
    if n.value is None:
        n.value = evaluate([n], {})[0]
    return n.value
