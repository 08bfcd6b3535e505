"""Run captured steps: compile each distinct graph once and cache the result.

Nodes are interned, so a step that is traced again with the same operations has the same root nodes. Finding its
compiled program is one dict lookup. A graph that is seen for the first time is usually interpreted instead.
"""

from collections import OrderedDict

import numpy as np

from lazytensor import config
from lazytensor.compiler.pipeline import HOST, NO_HEADING, Compilation, Heading, Target
from lazytensor.core.capture import Capture
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, GraphKey
from lazytensor.runtime.backend import Backend
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store
from lazytensor.runtime.unfused_program import Unfused

MAX_CACHED_COMPILATIONS = 64
"""Maximum number of cached compilations; the least recently used one is evicted first."""


class StepRunner:
    """Executes captured steps on `backend`, with state in `store`, and caches compiled programs."""

    def __init__(self, backend: Backend, store: Store, target: Target = HOST):
        self.backend, self.store, self.target = backend, store, target
        self._compilations: OrderedDict[GraphKey, Compilation] = OrderedDict()
        self._seen: set[GraphKey] = set()

    @property
    def has_lowered(self) -> bool:
        """Whether any graph was compiled."""
        return bool(self._compilations)

    def run(self, capture: Capture) -> None:
        """Execute a captured step and store the results in its storages, and the new state in the store.

        The graph is compiled if nothing was compiled yet or if the same graph was run before; otherwise it is
        interpreted.
        """
        graph, waiting = capture.graph()
        key = graph.key
        compilation = self._compilations.get(key)
        if compilation is not None:
            self._compilations.move_to_end(key)
        elif self.is_worth_compiling(key):
            compilation = self.compilation(graph)
        if compilation is None:
            self._seen.add(key)
            capture.finish(waiting, self._interpret(graph, capture))
        else:
            executable = compilation.executable
            values = enumerate(executable.step(capture.arrays()))
            capture.finish(waiting, [v if k in executable.owned else v.copy() for k, v in values])

    def is_worth_compiling(self, key: GraphKey) -> bool:
        """Return whether to compile a graph: it was seen before, or nothing was compiled yet."""
        return not self._compilations or key in self._seen

    def compilation(self, graph: Graph, heading: Heading = NO_HEADING) -> Compilation:
        """Return the compilation of a graph; an equal graph with the same `heading` gives the cached one.

        `heading` is the text above printed graphs. A compilation with another heading replaces the cached one. Beyond
        MAX_CACHED_COMPILATIONS, the least recently used compilation is evicted.
        """
        key = graph.key
        known = self._compilations.get(key)
        # The heading is part of the printed text, so a new heading needs a new compilation.
        if known is not None and known.heading == heading:
            self._compilations.move_to_end(key)
            return known
        new = Compilation(graph, self.target, heading=heading, backend=self.backend, store=self.store)
        self._seen.discard(key)
        self._compilations[key] = new
        # Each compilation holds its arena and constants, so a script with many shapes would use more and more memory.
        if len(self._compilations) > MAX_CACHED_COMPILATIONS:
            self._compilations.popitem(last=False)
        return new

    def _interpret(self, graph: Graph, capture: Capture) -> list[np.ndarray]:
        """Run a graph one operation at a time, write the new state to the store, and return copies of the outputs."""
        values = self._values(graph, capture)
        changed, outputs = values[: len(graph.updates)], values[len(graph.updates) :]
        # Outputs and new values may be the array of a state, which the updates below overwrite.
        outputs = [v.copy() for v in outputs]
        changed = [v.copy() for v in changed]
        for state, value in zip(graph.updates, changed, strict=True):
            self.store.put(state, value)
        return outputs

    def _values(self, graph: Graph, capture: Capture) -> list[np.ndarray]:
        """Return the values of all roots of the graph: the new values of `graph.updates`, then the outputs.

        On the host backend with the JIT enabled, they are computed with compiled kernels, so that they equal those of
        the compiled program bit by bit. Otherwise, or if that fails, NumPy computes them.
        """
        arrays = capture.arrays()
        state = {s: self.store.array(s) for s in graph.state}
        if config.current().jit and isinstance(self.backend, HostBackend):
            try:
                return Unfused(graph, self.target).run(arrays, state)
            # NumPy, below, raises an error that names the operation and its line.
            except (LazyError, ValueError, TypeError, MemoryError):
                pass
        env = dict(zip(graph.inputs, arrays, strict=True)) | {leaf: state[s] for s, leaf in graph.state.items()}
        return evaluate(graph.roots(), env)
