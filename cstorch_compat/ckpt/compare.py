"""`ckpt diff`: compare two files of tensors, in any formats."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cstorch_compat.ckpt.formats import read
from cstorch_compat.ckpt.leaves import find_subtree, flatten_tree
from cstorch_compat.ckpt.listing import dtype_name, to_json_value
from lazytensor.core.file_array import LazyArray
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import escape_line, print_escaped

_CHUNK_ELEMENTS = 1 << 18
"""Number of elements compared at a time. Chunks avoid a copy of the whole array in float64."""


@dataclass(frozen=True)
class Difference:
    """A key whose values differ in two files.

    key: the dotted name
    kind: "only in a", "only in b", "type", "dtype", "shape" or "value"
    a, b: summaries of the two values; for arrays with other values, the first pair that differs
    max_abs, max_rel: largest absolute and relative difference in an array; None for other kinds
    """

    key: str
    kind: str
    a: Any = None
    b: Any = None
    max_abs: float | None = None
    max_rel: float | None = None


def find_differences(a: Any, b: Any, rtol: float = 0.0, atol: float = 0.0) -> list[Difference]:
    """Return the differences of two trees of values.

    Keys only in `a` come first, then keys only in `b`, then common keys in the order of `a`. Numbers are equal if |a -
    b| <= atol + rtol * |b|. NaN equals NaN. Arrays must also agree in shape and dtype, and other values in type and
    `repr`. At most one difference is returned per key.

    >>> find_differences({"lr": 0.1, "step": 3}, {"lr": 0.1}) == [Difference("step", "only in a", 3)]
    True
    """
    left, right = flatten_tree(a), flatten_tree(b)
    apart = [Difference(key, kind="only in a", a=_summarize_leaf(left[key])) for key in left if key not in right]
    apart += [
        Difference(key, kind="only in b", a=None, b=_summarize_leaf(right[key])) for key in right if key not in left
    ]
    for key, leaf in left.items():
        if key in right:
            apart += _compare_leaves(key, leaf, right[key], rtol, atol)
    return apart


def _summarize_leaf(leaf: Any) -> Any:
    """Return dtype and shape of an array as text, and other values for JSON."""
    return f"{dtype_name(leaf)}{list(leaf.shape)}" if isinstance(leaf, LazyArray) else to_json_value(leaf)


def _compare_leaves(key: str, a: Any, b: Any, rtol: float, atol: float) -> list[Difference]:
    """Return a list with the difference of two values, or an empty list.

    Arrays are compared by shape, then dtype, then values; only the last comparison reads them. An array differs in type
    from any other value.
    """
    if not isinstance(a, LazyArray) and not isinstance(b, LazyArray):
        return _compare_values(key, a, b, rtol, atol)
    # A 0-d array differs from a number: a model that saved one would not load the other.
    if not isinstance(a, LazyArray) or not isinstance(b, LazyArray):
        return [Difference(key, kind="type", a=_summarize_leaf(a), b=_summarize_leaf(b))]
    if a.shape != b.shape:
        return [Difference(key, kind="shape", a=list(a.shape), b=list(b.shape))]
    if dtype_name(a) != dtype_name(b):
        return [Difference(key, kind="dtype", a=dtype_name(a), b=dtype_name(b))]
    # Read one pair of arrays at a time, and only if shape and dtype agree.
    return _compare_arrays(key, a.read().reshape(-1), b.read().reshape(-1), rtol, atol)


def _compare_values(key: str, a: Any, b: Any, rtol: float, atol: float) -> list[Difference]:
    """Return a list with the difference of two values that are no arrays, or an empty list.

    Floats are compared with the tolerance, other values by their `repr`. Values of different types differ.
    """
    if type(a) is not type(b):
        return [Difference(key, kind="type", a=to_json_value(a), b=to_json_value(b))]
    # Compare floats as arrays, so that the tolerance applies.
    if type(a) is float:
        return _compare_arrays(key, np.array([a]), np.array([b]), rtol, atol)
    # Compare the text: `==` is True for True and 1, and False for NaN.
    return [] if repr(a) == repr(b) else [Difference(key, kind="value", a=to_json_value(a), b=to_json_value(b))]


def _compare_arrays(key: str, a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> list[Difference]:
    """Return at most one difference of two flat arrays, with the first pair outside of the tolerance.

    `max_abs` and `max_rel` are the largest differences of all elements, including those within the tolerance. A NaN in
    one of the arrays makes both infinite.
    """
    first, max_abs, max_rel = None, 0.0, 0.0
    # Subtract in a wide dtype: float16 may overflow, and unsigned integers wrap around.
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    for at in range(0, a.size, _CHUNK_ELEMENTS):
        x, y = a[at : at + _CHUNK_ELEMENTS], b[at : at + _CHUNK_ELEMENTS]
        # NaN equals NaN, and equal infinities are equal although their difference is NaN.
        same = (x == y) | ((x != x) & (y != y))
        if same.all():
            continue
        with np.errstate(all="ignore"):
            apart = np.abs(np.subtract(x, y, dtype=wide))
            apart[same] = 0
            apart[np.isnan(apart)] = np.inf
            size = np.abs(y.astype(wide))
            # Negate the comparison, which is False for NaN: a NaN on one side is a difference.
            bad = ~same & ~(apart <= atol + rtol * size)
            max_abs, max_rel = max(max_abs, _largest_difference(apart)), max(max_rel, _largest_difference(apart / size))
        if first is None and bad.any():
            first = at + int(np.argmax(bad))
    if first is None:
        return []
    return [
        Difference(
            key=key,
            kind="value",
            a=to_json_value(a[first].item()),
            b=to_json_value(b[first].item()),
            max_abs=max_abs,
            max_rel=max_rel,
        )
    ]


def _largest_difference(values: np.ndarray) -> float:
    """Return the largest of `values`, with NaN (0 / 0 of equal zeros) counted as 0."""
    return float(np.where(np.isnan(values), 0, values).max())


def print_differences(path_a: str, path_b: str, rtol: float, atol: float, as_json: bool, key: str | None = None) -> int:
    """Print how two files differ, as text or JSON. Return the exit status: 1 if they differ, otherwise 0.

    With `key`, only the values under this dotted name are compared; it must be in both files.
    """
    a, b = (read(path)[1] if key is None else find_subtree(read(path)[1], key, path) for path in (path_a, path_b))
    apart = find_differences(a, b, rtol, atol)
    if as_json:
        rows = [{name: _to_json_field(v) for name, v in asdict(d).items()} for d in apart]
        print(json_text({"a": path_a, "b": path_b, "equal": not apart, "differences": rows}, indent=1))
    else:
        for d in apart:
            print_escaped(escape_line(_format_difference(d)))
        print(f"{len(apart)} differences" if apart else "equal")
    return 1 if apart else 0


def _to_json_field(value: Any) -> Any:
    """Return a field of a Difference for JSON."""
    return value if isinstance(value, list) else to_json_value(value)


def _format_difference(d: Difference) -> str:
    """Return a difference as one line of text."""
    if d.kind.startswith("only"):
        return f"{d.key}: {d.kind}: {d.a if d.b is None else d.b}"
    largest = "" if d.max_abs is None else f", differs by up to {d.max_abs:.3g}, relative {d.max_rel:.3g}"
    return f"{d.key}: {d.kind}: {d.a} and {d.b}{largest}"
