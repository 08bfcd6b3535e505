"""What the sources say in words, by room: `python -m tests.prose` prints it, `test_prose` holds it.

A comment line is one that holds nothing else, and no directive for a tool.
"""

import ast
import importlib
import inspect
import pathlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
COLOURLESS = frozenset({"made", "found", "taken", "held", "hit"})
"""Participles that say how a value came and not what it is."""
LARGEST_BY_POSITION = 5
"""Fields of a record that may all be given by position; of a larger one only the first two, which say what it is."""
_DIRECTIVE = re.compile(r"#\s*(noqa|type:|fmt:|ruff:|pyright:|pragma:|mypy:)")

Place = tuple[pathlib.Path, int, str]
"""A file, a line, and what is there."""


def paths(package: str) -> list[pathlib.Path]:
    return sorted((ROOT / package).rglob("*.py"))


def room(path: pathlib.Path) -> str:
    """The package and its room, or its top level."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") and not _DIRECTIVE.match(line.lstrip())


def comment_lines() -> dict[str, tuple[int, int]]:
    """Room -> comment lines and all lines that are not blank."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for package in PACKAGES:
        for path in paths(package):
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            counts[room(path)][0] += sum(map(is_comment, lines))
            counts[room(path)][1] += len(lines)
    return {name: (said, total) for name, (said, total) in counts.items()}


def share(package: str) -> float:
    """Comment lines of a package for each line that is not blank."""
    rows = [counts for name, counts in comment_lines().items() if name.partition("/")[0] == package]
    return sum(said for said, _ in rows) / sum(total for _, total in rows)


def _parsed() -> Iterator[tuple[pathlib.Path, ast.Module]]:
    for package in PACKAGES:
        for path in paths(package):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def undocumented() -> Iterator[Place]:
    """Public functions and classes of modules, and public members of those, without a docstring or one to inherit."""
    for package in PACKAGES:
        for path in (p for p in paths(package) if p.stem != "__main__"):  # whose import is its run
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for thing in _own(importlib.import_module(name)):
                named = {thing.__qualname__: thing}
                if inspect.isclass(thing):
                    named |= {f"{thing.__qualname__}.{n}": getattr(thing, n) for n in _members(thing)}
                yield from ((path, _line(t), n) for n, t in named.items() if not inspect.getdoc(t))


def _own(module: ModuleType) -> Iterator[Any]:
    for name, thing in vars(module).items():
        is_own = getattr(thing, "__module__", None) == module.__name__
        # A lambda under a public name has no place for words but beside it.
        is_callable = inspect.isclass(thing) or inspect.isfunction(thing)
        if is_own and is_callable and thing.__name__ == name and not name.startswith("_"):
            yield thing


def _members(kind: type) -> Iterator[str]:
    for name, member in vars(kind).items():
        # A function from elsewhere is the default of a field.
        is_own = not isinstance(member, FunctionType) or member.__qualname__.startswith(kind.__qualname__ + ".")
        is_callable = isinstance(member, FunctionType | property | classmethod | staticmethod)
        if is_own and is_callable and not name.startswith("_"):
            yield name


def _line(thing: Any) -> int:
    try:
        return inspect.getsourcelines(thing.fget if isinstance(thing, property) else thing)[1]
    except (OSError, TypeError):  # made by code, as the methods of a data class
        return 0


def colourless() -> Iterator[Place]:
    """Names that a value is given and that say nothing of it."""
    for path, tree in _parsed():
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in COLOURLESS:
                yield path, n.lineno, n.id


def records() -> dict[str, int]:
    """Names of data classes that have more fields than may be given by position, and their numbers of fields."""
    sizes: dict[str, set[int]] = defaultdict(set)
    for _, tree in _parsed():
        for n in ast.walk(tree):
            if isinstance(n, ast.ClassDef):
                is_record = any("dataclass" in ast.unparse(d) for d in n.decorator_list)
                fields = sum(isinstance(s, ast.AnnAssign) for s in n.body)
                sizes[n.name].add(fields if is_record else 0)
    # A name that stands for two classes cannot be told apart here, so it counts only if both are large.
    return {name: min(counts) for name, counts in sizes.items() if min(counts) > LARGEST_BY_POSITION}


def positional() -> Iterator[Place]:
    """Calls that build such a record with more than two fields by position."""
    large = records()
    for path, tree in _parsed():
        for n in ast.walk(tree):
            if isinstance(n, ast.Call) and len(n.args) > 2:
                name = ast.unparse(n.func).rpartition(".")[2]
                if name in large:
                    yield path, n.lineno, f"{name} has {large[name]} fields"


def main() -> None:
    """Print the figures, and every place that is to be mended."""
    for name, (said, total) in sorted(comment_lines().items()):
        print(f"{name:32}{said:6}{total:8}{100 * said / total:7.1f} %")
    for package in PACKAGES:
        print(f"{package:46}{100 * share(package):7.1f} %")
    for rule in (undocumented, positional, colourless):
        places = list(rule())
        print(f"\n{rule.__name__}: {len(places)}; {dict(Counter(room(path) for path, _, _ in places))}")
        for path, line, what in places:
            print(f"  {path.relative_to(ROOT)}:{line} {what}")


if __name__ == "__main__":
    main()
