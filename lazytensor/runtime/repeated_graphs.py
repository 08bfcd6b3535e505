"""Compile graphs outside of captured steps that a script computes repeatedly.

Each iteration of a user's loop makes new nodes. The *form* of a graph is what it computes, without the values of its
leaves and of the numbers that the script passes. The first times, a form runs one operation after the other. From the
`AGAIN`th time on, a compiled program runs it, which takes the numbers as inputs. Both ways give equal bits, so that a
result does not depend on how often, or in which thread, a graph ran before.
"""

import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazytensor import config
from lazytensor.compiler.pipeline import Compilation
from lazytensor.core.dtype import float64
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node, node, rebuild, replace_inputs
from lazytensor.ir.graph_function import CALL_OP, RESULT_OP, GraphFunction, inline_calls
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.op import OPS
from lazytensor.runtime.host import HostBackend, HostExecutable
from lazytensor.runtime.state_store import Store
from lazytensor.runtime.unfused_program import Unfused

AGAIN = 16
"""The run, counted from 1, from which on a form is compiled. Compiling takes about as long as 20 unfused runs."""
MIN_OPERATIONS, MIN_ELEMENTS = 5, 1 << 13
"""A graph of fewer operations whose arrays all have fewer elements always runs in NumPy: loops make many such graphs,
often of other shapes in each iteration, and preparing one takes as long as 10 to 20 runs. NumPy rounds differently, so
the choice depends on the graph only. Constants of one value do not count.
"""
SLICING_OPS = frozenset(("slice", "select"))
"""Operations that read a part of an array. Of an array with a value, the part is an input of the graph."""
MAX_FORMS, MAX_RECENT = 1024, 8
"""The maximum number of forms, each of which may have an unfused program, and of forms that are found by size."""
MAX_PROGRAMS, MAX_ARENA_BYTES = 128, 1 << 30
"""The maximum number of compiled programs, and of bytes in their arenas; the last used program always stays."""

_UNCOUNTED_OPS = frozenset(("full", CALL_OP))

Form = tuple[tuple[Hashable, ...], ...]


@dataclass(eq=False)
class _Work:
    """One form, with its programs.

    - `count`: how often the form ran.
    - `unfused`: the unfused program; None before it is prepared, and if the passes refuse the graph.
    - `executable`: the compiled program; None before it is compiled, and after it is dropped from the cache.
    - `is_refused`: whether the passes refused to compile the graph.
    - `lock`: held while the compiled program runs.
    """

    form: Form
    count: int = 0
    unfused: Unfused | None = None
    is_prepared: bool = False
    executable: HostExecutable | None = None
    is_refused: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_works: OrderedDict[int, _Work] = OrderedDict()
"""Forms by their hash. A form is long, so the hash is computed once and kept as the key."""
_recent: dict[int, tuple[Form, int]] = {}
"""The last form and its hash, by the number of nodes of the graph."""
_compiled: OrderedDict[_Work, int] = OrderedDict()
"""The forms that have a compiled program, with the bytes of its arena, the most recently used ones at the end."""
_lock = threading.Lock()
"""Held while these tables are read or changed."""


def forget() -> None:
    """Clear all caches of this module."""
    with _lock:
        _works.clear()
        _recent.clear()
        _compiled.clear()


def evaluated(roots: Sequence[Node], order: Sequence[Node]) -> list[np.ndarray] | None:
    """Return the values of `roots`, or None if the caller has to compute them with NumPy.

    `order` lists the nodes that `roots` need, operands first. The result is None if LT_JIT=0, if the graph is small
    (see MIN_OPERATIONS), if all its leaves have one element, if the passes refuse it, or if running it raises an error.
    Other graphs run operation by operation until their AGAINth run, which compiles them.
    """
    if not config.current().jit:
        return None
    try:
        parts = _Parts(roots, order)
        # Graphs of single numbers, such as a learning rate, stay in NumPy, whose cosine has PyTorch's bits; see
        # `ops.sin_cos`.
        if parts.is_small() or not any(a.size > 1 for a in parts.arrays):
            return None
        work = _look_up(roots, parts)
        if work.count >= AGAIN and work.lock.acquire(blocking=False):
            try:
                values = _compiled_values(work, roots, parts)
            finally:
                work.lock.release()
            if values is not None:
                return values
        # Integers have the same bits in NumPy, where nothing has to be prepared.
        if not work.is_prepared and parts.are_integers():
            return None
        # There is no compiled program yet, or it runs in another thread now.
        if not work.is_prepared:
            work.unfused, work.is_prepared = _unfused(roots, [*parts.leaves, *parts.numbers]), True
        if work.unfused is None:
            return None
        values = work.unfused.run([*parts.arrays, *map(_repeated, parts.numbers)])
        # A broadcast number is a read-only view of one element.
        return [v if v.flags.writeable else v.copy() for v in values]
    except (LazyError, ValueError, TypeError, MemoryError):
        return None  # NumPy computes it, and reports the operation and its line


class _Parts:
    """The nodes of a graph by their role.

    - `leaves`: the inputs, nodes that have a value; `arrays` are the values.
    - `constants`: the constant arrays.
    - `numbers`: the numbers of the script that may differ from run to run; see `_is_number`.
    - `work`: the other nodes, which have to be computed.
    """

    __slots__ = ("_order", "arrays", "constants", "leaves", "numbers", "work")

    def __init__(self, roots: Sequence[Node], order: Sequence[Node]):
        self._order = order
        self.leaves: list[Node] = []
        self.arrays: list[np.ndarray] = []
        self.constants: list[Node] = []
        self.numbers: list[Node] = []
        self.work: list[Node] = []
        cut = False
        for n in order:
            # The value is read once: another thread may set it in the meantime.
            value = n.value
            if value is None and n.op in SLICING_OPS and (base := n.inputs[0].value) is not None:
                # A loop reads another part of its data in each iteration: the part is an input, not its position.
                value, cut = np.array(OPS[n.op].eval(base, **n.attrs), order="C"), True
            if value is None:
                (self.numbers if n.op == "full" and _is_number(n) else self.work).append(n)
            elif n.op == "const":
                self.constants.append(n)
            else:
                self.leaves.append(n)
                self.arrays.append(value)
        if cut:
            self._drop_unread(roots)

    def _drop_unread(self, roots: Sequence[Node]) -> None:
        """Remove leaves that neither the work nor the roots read, such as arrays of which only parts are used."""
        read = {*roots, *(i for n in self.work for i in n.inputs)}
        kept = [k for k, n in enumerate(self.leaves) if n in read]
        self.leaves, self.arrays = [self.leaves[k] for k in kept], [self.arrays[k] for k in kept]

    def is_small(self) -> bool:
        """Return whether NumPy runs the graph; see MIN_OPERATIONS.

        The result is the same whether gradients are nodes or results of a function call.
        """
        count = 0
        read: dict[Node, list[int]] = {}
        for n in self.work:
            if n.op == RESULT_OP:
                read.setdefault(n.inputs[0], []).append(n.attrs["index"])
            elif n.op not in _UNCOUNTED_OPS:
                count += 1
                if count >= MIN_OPERATIONS or _size(n.type) >= MIN_ELEMENTS:
                    return False
        for caller, results in read.items():
            function: GraphFunction = caller.attrs["function"]
            types = function.types_for(tuple(results))
            count += len(types)
            if count >= MIN_OPERATIONS or any(_size(t) >= MIN_ELEMENTS for t in types):
                return False
        return True

    def are_integers(self) -> bool:
        """Return whether all values of the graph are integers or booleans."""
        return not self.numbers and all(
            n.type.__class__ is Type and n.type.dtype.kind != "f" for n in (*self.work, *self.leaves)
        )

    def form(self, roots: Sequence[Node]) -> Form:
        """Return a hashable key that equal computations of `roots` share: operations, attributes, types and edges.

        It does not contain the values of the leaves and of the numbers.
        """
        places = dict(zip(self._order, itertools.count(), strict=False))
        of = places.__getitem__
        return (
            tuple(self.constants),
            tuple([a.shape for a in self.arrays]),
            tuple([n.type.dtype for n in self.leaves]),
            tuple([n.type for n in self.numbers]),
            tuple([n.op for n in self.work]),
            # The number of a leaf does not matter: a script may create its leaf in each iteration.
            tuple([n.items if n.op != "variable" else () for n in self.work]),
            tuple([tuple(map(of, n.inputs)) for n in self.work]),
            tuple(map(of, (*self.leaves, *self.constants, *self.numbers, *roots))),
        )


def _is_number(n: Node) -> bool:
    """Return whether a node is a number of the script that may differ from run to run without a change of the bits.

    The node is a constant of any shape. Only floating-point numbers count. Zeros and infinities do not, because
    rewrite rules treat them specially (masks), nor NaN, nor float64 numbers, which are part of the text of a
    kernel.
    """
    if n.op != "full":
        return False
    dtype, value = n.type.dtype, n.attrs["value"]
    return dtype.kind == "f" and dtype is not float64 and value != 0 and math.isfinite(value)


def _repeated(n: Node) -> np.ndarray:
    """Return the value of a number node, broadcast to its shape."""
    return np.broadcast_to(np.asarray(n.attrs["value"], n.type.dtype.host), n.type.shape)


def _compiled_values(work: _Work, roots: Sequence[Node], parts: _Parts) -> list[np.ndarray] | None:
    """Return the values of `roots` by the compiled program of `work`, or None if the graph cannot be compiled.

    Compile the program if there is none, and drop the programs that were not used for longest while there are too many.
    Hold the lock of `work`.
    """
    executable = work.executable
    if executable is None:
        executable = None if work.is_refused else _compile(roots, parts)
        if executable is None:
            work.is_refused = True
            return None
    _keep(work, executable)
    numbers = [np.asarray(n.attrs["value"], n.type.dtype.host) for n in parts.numbers]
    # The next step overwrites arrays that are not `owned`, so copy them.
    owned = executable.owned
    return [v if k in owned else v.copy() for k, v in enumerate(executable.step([*parts.arrays, *numbers]))]


def _keep(work: _Work, executable: HostExecutable) -> None:
    """Make `executable` the most recently used program, and drop others until the cache is within its bounds."""
    with _lock:
        work.executable = executable
        _compiled[work] = executable.arena_bytes
        _compiled.move_to_end(work)
        while len(_compiled) > 1 and (len(_compiled) > MAX_PROGRAMS or sum(_compiled.values()) > MAX_ARENA_BYTES):
            dropped, _ = _compiled.popitem(last=False)
            dropped.executable = None


def _look_up(roots: Sequence[Node], parts: _Parts) -> _Work:
    """Return the work (the cache entry) of a graph, and count the run.

    Enter new work in the caches, and drop the least recently used one over MAX_FORMS.
    """
    form = parts.form(roots)
    with _lock:
        # Usually the form is the last one, and a comparison is faster than a hash.
        size = len(parts.work)
        recent = _recent.get(size)
        if recent is not None and recent[0] == form:
            form, digest = recent
        else:
            digest = hash(form)
            if len(_recent) >= MAX_RECENT:
                _recent.clear()
            _recent[size] = form, digest
        work = _works.get(digest)
        if work is None or work.form != form:
            work = _works[digest] = _Work(form)
            if len(_works) > MAX_FORMS:
                _works.popitem(last=False)
        _works.move_to_end(digest)
        work.count += 1
        return work


def _size(type: Any) -> int:
    """Return the number of elements of an array of a type, or of the largest one of several types."""
    return max((t.size for t in type), default=0) if isinstance(type, tuple) else int(type.size)


def _graph(roots: Sequence[Node], leaves: Sequence[Node], numbers: Sequence[Node] = ()) -> Graph:
    """Return the computation of `roots` as a graph whose inputs are `leaves`, then `numbers` without dimensions."""
    inputs = [_input(k, n.type) for k, n in enumerate(leaves)]
    inputs += [_input(k, Type((), n.type.dtype)) for k, n in enumerate(numbers, len(leaves))]
    new_nodes = dict(zip(leaves, inputs, strict=False))
    new_nodes |= {
        n: call("broadcast_in_dim", scalar, shape=n.type.shape, dims=()) if n.type.shape else scalar
        for n, scalar in zip(numbers, inputs[len(leaves) :], strict=True)
    }
    new = rebuild(roots, lambda n, operands: new_nodes[n] if n in new_nodes else replace_inputs(n, operands))
    return inline_calls(Graph(tuple(inputs), {}, tuple(new[r] for r in roots), {}))


def _input(index: int, type: Type) -> Node:
    return node("batch", (), {"index": index, "name": "", "type": type}, type)


def _unfused(roots: Sequence[Node], leaves: Sequence[Node]) -> Unfused | None:
    """Return the unfused program of `roots`, or None if a pass refuses the graph."""
    try:
        return Unfused(_graph(roots, leaves))
    except LazyError:
        return None  # NumPy computes it, and reports the operation and its line


def _compile(roots: Sequence[Node], parts: _Parts) -> HostExecutable | None:
    """Return the compiled program of `roots`, or None if a pass refuses the graph.

    It takes the leaves, then the numbers, each as an array without dimensions.
    """
    try:
        graph = _graph(roots, parts.leaves, parts.numbers)
        executable = Compilation(graph, backend=HostBackend(), store=Store()).executable
    except LazyError:
        return None
    assert isinstance(executable, HostExecutable)
    return executable
