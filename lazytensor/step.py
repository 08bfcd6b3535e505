"""Runs captured steps: compiles each distinct graph once, and interprets those that are not worth it.

Because nodes are interned, a step that was traced again and came out the same has the same root nodes: finding its
executable is one look-up.
"""

from collections import OrderedDict
from collections.abc import Callable

from lazytensor.compiler.lower import lower_to_host
from lazytensor.compiler.pipeline import compile_graph
from lazytensor.compiler.simplify import simplify
from lazytensor.ir.graph import Graph
from lazytensor.runtime.backend import Backend, Executable
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.store import Store
from lazytensor.trace import Capture

CACHE_SIZE = 64
"""Executables kept; the least recently used one goes first."""


class StepRunner:
    """Executes captured steps on one backend, over one store of state."""

    def __init__(self, backend: Backend, store: Store, lower: Callable[[Graph], Graph] = lower_to_host):
        self.backend, self.store, self.lower = backend, store, lower
        self._compiled: OrderedDict[tuple, Executable] = OrderedDict()
        self._seen: set[tuple] = set()

    def run(self, capture: Capture) -> None:
        """Execute what was captured and hand out the results."""
        graph, waiting = capture.graph()
        key = (tuple(graph.updates.items()), graph.outputs, graph.inputs)
        executable = self._compiled.get(key)
        if executable is not None:
            self._compiled.move_to_end(key)
        elif not self._compiled or key in self._seen:
            executable = self._compile(key, graph)
        if executable is None:
            self._seen.add(key)
            capture.finish(waiting, self._interpret(graph, capture))
        else:
            capture.finish(waiting, [v.copy() for v in executable.step(capture.arrays())])

    def _compile(self, key: tuple, graph: Graph) -> Executable:
        executable = self.compile(graph)
        self._compiled[key] = executable
        if len(self._compiled) > CACHE_SIZE:
            self._compiled.popitem(last=False)
        return executable

    def compile(self, graph: Graph) -> Executable:
        """Lower a graph and compile it for the backend."""
        return self.backend.compile(compile_graph(simplify(self.lower(graph))), self.store)

    def _interpret(self, graph: Graph, capture: Capture) -> list:
        """A graph that was not seen before may never come again: run it node by node with NumPy."""
        env = dict(zip(graph.inputs, capture.arrays(), strict=True))
        env.update({leaf: self.store.array(s) for s, leaf in graph.state.items()})
        values = evaluate(graph.roots(), env)
        changed, outputs = values[: len(graph.updates)], values[len(graph.updates) :]
        outputs = [v.copy() for v in outputs]
        changed = [v.copy() for v in changed]
        for state, value in zip(graph.updates, changed, strict=True):
            self.store.put(state, value)
        return outputs
