"""`lazywafer opt`: runs passes of the compiler on a graph, from text to text."""

import argparse
import pathlib
import sys

from lazytensor.cirh.dot import dot_text
from lazytensor.cirh.generic import LOWERED, TRACED, generic_text
from lazytensor.cirh.generic_reader import read_graph
from lazytensor.compiler.pipeline import FORMS, PASSES, Compilation, Target
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph

HELP = """Read a graph in MLIR's generic form, as runs on the wafer leave it in torch.generic.mlir and
cirh.generic.mlir, run passes on it in the order given, each checked, and print what the last one gives: a graph in the
same form, or the text of kernels, loops and programs."""
BOUND = ("bind",)
"""Passes that need a store with values."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    names = [name for name in PASSES if name not in BOUND]
    parser = commands.add_parser("opt", help="run passes of the compiler on a graph in MLIR's form", description=HELP)
    parser.add_argument("file", nargs="?", default="-", help="the graph; - or nothing for what comes in")
    parser.add_argument("-p", "--passes", default="", metavar="NAMES", help=f"by commas, of {', '.join(names)}")
    parser.add_argument("--dot", action="store_true", help="print the graph for Graphviz instead")
    parser.set_defaults(execute=optimize)


def optimize(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit status: 1 if the graph or a pass is refused, 2 for a wrong command line."""
    names = [name for name in options.passes.split(",") if name]
    wrong = [name for name in names if name not in PASSES or name in BOUND]
    if wrong:
        print(f"lazywafer: there is no pass {wrong[0]!r} that opt runs", file=sys.stderr)
        return 2
    try:
        text = sys.stdin.read() if options.file == "-" else pathlib.Path(options.file).read_text(encoding="utf-8")
        print(_printed(text, names, options.dot), end="")
    except (LazyError, OSError, UnicodeDecodeError) as e:
        print(f"lazywafer: {e}", file=sys.stderr)
        return 1
    return 0


def _printed(text: str, names: list[str], as_dot: bool) -> str:
    graph, is_lowered = read_graph(text), f'"{LOWERED}.' in text or "lower_to_cirh" in names
    # Recorded first, which checks what was read.
    passes = (PASSES["record"], *(PASSES[name] for name in names if name != "record"))
    # A pass reads what earlier ones gave; said here by the names of passes, for forms have no name on the command line.
    available = {"graph", "heading"}
    for p in passes:
        if missing := set(p.reads) - available:
            given_by = next(q.name for q in PASSES.values() if q.gives in missing)
            raise LazyError(f"pass {p.name} reads what {given_by} gives", hint=f"Run {given_by} before it.")
        available.add(p.gives)
    # A target of its own, so that nothing else runs between the passes that were asked for.
    compilation = Compilation(graph, Target("opt", passes))
    result = compilation[passes[-1].name]
    if isinstance(result, Graph):
        return dot_text(result) if as_dot else generic_text(result, LOWERED if is_lowered else TRACED)
    return FORMS[passes[-1].gives].text(result).rstrip("\n") + "\n"
