"""Plan a step on a machine in pipelined and in weight-streaming mode, and choose one of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lazytensor.errors import LazyError
from lazytensor.ir.program import Program
from wse_sim.error_bands import error_band
from wse_sim.host import APPLIANCE, Host
from wse_sim.machine import POWER_W, Machine
from wse_sim.planner.dataflow import PRECISION_LEVELS
from wse_sim.planner.modes.mode_plan import AnalysisCache, ModePlan, ModePlanner, PlanningCase
from wse_sim.planner.modes.mode_plan import Source as Source
from wse_sim.planner.modes.pipelined import plan_pipelined
from wse_sim.planner.modes.streaming import plan_streaming
from wse_sim.planner.prices import Prices
from wse_sim.planner.report import ModeReport, Report

MODE_PLANNERS: Mapping[str, ModePlanner] = {"pipelined": plan_pipelined, "streaming": plan_streaming}
"""Mode name -> the function that plans a step in this mode."""
MODES = ("auto", *MODE_PLANNERS)


@dataclass(frozen=True)
class Plan:
    """The plan of a step on a machine: the report, and the plans of both modes with placement and timeline.

    >>> import lazytensor as lt
    >>> planned = plan(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "tiny", "pipelined")
    >>> planned.chosen is planned.pipelined
    True
    """

    report: Report
    pipelined: ModePlan
    streaming: ModePlan

    @property
    def chosen(self) -> ModePlan:
        """Return the plan of the mode that the report has chosen."""
        return self.pipelined if self.report.mode == "pipelined" else self.streaming


def require_mode(mode: str) -> str:
    """Return `mode` unchanged. Raise LazyError if it is not one of `MODES`, which include "auto"."""
    if mode not in MODES:
        raise LazyError(f"unknown mode {mode!r}", hint=f"Use one of {', '.join(MODES)}.")
    return mode


def plan(
    step: Program | Source,
    machine: Machine | str = "wse2",
    mode: str = "auto",
    batch_size: int | None = None,
    systems: int | None = None,
    host: Host = APPLIANCE,
    prices: Prices | None = None,
    *,
    other: bool = True,
    precision_level: int | None = None,
    readings: AnalysisCache | None = None,
) -> Plan:
    """Return the placement, the timing and the report of a step on a machine, in both modes.

    - `step`: a program, or a source that returns the program for any batch size
    - `machine`: a machine or its name
    - `mode`: "pipelined", "streaming", or "auto" for the faster one that fits
    - `batch_size`: samples on all systems together; by default that of the step
    - `systems`: number of systems; by default that of the program
    - `host`: the computers around the wafers
    - `prices`: kernel prices to reuse from another plan on the same machine
    - `other`: if False, a mode that was not requested is not planned, which takes half of the time
    - `precision_level`: one of `PRECISION_LEVELS`; by default that of the program
    - `readings`: data-flow facts to reuse from another plan of the same step

    A chain of linear layers on a mesh of at most 1,024 cores is priced as a pipeline of simulated cores runs it
    (`is_as_run` of its report). Any other pipeline is priced by closed forms of its kernels, in the rhythm of the
    slowest stage. The program's `micro_batching` determines how a batch is cut. A pipeline priced by closed forms
    cannot cut it.

    A step that does not fit raises no error: the report of that mode has the reason. Raise LazyError for an unknown
    machine, mode or precision level, for less than one system, for prices of another machine, and for a batch size that
    the step does not support.

    >>> import lazytensor as lt
    >>> layer = lt.nn.Linear(64, 10)
    >>> report = plan(lt.trace(layer, lt.ones(32, 64)), "wse2", "streaming").report
    >>> report.machine, report.mode, report.streaming.fits
    ('wse2', 'streaming', True)
    """
    require_mode(mode)
    machine = Machine.of(machine)
    return _plan_case(
        _make_case(step, machine, batch_size, systems, host, prices, readings), mode, other, precision_level
    )


def _plan_case(case: PlanningCase, mode: str, other: bool, precision_level: int | None) -> Plan:
    """Return the plan of a case in the mode `mode`, and in the other one if `other` is True or `mode` is "auto".

    "auto" chooses the faster mode that fits, and streaming if none fits. The precision level is that of the program if
    it is None. Raise LazyError for an unknown level.
    """
    machine = case.machine
    level = case.program.precision_level if precision_level is None else precision_level
    case = replace(case, precision_level=level, micro_batching=case.program.micro_batching)
    if case.precision_level not in PRECISION_LEVELS:
        raise LazyError(f"unknown precision level {case.precision_level}", hint="Use 0, 1 or 2.")
    # "auto" has to plan both modes to find the faster one.
    wanted = MODE_PLANNERS if other or mode == "auto" else (mode,)
    outcomes = {
        name: _add_energy(run(case), case) if name in wanted else _skipped_mode_plan(name)
        for name, run in MODE_PLANNERS.items()
    }
    chosen = mode
    if mode == "auto":
        # If none fits, choose streaming, which keeps no weights on the wafer.
        chosen = max(MODE_PLANNERS, key=lambda name: (outcomes[name].report.samples_per_s, name))
    report = Report(
        machine=machine.name,
        systems=case.systems,
        clock_hz=machine.clock_hz,
        sram_bytes_per_pe=machine.sram_bytes_per_pe,
        usable_bytes_per_pe=machine.usable_bytes_per_pe,
        batch_size=case.batch_size,
        mode=chosen,
        pipelined=outcomes["pipelined"].report,
        streaming=outcomes["streaming"].report,
        precision=f"level {case.precision_level}, {PRECISION_LEVELS[case.precision_level]}",
        error_band=band.text() if (band := error_band(chosen, machine.name)) else "",
    )
    return Plan(report, outcomes["pipelined"], outcomes["streaming"])


def _skipped_mode_plan(mode: str) -> ModePlan:
    """Return a plan that does not fit, with the reason that its mode was not requested."""
    return ModePlan(ModeReport(mode, fits=False, reason="This mode was not requested."))


def _add_energy(outcome: ModePlan, case: PlanningCase) -> ModePlan:
    """Return the plan with joules per sample on all systems; unchanged if it does not fit or no power is published.

    The wafer uses idle power all the time, and the difference to mean power only while it computes.
    """
    report = outcome.report
    if not report.samples_per_s or case.machine.name not in POWER_W:
        return outcome
    idle, mean = POWER_W[case.machine.name]
    # If input limits, the wafer waits at idle power for a part of the step.
    busy = min(1.0, report.samples_per_s * report.step_cycles / (case.batch_size * case.machine.clock_hz))
    joules = case.systems * (idle + (mean - idle) * busy) / report.samples_per_s
    return replace(outcome, report=replace(report, joules_per_sample=joules))


def _make_case(
    step: Program | Source,
    machine: Machine,
    batch_size: int | None,
    systems: int | None,
    host: Host,
    prices: Prices | None,
    readings: AnalysisCache | None,
) -> PlanningCase:
    """Return the planning case for the arguments of `plan`. Its precision level and micro-batches are set later.

    Raise LazyError for prices of another machine, for less than one system, and for a batch size that the step does not
    support.
    """
    if prices is not None and prices.machine != machine:
        raise LazyError(
            f"the prices are of {prices.machine.name}, not of {machine.name}", hint="Pass prices of this machine."
        )
    # A program has a fixed batch size. Shares of copies and systems need the source.
    source = None if isinstance(step, Program) else step
    readings = AnalysisCache() if readings is None else readings
    program = step if isinstance(step, Program) else readings.program(step, batch_size or step.batch_size)
    systems = program.systems if systems is None else systems
    if systems < 1:
        raise LazyError(f"the number of systems is {systems}", hint="Use at least one system.")
    case = PlanningCase(
        program=program,
        machine=machine,
        host=host,
        systems=systems,
        prices=prices or Prices(machine),
        source=source,
        readings=readings,
    )
    if batch_size not in (None, case.batch_size):
        hint = "Pass a recorded step, which supports any batch size, or omit batch_size."
        raise LazyError(
            f"the program has the batch size {case.batch_size} and cannot be planned for {batch_size}", hint=hint
        )
    return case


def simulate(step: Program | Source, machine: Machine | str = "wse2", mode: str = "auto") -> Report:
    """Return only the report of `plan`: what limits a step, and the cycles of each layer.

    >>> import lazytensor as lt
    >>> print(simulate(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "wse3").machine)
    wse3
    """
    return plan(step, machine, mode).report
