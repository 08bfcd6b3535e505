"""Deep graphs: compiled by way of two shallow ones, so that equal layers cost what a few of them do."""

from collections.abc import Callable
from dataclasses import dataclass

from lazytensor.compiler.outline import Outline, outline_of
from lazytensor.compiler.shallow import WORTH, Cut, Layers
from lazytensor.ir.graph import Graph
from lazytensor.ir.graph_function import inlined
from lazytensor.ir.growth import Uneven, grown, is_alike, require_states, sharing, skeleton_of
from lazytensor.ir.program import Program
from lazytensor.ir.skeleton import Skeleton


@dataclass(frozen=True)
class _Depth:
    """How a deep graph was compiled: what was cut of it, what that compiled to, how it grows again, and to what."""

    outline: Outline
    cut: Cut
    short: Program
    skeleton: Skeleton
    deep: Program


class DeepCompiler:
    """Compiles graphs, a deep one by what `compiled(graph)` gives for shallow ones.

    A step that is recorded once more, for another batch, has the layers of the one before. Then neither are they looked
    for again, nor is a second shallow graph compiled to tell how the first one grows.
    """

    def __init__(self, compiled: Callable[[Graph], Program]):
        self._compiled = compiled
        self._before: _Depth | None = None

    def program(self, graph: Graph) -> Program:
        """What `compiled(graph)` gives, which is asked for shallow graphs alone if many of its layers are equal.

        Calls of functions are written out in what is compiled, so that those of a deep graph never are.
        """
        outline = outline_of(graph)
        try:
            return self._as_before(graph, outline) or self._anew(graph, outline)
        # A graph whose layers differ is as good as any, and takes the long way.
        except Uneven:
            return self._compiled(inlined(graph))

    def _as_before(self, graph: Graph, outline: Outline) -> Program | None:
        before = self._before
        if before is None or not outline.is_like(before.outline):
            return None
        short = self._compiled(inlined(before.cut.of(graph)))
        # A batch may give a layer another program.
        if not is_alike(short, before.short):
            return None
        require_states(short, before.skeleton, [leaf.type for leaf in graph.state.values()])
        # Weights and their updates are the same for all batches, and more than half of a deep program.
        return grown(sharing(short, before.short), before.skeleton, before.deep)

    def _anew(self, graph: Graph, outline: Outline) -> Program:
        layers = Layers(outline)
        count = layers.spare
        if count < WORTH:
            return self._compiled(inlined(graph))
        cut = layers.without(count)
        short, long = (self._compiled(inlined(c.of(graph))) for c in (cut, layers.without(count - 1)))
        types = {name: leaf.type for name, leaf in graph.state.items()}
        skeleton = skeleton_of(short, long, count, types, layers.lines_like)
        deep = grown(short, skeleton)
        self._before = _Depth(outline, cut, short, skeleton, deep)
        return deep
