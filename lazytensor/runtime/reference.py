"""The reference: a graph evaluated node by node in NumPy, half types rounded after each operation.

It is the oracle of the compiler, and the executor of graphs that are seen once, for which compiling would cost more
than it saves. Results may share memory with the arrays given: whoever keeps one that is overwritten later, copies it.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from lazytensor.dtype import round_to
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.types import Type
from lazytensor.ops.op import OPS


def evaluate(roots: Iterable[Node], env: Mapping[Node, np.ndarray], remember: bool = False) -> list[np.ndarray]:
    """The arrays of `roots`; `env` gives those of leaves that do not know their own value.

    With `remember`, nodes through which a gradient may flow keep their values: a backward graph will ask for them.
    """
    roots = list(roots)
    known: dict[Node, np.ndarray] = dict(env)
    order = topological(roots, is_leaf=lambda n: n in env or n.value is not None)
    pending = _uses(order)
    for r in roots:
        pending[r] = pending.get(r, 0) + 1
    with np.errstate(all="ignore"):
        for n in order:
            if n in known:
                continue
            if n.value is not None:
                known[n] = n.value
                continue
            known[n] = made = _evaluate(n, known)
            if remember and n.tracks and not isinstance(n.type, tuple):
                n.value = made
            for i in n.inputs:
                pending[i] -= 1
                if not pending[i]:
                    del known[i]
    return [known[r] for r in roots]


def _uses(order: list[Node]) -> dict[Node, int]:
    """How often each value is read, so that it can be dropped after the last time."""
    uses: dict[Node, int] = {}
    for n in order:
        for i in n.inputs:
            uses[i] = uses.get(i, 0) + 1
    return uses


def _evaluate(n: Node, known: Mapping[Node, np.ndarray]) -> np.ndarray:
    made = OPS[n.op].eval(*[known[i] for i in n.inputs], **n.attrs)
    if isinstance(n.type, tuple):
        return tuple(_typed(m, t) for m, t in zip(made, n.type, strict=True))  # type: ignore[return-value]
    if made is None:
        raise CompileError(f"{n.op} {dict(n.attrs)} has no value here", where=n.where)
    return _typed(made, n.type)


def _typed(made: np.ndarray, type: Type) -> np.ndarray:
    """An array of the host's type for `type`, rounded."""
    if made.__class__ is not np.ndarray or made.dtype != type.dtype.host:
        made = np.asarray(made, type.dtype.host)
    return round_to(made, type.dtype) if type.dtype.is_half else made
