"""Recipes: from an instruction to the kernel that computes it on a rectangle.

A recipe is a function (instr, dataflow, rect, machine) -> kernel. It says what is computed; the arrangement and the
tile are chosen by the kernel's own room, and the kernel's phase program is what simulated cores run. It may use fewer
PEs than the rectangle has. What comes into the rectangle and leaves it is not its business: the modes add that.
"""

from collections.abc import Callable

from lazytensor.ir.program import Instr
from wse_sim.kernels.kernel import MeshKernel
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Phase
from wse_sim.planner.attention_blocks import ATTENTION_KERNELS
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.attention_block import make_attention_kernel
from wse_sim.planner.kernel_selection.matmul import make_matmul_kernel
from wse_sim.planner.kernel_selection.simulated_kernels import make_simulated_kernel

KernelRecipe = Callable[[Instr, Dataflow, Rect, Machine], MeshKernel]

RECIPES: dict[str, KernelRecipe] = {
    "matmul": make_matmul_kernel,
    **dict.fromkeys(ATTENTION_KERNELS, make_attention_kernel),
}
"""Kernel -> its recipe, where there is a choice of arrangements; all others run as the mesh's calls do."""


def select_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """The kernel of `instr`, as simulated cores run it; a price of its work alone where they do not."""
    return RECIPES.get(instr.kernel, make_simulated_kernel)(instr, dataflow, rect, machine)


def phase_program(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> Phase:
    """The phase program of `instr`, which is priced and which simulated cores run.

    >>> import lazytensor as lt
    >>> from wse_sim import TINY
    >>> from wse_sim.planner.dataflow import wire
    >>> program = lt.trace(lambda x: x @ x, lt.ones(8, 8))
    >>> type(phase_program(program.instrs[-1], wire(program), Rect(0, 0, 4, 4), TINY)).__name__
    'Seq'
    """
    return select_kernel(instr, dataflow, rect, machine).phase
