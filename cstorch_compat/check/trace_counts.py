"""Counts of what a check traced, and the exception that ends a check."""

from contextlib import suppress
from dataclasses import dataclass, field

from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Where


class CheckComplete(BaseException):
    """Raised to end a checked script when nothing new would follow.

    A BaseException, so that `except Exception` misses it.
    """


@dataclass
class TraceSummary:
    """What a check traced.

    loops: the line of each loop whose first step was traced
    operations: number of operations, without inputs and state
    kernels: number of instructions after compiling the steps for the host, without steps that cannot be compiled
    state: number of tensors that the steps update
    is_plain: whether the script does not use the Cerebras API
    is_closed: whether a traced loop has ended and none is running
    is_in_closures: whether closures of a traced step are being called
    is_exact: whether the values that the running code sees are those of a run
    """

    loops: list[Where] = field(default_factory=list)
    operations: int = 0
    kernels: int = 0
    state: int = 0
    is_plain: bool = False
    is_closed: bool = False
    is_in_closures: bool = False
    is_exact: bool = False

    @property
    def is_untrained(self) -> bool:
        """Whether the running code may save a model as trained that was not trained."""
        return self.is_closed or self.is_in_closures

    def enter(self, place: Where) -> None:
        """Record that a loop begins at `place`.

        Raises CheckComplete if a loop began there before, as inside a loop over epochs.
        """
        # A loop inside a loop over epochs begins again in each epoch.
        if place in self.loops:
            raise CheckComplete(f"the loop at {place}, which begins again")
        self.is_closed = False
        self.loops.append(place)

    def add(self, graph: Graph) -> None:
        """Add the numbers of operations, of state that changes, and of kernels of a traced step.

        The graph is compiled for the host to count the kernels; if it cannot be compiled, none are added.
        """
        # Leaves are inputs, not operations.
        self.operations += sum(n.op not in ("batch", "state", "leaf", "variable", "result") for n in graph.nodes())
        self.state += len(graph.updates)
        with suppress(LazyError):  # the check reports why a step cannot be compiled
            self.kernels += len(compile_graph(graph, HOST).instrs)
