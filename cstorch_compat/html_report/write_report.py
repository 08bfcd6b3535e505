"""Write the HTML report for the commands `run` and `plan`."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from cstorch_compat.html_report.contents import PageStep, build_contents, build_serving_contents
from cstorch_compat.html_report.document import format_html
from cstorch_compat.html_report.module_tree import StepTexts
from cstorch_compat.names import installation
from lazytensor.cirh.printer import torch_text
from lazytensor.compiler.pipeline import CSX, Compilation, Heading
from lazytensor.ir.graph import Graph
from lazytensor.system.output_files import write_file_atomically
from wse_sim import Machine, ServingPlan


def make_page_step(compilation: Compilation, machine: Machine) -> PageStep:
    """Return the PageStep of a step that a run compiled for the wafer."""
    executable: Any = compilation.executable
    return PageStep(compilation.program, executable.plan, machine, _texts_of_compilation(compilation))


def make_texts(graph: Graph) -> StepTexts:
    """Return the MLIR texts of a graph, as a run writes them."""
    return _texts_of_compilation(Compilation(graph, CSX, heading=Heading(locations=True)))


def _texts_of_compilation(compilation: Compilation) -> StepTexts:
    return StepTexts(torch_text(compilation["record"]), compilation.text)


def write_page(
    path: pathlib.Path,
    script: str,
    steps: Sequence[PageStep],
    rows: Sequence[Mapping[str, Any]] = (),
    has_workers: bool = False,
    check: Mapping[str, Any] | None = None,
) -> None:
    """Write the report of a script.

    The table of `rows` has a column of input workers if `has_workers`. `check` has the findings of the check, as
    `build_contents` takes them. Raises OSError if the file cannot be written; an
    existing file is then unchanged.
    """
    # The page declares UTF-8, whatever the locale is.
    contents = build_contents(script, steps, installation.find_versions(), rows, has_workers, check)
    write_file_atomically(path, format_html(contents))


def write_serving_page(path: pathlib.Path, name: str, plans: Sequence[ServingPlan]) -> None:
    """Write the report on serving the model `name`, with a section for its `plans`.

    Raises OSError if the file cannot be written; an existing file is then unchanged.
    """
    contents = build_serving_contents(name, plans, installation.find_versions())
    write_file_atomically(path, format_html(contents))
