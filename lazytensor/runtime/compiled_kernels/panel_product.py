"""Matrix product, also of stacks: register tiles multiply rows of the first factor with panels of the second."""

from typing import Any

from lazytensor.kernels.panel_products import (
    A_FLIPPED,
    B_FLIPPED,
    CAUSAL,
    COLUMNS,
    COLUMNS_EACH,
    DEPTH,
    LEFT,
    PACKERS,
    RESULT,
    ROWS_EACH,
    ROWS_OUT,
    STACK,
    STACK_EACH,
    STRIPS,
    SWAPPED,
    TERMS,
)
from lazytensor.runtime.atomics import prefetch
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.panels import LANES, PAIR, ROWS, address, block, block_more, copied, turned


@inline
def _lay(g: Any, b: Any, start: int, first: int, step: int, panels: Any, base: int) -> None:
    """Pack every `step`-th panel, from panel `first` on, of the matrix at b[start] into `panels` at `base`.

    A panel holds PAIR columns, row after row of the matrix. Missing columns of the last panel are zeros.
    """
    n, terms = g[COLUMNS], g[TERMS]
    for panel in range(first, (n + PAIR - 1) // PAIR, step):
        column, to = panel * PAIR, base + panel * PAIR * terms
        lanes = min(PAIR, n - column)
        if lanes < PAIR:
            across, along = terms if g[B_FLIPPED] else 1, 1 if g[B_FLIPPED] else n
            for t in range(terms):
                for lane in range(PAIR):
                    panels[to + t * PAIR + lane] = 0
                for lane in range(lanes):
                    panels[to + t * PAIR + lane] = b[start + (column + lane) * across + t * along]
        elif g[B_FLIPPED]:
            for t in range(0, terms, LANES):
                for half in range(0, PAIR, LANES):
                    source = address(b) + 4 * (start + (column + half) * terms + t)
                    target = address(panels) + 4 * (to + t * PAIR + half)
                    turned(source, terms, target, PAIR, min(LANES, terms - t), LANES)
        else:
            for t in range(terms):
                copied(address(b) + 4 * (start + t * n + column), address(panels) + 4 * (to + t * PAIR), PAIR)


@inline
def _multiply(
    g: Any, a: int, panels: int, out: Any, start: int, row: int, rows: int, column: int, columns: int, own: Any
) -> None:
    """Compute rows `row` to `rows` - 1 and columns `column` to `columns` - 1 of the result that begins at out[start].

    `a` and `panels` are addresses. `own` is a scratch tile for blocks that are not full. If g[CAUSAL] is LEFT, terms
    above the diagonal of the first factor are skipped; if it is RESULT, blocks of the result above the diagonal become
    zeros.
    """
    m, n, terms = g[ROWS_OUT], g[COLUMNS], g[TERMS]
    a_row, a_term = 1 if g[A_FLIPPED] else terms, m if g[A_FLIPPED] else 1
    for d in range(0, terms, g[DEPTH]):
        depth = min(g[DEPTH], terms - d)
        for c in range(column, columns, PAIR):
            lanes = min(PAIR, n - c)
            for r in range(row, rows, ROWS):
                # If fewer than ROWS rows are left, the tile starts earlier and its first rows are dropped.
                height = min(ROWS, rows - r)
                # Skip the terms above the diagonal of the first factor, which are zeros.
                upper = min(d + depth, r + height) if g[CAUSAL] == LEFT and not g[A_FLIPPED] else d + depth
                lower = max(d, r) if g[CAUSAL] == LEFT and g[A_FLIPPED] else d
                to, is_more = start + r * n + c, d > (r if g[CAUSAL] == LEFT and g[A_FLIPPED] else 0)
                left = a + 4 * ((r + height - ROWS) * a_row + lower * a_term)
                b, count = panels + 4 * (c * terms + lower * PAIR), upper - lower
                if g[CAUSAL] == RESULT and c >= r + height:
                    for i in range(height):
                        for lane in range(lanes):
                            out[to + i * n + lane] = 0
                elif count > 0 and (height < ROWS or lanes < PAIR):
                    block(left, a_row, a_term, count, b, address(own), PAIR)
                    for i in range(height):
                        for lane in range(lanes):
                            value = own[(ROWS - height + i) * PAIR + lane]
                            out[to + i * n + lane] = value + out[to + i * n + lane] if is_more else value
                elif count > 0 and is_more:
                    block_more(left, a_row, a_term, count, b, address(out) + 4 * to, n)
                elif count > 0:
                    block(left, a_row, a_term, count, b, address(out) + 4 * to, n)


@inline
def _multiply_turned(
    g: Any, a: int, panels: int, out: int, row: int, rows: int, column: int, columns: int, own: Any
) -> None:
    """Compute a block of the result as `_multiply` does, transposed: rows of the tiles become columns of the result.

    Only whole tiles are allowed.
    """
    m, terms = g[ROWS_OUT], g[TERMS]
    for c in range(column, columns, PAIR):
        for r in range(row, rows, LANES):
            for strip in range(0, LANES, ROWS):
                to = address(own) + 4 * strip * PAIR
                for d in range(0, terms, g[DEPTH]):
                    depth, b = min(g[DEPTH], terms - d), panels + 4 * (c * terms + d * PAIR)
                    left = a + 4 * (r + strip + d * m)
                    if d > 0:
                        block_more(left, 1, m, depth, b, to, PAIR)
                    else:
                        block(left, 1, m, depth, b, to, PAIR)
            for half in range(0, PAIR, LANES):
                turned(address(own) + 4 * half, PAIR, out + 4 * ((c + half) * m + r), m, LANES, LANES)


@inline
def _multiply_strips(
    g: Any, a: int, panels: int, out: int, row: int, rows: int, column: int, columns: int, own: Any
) -> None:
    """Compute a block of the result as `_multiply` does, with the first factor copied into strips of contiguous terms.

    Only whole tiles are allowed. The next terms are prefetched while the current ones are multiplied.
    """
    m, n, terms = g[ROWS_OUT], g[COLUMNS], g[TERMS]
    tiles = (rows - row) // ROWS * ((columns - column) // PAIR)
    for d in range(0, terms, g[DEPTH]):
        depth = min(g[DEPTH], terms - d)
        # A strip is LANES rows of the result, term after term. A term is one cache line, and two tiles use half each.
        for t in range(d, d + depth):
            for r in range(row, rows, LANES):
                copied(a + 4 * (t * m + r), address(own) + 4 * ((r - row) * depth + (t - d) * LANES), LANES)
        # Prefetch `each` terms per tile, so that the next piece is in the cache when this one is done.
        ahead, each = d + depth, (depth + tiles - 1) // tiles
        for c in range(column, columns, PAIR):
            b = panels + 4 * (c * terms + d * PAIR)
            for r in range(row, rows, ROWS):
                for t in range(ahead, min(ahead + each, terms)):
                    for line in range(row, rows, LANES):
                        prefetch(a + 4 * (t * m + line))
                ahead += each
                strip = (r - row) // LANES * LANES
                left, to = address(own) + 4 * (strip * depth + r - row - strip), out + 4 * (r * n + c)
                if d > 0:
                    block_more(left, 1, LANES, depth, b, to, n)
                else:
                    block(left, 1, LANES, depth, b, to, n)


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, a: Any, b: Any, out: Any) -> None:
    """Compute out = a @ b. For one matrix, phase 0 packs the panels of one factor into `shared`, and phase 1
    multiplies.

    For a stack there is one phase, in which each part packs and multiplies its own matrices, with the scratch buffer
    `own`.
    """
    m, n, terms = g[ROWS_OUT], g[COLUMNS], g[TERMS]
    if g[STACK] > 1:
        for s in range(part * g[STACK_EACH], min((part + 1) * g[STACK_EACH], g[STACK])):
            _lay(g, b, s * n * terms, 0, 1, own, ROWS * PAIR)
            panels = address(own) + 4 * ROWS * PAIR
            _multiply(g, address(a) + 4 * s * m * terms, panels, out, s * m * n, 0, m, 0, n, own)
        return
    if phase == 0:
        if g[SWAPPED]:
            _lay(g, a, 0, part, g[PACKERS], shared, 0)
        else:
            _lay(g, b, 0, part, g[PACKERS], shared, 0)
        return
    across = (n + g[COLUMNS_EACH] - 1) // g[COLUMNS_EACH]
    row, column = part // across * g[ROWS_EACH], part % across * g[COLUMNS_EACH]
    rows, columns = min(row + g[ROWS_EACH], m), min(column + g[COLUMNS_EACH], n)
    if g[STRIPS]:
        _multiply_strips(g, address(a), address(shared), address(out), row, rows, column, columns, own)
    elif g[SWAPPED]:
        _multiply_turned(g, address(b), address(shared), address(out), row, rows, column, columns, own)
    else:
        _multiply(g, address(a), address(shared), out, 0, row, rows, column, columns, own)
