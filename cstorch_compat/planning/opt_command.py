"""`lazywafer opt`: runs passes of the compiler on a graph, from text to text."""

import argparse
import pathlib
import sys
from typing import Any

from lazytensor.cirh.dot import dot_text
from lazytensor.cirh.generic import ATEN_DIALECT, CIRH_DIALECT, generic_text
from lazytensor.cirh.generic_parser import read_graph
from lazytensor.compiler.pipeline import PASSES, RESULT_FORMS, Compilation, Target
from lazytensor.errors import LazyError
from lazytensor.exchange.onnx_model import onnx_model
from lazytensor.ir.graph import Graph
from lazytensor.system.command_line import comma_separated, existing_file, new_file, one_of
from lazytensor.system.output_files import write_file_atomically
from lazytensor.system.terminal import print_escaped

HELP = """Read a graph in MLIR's generic form, as runs on the wafer leave it in torch.generic.mlir and
cirh.generic.mlir, run passes on it in the order given, each checked, and print what the last one gives: a graph in the
same form, or the text of kernels, loops and programs."""
STORE_PASSES = ("bind",)
"""Passes that need a store with values."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    names = [name for name in PASSES if name not in STORE_PASSES]
    parser = commands.add_parser("opt", help="run passes of the compiler on a graph in MLIR's form", description=HELP)
    parser.add_argument(
        "file", nargs="?", default="-", type=_parse_graph_file, help="the graph; - or nothing for what comes in"
    )
    parser.add_argument(
        "-p",
        "--passes",
        type=comma_separated(one_of(names)),
        default=(),
        metavar="NAMES",
        help=f"with commas between them, of {', '.join(names)}",
    )
    parser.add_argument("--dot", action="store_true", help="print the graph for Graphviz instead")
    parser.add_argument(
        "--onnx",
        type=new_file(".onnx"),
        metavar="FILE",
        help="write the graph as a model of ONNX, for Netron (the extra onnx)",
    )
    parser.set_defaults(execute=optimize)


def _parse_graph_file(text: str) -> pathlib.Path | str:
    return text if text == "-" else existing_file(text)


def optimize(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit status: 1 if the graph or a pass is refused."""
    names = list(options.passes)
    try:
        text = sys.stdin.read() if options.file == "-" else options.file.read_text(encoding="utf-8")
        print_escaped(_format_result(_run_passes(text, names), options, is_lowered=_is_lowered(text, names)), end="")
    except BrokenPipeError:
        raise  # the reader of the output has enough
    except (LazyError, OSError, UnicodeDecodeError) as e:
        print_escaped(f"lazywafer: {e}", sys.stderr)
        return 1
    return 0


def _is_lowered(text: str, names: list[str]) -> bool:
    return f'"{CIRH_DIALECT}.' in text or "lower_to_cirh" in names


def _run_passes(text: str, names: list[str]) -> tuple[str, Any]:
    """What the last pass gives, behind the name of its form."""
    graph = read_graph(text)
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
    return passes[-1].gives, Compilation(graph, Target("opt", passes))[passes[-1].name]


def _format_result(last: tuple[str, Any], options: argparse.Namespace, is_lowered: bool) -> str:
    """The text of what the last pass gives; a model goes into its file."""
    form, result = last
    if not isinstance(result, Graph):
        if options.onnx:
            raise LazyError("the last pass gives no graph, and a model is made of one", hint="Run fewer passes.")
        return RESULT_FORMS[form].text(result).rstrip("\n") + "\n"
    if options.onnx:
        write_file_atomically(options.onnx, onnx_model(result).SerializeToString())
        return ""
    return dot_text(result) if options.dot else generic_text(result, CIRH_DIALECT if is_lowered else ATEN_DIALECT)
