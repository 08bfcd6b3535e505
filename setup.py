"""What pyproject.toml cannot say: what of the sources goes into the wheel, and what a package index shows.

The example scripts of the notebooks do, for `lazywafer example`. What is said to those who change a file does not, a
fifth of the wheel: comments, texts below constants, docstrings of what no package offers, and what a module says of
itself, but for its first line in the rooms from which scripts import. Line numbers, docstrings of what a package offers
and the source distribution are as they were.
"""

import ast
import io
import json
import lzma
import pathlib
import re
import tokenize
import zipfile
from collections.abc import Container, Iterator

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

try:
    import deflate
except ImportError:
    # Who builds without what pyproject.toml asks for has a wheel that is 2 % larger.
    deflate = None

SCRIPTS = pathlib.Path("notebooks", "scripts")
OFFERS = ("__init__.py", "mirrors.txt", "methods.pyi")
"""Files that name what scripts may import."""
API = frozenset("functions nn optim data torch torchvision generations sparse metrics watch testing".split())
"""Rooms that are for scripts as a whole: what is attached to classes there has no other place that names it."""
SPREAD = frozenset("functions torch generations".split())
"""Those of them whose functions are offered without being named, as all of a file."""
TEXTS = (
    "lazytensor/examples.txt",
    *(f"cstorch_compat/names/{n}.txt" for n in "torch_surface mirrors known_names".split()),
    *(f"cstorch_compat/{n}.txt" for n in "torch/cpu_build optim/signatures".split()),
    *(f"cstorch_compat/page/{n}" for n in "sections.js charts.js drawing.js numbers.js page.css page.html".split()),
    *(f"wse_sim/validation/{n}.json" for n in "measured whole_runs".split()),
)
"""Files that are packed into one, tighter than wheels pack. `plain_files.text_of` reads them, by their names alone."""
PRINTED = "config.py"
"""`lazywafer --help` prints what this module says of itself."""


def without_comments(text: str) -> str:
    """A Python file with every comment taken out of its line, those of LLVM's language in its texts too."""
    text = re.sub(r"(?m)^ *; .*$", "", text)
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)


def without_spaces(path: pathlib.Path) -> str:
    """A file of JSON without spaces, or one of JavaScript without lines that are comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?m)^ *//.*\n", "", text)


def hidden_notes(body: list[ast.stmt], offered: Container[str] | None, parents: Container[str]) -> Iterator[ast.stmt]:
    """The texts of functions and classes that no `help` shows; where all are offered (None), those of private ones."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            is_class = isinstance(node, ast.ClassDef)
            is_private = not is_class and node.name.startswith("_") and not node.name.endswith("__")
            hides = is_private or (offered is not None and node.name not in offered)
            # What is local to a function is seen by nobody. A private class may be the parent of public ones, which say
            # what it says.
            is_seen = is_class and (not hides or node.name in parents)
            inner = () if not is_seen else offered if hides else None
            yield from hidden_notes(node.body, inner, parents)
            yield from filter(is_text, node.body[1:])
            if hides and len(node.body) > 1 and is_text(node.body[0]):
                yield node.body[0]
        else:
            for part in (node, *getattr(node, "handlers", ())):
                yield from hidden_notes(getattr(part, "body", []), offered, parents)
                yield from hidden_notes(getattr(part, "orelse", []), offered, parents)


def helper_notes(body: list[ast.stmt], offered: Container[str]) -> Iterator[ast.stmt]:
    """The texts of functions that nobody offers, and that no decorator attaches to anything."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name not in offered:
            yield from filter(is_text, node.body[:1] if len(node.body) > 1 else ())


def is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a text and nothing else."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def offered_names(folder: pathlib.Path) -> set[str]:
    """Every name that a file of OFFERS lets scripts import, or that is a method in the stub."""
    names = set[str]()
    for path in (p for name in OFFERS for p in folder.rglob(name)):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".txt":
            # At the margin stand modules with their docstrings, below them names.
            names.update(re.findall(r"\w+", "\n".join(re.findall(r"^ .*", text, re.MULTILINE))))
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.alias | ast.FunctionDef | ast.ClassDef):
                names.add(node.name.rpartition(".")[2])
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
    return names


def parent_names(folder: pathlib.Path) -> set[str]:
    """Every name that a class below the folder gives as its parent's, or as that of the parent's module."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py"))
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    parts = (part for node in classes for base in node.bases for part in ast.walk(base))
    return {str(getattr(part, "id", getattr(part, "attr", ""))) for part in parts}


def for_users(
    text: str,
    offered: Container[str] | None,
    parents: Container[str],
    is_whole: bool = False,
    helped: Container[str] | None = None,
) -> str:
    """A Python file with what is for those who change it taken out of its lines; `is_whole` keeps its own docstring.

    `offered` are the names that scripts may import, or None for all of them; of functions then those in `helped`, if
    that is given.
    """
    lines = without_comments(text).splitlines(keepends=True)
    body = ast.parse(text).body
    helpers = helper_notes(body, helped) if helped is not None else ()
    for note in (*hidden_notes(body, offered, parents), *helpers, *filter(is_text, body[1:])):
        lines[note.lineno - 1 : note.end_lineno] = ["\n"] * (note.end_lineno - note.lineno + 1)
    head = body[0] if body and is_text(body[0]) and not is_whole else None
    if head and (offered is not None or head.end_lineno > head.lineno):
        first = lines[head.lineno - 1].rstrip() + '"""\n' if offered is None else "\n"
        lines[head.lineno - 1 : head.end_lineno] = [first] + ["\n"] * (head.end_lineno - head.lineno)
    return "".join(lines)


class Wheel(build_py):
    """Builds the packages as the wheel holds them."""

    def run(self) -> None:
        """Build. An editable installation is left as it lies."""
        super().run()
        if self.editable_mode:
            return
        offered, parents = (names(pathlib.Path(self.build_lib)) for names in (offered_names, parent_names))
        for path in pathlib.Path(self.build_lib).rglob("*.py"):
            is_whole = path.name in (*OFFERS, PRINTED)
            room = path.relative_to(self.build_lib).parts[1:-1]
            words = offered if room and API.isdisjoint(room) else None
            helped = offered if room and SPREAD.isdisjoint(room) else None
            text = for_users(path.read_text(encoding="utf-8"), words, parents, is_whole, helped)
            path.write_text(text, encoding="utf-8")
        for path in pathlib.Path(self.build_lib).rglob("*.js*"):
            path.write_text(without_spaces(path), encoding="utf-8")
        paths = [pathlib.Path(self.build_lib, name) for name in TEXTS]
        together = b"".join(b"\0%s\0%s" % (p.name.encode(), p.read_bytes()) for p in (*paths, *SCRIPTS.glob("*.py")))
        tight = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "pb": 0}
        packed = lzma.compress(together, format=lzma.FORMAT_ALONE, filters=[tight])
        pathlib.Path(self.build_lib, "lazytensor", "texts.lzma").write_bytes(packed)
        for path in paths:
            path.unlink()


class Deflated:
    """A compressor for `zipfile` that looks for the shortest of all ways to write a file, which zlib does not."""

    def __init__(self, *_: object) -> None:
        self.parts: list[bytes] = []

    def compress(self, part: bytes) -> bytes:
        """Nothing yet."""
        self.parts.append(part)
        return b""

    def flush(self) -> bytes:
        """The whole file."""
        return bytes(deflate.deflate_compress(b"".join(self.parts), 12))


class Packed(bdist_wheel):
    """Packs the wheel as small as its format allows, which takes a second more."""

    def run(self) -> None:
        """Build, and pack each file again: setuptools packs for speed and offers no other level."""
        super().run()
        path = pathlib.Path(self.distribution.dist_files[-1][2])
        with zipfile.ZipFile(path) as archive:
            files = [(info, archive.read(info)) for info in archive.infolist()]
        # A name of its own, for zipfile offers no other compressor; where it is gone, zlib packs.
        if deflate:
            zipfile._get_compressor = Deflated  # type: ignore[attr-defined]
        with zipfile.ZipFile(path, "w") as archive:
            for info, content in files:
                archive.writestr(info, content, zipfile.ZIP_DEFLATED, compresslevel=9)


def for_an_index(text: str) -> str:
    """The README as a package index shows it: without pictures, paths and map of a repository that is not beside it."""
    text = re.sub(r"(?ms)^## The house$.*?(?=^## )", "", text)
    text = re.sub(r"<img[^>]*>", "", text)
    return re.sub(r"\[([^]]+)\]\((?!https?://|#)[^)]*\)", r"\1", text)


setup(
    cmdclass={"build_py": Wheel, "bdist_wheel": Packed},
    long_description=for_an_index(pathlib.Path("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
