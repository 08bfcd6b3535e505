"""A backend that computes on another backend and reports the time that the wafer would take.

Timing does not depend on values, so a program is simulated once, when it is compiled. A step only advances a clock.
"""

from collections.abc import Callable, Sequence

import numpy as np

from lazytensor.errors import PlacementError
from lazytensor.ir.program import Program
from lazytensor.runtime.backend import Backend, Executable, Store
from wse_sim.machine import WSE2, Machine
from wse_sim.planner.modes import Plan, plan, require_mode
from wse_sim.planner.report import Report


class WaferExecutable:
    """A compiled program with its plan, its report and a virtual clock.

    `steps_run` is the number of steps so far.

    >>> import lazytensor as lt, wse_sim
    >>> from lazytensor.runtime.host import HostBackend
    >>> run = wse_sim.WaferBackend(HostBackend()).compile(lt.trace(lambda x: x @ x, lt.ones(4, 4)), {})
    >>> run.steps_run, run.elapsed_cycles
    (0, 0)
    """

    def __init__(self, inner: Executable, plan: Plan):
        self.program, self.owned = inner.program, inner.owned
        self.plan, self.report = plan, plan.report
        self.steps_run = 0
        self._inner = inner

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step on the host, count it in `steps_run`, and return the fetches.

        This advances the wafer's clock by `report.step_cycles`.
        """
        fetches = self._inner.step(batch)
        self.steps_run += 1
        return fetches

    def placement(self) -> str:
        """Return a line for each layer with its rectangle of PEs, or "on the weight host", then the host's placement.

        See `Executable`.
        """
        lines = [f"{self.report.mode} on {self.report.machine}"]
        for row in self.report.rows:
            x, y, width, height = row.rect or (0, 0, 0, 0)
            place = f"{width} x {height} PEs at ({x}, {y})" if row.rect else "on the weight host"
            lines.append(f"{row.label}: {place}, {row.bytes_per_pe:,} bytes a PE")
        return "\n".join([*lines, self._inner.placement()])

    @property
    def elapsed_cycles(self) -> int:
        """Return the cycles of the steps so far, without the first fill."""
        return self.steps_run * self.report.step_cycles

    @property
    def elapsed_seconds(self) -> float:
        """Return `elapsed_cycles` in seconds at the clock of the machine."""
        return self.elapsed_cycles / self.report.clock_hz


class WaferBackend:
    """A backend that computes on `host` and simulates the time on `machine` (a machine or the name of a preset).

    `mode` is "auto", "pipelined" or "streaming". `noted` adds facts to a program before it is planned, such as the
    sparsity of weights and the precision level.

    >>> import lazytensor as lt, numpy as np, wse_sim
    >>> from lazytensor.runtime.host import HostBackend
    >>> program = lt.trace(lambda x, y: x @ y, lt.ones(4, 4), lt.ones(4, 4))
    >>> run = wse_sim.WaferBackend(HostBackend(), "wse3").compile(program, {})
    >>> run.step([np.eye(4, dtype=np.float32)] * 2)[0][0], run.report.machine
    (array([1., 0., 0., 0.], dtype=float32), 'wse3')
    """

    name = "wafer"

    def __init__(
        self,
        host: Backend,
        machine: Machine | str = WSE2,
        mode: str = "auto",
        noted: Callable[[Program], Program] = lambda program: program,
    ):
        self.host, self.noted = host, noted
        self.machine = Machine.of(machine)
        self.mode = require_mode(mode)
        # Programs are kept alive, so that their ids are not reused.
        self._plans: dict[int, tuple[Program, Plan]] = {}

    def compile(self, program: Program, store: Store) -> WaferExecutable:
        """Return `program` compiled on the host, with its plan. A program object is planned once.

        Raise PlacementError if it does not fit in the requested mode (with "auto": in neither mode).
        """
        planned = self.planned(program)
        report = planned.report
        if not report.fits:
            raise PlacementError(
                f"the program does not fit on {self.machine.name} in {report.mode} mode: {report.chosen.reason}",
                hint="Reduce the model or the batch size, or use another mode or machine.",
            )
        return WaferExecutable(self.host.compile(program, store), planned)

    def report(self, program: Program) -> Report:
        """Return the report of `program`, whether it fits or not."""
        return self.planned(program).report

    def planned(self, program: Program) -> Plan:
        """Return the plan of `program`, whether it fits or not. Plans are cached by the identity of the program object.

        `noted` is applied to the program before.
        """
        # Use identity as the key: hashing a program, which contains arrays, is expensive.
        if id(program) not in self._plans:
            self._plans[id(program)] = program, plan(self.noted(program), self.machine, self.mode)
        return self._plans[id(program)][1]
