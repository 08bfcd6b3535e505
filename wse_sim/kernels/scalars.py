"""Pointwise operations of a compiled program as instructions of a core.

Truth values are 1.0 and 0.0. An operation of several instructions is computed in float32 and rounded once. `where`
limits the branch that is not chosen to minus infinity and takes the maximum. So infinities are preserved, but a NaN in
either branch makes the result NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import factorial, log, pi, sqrt

from lazytensor.errors import LazyError
from lazytensor.ir.nest import Nest, Scalar
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory, Operand
from wse_sim.isa.operations import SPECIAL_OPS

GELU_CUBIC, GELU_SCALE = 0.044715, sqrt(2 / pi)
Spare = Sequence[Memory]
"""float32 scratch vectors."""
Emit = Callable[[Builder, Memory, list[Operand], int, Spare], None]
"""A function that appends instructions, of (builder, target, arguments, length, float32 scratch vectors)."""
SPARES = "stuv"
"""Letters of the scratch vectors in steps."""


@dataclass(frozen=True)
class Pointwise:
    """An implementation of a pointwise operation.

    `emit` appends its instructions. `ulp` is the tolerance against NumPy, in units in the last place of the result. For
    gelu, whose tail is a difference of nearly equal numbers, they are those of the argument; for sin and cos, those of
    1. `spares` is the number of scratch vectors that it needs.
    """

    emit: Emit
    ulp: float
    spares: int = 0


def pointwise(nest: Nest, scalar: Scalar) -> Pointwise:
    """Return the implementation of a scalar of a nest, by its operation and attributes; a cast also by its types.

    Raises LazyError for an operation that cores do not have.
    """
    if scalar.op == "cast":
        return _cast(nest.body[scalar.args[0]].dtype.kind, scalar.dtype.kind)
    name = f"{scalar.op} {' '.join(map(str, (scalar.attr or {}).values()))}".strip()
    if name not in POINTWISE:
        raise LazyError(f"cores have no instructions for {name!r}", hint=f"Use one of {', '.join(sorted(POINTWISE))}.")
    return POINTWISE[name]


def _cast(source: str, target: str) -> Pointwise:
    """Return the implementation of a cast from the kind of types `source` to the kind `target`.

    Kinds are "f" floating point, "i" integer and "b" truth value. A float becomes an integer by dropping its fraction,
    and anything but a truth value becomes one by comparing with zero. All other casts only convert the element type.
    """
    if target == "b" and source != "b":
        return _NOT_ZERO
    return _TO_WHOLE if (source, target) == ("f", "i") else POINTWISE["cast"]


def append(build: Builder, op: str, operands: tuple[Operand, ...], length: int) -> None:
    """Append the instruction `op`, with the target and the sources `operands`, for `length` elements.

    `op` is a method of `Builder`, or one of `SPECIAL_OPS`, which have one source.
    """
    if op in SPECIAL_OPS:
        build.special(op, operands[0], operands[1], length)
    else:
        getattr(build, op)(*operands, length)


def append_steps(build: Builder, steps: Sequence[str], named: Mapping[str, Operand], length: int) -> None:
    """Append steps such as "s = greater b a", each one instruction for `length` elements.

    `named` maps names to operands; sources that are not in it are numbers.
    """
    for step in steps:
        to, _, name, *sources = step.split()
        operands = [named[s] if s in named else float(s) for s in sources]
        append(build, name, (named[to], *operands), length)


def _one(name: str, ulp: float = 0) -> Pointwise:
    """Return an implementation by the single instruction `name`, with the arguments in order and the
    tolerance `ulp`.
    """

    def run(build: Builder, target: Memory, arguments: list[Operand], length: int, spare: Spare) -> None:
        append(build, name, (target, *arguments), length)

    return Pointwise(run, ulp)


def _with(name: str, constant: float) -> Pointwise:
    """Return an implementation by the single instruction `name`, whose second source is `constant`."""

    def run(build: Builder, target: Memory, arguments: list[Operand], length: int, spare: Spare) -> None:
        append(build, name, (target, arguments[0], constant), length)

    return Pointwise(run, 0)


def _several(ulp: float, *steps: str) -> Pointwise:
    """Return an implementation by `steps`, as in `append_steps`; the result is s, converted to the target's type.

    a, b, c are the arguments, and s, t, u, v scratch vectors in float32. `ulp` is the tolerance.
    """

    def run(build: Builder, target: Memory, arguments: list[Operand], length: int, spare: Spare) -> None:
        named: dict[str, Operand] = dict(zip("abc", arguments, strict=False)) | dict(zip(SPARES, spare, strict=False))
        append_steps(build, steps, named, length)
        # One rounding at the end, also if the target has 16 bits.
        build.convert(target, named["s"], length)

    return Pointwise(run, ulp, spares=1 + max(SPARES.index(step[0]) for step in steps))


_SIZE = "s = mul a -1", "s = max a s"
_SIGN_BACK = "u = greater 0 a", "u = mul u -2", "u = add u 1", "s = mul t u"
# Adding and subtracting 2 ** 23, from which on float32 has no fractions, rounds. Larger numbers have no fractions.
_SMALLER = "s = mul a -1", "t = mul b -1", "s = max s t", "s = mul s -1"
_NEAREST = "u = greater 8388608 s", "u = mul u 8388608", "t = add s u", "t = sub t u"
_TRUNC = *_SIZE, *_NEAREST, "u = greater t s", "t = sub t u", *_SIGN_BACK
_TO_WHOLE = _several(0, *_TRUNC)
_IS_ANY = "s = greater a 0", "t = greater 0 a", "s = add s t"
_NOT_ZERO = _several(0, *_IS_ANY)
# A quotient with both operands zero would be lost (Kahan): u marks such elements by one, and s replaces them.
_QUOTIENT = (
    *("u = mul t t", "u = greater u 0", "u = sub 1 u", "t = add t u", "t = reciprocal t"),
    *("v = mul v s", "v = mul v t", "u = mul u s", "s = add v u"),
)

_SINE = tuple((-1) ** n / factorial(2 * n + 1) for n in range(1, 7))
_HALF_TURN = 3.140625, 9.67502593994140625e-4, 1.509957990978376432e-7
"""Pi in parts; the first two times a small integer are exact (Cody and Waite)."""
_ROUND = "= add {0} 12582912", "= sub {0} 12582912"
"""Steps that round to the nearest integer, of either sign, below 2 ** 22."""


def _rounded(letter: str) -> tuple[str, ...]:
    return tuple(f"{letter} {step.format(letter)}" for step in _ROUND)


def _wave(start: float, sign: int) -> tuple[str, ...]:
    """Return steps that compute s = sign (-1)^t sin(a - (t + start) pi), where t is the integer nearest to a / pi -
    start.

    So `start` 0 and `sign` 1 give sin(a), and 0.5 and -1 give cos(a).
    """
    return (
        *(f"t = fmac a {1 / pi} {-start}", *_rounded("t")),
        *(
            "u = mul t 0.5",
            *_rounded("u"),
            "u = fmac u -2 t",
            "u = mul u u",
            f"u = mul u {-2 * sign}",
            f"u = add u {sign}",
        ),
        *(
            f"t = add t {start}",
            f"s = fmac t {-_HALF_TURN[0]} a",
            *(f"s = fmac t {-part} s" for part in _HALF_TURN[1:]),
        ),
        *("t = mul s s", f"v = mul t {_SINE[-1]}", f"v = add v {_SINE[-2]}"),
        *(f"v = fmac v t {c}" for c in reversed(_SINE[:-2])),
        *("v = mul v t", "v = fmac v s s", "s = mul v u"),
    )


def _power(build: Builder, target: Memory, arguments: list[Operand], length: int, spare: Spare) -> None:
    """Append target = a ** b, where `arguments` are a and b.

    An exponent that is a constant whole number from 1 to `MOST_FACTORS` takes products. All others take exp(b log(a)),
    which needs a > 0.
    """
    a, b = arguments
    if isinstance(b, float) and b in range(1, MOST_FACTORS + 1):
        build.convert(spare[0], a, length)
        for _ in range(int(b) - 1):
            build.mul(spare[0], spare[0], a, length)
    else:
        build.special("log", spare[0], a, length)
        build.mul(spare[0], spare[0], b, length)
        build.special("exp", spare[0], spare[0], length)
    build.convert(target, spare[0], length)


def _quotient(build: Builder, target: Memory, arguments: list[Operand], length: int, spare: Spare) -> None:
    """Append target = a / b, where `arguments` are a and b, as a product with the reciprocal of b.

    The reciprocal of a nonzero constant is computed when the program is built.
    """
    a, b = arguments
    if isinstance(b, float) and b:
        build.mul(spare[0], a, 1 / b, length)
    else:
        build.special("reciprocal", spare[0], b, length)
        build.mul(spare[0], a, spare[0], length)
    build.convert(target, spare[0], length)


MOST_FACTORS = 8
"""Maximum exponent of a power that is computed by products."""

_NEAR = (0.12837923, -0.376126379, 0.112837829, -0.0268654451, 5.22107491e-3, -8.48471129e-4, 1.12705435e-4)
_FAR = (1.88036924e-4, -1.12957835, -0.633219898, -0.108418554, 0.0252082404, -4.20455635e-3, 4.41335316e-4)
_LAST = -9.68013501e-6, -2.16867666e-5
_ERF_OF_1 = 0.842700793
# The polynomials of the host's erf(|s|): near 0 it is u (1 + P(u u)), from 1 on 1 - exp(u Q(u)). The second adds a
# negative amount to erf(1) below 1, so the two parts need no choice. The sign is that of a.
_ERF = (
    *("u = mul s -1", "u = max u s", "u = mul u -1", "u = max u -4", "u = mul u -1"),
    *(f"t = mul u {_LAST[1]}", f"t = add t {_FAR[-1]}"),
    *(f"t = fmac t u {c}" for c in reversed(_FAR[:-1])),
    *("t = exp t", "t = mul t -1", f"t = add t {1 - _ERF_OF_1}", "t = max t 0"),
    *("u = mul u -1", "u = max u -1", "u = mul u -1"),
    *("s = mul u u", f"v = mul s {_LAST[0]}", f"v = add v {_NEAR[-1]}"),
    *(f"v = fmac v s {c}" for c in reversed(_NEAR[:-1])),
    *("u = fmac v u u", "u = add u t"),
    *("s = greater a 0", "t = greater 0 a", "s = sub s t", "s = mul s u"),
)

POINTWISE: dict[str, Pointwise] = {
    **{name: _one(name) for name in ("add", "sub", "mul")},
    **{name: _one(name, 4) for name in ("exp", "log", "tanh")},
    **{name: _one(name, 0.5) for name in ("sqrt", "reciprocal")},
    "maximum": _one("max"),
    "gt": _one("greater"),
    "cast": _one("convert"),
    "neg": _with("mul", -1.0),
    "relu": _with("max", 0.0),
    "logical_and": _one("mul"),
    "logical_or": _one("max"),
    "lt": _several(0, "s = greater b a"),
    "ge": _several(0, "s = greater b a", "s = sub 1 s"),
    "le": _several(0, "s = greater a b", "s = sub 1 s"),
    "ne": _several(0, "s = greater a b", "t = greater b a", "s = add s t"),
    "eq": _several(0, "s = greater a b", "t = greater b a", "s = add s t", "s = sub 1 s"),
    "abs": _several(0, "s = mul a -1", "s = max a s"),
    "minimum": _several(0, *_SMALLER),
    "div": Pointwise(_quotient, 1.5, spares=1),
    "silu": _several(5, "s = mul a -1", "s = exp s", "s = add s 1", "s = reciprocal s", "s = mul s a"),
    "gelu none": _several(8, f"s = mul a {sqrt(0.5)}", *_ERF, "s = add s 1", "s = mul s 0.5", "s = mul s a"),
    "erf": _several(4, "s = mul a 1", *_ERF),
    "gelu tanh": _several(
        8,
        "s = mul a a",
        f"s = fmac s {GELU_CUBIC} 1",
        "s = mul s a",
        f"s = mul s {GELU_SCALE}",
        "s = tanh s",
        "s = fmac s 0.5 0.5",
        "s = mul s a",
    ),
    "sign": _several(0, "s = greater a 0", "t = greater 0 a", "s = sub s t"),
    "trunc": _TO_WHOLE,
    "round": _several(0, *_SIZE, *_NEAREST, *_SIGN_BACK),
    "floor": _several(0, *_TRUNC, "t = greater s a", "s = sub s t"),
    "ceil": _several(0, *_TRUNC, "t = greater a s", "s = add s t"),
    "logical_not": _several(0, *_IS_ANY, "s = sub 1 s"),
    "logical_xor": _several(
        0, *_IS_ANY, "t = greater b 0", "u = greater 0 b", "t = add t u", "s = sub s t", "s = mul s s"
    ),
    # A number that is not finite, times zero, is NaN, and no comparison with NaN is true.
    "isfinite": _several(0, "s = mul a 0", "s = greater 1 s"),
    "isnan": _several(
        0,
        *("s = max a -3e38", "s = mul s -1", "s = max s -3e38", "s = mul s 0", "s = greater 1 s", "s = sub 1 s"),
    ),
    "clamp": _several(0, "s = max a b", "s = mul s -1", "t = mul c -1", "s = max s t", "s = mul s -1"),
    "where_gt": _one("max"),
    "where_ge": _one("max"),
    "where_lt": _several(0, *_SMALLER),
    "where_le": _several(0, *_SMALLER),
    "log2": _several(5, "s = log a", f"s = mul s {1 / log(2)}"),
    "log1p": _several(6, "u = add a 1", "t = sub u 1", "v = log u", "s = mul a 1", *_QUOTIENT),
    "expm1": _several(8, "s = max a -80", "u = exp s", "t = log u", "v = sub u 1", *_QUOTIENT),
    "sin": _several(4, *_wave(0.0, 1)),
    "cos": _several(4, *_wave(0.5, -1)),
    "pow": Pointwise(_power, 32, spares=1),
    "rsqrt": _several(1.5, "s = sqrt a", "s = reciprocal s"),
    "sigmoid": _several(4, "s = mul a -1", "s = exp s", "s = add s 1", "s = reciprocal s"),
    "where": _several(
        0,
        *("s = sub a 0.5", "s = mul s 3e38", "s = mul s 10"),  # plus or minus infinity
        *("t = mul c -1", "t = max t s", "t = mul t -1"),  # the smaller of c and -s
        *("s = mul s -1", "u = mul b -1", "u = max u s", "u = mul u -1"),  # the smaller of b and s
        "s = max u t",
    ),
}
"""Name in the op table, with its attributes -> implementation on a core."""
