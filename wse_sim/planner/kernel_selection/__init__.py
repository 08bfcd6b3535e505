"""Choose the mesh kernel that computes an instruction on a rectangle.

A recipe is a function (instr, dataflow, rect, machine) that returns a kernel. The kernel chooses its arrangement and
its tile, and may use fewer PEs than the rectangle has. Simulated cores run its phase program. Transfers into and out of
the rectangle are not included; the planning modes add them.
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
"""Kernel name -> recipe, for kernels with several arrangements. All others use `make_simulated_kernel`."""


def select_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """Return the mesh kernel of `instr` on `rect`.

    If simulated cores cannot run the instruction, the kernel is only a price derived from its work.
    """
    return RECIPES.get(instr.kernel, make_simulated_kernel)(instr, dataflow, rect, machine)


def phase_program(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine | str) -> Phase:
    """Return the phase program of `instr` on `rect`, which is priced and which simulated cores run.

    `machine` is a machine or its name.

    >>> import lazytensor as lt
    >>> from wse_sim import TINY
    >>> from wse_sim.planner.dataflow import wire
    >>> program = lt.trace(lambda x: x @ x, lt.ones(8, 8))
    >>> type(phase_program(program.instrs[-1], wire(program), Rect(0, 0, 4, 4), TINY)).__name__
    'Seq'
    """
    return select_kernel(instr, dataflow, rect, Machine.of(machine)).phase
