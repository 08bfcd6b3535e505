"""Types of numbers in kernel texts, their LLVM names, and conversions between them."""

import struct
from dataclasses import dataclass


class Unknown(Exception):
    """A kernel text has something that the kernel language does not support. `statement` describes where."""

    statement = ""

    def __str__(self) -> str:
        return f"{super().__str__()}{self.statement}"


@dataclass(frozen=True)
class Kind:
    """The type of a number.

    - `name`: its NumPy name.
    - `llvm`: its LLVM name.
    - `sort`: `b` (boolean), `i` (signed), `u` (unsigned), `f` (floating point) or `p` (pointer).
    - `bits`: its size.
    """

    name: str
    llvm: str
    sort: str
    bits: int

    @property
    def stored(self) -> str:
        """Return the LLVM type of an array element. A boolean takes a byte in memory."""
        return "i8" if self.sort == "b" else self.llvm


KINDS = {
    kind.name: kind
    for kind in (
        Kind("bool", "i1", "b", 1),
        *(Kind(f"int{n}", f"i{n}", "i", n) for n in (8, 16, 32, 64)),
        *(Kind(f"uint{n}", f"i{n}", "u", n) for n in (8, 16, 32)),
        Kind("float32", "float", "f", 32),
        Kind("float64", "double", "f", 64),
    )
}
BOOL, INT, SINGLE, DOUBLE = (KINDS[name] for name in ("bool", "int64", "float32", "float64"))
POINTER = Kind("pointer", "ptr", "p", 64)


@dataclass(frozen=True)
class Value:
    """A number: its type, and its name or literal in LLVM."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Array:
    """A flat array: the type of its elements, and the name of the pointer to the first one."""

    kind: Kind
    text: str


def literal(number: bool | int | float, kind: Kind) -> Value:
    """Return a Python number as a literal of the given type. It is rounded to float32, and truncated to an integer
    type.
    """
    if kind.sort == "b":
        return Value(kind, "true" if number else "false")
    if kind.sort != "f":
        return Value(kind, str(int(number)))
    if kind is SINGLE and number == number and abs(number) != float("inf"):
        # LLVM writes a float32 literal as the equal float64.
        number = struct.unpack("<f", struct.pack("<f", number))[0]
    return Value(kind, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")


def common(a: Kind, b: Kind) -> Kind:
    """Return the type of an arithmetic operation on two types.

    Two equal types of floats or booleans give that type. Integers and booleans give int64, and an integer with a float,
    or two different floats, float64.
    """
    if a is b and a.sort in "bf":
        return a
    if "f" not in (a.sort, b.sort):
        return INT
    # An integer and a float32 are both converted to float64.
    return SINGLE if a is b is SINGLE else DOUBLE


def conversion(source: Kind, target: Kind) -> str:
    """Return the LLVM instruction that converts one type to another, or "" if the bits stay the same.

    A float becomes an integer by truncation. For a boolean target use `Function.converted`.
    """
    if source.sort == "f":
        if target.sort == "f":
            return "fpext" if target.bits > source.bits else "fptrunc" if target.bits < source.bits else ""
        return "fptosi" if target.sort == "i" else "fptoui"
    if target.sort == "f":
        return "sitofp" if source.sort == "i" else "uitofp"
    if target.bits == source.bits:
        return ""
    return "trunc" if target.bits < source.bits else "sext" if source.sort == "i" else "zext"
