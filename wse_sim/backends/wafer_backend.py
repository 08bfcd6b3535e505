"""The wafer as a backend: another backend computes the numbers, this one says what the wafer would take.

Timing does not depend on values, so a program is simulated once, when it is compiled; a step only adds its cycles.
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
    """A compiled program with its plan, the report of that, and a virtual clock.

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
        """Run one step on the host, and let the wafer's clock advance by a steady step."""
        fetches = self._inner.step(batch)
        self.steps_run += 1
        return fetches

    def placement(self) -> str:
        """The rectangle of PEs that each kernel has, then what the host says; see `Executable`."""
        lines = [f"{self.report.mode} on {self.report.machine}"]
        for row in self.report.rows:
            x, y, width, height = row.rect or (0, 0, 0, 0)
            place = f"{width} x {height} PEs at ({x}, {y})" if row.rect else "on the weight host"
            lines.append(f"{row.label}: {place}, {row.bytes_per_pe:,} bytes a PE")
        return "\n".join([*lines, self._inner.placement()])

    @property
    def elapsed_cycles(self) -> int:
        """Cycles of the steps run so far, without the first fill."""
        return self.steps_run * self.report.step_cycles

    @property
    def elapsed_seconds(self) -> float:
        """`elapsed_cycles` at the clock of the report's machine."""
        return self.elapsed_cycles / self.report.clock_hz


class WaferBackend:
    """Delegates numerics to `host` and simulates on `machine` (a record or the name of a preset).

    `noted` gives a program with what is known of it beside its kernels: what of it is sparse, and how wide sums are.

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
        self.machine = Machine.by_name(machine) if isinstance(machine, str) else machine
        self.mode = require_mode(mode)
        # The programs are kept with their plans, so that an id stays the id of one program.
        self._plans: dict[int, tuple[Program, Plan]] = {}

    def compile(self, program: Program, store: Store) -> WaferExecutable:
        """Compile `program` on the host and simulate it, once for each program.

        Raises PlacementError if it does not fit in the mode asked for (with "auto": in none).
        """
        planned = self.planned(program)
        report = planned.report
        if not report.fits:
            raise PlacementError(
                f"the program does not fit {self.machine.name} in {report.mode} mode: {report.chosen.reason}"
            )
        return WaferExecutable(self.host.compile(program, store), planned)

    def report(self, program: Program) -> Report:
        """The report of `program`, which need not fit."""
        return self.planned(program).report

    def planned(self, program: Program) -> Plan:
        """The plan of `program`, which need not fit."""
        # By identity: a program holds arrays and has no hash that is cheap.
        if id(program) not in self._plans:
            self._plans[id(program)] = program, plan(self.noted(program), self.machine, self.mode)
        return self._plans[id(program)][1]
