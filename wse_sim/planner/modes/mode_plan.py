"""The input and the result of planning a step in one mode, and helpers that both modes share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from lazytensor.errors import LazyError, PlacementError
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.program import Program
from wse_sim.cost_model.relayout import adapter_cycles
from wse_sim.host import Host, InputLoad
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
    """A step that can be recorded for any number of samples."""

    @property
    def batch_size(self) -> int:
        """Return the number of samples in the script's own step."""

    def program(self, batch_size: int) -> Program:
        """Return the step with `batch_size` samples. Raise LazyError if the script does not support that."""


@dataclass(frozen=True)
class ReplicaShare:
    """The configuration that a copy of a pipeline belongs to.

    - `batch_size`: samples of the whole step
    - `systems`: systems in use
    - `columns`, `rows`: the grid of copies on each system
    """

    batch_size: int
    systems: int
    columns: int
    rows: int

    @property
    def copies(self) -> int:
        """Return the number of copies on a system."""
        return self.columns * self.rows


@dataclass(frozen=True)
class LayerWork:
    """The work of a layer.

    - `flops`, `bytes`: operations and bytes of all its kernels
    - `sweep_flops`: operations of its forward and backward sweeps, without recomputation
    - `item_bytes`: bytes of an element in the largest of these kernels, 0 if there are none
    """

    flops: int
    bytes: int
    sweep_flops: int
    item_bytes: int

    @classmethod
    def of(cls, dataflow: Dataflow, layer: Layer) -> "LayerWork":
        """Return the work of `layer`. All numbers are 0 if it has no kernels.

        `flops` and `bytes` (read plus written) count its forward, backward and update kernels, each once. `sweep_flops`
        counts only forward and backward kernels. `item_bytes` is the element size of the one of these with the most
        operations.
        """
        instrs = dataflow.program.instrs
        works = [instruction_work(instrs[i]) for i in layer.every_kernel]
        # Attention recomputes scores. Utilisation counts each operation of the user's step once.
        flops = {i: instruction_work(instrs[i]).flops for i in (*layer.kernels["forward"], *layer.kernels["backward"])}
        return cls(
            flops=sum([work.flops for work in works]),
            bytes=sum([work.bytes_read + work.bytes_written for work in works]),
            sweep_flops=sum(flops.values()),
            # Use the type of the layer's largest kernel, usually a product.
            item_bytes=element_bytes(instrs[max(flops, key=flops.__getitem__)], dataflow) if flops else 0,
        )


@dataclass(eq=False)
class ProgramAnalysis:
    """Data-flow facts of a program that both modes and all shares use, each computed at first use."""

    program: Program
    precision_level: int
    _works: dict[tuple[int, ...], LayerWork] = field(default_factory=dict, repr=False)

    @cached_property
    def dataflow(self) -> Dataflow:
        """Return the data-flow facts of the program with fused attention blocks."""
        return replace(wire(fuse_attention_blocks(self.program)), precision_level=self.precision_level)

    @cached_property
    def streamed(self) -> Dataflow:
        """Return the data-flow facts with sparsity, for weights that stream in.

        Without sparse weights it is the same object as `dataflow`.
        """
        sparsity = find_sparsity(self.dataflow)
        # Reuse the object, with its cached facts, if the program has no sparse weight.
        return replace(self.dataflow, sparsity=sparsity) if sparsity != self.dataflow.sparsity else self.dataflow

    @cached_property
    def passing(self) -> Dataflow:
        """Return `streamed` without resident tensors, so that products may choose the cheapest arrangement."""
        return replace(self.streamed, resident=frozenset())

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Return the layers of the program."""
        return fold(self.dataflow)

    def work(self, layer: Layer) -> LayerWork:
        """Return the work of a layer of this program. It is cached by the layer's kernels."""
        key = layer.every_kernel
        if key not in self._works:
            self._works[key] = LayerWork.of(self.dataflow, layer)
        return self._works[key]

    @cached_property
    def again(self) -> frozenset[BufferVersion]:
        """Return the results that the backward sweep recomputes."""
        return computed_again(self.dataflow, self.layers)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Return the stages of the program for pipelined mode."""
        return stages_of(self.dataflow, self.layers, self.again)

    @cached_property
    def turns(self) -> StreamingSchedule:
        """Return the schedule of the program for streaming mode."""
        return StreamingSchedule(self.streamed, self.layers, self.again)


@dataclass(eq=False)
class AnalysisCache:
    """A cache of a step's programs by batch size, and of their data-flow facts."""

    _programs: dict[tuple[int, int], tuple[Source, Program]] = field(default_factory=dict)
    _readings: dict[tuple[int, int], ProgramAnalysis] = field(default_factory=dict)

    def program(self, source: Source, batch_size: int) -> Program:
        """Return the program of `source` with `batch_size` samples. It is recorded at the first call only.

        The cache key is the identity of `source`. Raise LazyError if the script does not support that size.
        """
        # Keep the source alive, so that its id is not reused.
        key = id(source), batch_size
        if key not in self._programs:
            self._programs[key] = source, source.program(batch_size)
        return self._programs[key][1]

    def of(self, program: Program, precision_level: int) -> ProgramAnalysis:
        """Return the analysis of a program object at a precision level. It is created at the first call only."""
        # The analysis keeps its program alive, so that its id is not reused.
        key = id(program), precision_level
        if key not in self._readings:
            self._readings[key] = ProgramAnalysis(program, precision_level)
        return self._readings[key]


@dataclass(frozen=True)
class PlanningCase:
    """A planning problem: a step on a number of machines.

    - `program`: the step
    - `machine`: the machine, or the part of its mesh that a copy has
    - `host`: the computers around the wafers
    - `systems`: number of systems
    - `prices`: kernel prices on this machine
    - `source`: returns the step for other batch sizes, None if only this one is available
    - `precision_level`: one of `PRECISION_LEVELS`
    - `micro_batching`: how the batch is to be cut, from the script
    - `share`: the configuration, if the case is one copy of a pipeline
    - `readings`: the cache of data-flow facts
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
        """Return the data-flow facts of the program, with fused attention blocks and the case's precision level."""
        return self._reading.dataflow

    @property
    def passing(self) -> Dataflow:
        """Return the data-flow facts with sparsity and without resident tensors, for streaming mode."""
        return self._reading.passing

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the layers of the program."""
        return self._reading.layers

    def work(self, layer: Layer) -> LayerWork:
        """Return the work of a layer."""
        return self._reading.work(layer)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return the stages of the program for pipelined mode."""
        return self._reading.stages

    @property
    def turns(self) -> StreamingSchedule:
        """Return the schedule of the program for streaming mode."""
        return self._reading.turns

    @property
    def batch_size(self) -> int:
        """Return the batch size of the program, which is that of a share if the case has one."""
        return program_batch_size(self.program)

    def with_batch(self, batch_size: int) -> "PlanningCase | None":
        """Return the case with `batch_size` samples, itself if it has this size, or None without a source for another.

        Raise LazyError if the script does not support that size.
        """
        if batch_size == self.batch_size:
            return self
        if self.source is None:
            return None
        # Micro-batches are priced as whole batches of their size, because large ones have longer vectors and are
        # cheaper.
        return replace(self, program=self.readings.program(self.source, batch_size))


@dataclass(frozen=True)
class ModePlan:
    """The plan of a step in one mode. If it does not fit, only the report is set.

    - `report`: the report of the mode
    - `placement`: the floorplan of a pipeline
    - `timeline`: the timeline of the step
    - `held_bytes`: in streaming mode, bytes on all PEs in each turn
    - `least_pes`: in pipelined mode, the PEs that the memory of a copy needs
    - `routes`: routes between the stages of a pipeline
    """

    report: ModeReport
    placement: Placement | None = None
    timeline: Timeline | None = None
    held_bytes: tuple[int, ...] = ()
    least_pes: int = 0
    routes: Routes | None = None


ModePlanner = Callable[[PlanningCase], ModePlan]
"""A function that plans a case. If the case does not fit, it raises nothing and the report has the reason."""


def make_unfit_plan(mode: str, error: LazyError, largest_batch: int | None = 0) -> ModePlan:
    """Return a plan whose report has the message of `error` as its reason; see `ModeReport` for `largest_batch`."""
    return ModePlan(ModeReport(mode, fits=False, reason=error_reason(error), largest_batch=largest_batch))


def make_uncut_plan(mode: str) -> ModePlan:
    """Return a plan that does not fit, for a script that requests micro-batches in a mode without them."""
    what = "a pipeline processes single samples, but the script requests micro-batches"
    hint = 'Use streaming mode, or set micro_batch_size to "auto" or None.'
    return make_unfit_plan(mode, PlacementError(what, hint=hint), None)


def error_reason(error: LazyError) -> str:
    """Return the text of an error in one line: what happened, its script line in parentheses if known, and the hint."""
    place = f" ({error.where})" if error.where else ""
    return f"{error.what}{place}. {error.hint}"


@dataclass(frozen=True)
class LayerPlacement:
    """The rectangle of a layer, the extents of the part that computes, and the bytes on each PE."""

    rect: Rect
    part: tuple[int, int]
    bytes_per_pe: int


@dataclass(frozen=True)
class SweepCycles:
    """Cycles of a layer's sweeps in a step, and of moving other layers' activations to its layout."""

    forward: int = 0
    backward: int = 0
    update: int = 0
    moving: int = 0


def layer_row(
    case: PlanningCase, layer: Layer, place: LayerPlacement | None, taken: SweepCycles, work_share: float = 1.0
) -> LayerRow:
    """Return the report row of a layer. `place` is None if only the weight host runs it.

    `taken` are its cycles. `work_share` is the share of its operations that are executed; skipped zeros do not count as
    utilisation. Without `place` the rectangle is None, and bytes per PE and utilisation are 0.
    """
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
        utilisation=work_share * _utilisation(case, work, place, taken.forward + taken.backward) if place else 0.0,
        moving_cycles=taken.moving,
    )


def _utilisation(case: PlanningCase, work: LayerWork, place: LayerPlacement, cycles: int) -> float:
    """Return the fraction of the peak that a layer reaches: its operations over those its own PEs can do in `cycles`.

    A multiply-add is 2 operations; the PEs are those of `place.part`. Returns 0 for no cycles or no item bytes.
    """
    if not cycles or not work.item_bytes:
        return 0.0
    width, height = place.part
    peak = 2 * case.machine.per_cycle("product", work.item_bytes) * width * height * cycles
    return work.sweep_flops / peak


def route_rows(routes: Routes, stages: Sequence[Stage], machine: Machine) -> tuple[RouteRow, ...]:
    """Return the report rows of routes, with the cycles of their adapters for a sample."""
    # Use the names of stages; only timelines number stages with equal names.
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
    """Return the samples per second if `samples` take `cycles`, or 0 for zero cycles."""
    return samples * machine.clock_hz / cycles if cycles else 0.0


def host_bounds(case: PlanningCase) -> list[RateBound]:
    """Return the bounds of the computers around the wafers: "input" workers, and "control" of steps if it takes time.

    There is no input bound without a batch, and no control bound without an instruction. For a share of a batch, the
    bounds are those of all copies together.
    """
    host, load, samples = case.host, _input_load(case), case.batch_size
    bounds = []
    if seconds := host.input_seconds(load, case.systems):
        # Each sample takes the same time of a worker in every share.
        bounds.append(RateBound("input", samples / seconds, host.input_source(load)))
    if case.share is not None:
        samples = case.share.batch_size
    if host.step_control_s and case.program.instrs:
        bounds.append(RateBound("control", samples / host.step_control_s, host.sources["step_control_s"]))
    return bounds


def _input_load(case: PlanningCase) -> InputLoad:
    """Return the work of the input workers for the batch of a case.

    A tensor with at least three dimensions for each sample holds pictures. The largest tensor of integers with more
    than one for each sample holds texts; masks, labels and positions of the same texts are made from it.
    """
    types = [case.dataflow.type(b) for b in case.program.batch]
    pictures = [t for t in types if len(t.shape) > 3]
    others = [t for t in types if len(t.shape) <= 3]
    texts = [t.size for t in others if len(t.shape) > 1 and t.dtype.kind in "iu"]
    return InputLoad(sum(t.nbytes for t in others), max(texts, default=0), sum(t.size for t in pictures))
