"""Timing of a step in weight-streaming mode: the cycles of each turn in a micro-batch, and how turns overlap."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from wse_sim.cost_model.relayout import relayout_cycles
from wse_sim.layout import Rect, ceil_div
from wse_sim.planner.bounds import RateBound, find_limit
from wse_sim.planner.dataflow import Sweep, instruction_work
from wse_sim.planner.modes.mode_plan import (
    LayerPlacement,
    ModePlan,
    PlanningCase,
    SweepCycles,
    host_bounds,
    layer_row,
    samples_per_second,
)
from wse_sim.planner.report import LayerRow, ModeReport
from wse_sim.planner.streaming_schedule import StreamingTurn
from wse_sim.planner.tile_search import TileSize, find_best_tile
from wse_sim.planner.timeline import Timeline, TimeSpan

MODE = "streaming"
LANES = ("edge in", "mesh", "edge out")
CORNER_SIDES = (*range(1, 8), *(n << octave for octave in range(24) for n in range(8, 16)))
"""Side lengths of mesh corners in which a turn may run."""
_MAX_SHOWN_MICRO_BATCHES = 2  # A timeline shows this number of micro-batches; later ones are the same.


def usable_bytes(case: PlanningCase) -> int:
    """Return the bytes that tensors may use on all PEs of the case's machine together."""
    return case.machine.usable_pes * case.machine.usable_bytes_per_pe


_LaneTimes = tuple[tuple[int, int, int], float, int, int]
"""Cycles of a turn: (edge in, mesh, edge out), those of its weights, of its kernels, and of moved activations."""


@dataclass(frozen=True)
class _TimedTurn:
    """A turn with its cycles for one micro-batch.

    - `turn`: the turn
    - `cycles`: cycles on the lanes (edge in, mesh, edge out)
    - `weight_cycles`: cycles of its weights on the first lane
    - `work_cycles`: cycles of its kernels on the mesh
    - `moving_cycles`: cycles in which other layers' activations move to its layout, overlapped with its kernels
    """

    turn: StreamingTurn
    cycles: tuple[int, int, int]
    weight_cycles: float
    work_cycles: int
    moving_cycles: int

    def scale_cycles(self, share: float) -> tuple[int, int, int]:
        """Return the cycles on the three lanes for a `share` of the samples, rounded up.

        Cycles of weights and results do not shrink.
        """
        arriving, computing, leaving = self.cycles
        batch_cycles = arriving - self.weight_cycles
        return math.ceil(self.weight_cycles + share * batch_cycles), math.ceil(share * computing), leaving


class StreamedRun:
    """A step on one system in a given number of micro-batches, with or without recomputation.

    - `size`: samples of a micro-batch
    - `last_share`: samples of the last micro-batch over `size`
    - `part`: the case at the size of a micro-batch, if the step is available at that size, else the whole case
    - `share`: the share of the prices of `part` that a micro-batch takes
    - `turns`: the schedule of `part`
    """

    def __init__(self, case: PlanningCase, micro_batches: int, has_recompute: bool):
        self.case, self.micro_batches, self.has_recompute = case, micro_batches, has_recompute
        own = ceil_div(case.batch_size, case.systems)
        self.size = size = ceil_div(own, micro_batches)
        self.last_share = (own - (micro_batches - 1) * size) / size
        other = case.with_batch(size)
        # If the step is not available at that size, its kernels are priced as a share of this one's.
        self.part = other or case
        self.share = 1.0 if other else size / case.batch_size
        self.dataflow = self.part.passing
        self.mesh = case.machine.usable_width, case.machine.usable_height
        self._times: dict[object, _LaneTimes] = {}
        self._parts_of: dict[tuple[int, TileSize], tuple[int, TileSize]] = {}
        self.turns = self.part.turns

    def plan(self) -> ModePlan:
        """Return the plan with report, timeline, and live bytes of each turn, also if the memory does not suffice."""
        timed, step_cycles = self.timed, self.step_cycles
        bounds = self._bounds(step_cycles, timed)
        # Weights stream in for each micro-batch, samples once.
        batch_bytes = round(self._whole_batches * self.share * sum(t.turn.bytes.batch for t in timed))
        blame = {"fill": ("compute", "moving", "weights", "edge")}
        limit, sentence = find_limit(bounds, blame)
        report = ModeReport(
            mode=MODE,
            fits=True,
            step_cycles=step_cycles,
            fill_cycles=timed[0].cycles[0] if timed else 0,
            samples_per_s=limit.samples_per_s,
            limit=limit.kind,
            verdict=sentence,
            bounds=tuple(bounds),
            peak_bytes_per_pe=self.peak_bytes_per_pe,
            edge_bytes_in=self.micro_batches * sum(t.turn.bytes.weights for t in timed) + batch_bytes,
            edge_bytes_out=self.micro_batches * sum(t.turn.bytes.out for t in timed),
            micro_batches=self.micro_batches,
            micro_batch_size=self.size,
            has_recompute=self.has_recompute,
            dense_bytes_in=self.micro_batches * sum(t.turn.bytes.dense for t in timed) + batch_bytes,
            work_share=self._work_share(timed),
            used_systems=self.case.systems,
            rows=tuple(self._rows(timed)),
        )
        return ModePlan(report, timeline=self._timeline(), held_bytes=self._held_bytes())

    @cached_property
    def step_cycles(self) -> int:
        """Return the cycles of the whole step.

        They include the latency of the tree between systems and weight host once if weights stream in.
        """
        # Transfers through the tree are pipelined, so its latency counts once per step.
        tree = self.case.host.tree_seconds(self.case.systems) if sum(t.turn.bytes.weights for t in self.timed) else 0
        return self._schedule.end + math.ceil(tree * self.case.machine.clock_hz)

    def _held_bytes(self) -> tuple[int, ...]:
        """Return the live bytes on all PEs in each turn of a micro-batch, or () with recomputation."""
        if self.has_recompute:
            return ()
        return tuple(math.ceil(self.share * memory.per_batch) + memory.fixed for memory in self.turns.held())

    @property
    def _whole_batches(self) -> float:
        """Return the number of micro-batches, with the last one as a fraction of a full one."""
        return self.micro_batches - 1 + self.last_share

    def _sent_cycles(self) -> float:
        """Return the cycles of a step in which the wafer's edge transfers bytes, in the busier direction.

        Each micro-batch sends all weights and gradients again; samples enter once.
        """
        weights = sum(t.weight_cycles for t in self.timed)
        batch = sum(t.cycles[0] for t in self.timed) - weights
        leaving = self.micro_batches * sum(t.cycles[2] for t in self.timed)
        return max(self.micro_batches * weights + self._whole_batches * batch, leaving)

    @cached_property
    def timed(self) -> list[_TimedTurn]:
        """Return the timed turns of a micro-batch in order. A turn is one sweep of one layer.

        With recomputation segments of layers run backward from the last to the first, each after its forward turns are
        repeated. The last segment is not repeated. Backward turns of layers without forward turns come last.
        """
        turns = self.turns
        if not self.has_recompute:
            return [self._time(turn) for turn in turns.every]
        order: list[StreamingTurn] = list(turns.forward)
        # From the last segment to the first, each is recomputed just before its backward turns.
        ends = turns.segment_ends
        for n in reversed(range(len(ends))):
            start = ends[n - 1] + 1 if n else 0
            # The activations of the last segment are still present when backward begins.
            order += turns.forward[start : ends[n] + 1] if n < len(ends) - 1 else ()
            order += turns.segment_backward_turns(start, ends[n])
        ordered = {id(turn) for turn in order}
        left = [turn for turn in turns.backward if id(turn) not in ordered]
        return [self._time(turn) for turn in (*order, *left)]

    def _time(self, turn: StreamingTurn) -> _TimedTurn:
        """Return the turn, a sweep of a layer, with its cycles. Turns with equal kernels and bytes are timed once."""
        key = tuple(self.case.prices.kinds(self.dataflow, turn.kernels)), turn.bytes
        if key not in self._times:
            self._times[key] = self._compute_time(turn)
        return _TimedTurn(turn, *self._times[key])

    def _compute_time(self, turn: StreamingTurn) -> _LaneTimes:
        """Return the cycles of a turn for one micro-batch: on the three lanes, and three parts of these.

        The parts are those of weights, of kernels and of moved activations. Weights and results are limited by the
        slower of the wafer's edge and the weight host's stream, the batch by the edge only. The weights of a turn and
        its results are a transfer each, which takes a fixed time of the host too. The mesh takes the longer
        of kernels and moved activations, which overlap.
        """
        machine, host = self.case.machine, self.case.host
        # Weights are limited by the weight host's tree too, the batch only by the edge.
        bits = min(machine.edge_bits_per_s, host.stream_bits_per_s) / machine.clock_hz
        words = math.ceil(self.share * turn.bytes.moved * 8 / machine.link_bits)
        work, moving = self._spread(turn.kernels, words)
        # Kernels process rows as they arrive from the previous layer's layout.
        mesh = max(work, moving)
        # The weights of a layer are one transfer, and so are its gradients.
        transfer = host.weight_transfer_s * machine.clock_hz
        weights = transfer + turn.bytes.weights * 8 / bits if turn.bytes.weights else 0.0
        leaving = transfer + turn.bytes.out * 8 / bits if turn.bytes.out else 0.0
        batch = self.share * turn.bytes.batch * 8 / machine.edge_bits_per_cycle
        lanes = math.ceil(weights + batch), mesh, math.ceil(leaving)
        return lanes, weights, work, moving

    def _spread(self, kernels: Sequence[int], words: int) -> tuple[int, int]:
        """Return the cycles of kernels, and of `words` that move to them from another layout, in a corner of the mesh.

        The corner is chosen so that the longer of both is shortest: small tensors use a small corner. Corners have
        sides from `CORNER_SIDES` for all meshes, so that neither number rises for a given side on a larger mesh.
        """
        work, parts = self._kernel_cycles(kernels, self.mesh)
        sides = CORNER_SIDES[: bisect_left(CORNER_SIDES, max(self.mesh)) + 1]
        around = bisect_left(sides, max(map(max, parts), default=1))
        best = work, min(self._moved(words, side) for side in sides[around:])
        for side in reversed(sides[:around]):
            if work >= max(best):
                break
            if (moving := self._moved(words, side)) < max(best):
                work, _ = self._kernel_cycles(kernels, (min(side, self.mesh[0]), min(side, self.mesh[1])))
                best = min(best, (work, moving), key=max)
        return best

    def _moved(self, words: int, side: int) -> int:
        """Return the cycles to move `words` to a corner with sides of `side` cores, cut off by the mesh.

        A larger mesh is never slower.
        """
        # A corner may be cut off by the mesh; use the distances of a square so that larger meshes are no slower.
        line = min(side, *self.mesh)
        return relayout_cycles(words, line, 2 * side - line, self.case.machine)

    def _kernel_cycles(self, kernels: Sequence[int], mesh: TileSize) -> tuple[int, list[TileSize]]:
        """Return the total cycles of kernels on a mesh (width, height), and the size of the part that each uses."""
        own = [self._part(i, mesh) for i in kernels]
        return sum(cycles for cycles, _ in own), [part for _, part in own]

    def _part(self, i: int, mesh: TileSize) -> tuple[int, TileSize]:
        """Return the least cycles of kernel `i` for a micro-batch on a part of `mesh`, and the part's size. Cached."""
        key = self.case.prices.kind(self.dataflow, i), mesh
        if key not in self._parts_of:
            # A part may be faster than the whole mesh because its paths are shorter.
            self._parts_of[key] = find_best_tile(self.case.prices, self.dataflow, i, mesh, self.share)
        return self._parts_of[key]

    def _work_share(self, timed: Sequence[_TimedTurn]) -> float:
        """Return the share of all operations of these turns that are executed.

        It is below 1 if zeros of sparse weights are skipped, and 1 without operations.
        """
        sparsity = self.dataflow.sparsity
        if not (sparsity.weights or sparsity.gradients):
            return 1.0
        kernels = [i for one in timed for i in one.turn.kernels]
        kinds, instrs = self.case.prices.kinds(self.dataflow, kernels), self.dataflow.program.instrs
        flops = [instruction_work(instrs[i]).flops for i in kernels]
        shares = {
            kind: self.case.prices.work_share(self.dataflow, i, *self._part(i, self.mesh)[1])
            for kind, i in dict(zip(kinds, kernels, strict=True)).items()
        }
        done = sum([n * shares[kind] for n, kind in zip(flops, kinds, strict=True)])
        return done / sum(flops) if any(flops) else 1.0

    @cached_property
    def _schedule(self) -> "_LaneClock":
        """Return the clock after all micro-batches have been scheduled.

        Micro-batches that only repeat the rhythm are skipped, which gives the same times.
        """
        clock, n = _LaneClock(self._ahead(self.timed)), 0
        whole = [one.cycles for one in self.timed]
        before: tuple[int, tuple[int, ...]] = 0, ()
        while n < self.micro_batches:
            share = self.last_share if n == self.micro_batches - 1 else 1.0
            clock.add(
                whole if share == 1.0 else [one.scale_cycles(share) for one in self.timed],
                is_shown=n < _MAX_SHOWN_MICRO_BATCHES,
            )
            n += 1
            state = clock.end, clock.waiting()
            # If two successive micro-batches leave the lanes in the same state, all further full ones do.
            if state[1] == before[1] and n > _MAX_SHOWN_MICRO_BATCHES:
                skipped = max(0, self.micro_batches - 1 - n)
                clock.skip(skipped * (state[0] - before[0]))
                n += skipped
            before = state
        return clock

    def _timeline(self) -> Timeline:
        """Return the timeline of the first `_MAX_SHOWN_MICRO_BATCHES` micro-batches, a span for each turn and lane."""
        names = [f"{one.turn.layer.name} {one.turn.sweep}" for one in self.timed]
        return Timeline(tuple(self._schedule.spans(min(_MAX_SHOWN_MICRO_BATCHES, self.micro_batches) * names)))

    def least_cycles(self, other: "StreamedRun") -> int:
        """Return a lower bound on the step's cycles, derived from `other`, a run with fewer micro-batches.

        Weights and results are transferred more often, and kernels take no less in total, except for rounding.
        """
        rounded = sum(1 + len(t.turn.kernels) for t in other.timed)
        lanes = [sum(t.cycles[lane] for t in other.timed) for lane in range(3)]
        sent = max(sum(t.weight_cycles for t in other.timed), lanes[2])
        return math.floor(max(self.micro_batches * sent, other._whole_batches * (lanes[1] - rounded)))

    def _ahead(self, timed: Sequence[_TimedTurn]) -> int:
        """Return the number of turns whose weights can be prefetched into free memory, at the size of the largest.

        It is 1 without weights. With 0, weights stream in while they are multiplied.
        """
        largest = max((t.turn.bytes.weights for t in timed), default=0)
        # Prefetched weights may be on any PE until they are multiplied.
        return self.free_bytes // largest if largest else 1

    @cached_property
    def free_bytes(self) -> int:
        """Return the bytes that are free when most are in use; negative if the step does not fit."""
        return usable_bytes(self.case) - self._needed_bytes

    @property
    def peak_bytes_per_pe(self) -> int:
        """Return the bytes on each PE when most are in use, spread evenly."""
        return ceil_div(self._needed_bytes, self.case.machine.usable_pes)

    @cached_property
    def _needed_bytes(self) -> int:
        """Return the maximum number of live bytes on all PEs during a micro-batch, without prefetched weights."""
        memory = self.turns.memory_with_recompute() if self.has_recompute else self.turns.memory()
        return math.ceil(self.share * memory.per_batch) + memory.fixed

    def _bounds(self, step_cycles: int, timed: Sequence[_TimedTurn]) -> list[RateBound]:
        """Return the bounds of host, kernels, moved activations, transfers and the whole step, without empty ones.

        Transfers are the bound "weights" if weights take at least half of the incoming cycles, else "edge".
        """
        case, machine = self.case, self.case.machine
        bounds = host_bounds(case)
        if not step_cycles:
            return bounds or [RateBound("nothing", 0.0, "the program has no kernel")]
        stream = case.host.sources["stream_bits_per_s"]
        worst = max(timed, key=lambda t: t.work_cycles)
        work = self._whole_batches * sum(t.work_cycles for t in timed)
        place = str(worst.turn.layer.where) if worst.turn.layer.where else ""
        rates = [
            samples_per_second(case.batch_size, cycles, machine) for cycles in (work, self._sent_cycles(), step_cycles)
        ]
        if work:
            bounds.append(RateBound("compute", rates[0], "closed forms, all layers", worst.turn.layer.name, place))
        if moving := self._whole_batches * sum(t.moving_cycles for t in timed):
            slowest = max(timed, key=lambda t: t.moving_cycles).turn.layer
            rate = samples_per_second(case.batch_size, moving, machine)
            source = "own derivation: activations between the layouts of layers, half of each line across its middle"
            bounds.append(RateBound("moving", rate, source, slowest.name, str(slowest.where) if slowest.where else ""))
        if rates[1]:
            # Name the layer with the longest transfer.
            heavy = max(timed, key=lambda t: t.cycles[0])
            # Weights and batch have different rates; report the one that uses more of the lane's time.
            if 2 * sum(t.weight_cycles for t in timed) >= sum(t.cycles[0] for t in timed):
                bounds.append(RateBound("weights", rates[1], stream, heavy.turn.layer.name))
            else:
                bounds.append(RateBound("edge", rates[1], machine.sources["edge_bits_per_s"]))
        return [*bounds, RateBound("fill", rates[2], "the whole step, layer by layer")]

    def _rows(self, timed: Sequence[_TimedTurn]) -> Iterator[LayerRow]:
        """Yield the report row of each layer. A layer that only the weight host runs has no rectangle.

        Cycles are those of a step on one system. All layers have the memory peak of the step and the whole mesh.
        """
        whole = Rect.whole(self.case.machine)
        turns_of: dict[int, list[_TimedTurn]] = defaultdict(list)
        for one in timed:
            turns_of[one.turn.number].append(one)
        place = LayerPlacement(whole, (whole.width, whole.height), self.peak_bytes_per_pe)
        for n, layer in enumerate(self.case.layers):
            own = turns_of[n]
            # Work is counted over all systems, cycles on one.
            cycles = SweepCycles(
                forward=self._sweep_cycles(own, "forward"),
                backward=self._sweep_cycles(own, "backward"),
                moving=self.micro_batches * sum([one.moving_cycles for one in own]),
            )
            yield layer_row(self.case, layer, place if own else None, cycles, self._work_share(own))

    def _sweep_cycles(self, timed: Sequence[_TimedTurn], sweep: Sweep) -> int:
        """Return the mesh cycles of the turns of one sweep, over all micro-batches of a step."""
        return sum([math.ceil(self._whole_batches * one.cycles[1]) for one in timed if one.turn.sweep == sweep])


class _LaneClock:
    """A schedule of turns on three lanes: edge in, mesh, and edge out.

    Weights may arrive up to `ahead` turns before they are used. `end` is the cycle in which all turns so far have
    ended.
    """

    def __init__(self, ahead: int):
        self.ahead, self.end = ahead, 0
        self._lanes: tuple[int, int, int | None] = 0, 0, None
        self._meshes: list[int] = []
        self._shown: list[tuple[tuple[int, int, int | None], tuple[int, int, int]]] = []

    def add(self, turns: Iterable[tuple[int, int, int]], is_shown: bool) -> None:
        """Schedule further turns after those so far, given their cycles on each lane. Record their ends if `is_shown`.

        Weights of a turn may arrive once the mesh has finished the turn `ahead` + 1 places before it. The mesh ends a
        turn no earlier than its weights have arrived. A turn with 0 cycles on the third lane sends nothing.
        """
        arrived, computed, left = self._lanes
        ahead, meshes = self.ahead, self._meshes
        for arriving, computing, leaving in turns:
            # Weights arrive ahead of the mesh until the memory for them is full.
            freed = meshes[-ahead - 1] if len(meshes) > ahead else 0
            arrived = max(arrived, freed) + arriving
            # A turn processes weights as they arrive: it may start before the last one and ends no earlier.
            computed = max(computed + computing, arrived)
            meshes.append(computed)
            if leaving:
                left = max((left or 0) + leaving, computed)
            if is_shown:
                self._shown.append(((arrived, computed, left if leaving else None), (arriving, computing, leaving)))
        self._lanes = arrived, computed, left
        self.end = max(computed, left or 0)

    def waiting(self) -> tuple[int, ...]:
        """Return, for each event that later turns may wait for, how many cycles before `end` it happened.

        Events are the ends of the lanes and of the last `ahead` + 1 turns on the mesh. Equal results mean an equal
        future.
        """
        lanes = (end for end in self._lanes if end is not None)
        return tuple([self.end - end for end in (*lanes, *self._meshes[-self.ahead - 1 :])])

    def skip(self, cycles: int) -> None:
        """Delay `end` and everything that later turns may wait for by `cycles`. Recorded turns keep their times."""
        arrived, computed, left = self._lanes
        self._lanes = arrived + cycles, computed + cycles, left if left is None else left + cycles
        self._meshes = [end + cycles for end in self._meshes[-self.ahead - 1 :]]
        self.end += cycles

    def spans(self, names: Sequence[str]) -> list[TimeSpan]:
        """Return the spans of the recorded turns, three lanes for each turn, with their causes.

        A span starts when its cause ends; `wait_cycles` are those in which its lane does not work. `names` has a name
        for each recorded turn; another number raises ValueError. A turn that sends nothing has no span on the last
        lane.
        """
        spans: list[TimeSpan] = []
        last: list[int | None] = [None, None, None]
        meshes: list[int] = []
        for name, (ends, cycles) in zip(names, self._shown, strict=True):
            for lane, (end, busy) in enumerate(zip(ends, cycles, strict=True)):
                if end is None:
                    continue
                cause = last[lane]
                freed = meshes[-self.ahead - 1] if lane == 0 and len(meshes) > self.ahead else None
                # If both end together, the lane's previous span is the cause.
                if freed is not None and (cause is None or spans[freed].end_cycles > spans[cause].end_cycles):
                    cause = freed
                last[lane] = len(spans)
                if lane == 1:
                    meshes.append(len(spans))
                start = spans[cause].end_cycles if cause is not None else 0
                spans.append(TimeSpan(LANES[lane], name, start, end, cause, end - start - busy))
        return spans
