"""The 32-bit Mersenne twister MT19937 (Matsumoto and Nishimura 1998), and the numbers that PyTorch makes of its words.

Each kernel draws `n` numbers into `out`, starting at the word `position` of the state `key` [624], which it advances.
The caller computes the new position. A number of two words takes the first one as its upper half.
"""

import math
from typing import Any

import numpy as np

from lazytensor.runtime.language import inline, typed

SIZE, DISTANCE = 624, 397
LOW_24, LOW_53 = (1 << 24) - 1, (1 << 53) - 1
FLOAT_SCALE, DOUBLE_SCALE = np.float32(2.0**-24), 2.0**-53


@inline
def _twisted(first: Any, second: Any) -> Any:
    """Return the top bit of `first` with the other bits of `second`, times the matrix of the recurrence."""
    y = (first & 0x80000000) | (second & 0x7FFFFFFF)
    return (y >> 1) ^ (-(y & 1) & 0x9908B0DF)


@inline
def _renew(key: Any) -> None:
    """Replace the words of the state by the next ones."""
    # Two loops, so that LLVM vectorises both: the second one reads words that the first one wrote.
    for k in range(SIZE - DISTANCE):
        key[k] = np.uint32(key[k + DISTANCE] ^ _twisted(key[k], key[k + 1]))
    for k in range(SIZE - DISTANCE, SIZE - 1):
        key[k] = np.uint32(key[k + DISTANCE - SIZE] ^ _twisted(key[k], key[k + 1]))
    key[SIZE - 1] = np.uint32(key[DISTANCE - 1] ^ _twisted(key[SIZE - 1], key[0]))


@inline
def _tempered(word: Any) -> Any:
    """Return the random word of a word of the state."""
    a = word ^ (word >> 11)
    b = a ^ ((a << 7) & 0x9D2C5680)
    c = b ^ ((b << 15) & 0xEFC60000)
    return c ^ (c >> 18)


@inline
def _pair(key: Any, place: int) -> Any:
    """Return the random number of 64 bits at words `place` and `place` + 1 of the state."""
    return (_tempered(key[place]) << 32) | _tempered(key[place + 1])


@inline
def _straddling(key: Any) -> Any:
    """Return the random number of 64 bits of the last word of the state and the first word of the next one."""
    upper = _tempered(key[SIZE - 1]) << 32
    _renew(key)
    return upper | _tempered(key[0])


@inline
def _remainder(word: Any, span: int, inverse: float) -> Any:
    """Return `word` % `span` for numbers below 2 ** 32, without a division: the rounded quotient is one off at most."""
    rest = word - np.int64(word * inverse) * span
    rest = rest + span if rest < 0 else rest
    return rest - span if rest >= span else rest


@typed("void(int64, int64, uint32[::1], float64[::1], float32[::1])")
def floats(n: int, position: int, key: Any, scaling: Any, out: Any) -> None:
    """Draw float32 numbers in [0, 1) of one word each, times scaling[0] plus scaling[1], rounded once."""
    factor, offset = scaling[0], scaling[1]
    done = 0
    while done < n:
        if position == SIZE:
            _renew(key)
            position = 0
        count = min(n - done, SIZE - position)
        for k in range(count):
            unit = np.float32(np.int32(_tempered(key[position + k]) & LOW_24)) * FLOAT_SCALE
            # The product of two float32 numbers is exact in float64.
            out[done + k] = np.float32(unit * factor + offset)
        done += count
        position += count


@typed("void(int64, int64, uint32[::1], float64[::1])")
def doubles(n: int, position: int, key: Any, out: Any) -> None:
    """Draw float64 numbers in [0, 1) of two words each."""
    done = 0
    while done < n:
        if position == SIZE:
            _renew(key)
            position = 0
        count = min(n - done, (SIZE - position) // 2)
        for k in range(count):
            out[done + k] = np.float64(_pair(key, position + 2 * k) & LOW_53) * DOUBLE_SCALE
        done += count
        position += 2 * count
        if done < n and position == SIZE - 1:
            out[done] = np.float64(_straddling(key) & LOW_53) * DOUBLE_SCALE
            done += 1
            position = 1


@typed("void(int64, int64, uint32[::1], int64, bool[::1])")
def trials(n: int, position: int, key: Any, limit: int, out: Any) -> None:
    """Draw the truth of a number of 53 bits, made of two words, being below `limit`."""
    done = 0
    while done < n:
        if position == SIZE:
            _renew(key)
            position = 0
        count = min(n - done, (SIZE - position) // 2)
        for k in range(count):
            out[done + k] = (_pair(key, position + 2 * k) & LOW_53) < limit
        done += count
        position += 2 * count
        if done < n and position == SIZE - 1:
            out[done] = (_straddling(key) & LOW_53) < limit
            done += 1
            position = 1


@typed("void(int64, int64, uint32[::1], int64, int64, int64[::1])")
def integers(n: int, position: int, key: Any, low: int, span: int, out: Any) -> None:
    """Draw integers from `low` to `low` + `span` - 1 of one word each, for `span` < 2 ** 32."""
    inverse = 1.0 / span
    done = 0
    while done < n:
        if position == SIZE:
            _renew(key)
            position = 0
        count = min(n - done, SIZE - position)
        for k in range(count):
            out[done + k] = low + _remainder(_tempered(key[position + k]), span, inverse)
        done += count
        position += count


@typed("void(int64, int64, uint32[::1], int64[::1])")
def permutation(n: int, position: int, key: Any, out: Any) -> None:
    """Permute 0 to `n` - 1: swap each element but the last with one at or after its place, by one word each."""
    for k in range(n):
        out[k] = k
    for k in range(n - 1):
        if position == SIZE:
            _renew(key)
            position = 0
        other = k + _remainder(_tempered(key[position]), n - k, 1.0 / (n - k))
        position += 1
        value = out[k]
        out[k] = out[other]
        out[other] = value


@typed("void(int64, int64, uint32[::1], float64[::1])")
def normals(n: int, position: int, key: Any, out: Any) -> None:
    """Draw pairs of standard normal float64 numbers of four words each, by Box and Muller. `n` is even."""
    doubles(n, position, key, out)
    for k in range(n // 2):
        radius, angle = math.sqrt(-2 * math.log1p(-out[2 * k + 1])), 2 * math.pi * out[2 * k]
        out[2 * k] = radius * math.cos(angle)
        out[2 * k + 1] = radius * math.sin(angle)
