"""Recurring work outside of steps: what a script computes in the same way again and again is compiled.

Each turn of its loop makes new nodes. They are compared by what they are made of, and where the leaves stand.
"""

import itertools
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence, Set

import numpy as np

from lazytensor import config
from lazytensor.compiler.pipeline import Compilation
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node, node, rebuild, same
from lazytensor.runtime.backend import Executable
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.store import Store

AGAIN = 16
"""The time from which on work is compiled, which takes as long as to compute it some twenty times by NumPy."""
LEAST_OPERATIONS = 8
"""Fewer are computed sooner by NumPy."""
PROGRAMS_KEPT, COUNTS_KEPT = 8, 4096

Form = tuple[tuple[Hashable, ...], ...]
_counts: Counter[int] = Counter()
_programs: OrderedDict[int, tuple[Form, Executable | None]] = OrderedDict()
"""By the digest of what they compute, and with that: it is long, and Python would hash it at each look."""
_recent: dict[int, tuple[Form, int]] = {}
"""By the number of nodes, what was asked last and its digest."""
_lock = threading.Lock()


def begin() -> None:
    """Count from zero, so that a run which is seeded again gives the same bits: NumPy's are other ones."""
    _counts.clear()


def forget() -> None:
    """Be as a new process is."""
    begin()
    _programs.clear()
    _recent.clear()


def evaluated(roots: Sequence[Node], order: Sequence[Node]) -> list[np.ndarray] | None:
    """The values of `roots`, for which the nodes of `order` are needed; None where NumPy is to compute them."""
    # Asked once: another thread may compute a node that both need, and it would be neither here nor there.
    known = {n for n in order if n.value is not None}
    leaves = [n for n in order if n in known and n.op != "const"]
    # What is made of single numbers, a rate of learning for example, is NumPy's to the last bit.
    is_large = len(order) - len(leaves) >= LEAST_OPERATIONS and any(n.value.size > 1 for n in leaves)  # type: ignore[union-attr]
    if not is_large or not config.current().jit or not _lock.acquire(blocking=False):
        return None
    try:
        program = _program(roots, order, known, leaves)
        values = program.step([n.value for n in leaves]) if program is not None else []  # type: ignore[misc]
        # The next step overwrites what the caller does not own.
        return [v if k in program.owned else v.copy() for k, v in enumerate(values)] if program is not None else None
    except (LazyError, ValueError, TypeError, MemoryError):
        return None  # NumPy tells the operation and its line
    finally:
        _lock.release()


def _program(
    roots: Sequence[Node], order: Sequence[Node], known: Set[Node], leaves: Sequence[Node]
) -> Executable | None:
    key = _form(roots, order, known, leaves)
    # Mostly it is the one of the turn before, which is compared sooner than a new one is hashed.
    recent = _recent.get(len(order))
    if recent is not None and recent[0] == key:
        key, digest = recent
    else:
        digest = hash(key)  # a count that is too high once is no harm
        if len(_recent) >= PROGRAMS_KEPT:
            _recent.clear()
        _recent[len(order)] = key, digest
    _counts[digest] += 1
    if _counts[digest] < AGAIN:
        if len(_counts) > COUNTS_KEPT:
            _counts.clear()
        return None
    if digest not in _programs or _programs[digest][0] != key:
        _programs[digest] = key, _compiled(roots, leaves)
        # Each has its arena.
        if len(_programs) > PROGRAMS_KEPT:
            _programs.popitem(last=False)
    _programs.move_to_end(digest)
    return _programs[digest][1]


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


def _compiled(roots: Sequence[Node], leaves: Sequence[Node]) -> Executable | None:
    batch = {n: node("batch", (), {"index": k, "name": "", "type": n.type}, n.type) for k, n in enumerate(leaves)}
    new = rebuild(roots, lambda n, operands: batch[n] if n in batch else same(n, operands))
    graph = Graph(tuple(batch.values()), {}, tuple(new[r] for r in roots), {})
    try:
        return Compilation(graph, backend=HostBackend(), store=Store()).executable
    except LazyError:
        return None  # and is asked no more
