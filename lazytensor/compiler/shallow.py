"""Shallow graphs: a graph with many equal layers, and the same with few of them.

The nodes of equal layers are repeats in the list of all nodes: a forward one, a backward one that goes back through the
layers, those of the updates. Copies of different repeats belong to the same layer where one reads the other. A graph is
shallow when all copies of some layers are left out, and whoever read them reads the same of the layers behind them.
Nothing is known of models here, and nothing is guessed: copies are equal in operation, attributes, types and operands.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from lazytensor.compiler.outline import Outline
from lazytensor.ir.graph import Graph, Node, again, like
from lazytensor.ir.growth import Uneven
from lazytensor.ir.repeats import Numbers, Repeat, kinds_within, longest_repeat
from lazytensor.ir.types import Where

LEAST_NODES = 16
"""Nodes of a repeat that is worth a look."""
ENDS = 2
"""Layers that stay at either end: what is computed there may differ from what is computed within."""
WORTH = 8
"""Layers to be left out at least: the shallow graph is compiled twice."""


@dataclass(frozen=True)
class _Stack:
    """A repeat whose copy `c` belongs to layer `sign * c + offset`."""

    repeat: Repeat
    sign: int
    offset: int

    def layers(self) -> tuple[int, int]:
        """Its first layer, and the one behind its last."""
        ends = self.offset, self.sign * (self.repeat.copies - 1) + self.offset
        return min(ends), max(ends) + 1


@dataclass(frozen=True)
class Cut:
    """Which nodes of a deep graph a shallow one has, and the numbers of what each of them reads there."""

    kept: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    states: tuple[str, ...]
    updates: Mapping[str, int]
    outputs: tuple[int, ...]

    def of(self, graph: Graph) -> Graph:
        """The shallow graph of a deep one: of the one that was cut, or of another one with its outline."""
        nodes = graph.nodes()
        successors: dict[int, Node] = {}
        for k, row in zip(self.kept, self.operands, strict=True):
            successors[k] = _moved(nodes[k], tuple([successors[i] for i in row]))
        return Graph(
            graph.inputs,
            {state: graph.state[state] for state in self.states},
            tuple([successors[k] for k in self.outputs]),
            {state: successors[k] for state, k in self.updates.items()},
            graph.output_names,
        )


class Layers:
    """The equal layers of a graph. Raises Uneven if it has none, or too few of them."""

    def __init__(self, outline: Outline):
        self.outline = outline
        self.references = outline.references
        self._repeats = list(_repeats_of(outline))
        self.stacks = self._related()
        self.first = max(stack.layers()[0] for stack in self.stacks)
        self.count = min(stack.layers()[1] for stack in self.stacks) - self.first
        # For each node its layer, and how far away its like in the next layer is; 0 for what belongs to no layer.
        self.layer = np.full(len(outline.kinds), -1)
        self.step = np.zeros(len(outline.kinds), np.int64)
        for stack in self.stacks:
            own = slice(stack.repeat.start, stack.repeat.end)
            copies = np.repeat(np.arange(stack.repeat.copies), stack.repeat.period)
            self.layer[own] = stack.sign * copies + stack.offset
            self.step[own] = stack.sign * stack.repeat.period

    @property
    def spare(self) -> int:
        """How many layers may be left out."""
        return self.count - 2 * ENDS

    def _related(self) -> list[_Stack]:
        """The longest repeat, and all that read it or are read by it, directly or by way of others."""
        if not self._repeats:
            raise Uneven("nothing repeats")
        longest = max(self._repeats, key=lambda r: r.period * r.copies)
        stacks = {longest: _Stack(longest, 1, 0)}
        links = list(self._links())
        waiting = [longest]
        while waiting:
            own = waiting.pop()
            for reader, source, sign, offset in links:
                # Copy c of the reader reads copy sign * c + offset of the source.
                if reader == own and source not in stacks:
                    # Solved for the source's copy: signs are their own inverses.
                    known = stacks[own]
                    new = _Stack(source, known.sign * sign, known.offset - known.sign * sign * offset)
                elif source == own and reader not in stacks:
                    known = stacks[own]
                    new = _Stack(reader, known.sign * sign, known.sign * offset + known.offset)
                else:
                    continue
                stacks[new.repeat] = new
                waiting.append(new.repeat)
        # Layers are counted from 0.
        least = min(stack.layers()[0] for stack in stacks.values())
        return [_Stack(s.repeat, s.sign, s.offset - least) for s in stacks.values()]

    def _links(self) -> Iterator[tuple[Repeat, Repeat, int, int]]:
        """Reader, source, sign and offset of the relation that most operands between two repeats have."""
        for reader in self._repeats:
            own = self.references[reader.start : reader.start + 2 * reader.period]
            now, then = own[: reader.period].ravel(), own[reader.period :].ravel()
            for source in self._repeats:
                inside = (now >= source.start) & (now < source.end) & (abs(then - now) == source.period)
                if source == reader or not inside.any():
                    continue
                signs = np.sign(then - now)[inside]
                offsets = (now[inside] - source.start) // source.period
                (sign, offset), _ = Counter(zip(signs.tolist(), offsets.tolist(), strict=True)).most_common(1)[0]
                yield reader, source, sign, offset

    def without(self, count: int) -> Cut:
        """The graph without so many of its layers. Raises Uneven where they are tied to what stays."""
        start = self.first + self.count - ENDS - count
        gap = _Gap(self.layer, self.step, start, count)
        kept = np.flatnonzero(~gap.is_out)
        own = self.references[kept, :-1]
        targets = gap.moved(kept, own)
        # Inputs come before their users, in the shallow graph too.
        if (targets >= kept[:, None]).any():
            raise Uneven("layers read each other against their order")
        # A row of the table is filled up behind the operands.
        counts = (own >= 0).sum(axis=1).tolist()
        operands = [tuple(row[:n]) for row, n in zip(targets.tolist(), counts, strict=True)]
        if gap.is_out[list(self.outline.outputs)].any():
            raise Uneven("a layer's own value is fetched")
        return Cut(
            kept=tuple(kept.tolist()),
            operands=tuple(operands),
            states=tuple(self._in_order(list(self.outline.states), gap)),
            updates=self._updates(gap),
            outputs=self.outline.outputs,
        )

    def _updates(self, gap: "_Gap") -> dict[str, int]:
        """The number of the new value of each state that the shallow graph changes."""
        states, updates = self.outline.states, self.outline.updates
        changed = self._in_order(list(updates), gap)
        if any(states[state] < 0 for state in changed):
            raise Uneven("a state is written and not read")
        # A layer's updates may stand a copy away from its states: then those of a neighbour take their place.
        sources = np.array([states[state] for state in changed], np.int64)
        ends = np.array([updates[state] for state in changed], np.int64)
        return dict(zip(changed, gap.moved(sources, ends[:, None])[:, 0].tolist(), strict=True))

    def _in_order(self, names: list[str], gap: "_Gap") -> list[str]:
        """The states that stay, as a net of fewer layers has them, also where a gap goes through those of a layer."""
        places = np.array([self.outline.states[name] for name in names], np.int64)
        numbers = np.arange(len(names))
        at = np.full(len(self.layer), -1)
        at[places[places >= 0]] = numbers[places >= 0]
        layers = np.where(places < 0, -1, self.layer[places])
        # As far ahead as if the layers of the gap had not been counted: each by as many as it stands behind its like.
        likes = at[places - self.step[places]]
        ahead = gap.count * (numbers - np.where(likes < 0, numbers, likes))
        shifts = np.where(layers >= gap.start, ahead, 0)
        # What stands beside layers goes along with the last state of a layer before it.
        last = np.maximum.accumulate(np.where(layers >= 0, numbers, -1))
        order = np.argsort(numbers - np.where(last < 0, 0, shifts[last]), kind="stable")
        stays = (places < 0) | ~gap.is_out[places]
        return [names[k] for k in order[stays[order]].tolist()]

    @cached_property
    def _lines(self) -> dict[Where, dict[tuple[int, int], int]]:
        """For each line the records of layers that are on it: repeat and place within a copy -> its first layer."""
        lines: dict[Where, dict[tuple[int, int], int]] = {}
        # Lines are few, and equal ones mostly one object: which they are is asked for once.
        records: dict[int, dict[tuple[int, int], int]] = {}
        for k, stack in enumerate(self.stacks):
            start, period = stack.repeat.start, stack.repeat.period
            for phase in range(period):
                before: Where | None = None
                for copy, where in enumerate(self.outline.wheres[start + phase : stack.repeat.end : period]):
                    if where is None or where is before:
                        continue
                    before = where
                    if id(where) not in records:
                        records[id(where)] = lines.setdefault(where, {})
                    records[id(where)].setdefault((k, phase), copy)
        return lines

    def lines_like(self, known: Sequence[Where], count: int) -> list[Where | None]:
        """The lines of `count` copies of a record; `known` are the first and the last of them.

        Raises Uneven where these are no lines of the same record in layers so far apart.
        """
        if all(where == known[0] for where in known):
            return [known[0]] * count
        # What is computed for the layer at an end may differ from its likes, and is named as it is.
        for head, tail in product(range(len(known) - 1), range(len(known) - 1)):
            inner = self._lines_between(known[head], known[-1 - tail], count - head - tail)
            if inner:
                return [*known[:head], *inner, *known[len(known) - tail :]]
        raise Uneven(f"{known[0]} and {known[-1]} are no lines of equal layers")

    def _lines_between(self, first: Where, last: Where, count: int) -> list[Where | None]:
        ends = self._lines.get(last, {})
        for (k, phase), copy in self._lines.get(first, {}).items():
            # Calls may stand in another order than the nodes of which they are made: from the last layer to the first.
            end = ends.get((k, phase), copy)
            if abs(end - copy) == count - 1:
                repeat = self.stacks[k].repeat
                place, copies = repeat.start + phase, range(copy, end + 1) if end > copy else range(copy, end - 1, -1)
                return [self.outline.wheres[place + c * repeat.period] for c in copies]
        return []


@dataclass(frozen=True)
class _Gap:
    """The `count` layers from `start` on, which are left out; for each node its layer, and the way to the next."""

    layer: Numbers
    step: Numbers
    start: int
    count: int

    @cached_property
    def is_out(self) -> NDArray[np.bool_]:
        """Whether each node belongs to one of them."""
        return (self.layer >= self.start) & (self.layer < self.start + self.count)

    def moved(self, readers: Numbers, references: Numbers) -> Numbers:
        """What the readers, which stay, read in the shallow graph. Raises Uneven where that is not there."""
        is_cut = (references >= 0) & self.is_out[references]
        layers = self.layer[readers][:, None]
        if (is_cut & (layers < 0)).any():
            raise Uneven("something beside the layers reads all of them")
        # A reader behind the gap reads the same of the layers before it, and one before it of the layers behind it.
        ways = np.where(layers >= self.start, -self.count, self.count) * self.step[references]
        moved = np.where(is_cut, references + ways, references)
        away, before = moved[is_cut], references[is_cut]
        if (away < 0).any() or (away >= len(self.layer)).any():
            raise Uneven("a layer reads of others what its neighbours do not have")
        if self.is_out[away].any() or (self.step[away] != self.step[before]).any():
            raise Uneven("a layer reads of others what its neighbours do not have")
        return moved


def _moved(n: Node, inputs: tuple[Node, ...]) -> Node:
    return n if inputs == n.inputs else again(like(n), inputs)


def _repeats_of(outline: Outline) -> Iterator[Repeat]:
    """Repeats, the longest first: what reads one is told apart by what of it it reads."""
    kinds, references = outline.kinds, outline.references
    operands = references[:, :-1]
    # One more for the place -1, which stands for no operand.
    roles = np.zeros(len(kinds) + 1, np.int64)
    waiting = [(0, len(kinds))]
    while True:
        told = kinds_within(kinds, roles[operands])
        repeats = [(longest_repeat(told[a:b], references[a:b]), (a, b)) for a, b in waiting]
        sizes = [r.period * r.copies if r else 0 for r, _ in repeats]
        best = max(range(len(sizes)), key=sizes.__getitem__, default=None)
        if best is None or sizes[best] < LEAST_NODES:
            return
        repeat, (first, end) = repeats[best]
        assert repeat is not None
        own = Repeat(first + repeat.start, repeat.period, repeat.copies)
        yield own
        waiting.remove((first, end))
        waiting += [(first, own.start), (own.end, end)]
        phases = np.arange(own.period * own.copies) % own.period
        roles[own.start : own.end] = roles.max() + 1 + phases
