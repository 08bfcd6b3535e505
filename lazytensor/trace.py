"""Cells, and the capture of a step: how a program full of mutable tensors becomes a pure function of its state.

A cell is the storage of a tensor: it points to the node that is its present value. Outside a step, nodes are run
when somebody reads. Inside a step (`Capture`), each cell that existed before is replaced, when first read, by a `state`
leaf; what it points to at the end is its new value.
After the Lazy Tensor Core of PyTorch (arXiv:2102.13267): handles over values, live handles by weak reference.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from lazytensor import source
from lazytensor.errors import StateError, TraceError, refuse
from lazytensor.ir.graph import Graph, Node, leaf, node, unique
from lazytensor.ir.types import Type
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.store import Store

PENDING_LIMIT = 4000
"""Unread operations after which everything alive is computed, so that a loop that reads nothing cannot grow."""


class Cell:
    """Storage of a tensor. `node` is its value; None while the value lives in the store between steps."""

    __slots__ = ("node", "type", "epoch", "state", "home", "synced", "version", "leaf", "__weakref__")

    def __init__(self, n: Node):
        self.node: Node | None = n
        self.type: Type = n.type
        self.epoch: Capture | None = current
        self.state: str = ""  # StateId, given on registration or at the first step that reads the cell
        self.home: Home | None = None  # the store that holds its value between steps
        self.synced: Node | None = None  # the leaf that the store's present value was read into
        self.version = 0  # counts writes
        self.leaf: Node | None = None  # the leaf that stands for it in steps

    @classmethod
    def outside(cls, n: Node) -> "Cell":
        """A cell that counts as made before the step that is being captured."""
        cell = cls(n)
        cell.epoch = None
        return cell

    @classmethod
    def at_home(cls, home: "Home", type: Type) -> "Cell":
        """A cell whose value is brought from `home` when somebody reads it."""
        cell = cls.__new__(cls)
        cell.node, cell.type, cell.epoch, cell.state = None, type, None, ""
        cell.home, cell.synced, cell.version, cell.leaf = home, None, 0, None
        return cell


class Home(Protocol):
    """Where a value lives while no node stands for it: the store of a backend, or a file."""

    def copy(self, state: str) -> np.ndarray: ...

    def claim(self, state: str) -> None:
        """Called before the value is changed outside a step; raises StateError if that is not allowed now."""


current: "Capture | None" = None
_pending: list[weakref.ref] = []
_owners: "weakref.WeakKeyDictionary[Store, dict[str, weakref.ref[Cell]]]" = weakref.WeakKeyDictionary()


def adopt(n: Node) -> Cell:
    """A cell for a value that was just computed; it will be fetched or materialized if it outlives its use."""
    cell = Cell(n)
    if current is not None:
        # Not by n.value: whether a constant was computed before must not change what the step returns.
        (current.settle if n.op in ("const", "leaf") else current.bear)(cell)
    elif n.value is None:
        _pending.append(weakref.ref(cell))
        if len(_pending) > PENDING_LIMIT:
            sync()
    return cell


def read(cell: Cell) -> Node:
    """The present value of a cell, as a node of the step being captured or of the outside."""
    if current is not None:
        if cell.epoch is not current:
            current.touch(cell)
    elif cell.node is None:
        _bring_home(cell)
    return cell.node  # type: ignore[return-value]


def write(cell: Cell, n: Node) -> None:
    """Make `n` the value of a cell."""
    if current is None:
        if cell.home is not None:
            cell.home.claim(cell.state)
    elif cell.epoch is not current:
        current.touch(cell)
    cell.node = n
    cell.version += 1
    if current is None:
        if n.value is None:
            _pending.append(weakref.ref(cell))
    elif cell.home is None:
        current.bear(cell)


def _bring_home(cell: Cell) -> None:
    assert cell.home is not None
    cell.node = cell.synced = leaf(cell.home.copy(cell.state), cell.type)


def register(cell: Cell, state: str) -> None:
    """Give a cell its identity. Raises StateError if it has another one already."""
    if cell.state and cell.state != state and not cell.state.startswith("unnamed."):
        raise StateError(
            f"the tensor called {cell.state!r} was given a second name, {state!r}",
            where=source.where(),
            hint="Register a tensor once; a module that shares a tensor keeps the first name.",
        )
    if cell.state != state and cell.home is not None:
        read(cell)
        cell.home, cell.synced = None, None
    cell.state = state


def sync() -> None:
    """Compute every live value that is still pending outside a step; without gradient history it becomes a leaf."""
    global _pending
    waiting = {c.node: c for r in _pending if (c := r()) is not None and c.node is not None and c.node.value is None}
    cells = [c for r in _pending if (c := r()) is not None and c.node is not None]
    _pending = []
    roots = list(waiting)
    for n, value in zip(roots, evaluate(roots, {}, remember=True), strict=True):
        n.value = value
    for c in cells:
        if not c.node.tracks and c.node.inputs:
            c.node = leaf(c.node.value, c.type)


def reset() -> None:
    """Leave whatever step is being captured, and compute nothing of what is pending until somebody reads it."""
    global current
    current = None
    _pending.clear()


def value_of(n: Node, what: str = "reading it") -> np.ndarray:
    """The array that a node stands for. Raises TraceError inside a step whose values do not exist yet."""
    if n.value is not None:
        return n.value
    if current is not None:
        return current.value_of(n, what)
    sync()
    if n.value is None:
        n.value = evaluate([n], {})[0]
    return n.value


class Capture:
    """One traced step: what it read, what it made, what it wrote.

    With `readable` a value may be asked for while the step is being traced (the CPU backend, where PyTorch is eager);
    otherwise that raises TraceError.
    """

    def __init__(self, store: Store, readable: bool):
        self.store, self.readable = store, readable
        self.rules = 0  # how many nodes with a gradient of the user's were made
        self.is_open = True  # whether operations may be recorded now
        self.touched: list[tuple[Cell, Node | None, Node]] = []
        self.born: list[weakref.ref] = []
        self.settled: list[weakref.ref] = []
        self.inputs: list[tuple[Cell, Node | None, Node, np.ndarray]] = []
        self._memo: dict[Node, np.ndarray] = {}
        self._endings: list[Callable[[], None]] = []
        self._outer: Capture | None = None
        self._symbolic: list[tuple[Cell, Node | None]] = []

    def __enter__(self) -> "Capture":
        global current
        self._outer, current = current, self
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        global current
        current = self._outer
        if kind is not None:
            self.abandon()

    def bear(self, cell: Cell) -> None:
        """Note a cell that was made or written in this step. Raises TraceError between traced functions."""
        if not self.is_open:
            error = TraceError(
                'New output detected outside of "@cstorch.trace" decorator: an operation was called in the loop itself',
                where=source.where(),
                hint="Move it into the function decorated with @cstorch.trace, or into a @cstorch.step_closure.",
            )
            refuse("outside trace", error)
        self.born.append(weakref.ref(cell))

    def settle(self, cell: Cell) -> None:
        """Note a cell that was made in this step around a value that is known."""
        self.settled.append(weakref.ref(cell))

    def feed(self, cell: Cell, index: int, name: str) -> None:
        """Make the cell's value input number `index` of the step. To be called before entering."""
        array = value_of(read(cell))
        made = node("batch", (), {"index": index, "name": name, "type": cell.type}, cell.type)
        self.inputs.append((cell, cell.node, made, array))
        cell.node, cell.epoch = made, self

    def touch(self, cell: Cell) -> None:
        """Replace an outside cell by a state leaf, and see that the store holds its value."""
        if cell.epoch is not None:
            raise StateError("a tensor of one step is used in another", where=source.where())
        if not cell.state:
            cell.state = f"unnamed.{unique()}"
        if cell.home is not self.store:
            self._claim(cell)
        if cell.node is not None and (cell.home is not self.store or cell.node is not cell.synced):
            self.store.hold(cell.state, _outside_value(cell.node))
            cell.home, cell.synced = self.store, cell.node
        elif cell.node is None and cell.home is not self.store:
            self.store.hold(cell.state, cell.home.copy(cell.state))  # type: ignore[union-attr]
            cell.home = self.store
        made = cell.leaf
        if made is None or made.attrs["id"] != cell.state:
            made = cell.leaf = node("state", (), {"id": cell.state, "type": cell.type}, cell.type)
        self.touched.append((cell, cell.node, made))
        cell.node, cell.epoch = made, self

    def _claim(self, cell: Cell) -> None:
        """Make a cell the one that its name stands for in the store. Raises StateError if this step uses another."""
        owners = _owners.setdefault(self.store, {})
        other = owners[cell.state]() if cell.state in owners else None
        if other is not None and other is not cell and other.home is self.store:
            if other.epoch is self:
                raise StateError(
                    f"two tensors of this step are called {cell.state!r}",
                    where=source.where(),
                    hint="Give each tensor that outlives the step a name of its own.",
                )
            if other.node is None:
                other.node = leaf(self.store.array(cell.state).copy(), other.type)
            other.home, other.synced = None, None
        owners[cell.state] = weakref.ref(cell)

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """The value of a node of this step, from the state as it was when the step began."""
        if not self.readable:
            error = TraceError(
                f"{what} needs the value of a {n.type} inside a traced step, where it has none yet",
                where=source.where(),
                hint="Choose with torch.where(...) in the step, or read the value in a @cstorch.step_closure.",
            )
            refuse(f"read {what}", error, str(n.type))
        memo = self._memo
        if n not in memo:
            memo.update({made: array for _, _, made, array in self.inputs})
            # The store is overwritten by the step's end, and whoever reads may keep the array.
            memo.update({made: self.store.copy(c.state) for c, _, made in self.touched if made not in memo})
            memo[n] = evaluate([n], memo)[0]
        return memo[n]

    def living(self) -> list[Cell]:
        """The cells that were made or written in this step and that somebody still holds."""
        return list({id(c): c for r in self.born if (c := r()) is not None}.values())

    def at_end(self, action: Callable[[], None]) -> None:
        """Have an action recorded after all else that the step does."""
        self._endings.append(action)

    def _end(self) -> None:
        was_open, self.is_open = self.is_open, True
        for action in self._endings:
            action()
        self._endings.clear()
        self.is_open = was_open

    def graph(self) -> tuple[Graph, list[Cell]]:
        """The step as a pure function, and the cells that wait for its outputs."""
        self._end()
        waiting = self.living()
        updates = {c.state: c.node for c, _, made in self.touched if c.node is not made and c.node is not None}
        state = {c.state: made for c, _, made in self.touched}
        outputs = tuple(c.node for c in waiting if c.node is not None)
        return Graph(tuple(made for _, _, made, _ in self.inputs), state, outputs, updates), waiting

    def arrays(self) -> list[np.ndarray]:
        """The batch, in order."""
        return [array for *_, array in self.inputs]

    def finish(self, waiting: Sequence[Cell], values: Sequence[np.ndarray]) -> None:
        """Put the results of the executed step into the cells that wait, and send state home."""
        for cell, value in zip(waiting, values, strict=True):
            cell.node, cell.epoch = leaf(value, cell.type), None
        self._release()
        for cell, _, _ in self.touched:
            cell.node, cell.synced, cell.epoch = None, None, None
        for cell, before, made, _ in self.inputs:
            cell.node = before if cell.node is made else cell.node
            cell.epoch = None

    def _release(self) -> None:
        """Let the cells whose values are known outlive the step."""
        for cell in (c for r in self.settled if (c := r()) is not None):
            if cell.node is not None and cell.node.value is not None:
                cell.epoch = None

    def reveal(self, waiting: Sequence[Cell], values: Sequence[np.ndarray] | None) -> None:
        """Leave the step for a while: its results (if there are any) and its state can be read from outside."""
        global current
        current = self._outer
        self._symbolic = [(c, c.node) for c in waiting]
        if values is not None:
            self.finish(waiting, values)

    def hide(self) -> None:
        """Come back after `reveal`: nothing has a value again. State that was changed meanwhile goes to the store."""
        global current
        for cell, _, made in self.touched:
            if cell.node is not None and cell.node is not cell.synced:
                self.store.hold(cell.state, _outside_value(cell.node))
            cell.node, cell.synced, cell.epoch = made, None, self
        for cell, n in self._symbolic:
            cell.node, cell.epoch = n, self
        for cell, _, made, _ in self.inputs:
            cell.node, cell.epoch = made, self
        self._outer, current = current, self

    def refetch(self) -> None:
        """Forget what was read of the state since `reveal`: who reads again asks the store again."""
        for cell, _, _ in self.touched:
            if cell.node is cell.synced:
                cell.node = cell.synced = None

    def leave(self) -> None:
        """Stop being the current step without having run."""
        global current
        current = self._outer
        self.abandon()

    def abandon(self) -> None:
        """Forget the step: every cell is as it was before."""
        self._release()
        for cell, before, _ in self.touched:
            cell.node, cell.epoch = before, None
        for cell, before, _, _ in self.inputs:
            cell.node, cell.epoch = before, None


def _outside_value(n: Node) -> np.ndarray:
    """The value of a node from before the step, while the step is being captured."""
    if n.value is None:
        n.value = evaluate([n], {})[0]
    return n.value


def outside(action: Callable[[], None]) -> None:
    """Run something as if no step were being traced: making state, for example."""
    global current
    before, current = current, None
    try:
        action()
    finally:
        current = before
