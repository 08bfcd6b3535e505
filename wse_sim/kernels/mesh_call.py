"""Kernel calls: a mesh kernel, how its operands are made from arrays, and where its results are written."""

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
"""A sequence of NumPy arrays."""
Reading = Callable[[Phase, np.ndarray], np.ndarray]
"""A function from a phase program and the memories before it to the memories after it."""


@dataclass(frozen=True)
class Cores:
    """The PEs on which kernels run: a rectangle of a machine."""

    rect: Rect
    machine: Machine


@dataclass(frozen=True)
class MeshCall:
    """A kernel that runs `rounds` times, with functions that convert operands and results.

    `give(arrays, number)` returns the kernel's operands, by name, in round `number`. `take(results, arrays, number)`
    writes the kernel's results to the arrays.
    """

    kernel: MeshKernel
    give: Callable[[Arrays, int], Mapping[str, np.ndarray]]
    take: Callable[[Mapping[str, np.ndarray], Arrays, int], None]
    rounds: int = 1

    def run(self, reads: Arrays, writes: Arrays, reading: Reading) -> None:
        """Run all rounds and fill the arrays `writes`, which may be among `reads`.

        `reading` executes the phase program of each round, on new memories.
        """
        for number in range(self.rounds):
            memory = reading(self.kernel.phase, scatter(self.kernel, self.give(reads, number)))
            self.take(gather(self.kernel, memory), writes, number)


def single(
    kernel: MeshKernel, give: Callable[[Arrays], Mapping[str, np.ndarray]], names: Sequence[str] = (), dim: int = -1
) -> MeshCall:
    """Return the `MeshCall` of a kernel that runs once.

    `give` returns its operands by name. The written arrays get the results called `names`, by default the kernel's
    results in order; further results are dropped. The last dimension of a result becomes dimension `dim` of the array.
    """

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        for array, name in zip(writes, names or [placed.name for placed in kernel.results], strict=False):
            turned = array if dim == -1 else np.moveaxis(array, dim, -1)
            turned[...] = results[name].reshape(turned.shape)

    return MeshCall(kernel, lambda arrays, number: give(arrays), take)


def operation(instr: Instr) -> str:
    """Return the operation of an instruction: the name of its library kernel, or of the operation that it calls."""
    return str(instr.attrs["op"]) if instr.kernel == "call" else instr.kernel


def attributes(instr: Instr) -> Mapping[str, Any]:
    """Return the attributes of the operation of an instruction, which may be a library kernel or a call of
    an operation.
    """
    attrs: Mapping[str, Any] = instr.attrs.get("attrs", {}) if instr.kernel == "call" else instr.attrs
    return attrs
