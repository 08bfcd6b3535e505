"""Which pointwise operations may become loop bodies, what they cost, and how one is spelled for Numba.

The spelling starts from the `scalar` template of the op table. A function in it, such as `exp(`, becomes the helper of
`lazytensor.runtime.vecmath` for its element type: `exp_f4(`. Integer results are wrapped in their type, because Numba
would widen them where NumPy wraps around.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from lazytensor.dtype import DType, bool_, float64
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops.op import OPS

HELPERS = frozenset(
    "exp log sin cos tan tanh sigmoid sqrt rsqrt abs sign floor ceil trunc round relu erf log1p expm1 log2 pow fmod "
    "atan2 maximum minimum gelu_none gelu_tanh".split()
)
INSTRUCTIONS = frozenset(
    f"{name}_{kind}"
    for name in "sum product fence max min maximum minimum sqrt abs floor ceil trunc round".split()
    for kind in ("f4", "f8")
)
_EXACT = frozenset("where neg abs relu maximum minimum clamp sign floor ceil trunc round".split())
_INTEGER = frozenset("add sub mul neg abs maximum minimum clamp sign where cast".split())
_BOOLEAN = frozenset("where cast eq ne logical_and logical_or logical_xor logical_not".split())
_COMPARE = frozenset("gt ge lt le eq ne logical_and logical_or logical_xor logical_not".split())
_BY_ATTRIBUTE = {"gelu": lambda attrs: f"gelu_{attrs['approximate']}({{0}})"}
_INTEGER_HELPERS = {"maximum": "max", "minimum": "min", "abs": "abs", "sign": "sign_i"}
_CALLED = re.compile(r"\b([a-z_]\w*)(?=\()")


def _template(op: str, attrs: Mapping[str, Any]) -> str:
    return _BY_ATTRIBUTE[op](attrs) if op in _BY_ATTRIBUTE else OPS[op].scalar


def _types(n: Node) -> list[Type]:
    return [n.type, *(i.type for i in n.inputs)] if isinstance(n.type, Type) else []


def is_pointwise(n: Node) -> bool:
    """True where a node may be computed inside a loop nest."""
    if n.op not in _BY_ATTRIBUTE and not (n.op in OPS and OPS[n.op].scalar):
        return False
    types = _types(n)
    if not types or any(t.size == 0 for t in types):
        return False
    kinds = {t.dtype.kind for t in types[1:]} | {n.type.dtype.kind}
    if n.op == "cast" or n.op == "where":
        return True
    if "f" in kinds:
        return all(name in HELPERS for name in _CALLED.findall(_template(n.op, n.attrs)))
    return n.op in (_INTEGER | _COMPARE if "i" in kinds else _BOOLEAN)


def is_reduction(n: Node) -> bool:
    """True where a node may be the accumulating store of a loop nest."""
    if n.op != "reduce" or n.inputs[0].type.size == 0:
        return False
    return (n.type.dtype is bool_) == (n.attrs["kind"] in ("and", "or"))


def is_literal(n: Node) -> bool:
    """True for what stands in the text of a nest as a number."""
    return n.op == "full" or (n.op == "const" and n.type.size == 1)


def _is_uniform(n: Node) -> bool:
    return is_literal(n) or (n.op in ("broadcast_in_dim", "reshape") and _is_uniform(n.inputs[0]))


def is_cheap(n: Node) -> bool:
    """The rule for computing a node twice: at most one flop, and no more reads than its stored value would cost."""
    if n.op == "gelu" or OPS[n.op].work(n.type, *(i.type for i in n.inputs), **n.attrs).flops > n.type.size:
        return False
    return sum(not _is_uniform(i) for i in n.inputs) <= 1


def suffix(dtype: DType) -> str:
    """The mark of a helper's variant: f4, f8, i8, b1."""
    return dtype.host.str[1:]


def literal(value: Any, dtype: DType) -> str:
    """A number as typed text; float32 keeps its exact value."""
    if dtype is bool_:
        return repr(bool(value))
    if dtype.kind == "i":
        return f"np.{dtype.host.name}({int(value)})"
    value = float(dtype.host.type(value))
    text = repr(value) if math.isfinite(value) else f"np.{'nan' if value != value else 'inf' if value > 0 else 'NINF'}"
    return f"np.{dtype.host.name}({text.replace('np.NINF', '-np.inf')})"


def _convert(text: str, source: DType, target: DType) -> str:
    if target is bool_:
        return f"({text} != {literal(0, source)})" if source is not bool_ else text
    return text if source.host == target.host else f"np.{target.host.name}({text})"


def spell(op: str, dtype: DType, attrs: Mapping[str, Any] | None, texts: list[str], kinds: list[DType]) -> str:
    """The Numba text of one scalar from the texts and types of its arguments, rounded if `dtype` is a half type."""
    if op == "cast":
        made = _convert(texts[0], kinds[0], dtype)
        exact = kinds[0] is dtype
    else:
        operand = kinds[-1]
        form = _CALLED.sub(lambda m: _helper(m.group(1), operand), _template(op, attrs or {}))
        made = re.sub(r"\bone\b", lambda m: literal(1, operand), form.format(*texts))
        made = re.sub(r"([!=]=) 0\)", lambda m: f"{m.group(1)} {literal(0, operand)})", made)
        if dtype.kind == "i" and op != "where":
            made = f"np.{dtype.host.name}({made})"
        exact = op in _EXACT
    return f"round_{dtype.name}({made})" if dtype.is_half and not exact else made


def _helper(name: str, dtype: DType) -> str:
    if dtype.kind == "f":
        return f"{name}_{'f8' if dtype is float64 else 'f4'}"
    return _INTEGER_HELPERS[name]
