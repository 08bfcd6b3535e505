"""Draw functions for the comprehension test of docstrings: `python -m tests.comprehension lazytensor/core --seed 7`.

A reader gets the questions (path, signature, docstring) and writes for each function what it does, what goes in and
out, and when the result differs. A second reader compares that with the answers (`--answers` adds the bodies) and gives
0, 1 or 2 points. A folder is understood if the mean is 1.85 or more.
"""

import argparse
import ast
import pathlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
MIN_STATEMENTS = 2
"""Minimum number of statements after the docstring: shorter functions are clear from their code."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Drawn:
    """A function to ask about: the file, its name with the class, and its source with and without the body."""

    path: str
    name: str
    signature: str
    docstring: str
    source: str

    def question(self) -> str:
        """Return the path, the name, the signature and the docstring as text."""
        indented = "\n".join(f"    {line}" for line in self.docstring.splitlines())
        return f"{self.path}: {self.name}\n{self.signature}\n{indented}\n"

    def answer(self) -> str:
        """Return the whole function for the second reader."""
        return f"{self.path}: {self.name}\n{self.source}\n"


def functions(folder: str) -> Iterator[Drawn]:
    """Yield the functions and methods below a folder (or in a file) that have a docstring and a body of some length."""
    place = ROOT / folder
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for name, node in _definitions(ast.parse(source), ""):
            docstring = ast.get_docstring(node)
            if docstring and len(node.body) > MIN_STATEMENTS:
                text = ast.get_source_segment(source, node) or ""
                head = f"def {node.name}({ast.unparse(node.args)})"
                returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
                yield Drawn(path.relative_to(ROOT).as_posix(), name, head + returns, docstring, text)


def _definitions(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Function]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, Function):
            yield prefix + node.name, node


def draw(folders: list[str], count: int, seed: int) -> list[Drawn]:
    """Return `count` functions of the folders, the same ones for the same seed; fewer if there are fewer."""
    known = [one for folder in folders for one in functions(folder)]
    return random.Random(seed).sample(known, min(count, len(known)))


def main() -> None:
    """Print the questions, or the answers."""
    form = argparse.ArgumentParser(description="Draw functions for the comprehension test of docstrings.")
    form.add_argument("folders", nargs="*", default=list(PACKAGES), help="folders or files (all three packages)")
    form.add_argument("--seed", type=int, default=1, help="seed of the draw (1)")
    form.add_argument("--count", type=int, default=20, help="number of functions (20)")
    form.add_argument("--answers", action="store_true", help="print the bodies too")
    options = form.parse_args()
    for n, one in enumerate(draw(options.folders, options.count, options.seed), 1):
        print(f"--- {n}\n{one.answer() if options.answers else one.question()}")


if __name__ == "__main__":
    main()
