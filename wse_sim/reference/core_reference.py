"""The NumPy reference of a `Local` phase: what a core's instructions do to memory, for all PEs at once.

An operation computes its elements one after another. If its destination is also read at other addresses, as in a sum
with stride 0, each element sees the results of the previous ones. Sources are rounded to the type of the destination
first, and the result is rounded to it; `fmac` rounds its product too. Functions such as exp are computed in float64 and
rounded once, so they are correct to half a unit in the last place except for one value in many millions.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.isa.core_program import ITEM_BYTES, Instruction, LoopEnd, LoopStart, Memory, Operand, Vector
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.packing import as_words, decode_bits, round_values, view_elements
from wse_sim.isa.rounding import to_bits

Float32Array = np.ndarray
"""A float32 array [PEs or 1, elements]."""


def run_local(body: tuple[Instruction, ...], memory: np.ndarray) -> np.ndarray:
    """Return the memories [..., words] after every PE has run `body`, in the type of `memory`, which is not changed.

    Raises LazyError for an instruction that is neither a loop nor a vector operation on memory, and for an access
    outside the memory.
    """
    words = as_words(memory)
    flat = words.reshape(-1, words.shape[-1])
    with np.errstate(all="ignore"):
        _run_body(body, flat, ())
    return words.view(memory.dtype)


def _run_body(body: tuple[Instruction, ...], words: np.ndarray, rounds: tuple[int, ...]) -> None:
    """Run vector operations and loops on `words` in place. Raises LazyError for any other instruction.

    `rounds` are the current rounds of the enclosing loops, outermost first.
    """
    i = 0
    while i < len(body):
        instruction = body[i]
        if isinstance(instruction, LoopStart):
            close = _find_loop_end(body, i)
            for done in range(instruction.times):
                _run_body(body[i + 1 : close], words, (*rounds, done))
            i = close
        elif isinstance(instruction, Vector):
            _run_vector(instruction, words, rounds)
        else:
            what = f"the body of a Local cannot contain `{instruction}`"
            raise LazyError(what, hint="Use only vector operations and loops.")
        i += 1


def _find_loop_end(body: tuple[Instruction, ...], start: int) -> int:
    """Return the index of the end of the loop that starts at index `start`. Raises LazyError if it has none."""
    depth = 0
    for i in range(start, len(body)):
        depth += isinstance(body[i], LoopStart) - isinstance(body[i], LoopEnd)
        if not depth:
            return i
    raise LazyError(f"`{body[start]}` has no end", hint="Add the loop end.")


@dataclass(frozen=True)
class _ElementAddresses:
    """The addresses of an operand's elements on every PE: `start` + `offsets` + `shifts`.

    `shifts` is None, or [PEs, 1] with what an index adds. All count elements of `dtype`.
    """

    start: int
    offsets: "_ElementOffsets"
    dtype: str
    shifts: np.ndarray | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The first byte, and the byte after the last one, over all PEs."""
        low, high = (0, 0) if self.shifts is None else (int(self.shifts.min()), int(self.shifts.max()))
        size = ITEM_BYTES[self.dtype]
        first, last = self.start + self.offsets.low + low, self.start + self.offsets.high + high
        return first * size, (last + 1) * size

    def of(self, words: np.ndarray, elements: slice | None = None) -> tuple[Any, ...]:
        """Return a NumPy index into [PEs, elements of `dtype`] of the elements of all PEs, or of the part `elements` of
        them.

        `words` only gives the number of PEs. The index is a slice if the elements are consecutive and no `shifts` are
        given, else an array.
        """
        offsets = self.offsets
        if self.shifts is None and elements is None and offsets.is_dense:
            # Most operands are a slice, which is read and written without copying addresses.
            return slice(None), slice(self.start, self.start + len(offsets.values))
        addresses = self.start + (offsets.values if elements is None else offsets.values[elements])[None]
        if self.shifts is None:
            return slice(None), addresses[0]
        return np.arange(len(words))[:, None], addresses + self.shifts

    def is_same(self, other: "_ElementAddresses") -> bool:
        """Return True if both are the same elements in the same order on every PE.

        Equal offsets are recognised by identity, since `_element_offsets` caches them.
        """
        if self.dtype != other.dtype or self.start != other.start or self.offsets is not other.offsets:
            return False
        if self.shifts is None or other.shifts is None:
            return self.shifts is other.shifts
        return np.array_equal(self.shifts, other.shifts)


@dataclass(frozen=True, eq=False)
class _ElementOffsets:
    """Offsets of an operand's elements from its first one, in the order of computation.

    - `values`: the offsets
    - `low`, `high`: the smallest and the largest offset
    - `is_dense`: True if they are 0, 1, 2, ...
    - `repeats`: True if an offset occurs twice
    """

    values: np.ndarray
    low: int
    high: int
    is_dense: bool
    repeats: bool
    """True if an offset occurs twice."""


@cache
def _element_offsets(outer: tuple[tuple[int, int], ...], stride: int, length: int) -> _ElementOffsets:
    """Return the offsets of `length` elements from the first one, in the order of computation. Results are cached.

    `outer` has pairs (extent, stride), outermost first; `stride` is that of the innermost dimension.
    """
    # The sum of ranges, outermost first, in the order of the engine's mixed radix.
    grid = np.zeros((), np.int64)
    inner = length
    for extent, step in outer:
        grid = np.add.outer(grid, np.arange(extent) * step)
        inner //= extent
    values = np.add.outer(grid, np.arange(inner) * stride).reshape(-1)
    return _ElementOffsets(
        values=values,
        low=int(values.min()),
        high=int(values.max()),
        is_dense=bool((values == np.arange(length)).all()),
        repeats=len(np.unique(values)) < length,
    )


OperandAddresses = list["_ElementAddresses | None"]
"""The addresses of the destination and of each source; None for a constant."""


def _run_vector(vector: Vector, words: np.ndarray, rounds: tuple[int, ...]) -> None:
    """Run one operation on `words` in place, with the result that computing its elements one after another has.

    Independent elements are computed at once. Raises LazyError for an operand that is a colour or outside the memory.
    """
    places = [_operand_addresses(o, vector, words, rounds) for o in vector.operands]
    target = places[0]
    assert target is not None
    # A core computes elements one after another. NumPy reads all before it writes any, which is equal only if no
    # element reads the result of an earlier one.
    if _is_independent(target, places):
        _compute_elements(vector, target, places, words, None)
    elif _is_running_reduction(vector, target, places):
        _accumulate(vector, target, places, words)
    else:
        for element in range(vector.length):
            _compute_elements(vector, target, places, words, slice(element, element + 1))


def _operand_addresses(
    operand: Operand, vector: Vector, words: np.ndarray, rounds: tuple[int, ...]
) -> _ElementAddresses | None:
    """Return the addresses of an operand's elements, or None for a constant; `rounds` are those of the enclosing loops.

    An index is read from each PE's memory in `words`. Raises LazyError for a colour and for an address outside the
    memory.
    """
    if isinstance(operand, float | int):
        return None
    if not isinstance(operand, Memory):
        what = f"`{vector}` in the body of a Local uses a colour"
        raise LazyError(what, hint="Use operands in memory, and move words between PEs in another phase.")
    start = operand.base + sum(step * done for step, done in zip(operand.steps, rounds, strict=False))
    shifts = None
    if operand.index is not None:
        # The index of each PE is read from its memory.
        chosen = view_elements(words, "uint16")[:, operand.index].astype(np.int64)
        shifts = chosen[:, None] * operand.index_step
    places = _ElementAddresses(
        start, _element_offsets(operand.outer, operand.stride, vector.length), operand.dtype, shifts
    )
    _check_bounds(places, vector, words)
    return places


def _check_bounds(places: _ElementAddresses, vector: Vector, words: np.ndarray) -> None:
    """Raise LazyError, which names the PE by its row in `words`, if an address is outside the memory."""
    limit = view_elements(words, places.dtype).shape[-1]
    size = ITEM_BYTES[places.dtype]
    first, last = places.bounds
    if first >= 0 and last <= limit * size:
        return
    shifts = np.zeros((1, 1), np.int64) if places.shifts is None else places.shifts
    addresses = places.start + places.offsets.values + shifts
    row, column = np.argwhere((addresses < 0) | (addresses >= limit))[0]
    raise LazyError(
        f"`{vector}` reaches element {addresses[row, column]} of {limit} on PE {row}",
        hint="Use addresses inside the memory, including the shift by an index.",
    )


def _is_independent(target: _ElementAddresses, places: OperandAddresses) -> bool:
    """Return True if all elements may be computed at once; False if that is not certain.

    They may if no element is written twice, and none is written and then read by another.
    """
    # In-place operations are allowed: each element is read just before it is written.
    return not target.offsets.repeats and all(
        p is None or p.is_same(target) or _are_disjoint(p, target) for p in places[1:]
    )


def _are_disjoint(a: _ElementAddresses, b: _ElementAddresses) -> bool:
    """Return True if the byte ranges of two operands do not overlap; False if they might."""
    (first, last), (other_first, other_last) = a.bounds, b.bounds
    return last <= other_first or other_last <= first


def _is_running_reduction(vector: Vector, target: _ElementAddresses, places: OperandAddresses) -> bool:
    """Return True for a float32 "add", "max" or "fmac" that accumulates into one fixed element.

    The other sources must not overlap with that element.
    """
    own = {"add": 1, "max": 1, "fmac": 3}.get(vector.op)
    if own is None or target.dtype != "float32" or target.offsets.low != target.offsets.high:
        return False
    running = places[own]
    others = [p for k, p in enumerate(places) if k not in (0, own)]
    return (
        running is not None and running.is_same(target) and all(p is None or _are_disjoint(p, target) for p in others)
    )


def _accumulate(vector: Vector, target: _ElementAddresses, places: OperandAddresses, words: np.ndarray) -> None:
    """Run a sum or maximum over the elements in order, rounding after each, and write only the final value.

    The value is written to the first element of the target on every PE. It starts from the first element of the
    last operand for "fmac", whose terms are products, and of the first operand otherwise.
    """
    raw = [_read_operand(o, p, "float32", words, None) for o, p in zip(vector.operands[1:], places[1:], strict=True)]
    types = [p.dtype if p is not None else "float32" for p in places[1:]]
    values = [decode_bits(r, t) for r, t in zip(raw, types, strict=True)]
    terms = values[0] * values[1] if vector.op == "fmac" else values[1]
    own = values[2 if vector.op == "fmac" else 0]
    shape = len(words), vector.length
    first, rest = (np.broadcast_to(part, shape) for part in (own, terms))
    combine = np.maximum if vector.op == "max" else np.add
    # A NumPy reduction adds pairwise; `accumulate` rounds after each element in order, as a core does.
    running = combine.accumulate(np.concatenate([first[:, :1], rest], 1), 1)
    view_elements(words, "float32")[target.of(words, slice(0, 1))] = to_bits(running[:, -1:], "float32")


def _compute_elements(
    vector: Vector, target: _ElementAddresses, places: OperandAddresses, words: np.ndarray, which: slice | None
) -> None:
    """Compute the elements `which` of an operation at once, or all if it is None, and write them to `words` in place.

    A move copies bits. Other operations round the result to the type of the destination.
    """
    dtype = target.dtype
    raw = [_read_operand(o, p, dtype, words, which) for o, p in zip(vector.operands[1:], places[1:], strict=True)]
    if vector.op == "move":
        result = raw[0]
    else:
        types = [p.dtype if p is not None else dtype for p in places[1:]]
        values = [decode_bits(r, t).astype(np.float32, copy=False) for r, t in zip(raw, types, strict=True)]
        result = to_bits(_operation_result(vector.op, dtype, values), dtype)
    view_elements(words, dtype)[target.of(words, which)] = result


def _read_operand(
    operand: Operand, places: _ElementAddresses | None, dtype: str, words: np.ndarray, which: slice | None
) -> np.ndarray:
    """Return the bits of a source's elements `which`, or of all if it is None: [PEs, elements] in the source's own
    type.

    A constant is [1, 1] in `dtype`, the type of the destination.
    """
    if places is None or not isinstance(operand, Memory):
        return _constant_bits(float(operand), dtype) if isinstance(operand, float | int) else to_bits(0, dtype)
    elements: np.ndarray = view_elements(words, operand.dtype)[places.of(words, which)]
    return elements


def _constant_bits(value: float, dtype: str) -> np.ndarray:
    # Not cached: 0.0 and -0.0 are equal keys with different bits.
    return to_bits(np.full((1, 1), value, np.float32), dtype)


def _operation_result(op: str, dtype: str, sources: list[Float32Array]) -> Float32Array:
    """Return the float32 value of an operation before the final rounding to `dtype`.

    The sources are rounded to `dtype` first, and so is the product of "fmac".
    """
    sources = [round_values(s, dtype) for s in sources]
    if op == "fmac":
        product: Float32Array = round_values(sources[0] * sources[1], dtype)
        result: Float32Array = product + sources[2]
        return result
    value = OPERATIONS[op].value
    assert value is not None, "a move carries bits"
    return value(*sources)
