"""Random bodies of `Local`, and a slow reading of them: one core, one element after another."""

import math
import struct
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from wse_sim.isa.core_program import LoopEnd, LoopStart, Memory, Vector

WORDS = 24
UNARY = ("convert", "exp", "log", "reciprocal", "sqrt", "tanh")
BINARY = ("add", "sub", "mul", "max", "greater")
FLOATS = ("float32", "float16", "bfloat16")
INDEX_AT = 0
"""The number, of 16 bits, that indices read; it is never written."""
FIRST_WORD = 1


@st.composite
def memories(draw, length: int, dtype: str, depth: int, has_index: bool = True) -> Memory:
    """An operand that stays in the memory, whatever the loops around it (three rounds) and the index (0 to 2) add."""
    size = 1 if dtype == "float32" else 2
    low, high = FIRST_WORD * size + 1, WORDS * size - 2
    extents = [2] if length % 2 == 0 and draw(st.booleans()) else []
    inner = length // 2 if extents else length
    outer = tuple((n, draw(st.integers(-2, 3))) for n in extents)
    stride, steps = draw(st.integers(-1, 2)), tuple(draw(st.integers(-1, 1)) for _ in range(depth))
    index_step = draw(st.integers(-1, 2)) if has_index and draw(st.integers(0, 3)) == 0 else 0
    moves = [(inner - 1) * stride, *((n - 1) * s for n, s in outer), *(2 * s for s in steps), 2 * index_step]
    first = low - sum(min(0, m) for m in moves)
    base = draw(st.integers(first, high - sum(max(0, m) for m in moves)))
    return Memory(base, stride, dtype, steps, outer, INDEX_AT if index_step else None, index_step or 1)


@st.composite
def vectors(draw, depth: int) -> Vector:
    op = draw(st.sampled_from(("move", "fmac", "fmac", *UNARY, *BINARY, *BINARY)))
    length = draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(FLOATS))
    sources = {"move": 1, "fmac": 3}.get(op, 1 if op in UNARY else 2)
    types = st.just(dtype) if op == "move" else st.sampled_from(FLOATS)
    numbers = st.sampled_from([0.0, -1.5, 0.1, 3.0])
    target = draw(memories(length, dtype, depth))
    near = st.sampled_from([target, replace(target, base=target.base - 1), replace(target, base=target.base + 1)])
    operand = st.one_of(near, near, types.flatmap(lambda t: memories(length, t, depth)), numbers)
    return Vector(op, (target, *(draw(operand) for _ in range(sources))), length)


@st.composite
def bodies(draw) -> tuple:
    """Vector operations in up to two loops."""
    depth = draw(st.integers(0, 2))
    inner = draw(st.lists(vectors(depth), min_size=1, max_size=3))
    after = draw(st.lists(vectors(0), max_size=2))
    loops = [LoopStart(draw(st.integers(1, 3))) for _ in range(depth)]
    return (*loops, *inner, *([LoopEnd()] * depth), *after)


class SlowCore:
    """One core's memory as bytes. `has_nan` says whether it ever wrote what is no number."""

    def __init__(self, words: np.ndarray):
        self.bytes = bytearray(np.ascontiguousarray(words).tobytes())
        self.has_nan = False

    def words(self) -> np.ndarray:
        return np.frombuffer(bytes(self.bytes), np.uint32)

    def run(self, body: tuple, rounds: tuple[int, ...] = ()) -> None:
        i = 0
        while i < len(body):
            if isinstance(body[i], LoopStart):
                depth, j = 1, i
                while depth:
                    j += 1
                    depth += isinstance(body[j], LoopStart) - isinstance(body[j], LoopEnd)
                for done in range(body[i].times):
                    self.run(body[i + 1 : j], (*rounds, done))
                i = j
            else:
                self._vector(body[i], rounds)
            i += 1

    def _vector(self, vector: Vector, rounds: tuple[int, ...]) -> None:
        target, *sources = vector.operands
        places = [self._places(o, vector.length, rounds) if isinstance(o, Memory) else None for o in vector.operands]
        for e in range(vector.length):
            values = [
                rounded(self._get(s, p[e]) if p else s, target.dtype) for s, p in zip(sources, places[1:], strict=True)
            ]
            self._put(target, places[0][e], result(vector.op, target.dtype, values))

    def _places(self, operand: Memory, length: int, rounds: tuple[int, ...]) -> list[int]:
        base = operand.base + sum(s * r for s, r in zip(operand.steps, rounds, strict=False))
        if operand.index is not None:
            base += operand.index_step * struct.unpack_from("<H", self.bytes, 2 * operand.index)[0]
        inner = length // math.prod(n for n, _ in operand.outer)
        places = []
        for e in range(length):
            outer, place = e // inner, base + e % inner * operand.stride
            for extent, stride in reversed(operand.outer):
                outer, at = divmod(outer, extent)
                place += at * stride
            places.append(place)
        return places

    def _get(self, operand: Memory, place: int) -> float:
        if operand.dtype == "bfloat16":
            return struct.unpack("<f", b"\0\0" + self.bytes[2 * place : 2 * place + 2])[0]
        return struct.unpack_from("<f" if operand.dtype == "float32" else "<e", self.bytes, _at(operand, place))[0]

    def _put(self, operand: Memory, place: int, value: float) -> None:
        self.has_nan |= math.isnan(value)
        raw = {"float32": np.float32, "float16": np.float16}.get(operand.dtype)
        data = raw(value).tobytes() if raw else np.float32(value).tobytes()[2:]
        self.bytes[_at(operand, place) : _at(operand, place) + len(data)] = data


def _at(operand: Memory, place: int) -> int:
    return place * (4 if operand.dtype == "float32" else 2)


def rounded(value: float, dtype: str) -> float:
    """A number rounded to the nearest of a type, ties to even."""
    value = float(np.float32(value))
    if dtype == "float16":
        return float(np.float16(np.float32(value)))
    if dtype == "float32" or not math.isfinite(value):
        return value
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    below = bits & 0xFFFF0000
    up = bits & 0xFFFF > 0x8000 or (bits & 0xFFFF == 0x8000 and bits & 0x10000)
    return struct.unpack("<f", struct.pack("<I", (below + 0x10000 * bool(up)) & 0xFFFFFFFF))[0]


def result(op: str, dtype: str, v: list[float]) -> float:
    """One element of an operation, in the type of its destination."""
    a = np.float64(v[0])
    functions = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "reciprocal": np.reciprocal}
    if op in ("move", "convert"):
        return v[0]
    if op in functions:
        return rounded(np.float32(functions[op](a)), dtype)
    if op == "fmac":
        return rounded(np.float32(rounded(np.float32(a * v[1]), dtype)) + np.float32(v[2]), dtype)
    b = np.float64(v[1])
    both = {"add": a + b, "sub": a - b, "mul": a * b, "max": np.maximum(a, b), "greater": float(a > b)}
    return rounded(np.float32(both[op]), dtype)
