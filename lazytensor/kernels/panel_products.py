"""Matrix products as routines: the second factor is laid out in panels, which rows of the first one pass by.

Parts are blocks of the result, or some matrices of a stack. Measured with AVX-512 on Zen 4, of whose cores each makes
118 GFLOP/s at most: 111 of it with extents in hundreds, whichever operand is transposed; OpenBLAS 0.3 makes 84 to 107.
"""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import KNOWN, Attrs
from lazytensor.kernels.loop_parts import MOST_PARTS
from lazytensor.kernels.routine import Routine

STACK, ROWS_OUT, COLUMNS, TERMS, A_FLIPPED, B_FLIPPED, DEPTH = range(7)
"""Where each number lies in the geometry: matrices in the stack, extents of a product and terms of its sums, which
operands lie transposed, terms of a piece of a sum."""
STACK_EACH, ROWS_EACH, COLUMNS_EACH, PACKERS, CAUSAL, SWAPPED, STRIPS = range(7, 14)
"""Matrices, rows and columns of a part, parts that lay panels out; what is known of the diagonal; whether the product
is computed transposed, which all numbers but the flips are of then, and whether the first factor is laid out too."""
LEFT, RESULT = 1, 2
"""Above whose diagonal nothing is: zeros in the first factor, or numbers of the result that nobody looks at."""
TILE, PANEL = 8, 32
"""Rows and columns of the widest register tile."""
LEAST, LEAST_TALL, LEAST_FLIPPED = (384, 256, 256), (1024, 128, 128), (768, 64, 64)
LEAST_STACKED, LEAST_CAUSAL = (64, 64, 32), (64, 32, 32)
"""Rows, columns and terms from which on panels pay: where BLAS reads the second operand across its rows, of few
and of many rows, along them, in stacks of small matrices, and where half of them is left out."""
ALIAS = 1024
"""Lines of so many elements, or of a multiple, all begin in one set of a cache."""
STRIP = 64
"""Rows of a part whose first factor has such lines across them: its elements are laid beside each other first."""
MOST_ROWS, MOST_DEPTH = 256, 384
"""What is read again for each panel stays in the second-level cache."""
MOST_PACKED = 1 << 23


def _even(extent: int, most: int, multiple: int) -> int:
    """The length of equal pieces, none longer than about `most`."""
    return -(-extent // (-(-extent // most) * multiple)) * multiple


def matmul(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """`matmul`: two matrices, or two stacks of as many -> the product."""
    (out,), (a, b) = outs, ins
    flip_a, flip_b = attrs["transpose_a"], attrs["transpose_b"]
    if any(t.dtype.host != float32.host for t in (a, b, out)) or not a.shape[:-2] == b.shape[:-2] == out.shape[:-2]:
        return None
    causal = attrs.get(KNOWN, 0)
    stack, (m, n) = math.prod(out.shape[:-2]), out.shape[-2:]
    k = a.shape[-2 if flip_a else -1]
    # The smaller factor is laid out; a result of whole tiles may be computed transposed for that.
    is_swapped = flip_a and not flip_b and stack == 1 and 2 * m <= n and not (causal or m % PANEL or n % PANEL)
    if is_swapped:
        m, n = n, m
    width = -(-n // PANEL) * PANEL
    of_one = LEAST_FLIPPED if flip_b else LEAST_TALL if m >= LEAST_TALL[0] else LEAST
    least = LEAST_CAUSAL if causal else LEAST_STACKED if stack > 1 else of_one
    is_small = any(extent < bound for extent, bound in zip((m, n, k), least, strict=True))
    # Of a panel that is not full the rest is computed too.
    if is_small or 7 * width > 8 * n or (stack > 1 and causal != LEFT and (flip_a or not flip_b)):
        return None
    is_aliased = flip_a and m % ALIAS == 0
    if width * k > MOST_PACKED or (is_aliased and (is_swapped or stack > 1 or causal or n % PANEL)):
        return None
    rows = _even(m, MOST_ROWS // 2, PANEL) if is_swapped else STRIP if is_aliased else _even(m, MOST_ROWS, TILE)
    each = -(-stack // MOST_PARTS)
    columns = _even(n, max(PANEL, n * -(-m // rows) // MOST_PARTS), PANEL)
    packers = min(MOST_PARTS, width // PANEL)
    parts: tuple[int, ...] = (packers, -(-m // rows) * -(-n // columns))
    if stack > 1:
        rows, columns, parts = m, n, (-(-stack // each),)
    depth = _even(k, MOST_DEPTH, 1)
    numbers = stack, m, n, k, flip_a, flip_b, depth, each, rows, columns, packers, causal, is_swapped, is_aliased
    shared, own = (0, width * k) if stack > 1 else (width * k, depth * STRIP if is_aliased else 0)
    return Routine(
        module="panel_product",
        geometry=np.array(numbers, np.int64),
        parts=parts,
        shared=shared,
        own=own + 2 * TILE * PANEL,
    )
