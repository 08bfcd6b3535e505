"""What pyproject.toml cannot say: what of the sources goes into the wheel, and what a package index shows.

The example scripts of the notebooks do, for `lazywafer example`. Comments do not: they are for those who change a file,
and a tenth of the wheel. Line numbers, docstrings and the source distribution are as they were.
"""

import io
import pathlib
import re
import tokenize

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


class Wheel(build_py):
    """Builds the packages as the wheel holds them."""

    def run(self) -> None:
        """Build. An editable installation is left as it lies."""
        super().run()
        if self.editable_mode:
            return
        for path in pathlib.Path(self.build_lib).rglob("*.py"):
            path.write_text(without_comments(path.read_text(encoding="utf-8")), encoding="utf-8")
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
