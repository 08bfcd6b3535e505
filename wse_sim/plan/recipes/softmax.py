"""Softmax with cross-entropy, and its gradient in the same pass, as steps over rows of logits."""

from math import prod

from lazytensor.ir.program import Instr
from wse_sim.kernels.kernel import MeshKernel, price_alone
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.plan.recipes.generic import element_bytes
from wse_sim.plan.recipes.row_kernels import RowStep, row_program
from wse_sim.plan.wiring import Wiring

# Two all-reductions for each row, which is why whole rows on one PE win as long as rows are short.
STEPS = (
    RowStep("add", has_all_reduce=True),  # largest logit of the row
    RowStep("add"),  # less that
    RowStep("special"),  # exponential
    RowStep("add", has_all_reduce=True),  # sum of the row
    RowStep("special", 2, is_per_row=True),  # logarithm of the sum for the loss, its reciprocal for the gradient
    RowStep("add", 2),  # times the reciprocal, less one at the label
)


def softmax_cross_entropy(instr: Instr, wiring: Wiring, rect: Rect, machine: Machine) -> MeshKernel:
    """Reads logits [N, C] and labels [N]; writes loss [N] and the gradient of the logits [N, C]."""
    *rows, columns = wiring.type(instr.reads[0]).shape
    return price_alone(row_program(STEPS, prod(rows), columns, element_bytes(instr, wiring), rect, machine))
