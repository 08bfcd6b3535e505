"""Compile graphs outside of captured steps that a script computes repeatedly.

Each iteration of a user's loop makes new nodes. The *form* of a graph is what it computes, without the values of its
leaves and of the numbers that the script passes. The first times, a form runs one operation after the other. From the
`AGAIN`th time with equal numbers on, a compiled program runs it. Both ways give equal bits, so that a result does not
depend on how often, or in which thread, a graph ran before.
"""

import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from lazytensor import config
from lazytensor.compiler.pipeline import Compilation
from lazytensor.core.dtype import float64
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node, node, rebuild, replace_inputs
from lazytensor.runtime.backend import Executable
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.runtime.unfused_program import Unfused

AGAIN = 16
"""The run, counted from 1, from which on a graph is compiled. Compiling takes about as long as 20 unfused runs."""
MIN_OPERATIONS = 8
"""Graphs with fewer operations always run in NumPy at once: the passes would cost more than they save."""
MAX_PROGRAMS, MAX_FORMS, MAX_NUMBERS = 8, 256, 64
"""The maximum number of compiled programs, each of which has an arena; of forms, each of which has an unfused program;
and of combinations of numbers for one form.
"""

Form = tuple[tuple[Hashable, ...], ...]
Numbers = tuple[float, ...]


@dataclass(eq=False)
class _Program:
    """The compiled program of a form with certain numbers.

    - `count`: how often this combination ran.
    - `executable`: the compiled program, or None before it is compiled and after it is dropped from the cache.
    - `is_refused`: whether the passes refused the graph.
    - `lock`: held while the program runs.
    """

    count: int = 0
    executable: Executable | None = None
    is_refused: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(eq=False)
class _Work:
    """One form, with its unfused program (None if the passes refuse the graph) and its compiled programs by numbers."""

    form: Form
    unfused: Unfused | None
    programs: OrderedDict[Numbers, _Program] = field(default_factory=OrderedDict)

    def program(self, numbers: Numbers) -> _Program:
        """Return the program for some numbers and add one to its count.

        Drop the least recently used one over MAX_NUMBERS.
        """
        program = self.programs.setdefault(numbers, _Program())
        program.count += 1
        self.programs.move_to_end(numbers)
        if len(self.programs) > MAX_NUMBERS:
            self.programs.popitem(last=False)
        return program


_works: OrderedDict[int, _Work] = OrderedDict()
"""Forms by their hash. A form is long, so the hash is computed once and kept as the key."""
_recent: dict[int, tuple[Form, int]] = {}
"""The last form and its hash, by the number of nodes of the graph."""
_compiled_programs: OrderedDict[_Program, None] = OrderedDict()
"""The programs that have an executable, the most recently used ones at the end."""
_lock = threading.Lock()
"""Held while these tables are read or changed."""


def forget() -> None:
    """Clear all caches of this module."""
    with _lock:
        _works.clear()
        _recent.clear()
        _compiled_programs.clear()


def evaluated(roots: Sequence[Node], order: Sequence[Node]) -> list[np.ndarray] | None:
    """Return the values of `roots`, or None if the caller has to compute them with NumPy.

    `order` lists the nodes that `roots` need, operands first. The result is None if LT_JIT=0, if the graph has fewer
    than MIN_OPERATIONS operations, if all its leaves have one element, if the passes refuse it, or if running it raises
    an error. A graph runs operation by operation until it has run AGAIN times with the same numbers; then it is
    compiled.
    """
    # Values are read once: another thread may set the value of a node in the meantime.
    known = {n: n.value for n in order if n.value is not None}
    leaves = [n for n in order if n in known and n.op != "const"]
    # Graphs of single numbers, such as a learning rate, stay in NumPy, whose cosine has PyTorch's bits; see
    # `ops.sin_cos`.
    is_large = len(order) - len(leaves) >= MIN_OPERATIONS and any(known[n].size > 1 for n in leaves)
    if not is_large or not config.current().jit:
        return None
    arrays = [known[n] for n in leaves]
    given = [n for n in order if n not in known and _is_number(n)]
    try:
        work, program = _work(roots, order, known.keys(), leaves, given)
        if program.count >= AGAIN and program.lock.acquire(blocking=False):
            try:
                values = _compiled_values(program, roots, leaves, arrays)
            finally:
                program.lock.release()
            if values is not None:
                return values
        # There is no compiled program yet, or it runs in another thread now.
        if work.unfused is None:
            return None
        values = work.unfused.run([*arrays, *map(_repeated, given)])
        # A broadcast number is a read-only view of one element.
        return [v if v.flags.writeable else v.copy() for v in values]
    except (LazyError, ValueError, TypeError, MemoryError):
        return None  # NumPy computes it, and reports the operation and its line


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


def _compiled_values(
    program: _Program, roots: Sequence[Node], leaves: Sequence[Node], arrays: Sequence[np.ndarray]
) -> list[np.ndarray] | None:
    """Return the values of `roots` by the compiled program, or None if the graph cannot be compiled.

    Compile the program if it has no executable. Drop the least recently used executable over MAX_PROGRAMS. Hold the
    lock of the program.
    """
    if program.executable is None and not program.is_refused:
        program.executable = _compiled(roots, leaves)
        program.is_refused = program.executable is None
    executable = program.executable
    if executable is None:
        return None
    with _lock:
        _compiled_programs[program] = None
        _compiled_programs.move_to_end(program)
        if len(_compiled_programs) > MAX_PROGRAMS:
            dropped, _ = _compiled_programs.popitem(last=False)
            dropped.executable = None
    # The next step overwrites arrays that are not `owned`, so copy them.
    return [v if k in executable.owned else v.copy() for k, v in enumerate(executable.step(arrays))]


def _work(
    roots: Sequence[Node], order: Sequence[Node], known: Set[Node], leaves: Sequence[Node], given: Sequence[Node]
) -> tuple[_Work, _Program]:
    """Return the work (the cache entry of a form) that computes `roots`, and its program for the numbers of the nodes
    `given`.

    `order` lists all nodes, operands first; `known` are those with a value, and `leaves` those of them that are inputs.
    Enter new work in the caches, drop the least recently used one over MAX_FORMS, and count the run.
    """
    form = _form(roots, order, known, leaves, given)
    numbers = tuple([n.attrs["value"] for n in given])
    with _lock:
        # Usually the form is the last one, and a comparison is faster than a hash.
        recent = _recent.get(len(order))
        if recent is not None and recent[0] == form:
            form, digest = recent
        else:
            digest = hash(form)
            if len(_recent) >= MAX_PROGRAMS:
                _recent.clear()
            _recent[len(order)] = form, digest
        work = _works.get(digest)
        if work is not None and work.form == form:
            _works.move_to_end(digest)
            return work, work.program(numbers)
    work = _Work(form, _unfused(roots, [*leaves, *given]))
    with _lock:
        _works[digest] = work
        if len(_works) > MAX_FORMS:
            _works.popitem(last=False)
        return work, work.program(numbers)


def _form(
    roots: Sequence[Node], order: Sequence[Node], known: Set[Node], leaves: Sequence[Node], given: Sequence[Node]
) -> Form:
    """Return a hashable key that equal computations share: operations, attributes, types and edges.

    It does not contain the values of `leaves` and of the numbers `given`. The parameters are those of `_work`.
    """
    constants = tuple([n for n in order if n in known and n.op == "const"])
    numbers = set(given)
    work = [n for n in order if n not in known and n not in numbers]
    places = dict(zip((*leaves, *constants, *given, *work), itertools.count(), strict=False))
    return (
        constants,
        tuple([n.value.shape for n in leaves]),  # type: ignore[union-attr]
        tuple([n.type.dtype for n in leaves]),
        tuple([n.type for n in given]),
        tuple([n.op for n in work]),
        tuple([n.items for n in work]),
        tuple([len(n.inputs) for n in work]),
        tuple([places[i] for n in work for i in n.inputs]),
        tuple([places[r] for r in roots]),
    )


def _graph(roots: Sequence[Node], leaves: Sequence[Node]) -> Graph:
    """Return the computation of `roots` as a graph whose inputs are `leaves`."""
    batch = {n: node("batch", (), {"index": k, "name": "", "type": n.type}, n.type) for k, n in enumerate(leaves)}
    new = rebuild(roots, lambda n, operands: batch[n] if n in batch else replace_inputs(n, operands))
    return Graph(tuple(batch.values()), {}, tuple(new[r] for r in roots), {})


def _unfused(roots: Sequence[Node], leaves: Sequence[Node]) -> Unfused | None:
    """Return the unfused program of `roots`, or None if a pass refuses the graph."""
    try:
        return Unfused(_graph(roots, leaves))
    except LazyError:
        return None  # NumPy computes it, and reports the operation and its line


def _compiled(roots: Sequence[Node], leaves: Sequence[Node]) -> Executable | None:
    """Return the compiled program of `roots`, or None if a pass refuses the graph."""
    try:
        return Compilation(_graph(roots, leaves), backend=HostBackend(), store=Store()).executable
    except LazyError:
        return None
