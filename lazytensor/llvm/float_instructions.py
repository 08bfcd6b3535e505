"""LLVM instructions of the functions in `lazytensor.runtime.intrinsics`: floating-point numbers."""

from collections.abc import Sequence

from lazytensor.llvm.function_builder import Function
from lazytensor.llvm.number_types import KINDS, Kind, Unknown, Value

_LLVM: dict[str, str] = {
    **{
        f"{name}_f{n}": f"llvm.{name}"
        for name in ("maximum", "minimum", "sqrt", "floor", "ceil", "trunc")
        for n in (4, 8)
    },
    **{f"{short}_f{n}": f"llvm.{long}" for short, long in (("max", "maximum"), ("min", "minimum")) for n in (4, 8)},
    **{f"{short}_f{n}": f"llvm.{long}" for short, long in (("abs", "fabs"), ("round", "rint")) for n in (4, 8)},
    "fma": "llvm.fmuladd",
    **{f"copysign_f{n}": "llvm.copysign" for n in (4, 8)},
    "largest_f4": "llvm.maxnum",
}
_COUNTS = {"fma": 3} | dict.fromkeys(("max", "min", "maximum", "minimum", "copysign", "largest", "sum"), 2)
"""The number of arguments, if it is not 1, by the name without the type suffix."""
_FLAGS = {"largest_f4": ("nnan", "nsz")}
_BITS = {"bits_f4": "int32", "float_f4": "float32", "bits_f8": "int64", "float_f8": "float64"}


def written(name: str, arguments: Sequence[Value], function: Function) -> Value:
    """Write the instruction of a function of `intrinsics`, and return its result.

    Raise Unknown for an unknown name, and for arguments of the wrong number or type.
    """
    if len(arguments) != _COUNTS.get(name.partition("_")[0], 1):
        raise Unknown(f"{name} with {len(arguments)} arguments")
    if name in _BITS:
        kind = KINDS[_BITS[name]]
        (a,) = arguments
        if a.kind.bits != kind.bits:
            raise Unknown(f"{name} of {a.kind.name}")
        return Value(kind, function.new(f"bitcast {a.kind.llvm} {a.text} to {kind.llvm}"))
    if name == "sum_f4":
        a, b = arguments
        _check_kinds(a.kind, arguments)
        return Value(a.kind, function.new(f"fadd reassoc nsz {a.kind.llvm} {a.text}, {b.text}"))
    if name not in _LLVM:
        raise Unknown(f"a call of {name}")
    return instruction(_LLVM[name], arguments, function, _FLAGS.get(name, ()))


def instruction(name: str, arguments: Sequence[Value], function: Function, flags: Sequence[str] = ()) -> Value:
    """Write a call of an LLVM intrinsic on floating-point numbers of one type, and return its result.

    `flags` are fast-math flags of the call. The intrinsic is declared in `function`. Raise Unknown for other types.
    """
    kind = arguments[0].kind
    full = f"@{name}.f{kind.bits}"
    _check_kinds(kind, arguments)
    function.declarations.add(f"declare {kind.llvm} {full}({', '.join(kind.llvm for _ in arguments)})")
    texts = ", ".join(f"{kind.llvm} {a.text}" for a in arguments)
    return Value(kind, function.new(f"{' '.join(('call', *flags))} {kind.llvm} {full}({texts})"))


def _check_kinds(kind: Kind, arguments: Sequence[Value]) -> None:
    if kind.sort != "f" or any(a.kind is not kind for a in arguments):
        raise Unknown(f"an instruction on {[a.kind.name for a in arguments]}")
