"""Matrix products by BLAS, straight into a given array; a transposed operand is read in place, never copied."""

from functools import partial

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.kernels.kernel import Arrays, Attrs, Kernel, Match, Step, op_work


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


def _bind(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    a = np.swapaxes(ins[0], -1, -2) if attrs["transpose_a"] else ins[0]
    b = np.swapaxes(ins[1], -1, -2) if attrs["transpose_b"] else ins[1]
    if a.ndim == 2:
        return partial(np.dot, a, b, outs[0])  # 0.3 us to call, np.matmul 0.7
    return partial(np.matmul, a, b, outs[0])


MATMUL = Kernel("matmul", match=_match, bind=_bind, work=op_work("matmul"), benefit=2)
