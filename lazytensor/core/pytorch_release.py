"""Which release of PyTorch the random numbers follow, and what release 2.4 draws otherwise than 2.13.

With 2.4 a probability that is one number and exponentials come from the vendor library's stream MCG31 (L'Ecuyer 1999),
which one word of the twister seeds; normal numbers of half types are drawn in that type. Worked out from PyTorch's
answers.
"""

import math
from collections.abc import Callable

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType, round_to

RELEASES = ("2.4", "2.13")
LATEST = "2.13"
current_release = LATEST
MIN_TWO_WORD_SPAN = {"2.4": 1 << 32, "2.13": 1 << 28}
"""The span of integers from which on two words are taken for each."""
_MODULUS, _MULTIPLIER = 2**31 - 1, 1132489760
WordSource = Callable[[int], np.ndarray]
"""The next n words of the twister."""


def follow_release(release: str) -> None:
    """Draw as a release of PyTorch does. Raises ValueError for one that is not known here."""
    global current_release
    if release not in RELEASES:
        raise ValueError(f"numbers of PyTorch {release!r} are not known here: choose one of {', '.join(RELEASES)}")
    current_release = release


def vendor_uniform(words: WordSource, n: int, skip: int = 0) -> np.ndarray:
    """n numbers between 0 and 1 of the stream that a word of the twister seeds, the one behind `skip` others."""
    if not n:
        return np.zeros(0)
    seed = int(words(skip + 1)[-1]) % _MODULUS or 1
    return _stream(seed, n) / _MODULUS


def _stream(seed: int, n: int) -> np.ndarray:
    """seed * a^0, seed * a^1, ... modulo 2^31 - 1, by doubling: products stay below 2^62."""
    numbers = np.empty(n, np.int64)
    numbers[0], known, factor = seed, 1, _MULTIPLIER
    while known < n:
        block = min(known, n - known)
        numbers[known : known + block] = numbers[:block] * factor % _MODULUS
        known, factor = known + block, factor * factor % _MODULUS
    return numbers


def exponential(words: WordSource, n: int, dtype: DType) -> np.ndarray:
    """n exponential numbers of rate 1; those of float64 take their seed from the lower word of two."""
    if dtype is dt.float64:
        return np.asarray(-np.log(vendor_uniform(words, n, skip=1)))
    return np.asarray(-np.log(vendor_uniform(words, n).astype(np.float32).astype(np.float64)))


def half_normal(words: WordSource, n: int, dtype: DType, mean: float, deviation: float) -> np.ndarray:
    """n >= 16 normal numbers of a half type, from uniform ones that have as many bits as its mantissa holds."""
    whole = n // 16 * 16
    drawn = np.empty(n, np.float32)
    drawn[:whole] = _box_muller_half(half_uniform(words, n, dtype)[:whole], dtype, mean, deviation)
    if whole < n:
        drawn[n - 16 :] = _box_muller_half(half_uniform(words, 16, dtype), dtype, mean, deviation)
    return drawn


def half_uniform(words: WordSource, n: int, dtype: DType) -> np.ndarray:
    """n uniform numbers of a half type below 1: as many low bits of a word each as its mantissa holds."""
    digits = dtype.mantissa_bits + 1
    return (words(n) & np.uint64((1 << digits) - 1)).astype(np.float32) * np.float32(2.0**-digits)


def _box_muller_half(u: np.ndarray, dtype: DType, mean: float, deviation: float) -> np.ndarray:
    """Box-Muller with each function rounded to the half type."""
    blocks = u.reshape(-1, 2, 8)
    logarithm = round_to(np.log(round_to(1 - blocks[:, 0], dtype)), dtype)
    radius = round_to(np.sqrt(-2 * logarithm), dtype)
    angle = round_to(np.float32(2 * math.pi) * blocks[:, 1], dtype)
    pairs = np.stack([radius * round_to(f(angle), dtype) for f in (np.cos, np.sin)], 1).reshape(-1)
    scaled = round_to(pairs, dtype) * round_to(np.asarray(deviation), dtype)
    return round_to(round_to(scaled, dtype) + round_to(np.asarray(mean), dtype), dtype)


def box_muller(u: np.ndarray) -> np.ndarray:
    """Box-Muller over blocks of 16: element j with element j + 8."""
    blocks = u.reshape(-1, 2, 8)
    # Uniforms can be 0 and never 1, so the logarithm is taken of 1 - u.
    radius = np.sqrt(-2 * np.log(1 - blocks[:, 0]))
    angle = u.dtype.type(2 * math.pi) * blocks[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
