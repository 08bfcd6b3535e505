"""Which nodes may become loop bodies, what they cost, and their text in the kernel language.

The text comes from the `LoopBody` of the op table. A function in it, such as `exp(`, becomes the helper of
`lazytensor.runtime.vecmath` for its element type: `exp_f4(`. Integer results are converted to their type, because the
kernel language would widen them, while NumPy wraps around.
"""

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from lazytensor.core.dtype import DType, bool_, float64
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import OPS
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type

INSTRUCTION_HELPERS = frozenset(
    f"{name}_{kind}"
    for name in (
        *(r.helper for r in REDUCTIONS.values() if r.helper),
        *(name for name, op in OPS.items() if op.body is not None and op.body.is_instruction),
    )
    for kind in ("f4", "f8")
)
"""Helpers that are one LLVM instruction. They are in `lazytensor.runtime.intrinsics`."""
_CALL_PATTERN = re.compile(r"\b([a-z_]\w*)(?=\()")


def _types(n: Node) -> list[Type]:
    return [n.type, *(i.type for i in n.inputs)] if isinstance(n.type, Type) else []


def is_pointwise(n: Node) -> bool:
    """Return whether a node is elementwise and can be part of a loop nest.

    Its operation must have a loop body for the widest of its dtype kinds (float, then integer, then boolean), and for
    float64 if that is one of them. Neither an operand nor the result may be empty.
    """
    op = OPS.get(n.op)
    if op is None or op.body is None:
        return False
    types = _types(n)
    if not types or any(t.size == 0 for t in types):
        return False
    if op.body.is_single and any(t.dtype is float64 for t in types):
        return False
    kinds = {t.dtype.kind for t in types}
    # Use the widest kind: `where` has a boolean condition, and a comparison has a boolean result.
    widest = next(kind for kind in "fib" if kind in kinds)
    return widest in op.body.kinds


@functools.cache
def has_function(op: str) -> bool:
    """Return whether the loop body of an operation calls a function.

    A body of operators only has the same rounding in NumPy.
    """
    body = OPS[op].body
    # The name of a function may end with an attribute in braces.
    return body is not None and re.search(r"[\w}]\(", body.text) is not None


def is_reduction(n: Node) -> bool:
    """Return whether a node is a "reduce" that a loop nest can compute as an accumulating store.

    The operand must not be empty, and only "and" and "or" may have a boolean result.
    """
    if n.op != "reduce" or n.inputs[0].type.size == 0:
        return False
    return (n.type.dtype is bool_) == (n.attrs["kind"] in ("and", "or"))


def is_literal(n: Node) -> bool:
    """Return whether a node appears in the text of a nest as a number: a "full", or a constant of one element."""
    return n.op == "full" or (n.op == "const" and n.type.size == 1)


def _is_uniform(n: Node) -> bool:
    return is_literal(n) or (n.op in ("broadcast_in_dim", "reshape") and _is_uniform(n.inputs[0]))


def is_cheap(n: Node) -> bool:
    """Return whether a node may be computed more than once instead of being stored.

    It needs at most one flop per element, and at most one input whose elements differ.
    """
    if OPS[n.op].work(n.type, *(i.type for i in n.inputs), **n.attrs).flops > n.type.size:
        return False
    return sum(not _is_uniform(i) for i in n.inputs) <= 1


def dtype_suffix(dtype: DType) -> str:
    """Return the suffix of a helper's name for a dtype: f4, f8, i8 or b1."""
    return dtype.host.str[1:]


def literal_text(value: Any, dtype: DType) -> str:
    """Return a number as kernel text with its type, such as "np.float32(0.5)". Floating-point values are exact.

    A boolean is "True" or "False". Infinities and NaN are written by NumPy's names.
    """
    if dtype is bool_:
        return repr(bool(value))
    if dtype.kind == "i":
        return f"np.{dtype.host.name}({int(value)})"
    value = float(dtype.host.type(value))
    text = repr(value) if math.isfinite(value) else f"np.{'nan' if value != value else 'inf' if value > 0 else 'NINF'}"
    return f"np.{dtype.host.name}({text.replace('np.NINF', '-np.inf')})"


def _convert(text: str, source: DType, target: DType) -> str:
    if target is bool_:
        return f"({text} != {literal_text(0, source)})" if source is not bool_ else text
    return text if source.host == target.host else f"np.{target.host.name}({text})"


def scalar_text(op: str, dtype: DType, attrs: Mapping[str, Any] | None, texts: list[str], kinds: list[DType]) -> str:
    """Return the kernel text of one operation from the texts and dtypes (`kinds`) of its arguments.

    `dtype` is that of the result, and `attrs` are the attributes of the operation. The text rounds the result if
    `dtype` is a half type, unless the operation is exact. Raise AssertionError for an operation without a loop body.
    """
    if op == "cast":
        text, is_exact = _convert(texts[0], kinds[0], dtype), kinds[0] is dtype
    else:
        body = OPS[op].body
        assert body is not None, f"{op} has no loop body"
        operand = kinds[-1]
        if operand.kind == "i" and body.integer:
            form = body.integer
        else:
            # An attribute may be part of a function's name, so it is substituted before the type suffix is added.
            form = body.text.format("{0}", "{1}", "{2}", **(attrs or {}))
            form = _CALL_PATTERN.sub(lambda m: f"{m.group(1)}_{'f8' if operand is float64 else 'f4'}", form)
        text = form.format(*texts)
        # A bare 1 or 0 would be an int64 and widen float32 operands.
        text = re.sub(r"\bone\b", lambda m: literal_text(1, operand), text)
        text = re.sub(r"([!=]=) 0\)", lambda m: f"{m.group(1)} {literal_text(0, operand)})", text)
        if dtype.kind == "i" and op != "where":
            text = f"np.{dtype.host.name}({text})"
        is_exact = body.is_exact
    return f"round_{dtype.name}({text})" if dtype.is_half and not is_exact else text
