"""What the commands do to write a page: a step from what was compiled, and the file."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from cstorch_compat.html_report.contents import PageStep, build_contents
from cstorch_compat.html_report.document import format_html
from cstorch_compat.html_report.module_tree import StepTexts
from cstorch_compat.names import installation
from lazytensor.cirh.printer import torch_text
from lazytensor.compiler.pipeline import CSX, Compilation, Heading
from lazytensor.ir.graph import Graph
from lazytensor.system.output_files import write_file_atomically
from wse_sim import Machine


def make_page_step(compilation: Compilation, machine: Machine) -> PageStep:
    """The step that a run compiled for the wafer."""
    executable: Any = compilation.executable
    return PageStep(compilation.program, executable.plan, machine, _texts_of_compilation(compilation))


def make_texts(graph: Graph) -> StepTexts:
    """What a run would print of a graph."""
    return _texts_of_compilation(Compilation(graph, CSX, heading=Heading(locations=True)))


def _texts_of_compilation(compilation: Compilation) -> StepTexts:
    return StepTexts(torch_text(compilation["record"]), compilation.text)


def write_page(
    path: pathlib.Path, script: str, steps: Sequence[PageStep], rows: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Write the page of a script. Raises OSError, and an older page stays."""
    # Whatever the locale: the page itself says that it is UTF-8.
    write_file_atomically(path, format_html(build_contents(script, steps, installation.find_versions(), rows)))
