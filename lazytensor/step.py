"""Runs captured steps: compiles each distinct graph once, and interprets those that are not worth it.

Because nodes are interned, a step that was traced again and came out the same has the same root nodes: finding its
compilation is one look-up. A step that came out the same twice is begun before it is traced: what follows from its
batch alone is computed meanwhile, by threads that would wait.
"""

from collections import OrderedDict

import numpy as np

from lazytensor import config
from lazytensor.capture import Capture
from lazytensor.compiler.pipeline import HOST, PLAIN, Compilation, Heading, Target
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, GraphKey, Node
from lazytensor.runtime.backend import Backend, Executable, Foreseeing
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.store import Store
from lazytensor.runtime.unfused import Unfused

CACHE_SIZE = 64
"""Compilations kept; the least recently used one goes first."""
MISSES = 3
"""After so many steps in a row that were begun for nothing none is, as where a script writes to state between steps."""


class StepRunner:
    """Executes captured steps on one backend, over one store of state, and keeps what was compiled for them."""

    def __init__(self, backend: Backend, store: Store, target: Target = HOST):
        self.backend, self.store, self.target = backend, store, target
        self._compilations: OrderedDict[GraphKey, Compilation] = OrderedDict()
        self._seen: set[GraphKey] = set()
        # What computed the last step; the same with the inputs of its graph, if that computed the one before it too;
        # what the step that is recorded was begun by; and how often in a row that was for nothing.
        self._last: Executable | None = None
        self._expected: tuple[tuple[Node, ...], Foreseeing] | None = None
        self._begun: Foreseeing | None = None
        self._missed = 0

    @property
    def has_lowered(self) -> bool:
        """Whether any graph was sent through the passes."""
        return bool(self._compilations)

    def begin(self, capture: Capture) -> None:
        """Begin with what the last steps did with their batches, before it is known what this one does.

        `run` goes on from there if it turns out to be the same; `end` is called behind it, or in its place.
        """
        if self._expected is not None and self._missed < MISSES:
            inputs, executable = self._expected
            fed = capture.cells.inputs
            if len(fed) <= len(inputs) and all(one.leaf is leaf for one, leaf in zip(fed, inputs, strict=False)):
                self._begun = executable
                executable.begin(capture.arrays())

    def end(self) -> None:
        """Forget what was begun and has not been run."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            self._missed += 1
            begun.drop()

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
            self.end()
            capture.finish(waiting, self._interpret(graph, capture))
        else:
            executable = compilation.executable
            if executable is not self._begun or capture.cells.has_brought:
                self.end()
            values = enumerate(executable.step(capture.arrays()))
            if self._begun is not None:
                self._begun, self._missed = None, 0
            self._foresee(graph, executable)
            capture.finish(waiting, [v if k in executable.lasting else v.copy() for k, v in values])

    def _foresee(self, graph: Graph, executable: Executable) -> None:
        """Expect a step that came twice to come again."""
        if executable is not self._last:
            self._last, self._expected, self._missed = executable, None, 0
        elif self._expected is None and isinstance(executable, Foreseeing):
            self._expected = graph.inputs, executable

    def is_worth_compiling(self, key: GraphKey) -> bool:
        """Whether a graph was seen before, or is the first one of all: it then comes again, mostly."""
        return not self._compilations or key in self._seen

    def compilation(self, graph: Graph, heading: Heading = PLAIN) -> Compilation:
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
        if len(self._compilations) > CACHE_SIZE:
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
