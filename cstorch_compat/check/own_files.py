"""The files of a script: itself, and the modules that it imports from its own folders."""

import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cstorch_compat.check.used_names import FileNames, read_used_names
from lazytensor.core import source

MAX_FILES = 500
"""Files that are read before the rest is left to the run."""


@dataclass(frozen=True)
class ScriptFile:
    """A file of the script's own, and what it uses."""

    path: pathlib.Path
    names: FileNames


def read_script_files(script: str) -> list[ScriptFile]:
    """The script and what it imports, each file once. What is no Python is left to the run, which says so."""
    folders = find_script_folders(script)
    waiting, seen, files = [(pathlib.Path(script), "")], set[pathlib.Path](), list[ScriptFile]()
    asked = set[str]()
    while waiting and len(files) < MAX_FILES:
        path, package = waiting.pop()
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        # What cannot be read is for the run to complain of, with Python's own words.
        try:
            names = read_used_names(path.read_text(encoding="utf-8"), str(path), package)
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        files.append(ScriptFile(path, names))
        # Most files of a package import the same modules.
        new = {use.name for use in names.imports} - asked
        asked |= new
        for module in sorted(new):
            waiting += _find_module_files(module, folders)
    return files


def find_script_folders(script: str) -> list[pathlib.Path]:
    """Where a script's own modules are: beside it, and where PYTHONPATH says."""
    named = map(pathlib.Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    beside = pathlib.Path(script).resolve().parent
    # A folder that pip has filled holds the packages of others.
    return [beside, *(folder for folder in named if not any(folder.glob("*.dist-info")))]


def _find_module_files(module: str, folders: Sequence[pathlib.Path]) -> Iterator[tuple[pathlib.Path, str]]:
    """The files that importing a module would run, the packages above it included, each with its package."""
    parts = module.split(".")
    for k in range(1, len(parts) + 1):
        inner = pathlib.Path(*parts[:k])
        for folder in folders:
            package, file = folder / inner / "__init__.py", (folder / inner).with_suffix(".py")
            if package.is_file() and not source.is_internal_file(str(package)):
                yield package, ".".join(parts[:k])
                break
            if file.is_file() and not source.is_internal_file(str(file)):
                yield file, ".".join(parts[: k - 1])
                break


def is_importable(module: str, folders: Sequence[pathlib.Path]) -> bool:
    """Whether a module that the shim does not answer for is there; a name without a dot imports nothing."""
    if not module or module in sys.stdlib_module_names or module in sys.modules:
        return True
    # By the files first: asking Python for a module inside of a package imports the package.
    inner = pathlib.Path(*module.split("."))
    if any((f / inner).is_dir() or (f / inner).with_suffix(".py").is_file() for f in folders):
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
