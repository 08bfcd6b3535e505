"""Python operators for expressions, such as `g * (1 - y * y)` on graph nodes and on patterns.

`==` and `!=` keep Python's identity, because nodes are dict keys; use `eq` and `ne` of `ops.elementwise` instead.
"""

from typing import Self


class Algebra:
    """Base class with arithmetic and comparison operators.

    Each operator calls `combine` with the name of an operation.
    """

    __slots__ = ()
    # Makes a NumPy scalar on the left use our reflected operators.
    __array_ufunc__ = None

    def combine(self, name: str, *operands: Self | float) -> Self:
        """Return the expression `name(*operands)`. A number becomes a constant of the type of the other operand."""
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

    # Python has no reflected comparisons: `0 < x` calls `x > 0`.
    def __gt__(self, other: Self | float) -> Self:
        return self.combine("gt", self, other)

    def __ge__(self, other: Self | float) -> Self:
        return self.combine("ge", self, other)

    def __lt__(self, other: Self | float) -> Self:
        return self.combine("lt", self, other)

    def __le__(self, other: Self | float) -> Self:
        return self.combine("le", self, other)
