"""Matrix products by BLAS, straight into a given array; a transposed operand is read in place, never copied."""

from functools import partial

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.kernels.kernel import Arrays, Attrs, Kernel, Match, Step, op_work

LEAST_FLOPS = 1_000_000  # 10 us or so: below twice that a product stays whole
LEAST_ROWS = 128
BLOCK, COLUMNS = 256, 64
"""Rows of a part, about, and columns: BLAS packs the other operand anew for each, so smaller parts cost more."""
MOST_PARTS = 16
LINE = 16  # elements in a line of the cache; register tiles of BLAS divide it


def _swaps_last(n: Node) -> bool:
    """True for a transpose that only exchanges the two last dimensions."""
    if n.op != "transpose":
        return False
    rank = len(n.type.shape)
    return rank >= 2 and n.attrs["permutation"] == (*range(rank - 2), rank - 1, rank - 2)


def _match(n: Node) -> Match | None:
    if n.op != "matmul":
        return None
    a, b = n.inputs
    flips = dict(n.attrs)
    # Simplify has done this for graphs that went through it; others may still hold transposes.
    while _swaps_last(a):
        a, flips["transpose_a"] = a.inputs[0], not flips["transpose_a"]
    while _swaps_last(b):
        b, flips["transpose_b"] = b.inputs[0], not flips["transpose_b"]
    return Match((a, b), flips)


def _views(attrs: Attrs, ins: Arrays) -> Arrays:
    """The operands as they are multiplied."""
    flips = (attrs["transpose_a"], attrs["transpose_b"])
    return tuple(np.swapaxes(x, -1, -2) if flip else x for x, flip in zip(ins, flips, strict=True))


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> partial[object]:
    # np.dot takes 0.3 us to call and np.matmul 0.7, but it copies what is neither a matrix in one piece nor one's
    # transpose: rows of a transposed matrix took twice the time of their product to copy.
    if a.ndim == 2 and out.flags.c_contiguous and a.flags.forc and b.flags.forc:
        return partial(np.dot, a, b, out)
    return partial(np.matmul, a, b, out)


def _bind(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    a, b = _views(attrs, ins)
    return _product(a, b, outs[0])


def _blocks(extent: int, parts: int, multiple: int = 1) -> list[slice]:
    each = -(-extent // (parts * multiple)) * multiple
    return [slice(k, min(k + each, extent)) for k in range(0, extent, each)]


def _power(most: int) -> int:
    """The largest power of two up to a number: two and four threads have equal shares then."""
    power = 1
    while 2 * power <= min(most, MOST_PARTS):
        power *= 2
    return power


def _cut(attrs: Attrs, outs: Arrays, ins: Arrays) -> list[partial[object]]:
    """The product by blocks: of a stack its matrices, of a matrix its rows or columns, whichever are more."""
    a, b = _views(attrs, ins)
    out = outs[0]
    parts = _power(2 * out.size * a.shape[-1] // LEAST_FLOPS)
    if parts < 2:
        return [_product(a, b, out)]
    if out.ndim > 2:
        # The first dimension that is long enough; a matrix is never cut here.
        lead = max(range(out.ndim - 2), key=lambda d: (out.shape[d] >= parts, out.shape[d]))
        blocks = [(slice(None),) * lead + (s,) for s in _blocks(out.shape[lead], parts)]
        return [_product(a[s], b[s], out[s]) for s in blocks]
    m, n = out.shape
    # Few rows beside many columns: a thread then reads some columns of the larger operand alone, those that it read and
    # updated in the step before. Elsewhere by rows, whose parts write no line of the cache together.
    if m < min(n, LEAST_ROWS):
        return [_product(a, b[:, s], out[:, s]) for s in _blocks(n, min(parts, _power(n // COLUMNS)), LINE)]
    return [_product(a[s], b, out[s]) for s in _blocks(m, min(parts, _power(max(2 * BLOCK, m, n) // BLOCK)), LINE)]


MATMUL = Kernel("matmul", match=_match, bind=_bind, cut=_cut, work=op_work("matmul"), benefit=2)
