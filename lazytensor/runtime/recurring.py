"""Work outside of steps: what a script computes in the same way again and again is compiled.

Each turn of a loop makes new nodes. Their form is what they compute, without the values of the leaves. A form that is
new runs one operation after the other, and from the `AGAIN`th time on as a compiled program. Both give equal bits, so
that a result does not depend on how often a program has run, in this thread or in another.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from lazytensor import config
from lazytensor.compiler.pipeline import Compilation
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node, node, rebuild, same
from lazytensor.runtime.backend import Executable
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.store import Store
from lazytensor.runtime.unfused import Unfused

AGAIN = 16
"""The time from which on work is compiled, which takes as long as to compute it some twenty times unfused."""
MIN_OPERATIONS = 8
"""Fewer operations are always NumPy's, at once: a graph so small is not worth the passes."""
MAX_PROGRAMS, MAX_FORMS = 8, 256
"""Compiled programs, each of which has an arena, and forms with their unfused programs."""

Form = tuple[tuple[Hashable, ...], ...]


@dataclass(eq=False)
class _Program:
    """What is known of one form: how often it came, and its programs. `lock` is held while the compiled one runs."""

    form: Form
    unfused: Unfused | None
    count: int = 0
    executable: Executable | None = None
    is_refused: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


_programs: OrderedDict[int, _Program] = OrderedDict()
"""By the digest of a form, which is long: Python would hash it at each look."""
_recent: dict[int, tuple[Form, int]] = {}
"""By the number of nodes, the form that came last and its digest."""
_lock = threading.Lock()
"""Held while the tables are read or changed."""


def forget() -> None:
    """Be as a new process is."""
    with _lock:
        _programs.clear()
        _recent.clear()


def evaluated(roots: Sequence[Node], order: Sequence[Node]) -> list[np.ndarray] | None:
    """The values of `roots`, for which the nodes of `order` are needed; None where NumPy is to compute them."""
    # Asked once: another thread may compute a node that both need, and it would be neither here nor there.
    known = {n: n.value for n in order if n.value is not None}
    leaves = [n for n in order if n in known and n.op != "const"]
    is_large = len(order) - len(leaves) >= MIN_OPERATIONS and any(known[n].size > 1 for n in leaves)
    if not is_large or not config.current().jit:
        return None
    arrays = [known[n] for n in leaves]
    try:
        program = _program(roots, order, known.keys(), leaves)
        if program.count >= AGAIN and program.lock.acquire(blocking=False):
            try:
                values = _compiled_values(program, roots, leaves, arrays)
            finally:
                program.lock.release()
            if values is not None:
                return values
        # The compiled program runs in another thread, or there is none.
        return program.unfused.run(arrays) if program.unfused is not None else None
    except (LazyError, ValueError, TypeError, MemoryError):
        return None  # NumPy tells the operation and its line


def _compiled_values(
    program: _Program, roots: Sequence[Node], leaves: Sequence[Node], arrays: Sequence[np.ndarray]
) -> list[np.ndarray] | None:
    """The values by the compiled program; None where the graph cannot be compiled."""
    if program.executable is None and not program.is_refused:
        program.executable = _compiled(roots, leaves)
        program.is_refused = program.executable is None
        _drop_programs()
    executable = program.executable
    if executable is None:
        return None
    # What is not lasting is overwritten by the next step.
    return [v if k in executable.lasting else v.copy() for k, v in enumerate(executable.step(arrays))]


def _drop_programs() -> None:
    """Drop the compiled programs that were used least recently: each has an arena."""
    with _lock:
        compiled = [p for p in _programs.values() if p.executable is not None]
        for p in compiled[:-MAX_PROGRAMS]:
            p.executable, p.count = None, 0


def _program(roots: Sequence[Node], order: Sequence[Node], known: Set[Node], leaves: Sequence[Node]) -> _Program:
    form = _form(roots, order, known, leaves)
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
        program = _programs.get(digest)
        if program is not None and program.form == form:
            _programs.move_to_end(digest)
            program.count += 1
            return program
    new = _Program(form=form, unfused=_unfused(roots, leaves), count=1)
    with _lock:
        _programs[digest] = new
        if len(_programs) > MAX_FORMS:
            _programs.popitem(last=False)
    return new


def _form(roots: Sequence[Node], order: Sequence[Node], known: Set[Node], leaves: Sequence[Node]) -> Form:
    """What work has in common with other work that computes the same, column by column, which takes half the time."""
    constants = tuple([n for n in order if n in known and n.op == "const"])
    work = [n for n in order if n not in known]
    numbers = dict(zip((*leaves, *constants, *work), itertools.count(), strict=False))
    return (
        constants,
        tuple([n.value.shape for n in leaves]),  # type: ignore[union-attr]
        tuple([n.type.dtype for n in leaves]),
        tuple([n.op for n in work]),
        tuple([n.items for n in work]),
        tuple([len(n.inputs) for n in work]),
        tuple([numbers[i] for n in work for i in n.inputs]),
        tuple([numbers[r] for r in roots]),
    )


def _graph(roots: Sequence[Node], leaves: Sequence[Node]) -> Graph:
    """The work as a function of its leaves."""
    batch = {n: node("batch", (), {"index": k, "name": "", "type": n.type}, n.type) for k, n in enumerate(leaves)}
    new = rebuild(roots, lambda n, operands: batch[n] if n in batch else same(n, operands))
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
