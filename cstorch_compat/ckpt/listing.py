"""`ckpt ls` and `ckpt show`: print the contents of a file. Arrays are read only if their values are shown."""

import math
from typing import Any

import numpy as np

from cstorch_compat.ckpt.formats import read
from cstorch_compat.ckpt.leaves import children, find_subtree, leaves
from lazytensor.core.file_array import LazyArray
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import escape_line, print_escaped

_MAX_SHOWN_VALUES = 8
"""Number of array elements that `show` prints."""


def dtype_name(a: LazyArray) -> str:
    """Return the tensor dtype of an array, such as "bfloat16", or its NumPy dtype if there is no tensor dtype."""
    return a.kind.name if a.dtype is None else a.dtype.name


def list_rows(tree: Any) -> list[dict[str, Any]]:
    """Return a dict for JSON for each leaf, with its dotted name under "key".

    An array has dtype, shape and sizes. A repeated array has the type "link" and the name of its first occurrence under
    "same_as". Other leaves have their type and value.
    """
    first: dict[int, str] = {}
    table: list[dict[str, Any]] = []
    for key, leaf in leaves(tree):
        if not isinstance(leaf, LazyArray):
            table.append({"key": key, "type": type(leaf).__name__, "value": to_json_value(leaf)})
        # A repeated array takes no further bytes in the file.
        elif first.setdefault(id(leaf), key) != key:
            table.append({"key": key, "type": "link", "same_as": first[id(leaf)]})
        else:
            table.append(_array_row(key, leaf))
    return table


def _array_row(key: str, a: LazyArray) -> dict[str, Any]:
    """Return the row of an array as a dict for JSON."""
    return {
        "key": key,
        "type": "tensor" if a.is_tensor else "array",
        "dtype": dtype_name(a),
        "shape": list(a.shape),
        "bytes": a.nbytes,
        "stored_bytes": a.nbytes if a.stored_bytes is None else a.stored_bytes,
        "packing": a.packing,
    }


def to_json_value(value: Any) -> Any:
    """Return `value` if JSON can represent it, otherwise its `repr`. NaN, infinities and objects become text."""
    # JSON has no NaN and infinities.
    is_plain = value is None or isinstance(value, str | bool | int) or (type(value) is float and math.isfinite(value))
    return value if is_plain else repr(value)


def list_file(path: str, as_json: bool) -> int:
    """Print name, dtype, shape and size of every value of a file, and totals, as text or JSON. Return 0."""
    kind, tree = read(path)
    table = list_rows(tree)
    total = sum(row.get("bytes", 0) for row in table)
    stored = sum(row.get("stored_bytes", 0) for row in table)
    if as_json:
        head = {"file": path, "format": kind.name, "bytes": total, "stored_bytes": stored}
        print(json_text({**head, "values": table}, indent=1))
        return 0
    width = max((len(escape_line(row["key"])) for row in table), default=0)
    for row in table:
        print_escaped(escape_line(f"{escape_line(row['key']):{width}}  {_format_row(row)}".rstrip()))
    arrays = sum("bytes" in row for row in table)
    print(f"{kind.name}: {len(table)} values, {arrays} arrays of {total:,} bytes, {stored:,} in the file")
    return 0


def _format_row(row: dict[str, Any]) -> str:
    if row["type"] == "link":
        return f"same as {row['same_as']}"
    if "value" in row:
        return f"{row['type']:9} {row['value']!r:.60}"
    return f"{row['dtype']:9} {row['shape']!s:18} {row['bytes']:>14,} bytes  {row['packing']}"


def print_value(path: str, key: str) -> int:
    """Print the values under a dotted name; of an array, dtype, shape and a summary. Return 0.

    Arrays below the name are printed with dtype and shape only. Raises CheckpointError if there is no such name.
    """
    _, tree = read(path)
    value = find_subtree(tree, key, path)
    if children(value) is not None:
        for name, leaf in leaves(value, key):
            value = f"{dtype_name(leaf)}{list(leaf.shape)}" if isinstance(leaf, LazyArray) else repr(leaf)
            print_escaped(escape_line(f"{name} {value}"))
        return 0
    if not isinstance(value, LazyArray):
        print_escaped(escape_line(f"{key}: {type(value).__name__} {value!r}"))
        return 0
    print_escaped(f"{escape_line(key)}: {dtype_name(value)}{list(value.shape)}")
    for name, figure in summarize_array(value.read()).items():
        print(f"  {name:6} {figure}")
    return 0


def summarize_array(values: np.ndarray) -> dict[str, Any]:
    """Return figures of an array: min, max, mean, number of NaN and infinities, and the first values.

    Min, max and mean are those of the finite elements. They are missing for complex arrays and without finite elements.
    """
    is_finite = np.isfinite(values)
    # Avoid a copy if all elements are finite.
    finite = values if is_finite.all() else values[is_finite]
    figures: dict[str, Any] = {}
    if finite.size and values.dtype.kind != "c":
        # Sum in float64, because a sum in a half type soon stops growing.
        figures = {"min": finite.min(), "max": finite.max(), "mean": finite.mean(dtype=np.float64)}
    figures["nan"] = int(np.isnan(values).sum())
    figures["inf"] = int(values.size - np.count_nonzero(is_finite)) - figures["nan"]
    more = " ..." if values.size > _MAX_SHOWN_VALUES else ""
    figures["values"] = " ".join(str(v) for v in values.reshape(-1)[:_MAX_SHOWN_VALUES].tolist()) + more
    return figures
