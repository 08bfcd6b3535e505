"""Matrix products by BLAS, written into a given array. A transposed operand is read in place and never copied."""

from functools import partial

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.kernels.kernel import Arrays, Attrs, Kernel, Match, Step, op_work

LEAST_FLOPS = 1_000_000  # minimum flops per part, about 10 us: a product below twice that is not cut
LEAST_ROWS = 128
BLOCK, COLUMNS = 256, 64
"""Approximate rows, and minimum columns, of a part.

BLAS packs the other operand again for each part, so smaller ones cost more.
"""
MOST_PARTS = 16
LINE = 16  # float32 elements in a cache line; a multiple of BLAS's register tiles


def _swaps_last(n: Node) -> bool:
    """Return whether a node is a transpose that only exchanges the last two dimensions."""
    if n.op != "transpose":
        return False
    rank = len(n.type.shape)
    return rank >= 2 and n.attrs["permutation"] == (*range(rank - 2), rank - 1, rank - 2)


def _match(n: Node) -> Match | None:
    """Match a "matmul" node; return None for others. Transposes of the last two dimensions of an operand become
    flags.
    """
    if n.op != "matmul":
        return None
    a, b = n.inputs
    flips = dict(n.attrs)
    # `simplify` has done this already, but not every target runs it.
    while _swaps_last(a):
        a, flips["transpose_a"] = a.inputs[0], not flips["transpose_a"]
    while _swaps_last(b):
        b, flips["transpose_b"] = b.inputs[0], not flips["transpose_b"]
    return Match((a, b), flips)


def _views(attrs: Attrs, ins: Arrays) -> Arrays:
    """Return the operands with their transpositions applied, as views."""
    flips = (attrs["transpose_a"], attrs["transpose_b"])
    return tuple(np.swapaxes(x, -1, -2) if flip else x for x, flip in zip(ins, flips, strict=True))


def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> partial[object]:
    # A call of np.dot takes 0.3 us and one of np.matmul 0.7 us, but np.dot copies operands that are neither contiguous
    # matrices nor transposes of them: to copy rows of a transposed matrix took twice the time of their product.
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
    """Return the largest power of two up to `most` and MOST_PARTS, at least 1, so that two and four threads get
    equal shares.
    """
    power = 1
    while 2 * power <= min(most, MOST_PARTS):
        power *= 2
    return power


def _cut(attrs: Attrs, outs: Arrays, ins: Arrays) -> list[partial[object]]:
    """Return the product in parts, as functions that write to `outs[0]`; one part if there is little work.

    A stack is cut along its longest leading dimension. A matrix is cut by columns if it has few rows and more columns,
    and else by rows. The cuts depend only on shapes.
    """
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
    # With few rows and many columns, cut by columns: a thread then reads only the columns of the larger operand that it
    # used in the step before. Otherwise cut by rows, whose parts share no cache line of the result.
    if m < min(n, LEAST_ROWS):
        return [_product(a, b[:, s], out[:, s]) for s in _blocks(n, min(parts, _power(n // COLUMNS)), LINE)]
    return [_product(a[s], b, out[s]) for s in _blocks(m, min(parts, _power(max(2 * BLOCK, m, n) // BLOCK)), LINE)]


MATMUL = Kernel("matmul", match=_match, bind=_bind, cut=_cut, work=op_work("matmul"), benefit=2)
