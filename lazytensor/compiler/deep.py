"""Deep graphs: compiled by way of two shallow ones, so that equal layers cost what a few of them do."""

from collections.abc import Callable

from lazytensor.compiler.shallow import WORTH, Layers
from lazytensor.ir.graph import Graph
from lazytensor.ir.growth import Uneven, grown, skeleton_of
from lazytensor.ir.program import Program


def compile_deep(graph: Graph, compiled: Callable[[Graph], Program]) -> Program:
    """What `compiled(graph)` gives, which is asked for shallow graphs alone if many layers of this one are equal."""
    try:
        layers = Layers(graph)
        count = layers.spare
        if count < WORTH:
            return compiled(graph)
        short, long = compiled(layers.without(count)), compiled(layers.without(count - 1))
        states = {name: leaf.type for name, leaf in graph.state.items()}
        return grown(short, skeleton_of(short, long, count, states, layers.lines_like))
    # A graph whose layers differ is as good as any, and takes the long way.
    except Uneven:
        return compiled(graph)
