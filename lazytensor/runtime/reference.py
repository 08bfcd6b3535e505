"""The reference: a graph evaluated node by node in NumPy, half types rounded after each operation.

It is the oracle of the compiler, and the executor of graphs that are seen once, for which compiling would cost more
than it saves. Results may share memory with the arrays given: whoever keeps one that is overwritten later, copies it.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import round_to
from lazytensor.errors import (
    ArgumentInvalid,
    CompileError,
    LazyError,
    MemoryMissing,
    NumberTooLarge,
    ShapeError,
    TraceError,
)
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.types import Type
from lazytensor.ops.op import OPS

Shared = Callable[[Node, list[np.ndarray]], np.ndarray | None]
"""Gives the value of a node that threads share; None for any other."""
RESULTS = "results"
"""Key in a node's memo of the arrays of its several results."""
MOST_BYTES = 1 << 47
"""What a process can address at most, on the processors of today."""


def evaluate(
    roots: Iterable[Node], env: Mapping[Node, np.ndarray], remember: bool = False, shared: Shared | None = None
) -> list[np.ndarray]:
    """The arrays of `roots`; `env` gives those of leaves that do not know their own value.

    With `remember`, nodes through which a gradient may flow keep their values: a backward graph will ask for them.
    """
    roots = list(roots)
    values: dict[Node, np.ndarray] = dict(env)
    order = topological(roots, is_leaf=lambda n: n in env or _is_known(n))
    pending = _uses(order)
    for r in roots:
        # A root counts as one more reader, which never comes: it is kept to the end.
        pending[r] = pending.get(r, 0) + 1
    with np.errstate(all="ignore"):
        for n in order:
            if n in values:
                continue
            if _is_known(n):
                values[n] = n.value if n.value is not None else n.memo[RESULTS]  # type: ignore[index]
                continue
            values[n] = result = _evaluate(n, values, shared)
            if remember and n.tracks:
                _remember(n, result)
            for i in n.inputs:
                # Memory stays that of the widest moment, not of the sum of all values.
                pending[i] -= 1
                if not pending[i]:
                    del values[i]
    return [values[r] for r in roots]


def _is_known(n: Node) -> bool:
    return n.value is not None or (n.memo is not None and RESULTS in n.memo)


def _remember(n: Node, result: np.ndarray) -> None:
    if not isinstance(n.type, tuple):
        n.value = result
        return
    # What has several results is no array; gradients ask for results that nobody reads before.
    n.memo = {**(n.memo or {}), RESULTS: result}


def _uses(order: list[Node]) -> dict[Node, int]:
    """How often each value is read, so that it can be dropped after the last time."""
    uses: dict[Node, int] = {}
    for n in order:
        for i in n.inputs:
            uses[i] = uses.get(i, 0) + 1
    return uses


def _evaluate(n: Node, values: Mapping[Node, np.ndarray], shared: Shared | None) -> np.ndarray:
    try:
        arrays = [values[i] for i in n.inputs]
        result = shared(n, arrays) if shared is not None else None
        if result is None:
            result = OPS[n.op].eval(*arrays, **n.attrs)
    except LazyError as e:
        # What an operation refuses of its values has no line by itself.
        if e.where is None and n.where is not None and type(e).__init__ is LazyError.__init__:
            raise type(e)(e.what, where=n.where, hint=e.hint) from None
        raise
    # NumPy computes late, far from the call: what it says of it names neither the function nor the line.
    except (MemoryError, ValueError, OverflowError, TypeError) as e:
        size = sum(t.size * t.dtype.itemsize for t in (n.type if isinstance(n.type, tuple) else (n.type,)))
        if size >> 63 and isinstance(n.type, Type) and max(n.type.shape) >> 63:
            raise NumberTooLarge(f"{n.op} gives {n.type}: an extent of more than 64 bits", where=n.where) from e
        # NumPy has another error for what no address could reach.
        if isinstance(e, MemoryError) or size > MOST_BYTES:
            raise MemoryMissing(f"{n.op} gives {n.type}: {size:,} bytes", size, where=n.where) from e
        raise _unfit(n, e) from e
    if isinstance(n.type, tuple):
        return tuple(_typed(m, t) for m, t in zip(result, n.type, strict=True))  # type: ignore[return-value]
    if result is None:
        raise _without_value(n)
    return _typed(result, n.type)


def _without_value(n: Node) -> LazyError:
    """The error about a value that follows from a leaf which has none outside of its step."""
    if n.op not in ("state", "batch"):
        return CompileError(f"{n.op} {dict(n.attrs)} has no value here", where=n.where)
    name = n.attrs["id"] if n.op == "state" else n.attrs["name"]
    return TraceError(
        f"a tensor that a traced step computed from {name} is read outside of the step, and was not fetched",
        where=source.where(),
        hint="Pass it to a @cstorch.step_closure in each step, and read it there.",
    )


def _unfit(n: Node, error: Exception) -> LazyError:
    kind = {TypeError: ArgumentInvalid, OverflowError: NumberTooLarge}.get(type(error), ShapeError)
    given = ", ".join([*(str(i.type) for i in n.inputs), *(f"{k}={v!r}" for k, v in n.attrs.items())])
    return kind(
        f"{n.op}({given}) cannot be computed", where=n.where, hint="Look at the types and numbers that are given."
    )


def _typed(result: np.ndarray, type: Type) -> np.ndarray:
    """An array of the host's type for `type`, rounded."""
    if result.__class__ is not np.ndarray or result.dtype != type.dtype.host:
        result = np.asarray(result, type.dtype.host)
    return round_to(result, type.dtype) if type.dtype.is_half else result
