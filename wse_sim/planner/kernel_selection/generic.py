"""Any kernel, known by its work alone: its operands pass through the rectangle in rows, and all PEs share the work."""

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
    """Three things at once: everything read passes all PEs of its row, the operations, and storing the results.

    It is a price and not an algorithm: which PE needs what is not known. Operations count as additions.
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
    """Bytes of an element that a kernel computes on: the widest floating-point operand, else the widest."""
    types = [dataflow.type(b).dtype for b in (*instr.reads, *instr.writes)]
    floating = [d.itemsize for d in types if d.is_floating_point]
    # An index or a mask beside floats does not set the rate; with nothing to go by a word is assumed.
    return max(floating or [d.itemsize for d in types] or [4])


def core_dtype_name(instr: Instr, dataflow: Dataflow) -> str:
    """The type that cores compute a kernel in: that of its widest floating-point operand, as far as cores have it.

    They have nothing wider than float32, and of 16 bits float16 and bfloat16.
    """
    types = [dataflow.type(b).dtype for b in (*instr.reads, *instr.writes)]
    widest = max((d for d in types if d.is_floating_point), key=lambda d: d.itemsize, default=None)
    if widest is None or widest.itemsize >= ITEM_BYTES[WIDEST_CORE_DTYPE]:
        return WIDEST_CORE_DTYPE
    return widest.name if widest.name in ITEM_BYTES else "bfloat16"
