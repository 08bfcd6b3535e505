"""Comparisons of results within tolerances, and random tensors for tests: `torch.testing`."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cstorch_compat.torch.sparse import SparseTensor
from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional import creation, random_sampling
from lazytensor.functional.creation import as_tensor

DEFAULT_TOLERANCES = {
    dt.float16: (1e-3, 1e-5),
    dt.bfloat16: (1.6e-2, 1e-5),
    dt.float32: (1.3e-6, 1e-5),
    dt.float64: (1e-7, 1e-7),
}
"""The relative and the absolute tolerance of each type; those of other types are 0."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= `atol` + `rtol` * |expected| for all elements.

    Both are tensors, numbers, arrays, or lists and dicts of them. Their shapes, types and devices have to be equal too,
    unless a `check_` argument is false. Without tolerances, those of the types are used (DEFAULT_TOLERANCES). NaN is
    equal to NaN only if `equal_nan` is true. `msg` replaces the message, or is a function that changes it. Raises
    ValueError if only one tolerance is given, and TypeError for other objects.

    >>> import torch
    >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    >>> torch.testing.assert_close(1.0, 1.5)
    Traceback (most recent call last):
    ...
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 1.5 but got 1.0.
    Absolute difference: 0.5 (up to 1e-07 allowed)
    Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
    """
    if (rtol is None) != (atol is None):
        absent = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}.")
    checks = {"device": check_device, "dtype": check_dtype, "layout": check_layout, "stride": check_stride}
    found = _find_difference(actual, expected, rtol, atol, equal_nan, allow_subclasses, checks)
    if found is not None:
        text, path = found
        text += "\n\nThe failure occurred for item " + "".join(f"[{p!r}]" for p in path) if path else ""
        raise AssertionError(text if msg is None else msg(text) if callable(msg) else msg)


Difference = tuple[str, tuple[Any, ...]] | None
"""A message with the keys and positions that lead to the elements, or None if all are close."""


def _find_difference(
    actual: Any,
    expected: Any,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    allow_subclasses: bool,
    checks: Mapping[str, bool],
) -> Difference:
    def compare(key: Any, a: Any, b: Any) -> Difference:
        found = _find_difference(a, b, rtol, atol, equal_nan, allow_subclasses, checks)
        return found and (found[0], (key, *found[1]))

    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            missing, extra = (
                sorted(expected.keys() - actual.keys(), key=str),
                sorted(actual.keys() - expected.keys(), key=str),
            )
            return (
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\nAdditional keys in the actual mapping: {extra}"
            ), ()
        return next(filter(None, (compare(key, actual[key], expected[key]) for key in expected)), None)
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", ()
        pairs = enumerate(zip(actual, expected, strict=True))
        return next(filter(None, (compare(k, a, b) for k, (a, b) in pairs)), None)
    if actual is None and expected is None:
        return None
    if _is_number(actual) and _is_number(expected):
        return _compare_numbers(actual, expected, rtol, atol, equal_nan, checks)
    if isinstance(actual, bool | np.bool_) and isinstance(expected, bool | np.bool_):
        return None if bool(actual) == bool(expected) else (f"Booleans mismatch: {actual} is not {expected}", ())
    if not _are_tensors(actual, expected, allow_subclasses):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.")
    return _compare_tensors(actual, expected, rtol, atol, equal_nan, checks)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _are_tensors(actual: Any, expected: Any, allow_subclasses: bool) -> bool:
    kinds = Tensor | np.ndarray | SparseTensor
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    is_same = type(actual) is type(expected) if not allow_subclasses else related
    return isinstance(actual, kinds) and isinstance(expected, kinds) and is_same


def _compare_numbers(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, checks: Mapping[str, bool]
) -> Difference:
    if checks["dtype"] and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}.", ()
    if rtol is None or atol is None:
        is_float = isinstance(actual, float) or isinstance(expected, float)
        rtol, atol = DEFAULT_TOLERANCES[dt.float64] if is_float else (0.0, 0.0)
    apart = abs(actual - expected)
    is_close = actual == expected or apart <= atol + rtol * abs(expected) < math.inf
    if is_close or (equal_nan and actual != actual and expected != expected):
        return None
    relative = apart / abs(expected) if expected else math.inf
    word = "equal" if rtol == atol == 0 else "close"
    allowed = ("", "") if word == "equal" else (f" (up to {atol} allowed)", f" (up to {rtol} allowed)")
    return (
        f"Scalars are not {word}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {apart}{allowed[0]}\nRelative difference: {relative}{allowed[1]}"
    ), ()


def _compare_tensors(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, checks: Mapping[str, bool]
) -> Difference:
    a, b = (as_tensor(t) if isinstance(t, np.ndarray) else t for t in (actual, expected))
    for name in ("shape", "layout", "device", "dtype", "stride"):
        x, y = (t.stride() if name == "stride" else getattr(t, name) for t in (a, b))
        if checks.get(name, True) and x != y:
            title = "stride()" if name == "stride" else name
            return f"The values for attribute '{title}' do not match: {x} != {y}.", ()
    if rtol is None or atol is None:
        both = [DEFAULT_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(r for r, _ in both), max(t for _, t in both)
    x, y = (_to_array(t) for t in (a, b))
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        close = (x == y) | (np.isfinite(y) & (apart <= atol + rtol * np.abs(y)))
        if equal_nan:
            close |= np.isnan(x) & np.isnan(y)
        if close.all():
            return None
        relative = apart / np.abs(y)
    return _describe_elements(close, apart, relative, rtol, atol, a.dtype.kind == "f" or b.dtype.kind == "f"), ()


def _to_array(x: Any) -> np.ndarray:
    """Return the elements of a tensor in a type in which their differences are exact, or nearly so."""
    dense = x.to_dense() if isinstance(x, SparseTensor) else x.detach()
    # Subtract in float32 if the elements have it, so that the differences in messages are PyTorch's.
    array: np.ndarray = dense.to(dt.float32 if x.dtype in (dt.float16, dt.bfloat16) else x.dtype).numpy()
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _describe_elements(
    close: np.ndarray, apart: np.ndarray, relative: np.ndarray, rtol: float, atol: float, is_float: bool
) -> str:
    """Return the message with the number of elements that are not close, and the largest differences."""
    far, total = int((~close).sum()), close.size
    word = "close" if rtol or atol else "equal"
    lines = [f"Tensor-likes are not {word}!\n", f"Mismatched elements: {far} / {total} ({100 * far / total:.1f}%)"]
    if close.ndim == 0:
        lines = [f"Tensor-likes are not {word}!\n"]
    for name, values, allowed in (("absolute", apart, atol), ("relative", relative, rtol)):
        seen = np.where(close, 0.0, values)
        # NaN counts as the largest difference.
        place = np.unravel_index(int(np.argmax(seen)), seen.shape)
        value = float(seen[place])
        shown = int(value) if name == "absolute" and not is_float else value
        where = f" at index {tuple(int(k) for k in place)}" if close.ndim else ""
        lead = f"Greatest {name} difference" if close.ndim else f"{name.capitalize()} difference"
        lines.append(f"{lead}: {shown}{where}" + (f" (up to {allowed} allowed)" if word == "close" else ""))
    return "\n".join(lines)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Raise AssertionError unless all elements are close. This is `assert_close` without checks of types and devices.

    A warning is issued, because PyTorch deprecates the function.
    """
    warnings.warn("`torch.testing.assert_allclose()` is deprecated. Use assert_close() instead.", FutureWarning, 2)
    a, b = (x if isinstance(x, Tensor) else as_tensor(x) for x in (actual, expected))
    if rtol is None and atol is None:
        both = [DEFAULT_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(r for r, _ in both), max(t for _, t in both)
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False, msg=msg or None)


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any = None,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor with random elements from `low` to `high`, by default from -9 to 9.

    Unsigned integers are from 0 by default, and booleans both values. `high` is excluded. With `exclude_zero`, zeros
    are replaced by the smallest positive number of a float type, or by 1. `noncontiguous` gives a tensor with strides.
    `device` and `memory_format` have no effect. Raises ValueError if `low` is not below `high`, or if `requires_grad`
    is set for an integer type.

    >>> import torch
    >>> torch.testing.make_tensor(2, 3, dtype=torch.float32, device="cpu", low=0, high=1).shape
    torch.Size([2, 3])
    """
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    # Of a tensor that is twice as wide, every second element is a view with strides.
    is_wide = noncontiguous and bool(size) and size[-1] > 1
    drawn = (*size[:-1], size[-1] * 2) if is_wide else size
    is_float = dtype.kind == "f"
    if requires_grad and not is_float:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    smallest, largest = (-9, 9) if is_float else (0, 2) if dtype is dt.bool_ else (0 if dtype is dt.uint8 else -9, 10)
    first, last = smallest if low is None else low, largest if high is None else high
    if not first < last:
        raise ValueError(f"`low` must be less than `high`, but got {first} >= {last}")
    if is_float:
        out = random_sampling.uniform_(creation.empty(drawn, dtype=dtype), first, last)
    else:
        out = creation.randint(math.floor(first), math.ceil(last), drawn, dtype=dtype)
    if exclude_zero:
        out = out.masked_fill(out == 0, float(np.finfo(np.float32).tiny) if is_float else 1)
    out = out[..., ::2] if is_wide else out
    return out.requires_grad_(requires_grad) if is_float else out
