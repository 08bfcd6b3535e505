"""Modes: from a step and a machine to a report with both of them, one chosen."""

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
"""Name -> how a step runs in that mode."""
MODES = ("auto", *MODE_PLANNERS)


@dataclass(frozen=True)
class Plan:
    """A step on a machine: the report, and what it was read from.

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
        """The mode that the report is about."""
        return self.pipelined if self.report.mode == "pipelined" else self.streaming


def require_mode(mode: str) -> str:
    """`mode`, if there is such a mode. Raises LazyError otherwise."""
    if mode not in MODES:
        raise LazyError(f"there is no mode {mode!r}", hint=f"Use one of {', '.join(MODES)}.")
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
    """Place and time a step in both modes. "auto" takes the fastest that fits.

    Without `other` the mode that was not asked for is left out, which takes half of the time. A chain of linear layers
    on a mesh of at most 1,024 cores is priced as a pipeline of simulated cores runs it (`is_as_run` of its report);
    otherwise a pipeline is closed forms of its kernels in the rhythm of the slowest stage.

    `step` is a program, or a source that gives it for any `batch_size`, in samples on all `systems` together. `prices`
    may be handed from one plan on the same machine to the next, and `readings` from one of the same step.
    `precision_level` is one of `PRECISION_LEVELS`. It and `systems` are those of the program by default. The program's
    `micro_batching` says how a batch is cut; a pipeline of closed forms cannot cut it. Never raises for a step that
    does not fit: the report of that mode says why. Raises LazyError for a machine, a mode, a level or a number of
    systems that there is not, and for a batch size that a program has not.

    >>> import lazytensor as lt
    >>> layer = lt.nn.Linear(64, 10)
    >>> report = plan(lt.trace(layer, lt.ones(32, 64)), "wse2", "streaming").report
    >>> report.machine, report.mode, report.streaming.fits
    ('wse2', 'streaming', True)
    """
    require_mode(mode)
    machine = Machine.by_name(machine) if isinstance(machine, str) else machine
    return _plan_case(
        _make_case(step, machine, batch_size, systems, host, prices, readings), mode, other, precision_level
    )


def _plan_case(case: PlanningCase, mode: str, other: bool, precision_level: int | None) -> Plan:
    machine = case.machine
    level = case.program.precision_level if precision_level is None else precision_level
    case = replace(case, precision_level=level, micro_batching=case.program.micro_batching)
    if case.precision_level not in PRECISION_LEVELS:
        raise LazyError(f"there is no precision level {case.precision_level}", hint="Use 0, 1 or 2.")
    # Without the other mode the best of the two cannot be told, so "auto" looks at both all the same.
    wanted = MODE_PLANNERS if other or mode == "auto" else (mode,)
    outcomes = {
        name: _add_energy(run(case), case) if name in wanted else _skipped_mode_plan(name)
        for name, run in MODE_PLANNERS.items()
    }
    chosen = mode
    if mode == "auto":
        # Without any that fits, the one that asks for less: a wafer keeps no weights when it streams them.
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
    return ModePlan(ModeReport(mode, fits=False, reason="It was not asked for."))


def _add_energy(outcome: ModePlan, case: PlanningCase) -> ModePlan:
    """The outcome with what a sample takes: idle power all the time, and the rest while the wafer is at work."""
    report = outcome.report
    if not report.samples_per_s or case.machine.name not in POWER_W:
        return outcome
    idle, mean = POWER_W[case.machine.name]
    # A step may take longer than its cycles, where input limits; then the wafer waits at idle power.
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
    if prices is not None and prices.machine != machine:
        raise LazyError(f"prices of {prices.machine.name} for {machine.name}", hint="Give those of the same machine.")
    # A program knows one batch; copies and systems that need shares of it ask the source.
    source = None if isinstance(step, Program) else step
    readings = AnalysisCache() if readings is None else readings
    program = step if isinstance(step, Program) else readings.program(step, batch_size or step.batch_size)
    systems = program.systems if systems is None else systems
    if systems < 1:
        raise LazyError(f"{systems} systems", hint="Give at least one.")
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
        hint = "Give a recorded step that knows itself for any batch."
        raise LazyError(f"a program of batch {case.batch_size} was asked for batch {batch_size}", hint=hint)
    return case


def simulate(step: Program | Source, machine: Machine | str = "wse2", mode: str = "auto") -> Report:
    """The report of `plan`: what limits a step, and what each of its layers takes.

    >>> import lazytensor as lt
    >>> print(simulate(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "wse3").machine)
    wse3
    """
    return plan(step, machine, mode).report
