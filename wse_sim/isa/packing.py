"""Pack elements into 32-bit words of memory and back, and round values to an element type.

Two elements of 16 bits share a word, the first in its lower half. Values are float32, which represents every value of
float32, float16 and bfloat16 exactly. uint16 elements (indices) are numbers.
"""

import numpy as np

from lazytensor.core.dtype import dtype_by_name, round_to
from lazytensor.errors import LazyError
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.isa.rounding import from_bits, to_bits


def word_count(elements: int, dtype: str) -> int:
    """Return the words that `elements` elements of `dtype` occupy."""
    return -(-elements * ITEM_BYTES[dtype] // WORD_BYTES)


def round_values(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return the float32 array `values` with each element rounded to the nearest value of `dtype`, ties to even.

    The result is float32 too. For "uint16" the fraction is dropped instead. For "float32" the argument itself is
    returned.
    """
    # A conversion to an integer drops the fraction, as the engine's does.
    if dtype == "uint16":
        return values.astype(np.uint16).astype(np.float32)
    # The same rounding as on the host, so that results of cores and of the host are equal.
    return values if dtype == "float32" else round_to(values, dtype_by_name(dtype))


def view_elements(words: np.ndarray, dtype: str) -> np.ndarray:
    """Return a view of `words` [..., n] as bits of elements: uint32 [..., n], or uint16 [..., 2 n] for 16-bit types."""
    return words.view(np.uint32 if ITEM_BYTES[dtype] == WORD_BYTES else np.uint16)


def decode_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Return the bits of elements, as from `view_elements`, as float32 values, or as uint16 for "uint16"."""
    values = from_bits(bits, dtype)
    return values if dtype == "uint16" else values.astype(np.float32, copy=False)


def unpack(words: np.ndarray, dtype: str, count: int) -> np.ndarray:
    """Return the first `count` elements of `dtype` in `words` [..., n], as float32 values (uint16 for "uint16")."""
    return decode_bits(view_elements(np.ascontiguousarray(words), dtype)[..., :count], dtype)


def pack(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return `values` [..., n], rounded to `dtype`, as uint32 words [..., m], as few as needed.

    Two 16-bit elements share a word, the first in the lower half; an unused upper half of the last word is zero.
    """
    raw = to_bits(values, dtype)
    words = np.zeros((*raw.shape[:-1], word_count(raw.shape[-1], dtype)), np.uint32)
    view_elements(words, dtype)[..., : raw.shape[-1]] = raw
    return words


def as_words(memory: np.ndarray) -> np.ndarray:
    """Return a copy of a memory [..., words] of 32-bit words as uint32. Raises LazyError for other widths."""
    if memory.dtype.itemsize != WORD_BYTES:
        hint = "Give 32-bit elements; pack 16-bit elements in pairs."
        raise LazyError(f"the memory is an array of {memory.dtype}", hint=hint)
    return np.array(memory, order="C").view(np.uint32)
