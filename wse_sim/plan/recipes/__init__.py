"""Recipes: from a kernel name to the phase program that computes it on a rectangle.

A recipe is a function (instr, wiring, rect, machine) -> phase program. It may use fewer PEs than the rectangle has, and
where there are several arrangements it takes the one that the closed forms find fastest. What comes into the rectangle
and leaves it is not its business: the modes add that.
"""

from collections.abc import Callable

from lazytensor.ir.program import Instr
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Phase
from wse_sim.plan.recipes.generic import generic
from wse_sim.plan.recipes.loop_nest import nest
from wse_sim.plan.recipes.matmul import matmul
from wse_sim.plan.recipes.softmax import softmax_cross_entropy
from wse_sim.plan.wiring import Wiring

Recipe = Callable[[Instr, Wiring, Rect, Machine], Phase]

RECIPES: dict[str, Recipe] = {
    "matmul": matmul,
    "nest": nest,
    "softmax_cross_entropy": softmax_cross_entropy,
}


def phase_program(instr: Instr, wiring: Wiring, rect: Rect, machine: Machine) -> Phase:
    """The phase program of `instr`: by its row in RECIPES, or by its work alone if the kernel has none."""
    return RECIPES.get(instr.kernel, generic)(instr, wiring, rect, machine)
