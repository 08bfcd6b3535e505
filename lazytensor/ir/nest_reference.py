"""Reference implementation of loop nests in NumPy: each scalar of the body is computed as one array over the whole
domain.

Tests compare generated code with it, and it runs nests if LT_JIT=0. The NumPy functions of the pointwise operations are
a parameter, because `ops` imports this package.
"""

from typing import Any

import numpy as np

from lazytensor.core.dtype import round_to
from lazytensor.ir.nest import Access, Nest, NestStore, Scalar, ScalarFunctionLookup
from lazytensor.ir.reduction import REDUCTIONS


def _window(flat: np.ndarray, access: Access, extents: tuple[int, ...]) -> np.ndarray:
    """Return the elements that an access reaches, as a view of the flat array with one axis for each loop.

    `extents` are the numbers of iterations. The bounds are not checked.
    """
    # Strides may be zero or negative, which slicing cannot express.
    strides = tuple(s * flat.itemsize for s in access.strides)
    return np.lib.stride_tricks.as_strided(flat[access.offset :], extents, strides)


def _affine(access: Access, extents: tuple[int, ...]) -> np.ndarray:
    """Return the value of an affine function of the loop variables at each iteration, as int64.

    The shape of the result is `extents`, the numbers of iterations.
    """
    total = np.full(extents, access.offset, np.int64)
    for axis, (stride, extent) in enumerate(zip(access.strides, extents, strict=True)):
        total += stride * np.arange(extent).reshape([-1 if a == axis else 1 for a in range(len(extents))])
    return total


def _scalar(
    scalar: Scalar, nest: Nest, flats: list[np.ndarray], values: list[Any], meaning: ScalarFunctionLookup
) -> Any:
    """Return the value of one scalar of the body at each iteration: an array over the domain, or a number.

    `flats` are the flat inputs, and `values` the results of the scalars before it. The result has the scalar's type,
    and is rounded to it if that is a half type.
    """
    extents = tuple(loop.extent for loop in nest.loops)
    if scalar.op == "load":
        # Copy, because an output may be the same memory and all loads precede the stores.
        return np.array(_window(flats[scalar.attr], nest.reads[scalar.attr], extents))
    if scalar.op == "const":
        return scalar.dtype.host.type(scalar.attr)
    if scalar.op == "index":
        return _affine(scalar.attr, extents)
    arguments = [values[a] for a in scalar.args]
    if scalar.op == "cast":
        result = np.asarray(arguments[0]).astype(scalar.dtype.host)
    else:
        result = np.asarray(meaning(scalar.op, scalar.attr or {})(*arguments), scalar.dtype.host)
    return round_to(result, scalar.dtype)


def _store(store: NestStore, nest: Nest, flat: np.ndarray, value: Any) -> None:
    """Write one result to the flat output, reduced over the reduction loops if the store has a reduction.

    Previous elements of the output are overwritten, not accumulated. Reduced values are rounded to the output's type.
    """
    extents = tuple(loop.extent for loop in nest.loops)
    kind, access = nest.outputs[store.output].dtype, nest.writes[store.output]
    wide = np.broadcast_to(value, extents)
    if not store.reduce:
        _window(flat, access, extents)[...] = wide
        return
    axes = tuple(i for i, loop in enumerate(nest.loops) if loop.is_reduction)
    outer = [i for i in range(len(extents)) if i not in axes]
    # NumPy sums small integers in int64 by default; a nest sums them in their type.
    if store.reduce == "add":
        total = np.sum(wide, axis=axes, dtype=wide.dtype)
    else:
        total = REDUCTIONS[store.reduce].ufunc.reduce(wide, axis=axes)
    # The result has no axes for the reduction loops.
    shrunk = Access(tuple(access.strides[i] for i in outer), access.offset)
    _window(flat, shrunk, tuple(extents[i] for i in outer))[...] = round_to(np.asarray(total), kind)


def evaluate(nest: Nest, inputs: list[np.ndarray], outputs: list[np.ndarray], meaning: ScalarFunctionLookup) -> None:
    """Run a nest: read the contiguous arrays `inputs` and write `outputs`, which may share memory with inputs.

    `meaning(op, attributes)` returns the NumPy function of a pointwise operation. NumPy's floating-point warnings are
    off.
    """
    flats = [a.reshape(-1) for a in inputs]
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for scalar in nest.body:
            values.append(_scalar(scalar, nest, flats, values, meaning))
        for store in nest.stores:
            _store(store, nest, outputs[store.output].reshape(-1), values[store.value])
