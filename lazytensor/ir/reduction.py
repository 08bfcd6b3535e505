"""The reductions (sum, product, maximum, minimum, and, or) that loops, scatters and reducing operations use."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lazytensor.core.dtype import DType


@dataclass(frozen=True)
class Reduction:
    """One way to accumulate values.

    - `name`, `ufunc`: the name in loop nests, and the NumPy function.
    - `text`: one accumulation step as a Python expression in "{0}" and "{1}".
    - `start`: the identity, if it is the same for all types; None for maximum and minimum.
    - `helper`: the function of generated code for one step of a floating-point maximum or minimum.
    - `cirh`: its keyword in CIRH.
    - `gradient`: its word in a printed `grad_fn`.
    - `torch`: its names in PyTorch's scatter functions.
    """

    name: str
    ufunc: np.ufunc
    text: str
    start: float | None = None
    helper: str = ""
    cirh: str = ""
    gradient: str = "Reduce"
    torch: tuple[str, ...] = ()

    @property
    def is_extreme(self) -> bool:
        """Whether it is maximum or minimum, whose result does not depend on the order of the steps."""
        return self.ufunc in (np.maximum, np.minimum)

    def identity(self, dtype: DType) -> float:
        """Return the result of reducing no elements of type `dtype`: the start value if the reduction has one.

        Otherwise a maximum gives the lowest value of the type and a minimum the highest: an infinity for floats, an
        exact int for integers, and a bool for bool.
        """
        if self.start is not None:
            return self.start
        is_lowest = self.ufunc is np.maximum
        if dtype.kind == "f":
            return float("-inf" if is_lowest else "inf")
        if dtype.kind == "b":
            return not is_lowest
        limits = np.iinfo(dtype.host)
        return int(limits.min if is_lowest else limits.max)


REDUCTIONS: Mapping[str, Reduction] = {
    r.name: r
    for r in (
        Reduction(
            name="add",
            ufunc=np.add,
            text="{0} + {1}",
            start=0,
            cirh="ADD",
            gradient="Sum",
            torch=("sum", "add"),
        ),
        Reduction(
            name="mul",
            ufunc=np.multiply,
            text="{0} * {1}",
            start=1,
            cirh="MUL",
            gradient="Prod",
            torch=("prod", "multiply"),
        ),
        Reduction(
            name="maximum",
            ufunc=np.maximum,
            text="max({0}, {1})",
            helper="max",
            cirh="MAX",
            gradient="Amax",
            torch=("amax",),
        ),
        Reduction(
            name="minimum",
            ufunc=np.minimum,
            text="min({0}, {1})",
            helper="min",
            cirh="MIN",
            gradient="Amin",
            torch=("amin",),
        ),
        Reduction(name="and", ufunc=np.logical_and, text="{0} & {1}", start=True, cirh="AND"),
        Reduction(name="or", ufunc=np.logical_or, text="{0} | {1}", start=False, cirh="OR"),
    )
}
