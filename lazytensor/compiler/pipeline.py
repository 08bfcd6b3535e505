"""Pipeline: a graph becomes a program, pass by pass, with checks and dumps in between as the switches ask."""

import pathlib
import sys
from collections.abc import Callable

from lazytensor import config
from lazytensor.compiler.calls import Call
from lazytensor.compiler.codegen import generate
from lazytensor.compiler.fuse import fuse
from lazytensor.compiler.match import match
from lazytensor.compiler.plan import plan
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph
from lazytensor.ir.program import Program
from lazytensor.ops.op import OPS

Pass = tuple[str, Callable[[Graph], Graph]]

PASSES: tuple[Pass, ...] = ()
"""Graph to graph, by name, run in order before kernels are chosen."""


def compile_graph(graph: Graph) -> Program:
    """The program of a graph whose ops the host knows. Raises CompileError if a pass breaks an invariant."""
    switches = config.current()
    _show(1, "graph", lambda: _graph_text(graph))
    for name, change in PASSES:
        graph = change(graph)
        if switches.check:
            check_graph(graph)
        _show(2, name, lambda graph=graph: _graph_text(graph))  # type: ignore[misc]
    matched = match(graph.nodes())
    calls = fuse(graph, matched)
    if switches.check:
        for c in calls:
            _check_call(c)
    program = plan(graph, calls)
    _show(3, "program", lambda: _program_text(program))
    return program


def check_graph(graph: Graph) -> None:
    """Raise CompileError unless every node has the type that its operation infers."""
    for n in graph.nodes():
        if n.op == "leaf":
            continue
        if n.op not in OPS:
            raise CompileError(f"there is no operation {n.op}", where=n.where)
        expected = OPS[n.op].infer(*(i.type for i in n.inputs), **n.attrs)
        if expected != n.type:
            raise CompileError(f"{n.op} gives {expected}, but the node says {n.type}", where=n.where)


def _check_call(c: Call) -> None:
    if c.nest is not None:
        c.nest.check()


def _show(level: int, name: str, text: Callable[[], str]) -> None:
    """Print or write what a stage made, if LT_DEBUG or LT_DUMP ask for it."""
    switches = config.current()
    if switches.debug >= level:
        print(f"--- {name}\n{text()}", file=sys.stderr)
    if switches.dump:
        folder = pathlib.Path(switches.dump)
        folder.mkdir(parents=True, exist_ok=True)
        taken = len(list(folder.iterdir()))
        (folder / f"{taken:03d}_{name}.txt").write_text(text() + "\n", encoding="utf-8")


def _graph_text(graph: Graph) -> str:
    names = {n: f"%{k}" for k, n in enumerate(graph.nodes())}
    lines = []
    for n, name in names.items():
        attrs = [f"{k}={v}" for k, v in n.attrs.items() if k != "data"]
        lines.append(f"{name} = {n.op}({', '.join([*(names[i] for i in n.inputs), *attrs])}) : {n.type}")
    lines += [f"{state} <- {names[n]}" for state, n in graph.updates.items()]
    return "\n".join([*lines, "return " + ", ".join(names[o] for o in graph.outputs)])


def _program_text(program: Program) -> str:
    parts = []
    for instr in program.instrs:
        parts.append(f"{instr.label}: {list(instr.reads)} -> {list(instr.writes)}  [{instr.direction}]")
        if instr.nest is not None:
            parts += [str(instr.nest), generate(instr.nest)]
    return "\n".join(parts)
