"""Turns: a step as weight-streaming mode runs it, a layer's sweep at a time on the whole wafer, and what it holds.

Forward kernels go in the order of the program, layer by layer; the backward sweep takes the layers in reverse, each
with both of its gradients. Activations stay on the wafer from the turn that makes them to the last one that reads
them. With recompute only what crosses from one segment of layers to the next is kept, and a segment's forward turns
run again before its backward ones. Segments end where little crosses: between the blocks of a transformer that is the
residual stream.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice

from wse_sim.plan.layers import Layer, Sweep, is_product_of_tensors
from wse_sim.plan.sparsity import streamed_bytes
from wse_sim.plan.wiring import OUTSIDE, BufferVersion, Wiring

NARROW = 1.1
"""Segments end where at most so many times the least that crosses anywhere inside the step does."""


_Stay = tuple[BufferVersion, str]
"""A tensor and, if it is computed again, the sweep that it is there in."""


@dataclass(frozen=True)
class Turn:
    """Kernels of layer `number` and a sweep that run one after the other. Bytes cross the wafer's edge in this turn.

    `dense_bytes` are those of the same weights if none of them were sparse. `moved_bytes` are those of activations that
    another layer made, and which go from its layout to that of this one.
    """

    number: int
    layer: Layer
    sweep: Sweep
    kernels: tuple[int, ...]
    weight_bytes: int
    dense_bytes: int
    batch_bytes: int
    bytes_out: int
    moved_bytes: int

    @property
    def bytes_in(self) -> int:
        """All that comes in over the edge."""
        return self.weight_bytes + self.batch_bytes


@dataclass(frozen=True)
class Memory:
    """Most bytes on the wafer at once, all PEs together: those that grow with the batch, and those that do not."""

    per_batch: int
    fixed: int


def _most(course: Sequence[Memory]) -> Memory:
    return Memory(max((m.per_batch for m in course), default=0), max((m.fixed for m in course), default=0))


class Turns:
    """The turns of a step."""

    def __init__(self, wiring: Wiring, layers: Sequence[Layer], again: frozenset[BufferVersion]):
        self.wiring, self._again = wiring, again
        self._inner = frozenset(b for layer in layers for b in layer.inner)
        self._arrived: set[int] = set()
        self._maker = {i: n for n, layer in enumerate(layers) for i in layer.every_kernel}
        self.forward = tuple(self._forward(layers))
        # The last use of a weight comes first on the way back.
        ends = {turn.number: n for n, turn in enumerate(self.forward)}
        behind = [n for n, layer in enumerate(layers) if self._on_wafer(layer, "backward")]
        behind.sort(key=lambda n: ends.get(n, len(ends)), reverse=True)
        self._repeated: set[int] = set()
        self.backward = tuple(self._turn(n, layers[n], "backward", self._way_back(layers[n])) for n in behind)

    @property
    def every(self) -> tuple[Turn, ...]:
        """Forward turns, then backward turns."""
        return (*self.forward, *self.backward)

    def _on_wafer(self, layer: Layer, sweep: Sweep) -> tuple[int, ...]:
        again = layer.recomputed if sweep == "backward" else ()
        return (*again, *(i for i in layer.kernels[sweep] if not self.wiring.is_on_host(i)))

    def _way_back(self, layer: Layer) -> tuple[int, ...]:
        """Its backward kernels; before them, those that make again what they are the first to read on the way back."""
        own = self._on_wafer(layer, "backward")
        wanted = {o.source for i in own for o in self.wiring.operands[i] if o in self._again}
        waiting = list(wanted - self._repeated)
        repeated: set[int] = set()
        while waiting:
            i = waiting.pop()
            repeated.add(i)
            operands = (o.source for o in self.wiring.operands[i] if o in self._again)
            waiting += [k for k in operands if k not in repeated and k not in self._repeated]
        self._repeated |= repeated
        return (*sorted(repeated), *own)

    def _forward(self, layers: Sequence[Layer]) -> Iterable[Turn]:
        """A weight that is used twice has a turn for each use: its layer's kernels lie apart in the program."""
        owner = {i: n for n, layer in enumerate(layers) for i in self._on_wafer(layer, "forward")}
        for number, kernels in groupby(sorted(owner), key=lambda i: owner[i]):
            yield self._turn(number, layers[number], "forward", tuple(kernels))

    def _turn(self, number: int, layer: Layer, sweep: Sweep, kernels: tuple[int, ...]) -> Turn:
        weights: dict[int, int] = {}
        dense: dict[int, int] = {}
        batch = 0
        for i in kernels:
            for o in self.wiring.operands[i]:
                size = self.wiring.type(o.buffer).nbytes
                if o.buffer in self.wiring.resident:
                    # A weight comes again in each turn that needs it: the wafer keeps none, which is the point of this
                    # mode.
                    weights[o.buffer] = streamed_bytes(
                        self.wiring.type(o.buffer), self.wiring.sparsity.weights.get(o.buffer)
                    )
                    dense[o.buffer] = size
                elif not self._is_made_on_wafer(o) and o.buffer not in self._arrived:
                    self._arrived.add(o.buffer)
                    batch += size
        return Turn(
            number=number,
            layer=layer,
            sweep=sweep,
            kernels=kernels,
            weight_bytes=sum(weights.values()),
            dense_bytes=sum(dense.values()),
            batch_bytes=batch,
            bytes_out=sum(map(self._leaving_bytes, kernels)),
            moved_bytes=self._moved_bytes(number, kernels),
        )

    def _moved_bytes(self, number: int, kernels: tuple[int, ...]) -> int:
        """Once for each tensor: kernels of one layer have their operands in the same place."""
        read = {o for i in kernels for o in self.wiring.operands[i] if o.buffer in self.wiring.per_sample}
        moved = {o for o in read if self._is_made_on_wafer(o) and self._maker[o.source] != number}
        return sum(self.wiring.type(o.buffer).nbytes for o in moved if o.buffer not in self._inner)

    def _is_made_on_wafer(self, operand: BufferVersion) -> bool:
        return operand.source != OUTSIDE and not self.wiring.is_on_host(operand.source)

    def _leaving_bytes(self, i: int) -> int:
        """Bytes of the results that the weight host or the user needs: gradients, statistics, fetches."""
        asked_for, total = self._asked_for, 0
        for buffer in self.wiring.results[i]:
            users = self.wiring.users.get((buffer, i), ())
            # Everything else is read by later kernels on the wafer and stays there.
            if BufferVersion(buffer, i) in asked_for or any(self.wiring.is_on_host(u) for u in users):
                total += streamed_bytes(self.wiring.type(buffer), self.wiring.sparsity.gradients.get(i))
        return total

    @cached_property
    def _asked_for(self) -> frozenset[BufferVersion]:
        return frozenset(self.wiring.final.values())

    def memory(self) -> Memory:
        """What the whole step holds without recompute."""
        return self._peak(self.every, None)

    def memory_with_recompute(self) -> Memory:
        """What crosses between segments, and the fullest segment while it runs forward and back."""
        # What crosses the last segment's end is of no use: the way back begins there.
        crossing = self._crossing()
        kept = sum(crossing[end] for end in self.segment_ends[:-1])
        peaks = []
        start = 0
        for end in self.segment_ends:
            turns = [*self.forward[start : end + 1], *self.backward_of(start, end)]
            peaks.append(self._peak(turns, frozenset(i for turn in turns for i in turn.kernels)))
            start = end + 1
        return Memory(kept + max((p.per_batch for p in peaks), default=0), max((p.fixed for p in peaks), default=0))

    @cached_property
    def segment_ends(self) -> tuple[int, ...]:
        """Numbers of the forward turns that end a segment; the last turn ends the last one."""
        crossing = self._crossing()
        last = len(self.forward) - 1
        inside = [n for n in range(last) if crossing[n]]
        # The ends of a step are narrow in any net: what comes before the first product and after the last.
        middle = inside[len(inside) // 8 : len(inside) - len(inside) // 8] or inside
        least = min((crossing[n] for n in middle), default=0)
        return (*(n for n in inside if crossing[n] <= NARROW * least), last) if self.forward else ()

    def backward_of(self, start: int, end: int) -> list[Turn]:
        """The backward turns of a segment: of layers that are used in it and not after it."""
        own = {turn.number for turn in self.forward[start : end + 1]}
        later = {turn.number for turn in self.forward[end + 1 :]}
        ended = own - later
        return [turn for turn in self.backward if turn.number in ended]

    def _crossing(self) -> list[int]:
        """After each forward turn, bytes that were made and that later forward turns read."""
        # A tensor crosses all boundaries between its maker's turn and that of its last reader.
        turn_of = {i: n for n, turn in enumerate(self.forward) for i in turn.kernels}
        change = [0] * (len(self.forward) + 1)
        ends: dict[tuple[int, int], tuple[int, int]] = {}
        for n, turn in enumerate(self.forward):
            for i in turn.kernels:
                for o in self.wiring.operands[i]:
                    if o.source in turn_of:
                        ends[o.buffer, o.source] = turn_of[o.source], n
        for (buffer, _), (first, last) in ends.items():
            if first < last:
                change[first] += self.wiring.type(buffer).nbytes
                change[last] -= self.wiring.type(buffer).nbytes
        total, crossing = 0, []
        for delta in change[:-1]:
            total += delta
            crossing.append(total)
        return crossing

    def held(self) -> tuple[Memory, ...]:
        """Most bytes in each turn of the whole step without recompute."""
        course = iter(self._course(self.every, None))
        return tuple(_most(list(islice(course, len(turn.kernels)))) for turn in self.every)

    def _peak(self, turns: Sequence[Turn], makers: frozenset[int] | None) -> Memory:
        """Most bytes while `turns` run: of all tensors, or of those that kernels among `makers` make."""
        return _most(list(self._course(turns, makers)))

    def _course(self, turns: Sequence[Turn], makers: frozenset[int] | None) -> Iterator[Memory]:
        """Bytes while each kernel of `turns` runs.

        A kernel that goes element by element writes over an operand that nobody reads after it.
        """
        wiring = self.wiring
        order = [(i, turn.sweep) for turn in turns for i in turn.kernels]
        first: dict[_Stay, int] = {}
        last: dict[_Stay, int] = {}
        for n, (i, sweep) in enumerate(order):
            own = (BufferVersion(b, i) for b in wiring.results[i])
            for version in (*wiring.operands[i], *own):
                if self._is_held(version) and (makers is None or version.source in makers):
                    # What is computed again is there twice, and not between.
                    key: _Stay = version, sweep if version in self._again else ""
                    first.setdefault(key, n)
                    last[key] = n
        starts: dict[int, list[BufferVersion]] = defaultdict(list)
        stops: dict[int, list[BufferVersion]] = defaultdict(list)
        for stay, n in first.items():
            starts[n].append(stay[0])
            stops[last[stay]].append(stay[0])
        # Apart from each other, since a smaller batch shrinks the one and not the other.
        live = {True: 0, False: 0}
        for n, (i, _) in enumerate(order):
            begun, ended = self._sizes(starts[n]), self._sizes(v for v in stops[n] if v.source != i)
            in_place = not is_product_of_tensors(wiring.program.instrs[i])
            present = {}
            for kind in (True, False):
                live[kind] += begun[kind]
                spared = min(begun[kind], ended[kind]) if in_place else 0
                present[kind] = live[kind] - spared
                live[kind] -= self._sizes(stops[n])[kind]
            yield Memory(present[True], present[False])

    def _is_held(self, version: BufferVersion) -> bool:
        """Weights and their gradients pass in pieces, and inner tensors exist in tiles."""
        outside = version.buffer in self.wiring.resident or version in self.wiring.gradients
        return not outside and version.buffer not in self._inner

    def _sizes(self, versions: Iterable[BufferVersion]) -> dict[bool, int]:
        """Bytes of tensors: per sample (True), and others."""
        sizes = {True: 0, False: 0}
        for version in versions:
            sizes[version.buffer in self.wiring.per_sample] += self.wiring.type(version.buffer).nbytes
        return sizes
