"""The reductions: how values are accumulated over dimensions, by loops, by scatters and along a dimension."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lazytensor.core.dtype import DType


@dataclass(frozen=True)
class Reduction:
    """One way to accumulate.

    `start` is its identity where that is the same for every type; the extremes start from the limits of theirs.
    `text` is one step of it in Python, over "{0}" and "{1}"; `helper` the function of generated code for one step of an
    extreme of floating-point numbers. `cirh` is its keyword there, `gradient` the word in a printed `grad_fn`, `torch`
    its names in PyTorch's scatters.
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
        """True for the largest and the smallest, which no order of the steps changes."""
        return self.ufunc in (np.maximum, np.minimum)

    def identity(self, dtype: DType) -> float:
        """What a total of no elements is in `dtype`."""
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
