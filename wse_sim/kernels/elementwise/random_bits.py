"""Random numbers of a step on the cores, with the same bits as on the host.

The host hashes each element's number by splitmix64 (Steele, Lea, Flood 2014) in 64-bit integers. Cores have 16-bit
integers, so such a number is four limbs, lowest first, which are shifted and combined. A product is computed from
bytes, whose sums are exact in float32. Nothing is sent: each element is hashed where it is needed. Seeds and counters
are added as limbs too.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Instruction, Memory
from wse_sim.kernels.kernel import INDEX, WIDE, Allocator, MeshKernel, Placed
from wse_sim.layout import Rect
from wse_sim.phase import Local, Seq

LIMBS, LIMB_BITS, BYTES = 4, 16, 8
WORD = 1 << LIMBS * LIMB_BITS
# As on the host: the increment of the counter and the multipliers of D. Stafford's mixing function, variant 13, with
# shifts.
GOLDEN, MIX1, MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SHIFTS = 30, 27, 31
LONGEST = 64
"""Maximum number of elements that are hashed at a time, which limits the memory for sums of bytes."""
DIGITS = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Random bits of a uniform number: those of the mantissa with its leading one."""


def random_uniform(rect: Rect, rows: int, columns: int, call: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that draws y [rows, columns], uniform in [0, 1), for call number `call` of a step.

    The operand `state`, [4, 2], is the limbs of a seed and a counter, as from `state_limbs`, on every PE. An element
    depends on these, on `call` and on its number in y, not on the rectangle. It has `DIGITS` random bits.
    """
    drawing = _Drawing(rect, rows, columns, dtype)
    # The instructions of a PE are long and depend only on the number of its elements: they are built once for equal
    # tiles.
    key, body, words = _bodies(drawing.y.elements, call, dtype)
    phase = Seq((Local(rect, key), Local(rect, body)))
    return MeshKernel(phase, (drawing.low, drawing.high, drawing.state), (drawing.y,), words)


class _Drawing:
    """The drawn tile `y`, the numbers of its elements as two limbs (`low`, `high`), and the `state`."""

    def __init__(self, rect: Rect, rows: int, columns: int, dtype: str):
        self.room = room = Allocator()
        self.y = room.place("y", rect, rows, columns, dtype)
        self.low = room.place("low", rect, rows, columns, INDEX, counts=1)
        self.high = room.place("high", rect, rows, columns, INDEX, counts=1 << LIMB_BITS)
        self.state = room.whole("state", rect, LIMBS, 2, INDEX)


@lru_cache(64)
def _bodies(elements: int, call: int, dtype: str) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], int]:
    """Return the instructions of a PE that draws `elements` elements, cached.

    The result is (instructions for the key of the call, instructions for the elements, words of memory).
    """
    on = _Drawing(Rect(0, 0, 1, 1), 1, elements, dtype)
    base = Numbers(on.room, 1)
    key = draw_key(on.y.rect, on.room, on.state, call, base)
    chunk = min(LONGEST, elements)
    numbers, build = Numbers(on.room, chunk), on.room.builder()
    full, rest = divmod(elements, chunk)
    with build.loop(full):
        draw_numbers(build, numbers, base, (on.y, on.low, on.high), chunk, steps=(chunk,))
    if rest:
        draw_numbers(build, numbers, base, (on.y, on.low, on.high), rest, start=full * chunk)
    return key.body, build.body(), on.room.words


def add_counters(rect: Rect, count: int) -> MeshKernel:
    """Return a kernel that computes c = a + b, modulo 2 ** 64, of `count` integers each, as limbs [count, 4]."""
    room = Allocator()
    a, b, c = (room.place(name, rect, count, 1, INDEX, depth=LIMBS) for name in "abc")
    rows = a.tile_rows * a.tile_columns
    total, carried, other = (room.vector(rows) for _ in range(3))
    build = room.builder()
    build.move(carried, 0.0, rows)
    for limb in range(LIMBS):
        first, second, target = (p.vector(LIMBS, start=limb) for p in (a, b, c))
        build.convert(total, first, rows)
        build.add(total, total, carried, rows)
        build.convert(other, second, rows)
        build.add(total, total, other, rows)
        build.greater(carried, total, 65535.0, rows)
        build.fmac(total, carried, -65536.0, total, rows)
        build.convert(target, total, rows)
    return MeshKernel(Local(rect, build.body()), (a, b), (c,), room.words)


def limbs_of(numbers: np.ndarray) -> np.ndarray:
    """Return int64 numbers as limbs [count, 4], the lowest first."""
    return np.ascontiguousarray(numbers, "<i8").view("<u2").reshape(-1, LIMBS)


def of_limbs(limbs: np.ndarray) -> np.ndarray:
    """Return the int64 numbers of limbs [count, 4]."""
    return np.ascontiguousarray(limbs.astype("<u2")).view("<i8").reshape(-1).astype(np.int64)


def state_limbs(state: np.ndarray) -> np.ndarray:
    """Return the limbs [4, 2] of two 64-bit integers."""
    return limbs_of(state).T


class Numbers:
    """`count` 64-bit integers on a PE: their limbs, and the bytes and sums with which products are computed."""

    def __init__(self, room: Allocator, count: int):
        self.count = count
        self.limbs = [self._room(room, INDEX) for _ in range(LIMBS)]
        self.bytes = [self._room(room, WIDE) for _ in range(BYTES)]
        # Sums of a column of bytes, the carry to the next column, and the lower byte of a limb.
        self.total, self.carried, self.lower = (self._room(room, WIDE) for _ in range(3))
        self.spare = self._room(room, INDEX)

    def _room(self, room: Allocator, dtype: str) -> Memory:
        return room.vector(self.count, dtype)

    def shifted(self, build: Builder, shift: int, length: int) -> None:
        """Append x ^= x >> shift for the first `length` integers x, in place; `shift` is at least 16, the bits of a
        limb.
        """
        whole, part = divmod(shift, LIMB_BITS)
        # From the lowest limb: a limb reads higher ones, which have not changed yet.
        for limb in range(LIMBS - whole):
            target = self.limbs[limb]
            build.bits("shift_right", self.spare, self.limbs[limb + whole], part, length)
            build.bits("bit_xor", target, target, self.spare, length)
            if limb + whole + 1 < LIMBS:
                build.bits("shift_left", self.spare, self.limbs[limb + whole + 1], LIMB_BITS - part, length)
                build.bits("bit_xor", target, target, self.spare, length)

    def split(self, build: Builder, length: int, limbs: int = LIMBS) -> None:
        """Append the conversion of the first `limbs` limbs to float32 numbers in `self.bytes`, lowest byte first."""
        for limb in range(limbs):
            build.bits("bit_and", self.spare, self.limbs[limb], 255, length)
            build.convert(self.bytes[2 * limb], self.spare, length)
            build.bits("shift_right", self.spare, self.limbs[limb], 8, length)
            build.convert(self.bytes[2 * limb + 1], self.spare, length)

    def multiplied(
        self, build: Builder, factor: int, length: int, more: Sequence[Memory] = (), plus: int = 0, limbs: int = LIMBS
    ) -> None:
        """Append x = x factor + more + plus, modulo 2 ** 64, for the first `length` integers x.

        `more` is a number as eight vectors of bytes, or empty. Only the first `limbs` limbs of x may be nonzero.
        Overwrites `self.bytes`, which have the bytes of the old x afterwards.
        """
        self.split(build, length, limbs)
        build.move(self.carried, 0.0, length)
        factors, constants = factor.to_bytes(BYTES, "little"), (plus % WORD).to_bytes(BYTES, "little")
        for column in range(BYTES):
            # At most eight products of bytes and a carry: below 2 ** 20, where float32 has all integers.
            build.add(self.total, self.carried, float(constants[column]), length)
            if more:
                build.add(self.total, self.total, more[column], length)
            for k in range(min(column + 1, 2 * limbs)):
                build.fmac(self.total, self.bytes[k], float(factors[column - k]), self.total, length)
            build.mul(self.carried, self.total, 2.0**-8, length)
            # A conversion drops the fraction, which is the byte of this column.
            build.convert(self.spare, self.carried, length)
            build.convert(self.carried, self.spare, length)
            build.fmac(self.total, self.carried, -256.0, self.total, length)
            if column % 2:
                build.fmac(self.lower, self.total, 256.0, self.lower, length)
                build.convert(self.limbs[column // 2], self.lower, length)
            else:
                build.convert(self.lower, self.total, length)

    def mixed(self, build: Builder, length: int) -> None:
        """Append the mixing function of splitmix64, in place, for the first `length` numbers.

        Afterwards every bit of a number depends on all of its earlier bits.
        """
        for shift, factor in zip(SHIFTS, (MIX1, MIX2, 0), strict=True):
            self.shifted(build, shift, length)
            if factor:
                self.multiplied(build, factor, length)


def draw_key(rect: Rect, room: Allocator, state: Placed, call: int, base: Numbers) -> Local:
    """Return a phase in which every PE of `rect` computes the key of draw number `call` from the seed and the counter.

    The key is the same for all elements of the draw. It is stored as bytes in `base`. Scratch memory is allocated from
    `room`.
    """
    seed, counter, build = Numbers(room, 1), Numbers(room, 1), room.builder()
    for column, number in enumerate((seed, counter)):
        for limb in range(LIMBS):
            build.move(number.limbs[limb], state.vector(start=2 * limb + column), 1)
        number.multiplied(build, GOLDEN, 1, plus=column + 1)
        number.mixed(build, 1)
    seed.split(build, 1)
    counter.multiplied(build, MIX1, 1, more=seed.bytes, plus=call * MIX2)
    for limb in range(LIMBS):
        build.move(base.limbs[limb], counter.limbs[limb], 1)
    base.mixed(build, 1)
    base.split(build, 1)
    return Local(rect, build.body())


def draw_numbers(
    build: Builder,
    numbers: Numbers,
    base: Numbers,
    placed: tuple[Placed, Placed, Placed],
    length: int,
    start: int = 0,
    steps: tuple[int, ...] = (),
) -> None:
    """Append the draw of `length` elements: hash their numbers with the key, and convert the highest bits to [0, 1).

    `numbers` is scratch memory, and `base` has the key as bytes; see `draw_key`. `placed` is (result, low limbs, high
    limbs of the elements' numbers), of which the elements from `start` on, moved by `steps` of loops, are drawn.
    """
    y, low, high = placed
    for limb, part in enumerate((low, high)):
        build.move(numbers.limbs[limb], part.vector(steps=steps, start=start), length)
    begin = [Memory(byte.base, stride=0) for byte in base.bytes]
    # Elements count from 1, which is one more increment of the counter.
    numbers.multiplied(build, GOLDEN, length, more=begin, plus=GOLDEN, limbs=2)
    numbers.mixed(build, length)
    digits, top = DIGITS[y.dtype], numbers.limbs[-1]
    value, spare = numbers.total, numbers.spare
    if digits > LIMB_BITS:
        build.bits("shift_right", spare, numbers.limbs[-2], 2 * LIMB_BITS - digits, length)
        build.convert(value, spare, length)
        build.convert(numbers.lower, top, length)
        build.fmac(value, numbers.lower, 2.0 ** (digits - LIMB_BITS), value, length)
    else:
        build.bits("shift_right", spare, top, LIMB_BITS - digits, length)
        build.convert(value, spare, length)
    build.mul(y.vector(steps=steps, start=start), value, 2.0**-digits, length)
