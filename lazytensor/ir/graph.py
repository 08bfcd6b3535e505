"""Nodes and graphs. Nodes are interned: nodes with equal structure are one object, so equality is identity.

A node is immutable. Mutable tensors have a storage that refers to one node after another (`lazytensor.core.storage`).
`Node.value` caches the array that a node represents; it never changes once set.
"""

import functools
import itertools
import operator
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
"""Maximum number of nodes for which notebooks draw a graph; above it they show a table."""
BOX_COLOURS = {"batch": "#b8d8b0", "state": "#a9c4d6"}
Attrs = Mapping[str, Any]
InternKey = tuple[Any, ...]
"""Operation, operands and attributes, which determine whether two nodes are equal."""
NodeTemplate = tuple[str, Attrs, tuple[Any, ...], Any, Where | None, bool]
"""Everything of a node except its operands: (op, attrs, items, type, where, tracks)."""
GraphKey = tuple[Any, ...]
"""A key that is equal for graphs that compute the same function; see `Graph.key`."""


_serials = itertools.count()


class Node(Algebra):
    """One pure operation with its operands. Create nodes with `node(...)` or `ops.call`, not with the constructor.

    Fields:
    - `op`: the name of the operation.
    - `inputs`: the operands.
    - `attrs`: the attributes of the operation.
    - `items`: the attributes as in the intern key.
    - `type`: the type of the result; a tuple of types for several results.
    - `value`: the array that the node represents, if computed.
    - `where`: the user's line that created it.
    - `tracks`: whether gradients flow through it.
    - `memo`: a dict of cached facts, such as gradients; None if empty.
    - `cells`: the number of storages that were given this node as their value.
    - `storage`: a `storage_versions.StorageRecord`, or None.
    - `serial`: a number that grows from node to node, so operands have lower ones than their users.
    """

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
        "serial",
        "__weakref__",
    )

    def __init__(self, op: str, inputs: tuple["Node", ...], attrs: Attrs, type: Type | tuple[Type, ...]):
        self.op: str = op
        self.inputs: tuple[Node, ...] = inputs
        self.attrs: Attrs = attrs
        self.items: tuple[Any, ...] = ()
        self.type: Any = type
        self.value: np.ndarray | None = None
        self.where: Where | None = None
        self.tracks: bool = False
        self.memo: dict[Any, Any] | None = None
        self.cells: int = 0
        self.storage: Any = None
        self.serial: int = next(_serials)

    def combine(self, name: str, *operands: "Node | float") -> "Node":
        """Return the node `name(*operands)`; numbers become constants."""
        return _combine(name, *operands)

    def __repr__(self) -> str:
        inner = ", ".join([*(i.op for i in self.inputs), *(f"{k}={v}" for k, v in self.attrs.items())])
        return f"{self.op}({inner}) : {self.type}"


# Operators on nodes need the op table to infer a type. That table imports this module, so `ops.op` sets this function.
_combine: Callable[..., Node]


def set_operators(combine: Callable[..., Node]) -> None:
    """Set the function that implements the operators of nodes: `combine(name, *operands)`."""
    global _combine
    _combine = combine


_intern_table: dict[InternKey, weakref.ref[Node]] = {}
_remove_entry = _intern_table.pop
_id_counter = itertools.count(1)
NO_ATTRS: Attrs = {}


def _enter(key: InternKey, n: Node) -> None:
    """Add a node to the table of shared nodes. Its entry is removed when the node is freed.

    If an equal node was entered between the end of a node and the removal of its entry, the other node's entry is
    removed, and the next equal call creates a new node.
    """
    # A function without Python code: each node is freed, and a callback in Python takes half a microsecond.
    _intern_table[key] = weakref.ref(n, functools.partial(_remove_entry, key))


def intern_key(op: str, inputs: tuple[Any, ...], attrs: Attrs) -> InternKey:
    """Return the key of an operation with the given operands, which may be nodes or placeholders for nodes.

    The order of attributes does not matter. Attributes of different class or bits give different keys: 1, 1.0 and True,
    or 0.0 and -0.0; NaN equals NaN.
    """
    if not attrs:
        return (op, inputs)
    # The key includes class and bits: in Python 1, 1.0 and True are equal, so are 0.0 and -0.0, but NaN is not NaN.
    if len(attrs) == 1:
        [(name, value)] = attrs.items()
        return (op, inputs, ((name, value.hex() if value.__class__ is float else value, value.__class__),))
    # Sorted, so that the order of keyword arguments does not matter. A list is faster than a generator.
    items = [(k, v.hex() if v.__class__ is float else v, v.__class__) for k, v in sorted(attrs.items())]
    return (op, inputs, tuple(items))


def find(op: str, inputs: tuple[Node, ...], attrs: Attrs) -> tuple[InternKey, Node | None]:
    """Return the intern key of an operation, and the live node with that key or None."""
    key = intern_key(op, inputs, attrs)
    entry = _intern_table.get(key)
    return key, None if entry is None else entry()


def intern(key: InternKey, op: str, inputs: tuple[Node, ...], attrs: Attrs, type: Type | tuple[Type, ...]) -> Node:
    """Create a node and register it under `key`, for which `find` has just returned no node.

    The node has no value and no location, and tracks no gradients.
    """
    new = Node(op, inputs, dict(attrs) if attrs else NO_ATTRS, type)
    if attrs:
        new.items = key[2]
    _enter(key, new)
    return new


def node(op: str, inputs: tuple[Node, ...], attrs: Attrs, type: Type | tuple[Type, ...]) -> Node:
    """Return the live node with this structure, creating it if there is none.

    A new node has no value and no location, and tracks no gradients. The type is not checked; `ops.call` infers it.
    """
    key, existing = find(op, inputs, attrs)
    return existing if existing is not None else intern(key, op, inputs, attrs, type)


def node_template(n: Node) -> NodeTemplate:
    """Return the template of a node, for `node_from_template`."""
    return n.op, n.attrs, n.items, n.type, n.where, n.tracks


def node_from_template(model: NodeTemplate, inputs: tuple[Node, ...]) -> Node:
    """Return a node like the one of the template `model`, but with other operands, which must have the same types.

    An existing equal node is returned unchanged if there is one; a new one gets the template's location and tracking.
    """
    op, items = model[0], model[2]
    key = (op, inputs, items) if items else (op, inputs)
    entry = _intern_table.get(key)
    existing = None if entry is None else entry()
    if existing is not None:
        return existing
    new = new_uninterned_node(model, inputs)
    _enter(key, new)
    return new


def record_template(model: NodeTemplate, inputs: tuple[Node, ...], place: Where | None) -> Node:
    """Return a node like the one of the template `model`, with operands `inputs` and the location `place`.

    The operands must have the types and the tracking of the template's. An equal node that exists is returned, unless
    each call of it is recorded separately, as in `ops.call`.
    """
    op, attrs, items, type, _, tracks = model
    key: InternKey = (op, inputs, items) if items else (op, inputs)
    entry = _intern_table.get(key)
    existing = None if entry is None else entry()
    if existing is not None:
        if not is_recorded_separately(existing):
            return existing
        key = (*key, unique_id())
    new = Node(op, inputs, attrs, type)
    new.items, new.where, new.tracks = items, place, tracks
    _enter(key, new)
    return new


def new_uninterned_node(model: NodeTemplate, inputs: tuple[Node, ...]) -> Node:
    """Return a new node like the one of the template `model`, with operands `inputs`, that is never shared.

    It has the template's location and tracking, and no value.
    """
    op, attrs, items, type, where, tracks = model
    new = Node(op, inputs, attrs, type)
    new.items, new.where, new.tracks = items, where, tracks
    return new


def unintern(n: Node) -> None:
    """Separate a node from equal computations: later ones create a new node. `is_used` still finds it.

    Do nothing if the node is not shared.
    """
    key, match = find(n.op, n.inputs, n.attrs)
    if match is n:
        # Move it to a unique key instead of removing it, because `is_used` searches the table.
        del _intern_table[key]
        _enter((*key, unique_id()), n)


class _RecordingMode(threading.local):
    """Settings of this thread: `is_apart` (see `distinct_uses`) and `is_merged` (see `set_merging`)."""

    is_apart = False  # see `distinct_uses`
    is_merged = False  # see `set_merging`


_recording_mode = _RecordingMode()


@contextmanager
def distinct_uses() -> Iterator[None]:
    """In the block, record each use of a differentiable expression as a separate node.

    Gradients are then summed where the uses separate, as on PyTorch's tape. `merge_equal_nodes` merges the nodes again.
    """
    before, _recording_mode.is_apart = _recording_mode.is_apart, True
    try:
        yield
    finally:
        _recording_mode.is_apart = before


def set_merging(is_merged: bool) -> bool:
    """Set whether equal calls in this thread share a node even if a tensor has that node.

    Return the previous setting. It is on in captured steps, whose nodes the next trace reuses. Elsewhere each call of a
    tensor has a separate node, so that hooks and gradients distinguish the results of equal calls, and backward frees
    one of them only.
    """
    before, _recording_mode.is_merged = _recording_mode.is_merged, is_merged
    return before


def is_recorded_separately(n: Node) -> bool:
    """Return whether a call equal to `n` creates another node.

    This is the case if gradients flow through `n` and either `distinct_uses` is active, or merging is off and a tensor
    has the node.
    """
    return n.tracks and (_recording_mode.is_apart or (n.cells > 0 and not _recording_mode.is_merged))


def merge_equal_nodes(graph: "Graph") -> "Graph":
    """Return an equivalent graph in which equal nodes are merged, including those recorded in `distinct_uses`."""
    mapping = rebuild(graph.roots(), lambda n, inputs: node_from_template(node_template(n), inputs) if inputs else n)
    return graph.replace_roots(mapping.__getitem__)


def is_used(n: Node) -> bool:
    """Return whether `n` is an operand of a live differentiable node that can be shared. Searches all live nodes."""
    users = (entry() for entry in list(_intern_table.values()))
    return any(u is not None and u.tracks and n in u.inputs for u in users)


def clear_intern_table() -> None:
    """Remove all nodes from the table of shared nodes. Existing nodes stay valid, but are not shared any more.

    A new run calls this, so that its nodes get the locations of its own script.
    """
    _intern_table.clear()


def unique_id() -> int:
    """Return a number that was not returned before in this process."""
    return next(_id_counter)


def leaf(array: np.ndarray, type: Type, tracks: bool = False) -> Node:
    """Return a new leaf node with value `array`, which must not be modified afterwards.

    `tracks` is whether gradients flow through it.
    """
    new = new_unshared_leaf("leaf", type)
    new.value, new.tracks = array, tracks
    return new


def detach_at_location(n: Node, place: Where) -> Node:
    """Return a node with the value of `n` and no gradient history, at the location `place`.

    If `n` has no history, return `n` itself.
    """
    return node_from_template(("detach", NO_ATTRS, (), n.type, place, False), (n,)) if n.tracks else n


def new_unshared_leaf(op: str, type: Type) -> Node:
    """Return a new node without operands that is not interned, so it equals no other node."""
    return Node(op, (), NO_ATTRS, type)


def topological(
    outputs: Iterable[Node], is_leaf: Callable[[Node], bool] | None = None, *, last_first: bool = False
) -> list[Node]:
    """Return all nodes that `outputs` depend on, including themselves, each once and operands before users.

    Operands of nodes for which `is_leaf(node)` is true are not visited; the nodes themselves are included. With
    `last_first`, the operands of a node are visited from the last to the first.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    # An explicit stack, because graphs of unrolled loops are deeper than Python's recursion limit.
    stack: list[tuple[Node | None, Iterator[Node]]] = [(None, iter(outputs))]
    while stack:
        current, rest = stack[-1]
        for child in rest:
            if child not in seen:
                seen.add(child)
                needed = child.inputs
                # Fast path for leaves, which are most nodes of wide graphs.
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


_serial_of = operator.attrgetter("serial")


def computation(outputs: Iterable[Node]) -> list[Node]:
    """Return the nodes that are needed to compute `outputs`, each once and in the order in which they were created.

    The operands of a node that has its value are not visited; the node itself is included.
    """
    seen = set(outputs)
    # Creation order puts operands before users, so no depth-first order has to be built.
    stack = [n for n in seen if n.value is None]
    while stack:
        for i in stack.pop().inputs:
            if i not in seen:
                seen.add(i)
                if i.inputs and i.value is None:
                    stack.append(i)
    return sorted(seen, key=_serial_of)


def _box(n: Node, end: str, numbers: Mapping[Node, int]) -> Box:
    """Return the box of a node in a drawing: its name, type, and a colour for inputs, state and results.

    `end` is a word such as "returned" for a result, else "". `numbers` are the indices of the boxes; operands without
    one are left out.
    """
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
    """A pure function of a step's inputs and state.

    Fields:
    - `inputs`: the `batch` nodes, in order.
    - `state`: the `state` node of each loop-carried tensor, by name.
    - `outputs`: the nodes that are returned.
    - `updates`: the new value of each changed state tensor, by name.
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
        """The name of each output; "output_0", "output_1", ... if no names were given."""
        return self._names or tuple(f"output_{i}" for i in range(len(self.outputs)))

    @property
    def key(self) -> GraphKey:
        """A key that is equal for graphs that compute the same function with the same names.

        Because nodes are interned, comparing the roots is enough.
        """
        # The names are part of the key, because the printed text and the program contain them.
        return (tuple(self.updates.items()), self.outputs, self.inputs, self._names)

    def roots(self) -> tuple[Node, ...]:
        """Return all nodes that the graph must compute: updates first, then outputs."""
        return (*self.updates.values(), *self.outputs)

    def nodes(self) -> list[Node]:
        """Return all nodes, operands before users. The list is cached."""
        if not self._nodes:
            self._nodes = topological(self.roots())
        return self._nodes

    def _repr_html_(self) -> str:
        """Return a drawing of the nodes without constants, in HTML.

        For more than `MAX_DRAWN_NODES` nodes, return a table of the number of nodes per operation.
        """
        shown = [n for n in self.nodes() if n.op not in ("full", "const")]
        if len(shown) > MAX_DRAWN_NODES:
            counts = Counter(n.op for n in shown).most_common()
            columns = (Column("operation", is_words=True), Column("nodes"))
            return f"<p>{len(shown)} nodes</p>{Table(columns, counts).html()}"
        numbers = {n: k for k, n in enumerate(shown)}
        ends = dict.fromkeys(self.outputs, "returned") | {n: f"new {state}" for state, n in self.updates.items()}
        return layered_boxes_svg([_box(n, ends.get(n, ""), numbers) for n in shown])

    def replace_roots(self, mapping: Callable[[Node], Node]) -> "Graph":
        """Return the graph with each root replaced by `mapping(root)`; inputs and state nodes are unchanged."""
        return Graph(
            self.inputs,
            self.state,
            tuple(mapping(o) for o in self.outputs),
            {k: mapping(v) for k, v in self.updates.items()},
            self._names,
        )

    def users(self) -> dict[Node, list[Node]]:
        """Return, for each node of the graph, the nodes that have it as an operand, in topological order.

        A node that uses it twice occurs twice; the list of an unused node is empty.
        """
        users: dict[Node, list[Node]] = {}
        for n in self.nodes():
            users.setdefault(n, [])
            for i in n.inputs:
                users[i].append(n)
        return users


def rebuild(roots: Iterable[Node], change: Callable[[Node, tuple[Node, ...]], Node]) -> dict[Node, Node]:
    """Rebuild all nodes below `roots`, operands first: `change(old node, new operands)` returns the new node.

    Nodes are visited in the order of their creation. Return the dict from old to new nodes.
    """
    mapping: dict[Node, Node] = {}
    for n in _in_creation_order(roots):
        mapping[n] = change(n, tuple([mapping[i] for i in n.inputs]))
    return mapping


def _in_creation_order(outputs: Iterable[Node]) -> list[Node]:
    """Return all nodes that `outputs` depend on, including themselves, each once and operands before users."""
    seen = set(outputs)
    stack = list(seen)
    while stack:
        for i in stack.pop().inputs:
            if i not in seen:
                seen.add(i)
                if i.inputs:
                    stack.append(i)
    return sorted(seen, key=_serial_of)


def replace_inputs(n: Node, inputs: tuple[Node, ...]) -> Node:
    """Return `n` with other operands; the location stays. `n` itself if they are the same.

    An equal node that exists is returned with its location. Raises CompileError if the types of the operands differ.
    """
    if inputs == n.inputs:
        return n
    # The type is copied from the old node, so it would be wrong if a rule changed the type of an operand.
    if [i.type for i in inputs] != [i.type for i in n.inputs]:
        raise CompileError(
            f"{n.op} was rebuilt with inputs of other types",
            where=n.where,
            hint="Report it as a bug of the compiler pass that ran.",
        )
    new = node_from_template((n.op, n.attrs, n.items, n.type, n.where, False), inputs)
    new.where = new.where or n.where
    return new
