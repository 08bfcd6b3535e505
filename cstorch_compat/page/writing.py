"""What the commands do to write a page: a step from what was compiled, and the file."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from cstorch_compat.names import installation
from cstorch_compat.page.contents import PageStep, contents
from cstorch_compat.page.document import document
from cstorch_compat.page.module_tree import Texts
from lazytensor.cirh.text import torch_text
from lazytensor.compiler.pipeline import CSX, Compilation, Heading
from lazytensor.ir.graph import Graph
from lazytensor.output_files import write_whole
from wse_sim import Machine


def step_of(compilation: Compilation, machine: Machine) -> PageStep:
    """The step that a run compiled for the wafer."""
    executable: Any = compilation.executable
    return PageStep(compilation.program, executable.plan, machine, _texts(compilation))


def texts_of(graph: Graph) -> Texts:
    """What a run would print of a graph."""
    return _texts(Compilation(graph, CSX, heading=Heading(locations=True)))


def _texts(compilation: Compilation) -> Texts:
    return Texts(torch_text(compilation["record"]), compilation.text)


def write_page(
    path: pathlib.Path, script: str, steps: Sequence[PageStep], rows: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Write the page of a script. Raises OSError, and an older page stays."""
    # Whatever the locale: the page itself says that it is UTF-8.
    write_whole(path, document(contents(script, steps, installation.versions(), rows)))
