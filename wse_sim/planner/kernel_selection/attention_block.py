"""Mesh kernels of fused attention blocks, forward and backward."""

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
    """Return the fastest kernel for an attention block on `rect`, with all its rounds.

    At precision level 0 sums are accumulated in float32.
    """
    sums = "float32" if dataflow.precision_level == 0 else ""
    return block_in_rounds(_to_core_block(instr.attrs["block"]), rect, machine, sums)


@lru_cache(maxsize=256)
def _to_core_block(block: ScoreBlock) -> ScoreBlock:
    """Return the block with each element type replaced by the nearest one that cores have."""
    return block.on_cores(lambda name: core_type(to_core_dtype(dtype_by_name(name)).name), to_core_nest)
