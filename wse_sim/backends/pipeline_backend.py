"""Simulated cores as a backend, whole steps at a time: a chain of layers in its rectangles, every wavelet of it."""

from collections.abc import Sequence

import numpy as np

from lazytensor.errors import PlacementError
from lazytensor.ir.program import Program
from lazytensor.runtime.backend import Store
from wse_sim.layout import Rect
from wse_sim.machine import TINY, Machine
from wse_sim.pipeline.step_run import PipelineRun, PipelineStep
from wse_sim.planner.modes import plan
from wse_sim.planner.report import ModeReport, Report


class PipelineBackend:
    """Runs steps on simulated cores of `machine`, as a plan places them.

    A plan does that for meshes of at most 1,024 cores.

    With `rects`, one for each layer, and `micro`, the samples of a micro-batch, it runs them there instead.
    """

    name = "pipeline"

    def __init__(self, machine: Machine = TINY, rects: Sequence[Rect] = (), micro: int = 1):
        self.machine, self.rects, self.micro = machine, tuple(rects), micro

    def compile(self, program: Program, store: Store) -> "PipelineExecutable":
        """Lay the routes and write the programs of all cores.

        Raises PlacementError for what does not fit or is no chain of layers.
        """
        # Rectangles of the caller are taken as they are: no plan, and no report of one.
        if self.rects:
            step = PipelineStep(program, self.rects, self.machine, self.micro)
            return PipelineExecutable(step, store, None)
        planned = plan(program, self.machine, "pipelined", other=False)
        pipelined = planned.pipelined
        if pipelined.placement is None or not pipelined.report.is_as_run:
            raise PlacementError(
                f"the program does not run on {self.machine.name}: {_refusal_reason(pipelined.report)}"
            )
        micro = planned.report.batch_size // pipelined.report.micro_batches
        step = PipelineStep(program, pipelined.placement.rects, self.machine, micro)
        return PipelineExecutable(step, store, planned.report)


def _refusal_reason(report: ModeReport) -> str:
    """Why a step is not run as a whole."""
    return report.reason or report.not_run or "Its mesh has more cores than a plan gives to whole steps."


class PipelineExecutable:
    """A program on its cores. `cycles` are those of all steps so far, and `last` is what the last one left."""

    owned: frozenset[int] = frozenset()

    def __init__(self, step: PipelineStep, store: Store, report: Report | None):
        self.program, self.report, self.cycles = step.program, report, 0
        self.last: PipelineRun | None = None
        self._step, self._store = step, store

    def placement(self) -> str:
        """The rectangle of each layer; see `Executable`."""
        return "\n".join(f"layer {n}: {seat.rect}" for n, seat in enumerate(self._step.sites.seats))

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step; see `Executable`."""
        # Routes and programs were made once; a step exchanges the memories and runs.
        self.last = self._step.run(self._store, batch)
        self.cycles += self.last.cycles
        for name, array in self.last.state.items():
            self._store.array(name)[...] = array
        return list(self.last.fetches)
