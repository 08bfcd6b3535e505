"""What a core's instructions do to memory, with NumPy, for all PEs at once: the data reading of `Local`.

An operation takes its elements one after another: where its destination is also read at other places, as in a sum that
a stride of 0 accumulates, each element sees what those before it have written. Sources are rounded to the type of the
destination first, and every result is rounded to it; `fmac` rounds its product too. Functions such as exp are taken in
float64 and rounded once, so they are right to half a unit in the last place but for one value in many millions.
"""

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.isa.core_program import ITEM_BYTES, Instruction, LoopEnd, LoopStart, Memory, Operand, Vector
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.packing import as_words, decode, rounded, view
from wse_sim.isa.rounding import to_bits

Values = np.ndarray
"""float32 [PEs or 1, elements]."""


def run_local(body: tuple[Instruction, ...], memory: np.ndarray) -> np.ndarray:
    """The memories [..., words] after every PE has run `body`; `memory` stays as it is.

    Raises LazyError for an instruction that is not a vector operation on memory or a loop, or that leaves the memory.
    """
    words = as_words(memory)
    flat = words.reshape(-1, words.shape[-1])
    with np.errstate(all="ignore"):
        _walk(body, flat, ())
    return words.view(memory.dtype)


def _walk(body: tuple[Instruction, ...], words: np.ndarray, rounds: tuple[int, ...]) -> None:
    """Run a body inside loops of which `rounds` are done, outermost first."""
    i = 0
    while i < len(body):
        instruction = body[i]
        if isinstance(instruction, LoopStart):
            close = _closing(body, i)
            for done in range(instruction.times):
                _walk(body[i + 1 : close], words, (*rounds, done))
            i = close
        elif isinstance(instruction, Vector):
            _vector(instruction, words, rounds)
        else:
            raise LazyError(f"`{instruction}` in the body of a Local", hint="Use vector operations and loops.")
        i += 1


def _closing(body: tuple[Instruction, ...], start: int) -> int:
    depth = 0
    for i in range(start, len(body)):
        depth += isinstance(body[i], LoopStart) - isinstance(body[i], LoopEnd)
        if not depth:
            return i
    raise LazyError(f"`{body[start]}` has no end", hint="Close the loop.")


def _vector(vector: Vector, words: np.ndarray, rounds: tuple[int, ...]) -> None:
    """One operation: at once where no element depends on another, else one by one."""
    operands = [_addresses(o, vector, words, rounds) for o in vector.operands]
    target = vector.operands[0]
    assert isinstance(target, Memory)
    # A core takes elements one after another. NumPy reads all before it writes any, which is the same only if no
    # element reads what an earlier one has written.
    if _is_independent(vector.operands, operands):
        _compute(vector, target.dtype, operands, words, slice(None))
        return
    for element in range(vector.length):
        _compute(vector, target.dtype, operands, words, slice(element, element + 1))


Addresses = np.ndarray | None
"""Of elements, [PEs or 1, elements]; None for a constant."""


def _addresses(operand: Operand, vector: Vector, words: np.ndarray, rounds: tuple[int, ...]) -> Addresses:
    if isinstance(operand, float | int):
        return None
    if not isinstance(operand, Memory):
        raise LazyError(f"`{vector}` in the body of a Local", hint="Use operands in memory; a move is a phase.")
    offsets = operand.base + sum(step * done for step, done in zip(operand.steps, rounds, strict=False))
    # The outer product of ranges, outermost first, as the engine's mixed radix counts them.
    grid = np.zeros((), np.int64)
    inner = vector.length
    for extent, stride in operand.outer:
        grid = np.add.outer(grid, np.arange(extent) * stride)
        inner //= extent
    addresses = offsets + np.add.outer(grid, np.arange(inner) * operand.stride).reshape(1, -1)
    if operand.index is not None:
        # Every PE has its own index, so addresses get an axis of PEs here.
        chosen = view(words, "uint16")[:, operand.index].astype(np.int64)
        addresses = addresses + chosen[:, None] * operand.index_step
    _check_bounds(addresses, vector, operand, words)
    return addresses


def _check_bounds(addresses: np.ndarray, vector: Vector, operand: Memory, words: np.ndarray) -> None:
    limit = view(words, operand.dtype).shape[-1]
    wrong = (addresses < 0) | (addresses >= limit)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise LazyError(
            f"`{vector}` reaches element {addresses[row, column]} of {limit} on PE {row}",
            hint="Stay inside the memory; an index counts too.",
        )


def _is_independent(operands: tuple[Operand, ...], addresses: list[Addresses]) -> bool:
    """True if all elements may be taken at once: none is written twice, or written and then read by another."""
    target, written = operands[0], addresses[0]
    assert isinstance(target, Memory) and written is not None
    # A destination that stands still or crosses itself: a sum, in which each element needs the one before.
    if len(np.unique(written[0])) < written.shape[1]:
        return False
    size = ITEM_BYTES[target.dtype]
    first, last = written.min() * size, (written.max() + 1) * size
    for operand, read in zip(operands[1:], addresses[1:], strict=True):
        if read is None or not isinstance(operand, Memory):
            continue
        # In place, element for element: each is read just before it is written.
        if operand.dtype == target.dtype and np.array_equal(read, written):
            continue
        width = ITEM_BYTES[operand.dtype]
        # Ranges of bytes that touch: an overlap is not certain, but taking elements one by one is always right.
        if read.min() * width < last and (read.max() + 1) * width > first:
            return False
    return True


def _compute(vector: Vector, dtype: str, addresses: list[Addresses], words: np.ndarray, which: slice) -> None:
    """The elements `which` of an operation."""
    raw = [_read(o, a, dtype, words, which) for o, a in zip(vector.operands[1:], addresses[1:], strict=True)]
    pes = np.arange(len(words))[:, None]
    assert addresses[0] is not None
    if vector.op == "move":
        result = raw[0]
    else:
        types = [o.dtype if isinstance(o, Memory) else dtype for o in vector.operands[1:]]
        result = to_bits(_result(vector.op, dtype, [decode(r, t) for r, t in zip(raw, types, strict=True)]), dtype)
    view(words, dtype)[pes, addresses[0][:, which]] = result


def _read(operand: Operand, place: Addresses, dtype: str, words: np.ndarray, which: slice) -> np.ndarray:
    """Raw elements of a source; a constant has the type of the destination."""
    if place is None or not isinstance(operand, Memory):
        return to_bits(np.full((1, 1), operand, np.float32), dtype)
    return view(words, operand.dtype)[np.arange(len(words))[:, None], place[:, which]]


def _result(op: str, dtype: str, sources: list[Values]) -> Values:
    """The value of an operation, before its last rounding."""
    sources = [rounded(s, dtype) for s in sources]
    if op == "fmac":
        product: Values = rounded(sources[0] * sources[1], dtype)
        result: Values = product + sources[2]
        return result
    value = OPERATIONS[op].value
    assert value is not None, "a move carries bits"
    return value(*sources)
