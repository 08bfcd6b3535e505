"""What the cases of kernels that run have in common: draws, and results with the error that they may have.

An error is counted in units of the last place: of the result's type ("own"), and of float32 ("wide") where a kernel
works in float32 whatever its operands are. A unit is epsilon times a scale, which for a sum is the sum of the
magnitudes of its terms: it is what any order of summation can be held to, and what cancels is not in it. References are
float64 on the operands as rounded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from wse_sim.isa.packing import round_values
from wse_sim.kernels import MeshKernel
from wse_sim.layout import Rect

EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
DTYPES = tuple(EPSILON)
LARGEST_PES, LARGEST_EXTENT = 5, 7


@dataclass(frozen=True)
class Expected:
    """A result: its value, and the error it may have."""

    exact: np.ndarray
    scale: np.ndarray | float
    dtype: str
    own: float = 0
    wide: float = 0

    @property
    def bound(self) -> np.ndarray:
        ulp = self.own * EPSILON[self.dtype] + self.wide * EPSILON["float32"]
        return ulp * np.abs(self.scale) + (self.own + self.wide) * SMALLEST[self.dtype]


@dataclass(frozen=True)
class Case:
    kernel: MeshKernel
    values: dict[str, np.ndarray]
    expected: dict[str, Expected]


@dataclass(frozen=True)
class Draw:
    """Draws what the cases have in common."""

    draw: Callable
    dtype: str
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "random", np.random.default_rng(self.draw(st.integers(0, 2**32 - 1))))

    def extent(self) -> int:
        return self.draw(st.integers(1, LARGEST_EXTENT))

    def rect(self, narrowest: int = 1) -> Rect:
        place, side = st.integers(0, 1), st.integers(1, LARGEST_PES)
        width = self.draw(st.integers(narrowest, LARGEST_PES))
        return Rect(self.draw(place), self.draw(place), width, self.draw(side))

    def groups(self, rect: Rect) -> int:
        """Into how many groups each row of PEs is cut."""
        return self.draw(st.integers(1, rect.width))

    def square(self) -> Rect:
        side = self.draw(st.integers(1, LARGEST_PES))
        return Rect(self.draw(st.integers(0, 1)), 0, side, side)

    def numbers(self, *shape: int, dtype: str = "") -> np.ndarray:
        """Of a type, of either sign."""
        return round_values(self.random.standard_normal(shape).astype(np.float32), dtype or self.dtype)

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Values as the type has them."""
        return round_values(values.astype(np.float32), self.dtype)

    def number(self, value: float, dtype: str = "float32") -> float:
        """A constant as an instruction of that type takes it."""
        return float(round_values(np.array([value], np.float32), dtype)[0])


Row = Callable[[Draw], Case]


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


def sums(a: np.ndarray, b: np.ndarray, dtype: str, more: int) -> Expected:
    """A matrix product: each term is rounded as a product and as a sum, half a unit each; `more` partial sums."""
    a, b = wide(a, b)
    return Expected(a @ b, np.abs(a) @ np.abs(b), dtype, own=a.shape[1] + more)
