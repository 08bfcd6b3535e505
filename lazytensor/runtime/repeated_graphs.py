"""Work outside of steps: what a script computes in the same way again and again is compiled.

Each turn of a loop makes new nodes. Their form is what they compute, without the values of the leaves and of numbers
that the script gives. A form that is new runs one operation after the other, and with equal numbers from the `AGAIN`th
time on as a compiled program. Both give equal bits, so that a result does not depend on how often a program has run, in
this thread or in another.
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
"""The time from which on work is compiled, which takes as long as to compute it some twenty times unfused."""
MIN_OPERATIONS = 8
"""Fewer operations are always NumPy's, at once: a graph so small is not worth the passes."""
MAX_PROGRAMS, MAX_FORMS, MAX_NUMBERS = 8, 256, 64
"""Compiled programs, each of which has an arena; forms, with an unfused program each; and numbers of one form."""

Form = tuple[tuple[Hashable, ...], ...]
Numbers = tuple[float, ...]


@dataclass(eq=False)
class _Program:
    """The compiled program of a form with some numbers, and how often that came. `lock` is held while it runs."""

    count: int = 0
    executable: Executable | None = None
    is_refused: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(eq=False)
class _Work:
    """One form: its unfused program, None where the passes refuse it, and its compiled ones by numbers."""

    form: Form
    unfused: Unfused | None
    programs: OrderedDict[Numbers, _Program] = field(default_factory=OrderedDict)

    def program(self, numbers: Numbers) -> _Program:
        """The program for some numbers, counted once more."""
        program = self.programs.setdefault(numbers, _Program())
        program.count += 1
        self.programs.move_to_end(numbers)
        if len(self.programs) > MAX_NUMBERS:
            self.programs.popitem(last=False)
        return program


_works: OrderedDict[int, _Work] = OrderedDict()
"""By the digest of a form, which is long: Python would hash it at each look."""
_recent: dict[int, tuple[Form, int]] = {}
"""By the number of nodes, the form that came last and its digest."""
_compiled_programs: OrderedDict[_Program, None] = OrderedDict()
"""Those that were used last are at the end."""
_lock = threading.Lock()
"""Held while the tables are read or changed."""


def forget() -> None:
    """Be as a new process is."""
    with _lock:
        _works.clear()
        _recent.clear()
        _compiled_programs.clear()


def evaluated(roots: Sequence[Node], order: Sequence[Node]) -> list[np.ndarray] | None:
    """The values of `roots`, for which the nodes of `order` are needed; None where NumPy is to compute them."""
    # Asked once: another thread may compute a node that both need, and it would be neither here nor there.
    known = {n: n.value for n in order if n.value is not None}
    leaves = [n for n in order if n in known and n.op != "const"]
    # Of single numbers, a learning rate for example, NumPy's cosine is PyTorch's to the last bit; see `ops.sin_cos`.
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
        # The compiled program runs in another thread, or there is none.
        if work.unfused is None:
            return None
        values = work.unfused.run([*arrays, *map(_repeated, given)])
        # A number that is repeated has one place in memory.
        return [v if v.flags.writeable else v.copy() for v in values]
    except (LazyError, ValueError, TypeError, MemoryError):
        return None  # NumPy tells the operation and its line


def _is_number(n: Node) -> bool:
    """True for a number of a script that the passes take as any other: no rule for it changes a bit of a result.

    Zeros and infinities mark what a mask hides, and numbers of double precision are part of the text of a function.
    """
    if n.op != "full":
        return False
    dtype, value = n.type.dtype, n.attrs["value"]
    return dtype.kind == "f" and dtype is not float64 and value != 0 and math.isfinite(value)


def _repeated(n: Node) -> np.ndarray:
    return np.broadcast_to(np.asarray(n.attrs["value"], n.type.dtype.host), n.type.shape)


def _compiled_values(
    program: _Program, roots: Sequence[Node], leaves: Sequence[Node], arrays: Sequence[np.ndarray]
) -> list[np.ndarray] | None:
    """The values by the compiled program; None where the graph cannot be compiled."""
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
    # The next step overwrites what the caller does not own.
    return [v if k in executable.owned else v.copy() for k, v in enumerate(executable.step(arrays))]


def _work(
    roots: Sequence[Node], order: Sequence[Node], known: Set[Node], leaves: Sequence[Node], given: Sequence[Node]
) -> tuple[_Work, _Program]:
    """The work that computes `roots`, and the program of it with the numbers that are `given`."""
    form = _form(roots, order, known, leaves, given)
    numbers = tuple([n.attrs["value"] for n in given])
    with _lock:
        # Mostly it is the one of the turn before, which is compared sooner than a new one is hashed.
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
    """What work has in common with other work that computes the same, column by column, which takes half the time."""
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
    """The work as a function of its leaves."""
    batch = {n: node("batch", (), {"index": k, "name": "", "type": n.type}, n.type) for k, n in enumerate(leaves)}
    new = rebuild(roots, lambda n, operands: batch[n] if n in batch else replace_inputs(n, operands))
    return Graph(tuple(batch.values()), {}, tuple(new[r] for r in roots), {})


def _unfused(roots: Sequence[Node], leaves: Sequence[Node]) -> Unfused | None:
    try:
        return Unfused(_graph(roots, leaves))
    except LazyError:
        return None  # NumPy tells the operation and its line


def _compiled(roots: Sequence[Node], leaves: Sequence[Node]) -> Executable | None:
    try:
        return Compilation(_graph(roots, leaves), backend=HostBackend(), store=Store()).executable
    except LazyError:
        return None
