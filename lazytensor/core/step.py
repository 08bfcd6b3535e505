"""Runs captured steps: compiles each distinct graph once, and interprets those that are not worth it.

Because nodes are interned, a step that was traced again and came out the same has the same root nodes: finding its
compilation is one look-up.
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
"""Compilations kept; the least recently used one goes first."""


class StepRunner:
    """Executes captured steps on one backend, over one store of state, and keeps what was compiled for them."""

    def __init__(self, backend: Backend, store: Store, target: Target = HOST):
        self.backend, self.store, self.target = backend, store, target
        self._compilations: OrderedDict[GraphKey, Compilation] = OrderedDict()
        self._seen: set[GraphKey] = set()

    @property
    def has_lowered(self) -> bool:
        """Whether any graph was sent through the passes."""
        return bool(self._compilations)

    def run(self, capture: Capture) -> None:
        """Execute what was captured and hand out the results."""
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
        """Whether a graph was seen before, or is the first one of all: it then comes again, mostly."""
        return not self._compilations or key in self._seen

    def compilation(self, graph: Graph, heading: Heading = NO_HEADING) -> Compilation:
        """The way of a graph through the passes; the same one for an equal graph, so that no pass runs twice."""
        key = graph.key
        known = self._compilations.get(key)
        # Another heading is another text: an execution under other settings takes the place of the one before.
        if known is not None and known.heading == heading:
            self._compilations.move_to_end(key)
            return known
        new = Compilation(graph, self.target, heading=heading, backend=self.backend, store=self.store)
        self._seen.discard(key)
        self._compilations[key] = new
        # Each holds its arena and its constants, so that a script with ever new shapes would grow without bound.
        if len(self._compilations) > MAX_CACHED_COMPILATIONS:
            self._compilations.popitem(last=False)
        return new

    def _interpret(self, graph: Graph, capture: Capture) -> list[np.ndarray]:
        """A graph that was not seen before may never come again: run it one operation after the other."""
        values = self._values(graph, capture)
        changed, outputs = values[: len(graph.updates)], values[len(graph.updates) :]
        # An output may be a state's own array, which the updates below overwrite; and so may another new value.
        outputs = [v.copy() for v in outputs]
        changed = [v.copy() for v in changed]
        for state, value in zip(graph.updates, changed, strict=True):
            self.store.put(state, value)
        return outputs

    def _values(self, graph: Graph, capture: Capture) -> list[np.ndarray]:
        """The values of all roots; on the host backend, with the bits of its compiled program."""
        arrays = capture.arrays()
        state = {s: self.store.array(s) for s in graph.state}
        if config.current().jit and isinstance(self.backend, HostBackend):
            try:
                return Unfused(graph, self.target).run(arrays, state)
            # NumPy tells the operation and its line.
            except (LazyError, ValueError, TypeError, MemoryError):
                pass
        env = dict(zip(graph.inputs, arrays, strict=True)) | {leaf: state[s] for s, leaf in graph.state.items()}
        return evaluate(graph.roots(), env)
