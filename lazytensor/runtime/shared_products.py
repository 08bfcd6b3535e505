"""Large matrix products outside of compiled steps, cut into the same parts as in a compiled step.

BLAS would cut a product according to its number of threads, so that the last digits depend on that number. Here the
cuts depend only on shapes.
"""

from functools import partial

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.kernels.matmul import LEAST_FLOPS, MATMUL
from lazytensor.runtime.thread_pool import team

_PLAIN = {"transpose_a": False, "transpose_b": False}
_BY_ROWS = {"transpose_a": False, "transpose_b": True}


def shared(n: Node, arrays: list[np.ndarray]) -> np.ndarray | None:
    """Return the value of a "matmul" or "linear" node with at least 4 * LEAST_FLOPS multiplications.

    Return None for any other node, and if the operands have different dtypes. The parts run in the thread pool.
    """
    if n.op not in ("matmul", "linear") or arrays[0].dtype != arrays[1].dtype:
        return None
    inner = arrays[0].shape[-2 if n.attrs.get("transpose_a") else -1]
    # Smaller products are not cut, because a Python thread takes longer to wake than one of machine code.
    if n.type.size * inner < 4 * LEAST_FLOPS:
        return None
    if n.op == "matmul":
        return _product({**_PLAIN, **n.attrs}, n.type.shape, arrays[0], arrays[1])
    x, w, *b = arrays
    y = _product(_BY_ROWS, (x.size // x.shape[-1], len(w)), x.reshape(-1, x.shape[-1]), w)
    if b:
        y += b[0]
    return y.reshape(n.type.shape)


def _product(attrs: dict[str, bool], shape: tuple[int, ...], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a new array a @ b of the given shape, computed in parts by the thread pool.

    `attrs` are those of "matmul": the transposes of both operands.
    """
    out = np.empty(shape, a.dtype)
    assert MATMUL.cut is not None
    parts: list[partial[object]] = MATMUL.cut(attrs, (out,), (a, b))
    team().share(lambda part, thread: parts[part](), len(parts))
    return out
