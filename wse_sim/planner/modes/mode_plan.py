"""What a mode is given and what it hands back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from lazytensor.errors import LazyError, PlacementError
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.program import Program
from wse_sim.cost_model.relayout import adapter_cycles
from wse_sim.host import Host
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.planner.attention_blocks import fuse_attention_blocks
from wse_sim.planner.bounds import RateBound
from wse_sim.planner.dataflow import BufferVersion, Dataflow, instruction_work, program_batch_size, wire
from wse_sim.planner.floorplan import Placement
from wse_sim.planner.kernel_selection.generic import element_bytes
from wse_sim.planner.layers import Layer, fold
from wse_sim.planner.prices import Prices
from wse_sim.planner.report import LayerRow, ModeReport, RouteRow
from wse_sim.planner.routing import Routes
from wse_sim.planner.sparsity import find_sparsity
from wse_sim.planner.stages import Stage, computed_again, stages_of
from wse_sim.planner.streaming_schedule import StreamingSchedule
from wse_sim.planner.timeline import Timeline


class Source(Protocol):
    """A step that is known for any number of samples."""

    @property
    def batch_size(self) -> int:
        """The samples of the script's own step."""

    def program(self, batch_size: int) -> Program:
        """The step with so many samples. Raises LazyError if the script does not allow that."""


@dataclass(frozen=True)
class ReplicaShare:
    """What one copy of a pipeline is part of: samples of the whole step, systems in use, copies on each of them."""

    batch_size: int
    systems: int
    columns: int
    rows: int

    @property
    def copies(self) -> int:
        """Copies on a system."""
        return self.columns * self.rows


@dataclass(frozen=True)
class LayerWork:
    """Operations and bytes of a layer, and operations of its sweeps in elements of `item_bytes`, 0 without a sweep."""

    flops: int
    bytes: int
    sweep_flops: int
    item_bytes: int

    @classmethod
    def of(cls, dataflow: Dataflow, layer: Layer) -> "LayerWork":
        """What its kernels do."""
        instrs = dataflow.program.instrs
        works = [instruction_work(instrs[i]) for i in layer.every_kernel]
        # Attention computes scores twice and counts them once: utilisation is of the work that the user asked for.
        flops = {i: instruction_work(instrs[i]).flops for i in (*layer.kernels["forward"], *layer.kernels["backward"])}
        return cls(
            flops=sum([work.flops for work in works]),
            bytes=sum([work.bytes_read + work.bytes_written for work in works]),
            sweep_flops=sum(flops.values()),
            # Of the type of the layer's largest kernels: that of its products.
            item_bytes=element_bytes(instrs[max(flops, key=flops.__getitem__)], dataflow) if flops else 0,
        )


@dataclass(eq=False)
class ProgramAnalysis:
    """What is looked up of a program, whichever mode, share or system asks for it."""

    program: Program
    precision_level: int
    _works: dict[tuple[int, ...], LayerWork] = field(default_factory=dict, repr=False)

    @cached_property
    def dataflow(self) -> Dataflow:
        """The program, looked up."""
        return replace(wire(fuse_attention_blocks(self.program)), precision_level=self.precision_level)

    @cached_property
    def streamed(self) -> Dataflow:
        """The same with what is sparse, for weights that stream in."""
        sparsity = find_sparsity(self.dataflow)
        # Most programs have no sparse weight, and what is looked up of them is there already.
        return replace(self.dataflow, sparsity=sparsity) if sparsity != self.dataflow.sparsity else self.dataflow

    @cached_property
    def passing(self) -> Dataflow:
        """The same with nothing that stays where another mode would keep it: the cheapest arrangement decides."""
        return replace(self.streamed, resident=frozenset())

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The program, folded."""
        return fold(self.dataflow)

    def work(self, layer: Layer) -> LayerWork:
        """What the kernels of a layer do."""
        key = layer.every_kernel
        if key not in self._works:
            self._works[key] = LayerWork.of(self.dataflow, layer)
        return self._works[key]

    @cached_property
    def again(self) -> frozenset[BufferVersion]:
        """What the backward sweep computes again."""
        return computed_again(self.dataflow, self.layers)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The program as layers lie side by side."""
        return stages_of(self.dataflow, self.layers, self.again)

    @cached_property
    def turns(self) -> StreamingSchedule:
        """The program as layers take the wafer in turn."""
        return StreamingSchedule(self.streamed, self.layers, self.again)


@dataclass(eq=False)
class AnalysisCache:
    """A step at the sizes of its batch that a plan has asked for, each read once."""

    _programs: dict[tuple[int, int], tuple[Source, Program]] = field(default_factory=dict)
    _readings: dict[tuple[int, int], ProgramAnalysis] = field(default_factory=dict)

    def program(self, source: Source, batch_size: int) -> Program:
        """The step with so many samples."""
        # With the source itself, so that no other one comes by its number.
        key = id(source), batch_size
        if key not in self._programs:
            self._programs[key] = source, source.program(batch_size)
        return self._programs[key][1]

    def of(self, program: Program, precision_level: int) -> ProgramAnalysis:
        """What is looked up of a program."""
        # A reading has its program, so that no other one comes by its number.
        key = id(program), precision_level
        if key not in self._readings:
            self._readings[key] = ProgramAnalysis(program, precision_level)
        return self._readings[key]


@dataclass(frozen=True)
class PlanningCase:
    """A step of `batch_size` samples on `systems` machines. `source` gives the step at other sizes, if it is known.

    With a `share` it is that of one copy of a pipeline, on its part of the mesh. `micro_batching` is what the script
    asks for.
    """

    program: Program
    machine: Machine
    host: Host
    systems: int
    prices: Prices
    source: Source | None = None
    precision_level: int = 1
    micro_batching: MicroBatching = AUTO
    share: ReplicaShare | None = None
    readings: AnalysisCache = field(default_factory=AnalysisCache, repr=False, compare=False)

    @property
    def _reading(self) -> ProgramAnalysis:
        return self.readings.of(self.program, self.precision_level)

    @property
    def dataflow(self) -> Dataflow:
        """The program, looked up."""
        return self._reading.dataflow

    @property
    def passing(self) -> Dataflow:
        """The same with what is sparse, for weights that stream in, and nothing that stays."""
        return self._reading.passing

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The program, folded."""
        return self._reading.layers

    def work(self, layer: Layer) -> LayerWork:
        """What the kernels of a layer do."""
        return self._reading.work(layer)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The program as layers lie side by side."""
        return self._reading.stages

    @property
    def turns(self) -> StreamingSchedule:
        """The program as layers take the wafer in turn."""
        return self._reading.turns

    @property
    def batch_size(self) -> int:
        """Samples of a step, on all systems together."""
        return program_batch_size(self.program)

    def with_batch(self, batch_size: int) -> "PlanningCase | None":
        """The same step with another number of samples, or None if only this one is known."""
        if batch_size == self.batch_size:
            return self
        if self.source is None:
            return None
        # Micro-batches are priced as whole batches of their size: long vectors are what makes large ones cheaper.
        return replace(self, program=self.readings.program(self.source, batch_size))


@dataclass(frozen=True)
class ModePlan:
    """A mode on a program; without a placement and a timeline if it does not fit.

    `held_bytes` is what all PEs together hold in each turn of the mesh, where layers take turns; `least_pes`
    of them hold a pipeline, whose stages `routes` connect.
    """

    report: ModeReport
    placement: Placement | None = None
    timeline: Timeline | None = None
    held_bytes: tuple[int, ...] = ()
    least_pes: int = 0
    routes: Routes | None = None


ModePlanner = Callable[[PlanningCase], ModePlan]
"""Places and times a step. It raises nothing for one that does not fit: the report says why."""


def make_unfit_plan(mode: str, error: LazyError, largest_batch: int | None = 0) -> ModePlan:
    """The outcome that gives the error's words instead of numbers; see `ModeReport` for `largest_batch`."""
    return ModePlan(ModeReport(mode, fits=False, reason=error_reason(error), largest_batch=largest_batch))


def make_uncut_plan(mode: str) -> ModePlan:
    """The outcome of a mode without micro-batches for a script that asks for them."""
    what = "samples go through a pipeline one by one, and the script asks for micro-batches"
    hint = 'Use streaming mode, or set micro_batch_size to "auto" or None.'
    return make_unfit_plan(mode, PlacementError(what, hint=hint), None)


def error_reason(error: LazyError) -> str:
    """What happened, where and what to do, in one line."""
    place = f" ({error.where})" if error.where else ""
    return f"{error.what}{place}. {error.hint}"


@dataclass(frozen=True)
class LayerPlacement:
    """Where a layer is: its rectangle, the extents of the part that computes, and bytes on one of its PEs."""

    rect: Rect
    part: tuple[int, int]
    bytes_per_pe: int


@dataclass(frozen=True)
class SweepCycles:
    """Cycles of a layer's sweeps in a step, and those in which what other layers made comes to where it has it."""

    forward: int = 0
    backward: int = 0
    update: int = 0
    moving: int = 0


def layer_row(
    case: PlanningCase, layer: Layer, place: LayerPlacement | None, taken: SweepCycles, work_share: float = 1.0
) -> LayerRow:
    """The row of a layer, of whose work a share is done; without a place the weight host has it."""
    work = case.work(layer)
    return LayerRow(
        label=layer.name,
        where=str(layer.where) if layer.where else "",
        kernels=len(layer.every_kernel),
        rect=place.rect.as_tuple() if place else None,
        cycles=taken.forward + taken.backward + taken.update,
        forward_cycles=taken.forward,
        backward_cycles=taken.backward,
        update_cycles=taken.update,
        flops=work.flops,
        bytes=work.bytes,
        bytes_per_pe=place.bytes_per_pe if place else 0,
        # What is left out does not count as done.
        utilisation=work_share * _utilisation(case, work, place, taken.forward + taken.backward) if place else 0.0,
        moving_cycles=taken.moving,
    )


def _utilisation(case: PlanningCase, work: LayerWork, place: LayerPlacement, cycles: int) -> float:
    """Work over what the computing part's multiply-add units could do in the same cycles (2 operations each)."""
    if not cycles or not work.item_bytes:
        return 0.0
    width, height = place.part
    peak = 2 * case.machine.per_cycle("fma", work.item_bytes) * width * height * cycles
    return work.sweep_flops / peak


def route_rows(routes: Routes, stages: Sequence[Stage], machine: Machine) -> tuple[RouteRow, ...]:
    """The table of routes, with adapters at what they take for a sample."""
    # By the names of stages, which a reader knows; lanes of a timeline number those that share one.
    return tuple(
        RouteRow(
            source=stages[route.source].name,
            target=stages[route.target].name,
            sample_bytes=route.sample_bytes,
            hops=route.hops,
            lanes=route.lanes,
            colour=route.colour,
            ports=route.ports,
            adapter_cycles=adapter_cycles(route.port_words, machine),
            link_bytes=route.link.bytes,
            link_x=route.link.x,
            link_y=route.link.y,
            link_direction=route.link.direction,
        )
        for route in routes.routes
    )


def samples_per_second(samples: int, cycles: float, machine: Machine) -> float:
    """Samples a second if `samples` take so many cycles; 0 for none."""
    return samples * machine.clock_hz / cycles if cycles else 0.0


def host_bounds(case: PlanningCase) -> list[RateBound]:
    """What the computers around the wafers allow: input workers, and the control of steps if it takes any time."""
    dataflow, host = case.dataflow, case.host
    batch_bytes = sum(dataflow.type(b).nbytes for b in case.program.batch)
    samples = case.batch_size
    if case.share is not None:
        # A copy's batch is its share: the workers prepare that of all copies, whatever is rounded up for one.
        batch_bytes, samples = batch_bytes * case.share.batch_size // samples, case.share.batch_size
    bounds = []
    # Without a batch nothing is read: such a step is bound by the wafer alone.
    if batch_bytes:
        rate = samples / host.input_seconds(batch_bytes, case.systems)
        bounds.append(RateBound("input", rate, host.sources["worker_bytes_per_s"]))
    if host.step_control_s:
        bounds.append(RateBound("control", samples / host.step_control_s, host.sources["step_control_s"]))
    return bounds
