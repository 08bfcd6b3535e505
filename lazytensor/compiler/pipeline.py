"""Compilation pipeline: the passes from a recorded graph to a bound program, as a list for each target.

A pass reads the newest results of some forms (a graph, matches, kernel calls, a program) and produces a form. If
`LT_CHECK` is set the result is checked, and it is printed from the pass's level of `LT_DEBUG` on. To add a pass, add a
`Pass` and put it into the targets that use it.
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
from lazytensor.hlo.custom_calls import unwrap, wrap_custom_calls
from lazytensor.hlo.printer import hlo_text
from lazytensor.ir.graph import Graph
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.program import Program
from lazytensor.runtime.backend import Backend, Executable, Store


@dataclass(frozen=True)
class ResultForm:
    """A kind of pass result.

    `check(graph, result)` raises CompileError if it is invalid; `text` returns it for printing.
    """

    check: Callable[[Graph, Any], None] | None
    text: Callable[[Any], str]


RESULT_FORMS: Mapping[str, ResultForm] = {
    "graph": ResultForm(verify.check_graph, dump.graph_text),
    "hlo": ResultForm(verify.check_custom_calls, hlo_text),
    "cirh": ResultForm(None, str),
    "matches": ResultForm(verify.check_matches, dump.matches_text),
    "calls": ResultForm(verify.check_calls, dump.calls_text),
    "program": ResultForm(verify.check_program, dump.program_text),
    "executable": ResultForm(None, lambda executable: executable.placement()),
}


@dataclass(frozen=True)
class Heading:
    """Settings of the CIRH text in addition to the graph.

    - `half`: the name of the half type.
    - `level`: the precision optimization level.
    - `notes`: known properties of state, by state id.
    - `locations`: whether to print source locations.
    - `planning`: micro-batching and number of systems, for a plan of the program. The text does not contain it, but a
      different value is a different compilation.
    """

    half: str = "float16"
    level: int = 1
    notes: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    locations: bool = False
    planning: tuple[MicroBatching, int] = (AUTO, 1)


NO_HEADING = Heading()


@dataclass(frozen=True)
class Pass:
    """A compiler pass.

    - `name`: the key of its result in a `Compilation`.
    - `run`: a function from the newest results of the forms `reads` to its result.
    - `reads`: the forms that it takes.
    - `gives`: the form of its result.
    - `level`: the LT_DEBUG level from which on the result is printed.
    """

    name: str
    run: Callable[..., Any]
    reads: tuple[str, ...]
    gives: str
    level: int


def _print_cirh(graph: Graph, heading: Heading) -> str:
    notes = {state: dict(known) for state, known in heading.notes}
    return cirh_text(fold_as_front_end(graph), heading.half, heading.level, notes, graph, heading.locations)


NO_INPUTS_HINT = (
    "Compute from the batch in the function decorated with @cstorch.trace, and pass a result to a step closure."
)
"""The way out for a step whose outputs do not depend on the batch."""


def _lower_to_cirh(graph: Graph) -> Graph:
    """Lower the graph to CIRH. Refuse it, as the vendor's front end does, if no node is an array of the batch.

    A graph without nodes is not refused.
    """
    nodes = graph.nodes()
    if nodes and all(n.op != "batch" for n in nodes):
        what = "No input tensors found. Please make sure you are wrapping your dataloader inside a "
        what += (
            "cstorch.utils.data.DataLoader: neither the state of the step nor an argument of its closures depends "
            "on the batch"
        )
        where = next((root.where for root in graph.roots() if root.where is not None), None)
        refuse("no lowering", CompileError(what, where=where, hint=NO_INPUTS_HINT), "the step")
    return lower_to_cirh(graph)


def _bind(program: Program, backend: Backend, store: Store) -> Executable:
    return backend.compile(program, store)


# The recorded graph has a pass too, so that it is checked and printed like the others.
RECORD = Pass("record", lambda graph: graph, ("graph",), "graph", level=dump.GRAPHS)
# The vendor's front end captures a step through XLA. These two passes are its stage in HLO, and change no result.
WRAP_CUSTOM_CALLS = Pass("wrap_custom_calls", wrap_custom_calls, ("graph",), "hlo", level=dump.REWRITES)
UNWRAP = Pass("unwrap", unwrap, ("hlo",), "graph", level=dump.REWRITES)
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
    """A compilation target: its name, and the passes that a graph goes through, in order."""

    name: str
    passes: tuple[Pass, ...]


HOST = Target("host", (RECORD, LOWER_TO_HOST, SIMPLIFY, MATCH, CAUSAL, FUSE, PLAN, BIND))
CSX = Target(
    "csx", (RECORD, WRAP_CUSTOM_CALLS, UNWRAP, LOWER_TO_CIRH, PRINT_CIRH, SIMPLIFY, MATCH, FUSE_LAYERS, PLAN, BIND)
)
UNLOWERED = Target("as is", (RECORD, MATCH, FUSE, PLAN, BIND))
"""A target for a graph that is run as it is, without rewriting."""

PASSES: Mapping[str, Pass] = {p.name: p for target in (HOST, CSX) for p in target.passes}
"""All passes by name, for building a custom target: Target("mine", (PASSES["simplify"],))."""


class Compilation:
    """A graph in the passes of a target. Each pass runs once, when its result or a later one is needed.

    `compilation["simplify"]` is the result of that pass. `given` are the forms that no pass makes, such as `backend`
    and `store` of the bound program. `heading` holds settings of the CIRH text.
    """

    def __init__(self, graph: Graph, target: Target = HOST, heading: Heading = NO_HEADING, **given: Any):
        self.target, self.heading = target, heading
        self._newest: dict[str, Any] = {"graph": graph, "heading": heading, **given}
        self._results: dict[str, Any] = {}
        self._waiting = list(reversed(target.passes))

    def __getitem__(self, name: str) -> Any:
        """Return the result of the pass `name`, after running all passes up to it.

        Raise KeyError for a pass that the target does not have, and CompileError from a pass or from the check after
        it.
        """
        # Fast path: each step gets the executable, which exists from the second step on.
        if name in self._results:
            return self._results[name]
        if all(p.name != name for p in self.target.passes):
            raise KeyError(name)
        while name not in self._results:
            self._advance(self._waiting[-1])
            # Removed only after it succeeded: a pass that raised runs, and raises, again at the next call.
            self._waiting.pop()
        return self._results[name]

    def _advance(self, p: Pass) -> None:
        """Run a pass, store its result, and print it as configured. Raise CompileError if the check of its result
        fails.

        Results are checked only if the configuration says so.
        """
        result = p.run(*(self._newest[form] for form in p.reads))
        # A graph is checked by itself; other results are checked against the graph that they were made from.
        form = RESULT_FORMS[p.gives]
        if form.check is not None and config.current().check:
            _check(p, form.check, result if p.gives == "graph" else self._newest["graph"], result)
        dump.show(p.level, p.name, lambda: form.text(result))
        self._newest[p.gives] = self._results[p.name] = result

    @property
    def text(self) -> str:
        """Return the CIRH text of the graph, with the folds that the vendor's front end makes only in its text."""
        text: str = self["print_cirh"]
        return text

    @property
    def program(self) -> Program:
        """Return the program, which is not bound to memory yet."""
        program: Program = self["plan"]
        return program

    @property
    def executable(self) -> Executable:
        """Return the program bound to the given backend and store."""
        executable: Executable = self["bind"]
        return executable


def _check(p: Pass, check: Callable[[Graph, Any], None], graph: Graph, result: Any) -> None:
    try:
        check(graph, result)
    except CompileError as e:
        hint = e.hint or (
            "Report this fault of the compiler, with the graph that LT_DUMP=FOLDER writes. The script is not at fault."
        )
        raise CompileError(f"after pass {p.name}: {e.what}", where=e.where, hint=hint) from e


def compile_graph(graph: Graph, target: Target = UNLOWERED) -> Program:
    """Return the program of a graph. Raise CompileError if a pass refuses the graph or breaks an invariant."""
    return Compilation(graph, target).program
