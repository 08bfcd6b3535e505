"""The graph of a step grouped by module: ATen lines, CIRH lines, and kernels with their generated code.

The lines come from the MLIR texts of a run and are assigned to modules by their locations.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lazytensor.compiler.codegen import generate
from lazytensor.ir.nest import Nest
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Type
from wse_sim.planner.dataflow import instruction_work

_INLINE_LOCATION = re.compile(r' loc\("(?P<scope>(?:[^"]*/)?)aten::[^"]*"\(.*\)\)$')
_NUMBERED_LOCATION = re.compile(r" loc\((?P<number>#loc\d+)\)$")
_LOCATION_ALIAS = re.compile(r'^(?P<number>#loc\d+) = loc\((?:"(?P<scope>(?:[^"]*/)?)aten::.*|unknown)\)$')
_DIRECTIONS = ("fwd", "bwd")


class StepTexts(NamedTuple):
    """The MLIR texts of a step, `torch.mlir` and `cirh.mlir`, with locations."""

    aten: str
    cirh: str


def build_module_tree(program: Program, layer_of: Mapping[int, int], texts: StepTexts) -> dict[str, Any]:
    """Return a dict with the modules of a step and the tables that their kernels refer to.

    "modules" maps paths to the MLIR lines and kernels of a module. "places" are source locations and "nests" loop
    nests, in tables because most are shared. `layer_of` maps the indices of instructions to layers; others get -1.
    """
    tree = _ModuleTree()
    for i, instr in enumerate(program.instrs):
        scope = instr.where.scope if instr.where is not None else ""
        tree.at(scope)["kernels"].append(tree.kernel(program, instr, layer_of.get(i, -1)))
    for form, text in zip(StepTexts._fields, texts, strict=True):
        for scope, line in _lines_with_scopes(text):
            tree.at(scope)[form].append(line)
    return {"modules": tree.modules, "places": list(tree.places), "nests": [_nest_data(n) for n in tree.nests.values()]}


class _ModuleTree:
    """The modules, source locations and nests collected so far."""

    def __init__(self) -> None:
        self.modules: dict[str, dict[str, list[Any]]] = {}
        self.places: dict[str, int] = {}
        self.nests: dict[object, Nest] = {}
        self._numbers: dict[object, int] = {}

    def at(self, scope: str) -> dict[str, list[Any]]:
        """Return the entry of the module of a scope, which is created if it does not exist.

        The forward and backward operations of a module have the same entry: a last part "fwd" or "bwd" is left out.
        """
        # The scope of a gradient ends with its direction.
        parts = scope.split(".")
        path = ".".join(parts[:-1] if parts[-1] in _DIRECTIONS else parts)
        return self.modules.setdefault(path, {"aten": [], "cirh": [], "kernels": []})

    def kernel(self, program: Program, instr: Instr, layer: int) -> dict[str, Any]:
        """Return the data of an instruction as a dict for JSON.

        "place" and "nest" are indices into the tables of source locations and nests. `layer` is its layer or -1.
        """
        # `instruction_work` falls back to the work of the loops.
        work, place = instruction_work(instr), str(instr.where) if instr.where is not None else ""
        return {
            "name": instr.nest.name if instr.nest is not None else instr.kernel,
            "sweep": instr.direction,
            "layer": layer,
            "place": self.places.setdefault(place, len(self.places)),
            "flops": work.flops,
            "reads": ", ".join(_buffer_types(program, instr.reads)),
            "writes": ", ".join(_buffer_types(program, instr.writes)),
            "nest": self._nest_number(instr.nest),
        }

    def _nest_number(self, nest: Nest | None) -> int:
        """Return the index of a nest in the table, or -1 for None. Equal nests have one index."""
        if nest is None:
            return -1
        # Equal layers have equal nests. Generate their source once.
        self.nests.setdefault(nest.key, nest)
        return self._numbers.setdefault(nest.key, len(self._numbers))


def _buffer_types(program: Program, buffers: tuple[int, ...]) -> Iterator[str]:
    """Return the types of buffers as text."""
    types: Iterator[Type] = (program.buffers[b].type for b in buffers)
    return map(str, types)


def _nest_data(nest: Nest) -> dict[str, str]:
    """Return the loops and the generated source of a nest."""
    return {"loops": str(nest), "source": generate(nest)}


def _lines_with_scopes(text: str) -> Iterator[tuple[str, str]]:
    """Yield scope and text of each line that belongs to a module, without its location."""
    lines = text.splitlines()
    # CIRH has a table of locations at the end, ATen a location in each line.
    tables = (_LOCATION_ALIAS.match(line) for line in lines if line.startswith("#loc"))
    scopes = {m["number"]: (m["scope"] or "").rstrip("/") for m in tables if m}
    for line in lines:
        if m := _INLINE_LOCATION.search(line):
            yield m["scope"].rstrip("/"), line[: m.start()].strip()
        elif (m := _NUMBERED_LOCATION.search(line)) and m["number"] in scopes and line.startswith("    "):
            yield scopes[m["number"]], line[: m.start()].strip()
