"""`lazywafer stubs DIR`: write stub files for the emulated packages, for editors and type checkers.

The stubs consist of imports: the types come from this package, and the names from the table.
"""

import argparse
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator

from cstorch_compat.names import mirror_table
from cstorch_compat.names.mirror_modules import default_release_range, list_visible_names
from lazytensor.system.command_line import new_folder
from lazytensor.system.terminal import print_escaped

STUB_PACKAGES = ("torch", "torchvision", "cerebras")
"""The packages with stubs: those that scripts of the latest release import."""
GENERATED_MARK = "# Written by `lazywafer stubs`, which replaces this file. Changes to it are lost."
HELP = """Write stub packages for torch, torchvision and cerebras.pytorch into DIR, one folder each. Pyright and Pylance
use a folder `typings` next to the script, or the folder set as `stubPath`; mypy uses the folders in MYPYPATH or
`mypy_path`. Older stubs are replaced; any other package of these names in DIR is an error."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `stubs` command to the subparsers `commands`."""
    writer = commands.add_parser("stubs", help="write stubs for editors and type checkers", description=HELP)
    writer.add_argument(
        "folder", metavar="DIR", type=new_folder, help="the folder, which is created if it does not exist"
    )
    writer.set_defaults(execute=write_stubs)


def write_stubs(options: argparse.Namespace) -> int:
    """Write the stubs into the folder of the command line, replacing older ones.

    Returns the exit status: 0, or 2 if the stubs cannot be written there.
    """
    folder: pathlib.Path = options.folder
    reason = _find_obstacle(folder)
    if reason:
        print_escaped(f"lazywafer: {reason}", sys.stderr)
        return 2
    # Remove old stubs, which may contain names that no longer exist.
    for root in STUB_PACKAGES:
        shutil.rmtree(folder / root, ignore_errors=True)
    files = dict(generate_stubs())
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    print_escaped(
        f"wrote {len(files)} stubs to {folder}: set MYPYPATH={folder}, or stubPath in the settings of the editor"
    )
    return 0


def _find_obstacle(folder: pathlib.Path) -> str:
    """Return why the stubs cannot be written to `folder`, or "".

    Reasons are a file of that name, missing permission, and a package of the same name that was not written by this
    command.
    """
    if folder.exists() and not folder.is_dir():
        return f"{folder} is a file: use a folder for the stubs"
    # The folder may not exist yet. Its nearest existing parent must be writable.
    nearest = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} cannot be written to: use another folder"
    for root in STUB_PACKAGES:
        head = folder / root / "__init__.pyi"
        is_ours = head.is_file() and head.read_text(encoding="utf-8").startswith(GENERATED_MARK.partition(",")[0])
        if (folder / root).exists() and not is_ours:
            return f"{folder / root} was not written by lazywafer stubs: remove it, or use another folder"
    return ""


def generate_stubs() -> Iterator[tuple[str, str]]:
    """Yield the path of each stub in the folder, and its text: of torch, torchvision and cerebras.pytorch."""
    yield "cerebras/__init__.pyi", f"{GENERATED_MARK}\n"
    for path in mirror_table.entries():
        if path.startswith(("cerebras.pytorch", "torch")):
            place = path.replace(".", "/")
            is_package = "." not in path or any(other.startswith(f"{path}.") for other in mirror_table.entries())
            yield f"{place}/__init__.pyi" if is_package else f"{place}.pyi", _format_stub(path)


def _format_stub(path: str) -> str:
    """Return the text of the stub for the public module `path`: an import for each name, and `__all__`.

    Names that refuse every use have the type Any.
    """
    # Visible names only: some submodules of the table can only be imported.
    names = list_visible_names(path, default_release_range(path))
    lines = [GENERATED_MARK, f'"""{mirror_table.entries()[path].doc}"""']
    for name in names:
        origin = mirror_table.find_origin(path, name)
        if origin is None:
            lines.append(f"from {path} import {name} as {name}")
        elif origin.module == mirror_table.REFUSED_MODULE:
            lines += ["from typing import Any as _Any", f"{name}: _Any"]
        elif "." in origin.name:
            # A stub cannot import a part of an object. Import the object under a private name.
            owner, _, part = origin.name.partition(".")
            lines += [f"from {origin.module} import {owner} as _{owner}", f"{name} = _{owner}.{part}"]
        else:
            lines.append(f"from {origin.module} import {origin.name} as {name}")
    # Without __all__ a type checker treats a name imported under another name as private.
    return "\n".join([*lines, f"__all__ = {names}"]) + "\n"
