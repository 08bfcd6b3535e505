"""Unfused programs: a graph that runs one operation after the other, with the bits of its compiled program.

The graph goes through the passes of its target up to the choice of kernels, which takes about as long as to compute a
small step once. A kernel runs as it does in the compiled program. What would be part of a loop nest is computed by
itself: the arithmetic of a nest does not depend on what is fused into it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lazytensor import config
from lazytensor.compiler.index_map import MOVEMENT_OPS
from lazytensor.compiler.pipeline import HOST, Compilation, Target
from lazytensor.compiler.scalar_bodies import has_function, is_literal
from lazytensor.core.dtype import round_to
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import Kernel, Match
from lazytensor.ops.op import OPS
from lazytensor.runtime import blas, schedule, softmax_rows
from lazytensor.runtime.binders import kernel_binder
from lazytensor.runtime.element_functions import element_function
from lazytensor.runtime.ordered_sums import reduced

Value = Any
"""An array, or a tuple of them for an operation with several results."""


@dataclass(frozen=True)
class _Call:
    """One operation: its function, the numbers of its operands and of its result, the values to drop behind it."""

    function: Callable[..., Value]
    operands: tuple[int, ...]
    result: int
    drops: tuple[int, ...]


class Unfused:
    """A graph, ready to run. Raises LazyError if a pass refuses the graph."""

    def __init__(self, graph: Graph, target: Target = HOST):
        compilation = Compilation(graph, target)
        # Most of these graphs are work between steps, and would hide the step in what LT_DEBUG prints.
        # The switches are those of all threads, and are left alone in a run that prints nothing.
        with config.override(debug=0) if config.current().debug else nullcontext():
            lowered: Graph = compilation[_last(target, "graph")]
            matches = compilation[_last(target, "matches")]
        nodes = lowered.nodes()
        numbers = {n: k for k, n in enumerate(nodes)}
        self._batch = [numbers.get(n) for n in graph.inputs]
        self._states = {name: numbers[n] for name, n in graph.state.items() if n in numbers}
        self._constants = [(numbers[n], _constant(n)) for n in nodes if n.value is not None or is_literal(n)]
        self._roots = [numbers[r] for r in lowered.roots()]
        known = {k for k, _ in self._constants} | set(self._batch) | set(self._states.values())
        calls = [(n, *_function(n, matches)) for n in nodes if numbers[n] not in known]
        last = {numbers[i]: k for k, (_, _, operands) in enumerate(calls) for i in operands}
        kept = {*self._roots, *known}
        self._calls = [
            _Call(
                function,
                tuple(numbers[i] for i in operands),
                numbers[n],
                tuple({numbers[i] for i in operands if last[numbers[i]] == k} - kept),
            )
            for k, (n, function, operands) in enumerate(calls)
        ]
        self._size = len(nodes)

    def run(self, batch: Sequence[np.ndarray], state: Mapping[str, np.ndarray] = {}) -> list[np.ndarray]:
        """The arrays of the roots. Some may share memory with each other or with the arrays given."""
        values: list[Value] = [None] * self._size
        for number, array in self._constants:
            values[number] = array
        for place, array in zip(self._batch, batch, strict=True):
            if place is not None:
                values[place] = array
        for name, place in self._states.items():
            values[place] = state[name]
        with blas.one_thread(), np.errstate(all="ignore"):
            for call in self._calls:
                values[call.result] = call.function(*[values[k] for k in call.operands])
                for k in call.drops:
                    values[k] = None
        return [values[r] for r in self._roots]


def _last(target: Target, form: str) -> str:
    """The name of the last pass that gives a form."""
    return next(p.name for p in reversed(target.passes) if p.gives == form)


def _constant(n: Node) -> np.ndarray:
    if n.value is not None:
        return n.value
    return np.broadcast_to(np.asarray(n.attrs["value"], n.type.dtype.host), n.type.shape)


def _function(n: Node, matches: Mapping[Node, tuple[Kernel, Match]]) -> tuple[Callable[..., Value], tuple[Node, ...]]:
    """How a node is computed, and from which others."""
    if n in matches:
        kernel, match = matches[n]
        return _of_kernel(n, kernel, match), match.operands
    if n.op == "result":
        return partial(_part, n.attrs["index"]), n.inputs
    if n.op in MOVEMENT_OPS or n.op == "arange":
        return partial(OPS[n.op].eval, **n.attrs), n.inputs
    if n.op == "reduce":
        return partial(_rounded, reduced(n.inputs[0].type, **n.attrs), n.type), n.inputs
    return partial(_rounded, element_function(n), n.type), n.inputs


def _part(index: int, values: tuple[np.ndarray, ...]) -> np.ndarray:
    return values[index]


def _rounded(function: Callable[..., np.ndarray], type: Type, *arrays: np.ndarray) -> np.ndarray:
    """A result as an array of the host's type for `type`, rounded."""
    return round_to(np.asarray(function(*arrays), type.dtype.host), type.dtype)


def _of_kernel(n: Node, kernel: Kernel, match: Match) -> Callable[..., Value]:
    outs = n.type if isinstance(n.type, tuple) else (n.type,)
    ins = tuple(i.type for i in match.operands)
    rows = softmax_rows.FUNCTIONS.get(kernel.name)
    if rows is not None:
        results: Callable[..., tuple[np.ndarray, ...]] = partial(_rows_rounded, rows, outs)
    else:
        instr = Instr(kernel=kernel.name, reads=(), writes=(), attrs=match.attrs, where=n.where)
        results = partial(_run, kernel_binder(instr, outs, ins, {}, is_general=True), outs)
    return results if isinstance(n.type, tuple) else partial(_first, results)


def _first(function: Callable[..., tuple[np.ndarray, ...]], *arrays: np.ndarray) -> np.ndarray:
    return function(*arrays)[0]


def _run(
    bind: Callable[[list[np.ndarray]], list[Any]], outs: tuple[Type, ...], *arrays: np.ndarray
) -> tuple[np.ndarray, ...]:
    results = [np.empty(t.shape, t.dtype.host) for t in outs]
    # Named, since steps of machine code have addresses and do not hold the arrays.
    operands = [np.asarray(a, order="C") for a in arrays]
    steps, _ = schedule.chains(bind([*operands, *results]))
    for step in steps:
        step()
    return tuple(results)


def _rows_rounded(function: Callable[..., Any], outs: tuple[Type, ...], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(round_to(r, t.dtype) for r, t in zip(function(*arrays), outs, strict=True))


def shared(n: Node, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the value of a float node from the array of each operand, with the bits that `Unfused` would give it.

    Return None for operations that NumPy rounds in the same way, and for results of one element, which NumPy computes.
    A graph of fewer than 8 operations is evaluated with this function. Whether a formula is in such a graph or in a
    larger one depends on values that are known from before, so that both have to give equal bits.
    """
    if isinstance(n.type, tuple) or n.type.dtype.kind != "f" or n.value is not None:
        return None
    if n.op == "reduce":
        return reduced(n.inputs[0].type, **n.attrs)(arrays[0]) if arrays[0].size > 1 else None
    if n.type.size > 1 and OPS[n.op].body is not None and has_function(n.op):
        return element_function(n)(*arrays)
    return None
