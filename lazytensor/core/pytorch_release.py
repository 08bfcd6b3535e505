"""Select the PyTorch release whose random numbers are reproduced, and draw the numbers that differ in release 2.4.

In 2.4, Bernoulli numbers with one probability and exponential numbers come from the generator MCG31 (L'Ecuyer 1999) of
the vendor library, seeded by one word of the Mersenne Twister; normal numbers of half types are computed in that type.
The algorithms were derived from PyTorch's output.
"""

import math
from collections.abc import Callable

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType, round_to
from lazytensor.errors import OptionInvalid

RELEASES = ("2.4", "2.13")
LATEST = "2.13"
current_release = LATEST
MIN_TWO_WORD_SPAN = {"2.4": 1 << 32, "2.13": 1 << 28}
"""By release, the size of an integer range from which on each random integer takes two words of the twister."""
_MODULUS, _MULTIPLIER = 2**31 - 1, 1132489760
BOX_MULLER_PIECE = 1 << 14
"""The count of normal numbers that are computed at a time, a multiple of 16."""
WordSource = Callable[[int], np.ndarray]
"""A function that returns the next n words of the Mersenne Twister."""


def follow_release(release: str) -> None:
    """Set the PyTorch release whose random numbers are drawn. Raises ValueError if it is not in `RELEASES`."""
    global current_release
    if release not in RELEASES:
        raise OptionInvalid(
            f"the random numbers of PyTorch {release!r} are not available: choose one of {', '.join(RELEASES)}",
            hint="Set LT_PYTORCH to one of these releases.",
        )
    current_release = release


def vendor_uniform(words: WordSource, n: int, skip: int = 0) -> np.ndarray:
    """Return n uniform float64 numbers in (0, 1) from MCG31.

    The generator is seeded by the twister's next word after skipping `skip` words. For n = 0 no word is taken.
    """
    if not n:
        return np.zeros(0)
    seed = int(words(skip + 1)[-1]) % _MODULUS or 1
    return _stream(seed, n) / _MODULUS


def _stream(seed: int, n: int) -> np.ndarray:
    """Return the n >= 1 numbers seed * a^0, seed * a^1, ... modulo 2^31 - 1, for a = 1132489760, as int64.

    The part of the array that is already filled is doubled in each round; products stay below 2^62.
    """
    numbers = np.empty(n, np.int64)
    numbers[0], known, factor = seed, 1, _MULTIPLIER
    while known < n:
        block = min(known, n - known)
        numbers[known : known + block] = numbers[:block] * factor % _MODULUS
        known, factor = known + block, factor * factor % _MODULUS
    return numbers


def exponential(words: WordSource, n: int, dtype: DType) -> np.ndarray:
    """Return n exponential numbers of rate 1 as float64, not rounded to `dtype`.

    For float64, the first word of the twister is skipped. For other types the uniform numbers are rounded to float32.
    """
    if dtype is dt.float64:
        return np.asarray(-np.log(vendor_uniform(words, n, skip=1)))
    return np.asarray(-np.log(vendor_uniform(words, n).astype(np.float32).astype(np.float64)))


def half_normal(words: WordSource, n: int, dtype: DType, mean: float, deviation: float) -> np.ndarray:
    """Return n >= 16 normal numbers of a half type with the given mean and standard deviation, as in release 2.4.

    The result is a float32 array with values of the type. The uniform numbers that they are computed from have as many
    bits as the type's mantissa plus one. If n is no multiple of 16, the last 16 numbers are drawn again from 16 more
    words.
    """
    whole = n // 16 * 16
    drawn = np.empty(n, np.float32)
    drawn[:whole] = _box_muller_half(half_uniform(words, n, dtype)[:whole], dtype, mean, deviation)
    if whole < n:
        drawn[n - 16 :] = _box_muller_half(half_uniform(words, 16, dtype), dtype, mean, deviation)
    return drawn


def half_uniform(words: WordSource, n: int, dtype: DType) -> np.ndarray:
    """Return n uniform numbers in [0, 1) of a half type, as float32.

    Each is made of the low `mantissa_bits + 1` bits of one word.
    """
    digits = dtype.mantissa_bits + 1
    return (words(n) & np.uint64((1 << digits) - 1)).astype(np.float32) * np.float32(2.0**-digits)


def _box_muller_half(u: np.ndarray, dtype: DType, mean: float, deviation: float) -> np.ndarray:
    """Return normal numbers of a half type with the given mean and standard deviation, as a flat float32 array.

    The transform is that of `box_muller`, with each intermediate result rounded to the half type. The number of
    elements must be a multiple of 16.
    """
    blocks = u.reshape(-1, 2, 8)
    logarithm = round_to(np.log(round_to(1 - blocks[:, 0], dtype)), dtype)
    radius = round_to(np.sqrt(-2 * logarithm), dtype)
    angle = round_to(np.float32(2 * math.pi) * blocks[:, 1], dtype)
    pairs = np.stack([radius * round_to(f(angle), dtype) for f in (np.cos, np.sin)], 1).reshape(-1)
    scaled = round_to(pairs, dtype) * round_to(np.asarray(deviation), dtype)
    return round_to(round_to(scaled, dtype) + round_to(np.asarray(mean), dtype), dtype)


def box_muller(u: np.ndarray) -> np.ndarray:
    """Return standard normal numbers made of as many uniform ones, as a flat array of the same type (Box and Muller).

    Elements j and j + 8 of each block of 16 are a pair, whose cosine and sine results have the same positions. The
    number of elements must be a multiple of 16.
    """
    drawn = np.empty_like(u)
    turn = u.dtype.type(2 * math.pi)
    # In pieces, so that the intermediate results stay in the cache.
    for first in range(0, len(u), BOX_MULLER_PIECE):
        blocks, results = (x[first : first + BOX_MULLER_PIECE].reshape(-1, 2, 8) for x in (u, drawn))
        # Uniform numbers can be 0 but not 1, so take the logarithm of 1 - u.
        radius = np.sqrt(-2 * np.log(1 - blocks[:, 0]))
        angle = turn * blocks[:, 1]
        np.multiply(radius, np.cos(angle), out=results[:, 0])
        np.multiply(radius, np.sin(angle), out=results[:, 1])
    return drawn
