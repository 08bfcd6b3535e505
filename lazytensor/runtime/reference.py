"""Reference interpreter: evaluate a graph node by node in NumPy, and round half types after each operation.

Tests compare the compiler with it. It also runs graphs that appear only once, for which compiling would cost more than
it saves. Results may share memory with the given arrays: copy a result to keep it beyond a change of these.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

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
    report_refusal,
)
from lazytensor.ir.graph import Node, leaf, topological
from lazytensor.ir.graph_function import CALL_OP, RESULT_OP
from lazytensor.ir.types import Type
from lazytensor.ops.op import OPS

Shared = Callable[[Node, list[np.ndarray]], np.ndarray | None]
"""A function that returns the value of a node from the arrays of its operands, or None if it does not handle
the node.
"""
RESULTS = "results"
"""Key of `Node.memo` under which the arrays of a node with several results are kept."""
MOST_BYTES = 1 << 47
"""The largest address space of a process, in bytes, on current processors."""


def evaluate(
    roots: Iterable[Node],
    env: Mapping[Node, np.ndarray],
    remember: bool = False,
    shared: Shared | None = None,
    order: Sequence[Node] | None = None,
) -> list[np.ndarray]:
    """Return the arrays of `roots`.

    - `env`: arrays of nodes, which are then not computed. Leaves without a value have to be in it.
    - `remember`: if True, store the values of nodes that a gradient may flow through on the nodes, for backward.
    - `shared`: tried first for each node; see `Shared`.
    - `order`: the nodes that the roots need, operands first, if the caller has them already.

    A value that is neither a root nor remembered is dropped after its last use. Raise the LazyError of an operation
    with the line of its node, and TraceError if a leaf of a captured step has no value.
    """
    roots = list(roots)
    values: dict[Node, np.ndarray] = dict(env)
    if order is None:
        order = topological(roots, is_leaf=lambda n: n in env or _is_known(n))
    pending = _uses(order)
    for r in roots:
        # A root counts as read once more, so that it is kept to the end.
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
                # Drop values after their last use, so that peak memory is the largest live set.
                pending[i] -= 1
                if not pending[i]:
                    del values[i]
    return [values[r] for r in roots]


def _is_known(n: Node) -> bool:
    """Return whether a node already has its value or its tuple of results."""
    return n.value is not None or (n.memo is not None and RESULTS in n.memo)


def _remember(n: Node, result: np.ndarray) -> None:
    """Store the value of a node on the node: in `value`, or in `memo[RESULTS]` if it has several results."""
    if not isinstance(n.type, tuple):
        n.value = result
        return
    # Several results have no single array for `value`, and a gradient may need a result that was not read before.
    n.memo = {**(n.memo or {}), RESULTS: result}


def _uses(order: Sequence[Node]) -> dict[Node, int]:
    """Return for each node how often others read it, so that its value can be dropped after its last use. Unread
    ones are missing.
    """
    uses: dict[Node, int] = {}
    for n in order:
        for i in n.inputs:
            uses[i] = uses.get(i, 0) + 1
    return uses


def _evaluate(n: Node, values: Mapping[Node, np.ndarray], shared: Shared | None) -> np.ndarray:
    """Return the value of a node, or a tuple of values, from those of its operands.

    NumPy's errors become a LazyError with the node's line: MemoryMissing if the result does not fit, and NumberTooLarge
    for an extent of more than 64 bits. `shared` is tried first; if it returns None, the operation's NumPy function
    computes.
    """
    if n.op == RESULT_OP:
        return values[n.inputs[0]][n.attrs["index"]]
    if n.op == CALL_OP:
        leaves = [leaf(values[i], i.type) for i in n.inputs]
        return evaluate(n.attrs["function"].inline(leaves, 0), {}, shared=shared)  # type: ignore[return-value]
    try:
        arrays = [values[i] for i in n.inputs]
        result = shared(n, arrays) if shared is not None else None
        if result is None:
            result = OPS[n.op].eval(*arrays, **n.attrs)
    except LazyError as e:
        # An operation that refuses its values raises without a line: add that of the node.
        if e.where is None and n.where is not None and type(e).__init__ is LazyError.__init__:
            raise type(e)(e.what, where=n.where, hint=e.hint) from None
        raise
    # NumPy runs long after the user's call, so its message names neither the function nor the line.
    except (MemoryError, ValueError, OverflowError, TypeError) as e:
        size = sum(t.size * t.dtype.itemsize for t in (n.type if isinstance(n.type, tuple) else (n.type,)))
        if size >> 63 and isinstance(n.type, Type) and max(n.type.shape) >> 63:
            raise NumberTooLarge(
                f"{n.op} returns {n.type}, which has an extent of more than 64 bits",
                where=n.where,
                hint="Reduce the sizes.",
            ) from e
        # NumPy raises ValueError, not MemoryError, for arrays larger than the address space.
        if isinstance(e, MemoryError) or size > MOST_BYTES:
            raise MemoryMissing(f"{n.op} returns {n.type}, which has {size:,} bytes", size, where=n.where) from e
        raise _unfit(n, e) from e
    if isinstance(n.type, tuple):
        return tuple(_typed(m, t) for m, t in zip(result, n.type, strict=True))  # type: ignore[return-value]
    if result is None:
        raise _without_value(n)
    return _typed(result, n.type)


def _without_value(n: Node) -> LazyError:
    """Return the error for reading a node that has no value.

    For a state or a batch it is a TraceError: the tensor belongs to a traced step and was not fetched. A check run
    reports this one as a finding too. For other operations it is a CompileError.
    """
    if n.op not in ("state", "batch"):
        return CompileError(f"{n.op} {dict(n.attrs)} has no value outside of a step", where=n.where)
    name = n.attrs["id"] if n.op == "state" else n.attrs["name"]
    error = TraceError(
        f"a tensor that a traced step computed from {name} is read outside of the step, but was not fetched",
        where=source.where(),
        hint="Pass it to a @cstorch.step_closure in each step, and read it there.",
    )
    report_refusal("state access", error)
    return error


def _unfit(n: Node, error: Exception) -> LazyError:
    """Return the LazyError for an error of NumPy, with types and attributes of the node.

    TypeError becomes ArgumentInvalid, OverflowError NumberTooLarge, and others ShapeError.
    """
    kind = {TypeError: ArgumentInvalid, OverflowError: NumberTooLarge}.get(type(error), ShapeError)
    given = ", ".join([*(str(i.type) for i in n.inputs), *(f"{k}={v!r}" for k, v in n.attrs.items())])
    return kind(
        f"{n.op}({given}) cannot be computed", where=n.where, hint="Check the types and numbers of the arguments."
    )


def _typed(result: np.ndarray, type: Type) -> np.ndarray:
    """Return `result` as an array of the host dtype of `type`, rounded if that is a half type.

    An array of that dtype is not copied unless it is rounded.
    """
    if result.__class__ is not np.ndarray or result.dtype != type.dtype.host:
        result = np.asarray(result, type.dtype.host)
    return round_to(result, type.dtype) if type.dtype.is_half else result
