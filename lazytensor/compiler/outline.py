"""Outlines: a graph as numbers, which say how it is built and not what its types are.

Two recordings of a step with different batches have one outline, so that what is told from it is told for both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.graph_function import VARIABLE
from lazytensor.ir.repeats import Numbers
from lazytensor.ir.skeleton import DRAW
from lazytensor.ir.types import Where

UNTOLD = ("id", "uid", DRAW)
"""Attributes that only tell equal nodes apart, as names and the numbers of draws do."""
LEAVES = ("state", VARIABLE)
"""Operations that have no other attributes, but for the type that their nodes have."""


@dataclass(frozen=True, eq=False)
class Outline:
    """The nodes of a graph, inputs before users, by their numbers.

    `kinds` are equal for nodes that are equal but for their inputs, and counted as they first come. `references` has a
    row for each node: the numbers of its inputs, filled up with -1, and last the number of its draw. `states` and
    `updates` have the number of each leaf and of each new value, -1 where no node needs it.
    """

    kinds: Numbers
    references: Numbers
    wheres: list[Where | None]
    states: Mapping[str, int]
    updates: Mapping[str, int]
    outputs: tuple[int, ...]

    def is_like(self, other: "Outline") -> bool:
        """Whether the other one is equal, down to the lines of the script."""
        return (
            np.array_equal(self.kinds, other.kinds)
            and np.array_equal(self.references, other.references)
            and self.outputs == other.outputs
            # In one order, which is that of the states of a program.
            and [*self.states.items(), *self.updates.items()] == [*other.states.items(), *other.updates.items()]
            and self.wheres == other.wheres
        )


def outline_of(graph: Graph) -> Outline:
    """The outline of a graph."""
    nodes = graph.nodes()
    place = {n: k for k, n in enumerate(nodes)}
    return Outline(
        kinds=_kinds(nodes),
        references=_references(nodes, place),
        wheres=[n.where for n in nodes],
        states={state: place.get(leaf, -1) for state, leaf in graph.state.items()},
        updates={state: place[n] for state, n in graph.updates.items()},
        outputs=tuple([place[n] for n in graph.outputs]),
    )


def _references(nodes: Sequence[Node], place: Mapping[Node, int]) -> Numbers:
    inputs = [n.inputs for n in nodes]
    counts = np.fromiter(map(len, inputs), np.int64, len(nodes))
    table = np.full((len(nodes), counts.max(initial=0) + 1), -1)
    flat = map(place.__getitem__, chain.from_iterable(inputs))
    table[:, :-1][np.arange(table.shape[1] - 1) < counts[:, None]] = np.fromiter(flat, np.int64, counts.sum())
    table[:, -1] = [n.attrs.get(DRAW, -1) if n.items else -1 for n in nodes]
    return table


def _kinds(nodes: Sequence[Node]) -> Numbers:
    numbers: dict[Any, int] = {}
    # What is the same object is equal; all are alive as long as the nodes are.
    types: dict[int, int] = {}
    told: dict[tuple[Any, ...], int] = {(): -1}
    kinds = []
    for n in nodes:
        type = types.get(id(n.type))
        if type is None:
            type = types[id(n.type)] = numbers.setdefault(n.type, len(numbers))
        attrs = -1 if n.op in LEAVES else told.get(n.items)
        if attrs is None:
            attrs = numbers.setdefault(tuple([item for item in n.items if item[0] not in UNTOLD]), len(numbers))
            told[n.items] = attrs
        # A constant is itself: equal ones in several layers are one node, or differ.
        kind = n.op, type, attrs, len(n.inputs), None if n.value is None else id(n.value)
        kinds.append(numbers.setdefault(kind, len(numbers)))
    return np.array(kinds, np.int64)
