"""A kernel call: a kernel that runs, what it is given from arrays and where its results go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.ir.program import Instr
from wse_sim.kernels.kernel import MeshKernel, gather, scatter
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Phase

Arrays = Sequence[np.ndarray]
Reading = Callable[[Phase, np.ndarray], np.ndarray]
"""A phase program and the memories before it -> the memories after it."""


@dataclass(frozen=True)
class Cores:
    """Where kernels run: a rectangle of a machine."""

    rect: Rect
    machine: Machine


@dataclass(frozen=True)
class MeshCall:
    """A kernel that runs `rounds` times, what it is given from the arrays that are read, and where its results go.

    `give` and `take` get the number of the round last.
    """

    kernel: MeshKernel
    give: Callable[[Arrays, int], Mapping[str, np.ndarray]]
    take: Callable[[Mapping[str, np.ndarray], Arrays, int], None]
    rounds: int = 1

    def run(self, reads: Arrays, writes: Arrays, reading: Reading) -> None:
        """Fill the arrays `writes`, which may be among those that are read."""
        for number in range(self.rounds):
            memory = reading(self.kernel.phase, scatter(self.kernel, self.give(reads, number)))
            self.take(gather(self.kernel, memory), writes, number)


def single(
    kernel: MeshKernel, give: Callable[[Arrays], Mapping[str, np.ndarray]], names: Sequence[str] = (), dim: int = -1
) -> MeshCall:
    """Return the call of a kernel that runs once.

    The arrays written are the results called `names`, by default the kernel's first ones. Dimension `dim` of an array
    is the last one of the result.
    """

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        for array, name in zip(writes, names or [placed.name for placed in kernel.results], strict=False):
            turned = array if dim == -1 else np.moveaxis(array, dim, -1)
            turned[...] = results[name].reshape(turned.shape)

    return MeshCall(kernel, lambda arrays, number: give(arrays), take)


def operation(instr: Instr) -> str:
    """The library kernel of an instruction, or the operation that is called by its NumPy meaning."""
    return str(instr.attrs["op"]) if instr.kernel == "call" else instr.kernel


def attributes(instr: Instr) -> Mapping[str, Any]:
    """Those of the operation."""
    attrs: Mapping[str, Any] = instr.attrs.get("attrs", {}) if instr.kernel == "call" else instr.attrs
    return attrs
