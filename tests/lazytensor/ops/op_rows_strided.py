"""Rows of the strided windows: the places are counted one by one."""

import itertools

import numpy as np

from tests.lazytensor.ops.op_rows import Case, Draw, Row, Shape


def _places(size: Shape, stride: Shape, offset: int) -> list[tuple[Shape, int]]:
    grid = itertools.product(*map(range, size))
    return [(at, offset + sum(i * s for i, s in zip(at, stride, strict=True))) for at in grid]


def _window(x: np.ndarray, *, size: Shape, stride: Shape, offset: int) -> np.ndarray:
    flat = x.ravel()
    out = np.empty(size, x.dtype)
    for at, place in _places(size, stride, offset):
        out[at] = flat[place]
    return out


def _summed(g: np.ndarray, *, shape: Shape, **window) -> np.ndarray:
    out = np.zeros(int(np.prod(shape)), g.dtype)
    for at, place in _places(**window):
        out[place] += g[at]
    return out.reshape(shape)


def _written(base: np.ndarray, value: np.ndarray, **window) -> np.ndarray:
    out = base.copy().ravel()
    for at, place in _places(**window):
        out[place] = value[at]
    return out.reshape(base.shape)


def _attrs(d: Draw, overlapping: bool) -> dict:
    diagonal = {"size": (3,), "stride": (5,), "offset": 1}
    columns = {"size": (2, 3), "stride": (1, 4), "offset": 0}
    sliding = {"size": (4, 3), "stride": (2, 1), "offset": 2}
    empty = {"size": (0, 2), "stride": (1, 1), "offset": 3}
    return d.one(diagonal, columns, empty, *([sliding] if overlapping else []))


def _seen_case(d: Draw) -> Case:
    # A view that a tensor can be written through sees no element twice.
    return [d.values((3, 4))], _attrs(d, False)


def _sum_case(d: Draw) -> Case:
    attrs = _attrs(d, True)
    return [d.values(attrs["size"])], {"shape": (3, 4), **attrs}


def _put_case(d: Draw) -> Case:
    attrs = _attrs(d, False)
    return [d.values((3, 4)), d.values(attrs["size"])], attrs


ROWS = {
    "as_strided": Row(_seen_case, _window, "fib"),
    "strided_sum": Row(_sum_case, _summed, "fi"),
    "strided_put": Row(_put_case, _written, "fib"),
}
