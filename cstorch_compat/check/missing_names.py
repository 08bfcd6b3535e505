"""Which of the names that a script uses are not here: all at once, before anything runs."""

import builtins
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from cstorch_compat.check.own_files import ScriptFile, find_script_folders, is_importable, read_script_files
from cstorch_compat.check.used_names import NameUse
from cstorch_compat.names import manifest, releases, shim, torch_surface
from lazytensor.core.tensor import Tensor
from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where
from lazytensor.nn import Module

KNOWN_CLASSES: dict[str, type] = {"torch.Tensor": Tensor, "torch.nn.Module": Module}
"""Classes by whose members a method is known to be PyTorch's, whatever it is called on."""
PYTHON_MEMBERS = frozenset().union(
    *map(dir, (*(v for v in vars(builtins).values() if isinstance(v, type)), np.ndarray, ModuleType))
)
"""Members of Python's own types and of arrays: on a value of unknown kind they say nothing."""
MAX_SHOWN_PLACES = 3


@dataclass(frozen=True)
class MissingName:
    """A name that is used and not here. `known` says who has it; `places` are all lines that use it."""

    name: str
    known: str
    reason: str
    way_out: str
    places: tuple[Where, ...]

    def as_dict(self) -> dict[str, object]:
        """The name as --json prints it."""
        places = [{"file": p.file, "line": p.line} for p in self.places]
        return {
            "name": self.name,
            "known": self.known,
            "reason": self.reason,
            "way_out": self.way_out,
            "places": places,
        }


def find_missing_names(script: str) -> list[MissingName]:
    """Every name that the script and its own modules use and do not get, by the place of its first use."""
    files, folders = read_script_files(script), find_script_folders(script)
    defined = frozenset[str]().union(*(f.names.defined for f in files))
    answers: dict[tuple[str, bool], MissingName | None] = {}
    told: dict[str, MissingName] = {}
    lines: dict[str, dict[Where, None]] = {}
    for file in files:
        for use in _filter_uses(file, defined):
            # The same name is used in many places and judged once.
            key = use.name, use.is_import
            if key not in answers:
                answers[key] = _find_missing(use, folders)
            missing = answers[key]
            if missing is not None:
                told[missing.name] = missing
                lines.setdefault(missing.name, {})[use.place] = None
    return [replace(told[name], places=tuple(places)) for name, places in lines.items()]


def _filter_uses(file: ScriptFile, defined: frozenset[str]) -> list[NameUse]:
    """The uses of a file that count: what it asks for first it can do without, and what it defines is its own."""
    names = file.names
    sees_torch = any(_is_shim_name(u.name) for u in names.imports)

    def counts(use: NameUse) -> bool:
        if use.name.startswith("."):
            return sees_torch and use.name not in names.asked and use.name[1:] not in defined | PYTHON_MEMBERS
        parts = use.name.split(".")
        return not any(".".join(parts[:k]) in names.asked for k in range(1, len(parts) + 1))

    return [use for use in names.uses if counts(use)]


def _root_package(name: str) -> str:
    """The first module of a name that is more than the way to others."""
    parts = name.split(".")
    k = next((k for k in range(1, len(parts)) if not releases.is_parent_package(".".join(parts[:k]))), len(parts))
    return ".".join(parts[:k])


def _is_shim_name(name: str) -> bool:
    """Whether the shim answers for a name."""
    key = _root_package(name)
    return shim.find_mirror_path(key) is not None or bool(releases.find_spellings(key))


def _find_missing(use: NameUse, folders: Sequence[Path]) -> MissingName | None:
    if use.name.startswith("."):
        return _find_missing_method(use.name[1:])
    if _is_shim_name(use.name):
        return _find_missing_in_shim(use.name, use.is_import)
    # Without an import it is a name in a module that is judged where it is imported.
    package = _root_package(use.name)
    if not use.is_import or is_importable(package, folders):
        return None
    return MissingName(package, "other packages", "it is not installed", manifest.find_package_workaround(package), ())


def _find_missing_method(name: str) -> MissingName | None:
    for owner in KNOWN_CLASSES:
        if name in torch_surface.torch_names_by_module().get(owner, ()) and not any(
            hasattr(k, name) for k in KNOWN_CLASSES.values()
        ):
            return _describe_missing(f"{owner}.{name}", f"{owner}.{name}", None)
    return None


def _find_missing_in_shim(name: str, is_import: bool) -> MissingName | None:
    """The first part of a dotted name that is not there, or the name if every use of it is refused."""
    key = _root_package(name)
    try:
        value: Any = importlib.import_module(key)
    except ModuleNotFoundError as e:
        return _describe_missing(key, key, e)
    # From here on each part is an attribute, and the first one that fails is the name to tell.
    path = key
    for part in name.removeprefix(key).strip(".").split("."):
        # Inside of a class or a value nothing is known to be missing without running.
        if not part or not isinstance(value, ModuleType):
            return None
        path, owner = f"{path}.{part}", path
        try:
            value = getattr(value, part)
        except AttributeError as e:
            return _describe_missing(path, f"{shim.find_mirror_path(owner) or owner}.{part}", e)
    # Importing it is fine, using it is not.
    refused = vars(value).get("refused") if isinstance(value, type | FunctionType) and not is_import else None
    return None if refused is None else MissingName(path, "PyTorch", reason=refused[0], way_out=refused[1], places=())


def _describe_missing(name: str, full: str, error: Exception | None) -> MissingName:
    """What is said of a name; `full` is how the lists call it."""
    cause = error if isinstance(error, LazyError) else error.__cause__ if error is not None else None
    if manifest.is_known(full):
        known = "PyTorch" if full.startswith("torch") else "the Cerebras API"
        return MissingName(name, known, manifest.find_missing_reason(full), manifest.find_workaround(full), ())
    if isinstance(cause, LazyError):
        return MissingName(name, "nobody", cause.what, cause.hint, ())
    first = str(error).partition("\n")[0]
    return MissingName(name, "nobody", first, "Check the spelling and the release that has it.", ())


def format_missing_names(names: Sequence[MissingName], short: Callable[[str], str]) -> str:
    """The names as a table; `short` shortens the path of a file."""
    columns = (
        Column("name", is_words=True),
        Column("used at", is_words=True),
        Column("known to", is_words=True),
        Column("what to do", is_words=True),
    )
    rows = [(m.name, _format_places(m.places, short), m.known, m.way_out) for m in names]
    return Table(columns, rows).text()


def _format_places(places: Sequence[Where], short: Callable[[str], str]) -> str:
    shown = ", ".join(f"{short(p.file)}:{p.line}" for p in places[:MAX_SHOWN_PLACES])
    rest = len(places) - MAX_SHOWN_PLACES
    return f"{shown} and {rest} more" if rest > 0 else shown
