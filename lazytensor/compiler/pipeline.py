"""Pipeline: the way from a recorded graph to a bound program, as a list of passes for each target.

A pass reads the newest result of some forms (a graph, its matches, kernel calls, a program) and gives a form. What it
gave is checked where `LT_CHECK` asks for that, and printed from the level of `LT_DEBUG` that its row names. To add a
pass, add a row and put it into the targets that take it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from lazytensor import config
from lazytensor.cirh.printer import cirh_text
from lazytensor.compiler import dump, verify
from lazytensor.compiler.causal_mask import mark_causal_products
from lazytensor.compiler.front_end import fold_as_front_end
from lazytensor.compiler.fuse import fuse
from lazytensor.compiler.lower import lower_to_cirh, lower_to_host
from lazytensor.compiler.match import match
from lazytensor.compiler.plan import plan
from lazytensor.compiler.simplify import simplify
from lazytensor.errors import CompileError, refuse
from lazytensor.ir.graph import Graph
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.program import Program
from lazytensor.runtime.backend import Backend, Executable, Store


@dataclass(frozen=True)
class ResultForm:
    """What a pass gives. `check(graph, result)` raises CompileError where it is broken; `text` is how it is printed."""

    check: Callable[[Graph, Any], None] | None
    text: Callable[[Any], str]


RESULT_FORMS: Mapping[str, ResultForm] = {
    "graph": ResultForm(verify.check_graph, dump.graph_text),
    "cirh": ResultForm(None, str),
    "matches": ResultForm(verify.check_matches, dump.matches_text),
    "calls": ResultForm(verify.check_calls, dump.calls_text),
    "program": ResultForm(verify.check_program, dump.program_text),
    "executable": ResultForm(None, lambda executable: executable.placement()),
}


@dataclass(frozen=True)
class Heading:
    """What the text of CIRH says beside the graph: half type, precision level, what is known of state, locations.

    `planning` is not in the text: it is what a plan of the program is asked for. Another one is another compilation.
    """

    half: str = "float16"
    level: int = 1
    notes: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    locations: bool = False
    planning: tuple[MicroBatching, int] = (AUTO, 1)


NO_HEADING = Heading()


@dataclass(frozen=True)
class Pass:
    """One row: a function from the newest results of the forms `reads` to the form `gives`, shown from `level` on."""

    name: str
    run: Callable[..., Any]
    reads: tuple[str, ...]
    gives: str
    level: int


def _print_cirh(graph: Graph, heading: Heading) -> str:
    notes = {state: dict(known) for state, known in heading.notes}
    return cirh_text(fold_as_front_end(graph), heading.half, heading.level, notes, graph, heading.locations)


def _lower_to_cirh(graph: Graph) -> Graph:
    nodes = graph.nodes()
    if nodes and all(n.op != "batch" for n in nodes):
        hint = (
            "Compute from the batch in the function decorated with @cstorch.trace, and pass a result to a step closure."
        )
        what = "No input tensors found. Please make sure you are wrapping your dataloader inside a "
        what += "cstorch.utils.data.DataLoader: nothing that the step keeps or gives to a closure depends on its batch"
        where = next((root.where for root in graph.roots() if root.where is not None), None)
        refuse("no lowering", CompileError(what, where=where, hint=hint), "the step")
    return lower_to_cirh(graph)


def _bind(program: Program, backend: Backend, store: Store) -> Executable:
    return backend.compile(program, store)


# The graph as it came is a row too, so that it is checked and printed like everything after it.
RECORD = Pass("record", lambda graph: graph, ("graph",), "graph", level=dump.GRAPHS)
LOWER_TO_HOST = Pass("lower_to_host", lower_to_host, ("graph",), "graph", level=dump.REWRITES)
LOWER_TO_CIRH = Pass("lower_to_cirh", _lower_to_cirh, ("graph",), "graph", level=dump.REWRITES)
SIMPLIFY = Pass("simplify", simplify, ("graph",), "graph", level=dump.REWRITES)
PRINT_CIRH = Pass("print_cirh", _print_cirh, ("graph", "heading"), "cirh", level=dump.REWRITES)
MATCH = Pass("match", match, ("graph",), "matches", level=dump.NESTS)
CAUSAL = Pass("causal", mark_causal_products, ("graph", "matches"), "matches", level=dump.NESTS)
FUSE = Pass("fuse", fuse, ("graph", "matches"), "calls", level=dump.NESTS)
FUSE_LAYERS = Pass("fuse_layers", partial(fuse, keeps_layers=True), ("graph", "matches"), "calls", level=dump.NESTS)
PLAN = Pass("plan", plan, ("graph", "calls"), "program", level=dump.NESTS)
BIND = Pass("bind", _bind, ("program", "backend", "store"), "executable", level=dump.PLACEMENT)


@dataclass(frozen=True)
class Target:
    """What a graph is compiled for, and the passes that it goes through, in order."""

    name: str
    passes: tuple[Pass, ...]


HOST = Target("host", (RECORD, LOWER_TO_HOST, SIMPLIFY, MATCH, CAUSAL, FUSE, PLAN, BIND))
CSX = Target("csx", (RECORD, LOWER_TO_CIRH, PRINT_CIRH, SIMPLIFY, MATCH, FUSE_LAYERS, PLAN, BIND))
UNLOWERED = Target("as is", (RECORD, MATCH, FUSE, PLAN, BIND))
"""For a graph that is to be run as it stands, without rewriting."""

PASSES: Mapping[str, Pass] = {p.name: p for target in (HOST, CSX) for p in target.passes}
"""Every pass by name, for a target of one's own: Target("mine", (PASSES["simplify"],))."""


class Compilation:
    """A graph on its way through the passes of a target, each run once, when its result is asked for.

    `compilation["simplify"]` is what that pass gave; every pass before it has run then. `given` are the forms that no
    pass makes: `heading` of the CIRH text, `backend` and `store` of the bound program.
    """

    def __init__(self, graph: Graph, target: Target = HOST, heading: Heading = NO_HEADING, **given: Any):
        self.target, self.heading = target, heading
        self._newest: dict[str, Any] = {"graph": graph, "heading": heading, **given}
        self._results: dict[str, Any] = {}
        self._waiting = list(reversed(target.passes))

    def __getitem__(self, name: str) -> Any:
        """What the pass of that name gave.

        Raises KeyError for a pass that the target does not have, CompileError from a pass or from the check after it.
        """
        # Asked in every step for the executable, which is there from the second time on.
        if name in self._results:
            return self._results[name]
        if all(p.name != name for p in self.target.passes):
            raise KeyError(name)
        while name not in self._results:
            self._advance(self._waiting[-1])
            # A pass that raised is still waiting, and raises again for whoever asks again.
            self._waiting.pop()
        return self._results[name]

    def _advance(self, p: Pass) -> None:
        result = p.run(*(self._newest[form] for form in p.reads))
        # The check of a graph is of the graph itself; of all else, against the graph that it was made from.
        form = RESULT_FORMS[p.gives]
        if form.check is not None and config.current().check:
            _check(p, form.check, result if p.gives == "graph" else self._newest["graph"], result)
        dump.show(p.level, p.name, lambda: form.text(result))
        self._newest[p.gives] = self._results[p.name] = result

    @property
    def text(self) -> str:
        """The CIRH of the very graph that is compiled, less what the front end folds in its text alone."""
        text: str = self["print_cirh"]
        return text

    @property
    def program(self) -> Program:
        """The program, not bound to anything yet."""
        program: Program = self["plan"]
        return program

    @property
    def executable(self) -> Executable:
        """The program, bound to the backend and the store that were given."""
        executable: Executable = self["bind"]
        return executable


def _check(p: Pass, check: Callable[[Graph, Any], None], graph: Graph, result: Any) -> None:
    try:
        check(graph, result)
    except CompileError as e:
        hint = e.hint or "This is a fault of the pass, not of the script: report it with the graph (LT_DUMP)."
        raise CompileError(f"after pass {p.name}: {e.what}", where=e.where, hint=hint) from e


def compile_graph(graph: Graph, target: Target = UNLOWERED) -> Program:
    """The program of a graph. Raises CompileError if a pass cannot do it or breaks an invariant."""
    return Compilation(graph, target).program
