"""Reductions of arrays of any shape, with the bits of compiled loops.

The order of additions is that of `kernels.lane_sums` and `compiler.codegen`.
"""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from lazytensor.compiler.scalar_bodies import dtype_suffix, literal_text
from lazytensor.core.dtype import DType, float32
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type
from lazytensor.kernels.lane_sums import BLOCK, GROUP, LANES
from lazytensor.ops.op import OPS
from lazytensor.runtime import jit
from lazytensor.runtime.element_functions import in_order

_HEAD = """\
import numpy as np
from lazytensor.runtime.language import typed
from lazytensor.runtime.intrinsics import maximum_f4, maximum_f8, minimum_f4, minimum_f8
from lazytensor.runtime.lanes import lanes_add, lanes_maximum, lanes_minimum, lanes_mul


@typed("void(uint32, uint32, uint32, {kind}[::1], {kind}[::1])")
"""
# The same loops that `LaneWriter` generates for a fixed number of elements. Unused lanes hold the identity.
_ROWS = (
    _HEAD
    + """\
def kernel(first, last, size, x, y):
    l0 = np.empty({lanes}, np.{kind})
    n = np.int64(size)
    rounds = n // {lanes} * {lanes}
    rest = n % {group}
    groups = n - rest - rounds
    for row in range(np.int64(first), np.int64(last)):
        at = row * n
        total = {start}
        length = n if n <= 2 * {block} else np.int64({block})
        for block in range(0, n, length):
            for lane in range({lanes}):
                l0[lane] = {start}
            for part in range(block, min(block + length, rounds), {lanes}):
                for lane in range({lanes}):
                    l0[lane] = {round}
            if block + length >= n:
                for k in range(groups):
                    l0[k] = {groups}
                begin = 0 if n < {group} else {group} - rest
                for k in range(rest):
                    l0[begin + k] = {rest}
            s = lanes_{reduce}(l0, {lanes})
            total = {total}
        y[row] = total
"""
)
_COLUMNS = (
    _HEAD
    + """\
def kernel(rows, columns, unused, x, y):
    n = np.int64(columns)
    for c in range(n):
        y[c] = {start}
    for row in range(np.int64(rows)):
        at = row * n
        for c in range(n):
            y[c] = {column}
"""
)
_STEPS = {
    "round": ("l0[lane]", "x[at + part + lane]"),
    "groups": ("l0[k]", "x[at + rounds + k]"),
    "rest": ("l0[begin + k]", "x[at + n - rest + k]"),
    "total": ("total", "s"),
    "column": ("y[c]", "x[at + c]"),
}


@cache
def _kernel(text: str, reduce: str, dtype: DType) -> Any:
    reduction = REDUCTIONS[reduce]
    form = f"{reduction.helper}imum_{dtype_suffix(dtype)}({{0}}, {{1}})" if reduction.is_extreme else reduction.text
    return jit.load(
        text.format(
            kind=dtype.host.name,
            reduce=reduce,
            start=literal_text(reduction.identity(dtype), dtype),
            lanes=LANES,
            block=BLOCK,
            group=GROUP,
            **{name: form.format(a, b) for name, (a, b) in _STEPS.items()},
        )
    )


def _rows(reduce: str, dtype: DType, x: np.ndarray, size: int) -> np.ndarray:
    """Reduce each run of `size` contiguous elements of `x` to one element; return a vector."""
    out = np.empty(x.size // size, x.dtype)
    _kernel(_ROWS, reduce, dtype)(0, out.size, size, in_order(x), out)
    return out


def _columns(reduce: str, dtype: DType, x: np.ndarray, size: int) -> np.ndarray:
    """Reduce `x`, as rows of `size` elements, to one row, adding the rows in order; return a vector of `size`
    elements.
    """
    out = np.empty(size, x.dtype)
    _kernel(_COLUMNS, reduce, dtype)(x.size // size, size, 0, in_order(x), out)
    return out


def row_sums(x: np.ndarray) -> np.ndarray:
    """Return the sums of a float32 array along its last dimension."""
    return _rows("add", float32, x, x.shape[-1]).reshape(x.shape[:-1])


@lru_cache(1024)
def reduced(type: Type, *, kind: str, dims: tuple[int, ...], keepdim: bool) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that reduces an array of type `type` over the dimensions `dims`, with the bits of compiled
    loops.

    `kind` is the name of the reduction, such as "add". Arrays of half types hold float32, and the result is not rounded
    to the half type. For integer and boolean types, empty arrays, and if all `dims` have extent 1, NumPy reduces.
    """
    exact = partial(OPS["reduce"].eval, kind=kind, dims=dims, keepdim=keepdim)
    wide = [d for d, extent in enumerate(type.shape) if extent != 1]
    summed = [d for d in dims if type.shape[d] != 1]
    if type.dtype.kind != "f" or not summed or not type.size:
        return exact
    out = tuple(1 if d in dims else e for d, e in enumerate(type.shape) if keepdim or d not in dims)
    dtype = float32 if type.dtype.is_half else type.dtype
    if wide[-1] not in summed:
        return partial(_over_rows, kind, dtype, tuple(d for d in range(len(type.shape)) if d not in summed), out)
    groups = groupby(wide, lambda d: d in summed)
    runs = [tuple(run) for is_summed, run in groups if is_summed]
    return partial(_over_runs, kind, dtype, runs, out)


def _over_rows(reduce: str, dtype: DType, kept: tuple[int, ...], out: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    """Reduce all dimensions of `x` that are not in `kept`, and return the result in the shape `out`.

    The last reduced dimension must come before the last of `kept`.
    """
    others = tuple(d for d in range(x.ndim) if d not in kept)
    size = prod(x.shape[d] for d in kept)
    return _columns(reduce, dtype, x.transpose((*others, *kept)), size).reshape(out)


def _over_runs(
    reduce: str, dtype: DType, runs: list[tuple[int, ...]], out: tuple[int, ...], x: np.ndarray
) -> np.ndarray:
    """Reduce runs of neighbouring dimensions of `x`, the last run first, and return the result in the shape `out`.

    The last run must contain the last dimension that has more than one element.
    """
    shape = list(x.shape)
    *outer, last = runs
    x = _rows(reduce, dtype, x, prod(shape[d] for d in last))
    for run in reversed(outer):
        # The dimensions after this run are already reduced or are kept.
        for d in last:
            shape[d] = 1
        last = run
        before, after = prod(shape[: run[0]]), prod(shape[run[-1] + 1 :])
        size = prod(shape[d] for d in run)
        moved = x.reshape(before, size, after).transpose(1, 0, 2)
        x = _columns(reduce, dtype, moved, before * after)
    return x.reshape(out)
