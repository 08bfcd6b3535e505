"""Any kernel, known by its work alone: its operands pass through the rectangle in rows, and all PEs share the work."""

from lazytensor.ir.program import Instr
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Par, Phase
from wse_sim.plan.wiring import Wiring, work_of
from wse_sim.price.cost import words


def generic(instr: Instr, wiring: Wiring, rect: Rect, machine: Machine) -> Phase:
    """Three things at once: everything read passes all PEs of its row, the operations, and storing the results.

    It is a price and not an algorithm: which PE needs what is not known. Operations count as additions.
    """
    work = work_of(instr)
    itemsize = element_bytes(instr, wiring)
    per_row = words(ceil_div(work.bytes_read, rect.height), 1, machine)
    stored = ceil_div(work.bytes_written, itemsize * rect.area)
    return Par(
        (
            Broadcast(rect, axis="x", words=per_row),
            Compute(rect, op="add", vectors=1, length=ceil_div(work.flops, rect.area), itemsize=itemsize),
            Compute(rect, op="move", vectors=1, length=stored, itemsize=itemsize),
        )
    )


def element_bytes(instr: Instr, wiring: Wiring) -> int:
    """Bytes of an element that a kernel computes on: the widest floating-point operand, else the widest."""
    types = [wiring.type(b).dtype for b in (*instr.reads, *instr.writes)]
    floating = [d.itemsize for d in types if d.is_floating_point]
    # An index or a mask beside floats does not set the rate; with nothing to go by a word is assumed.
    return max(floating or [d.itemsize for d in types] or [4])
