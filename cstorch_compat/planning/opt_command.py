"""`lazywafer opt`: run compiler passes on a graph given as text and print the result."""

import argparse
import pathlib
import sys
from typing import Any

from lazytensor.cirh.dot import dot_text
from lazytensor.cirh.generic import ATEN_DIALECT, CIRH_DIALECT, generic_text
from lazytensor.cirh.generic_parser import read_graph
from lazytensor.cirh.pdl_parser import read_patterns
from lazytensor.compiler.pdl_printer import print_rules, rule_natives
from lazytensor.compiler.pdl_rewrite import rewrite_with_patterns
from lazytensor.compiler.pipeline import PASSES, RESULT_FORMS, Compilation, Target
from lazytensor.compiler.simplify import RULES
from lazytensor.errors import CompileError, LazyError
from lazytensor.exchange.onnx_model import onnx_model
from lazytensor.hlo.parser import is_hlo, read_hlo
from lazytensor.hlo.printer import hlo_generic_text
from lazytensor.ir.graph import Graph
from lazytensor.system.command_line import comma_separated, existing_file, new_file, one_of
from lazytensor.system.output_files import write_file_atomically
from lazytensor.system.terminal import print_escaped

HELP = """Read a graph in MLIR's generic form, run compiler passes on it in the given order, and print the result of the
last one: a graph in the same form, or a text of kernels, loops or programs. The result of each pass is checked. Runs on
the wafer write such graphs to the files torch.generic.mlir, hlo.generic.mlir and cirh.generic.mlir. The pass unwrap
takes a graph of custom calls, also in the form of the file hlo.mlir."""
STORE_PASSES = ("bind",)
"""Passes that need a store with values. They cannot be run by this command."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `opt`, which runs compiler passes on a graph in MLIR's form, to the subparsers `commands`."""
    names = [name for name in PASSES if name not in STORE_PASSES]
    parser = commands.add_parser(
        "opt", help="run passes of the compiler on a graph in MLIR's generic form", description=HELP
    )
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        type=_parse_graph_file,
        help="the file of the graph (default: standard input, -)",
    )
    parser.add_argument(
        "-p",
        "--passes",
        type=comma_separated(one_of(names)),
        default=(),
        metavar="NAMES",
        help=f"comma-separated passes: {', '.join(names)}",
    )
    parser.add_argument("--dot", action="store_true", help="print the graph in the format of Graphviz")
    parser.add_argument(
        "--onnx",
        type=new_file(".onnx"),
        metavar="FILE",
        help="write the graph as an ONNX model, for example for Netron (needs the extra `onnx`)",
    )
    parser.add_argument(
        "--pdl",
        type=existing_file,
        metavar="FILE",
        help="rewrite the graph with the patterns in FILE, in MLIR's dialect pdl, before the passes",
    )
    parser.add_argument(
        "--print-pdl",
        action="store_true",
        help="print the rewrite rules of the pass simplify as patterns of MLIR's dialect pdl, without reading a graph; "
        "comments name the parts that are Python functions",
    )
    parser.set_defaults(execute=optimize)


def _parse_graph_file(text: str) -> pathlib.Path | str:
    """Return the path of an existing file, or "-" for standard input."""
    return text if text == "-" else existing_file(text)


def optimize(options: argparse.Namespace) -> int:
    """Run the command. Return the exit status: 1 if the graph or a pass is refused or a file cannot be read, else 0."""
    names = list(options.passes)
    if options.print_pdl:
        print_escaped(print_rules(RULES.rules), end="")
        return 0
    try:
        text = sys.stdin.read() if options.file == "-" else options.file.read_text(encoding="utf-8")
        print_escaped(
            _format_result(_run_passes(text, names, options.pdl), options, is_lowered=_is_lowered(text, names)), end=""
        )
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except (LazyError, OSError, UnicodeDecodeError) as e:
        print_escaped(f"lazywafer: {e}", sys.stderr)
        return 1
    return 0


def _is_lowered(text: str, names: list[str]) -> bool:
    """Return whether the result is in CIRH instead of ATen."""
    return f'"{CIRH_DIALECT}.' in text or "lower_to_cirh" in names


def _rewrite(graph: Graph, patterns_file: pathlib.Path, dialect: str) -> Graph:
    """Return the graph after rewriting it with the patterns in a file. Print how often each one was applied."""
    natives = rule_natives(RULES.rules)
    try:
        patterns = read_patterns(patterns_file.read_text(encoding="utf-8"), dialect, natives.names)
    except LazyError as e:
        raise CompileError(e.what, where=patterns_file, hint=e.hint) from e
    rewritten, counts = rewrite_with_patterns(graph, patterns, natives)
    for pattern in patterns:
        print_escaped(f"lazywafer: rewrites by pattern {pattern.name}: {counts[pattern.name]:,}", sys.stderr)
    return rewritten


def _run_passes(text: str, names: list[str], patterns_file: pathlib.Path | None) -> tuple[str, Any]:
    """Run the patterns in a file, if there is one, and the passes `names` on the graph in `text`.

    Return the result of the last pass, after the name of its form.
    The pass "record", which checks the graph, runs first in any case. Without `names`, its graph is the result.

    Raises LazyError for an invalid graph, and for a pass whose input no earlier pass produces.
    """
    # A generic text without operations is the same in all dialects, so the first pass decides too.
    is_wrapped = is_hlo(text) or PASSES[next(iter(names), "record")].reads == ("hlo",)
    form, graph = ("hlo", read_hlo(text)) if is_wrapped else ("graph", read_graph(text))
    if patterns_file is not None:
        if form == "hlo":
            raise LazyError(
                "the patterns match ATen or CIRH operations, but the graph has custom calls",
                hint="Run -p unwrap first, and rewrite its result.",
            )
        graph = _rewrite(graph, patterns_file, CIRH_DIALECT if _is_lowered(text, []) else ATEN_DIALECT)
    # The pass "record" comes first, because it checks the graph. Custom calls are checked while they are read.
    if form == "graph":
        names = ["record", *(name for name in names if name != "record")]
    elif not names:
        return form, graph
    passes = tuple(PASSES[name] for name in names)
    # Check that each pass gets its input. The error names passes, because the command line has no names for forms.
    available = {form, "heading"}
    for p in passes:
        if missing := set(p.reads) - available:
            sources = [q for q in PASSES.values() if q.gives in missing]
            given_by = next((q for q in sources if available.issuperset(q.reads)), sources[0]).name
            raise LazyError(f"pass {p.name} needs the result of pass {given_by}", hint=f"Run {given_by} before it.")
        available.add(p.gives)
    # A separate target, so that only the requested passes run.
    wrapped: dict[str, Any] = {"hlo": graph} if form == "hlo" else {}
    return passes[-1].gives, Compilation(graph, Target("opt", passes), **wrapped)[passes[-1].name]


def _format_result(last: tuple[str, Any], options: argparse.Namespace, is_lowered: bool) -> str:
    """Return the result of the last pass as text. With `--onnx`, write the model to its file and return "".

    Raises LazyError if `--onnx` is given and the result is no graph.
    """
    form, result = last
    if not isinstance(result, Graph):
        if options.onnx:
            raise LazyError(
                "the result of the last pass is not a graph, so it cannot be written as an ONNX model",
                hint="Run fewer passes.",
            )
        return RESULT_FORMS[form].text(result).rstrip("\n") + "\n"
    if options.onnx:
        write_file_atomically(options.onnx, onnx_model(result).SerializeToString())
        return ""
    if options.dot:
        return dot_text(result)
    if form == "hlo":
        return hlo_generic_text(result)
    return generic_text(result, CIRH_DIALECT if is_lowered else ATEN_DIALECT)
