"""What pyproject.toml cannot say: what of the sources goes into the wheel, and what a package index shows.

The example scripts of the notebooks do, for `lazywafer example`. What is said to those who change a file does not, a
seventh of the wheel: comments, texts below constants, docstrings of private functions. Line numbers, docstrings of what
is public and the source distribution are as they were.
"""

import ast
import io
import pathlib
import re
import tokenize
from collections.abc import Iterator

from setuptools import setup
from setuptools.command.build_py import build_py

SCRIPTS = pathlib.Path("notebooks", "scripts")


def without_comments(text: str) -> str:
    """A Python file with every comment taken out of its line."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)


def private_notes(tree: ast.AST, is_private: bool = False) -> Iterator[ast.stmt]:
    """The texts of a file that no `help` shows: behind the first statement, and in what is private or local."""
    for node in ast.iter_child_nodes(tree):
        is_named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        hides = is_private or (is_named and node.name.startswith("_") and not node.name.endswith("__"))
        yield from private_notes(node, hides or isinstance(node, ast.FunctionDef))
        body = getattr(node, "body", None)
        if is_named and hides and len(body) > 1 and is_text(body[0]):
            yield body[0]
    body = getattr(tree, "body", None)
    yield from filter(is_text, body[1:] if isinstance(body, list) else ())


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a text and nothing else."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def for_users(text: str) -> str:
    """A Python file with what is for those who change it taken out of its lines."""
    lines = without_comments(text).splitlines(keepends=True)
    for note in private_notes(ast.parse(text)):
        lines[note.lineno - 1 : note.end_lineno] = ["\n"] * (note.end_lineno - note.lineno + 1)
    return "".join(lines)


class Wheel(build_py):
    """Builds the packages as the wheel holds them."""

    def run(self) -> None:
        """Build. An editable installation is left as it lies."""
        super().run()
        if self.editable_mode:
            return
        for path in pathlib.Path(self.build_lib).rglob("*.py"):
            path.write_text(for_users(path.read_text(encoding="utf-8")), encoding="utf-8")
        examples = pathlib.Path(self.build_lib, "cstorch_compat", "examples")
        self.mkpath(str(examples))
        for path in SCRIPTS.glob("*.py"):
            self.copy_file(str(path), str(examples / path.name))


def for_an_index(text: str) -> str:
    """The README as a package index shows it, where there is no repository beside it: without pictures and paths."""
    text = re.sub(r"<img[^>]*>", "", text)
    return re.sub(r"\[([^]]+)\]\((?!https?://|#)[^)]*\)", r"\1", text)


setup(
    cmdclass={"build_py": Wheel},
    long_description=for_an_index(pathlib.Path("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
