"""Arithmetic that is written as arithmetic: `g * (1 - y * y)` on nodes, and on patterns of nodes.

`==` and `!=` stay Python's identity, because nodes are keys of dictionaries; `ops.elementwise` has `eq` and `ne`.
"""

from typing import Self


class Algebra:
    """The operators of a kind of expression, each a call of `combine` with the name of an operation."""

    __slots__ = ()
    # Without this a NumPy scalar on the left would take the expression apart instead of leaving it to us.
    __array_ufunc__ = None

    def combine(self, name: str, *operands: Self | float) -> Self:
        """The expression `name(*operands)`; a number stands for a constant of the type of the other operand."""
        raise NotImplementedError

    def __neg__(self) -> Self:
        return self.combine("neg", self)

    def __add__(self, other: Self | float) -> Self:
        return self.combine("add", self, other)

    def __radd__(self, other: float) -> Self:
        return self.combine("add", other, self)

    def __sub__(self, other: Self | float) -> Self:
        return self.combine("sub", self, other)

    def __rsub__(self, other: float) -> Self:
        return self.combine("sub", other, self)

    def __mul__(self, other: Self | float) -> Self:
        return self.combine("mul", self, other)

    def __rmul__(self, other: float) -> Self:
        return self.combine("mul", other, self)

    def __truediv__(self, other: Self | float) -> Self:
        return self.combine("div", self, other)

    def __rtruediv__(self, other: float) -> Self:
        return self.combine("div", other, self)

    def __pow__(self, other: Self | float) -> Self:
        return self.combine("pow", self, other)

    def __rpow__(self, other: float) -> Self:
        return self.combine("pow", other, self)

    # Python has no reflected comparisons: `0 < x` arrives here as `x > 0`, and is that operation.
    def __gt__(self, other: Self | float) -> Self:
        return self.combine("gt", self, other)

    def __ge__(self, other: Self | float) -> Self:
        return self.combine("ge", self, other)

    def __lt__(self, other: Self | float) -> Self:
        return self.combine("lt", self, other)

    def __le__(self, other: Self | float) -> Self:
        return self.combine("le", self, other)
