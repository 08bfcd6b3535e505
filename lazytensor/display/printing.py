"""Print tensors like PyTorch: four digits, aligned columns, long dimensions abbreviated in the middle.

The rules were derived from PyTorch's output. The width of a column is that of the widest non-zero finite number.
"""

import math
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.tensor import CPU, Tensor
from lazytensor.core.tensor_members import method
from lazytensor.display.html import heat_map
from lazytensor.ir.operation import gradient_name

# The defaults of torch.set_printoptions.
PRECISION, THRESHOLD, EDGE_ITEMS, LINE_WIDTH = 4, 1000, 3, 80
PREFIX = "tensor("


class ElementFormat(NamedTuple):
    """The function that formats an element, and the minimum width."""

    spell: Callable[[Any], str]
    width: int

    def padded(self, value: Any) -> str:
        """Return an element as text, right-aligned to the width."""
        return self.spell(value).rjust(self.width)


@method(names="__repr__")
def tensor_text(x: Tensor) -> str:
    """Return the tensor as text, like PyTorch, with size, device, dtype and gradient if they are not implied.

    On "meta", "..." replaces the elements. The values are computed now. Raises TraceError inside a step that is traced
    for the wafer.
    """
    is_meta = x.device.type == "meta"  # a shape without values
    array = np.empty(0) if is_meta else x.array("print()")
    elements = (
        _format_nested(array, _element_format(_edge_elements(array), x.dtype), len(PREFIX)) if array.size else "[]"
    )
    body = PREFIX + ("..." if is_meta else elements)
    notes = [f"size={tuple(x.shape)}"] if is_meta or (not array.size and x.ndim != 1) else []
    if x.device is not CPU:
        notes.insert(0 if is_meta else len(notes), f"device='{x.device}'")
    # PyTorch prints the dtype only if the digits do not show it. For an empty tensor they show only the default type.
    if x.dtype not in (dt.float32, dt.int64, dt.bool_) or (not array.size and x.dtype is not dt.float32):
        notes.append(f"dtype={x.dtype}")
    if x.requires_grad:
        notes.append("requires_grad=True" if x.is_leaf else f"grad_fn=<{gradient_name(x.node).rpartition('::')[2]}>")
    # Put a note on a new line if the current line would exceed 80 characters.
    for note in notes:
        last = len(body) - (body.rfind("\n") + 1)
        is_long = last + len(note) + len(", )") >= LINE_WIDTH
        body += (",\n" + " " * len(PREFIX) if is_long else ", ") + note
    return body + ")"


@method(names="_repr_html_")
def tensor_html(x: Tensor) -> str:
    """Return the tensor as HTML for a notebook: type, heat map, and text as in `tensor_text`.

    There is a heat map if the tensor has a dimension and several elements; leading dimensions are joined to rows.
    """
    shown, array = tensor_text(x), np.empty(0) if x.device.type == "meta" else x.array("print()")
    image = heat_map(array.reshape(-1, array.shape[-1])) if array.ndim and array.size > 1 else ""
    return f"<p><code>{escape(str(x.spec))}</code></p>{image}<pre>{escape(shown)}</pre>"


def _element_format(values: np.ndarray, dtype: dt.DType) -> ElementFormat:
    """Return the format of the elements of a tensor: how an element is written, and the width of the longest one.

    It is chosen as PyTorch does, from `values`, the elements that are printed. Zeros, infinities and NaN count
    neither for the choice nor for the width of floats.
    """
    if dtype.kind != "f":
        spell = (lambda v: str(bool(v))) if dtype.kind == "b" else str
        return ElementFormat(spell, max(len(spell(v)) for v in values.ravel().tolist()))
    finite = values[np.isfinite(values) & (values != 0)].astype(np.float64)
    if not finite.size:
        return ElementFormat(_format_integer, 1)
    size = np.abs(finite)
    # PyTorch's limits, beyond which it uses scientific notation.
    if size.max() / size.min() > 1000 or size.max() > 1e8 or size.min() < 1e-4:
        spell = _format_scientific
    else:
        spell = _format_integer if np.all(finite == np.ceil(finite)) else _format_fixed
    return ElementFormat(spell, max(len(spell(v)) for v in finite.tolist()))


def _format_integer(v: float) -> str:
    return f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}"


def _format_fixed(v: float) -> str:
    return f"{v:.{PRECISION}f}"


def _format_scientific(v: float) -> str:
    return f"{v:.{PRECISION}e}"


def _edge_elements(array: np.ndarray) -> np.ndarray:
    """Return the elements that are printed: all, or only the first and last ones of each dimension of a large array.

    An array is large if it has more than THRESHOLD elements; EDGE_ITEMS are taken at both ends of each longer
    dimension.
    """
    if array.size <= THRESHOLD:
        return array
    for d, extent in enumerate(array.shape):
        if extent > 2 * EDGE_ITEMS:
            array = np.take(array, [*range(EDGE_ITEMS), *range(extent - EDGE_ITEMS, extent)], d)
    return array


def _format_nested(array: np.ndarray, column: ElementFormat, indent: int, is_cut: bool | None = None) -> str:
    """Return the elements as nested brackets, for an opening bracket at column `indent`.

    `is_cut` is whether long dimensions are abbreviated; None means to do so for more than THRESHOLD elements. An array
    without dimensions gives its number without brackets.
    """
    if array.ndim == 0:
        return column.padded(array.item())
    is_cut = array.size > THRESHOLD if is_cut is None else is_cut
    # Abbreviation is decided for the whole tensor; then each long dimension is abbreviated.
    cut = is_cut and len(array) > 2 * EDGE_ITEMS
    items = [*array[:EDGE_ITEMS], *array[-EDGE_ITEMS:]] if cut else list(array)
    parts = [_format_nested(np.asarray(v), column, indent + 1, is_cut) for v in items]
    if cut:
        # As in PyTorch, there is an additional space before the dots within a row.
        parts.insert(EDGE_ITEMS, " ..." if array.ndim == 1 else "...")
    start = " " * (indent + 1)
    if array.ndim > 1:
        return "[" + ("," + "\n" * (array.ndim - 1) + start).join(parts) + "]"
    # Each element takes its column, a comma and a space.
    per_line = max(1, (LINE_WIDTH - indent) // (column.width + 2))
    lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
    return "[" + (",\n" + start).join(lines) + "]"
