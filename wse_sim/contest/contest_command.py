"""The command `place`: place the kernels of an ISPD-2020 problem and score the layout."""

import argparse
import importlib
import sys
import time
from fractions import Fraction
from typing import Any

from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError
from lazytensor.system.command_line import existing_file, new_file
from lazytensor.system.output_files import json_text, write_file_atomically
from lazytensor.system.terminal import print_escaped
from wse_sim import floor_drawing
from wse_sim.contest.kernel_graph import ContestProblem, read_problem
from wse_sim.contest.scoring import ContestSolution, PlacedKernel, Score, score

DRAWING_COLUMNS = 72
"""Characters in a line of the drawing."""


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command `place` and its options to the subparsers `commands` of a command line."""
    placer = commands.add_parser(
        "place", help="place the kernels of an ISPD-2020 problem on a wafer, and score the layout"
    )
    placer.add_argument("file", type=existing_file, metavar="FILE.kgraph", help="a problem in the contest's format")
    placer.add_argument("--json", action="store_true", help="print the figures and a record for each kernel as JSON")
    placer.add_argument("--svg", type=new_file(".svg"), metavar="FILE", help="also draw the layout")
    placer.add_argument(
        "--trade", action="store_true", help="also try slower layouts with shorter wires, and keep the best score"
    )
    placer.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Place a problem and print its layout. Return 1 if it is invalid or does not fit, else 0.

    The error is printed on stderr. With `--svg` also write a drawing to a file. With `--json` print JSON instead of
    text.
    """
    start = time.perf_counter()
    try:
        problem = read_problem(options.file)
        # Import here, because Numba would delay every other command by half a second.
        solution: ContestSolution = importlib.import_module("wse_sim.contest.solving").solve(
            problem, trade=options.trade
        )
    except LazyError as e:
        print_escaped(f"lazywafer: {e}", sys.stderr)
        return 1
    seconds = time.perf_counter() - start
    marks = score(problem, solution.layout)
    if options.svg:
        names = [p.name for p in solution.layout]
        picture = floor_drawing.draw_svg(names, _rects(solution), problem.edges, problem.width, problem.height)
        write_file_atomically(options.svg, picture)
    if options.json:
        print(json_text(as_dict(problem, solution, marks, seconds), indent=1))
    else:
        print_escaped(as_text(problem, solution, marks, seconds))
    return 0


def as_dict(problem: ContestProblem, solution: ContestSolution, marks: Score, seconds: float) -> dict[str, Any]:
    """Return the results as plain data for JSON: `delta_t` and `bound` in cycles, `wirelength` in PEs.

    `layout` has a dict for each kernel. Fractions become int or float.
    """
    return {
        "test": problem.name,
        "width": problem.width,
        "height": problem.height,
        "delta_t": _plain_number(marks.delta_t),
        "bound": solution.bound,
        "wirelength": _plain_number(marks.wirelength),
        "adapter": marks.adapter,
        "score": _plain_number(marks.total),
        "seconds": round(seconds, 3),
        "layout": [_kernel_record(p) for p in solution.layout],
    }


def as_text(problem: ContestProblem, solution: ContestSolution, marks: Score, seconds: float) -> str:
    """Return the results as text: figures, a drawing, and a table with a row for each kernel.

    `marks` is the score of the layout, and `seconds` the duration of the search.
    """
    over = float(marks.delta_t) / solution.bound
    lines, scale = floor_drawing.draw_text(_rects(solution), problem.width, problem.height, DRAWING_COLUMNS)
    columns = (
        *(Column(head, str) for head in ("", "kernel")),
        *(Column(head, "{:,}".format) for head in ("x", "y", "width", "height")),
        *(Column(head, str) for head in ("turned", "h", "w", "c", "k")),
    )
    rows = [
        (floor_drawing.index_letter(n), p.name, p.x, p.y, p.width, p.height, p.rotation, *_parameter_texts(p))
        for n, p in enumerate(solution.layout)
    ]
    return "\n".join(
        [
            f"{problem.name}: {len(problem.kernels)} kernels, {problem.width} x {problem.height} PEs, {seconds:.1f} s",
            f"time        {float(marks.delta_t):>12,.6g} cycles, {over:.3f} of the area bound {solution.bound:,}",
            f"wirelength  {float(marks.wirelength):>12,.1f} PEs, {len(problem.edges)} connections",
            f"adapters    {marks.adapter:>12,}",
            f"score       {float(marks.total):>12,.1f}",
            f"\n{scale}",
            *lines,
            Table(columns, rows).text(),
        ]
    )


def _rects(solution: ContestSolution) -> list[floor_drawing.RectTuple]:
    return [(p.x, p.y, p.width, p.height) for p in solution.layout]


def _parameter_texts(p: PlacedKernel) -> tuple[str, ...]:
    cut = p.parameters
    return str(cut.h), str(cut.w), " ".join(map(str, cut.c)), " ".join(map(str, cut.k))


def _kernel_record(p: PlacedKernel) -> dict[str, Any]:
    cut = p.parameters
    return {
        "name": p.name,
        "x": p.x,
        "y": p.y,
        "width": p.width,
        "height": p.height,
        "rotation": p.rotation,
        "parameters": {"h": cut.h, "w": cut.w, "c": list(cut.c), "k": list(cut.k)},
    }


def _plain_number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
