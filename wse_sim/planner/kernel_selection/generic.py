"""A price for any kernel, derived from its work only."""

from lazytensor.ir.program import Instr
from wse_sim.cost_model.cost import wavelet_count
from wse_sim.isa.core_program import ITEM_BYTES
from wse_sim.kernels.kernel import MeshKernel, price_alone
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Par
from wse_sim.planner.dataflow import Dataflow, instruction_work

WIDEST_CORE_DTYPE = "float32"


def make_generic_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """Return a kernel that is a price and not an algorithm, since it is unknown which PE needs which data.

    Three parts overlap: all operands are broadcast along the rows of `rect`, all PEs share the operations (priced as
    additions), and all PEs store an equal share of the results. Cores cannot run it.
    """
    work = instruction_work(instr)
    itemsize = element_bytes(instr, dataflow)
    per_row = wavelet_count(ceil_div(work.bytes_read, rect.height), 1, machine)
    stored = ceil_div(work.bytes_written, itemsize * rect.area)
    moves = (
        Broadcast(rect, axis="x", words=per_row),
        Compute(rect, op="add", vectors=1, length=ceil_div(work.flops, rect.area), itemsize=itemsize),
        Compute(rect, op="move", vectors=1, length=stored, itemsize=itemsize),
    )
    return price_alone(Par(moves))


def element_bytes(instr: Instr, dataflow: Dataflow) -> int:
    """Return the bytes of an element that a kernel computes on.

    This is the widest floating-point type among operands and results. Without one it is the widest type, and 4 bytes if
    there are no tensors.
    """
    types = [dataflow.type(b).dtype for b in (*instr.reads, *instr.writes)]
    floating = [d.itemsize for d in types if d.is_floating_point]
    # An index or a mask does not determine the rate if there are floats.
    return max(floating or [d.itemsize for d in types] or [4])


def core_dtype_name(instr: Instr, dataflow: Dataflow) -> str:
    """Return the name of the type that cores use for a kernel: its widest floating-point type, as far as cores have it.

    Wider types than float32 become float32, and so does a kernel without floating-point tensors. Narrower types that
    cores lack become bfloat16.
    """
    types = [dataflow.type(b).dtype for b in (*instr.reads, *instr.writes)]
    widest = max((d for d in types if d.is_floating_point), key=lambda d: d.itemsize, default=None)
    if widest is None or widest.itemsize >= ITEM_BYTES[WIDEST_CORE_DTYPE]:
        return WIDEST_CORE_DTYPE
    return widest.name if widest.name in ITEM_BYTES else "bfloat16"
