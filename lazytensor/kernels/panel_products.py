"""Matrix products as routines: the second factor is packed into panels, which register tiles multiply with rows.

Parts are blocks of the result, or some matrices of a stack. Measured with AVX-512 on Zen 4, whose cores reach at most
118 GFLOP/s: 111 GFLOP/s with extents in the hundreds, whichever operand is transposed; OpenBLAS 0.3 reaches 84 to 107.
"""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import KNOWN, Attrs
from lazytensor.kernels.loop_parts import MOST_PARTS, bounds
from lazytensor.kernels.routine import Routine

STACK, ROWS_OUT, COLUMNS, TERMS, A_FLIPPED, B_FLIPPED, DEPTH = range(7)
"""Indices in the geometry: matrices in the stack; rows, columns and terms of a product; which operands are transposed;
terms per piece of a sum.
"""
STACK_EACH, ROWS_EACH, COLUMNS_EACH, PACKERS, CAUSAL, SWAPPED, STRIPS = range(7, 14)
"""Indices in the geometry: matrices, rows and columns per part; parts that pack panels; causal structure (LEFT, RESULT
or 0); whether the product is computed transposed (extents and parts are then those of the transposed product);
whether the first factor is packed into strips.
"""
LEFT, RESULT = 1, 2
"""Causal structure: the first factor is zero above the diagonal, or the result above the diagonal is not used."""
TILE, PANEL = 8, 32
"""Rows and columns of the widest register tile."""
LEAST, LEAST_TALL, LEAST_FLIPPED = (384, 256, 256), (1024, 128, 128), (768, 64, 64)
LEAST_STACKED, LEAST_CAUSAL = (64, 64, 32), (64, 32, 32)
"""Minimum rows, columns and terms for which panels are faster than BLAS.

LEAST is for few rows and LEAST_TALL for many rows, if BLAS reads the second operand across its rows. LEAST_FLIPPED is
for a transposed second operand, LEAST_STACKED for stacks of small matrices, and LEAST_CAUSAL for causal products, of
which half of the terms are skipped.
"""
ALIAS = 1024
"""If the elements of a row are a multiple of this number, all rows begin in one set of the cache."""
STRIP = 64
"""Rows of a part if the first factor has such rows and is read across them: its elements are copied to strips first."""
MOST_ROWS, MOST_DEPTH = 256, 384
"""Maximum rows and terms of a block, so that the data read again for each panel stays in the second-level cache."""
MOST_PACKED = 1 << 23
"""Maximum number of elements in the packed panels."""


def _even(extent: int, most: int, multiple: int) -> int:
    """Split `extent` into equal pieces of about `most` at most; return their length, rounded up to a multiple of
    `multiple`.
    """
    return -(-extent // (-(-extent // most) * multiple)) * multiple


def _outer_product(m: int, n: int) -> Routine:
    """Return the routine of the product of a column of `m` elements and a row of `n`."""
    parts = bounds(m, m * n)
    strips = bounds(n, m * n // len(parts))
    geometry = np.array([m, n, parts[0][1], strips[0][1]], np.int64)
    return Routine(module="outer_product", geometry=geometry, parts=(len(parts) * len(strips),))


def matmul(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `matmul` for two float32 matrices or two equal stacks of them.

    Return None if BLAS is faster, which depends on the extents, the transposes and the causal structure (KNOWN).
    """
    (out,), (a, b) = outs, ins
    flip_a, flip_b = attrs["transpose_a"], attrs["transpose_b"]
    if any(t.dtype.host != float32.host for t in (a, b, out)) or not a.shape[:-2] == b.shape[:-2] == out.shape[:-2]:
        return None
    causal = attrs.get(KNOWN, 0)
    stack, (m, n) = math.prod(out.shape[:-2]), out.shape[-2:]
    k = a.shape[-2 if flip_a else -1]
    if k == 1 and stack == 1 and out.size:
        return _outer_product(m, n)
    # Pack the smaller factor. To do so, a result of whole tiles may be computed transposed.
    is_swapped = flip_a and not flip_b and stack == 1 and 2 * m <= n and not (causal or m % PANEL or n % PANEL)
    if is_swapped:
        m, n = n, m
    width = -(-n // PANEL) * PANEL
    of_one = LEAST_FLIPPED if flip_b else LEAST_TALL if m >= LEAST_TALL[0] else LEAST
    least = LEAST_CAUSAL if causal else LEAST_STACKED if stack > 1 else of_one
    is_small = any(extent < bound for extent, bound in zip((m, n, k), least, strict=True))
    # The last panel is computed whole, even if it is not full.
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
