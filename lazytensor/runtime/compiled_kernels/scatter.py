"""Elements written along one dimension at an index for each, in order, as `torch.scatter` does."""

from typing import Any

from lazytensor.runtime.intrinsics import maximum_f4, minimum_f4
from lazytensor.runtime.language import inline, typed


@inline
def _combined(kind: int, a: Any, b: Any) -> Any:
    """Return `b`, a + b, a * b, or the larger or smaller one, for a kind of 0 to 4."""
    extreme = maximum_f4(a, b) if kind == 3 else minimum_f4(a, b)
    sum_or_product = a + b if kind == 1 else a * b
    return b if kind == 0 else (sum_or_product if kind < 3 else extreme)


@typed(
    "boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1],"
    " float32[::1])"
)
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, base: Any, numbers: Any, value: Any, y: Any) -> bool:
    """Set y = base, then combine y[t, numbers[t, k, c], c] with value[t, k, c] for the tables t of a part, k in order.

    Return True at the first invalid index. `g` holds the number of tables, indices, rows of a table and columns, the
    tables per part, and the kind of `_combined`. `phase`, `shared` and `own` are unused.
    """
    count, height, columns = g[1], g[2], g[3]
    for t in range(part * g[4], min((part + 1) * g[4], g[0])):
        for at in range(t * height * columns, (t + 1) * height * columns):
            y[at] = base[at]
        for k in range(count):
            at = (t * count + k) * columns
            for c in range(columns):
                r = numbers[at + c]
                if r < 0 or r >= height:
                    return True
                to = (t * height + r) * columns + c
                y[to] = _combined(g[5], y[to], value[at + c])
    return False
