"""Run a graph one operation after the other, with the same bits as its compiled program.

The graph goes through the passes of its target up to the choice of kernels, which takes about as long as to compute a
small step once. A library kernel runs as it does in the compiled program. An operation that would be part of a loop
nest is computed separately: the arithmetic of a nest does not depend on what is fused into it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from lazytensor import config
from lazytensor.compiler.index_map import MOVEMENT_OPS
from lazytensor.compiler.pipeline import HOST, Compilation, Target
from lazytensor.compiler.scalar_bodies import has_function, is_literal, is_pointwise
from lazytensor.core.dtype import DType, float64, round_to
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import Kernel, Match
from lazytensor.kernels.routines import BY_INDEX, REORDERED, routine_of
from lazytensor.ops.op import OPS
from lazytensor.runtime import blas, schedule, softmax_rows, thread_pool
from lazytensor.runtime.binders import kernel_binder
from lazytensor.runtime.element_functions import element_function
from lazytensor.runtime.ordered_sums import reduced
from lazytensor.system.heap import keep_freed_memory

Value = Any
"""An array, or a tuple of arrays for an operation with several results."""


class _Call(NamedTuple):
    """One operation to run.

    - `function`: computes the value of the operation from those of its operands.
    - `operands`: the value indices of the operands.
    - `result`: the value index of the result.
    - `drops`: the value indices that no later call reads, so that their memory can be freed.
    """

    function: Callable[..., Value]
    operands: tuple[int, ...]
    result: int
    drops: tuple[int, ...]


class Unfused:
    """A graph that is ready to run, operation by operation. Raise LazyError if a pass refuses the graph."""

    def __init__(self, graph: Graph, target: Target = HOST):
        keep_freed_memory()
        compilation = Compilation(graph, target)
        # Most of these graphs run between steps, and would hide the step in the output of LT_DEBUG. The override
        # affects all threads, so it is made only in a run that prints.
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
        setting = config.current().jit, thread_pool.team().threads
        calls = [(n, *_function(n, matches, setting)) for n in nodes if numbers[n] not in known]
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
        """Return the arrays of the graph's roots.

        `batch` are the arrays of `graph.inputs`, and `state` those of `graph.state`, by name; state is only read. A
        result may share memory with another result or with a given array. Raise KeyError for missing state.
        """
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
    """Return the name of the last pass of `target` that produces the given form of the program, "graph" or
    "matches".
    """
    return next(p.name for p in reversed(target.passes) if p.gives == form)


def _constant(n: Node) -> np.ndarray:
    """Return the array of a constant node. A literal number is broadcast to the node's shape without a copy."""
    if n.value is not None:
        return n.value
    return np.broadcast_to(np.asarray(n.attrs["value"], n.type.dtype.host), n.type.shape)


_functions: dict[tuple[Any, ...], Callable[..., Value]] = {}
MAX_FUNCTIONS = 4096
"""The maximum number of cached functions. Graphs that differ in each iteration consist of the same operations."""
_CACHEABLE_TYPES = frozenset((int, float, bool, str, tuple, NoneType, DType, Type))


def _function(
    n: Node, matches: Mapping[Node, tuple[Kernel, Match]], setting: tuple[Any, ...]
) -> tuple[Callable[..., Value], tuple[Node, ...]]:
    """Return the function that computes a node, and the nodes whose values it takes.

    The function does not take attributes; its result is rounded for half types. It is cached by the operation, its
    attributes, the types of operands and results, and `setting`, which is a key of the configuration. A full cache is
    cleared first.
    """
    kernel, match = matches.get(n, (None, None))
    operands = n.inputs if match is None else match.operands
    # Arrays and functions among the attributes must not be kept alive, and the number of a float64 constant is part of
    # the text of a kernel.
    if any(item[2] not in _CACHEABLE_TYPES for item in n.items) or any(
        is_literal(i) and i.type.dtype is float64 for i in operands
    ):
        return _make_function(n, kernel, match), operands
    chosen: Any = None
    if kernel is not None and match is not None:
        chosen = kernel.name, *(item for item in match.attrs.items() if item[0] != "attrs")
    key = n.op, n.items, n.type, chosen, setting, *[i.type for i in operands]
    function = _functions.get(key)
    if function is None:
        if len(_functions) >= MAX_FUNCTIONS:
            _functions.clear()
        function = _functions[key] = _make_function(n, kernel, match)
    return function, operands


def _make_function(n: Node, kernel: Kernel | None, match: Match | None) -> Callable[..., Value]:
    """Return the function that computes a node, by a library kernel if there is a match."""
    if kernel is not None and match is not None:
        return _of_kernel(n, kernel, match)
    if n.op == "result":
        return partial(_part, n.attrs["index"])
    if n.op in MOVEMENT_OPS or n.op == "arange":
        return partial(OPS[n.op].eval, **n.attrs)
    if n.op == "reduce":
        return partial(_rounded, reduced(n.inputs[0].type, **n.attrs), n.type)
    return partial(_rounded, element_function(n), n.type)


def _part(index: int, values: tuple[np.ndarray, ...]) -> np.ndarray:
    return values[index]


def _rounded(function: Callable[..., np.ndarray], type: Type, *arrays: np.ndarray) -> np.ndarray:
    """Call `function` and return its result in the host dtype of `type`, rounded if that is a half type."""
    return round_to(np.asarray(function(*arrays), type.dtype.host), type.dtype)


def _of_kernel(n: Node, kernel: Kernel, match: Match) -> Callable[..., Value]:
    """Return the function that computes a node, or its tuple of results, by its library kernel.

    It takes the arrays of the operands and returns new arrays.
    """
    outs = n.type if isinstance(n.type, tuple) else (n.type,)
    ins = tuple(i.type for i in match.operands)
    rows = softmax_rows.FUNCTIONS.get(kernel.name)
    if rows is not None:
        results: Callable[..., tuple[np.ndarray, ...]] = partial(_rows_rounded, rows, outs)
    else:
        results = _RepeatedKernel(Instr(kernel.name, (), (), match.attrs), outs, ins)
    return results if isinstance(n.type, tuple) else partial(_first, results)


def _first(function: Callable[..., tuple[np.ndarray, ...]], *arrays: np.ndarray) -> np.ndarray:
    return function(*arrays)[0]


class _RepeatedKernel:
    """A library kernel that runs on arrays of its types and returns a tuple of new arrays.

    `instr` is a call of the kernel, and `outs` and `ins` are the types of its results and operands. Binding a kernel
    takes as long as a small product takes to run, so its argument tables are kept, and a later call writes the
    addresses of its arrays into them. A kernel with steps of NumPy is bound in each call.
    """

    def __init__(self, instr: Instr, outs: tuple[Type, ...], ins: tuple[Type, ...]):
        self._outs = [(t.shape, t.dtype.host) for t in outs]
        self._bind = kernel_binder(instr, outs, ins, {}, is_general=True)
        # Argument tables that no thread uses now.
        self._tables: list[tuple[list[Any], list[list[schedule.Word]], list[int]]] = []

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        results = [np.empty(shape, dtype) for shape, dtype in self._outs]
        # The list keeps the arrays alive: steps of machine code hold only addresses.
        operands = [*(np.asarray(a, order="C") for a in arrays), *results]
        addresses = [a.__array_interface__["data"][0] for a in operands]
        try:
            runs, words, before = self._tables.pop()
        except IndexError:
            steps = self._bind(operands)
            runs, words = schedule.chains(steps)[0], _address_words(steps, len(operands))
        else:
            for words_of_operand, address, old in zip(words, addresses, before, strict=True):
                for table, place in words_of_operand if address != old else ():
                    table[place] += address - old
        for run in runs:
            run()
        if words:
            self._tables.append((runs, words, addresses))
        return tuple(results)


def _address_words(steps: Sequence[Any], count: int) -> list[list[schedule.Word]]:
    """Return the words that hold addresses in each of `count` operands; an empty list if a step is not machine code."""
    if not all(isinstance(step, schedule.Parts) for step in steps):
        return []
    words: list[list[schedule.Word]] = [[] for _ in range(count)]
    for step in steps:
        for operand, word in step.addresses():
            words[operand].append(word)
    return words


def _rows_rounded(function: Callable[..., Any], outs: tuple[Type, ...], *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(round_to(r, t.dtype) for r, t in zip(function(*arrays), outs, strict=True))


MIN_ROUTINE_ELEMENTS = 1 << 12
"""The minimum number of elements of an operand for a routine outside of a program; binding it takes about 50 us."""


@lru_cache(256)
def _routine(name: str, attrs: tuple[tuple[str, Any], ...], out: Type, ins: tuple[Type, ...]) -> Any:
    """Return the function that computes an operation by its routine from arrays, or None if it has none."""
    instr = Instr("call", (), (), {"op": name, "attrs": dict(attrs)})
    if routine_of(instr, (out,), ins) is None:
        return None
    return partial(_first, _RepeatedKernel(instr, (out,), ins))


def _by_routine(n: Node, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the value of a node by its routine, or None if it has none or NumPy gives the same bits at once."""
    # A sum of exponentials has other last bits in NumPy too.
    is_exact = n.attrs.get("kind") != "logaddexp" and n.op not in REORDERED
    if is_exact and max(a.size for a in arrays) < MIN_ROUTINE_ELEMENTS:
        return None
    function = _routine(n.op, tuple(n.attrs.items()), n.type, tuple(i.type for i in n.inputs))
    return None if function is None else function(*arrays)


def shared(n: Node, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the value of a float node from the arrays of its operands, with the bits that `Unfused` would give it.

    Return None if NumPy gives the same bits, and for a result of one element, which NumPy computes. Small graphs (see
    `repeated_graphs`) are evaluated with this function. Whether a formula is part of such a graph or of a larger one
    depends on which values are already computed, so both have to give equal bits.
    """
    if isinstance(n.type, tuple) or n.type.dtype.kind != "f" or n.value is not None:
        return None
    if n.op == "reduce":
        return reduced(n.inputs[0].type, **n.attrs)(arrays[0]) if arrays[0].size > 1 else None
    if n.op in BY_INDEX:
        return _by_routine(n, arrays)
    if n.type.size > 1 and is_pointwise(n) and has_function(n.op):
        return element_function(n)(*arrays)
    return None
