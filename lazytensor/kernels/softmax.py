"""Softmax over the last dimension, and softmax with cross entropy: one pass over each row, in the kernel language.

Method: subtract the row's maximum, so that no exponential overflows. The gradient of the loss with respect to the
logits is softmax(logits) - onehot(label) (Bridle 1990), which costs nothing extra once the exponentials are computed.
"""

from collections.abc import Callable
from textwrap import indent

from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Arrays, Attrs, Bind, Kernel, Match, Source, Step, op_work
from lazytensor.kernels.lane_sums import LANES, sum_text
from lazytensor.kernels.loop_parts import SPECIAL, Bounds, bounds
from lazytensor.kernels.numpy_call import CALL

_IMPORTS = """\
import numpy as np
from lazytensor.runtime.language import typed
from lazytensor.runtime.intrinsics import largest_f4
from lazytensor.runtime.lanes import lanes_add
from lazytensor.runtime.vecmath import exp_below_f4, log_f4
"""

# For a row with a NaN, `top` may be any number: the sum of the exponentials is NaN, and so is the whole row. Row
# numbers are zero-extended from 32 bits, so that LLVM can prove that no index is negative and generates no tests.
_LONG_ROW = """\
    l0 = np.empty({lanes}, np.float32)
    for row in range(np.int64(start), np.int64(end)):
        r = np.int64(np.uint32(row))
        at = r * {columns}
        top = np.float32(-np.inf)
        for c in range({columns}):
            top = largest_f4(top, x[at + c])
        {keep}
{sum}\
        total = s0_2
        scale = np.float32(1) / total
"""

# A block of rows fits the first-level cache. Its exponentials are one long loop, because a row of ten classes is too
# short for vector registers.
_BLOCK_ELEMENTS = 4096
_SHORT = 64
"""Rows with fewer elements than this are computed in blocks: twice four vectors of eight elements."""

_SHORT_ROWS = """\
    l0 = np.empty({lanes}, np.float32)
    for first in range(np.int64(start), np.int64(end), {block}):
        last = min(first + {block}, np.int64(end))
        for r in range(first, last):
            at = np.int64(np.uint32(r)) * {columns}
            top = np.float32(-np.inf)
            for c in range({columns}):
                top = largest_f4(top, x[at + c])
            for c in range({columns}):
                y[at + c] = x[at + c] - top
            {keep}
        at = np.int64(np.uint32(first)) * {columns}
        for k in range((last - first) * {columns}):
            y[at + k] = exp_below_f4(y[at + k])
        for r in range(first, last):
            at = np.int64(np.uint32(r)) * {columns}
{sum}\
            total = s0_3
            scale = np.float32(1) / total
"""

_SOFTMAX = """\
@typed("void(uint32, uint32, float32[::1], float32[::1])")
def kernel(start, end, x, y):
"""
_SCALE = """\
for c in range({columns}):
    y[at + c] *= scale
"""

_LOSS = """\
@typed("void(uint32, uint32, float32[::1], int64[::1], float32[::1], float32[::1])")
def kernel(start, end, x, labels, loss, y):
"""
_GRADIENT = """\
label = labels[r]
if label < 0 or label >= {columns}:
    scale = np.float32(np.nan)
    loss[r] = scale
    for c in range({columns}):
        y[at + c] = scale
else:
    loss[r] = log_f4(total) - loss[r]
    for c in range({columns}):
        y[at + c] *= scale
    y[at + label] -= np.float32(1)
"""
_KEEP = "loss[r] = x[at + min(max(labels[r], 0), {last_column})] - top"


def _match(name: str) -> Callable[[Node], Match | None]:
    def match(n: Node) -> Match | None:
        # The text computes in float32, in which half types are stored too.
        if n.op != name or n.inputs[0].type.dtype.host != float32.host or n.inputs[0].type.size == 0:
            return None
        # Rows have to be contiguous.
        if name == "softmax" and n.attrs["dim"] % len(n.type.shape) != len(n.type.shape) - 1:
            return None
        return Match(n.inputs, n.attrs)

    return match


def _source(head: str, end: str, keep: str = "") -> Source:
    """Return a function that generates the kernel text from attributes and types.

    The text consists of `head`, the loops over rows, and `end`, which completes a row. `keep` is a line that runs after
    the maximum of a row is found. Rows below _SHORT columns are computed several at a time.
    """

    def source(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> str:
        columns = ins[0].shape[-1]
        is_short = columns < _SHORT
        block = max(1, _BLOCK_ELEMENTS // columns)
        if is_short:
            rows, sum = _SHORT_ROWS, sum_text(columns, 3, (), "y[at + k]", reads_once=False)
        else:
            exponential = ("e = exp_below_f4(x[at + k] - top)", "y[at + k] = e")
            rows, sum = _LONG_ROW, sum_text(columns, 2, exponential, "e", reads_once=True)
        kept = keep.format(last_column=columns - 1)
        rows = rows.format(columns=columns, block=block, keep=kept, sum=sum, lanes=LANES)
        return _IMPORTS + "\n\n" + head + rows + indent(end.format(columns=columns), " " * (12 if is_short else 8))

    return source


def _parts(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Bounds:
    """Return the bounds of the parts, which are rows."""
    return bounds(ins[0].size // ins[0].shape[-1], (SPECIAL + 4) * ins[0].size)


def _bind(name: str) -> Bind:
    def bind(attrs: Attrs, outs: Arrays, ins: Arrays) -> Step:
        return CALL.bind({"op": name, "attrs": attrs}, outs, ins)

    return bind


SOFTMAX = Kernel(
    name="softmax",
    match=_match("softmax"),
    bind=_bind("softmax"),
    work=op_work("softmax"),
    source=_source(_SOFTMAX, _SCALE),
    parts=_parts,
    benefit=2,
    is_by_rows=True,
)
SOFTMAX_CROSS_ENTROPY = Kernel(
    name="softmax_cross_entropy",
    match=_match("softmax_cross_entropy"),
    bind=_bind("softmax_cross_entropy"),
    work=op_work("softmax_cross_entropy"),
    source=_source(_LOSS, _GRADIENT, _KEEP),
    parts=_parts,
    benefit=3,
    is_by_rows=True,
)
