"""A backend that simulates whole steps: a chain of layers in its rectangles, with every wavelet."""

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
    """A backend that runs steps of a chain of linear layers on simulated cores of `machine`.

    By default a plan chooses rectangles and micro-batch size, for meshes of at most 1,024 cores. With `rects`, one for
    each layer, the step runs there in micro-batches of `micro` samples, without a plan.
    """

    name = "pipeline"

    def __init__(self, machine: Machine | str = TINY, rects: Sequence[Rect] = (), micro: int = 1):
        self.machine, self.rects, self.micro = Machine.of(machine), tuple(rects), micro

    def compile(self, program: Program, store: Store) -> "PipelineExecutable":
        """Return an executable with the routes and the programs of all cores.

        Without `rects`, the planner chooses rectangles and micro-batches, and `micro` is ignored. The executable then
        has the report of the plan. Raise PlacementError if the plan does not run the program on simulated cores,
        because it does not fit, it is no chain of layers, or the mesh has more cores than the planner simulates.

        With `rects`, the program runs with these and `micro`, and the report is None. Raise LazyError if the program is
        no chain of layers or `micro` does not divide the batch, and PlacementError if the rectangles are unsuitable.
        """
        if self.rects:
            step = PipelineStep(program, self.rects, self.machine, self.micro)
            return PipelineExecutable(step, store, None)
        planned = plan(program, self.machine, "pipelined", other=False)
        pipelined = planned.pipelined
        if pipelined.placement is None or not pipelined.report.is_as_run:
            raise PlacementError(
                f"the program does not run on {self.machine.name}: {_refusal_reason(pipelined.report)}",
                hint="Use another machine or backend, or change the program by the reason.",
            )
        micro = planned.report.batch_size // pipelined.report.micro_batches
        step = PipelineStep(program, pipelined.placement.rects, self.machine, micro)
        return PipelineExecutable(step, store, planned.report)


def _refusal_reason(report: ModeReport) -> str:
    """Return why simulated cores do not run the step."""
    return report.reason or report.not_run or "The mesh has more cores than the planner uses for simulated pipelines."


class PipelineExecutable:
    """A program on its cores.

    `cycles` is the total of all steps so far, and `last` is the run of the last step. `report` is the report of the
    plan, None with rectangles of the caller.
    """

    owned: frozenset[int] = frozenset()

    def __init__(self, step: PipelineStep, store: Store, report: Report | None):
        self.program, self.report, self.cycles = step.program, report, 0
        self.last: PipelineRun | None = None
        self._step, self._store = step, store

    def placement(self) -> str:
        """Return a line with the rectangle of each layer; see `Executable`."""
        return "\n".join(f"layer {n}: {seat.rect}" for n, seat in enumerate(self._step.sites.seats))

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step and return the fetches; see `Executable`.

        Updates the state in the store, `cycles` and `last`.
        """
        # Routes and programs exist already; a step only exchanges the memories.
        self.last = self._step.run(self._store, batch)
        self.cycles += self.last.cycles
        for name, array in self.last.state.items():
            self._store.array(name)[...] = array
        return list(self.last.fetches)
