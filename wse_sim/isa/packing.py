"""Elements in 32-bit words of memory: how float32, float16, bfloat16 and indices lie there, and how they are rounded.

Two elements of 16 bits share a word, the first in its lower half. Values are handled as float32, which holds every
value of the three types; indices (uint16) as their numbers.
"""

import numpy as np

from lazytensor.core.dtype import dtype_by_name, round_to
from lazytensor.errors import LazyError
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.isa.rounding import from_bits, to_bits


def word_count(elements: int, dtype: str) -> int:
    """Words that hold `elements`."""
    return -(-elements * ITEM_BYTES[dtype] // WORD_BYTES)


def round_values(values: np.ndarray, dtype: str) -> np.ndarray:
    """`values` (float32), each rounded to the nearest of `dtype`, ties to even."""
    # A conversion to an integer leaves out the fraction, as the engine's does.
    if dtype == "uint16":
        return values.astype(np.uint16).astype(np.float32)
    # The rounding is that of the framework: what a core computes and what the host computes cannot drift apart.
    return values if dtype == "float32" else round_to(values, dtype_by_name(dtype))


def view_elements(words: np.ndarray, dtype: str) -> np.ndarray:
    """Words [..., n] as the bits of elements [..., n or 2 n], in the same memory."""
    return words.view(np.uint32 if ITEM_BYTES[dtype] == WORD_BYTES else np.uint16)


def decode_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Bits of elements as float32 values; indices as they are."""
    values = from_bits(bits, dtype)
    return values if dtype == "uint16" else values.astype(np.float32, copy=False)


def unpack(words: np.ndarray, dtype: str, count: int) -> np.ndarray:
    """The first `count` values in words [..., n]."""
    return decode_bits(view_elements(np.ascontiguousarray(words), dtype)[..., :count], dtype)


def pack(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values [..., n] in as few words (uint32) as hold them; a half that is left over is zero."""
    raw = to_bits(values, dtype)
    words = np.zeros((*raw.shape[:-1], word_count(raw.shape[-1], dtype)), np.uint32)
    view_elements(words, dtype)[..., : raw.shape[-1]] = raw
    return words


def as_words(memory: np.ndarray) -> np.ndarray:
    """A copy of a memory [..., words] of 32-bit words as uint32. Raises LazyError for other widths."""
    if memory.dtype.itemsize != WORD_BYTES:
        raise LazyError(f"a memory of {memory.dtype}", hint="Give words of 32 bits; pack 16-bit elements in pairs.")
    return np.array(memory, order="C").view(np.uint32)
