"""Interned nodes: equal structure is the same object, so equality is identity and sharing is free.

A node is pure. Mutable tensors are cells that point to nodes (`lazytensor.core.storage`). `value` remembers an array
that the node is known to stand for; it never changes once set, because leaves of different data are different nodes.
"""

import itertools
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazytensor.display.html import Box, layered_boxes_svg
from lazytensor.display.table import Column, Table
from lazytensor.errors import CompileError
from lazytensor.ir.algebra import Algebra
from lazytensor.ir.types import Type, Where

MAX_DRAWN_NODES = 120
"""Nodes up to which a graph is drawn."""
BOX_COLOURS = {"batch": "#b8d8b0", "state": "#a9c4d6"}
Attrs = Mapping[str, Any]
InternKey = tuple[Any, ...]
"""Operation, inputs and attributes: what makes two nodes the same."""
NodeTemplate = tuple[str, Attrs, tuple[Any, ...], Any, Where | None, bool]
"""What one node has in common with another one of other inputs: all but the inputs."""
GraphKey = tuple[Any, ...]
"""What two graphs have in common that compute the same: see `Graph.key`."""


class Node(Algebra):
    """One pure operation: name, inputs, attributes, type. Make it with `node(...)`, never directly."""

    __slots__ = (
        "op",
        "inputs",
        "attrs",
        "items",
        "type",
        "value",
        "where",
        "tracks",
        "memo",
        "cells",
        "storage",
        "__weakref__",
    )

    def __init__(self, op: str, inputs: tuple["Node", ...], attrs: Attrs, type: Type | tuple[Type, ...]):
        self.op: str = op
        self.inputs: tuple[Node, ...] = inputs
        self.attrs: Attrs = attrs
        self.items: tuple[Any, ...] = ()  # the attributes as the intern key has them
        self.type: Any = type
        self.value: np.ndarray | None = None
        self.where: Where | None = None
        self.tracks: bool = False  # whether a gradient may flow through it
        self.memo: dict[Any, Any] | None = None  # derived facts, such as gradients already asked for
        self.cells: int = 0  # how often a cell was given it
        self.storage: Any = None  # what became of the storages that had this value: `storage_versions.StorageRecord`

    def combine(self, name: str, *operands: "Node | float") -> "Node":
        """The node `name(*operands)`, in which numbers are constants."""
        return _combine(name, *operands)

    def __repr__(self) -> str:
        inner = ", ".join([*(i.op for i in self.inputs), *(f"{k}={v}" for k, v in self.attrs.items())])
        return f"{self.op}({inner}) : {self.type}"


# An operator on nodes has to infer a type, which the table of operations knows; that table lies above this file, and
# `ops.op` leaves its function here when it is loaded.
_combine: Callable[..., Node]


def set_operators(combine: Callable[..., Node]) -> None:
    """Let operators on nodes mean what `combine(name, *operands)` gives."""
    global _combine
    _combine = combine


class _Entry(weakref.ref[Node]):
    """A weak reference that remembers its key, so that a dead node leaves the table."""

    __slots__ = ("key",)
    key: InternKey


_intern_table: dict[InternKey, _Entry] = {}
_id_counter = itertools.count(1)
NO_ATTRS: Attrs = {}


def _drop_entry(entry: _Entry) -> None:
    known = _intern_table.pop(entry.key, None)
    # The same structure may have been interned anew before the old node was collected.
    if known is not entry and known is not None:
        # Another thread may put an equal node there just now; then the two are not shared, and nothing else.
        _intern_table[entry.key] = known


def intern_key(op: str, inputs: tuple[Any, ...], attrs: Attrs) -> InternKey:
    """What tells operations apart, of inputs or of what stands for them."""
    if not attrs:
        return (op, inputs)
    # 1, 1.0 and True are equal for Python, 0.0 and -0.0 too, and NaN is not equal to itself.
    if len(attrs) == 1:
        [(name, value)] = attrs.items()
        return (op, inputs, ((name, value.hex() if value.__class__ is float else value, value.__class__),))
    # Sorted, so that the order in which keywords were written makes no second node.
    # From a list, which is made faster than by a generator.
    items = [(k, v.hex() if v.__class__ is float else v, v.__class__) for k, v in sorted(attrs.items())]
    return (op, inputs, tuple(items))


def find(op: str, inputs: tuple[Node, ...], attrs: Attrs) -> tuple[InternKey, Node | None]:
    """The intern key of an operation and the node that has it, if one lives."""
    key = intern_key(op, inputs, attrs)
    entry = _intern_table.get(key)
    return key, None if entry is None else entry()


def intern(key: InternKey, op: str, inputs: tuple[Node, ...], attrs: Attrs, type: Type | tuple[Type, ...]) -> Node:
    """A new node under `key`, which `find` has just reported free."""
    new = Node(op, inputs, dict(attrs) if attrs else NO_ATTRS, type)
    if attrs:
        new.items = key[2]
    entry = _Entry(new, _drop_entry)
    entry.key = key
    _intern_table[key] = entry
    return new


def node(op: str, inputs: tuple[Node, ...], attrs: Attrs, type: Type | tuple[Type, ...]) -> Node:
    """The node with this structure, found or made. The type is taken on trust: `ops.call` infers it."""
    key, existing = find(op, inputs, attrs)
    return existing if existing is not None else intern(key, op, inputs, attrs, type)


def node_template(n: Node) -> NodeTemplate:
    """What `node_from_template` takes over from a node."""
    return n.op, n.attrs, n.items, n.type, n.where, n.tracks


def node_from_template(model: NodeTemplate, inputs: tuple[Node, ...]) -> Node:
    """The node that is as another one was but for its inputs, which are of the same types."""
    op, items = model[0], model[2]
    key = (op, inputs, items) if items else (op, inputs)
    entry = _intern_table.get(key)
    existing = None if entry is None else entry()
    if existing is not None:
        return existing
    new = new_uninterned_node(model, inputs)
    entry = _Entry(new, _drop_entry)
    entry.key = key
    _intern_table[key] = entry
    return new


def new_uninterned_node(model: NodeTemplate, inputs: tuple[Node, ...]) -> Node:
    """The same as a new node, which is not found again."""
    op, attrs, items, type, where, tracks = model
    new = Node(op, inputs, attrs, type)
    new.items, new.where, new.tracks = items, where, tracks
    return new


def unintern(n: Node) -> None:
    """Let nothing that is computed later be this node, equal as it may be."""
    key, match = find(n.op, n.inputs, n.attrs)
    if match is n:
        # Under another key, and not out of the table: whoever looks through all nodes still meets it.
        entry = _intern_table.pop(key)
        entry.key = (*key, unique_id())
        _intern_table[entry.key] = entry


class _RecordingMode(threading.local):
    """How this thread records."""

    is_apart = False  # see `distinct_uses`
    is_merged = False  # see `set_merging`


_recording_mode = _RecordingMode()


@contextmanager
def distinct_uses() -> Iterator[None]:
    """Record each use of an expression that a gradient may flow through as a node that equals no other, in the block.

    Gradients are then added where the uses part, as on PyTorch's tape. `merge_equal_nodes` makes equal nodes one again.
    """
    before, _recording_mode.is_apart = _recording_mode.is_apart, True
    try:
        yield
    finally:
        _recording_mode.is_apart = before


def set_merging(is_merged: bool) -> bool:
    """Set whether equal calls of this thread are one node, even if a tensor has that node; return what was set before.

    They are in steps, whose nodes the next step finds again, and in gradients. Elsewhere, each call has a node, so
    that hooks and gradients tell the results of equal calls apart.
    """
    before, _recording_mode.is_merged = _recording_mode.is_merged, is_merged
    return before


def is_recorded_separately(n: Node) -> bool:
    """Return whether a call equal to `n` is recorded as another node.

    It is if n has a gradient, in a block of `distinct_uses`, and where a tensor has the node; see `set_merging`.
    """
    return n.tracks and (_recording_mode.is_apart or (n.cells > 0 and not _recording_mode.is_merged))


def merge_equal_nodes(graph: "Graph") -> "Graph":
    """Return the graph in which equal nodes are one, whether they were recorded in `distinct_uses` or not."""
    mapping = rebuild(graph.roots(), lambda n, inputs: node_from_template(node_template(n), inputs) if inputs else n)
    return graph.replace_roots(mapping.__getitem__)


def is_used(n: Node) -> bool:
    """Whether a gradient may come to a node from a node that lives. Looks through all of them."""
    users = (entry() for entry in list(_intern_table.values()))
    return any(u is not None and u.tracks and n in u.inputs for u in users)


def clear_intern_table() -> None:
    """Find no node that was made before: nodes of a run that is over name lines of its script."""
    _intern_table.clear()


def unique_id() -> int:
    """A number never given before in this process."""
    return next(_id_counter)


def leaf(array: np.ndarray, type: Type, tracks: bool = False) -> Node:
    """A new leaf that stands for `array`, which must not be written to afterwards."""
    new = new_unshared_leaf("leaf", type)
    new.value, new.tracks = array, tracks
    return new


def detach_at_location(n: Node, place: Where) -> Node:
    """A node without its gradient history, at a line that is known."""
    return node_from_template(("detach", NO_ATTRS, (), n.type, place, False), (n,)) if n.tracks else n


def new_unshared_leaf(op: str, type: Type) -> Node:
    """A node without inputs that is equal to no other, so that no table has to know it."""
    return Node(op, (), NO_ATTRS, type)


def topological(
    outputs: Iterable[Node], is_leaf: Callable[[Node], bool] | None = None, *, last_first: bool = False
) -> list[Node]:
    """All nodes that `outputs` need, inputs before users, each once; nothing above an `is_leaf` node is entered.

    With `last_first` what the last input of a node needs comes before what the others need.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    # An explicit stack: graphs of unrolled loops are deeper than the recursion of Python.
    stack: list[tuple[Node | None, Iterator[Node]]] = [(None, iter(outputs))]
    while stack:
        current, rest = stack[-1]
        for child in rest:
            if child not in seen:
                seen.add(child)
                needed = child.inputs
                # What needs nothing is done at once: wide graphs are mostly that.
                if not needed or (is_leaf is not None and is_leaf(child)):
                    order.append(child)
                    continue
                stack.append((child, iter(needed[::-1] if last_first else needed)))
                break
        else:
            if current is not None:
                order.append(current)
            stack.pop()
    return order


def _box(n: Node, end: str, numbers: Mapping[Node, int]) -> Box:
    """How a node is drawn: batches and state have their names, results a colour."""
    name = str(n.attrs.get("name", n.attrs.get("id", n.op))) if n.op in ("batch", "state") else n.op
    where = f"\nline {n.where.line}" if n.where is not None else ""
    return Box(
        title=name,
        below=str(n.type),
        hover=f"{n!r}{where}\n{end}".strip(),
        fill="#f4c99b" if end else BOX_COLOURS.get(n.op, "#ffffff"),
        inputs=tuple(dict.fromkeys(numbers[i] for i in n.inputs if i in numbers)),
    )


class Graph:
    """A pure function: `outputs` are fetched, `updates` are the new values of loop-carried state.

    `state` gives the leaf of each StateId, `inputs` the leaves of the batch, in order.
    """

    inputs: tuple[Node, ...]
    state: dict[str, Node]
    outputs: tuple[Node, ...]
    updates: dict[str, Node]

    def __init__(
        self,
        inputs: tuple[Node, ...],
        state: dict[str, Node],
        outputs: tuple[Node, ...],
        updates: dict[str, Node],
        output_names: tuple[str, ...] = (),
    ):
        self.inputs, self.state, self.outputs, self.updates = inputs, state, outputs, updates
        self._names = output_names
        self._nodes: list[Node] = []

    @property
    def output_names(self) -> tuple[str, ...]:
        """The name of each output; numbered ones if none were given."""
        return self._names or tuple(f"output_{i}" for i in range(len(self.outputs)))

    @property
    def key(self) -> GraphKey:
        """Equal for graphs that are the same function under the same names: nodes are interned, so roots will do."""
        # Names too: a fetch is called by them, in the text and in the program.
        return (tuple(self.updates.items()), self.outputs, self.inputs, self._names)

    def roots(self) -> tuple[Node, ...]:
        """Everything the function has to produce: updates first, then outputs."""
        return (*self.updates.values(), *self.outputs)

    def nodes(self) -> list[Node]:
        """Every node, inputs before users."""
        # Most passes ask for them, and a graph stays as it is.
        if not self._nodes:
            self._nodes = topological(self.roots())
        return self._nodes

    def _repr_html_(self) -> str:
        """Its nodes from top to bottom, without constants; of a large graph how many there are of each operation."""
        shown = [n for n in self.nodes() if n.op not in ("full", "const")]
        if len(shown) > MAX_DRAWN_NODES:
            counts = Counter(n.op for n in shown).most_common()
            columns = (Column("operation", is_words=True), Column("nodes"))
            return f"<p>{len(shown)} nodes</p>{Table(columns, counts).html()}"
        numbers = {n: k for k, n in enumerate(shown)}
        ends = dict.fromkeys(self.outputs, "returned") | {n: f"new {state}" for state, n in self.updates.items()}
        return layered_boxes_svg([_box(n, ends.get(n, ""), numbers) for n in shown])

    def replace_roots(self, mapping: Callable[[Node], Node]) -> "Graph":
        """The graph with each root replaced by `mapping(root)`; leaves stay."""
        return Graph(
            self.inputs,
            self.state,
            tuple(mapping(o) for o in self.outputs),
            {k: mapping(v) for k, v in self.updates.items()},
            self._names,
        )

    def users(self) -> dict[Node, list[Node]]:
        """For each node the nodes that read it (roots are not listed)."""
        users: dict[Node, list[Node]] = {}
        for n in self.nodes():
            users.setdefault(n, [])
            for i in n.inputs:
                users[i].append(n)
        return users


def rebuild(roots: Iterable[Node], change: Callable[[Node, tuple[Node, ...]], Node]) -> dict[Node, Node]:
    """Map every node below `roots` bottom-up: `change(old, new_inputs)` gives its successor."""
    mapping: dict[Node, Node] = {}
    for n in topological(roots):
        mapping[n] = change(n, tuple(mapping[i] for i in n.inputs))
    return mapping


def replace_inputs(n: Node, inputs: tuple[Node, ...]) -> Node:
    """`n` with other inputs of the same types."""
    if inputs == n.inputs:
        return n
    # The type is copied from the old node, so a rule that changes the type of an input would go unnoticed.
    if [i.type for i in inputs] != [i.type for i in n.inputs]:
        raise CompileError(f"{n.op} was rebuilt with inputs of other types", where=n.where)
    new = node(n.op, inputs, n.attrs, n.type)
    new.where = new.where or n.where
    return new
