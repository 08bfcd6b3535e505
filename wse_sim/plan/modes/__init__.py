"""Modes: from a program and a machine to a report with both of them, one chosen."""

from dataclasses import dataclass

from lazytensor.errors import LazyError
from lazytensor.ir.program import Program
from wse_sim.machine import Machine
from wse_sim.plan.modes.mode_plan import ModePlan
from wse_sim.plan.modes.pipelined import pipelined
from wse_sim.plan.modes.streaming import streaming
from wse_sim.plan.report import Report
from wse_sim.plan.wiring import wire

MODES = ("auto", "pipelined", "streaming")


@dataclass(frozen=True)
class Plan:
    """A program on a machine: the report, and what it was read from."""

    report: Report
    pipelined: ModePlan
    streaming: ModePlan

    @property
    def chosen(self) -> ModePlan:
        """The mode that the report is about."""
        return self.pipelined if self.report.mode == "pipelined" else self.streaming


def require_mode(mode: str) -> str:
    """`mode`, if there is such a mode. Raises LazyError otherwise."""
    if mode not in MODES:
        raise LazyError(f"there is no mode {mode!r}", hint=f"Use one of {', '.join(MODES)}.")
    return mode


def plan(program: Program, machine: Machine, mode: str = "auto") -> Plan:
    """Place and time `program` in both modes. "auto" takes pipelined mode if it fits, else streaming.

    Never raises for a program that does not fit: the report of that mode says why.
    """
    require_mode(mode)
    wiring = wire(program)
    first, second = pipelined(wiring, machine), streaming(wiring, machine)
    # As the vendor does it: small models stay on the wafer whole, large ones stream their weights.
    chosen = mode if mode != "auto" else ("pipelined" if first.report.fits else "streaming")
    report = Report(
        machine=machine.name,
        clock_hz=machine.clock_hz,
        sram_bytes_per_pe=machine.sram_bytes_per_pe,
        usable_bytes_per_pe=machine.usable_bytes_per_pe,
        batch_size=wiring.batch_size,
        mode=chosen,
        pipelined=first.report,
        streaming=second.report,
    )
    return Plan(report, first, second)


def simulate(program: Program, machine: Machine, mode: str = "auto") -> Report:
    """The report of `plan`."""
    return plan(program, machine, mode).report
