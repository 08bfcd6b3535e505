"""Generate the reductions of lanes that `lazytensor.runtime.lanes` defines, as vector instructions."""

from collections.abc import Sequence

from lazytensor.llvm.function_builder import Function
from lazytensor.llvm.number_types import Array, Unknown, Value

GROUP = 16
"""Lanes in one LLVM vector. LLVM maps it to as many registers as the processor needs."""
_STEPS = {"lanes_add": "fadd", "lanes_mul": "fmul", "lanes_maximum": "llvm.maximum", "lanes_minimum": "llvm.minimum"}


def total(name: str, arguments: Sequence[Value | Array], function: Function) -> Value:
    """Write the reduction `name` of an array of lanes, by halves, and return its result.

    `arguments` are the array and the number of lanes, a literal multiple of GROUP. Raise Unknown for other arguments.
    """
    lanes, count = arguments
    if not isinstance(lanes, Array) or not isinstance(count, Value) or lanes.kind.sort != "f" or name not in _STEPS:
        raise Unknown(f"{name} of a value that is not an array of lanes")
    kind = lanes.kind.llvm
    vectors = []
    for k in range(0, int(count.text), GROUP):
        place = function.new(f"getelementptr {kind}, ptr {lanes.text}, i64 {k}")
        vectors.append(function.new(f"load <{GROUP} x {kind}>, ptr {place}, align 64"))
    while len(vectors) > 1:
        half = 1 << ((len(vectors) - 1).bit_length() - 1)
        pairs = zip(vectors, vectors[half:], strict=False)
        vectors[: len(vectors) - half] = [_step(name, lanes, GROUP, a, b, function) for a, b in pairs]
        del vectors[half:]
    (vector,), width = vectors, GROUP
    while width > 1:
        width //= 2
        low, high = (_part(vector, lanes, 2 * width, first, width, function) for first in (0, width))
        vector = _step(name, lanes, width, low, high, function)
    return Value(lanes.kind, function.new(f"extractelement <1 x {kind}> {vector}, i64 0"))


def _part(vector: str, lanes: Array, width: int, first: int, count: int, function: Function) -> str:
    """Write the extraction of `count` elements of a vector of `width`, from element `first` on; return its name."""
    places = ", ".join(f"i32 {k}" for k in range(first, first + count))
    whole = f"<{width} x {lanes.kind.llvm}>"
    return function.new(f"shufflevector {whole} {vector}, {whole} poison, <{count} x i32> <{places}>")


def _step(name: str, lanes: Array, width: int, a: str, b: str, function: Function) -> str:
    step, vector = _STEPS[name], f"<{width} x {lanes.kind.llvm}>"
    if not step.startswith("llvm."):
        return function.new(f"{step} {vector} {a}, {b}")
    full = f"@{step}.v{width}f{lanes.kind.bits}"
    function.declarations.add(f"declare {vector} {full}({vector}, {vector})")
    return function.new(f"call {vector} {full}({vector} {a}, {vector} {b})")
