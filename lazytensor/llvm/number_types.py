"""Kinds: the numbers of kernel texts, what LLVM calls them, and how one becomes another."""

import struct
from dataclasses import dataclass


class Unknown(Exception):
    """A text has something that the kernel language does not have; `statement` is where."""

    statement = ""

    def __str__(self) -> str:
        return f"{super().__str__()}{self.statement}"


@dataclass(frozen=True)
class Kind:
    """The type of a number: its NumPy name, its name in LLVM, and `b`, `i`, `u` or `f` with its bits."""

    name: str
    llvm: str
    sort: str
    bits: int

    @property
    def stored(self) -> str:
        """What an element of an array is in LLVM: truth takes a byte."""
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
    """A number: its kind, and its name or its literal in LLVM."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Array:
    """A flat array: the kind of its elements, and the name of the pointer to the first."""

    kind: Kind
    text: str


def literal(number: bool | int | float, kind: Kind) -> Value:
    """A number that stands in the text."""
    if kind.sort == "b":
        return Value(kind, "true" if number else "false")
    if kind.sort != "f":
        return Value(kind, str(int(number)))
    if kind is SINGLE and number == number and abs(number) != float("inf"):
        # LLVM writes numbers of single precision as the double that is equal to one.
        number = struct.unpack("<f", struct.pack("<f", number))[0]
    return Value(kind, f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}")


def common(a: Kind, b: Kind) -> Kind:
    """The kind in which two numbers meet, whole numbers as int64."""
    if a is b and a.sort in "bf":
        return a
    if "f" not in (a.sort, b.sort):
        return INT
    # A whole number beside a float32 makes float64 of both.
    return SINGLE if a is b is SINGLE else DOUBLE


def conversion(source: Kind, target: Kind) -> str:
    """The instruction that makes one kind another; none where the bits are the same."""
    if source.sort == "f":
        if target.sort == "f":
            return "fpext" if target.bits > source.bits else "fptrunc" if target.bits < source.bits else ""
        return "fptosi" if target.sort == "i" else "fptoui"
    if target.sort == "f":
        return "sitofp" if source.sort == "i" else "uitofp"
    if target.bits == source.bits:
        return ""
    return "trunc" if target.bits < source.bits else "sext" if source.sort == "i" else "zext"
