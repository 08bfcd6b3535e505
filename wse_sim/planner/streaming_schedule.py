"""Turns: a step as weight-streaming mode runs it, a layer's sweep at a time on the whole wafer, and what it holds.

Forward kernels go in the order of the program, layer by layer; the backward sweep takes the layers in reverse, each
with both of its gradients. Activations stay on the wafer from the turn that makes them to the last one that reads
them. With recompute only what crosses from one segment of layers to the next is kept, and a segment's forward turns
run again before its backward ones. Segments end where little crosses: between the blocks of a transformer that is the
residual stream.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby
from typing import NamedTuple

from wse_sim.planner.dataflow import EXTERNAL_SOURCE, BufferVersion, Dataflow, Sweep
from wse_sim.planner.layers import Layer, is_product_of_tensors
from wse_sim.planner.sparsity import streamed_bytes

MAX_CROSSING_RATIO = 1.1
"""Segments end where at most so many times the least that crosses anywhere inside the step does."""


_HeldTensor = tuple[tuple[int, int], bool, int]
"""A tensor by its buffer and its source, whether it is computed again, and 0 if it is per sample."""


class TurnBytes(NamedTuple):
    """Bytes that cross the wafer's edge in a turn, or move on it.

    `dense` are those of the same weights if none of them were sparse. `moved` are those of activations that another
    layer made, and which go from its layout to that of this one.
    """

    weights: int
    dense: int
    batch: int
    out: int
    moved: int


@dataclass(frozen=True)
class StreamingTurn:
    """Kernels of layer `number` and a sweep that run one after the other."""

    number: int
    layer: Layer
    sweep: Sweep
    kernels: tuple[int, ...]
    bytes: TurnBytes


@dataclass(frozen=True)
class MemoryPeak:
    """Most bytes on the wafer at once, all PEs together: those that grow with the batch, and those that do not."""

    per_batch: int
    fixed: int


@dataclass(frozen=True)
class _MemoryProfile:
    """Bytes while each kernel runs: of tensors per sample, and of others."""

    per_batch: list[int]
    fixed: list[int]

    def most(self, start: int = 0, end: int | None = None) -> MemoryPeak:
        """The most of each in some of the kernels."""
        return MemoryPeak(max(self.per_batch[start:end], default=0), max(self.fixed[start:end], default=0))


class StreamingSchedule:
    """The turns of a step."""

    def __init__(self, dataflow: Dataflow, layers: Sequence[Layer], again: frozenset[BufferVersion]):
        self.dataflow, self._again = dataflow, again
        self._arrived: set[int] = set()
        self._repeated: set[int] = set()
        self._inner = frozenset(b for layer in layers for b in layer.inner)
        self._maker = {i: n for n, layer in enumerate(layers) for i in layer.every_kernel}
        self._leaving = _outgoing_versions(dataflow)
        self._held: dict[int, list[_HeldTensor]] = {}
        self.forward: tuple[StreamingTurn, ...] = tuple(self._forward(layers))
        self._ends = {turn.number: n for n, turn in enumerate(self.forward)}
        self.backward: tuple[StreamingTurn, ...] = tuple(self._backward(layers))

    @property
    def every(self) -> tuple[StreamingTurn, ...]:
        """Forward turns, then backward turns."""
        return (*self.forward, *self.backward)

    def _on_wafer(self, layer: Layer, sweep: Sweep) -> tuple[int, ...]:
        again = layer.recomputed if sweep == "backward" else ()
        return (*again, *(i for i in layer.kernels[sweep] if i not in self.dataflow.on_host))

    def _backward(self, layers: Sequence[Layer]) -> Iterable[StreamingTurn]:
        """The last use of a weight comes first on the way back."""
        behind = [n for n, layer in enumerate(layers) if self._on_wafer(layer, "backward")]
        behind.sort(key=lambda n: self._ends.get(n, len(self._ends)), reverse=True)
        return (self._turn(n, layers[n], "backward", self._backward_kernels(layers[n])) for n in behind)

    def _backward_kernels(self, layer: Layer) -> tuple[int, ...]:
        """Its backward kernels; before them, those that make again what they are the first to read on the way back."""
        own = self._on_wafer(layer, "backward")
        wanted = {o.source for i in own for o in self.dataflow.operands[i] if o in self._again}
        waiting = list(wanted - self._repeated)
        repeated: set[int] = set()
        while waiting:
            i = waiting.pop()
            repeated.add(i)
            operands = (o.source for o in self.dataflow.operands[i] if o in self._again)
            waiting += [k for k in operands if k not in repeated and k not in self._repeated]
        self._repeated |= repeated
        return (*sorted(repeated), *own)

    def _forward(self, layers: Sequence[Layer]) -> Iterable[StreamingTurn]:
        """A weight that is used twice has a turn for each use: its layer's kernels lie apart in the program."""
        owner = {i: n for n, layer in enumerate(layers) for i in self._on_wafer(layer, "forward")}
        for number, kernels in groupby(sorted(owner), key=lambda i: owner[i]):
            yield self._turn(number, layers[number], "forward", tuple(kernels))

    def _turn(self, number: int, layer: Layer, sweep: Sweep, kernels: tuple[int, ...]) -> StreamingTurn:
        return StreamingTurn(
            number=number, layer=layer, sweep=sweep, kernels=kernels, bytes=self._bytes_of(number, kernels)
        )

    def _bytes_of(self, number: int, kernels: tuple[int, ...]) -> TurnBytes:
        """Bytes of tensors that cross the wafer's edge in a turn, or go from another layer's layout to its own."""
        dataflow, nbytes, sparsity = self.dataflow, self.dataflow.nbytes, self.dataflow.sparsity
        weights, moved = set[int](), set[BufferVersion]()
        batch: list[int] = []
        for i in kernels:
            for o in dataflow.operands[i]:
                buffer, source = o
                if buffer in dataflow.resident:
                    # A weight comes again in each turn that needs it: the wafer keeps none, which is the point of this
                    # mode.
                    weights.add(buffer)
                elif source == EXTERNAL_SOURCE or source in dataflow.on_host:
                    if buffer not in self._arrived:
                        self._arrived.add(buffer)
                        batch.append(buffer)
                elif self._maker[source] != number and buffer in dataflow.per_sample and buffer not in self._inner:
                    # Once for each tensor: kernels of one layer have their operands in the same place.
                    moved.add(o)
        results = (BufferVersion(b, i) for i in kernels for b in dataflow.results[i])
        out = [version for version in results if version in self._leaving]
        return TurnBytes(
            weights=sum([streamed_bytes(dataflow.type(b), sparsity.weights.get(b)) for b in weights]),
            dense=sum([nbytes[b] for b in weights]),
            batch=sum([nbytes[b] for b in batch]),
            out=sum([streamed_bytes(dataflow.type(b), sparsity.gradients.get(i)) for b, i in out]),
            moved=sum([nbytes[b] for b, _ in moved]),
        )

    def memory(self) -> MemoryPeak:
        """What the whole step holds without recompute."""
        return self._whole.most()

    @cached_property
    def _whole(self) -> _MemoryProfile:
        return self._course(self.every, None)

    def memory_with_recompute(self) -> MemoryPeak:
        """What crosses between segments, and the fullest segment while it runs forward and back."""
        # What crosses the last segment's end is of no use: the way back begins there.
        crossing, peaks = self._crossing, self._peaks
        kept = sum(crossing[end] for end in self.segment_ends[:-1])
        return MemoryPeak(kept + max((p.per_batch for p in peaks), default=0), max((p.fixed for p in peaks), default=0))

    @cached_property
    def _peaks(self) -> list[MemoryPeak]:
        """The most that each segment holds while it runs forward and back."""
        peaks = []
        start = 0
        for end in self.segment_ends:
            turns = [*self.forward[start : end + 1], *self.segment_backward_turns(start, end)]
            # What others make does not count.
            peaks.append(self._course(turns, frozenset(i for turn in turns for i in turn.kernels)).most())
            start = end + 1
        return peaks

    @cached_property
    def segment_ends(self) -> tuple[int, ...]:
        """Numbers of the forward turns that end a segment; the last turn ends the last one."""
        crossing = self._crossing
        last = len(self.forward) - 1
        inside = [n for n in range(last) if crossing[n]]
        # The ends of a step are narrow in any net: what comes before the first product and after the last.
        middle = inside[len(inside) // 8 : len(inside) - len(inside) // 8] or inside
        least = min((crossing[n] for n in middle), default=0)
        return (*(n for n in inside if crossing[n] <= MAX_CROSSING_RATIO * least), last) if self.forward else ()

    def segment_backward_turns(self, start: int, end: int) -> list[StreamingTurn]:
        """The backward turns of a segment: of layers that are used in it and not after it."""
        return [turn for n in range(end, start - 1, -1) for turn in self._backward_from.get(n, ())]

    @cached_property
    def _backward_from(self) -> dict[int, list[StreamingTurn]]:
        """The backward turns of the layers whose last forward turn each number is."""
        turns: dict[int, list[StreamingTurn]] = defaultdict(list)
        for turn in self.backward:
            turns[self._ends.get(turn.number, EXTERNAL_SOURCE)].append(turn)
        return turns

    @cached_property
    def _crossing(self) -> list[int]:
        """After each forward turn, bytes that were made and that later forward turns read."""
        # A tensor crosses all boundaries between its maker's turn and that of its last reader.
        turn_of = {i: n for n, turn in enumerate(self.forward) for i in turn.kernels}
        change = [0] * (len(self.forward) + 1)
        ends: dict[tuple[int, int], tuple[int, int]] = {}
        for n, turn in enumerate(self.forward):
            for i in turn.kernels:
                for o in self.dataflow.operands[i]:
                    if o.source in turn_of:
                        ends[o.buffer, o.source] = turn_of[o.source], n
        for (buffer, _), (first, last) in ends.items():
            if first < last:
                change[first] += self.dataflow.nbytes[buffer]
                change[last] -= self.dataflow.nbytes[buffer]
        total, crossing = 0, []
        for delta in change[:-1]:
            total += delta
            crossing.append(total)
        return crossing

    def held(self) -> tuple[MemoryPeak, ...]:
        """Most bytes in each turn of the whole step without recompute."""
        ends = list(accumulate(len(turn.kernels) for turn in self.every))
        return tuple(self._whole.most(start, end) for start, end in zip([0, *ends], ends, strict=False))

    def _course(self, turns: Sequence[StreamingTurn], makers: frozenset[int] | None) -> _MemoryProfile:
        """Bytes while `turns` run: of all tensors, or of those that kernels among `makers` make.

        A kernel that goes element by element writes over an operand that nobody reads after it.
        """
        order = [(i, turn.sweep) for turn in turns for i in turn.kernels]
        # Apart from each other, since a smaller batch shrinks the one and not the other.
        begun, stopped, freed = (([0] * len(order), [0] * len(order)) for _ in range(3))
        # By a tensor's buffer and its source and, if it is computed again, the sweep that it is there in.
        last: dict[tuple[int, int] | tuple[int, int, Sweep], tuple[int, int]] = {}
        nbytes = self.dataflow.nbytes
        for n, (i, sweep) in enumerate(order):
            for version, is_again, kind in self._held_tensors(i):
                if makers is None or version[1] in makers:
                    # What is computed again is there twice, and not between.
                    stay = (*version, sweep) if is_again else version
                    if stay not in last:
                        begun[kind][n] += nbytes[version[0]]
                    last[stay] = n, kind
        for (buffer, source, *_), (n, kind) in last.items():
            stopped[kind][n] += nbytes[buffer]
            if source != order[n][0]:
                freed[kind][n] += nbytes[buffer]
        instrs = self.dataflow.program.instrs
        present: list[list[int]] = []
        for begins, stops, frees in zip(begun, stopped, freed, strict=True):
            live, bytes_held = 0, []
            for (i, _), begin, stop, free in zip(order, begins, stops, frees, strict=True):
                live += begin
                is_over = begin and free and not is_product_of_tensors(instrs[i])
                bytes_held.append(live - min(begin, free) if is_over else live)
                live -= stop
            present.append(bytes_held)
        return _MemoryProfile(*present)

    def _held_tensors(self, i: int) -> list[_HeldTensor]:
        """What a kernel has on the wafer.

        Weights and their gradients pass in pieces, and inner tensors exist in tiles.
        """
        if i not in self._held:
            dataflow, again, inner = self.dataflow, self._again, self._inner
            versions = (*dataflow.operands[i], *[(b, i) for b in dataflow.results[i]])
            self._held[i] = [
                (v, v in again, int(v[0] not in dataflow.per_sample))
                for v in versions
                if not (v[0] in dataflow.resident or v[0] in inner or v in dataflow.gradients)
            ]
        return self._held[i]


def _outgoing_versions(dataflow: Dataflow) -> frozenset[BufferVersion]:
    """Results that the weight host or the user needs: gradients, statistics, fetches. All others stay."""
    for_host = (o for i in dataflow.on_host for o in dataflow.operands[i])
    return frozenset((*dataflow.final.values(), *for_host))
