"""Find the source files of a script: the script and the modules that it imports from its own folders."""

import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cstorch_compat.check.used_names import FileNames, read_used_names
from lazytensor.core import source

MAX_FILES = 500
"""Maximum number of files that are read before the script runs."""


@dataclass(frozen=True)
class ScriptFile:
    """A source file of a script and the names that it uses."""

    path: pathlib.Path
    names: FileNames


def read_script_files(script: str) -> list[ScriptFile]:
    """Return the script and the modules that it imports from its own folders, directly or indirectly, each once.

    Files that cannot be read or parsed are skipped; running the script reports them.
    """
    folders = find_script_folders(script)
    waiting, seen, files = [(pathlib.Path(script), "")], set[pathlib.Path](), list[ScriptFile]()
    asked = set[str]()
    while waiting and len(files) < MAX_FILES:
        path, package = waiting.pop()
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        # Python reports unreadable files when the script runs.
        try:
            names = read_used_names(path.read_text(encoding="utf-8"), str(path), package)
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        files.append(ScriptFile(path, names))
        # Most files of a package import the same modules; look up each only once.
        new = {use.name for use in names.imports} - asked
        asked |= new
        for module in sorted(new):
            waiting += _find_module_files(module, folders)
    return files


def find_script_folders(script: str) -> list[pathlib.Path]:
    """Return the folders with a script's own modules.

    These are the folder of the script and those of PYTHONPATH that contain no installed packages.
    """
    named = map(pathlib.Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    beside = pathlib.Path(script).resolve().parent
    # Skip folders with installed packages, which are not the script's own.
    return [beside, *(folder for folder in named if not any(folder.glob("*.dist-info")))]


def _find_module_files(module: str, folders: Sequence[pathlib.Path]) -> Iterator[tuple[pathlib.Path, str]]:
    """Yield the files that importing `module` runs, including those of its parent packages.

    Each file comes with the package that its relative imports refer to.
    """
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
    """Return whether a module outside of the emulated packages can be imported. Return True for "".

    Looks for files in `folders` first, since `importlib` would import the parent package.
    """
    if not module or module in sys.stdlib_module_names or module in sys.modules:
        return True
    # Look for files first: find_spec of a submodule imports its parent package.
    inner = pathlib.Path(*module.split("."))
    if any((f / inner).is_dir() or (f / inner).with_suffix(".py").is_file() for f in folders):
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
