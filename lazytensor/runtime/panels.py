"""Register tiles, addresses and copies of the kernel language, with their meaning in Python.

The compiler generates vector code for a call: see `lazytensor.llvm.register_tiles`. Arrays are passed as addresses of
float32 elements. Distances between rows are in elements.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.llvm.register_tiles import DOTS, FROM_IMAGE, FROM_WEIGHT, LANES, PAIR, ROWS, TO_RESULT, VECTORS

__all__ = ["DOTS", "LANES", "PAIR", "ROWS", "VECTORS"]


def _floats(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * int(count)).from_address(int(address)))


def _words(address: int, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_int64 * int(count)).from_address(int(address)))


def address(array: np.ndarray) -> int:
    """Return the address of the first element of an array."""
    return int(array.ctypes.data)


def copied(source: int, target: int, count: int) -> None:
    """Copy `count` float32 elements from the address `source` to the address `target`."""
    ctypes.memmove(int(target), int(source), 4 * int(count))


def products(a: int, offsets: int, count: int, b: int, c: int, pitch: int) -> None:
    """Set c[r, lane] = sum over k of a[k, r] * b[offsets[k] + lane], for ROWS rows and VECTORS * LANES lanes.

    `count` is the number of terms and `offsets` the address of as many int64. Rows of c are `pitch` elements apart.
    """
    _products(a, offsets, count, b, c, pitch, VECTORS * LANES)


def products_narrow(a: int, offsets: int, count: int, b: int, c: int, pitch: int) -> None:
    """Compute `products` for only LANES lanes."""
    _products(a, offsets, count, b, c, pitch, LANES)


def _products(a: int, offsets: int, count: int, b: int, c: int, pitch: int, lanes: int) -> None:
    sums = np.zeros((ROWS, lanes), np.float32)
    for k, offset in enumerate(_words(offsets, count)):
        sums += np.outer(_floats(a + 4 * k * ROWS, ROWS), _floats(b + 4 * offset, lanes))
    for r in range(ROWS):
        _floats(c + 4 * r * pitch, lanes)[:] = sums[r]


def dots(a: int, reach: int, offsets: int, count: int, b: int, c: int, pitch: int) -> None:
    """Add to c[r, j] the sum over q < count of a[r, q] * b[offsets[j] + q], for ROWS rows and DOTS columns.

    Rows of a are `reach` elements apart, rows of c `pitch`. Whole registers are read and multiplied: `count` is rounded
    up to a multiple of LANES.
    """
    length = -(-count // LANES) * LANES
    for r in range(ROWS):
        for j, offset in enumerate(_words(offsets, DOTS)):
            total = _floats(a + 4 * r * reach, length) @ _floats(b + 4 * offset, length)
            _floats(c + 4 * (r * pitch + j), 1)[0] += total


def block(a: int, a_row: int, a_step: int, count: int, b: int, c: int, pitch: int) -> None:
    """Set c[r, lane] = sum over k of a[r * a_row + k * a_step] * b[k, lane], for ROWS rows of PAIR lanes.

    `count` is the number of terms. Rows of b are PAIR elements apart, rows of c `pitch`.
    """
    for r, total in enumerate(_block(a, a_row, a_step, count, b)):
        _floats(c + 4 * r * pitch, PAIR)[:] = total


def block_more(a: int, a_row: int, a_step: int, count: int, b: int, c: int, pitch: int) -> None:
    """Compute `block`, and add the result to `c` instead of storing it."""
    for r, total in enumerate(_block(a, a_row, a_step, count, b)):
        _floats(c + 4 * r * pitch, PAIR)[:] += total


def block_asking(a: int, a_row: int, a_step: int, count: int, b: int, c: int, pitch: int, *places: int) -> None:
    """Compute `block`, and prefetch memory meanwhile.

    `places` are two pairs: an address to prefetch, and the bytes by which it advances with each term.
    """
    block(a, a_row, a_step, count, b, c, pitch)


def _block(a: int, a_row: int, a_step: int, count: int, b: int) -> np.ndarray:
    sums = np.zeros((ROWS, PAIR), np.float32)
    for k in range(count):
        values = _floats(b + 4 * k * PAIR, PAIR)
        for r in range(ROWS):
            sums[r] += _floats(a + 4 * (r * a_row + k * a_step), 1) * values
    return sums


def turned(source: int, source_pitch: int, target: int, target_pitch: int, rows: int, lanes: int) -> None:
    """Transpose a block: target[i, j] = source[j, i] for i < rows <= LANES and j < lanes <= LANES.

    The pitches are the elements between two rows of the source and of the target.
    """
    for i in range(rows):
        for j in range(lanes):
            _floats(target + 4 * (i * target_pitch + j), 1)[0] = _floats(source + 4 * (j * source_pitch + i), 1)[0]


def _sandwich(matrix: Any) -> Callable[..., None]:
    """Return a function that multiplies small matrices from both sides with a constant `matrix`, for a vector
    of lanes.
    """
    factors = np.array(matrix, np.float32)

    def sandwich(source: int, row: int, column: int, target: int, to_row: int, to_column: int, count: int) -> None:
        """Set target[i, j, lane] = (matrix @ source[:, :, lane] @ matrix.T)[i, j] for `count` lanes.

        The other numbers are distances between rows and between columns of source and target, in elements.
        """
        inner = range(factors.shape[1])
        values = np.array([[_floats(source + 4 * (i * row + j * column), count) for j in inner] for i in inner])
        for i, line in enumerate(np.einsum("ai,bj,ijl->abl", factors, factors, values)):
            for j, lanes in enumerate(line):
                _floats(target + 4 * (i * to_row + j * to_column), count)[:] = lanes

    return sandwich


from_image, to_result = _sandwich(FROM_IMAGE), _sandwich(TO_RESULT)
from_result = _sandwich(tuple(zip(*TO_RESULT, strict=True)))
from_weight, to_weight = _sandwich(FROM_WEIGHT), _sandwich(tuple(zip(*FROM_WEIGHT, strict=True)))
