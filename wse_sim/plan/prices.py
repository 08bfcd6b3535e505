"""What kernels take on a rectangle, priced once for all that are equal: the layers of a deep model are few kinds.

Two kernels are equal if they have the same name, attributes, operand types and loops, and the same operands in place.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.plan.recipes import phase_program
from wse_sim.plan.wiring import Wiring
from wse_sim.price.cost import FREE, Cost, cost


def _extents(attrs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Attributes that a price may depend on: the number of a draw says which random bits, and not how many."""
    inner = {name: _extents(value) if isinstance(value, Mapping) else value for name, value in attrs.items()}
    return [(name, inner[name]) for name in sorted(inner) if name != "call"]


class Prices:
    """Costs on one machine. A kernel's kind is a number, equal for equal kernels of any program."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self._kinds: dict[Any, int] = {}
        self._costs: dict[tuple[int, int, int], Cost] = {}

    def kind(self, wiring: Wiring, i: int) -> int:
        """The number of the kind of kernel `i`."""
        instr = wiring.program.instrs[i]
        # What stays in place decides the arrangement; the update sweep has its operands where they are.
        reads = tuple((wiring.type(b), b in wiring.resident) for b in instr.reads)
        # Attributes are names, numbers and lists of them: their text tells them apart, and has a hash.
        attrs = repr(_extents(instr.attrs))
        writes = tuple(wiring.type(b) for b in instr.writes)
        key = (
            instr.kernel,
            wiring.precision_level,
            instr.direction == "update",
            reads,
            writes,
            attrs,
            instr.nest.key if instr.nest is not None else None,
        )
        return self._kinds.setdefault(key, len(self._kinds))

    def kernel(self, wiring: Wiring, i: int, width: int, height: int) -> Cost:
        """Cost of kernel `i` for the whole batch on a rectangle of that size."""
        key = self.kind(wiring, i), width, height
        if key not in self._costs:
            # Where a rectangle stands makes no difference to a price.
            phase = phase_program(wiring.program.instrs[i], wiring, Rect(0, 0, width, height), self.machine)
            self._costs[key] = cost(phase, self.machine)
        return self._costs[key]

    def kernels(self, wiring: Wiring, kernels: Sequence[int], width: int, height: int) -> Cost:
        """Costs of `kernels`, one after the other."""
        total = FREE
        for i in kernels:
            total = total.then(self.kernel(wiring, i, width, height))
        return total
