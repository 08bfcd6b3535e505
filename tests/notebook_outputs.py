"""What chapters of the course show: run, read, compared and stored.

`python -m tests.notebook_outputs [00_tour ...]` runs chapters, or all of them, and stores their outputs. A cell that
shows what it showed before keeps its stored outputs, so that only real differences are left to be read.
"""

import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import zip_longest

import nbformat
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
CELL_SECONDS = 300
"""A cell may take so long on a machine with other work."""
PAGE, PICTURE = "text/html", "image/png"
Node = nbformat.NotebookNode


def module_path() -> str:
    """Return a PYTHONPATH with which kernels find the packages and the checkers of exercises."""
    return os.pathsep.join([str(FOLDER.parent), str(FOLDER), os.environ.get("PYTHONPATH", "")])


def execute(notebook: Node, folder: pathlib.Path) -> None:
    """Run all cells of `notebook` in `folder`; their outputs replace those of `notebook`."""
    options = {"timeout": CELL_SECONDS, "kernel_name": "python3", "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": folder}}, **options).execute()


def code_of(notebook: Node) -> list[Node]:
    """Return the cells with code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(cell: Node) -> str:
    """Return what a cell printed, then the words of the pages that it shows."""
    pages = (re.sub(r"<[^>]*>", " ", out.get("data", {}).get(PAGE, "")) for out in cell.outputs)
    return "".join(out.get("text", "") for out in cell.outputs) + "".join(pages)


def shown_by(cell: Node) -> str:
    """Return the text of a cell in which lines that begin with `~` are masked: they hold times of the machine.

    All other lines are the same in each run: random numbers have seeds, and cycles are counted, not measured.
    """
    return re.sub(r"^~.*$", "~", text_of(cell), flags=re.MULTILINE)


def shown(notebook: Node) -> list[str]:
    """Return the masked text of each cell with code."""
    return [shown_by(cell) for cell in code_of(notebook)]


def store(path: pathlib.Path) -> None:
    """Run a chapter and write its file with the outputs that differ from the stored ones."""
    notebook, stored = (nbformat.read(path, as_version=4) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, pathlib.Path(folder))
    for cell, old in zip(code_of(notebook), code_of(stored), strict=True):
        if shown_by(cell) == shown_by(old) and _data(cell, PICTURE) == _data(old, PICTURE):
            cell.outputs = old.outputs
        for out, before in zip_longest(cell.outputs, old.outputs[: len(cell.outputs)], fillvalue={}):
            if PAGE in out.get("data", {}):
                # The page is what is seen; some of the texts in its place have addresses, and others are long.
                out.data["text/plain"] = before.get("data", {}).get("text/plain", "(a page)")
    nbformat.write(notebook, path)


def _data(cell: Node, kind: str) -> Sequence[str]:
    return [out.data[kind] for out in cell.outputs if kind in out.get("data", {})]


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = module_path()
    for chapter in sys.argv[1:] or sorted(each.stem for each in FOLDER.glob("*.ipynb")):
        print(chapter, flush=True)
        store(FOLDER / f"{chapter}.ipynb")
