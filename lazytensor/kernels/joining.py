"""Concatenation, and the write of a slice into a copy of an array: kernels that are generated row by row."""

import math
from functools import partial
from typing import Any

import numpy as np

from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Arrays, Attrs, Kernel, Step, by_op, op_work
from lazytensor.kernels.loop_parts import Bounds, bounds

_KINDS = {np.dtype(f"{k}{size}"): f"{name}{8 * size}" for k, name in (("f", "float"), ("i", "int")) for size in (4, 8)}
"""The element types that the generated text supports. NumPy copies the others."""

_HEAD = """\
import numpy as np
from lazytensor.runtime.language import typed


@typed("void(uint32, uint32, {arguments})")
def kernel(start, end, {names}):
    for row in range(np.int64(start), np.int64(end)):
        r = np.int64(np.uint32(row))
"""


def _head(types: tuple[Type, ...], names: list[str]) -> str:
    """Return the beginning of the text of a kernel with the arguments `names`.

    Return "" if an operand is empty or has an element type other than 32- and 64-bit floats and integers.
    """
    kinds = [_KINDS.get(t.dtype.host) for t in types]
    if None in kinds or any(t.size == 0 for t in types):
        return ""
    arguments = ", ".join(f"{kind}[::1]" for kind in kinds)
    return _HEAD.format(arguments=arguments, names=", ".join(names))


def _copy(target: str, source: str, count: int, indent: str = "        ") -> str:
    return f"{indent}for c in range({count}):\n{indent}    {target} = {source}\n"


def _concat(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    return partial(np.concatenate, ins, attrs["dim"], outs[0])


def _concat_source(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> str:
    names = [f"x{k}" for k in range(len(ins))]
    text = _head((*ins, *outs), [*names, "y"])
    if not text:
        return ""
    # A row is the dimension `dim` and all after it, of each array one after the other.
    inner = math.prod(outs[0].shape[attrs["dim"] + 1 :])
    whole, at = outs[0].shape[attrs["dim"]] * inner, 0
    for name, x in zip(names, ins, strict=True):
        length = x.shape[attrs["dim"]] * inner
        text += _copy(f"y[r * {whole} + {at} + c]", f"{name}[r * {length} + c]", length)
        at += length
    return text


def _concat_parts(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Bounds:
    return bounds(math.prod(outs[0].shape[: attrs["dim"]]), outs[0].size)


def _write(out: np.ndarray, part: np.ndarray, base: np.ndarray, value: np.ndarray) -> None:
    # Copy all of the base, then overwrite the part: copying only the surroundings would take several copies.
    np.copyto(out, base)
    np.copyto(part, value)


def _slice_update(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
    starts, limits, strides = attrs["starts"], attrs["limits"], attrs["strides"]
    # The view of the output is made once, when the step is bound. The ellipsis makes it a view for 0-d arrays too.
    windows: list[Any] = [slice(s, e, t) for s, e, t in zip(starts, limits, strides, strict=True)]
    part = outs[0][(*windows, ...)]
    return partial(_write, outs[0], part, *ins)


def _slice_source(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> str:
    """Return the text that copies a row of the base and overwrites the part in it.

    Return "" if NumPy does it: for a value that is broadcast, for a 0-d array, and for operands that `_head` refuses.
    """
    text = _head((*ins, *outs), ["base", "value", "y"])
    windows = list(zip(attrs["starts"], attrs["limits"], attrs["strides"], strict=True))
    # A value that is broadcast over the part, and a part of a 0-d array, are left to NumPy.
    if not text or not windows or ins[1].shape != tuple(len(range(*window)) for window in windows):
        return ""
    *shape, columns = outs[0].shape
    *extents, length = ins[1].shape
    text += _copy(f"y[r * {columns} + c]", f"base[r * {columns} + c]", columns)
    # A row is in the part if its index in each dimension is; no test is written if all rows are.
    place, inside, below = "0", [], 1
    for d in reversed(range(len(shape))):
        first, _, step = windows[d]
        number = f"(r // {below} % {shape[d]})"
        if extents[d] != shape[d]:
            inside.append(f"{number} >= {first} and {number} <= {first + (extents[d] - 1) * step}")
            inside += [f"({number} - {first}) % {step} == 0"] if step != 1 else []
            number = f"({number} - {first}) // {step}"
        place = f"{number} * {math.prod(extents[d + 1 :])} + {place}"
        below *= shape[d]
    first, _, step = windows[-1]
    indent = "        "
    if inside:
        text += f"{indent}if {' and '.join(inside)}:\n"
        indent += "    "
    text += f"{indent}at = {place}\n"
    return text + _copy(f"y[r * {columns} + {first} + c * {step}]", f"value[at * {length} + c]", length, indent)


def _slice_parts(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Bounds:
    return bounds(math.prod(outs[0].shape[:-1]), outs[0].size)


CONCAT = Kernel(
    name="concat",
    match=by_op("concat"),
    bind=_concat,
    work=op_work("concat"),
    source=_concat_source,
    parts=_concat_parts,
)
SLICE_UPDATE = Kernel(
    name="slice_update",
    match=by_op("slice_update"),
    bind=_slice_update,
    work=op_work("slice_update"),
    source=_slice_source,
    parts=_slice_parts,
)
