"""Attention blocks, forward and backward: the kernel that simulated cores run, with sums by the precision level."""

from functools import lru_cache

from lazytensor.core.dtype import dtype_by_name
from lazytensor.ir.program import Instr
from wse_sim.kernels.attention.block import ScoreBlock
from wse_sim.kernels.attention.teams import block_in_rounds
from wse_sim.kernels.kernel import MeshKernel
from wse_sim.kernels.nest import core_type
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.simulated_kernels import to_core_dtype, to_core_nest


def make_attention_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """The fastest way to do a block on `rect`, all its rounds."""
    sums = "float32" if dataflow.precision_level == 0 else ""
    return block_in_rounds(_to_core_block(instr.attrs["block"]), rect, machine, sums)


@lru_cache(maxsize=256)
def _to_core_block(block: ScoreBlock) -> ScoreBlock:
    """In types that cores have: what they have not is priced in the nearest, as in every other kernel."""
    return block.on_cores(lambda name: core_type(to_core_dtype(dtype_by_name(name)).name), to_core_nest)
