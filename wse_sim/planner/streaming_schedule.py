"""Schedule of a step in weight-streaming mode: turns of layers on the whole wafer, and the bytes that are live in each.

A turn is one sweep of one layer. Forward turns follow program order. Backward turns take the layers in reverse, each
with both of its gradients. Activations stay on the wafer from the turn that makes them to the last turn that reads
them. With recomputation, only tensors that cross a boundary between segments of layers are kept, and the forward turns
of a segment run again before its backward turns. Segments end where few bytes cross: in a transformer, at the residual
stream between blocks.
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
"""Segments end after turns where at most this multiple of the least number of crossing bytes of a turn crosses."""


_HeldTensor = tuple[tuple[int, int], bool, int]
"""((buffer, source), whether it is recomputed, 0 if it is per sample else 1)."""


class TurnBytes(NamedTuple):
    """Bytes that cross the wafer's edge, or move on the wafer, in a turn.

    - `weights`: weights that stream in, sparse ones without zeros
    - `dense`: the same weights if none were sparse
    - `batch`: batch tensors that are read for the first time
    - `out`: results for the weight host or the user
    - `moved`: activations of other layers that move to this layer's layout
    """

    weights: int
    dense: int
    batch: int
    out: int
    moved: int


@dataclass(frozen=True)
class StreamingTurn:
    """A turn: kernels of one layer and one sweep, run one after the other.

    `number` is the index of the layer. A layer that is used several times has several forward turns.
    """

    number: int
    layer: Layer
    sweep: Sweep
    kernels: tuple[int, ...]
    bytes: TurnBytes


@dataclass(frozen=True)
class MemoryPeak:
    """Maximum bytes live on the wafer, over all PEs: those proportional to the batch, and the others."""

    per_batch: int
    fixed: int


@dataclass(frozen=True)
class _MemoryProfile:
    """Bytes that are live while each kernel runs: of per-sample tensors, and of others."""

    per_batch: list[int]
    fixed: list[int]

    def most(self, start: int = 0, end: int | None = None) -> MemoryPeak:
        """Return both maxima over the kernels at positions `start` to `end` (exclusive), by default over all."""
        return MemoryPeak(max(self.per_batch[start:end], default=0), max(self.fixed[start:end], default=0))


class StreamingSchedule:
    """The turns of a step in streaming mode: `forward` and `backward`.

    `again` are the results that the backward sweep recomputes.
    """

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
        """Return the forward turns followed by the backward turns. A turn is one sweep of one layer."""
        return (*self.forward, *self.backward)

    def _on_wafer(self, layer: Layer, sweep: Sweep) -> tuple[int, ...]:
        """Return the kernels of a layer's sweep that the wafer runs, in the backward sweep after recomputed ones.

        Kernels that the weight host runs are left out.
        """
        again = layer.recomputed if sweep == "backward" else ()
        return (*again, *(i for i in layer.kernels[sweep] if i not in self.dataflow.on_host))

    def _backward(self, layers: Sequence[Layer]) -> Iterable[StreamingTurn]:
        """Return the backward turns: layers without forward turns first, then the layer with the last forward turn.

        Layers whose backward kernels all run on the weight host have no backward turn.
        """
        behind = [n for n, layer in enumerate(layers) if self._on_wafer(layer, "backward")]
        behind.sort(key=lambda n: self._ends.get(n, len(self._ends)), reverse=True)
        return (self._turn(n, layers[n], "backward", self._backward_kernels(layers[n])) for n in behind)

    def _backward_kernels(self, layer: Layer) -> tuple[int, ...]:
        """Return the backward kernels of a layer, after the elementwise forward kernels whose results they need again.

        A kernel is repeated once in a step: those that an earlier call returned are left out. Call it in the order of
        turns.
        """
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
        """Return the forward turns, one for each contiguous run of a layer's kernels in the program.

        A layer whose weight is used twice has two turns. Kernels of the weight host have none.
        """
        owner = {i: n for n, layer in enumerate(layers) for i in self._on_wafer(layer, "forward")}
        for number, kernels in groupby(sorted(owner), key=lambda i: owner[i]):
            yield self._turn(number, layers[number], "forward", tuple(kernels))

    def _turn(self, number: int, layer: Layer, sweep: Sweep, kernels: tuple[int, ...]) -> StreamingTurn:
        """Return the turn of these kernels, one sweep of the layer with index `number`, with its bytes.

        Call it in the order of turns, because a batch tensor counts in the first turn that reads it.
        """
        return StreamingTurn(
            number=number, layer=layer, sweep=sweep, kernels=kernels, bytes=self._bytes_of(number, kernels)
        )

    def _bytes_of(self, number: int, kernels: tuple[int, ...]) -> TurnBytes:
        """Return the bytes that cross the wafer's edge in a turn, or move from another layer's layout.

        `number` is the index of the turn's layer. Weights count in each turn that reads them. A batch tensor counts in
        the first turn only, so call it in the order of turns.
        """
        dataflow, nbytes, sparsity = self.dataflow, self.dataflow.nbytes, self.dataflow.sparsity
        weights, moved = set[int](), set[BufferVersion]()
        batch: list[int] = []
        for i in kernels:
            for o in dataflow.operands[i]:
                buffer, source = o
                if buffer in dataflow.resident:
                    # Weights stream in again in each turn that needs them, since the wafer keeps none.
                    weights.add(buffer)
                elif source == EXTERNAL_SOURCE or source in dataflow.on_host:
                    if buffer not in self._arrived:
                        self._arrived.add(buffer)
                        batch.append(buffer)
                elif self._maker[source] != number and buffer in dataflow.per_sample and buffer not in self._inner:
                    # Count each tensor once: kernels of a layer share the layout of their operands.
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
        """Return the memory peak of the whole step without recomputation, for the program's batch size.

        A peak has the bytes of per-sample tensors and of others, on all PEs together.
        """
        return self._whole.most()

    @cached_property
    def _whole(self) -> _MemoryProfile:
        """Return the memory profile of the whole step without recomputation."""
        return self._course(self.every, None)

    def memory_with_recompute(self) -> MemoryPeak:
        """Return the memory peak with recomputation, for the program's batch size.

        It is the sum of the tensors kept at the ends of all segments but the last, plus the peak of the fullest
        segment.
        """
        # Nothing is kept at the end of the last segment, because backward begins there.
        crossing, peaks = self._crossing, self._peaks
        kept = sum(crossing[end] for end in self.segment_ends[:-1])
        return MemoryPeak(kept + max((p.per_batch for p in peaks), default=0), max((p.fixed for p in peaks), default=0))

    @cached_property
    def _peaks(self) -> list[MemoryPeak]:
        """Return the memory peak of each segment while its forward and backward turns run.

        Only tensors that the segment makes itself count.
        """
        peaks = []
        start = 0
        for end in self.segment_ends:
            turns = [*self.forward[start : end + 1], *self.segment_backward_turns(start, end)]
            # Tensors of other segments are counted as kept.
            peaks.append(self._course(turns, frozenset(i for turn in turns for i in turn.kernels)).most())
            start = end + 1
        return peaks

    @cached_property
    def segment_ends(self) -> tuple[int, ...]:
        """Return the indices of the forward turns that end a segment, () if there are no forward turns.

        A turn is one forward sweep of a layer; segments are recomputed as a whole. They end after turns from which some
        bytes cross to later ones, but at most `MAX_CROSSING_RATIO` times the least number. This least number ignores
        the first and last eighth of the turns. The last forward turn ends the last segment.
        """
        crossing = self._crossing
        last = len(self.forward) - 1
        inside = [n for n in range(last) if crossing[n]]
        # Ignore the first and last eighth: few bytes cross near the input and the output of any network.
        middle = inside[len(inside) // 8 : len(inside) - len(inside) // 8] or inside
        least = min((crossing[n] for n in middle), default=0)
        return (*(n for n in inside if crossing[n] <= MAX_CROSSING_RATIO * least), last) if self.forward else ()

    def segment_backward_turns(self, start: int, end: int) -> list[StreamingTurn]:
        """Return the backward turns of a segment, for layers whose last forward turn is in it, in reverse order.

        `start` and `end` (inclusive) are indices of forward turns.
        """
        return [turn for n in range(end, start - 1, -1) for turn in self._backward_from.get(n, ())]

    @cached_property
    def _backward_from(self) -> dict[int, list[StreamingTurn]]:
        """Return, for each forward turn that is the last one of its layer, the backward turns of that layer.

        Those of layers without forward turns have the key -1.
        """
        turns: dict[int, list[StreamingTurn]] = defaultdict(list)
        for turn in self.backward:
            turns[self._ends.get(turn.number, EXTERNAL_SOURCE)].append(turn)
        return turns

    @cached_property
    def _crossing(self) -> list[int]:
        """Return, for each forward turn, the bytes made in it or before that later forward turns read."""
        # A tensor crosses all boundaries between its maker's turn and its last reader's turn.
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
        """Return the memory peak in each turn of `every`, without recomputation. A turn is one sweep of one layer.

        A peak has the bytes of per-sample tensors and of others, on all PEs together, for the program's batch size.
        """
        ends = list(accumulate(len(turn.kernels) for turn in self.every))
        return tuple(self._whole.most(start, end) for start, end in zip([0, *ends], ends, strict=False))

    def _course(self, turns: Sequence[StreamingTurn], makers: frozenset[int] | None) -> _MemoryProfile:
        """Return the live bytes during each kernel of `turns`, separately for tensors per sample and for others.

        A tensor lives from its first to its last use in `turns`; a recomputed one lives once in each sweep. Counts
        tensors that the kernels `makers` make, or all if it is None. A kernel that is no product of two tensors reuses
        the memory of an operand that has no later reader.
        """
        order = [(i, turn.sweep) for turn in turns for i in turn.kernels]
        # Keep per-sample and other tensors apart: only the former shrink with the batch.
        begun, stopped, freed = (([0] * len(order), [0] * len(order)) for _ in range(3))
        # Key: buffer, source and, for a recomputed tensor, the sweep in which this copy exists.
        last: dict[tuple[int, int] | tuple[int, int, Sweep], tuple[int, int]] = {}
        nbytes = self.dataflow.nbytes
        for n, (i, sweep) in enumerate(order):
            for version, is_again, kind in self._held_tensors(i):
                if makers is None or version[1] in makers:
                    # A recomputed tensor exists twice, once in each sweep, and not in between.
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
        """Return the tensors that kernel `i` reads or writes on the wafer. The list is cached.

        Entries are (version, whether it is recomputed, 0 if per sample else 1). Weights and their gradients do not
        count, as they are streamed in pieces. Inner tensors of attention blocks exist only as tiles and do not count
        either.
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
    """Return the tensor versions that leave the wafer if one of its kernels makes them.

    They are operands of kernels of the weight host, such as gradients, fetched tensors, and new states.
    """
    for_host = (o for i in dataflow.on_host for o in dataflow.operands[i])
    return frozenset((*dataflow.final.values(), *for_host))
