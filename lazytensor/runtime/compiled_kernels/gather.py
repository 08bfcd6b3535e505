"""Elements along one dimension at an index for each result, as `torch.gather` reads them."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, numbers: Any, y: Any) -> bool:
    """Set y[t, k, c] = x[t, numbers[t, k, c], c] for the tables t of a part. Return True at the first invalid index.

    `g` holds the number of tables, indices, rows of a table and columns, and the tables per part. `phase`, `shared` and
    `own` are unused.
    """
    count, height, columns = g[1], g[2], g[3]
    for t in range(part * g[4], min((part + 1) * g[4], g[0])):
        for k in range(count):
            at = (t * count + k) * columns
            for c in range(columns):
                r = numbers[at + c]
                if r < 0 or r >= height:
                    return True
                y[at + c] = x[(t * height + r) * columns + c]
    return False
