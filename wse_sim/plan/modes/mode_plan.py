"""What a mode hands back: its report, and the placement and timeline that the report was read from."""

from dataclasses import dataclass

from lazytensor.errors import PlacementError
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.plan.place import Placement
from wse_sim.plan.recipes.generic import element_bytes
from wse_sim.plan.report import KernelRow, ModeReport
from wse_sim.plan.timeline import Timeline
from wse_sim.plan.wiring import Wiring, work_of
from wse_sim.price.cost import Cost


@dataclass(frozen=True)
class ModePlan:
    """A mode on a program; without a placement and a timeline if it does not fit."""

    report: ModeReport
    placement: Placement | None = None
    timeline: Timeline | None = None


def does_not_fit(mode: str, error: PlacementError) -> ModePlan:
    """The outcome that gives the error's words instead of numbers."""
    place = f" ({error.where})" if error.where else ""
    return ModePlan(ModeReport(mode, fits=False, reason=f"{error.what}{place}. {error.hint}"))


def kernel_row(wiring: Wiring, i: int, placement: Placement, bytes_per_pe: int, machine: Machine) -> KernelRow:
    """The row of instruction `i`."""
    instr, rect, kernel_cost = wiring.program.instrs[i], placement.rects[i], placement.costs[i]
    work = work_of(instr)
    return KernelRow(
        label=instr.label,
        kernel=instr.kernel,
        direction=instr.direction,
        rect=rect.as_tuple() if rect else None,
        cycles=kernel_cost.cycles,
        flops=work.flops,
        bytes=work.bytes_read + work.bytes_written,
        bytes_per_pe=bytes_per_pe,
        utilisation=_utilisation(wiring, instr, rect, kernel_cost, machine),
    )


def _utilisation(wiring: Wiring, instr: Instr, rect: Rect | None, kernel_cost: Cost, machine: Machine) -> float:
    """Work over what the rectangle's multiply-add units could do in the same cycles (2 operations each)."""
    if rect is None or not kernel_cost.cycles:
        return 0.0
    # A multiply-add counts as two operations, as in the vendor's peak figures.
    peak = 2 * machine.per_cycle("fma", element_bytes(instr, wiring)) * rect.area * kernel_cost.cycles
    return work_of(instr).flops / peak


def samples_per_s(batch_size: int, step_cycles: int, machine: Machine) -> float:
    """Samples a second of steps that follow one another; 0 for a step without cycles."""
    return batch_size * machine.clock_hz / step_cycles if step_cycles else 0.0


def per_sample_bytes(wiring: Wiring, buffer: int) -> int:
    """Bytes of a tensor for one sample, or of all of it if it is not cut into samples."""
    type: Type = wiring.type(buffer)
    return type.nbytes // wiring.batch_size if buffer in wiring.per_sample else type.nbytes
