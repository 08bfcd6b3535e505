"""What was seen of a script, and where following it ends."""

from dataclasses import dataclass, field

from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Where


class CheckComplete(BaseException):
    """The script has come to a point behind which nothing new would be seen. Not for the script to catch."""


@dataclass
class TraceSummary:
    """What was seen of a script: one entry for each loop whose first step was traced.

    `is_closed` says that no loop runs and one has.
    """

    loops: list[Where] = field(default_factory=list)
    operations: int = 0
    kernels: int = 0
    state: int = 0
    is_plain: bool = False
    is_closed: bool = False

    def enter(self, place: Where) -> None:
        """A loop begins. Raises FollowedEnough if it began there before."""
        # A loop inside a loop over epochs, which would be traced once for each epoch.
        if place in self.loops:
            raise CheckComplete(f"the loop at {place} begins again")
        self.is_closed = False
        self.loops.append(place)

    def add(self, graph: Graph) -> None:
        """Count a step that was traced."""
        # Leaves are what comes in, not what is done.
        self.operations += sum(n.op not in ("batch", "state", "leaf", "variable", "result") for n in graph.nodes())
        self.state += len(graph.updates)
        try:
            self.kernels += len(compile_graph(graph, HOST).instrs)
        except LazyError:
            self.kernels = 0
