"""Large products outside of compiled steps: in parts that the team shares, cut as a compiled step cuts them.

BLAS cuts a product as it has threads, so that the last digits depend on their number; here they depend on shapes alone.
"""

from functools import partial

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.kernels.matmul import LEAST_FLOPS, MATMUL
from lazytensor.runtime.thread_pool import team

_PLAIN = {"transpose_a": False, "transpose_b": False}
_BY_ROWS = {"transpose_a": False, "transpose_b": True}


def shared(n: Node, arrays: list[np.ndarray]) -> np.ndarray | None:
    """The value of a node that is a large product of matrices; None for any other."""
    if n.op not in ("matmul", "linear") or arrays[0].dtype != arrays[1].dtype:
        return None
    inner = arrays[0].shape[-2 if n.attrs.get("transpose_a") else -1]
    # Smaller ones stay whole: a thread of Python takes longer to wake than one of machine code.
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
    out = np.empty(shape, a.dtype)
    assert MATMUL.cut is not None
    parts: list[partial[object]] = MATMUL.cut(attrs, (out,), (a, b))
    team().share(lambda part, thread: parts[part](), len(parts))
    return out
