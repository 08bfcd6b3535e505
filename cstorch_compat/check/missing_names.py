"""Find the names that a script uses and that do not exist in this package, before the script runs."""

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
"""Classes whose members identify a method as PyTorch's, whatever object it is called on."""
PYTHON_MEMBERS = frozenset().union(
    *map(dir, (*(v for v in vars(builtins).values() if isinstance(v, type)), np.ndarray, ModuleType))
)
"""Attributes of Python's built-in types, NumPy arrays and modules.

Such an attribute of an unknown value is not judged.
"""
MAX_SHOWN_PLACES = 3
"""Maximum number of lines listed per name in the text report."""


@dataclass(frozen=True)
class MissingName:
    """A name that the script uses and that does not exist here.

    name: the dotted name as the script spells it
    known: which library has the name
    reason: why it is missing
    way_out: what to do instead
    places: all lines that use it
    """

    name: str
    known: str
    reason: str
    way_out: str
    places: tuple[Where, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the name as `--json` prints it."""
        places = [{"file": p.file, "line": p.line} for p in self.places]
        return {
            "name": self.name,
            "known": self.known,
            "reason": self.reason,
            "way_out": self.way_out,
            "places": places,
        }


def find_missing_names(script: str) -> list[MissingName]:
    """Return the missing names that `script` and the modules in its own folders use.

    They are in the order of their first use, each with all lines that use it. The shim must be installed.
    """
    files, folders = read_script_files(script), find_script_folders(script)
    defined = frozenset[str]().union(*(f.names.defined for f in files))
    answers: dict[tuple[str, bool], MissingName | None] = {}
    told: dict[str, MissingName] = {}
    lines: dict[str, dict[Where, None]] = {}
    for file in files:
        for use in _filter_uses(file, defined):
            # Judge each name once, however often it is used.
            key = use.name, use.is_import
            if key not in answers:
                answers[key] = _find_missing(use, folders)
            missing = answers[key]
            if missing is not None:
                told[missing.name] = missing
                lines.setdefault(missing.name, {})[use.place] = None
    return [replace(told[name], places=tuple(places)) for name, places in lines.items()]


def _filter_uses(file: ScriptFile, defined: frozenset[str]) -> list[NameUse]:
    """Return the uses of a file that must resolve.

    Uses of names that the file tests with `hasattr` are dropped. So are attributes of values, if the file imports no
    emulated module, defines the attribute itself (`defined`), or Python's own types have it.
    """
    names = file.names
    sees_torch = any(_is_shim_name(u.name) for u in names.imports)

    def counts(use: NameUse) -> bool:
        if use.name.startswith("."):
            return sees_torch and use.name not in names.asked and use.name[1:] not in defined | PYTHON_MEMBERS
        parts = use.name.split(".")
        return not any(".".join(parts[:k]) in names.asked for k in range(1, len(parts) + 1))

    return [use for use in names.uses if counts(use)]


def _root_package(name: str) -> str:
    """Return the first prefix of a dotted name that is more than a parent package, such as "cerebras.pytorch"."""
    parts = name.split(".")
    k = next((k for k in range(1, len(parts)) if not releases.is_parent_package(".".join(parts[:k]))), len(parts))
    return ".".join(parts[:k])


def _is_shim_name(name: str) -> bool:
    """Return whether the shim serves a name, in any release."""
    key = _root_package(name)
    return shim.find_mirror_path(key) is not None or bool(releases.find_spellings(key))


def _find_missing(use: NameUse, folders: Sequence[Path]) -> MissingName | None:
    """Return the MissingName of a use, without places, or None if the name exists.

    Names outside of the emulated packages are judged by their import only. `folders` hold the script's own modules.
    """
    if use.name.startswith("."):
        return _find_missing_method(use.name[1:])
    if _is_shim_name(use.name):
        return _find_missing_in_shim(use.name, use.is_import)
    # Names in other packages are judged where the package is imported.
    package = _root_package(use.name)
    if not use.is_import or is_importable(package, folders):
        return None
    return MissingName(package, "other packages", "it is not installed", manifest.find_package_workaround(package), ())


def _find_missing_method(name: str) -> MissingName | None:
    """Return the MissingName of a method that Tensor or Module has in PyTorch and has not here, or None."""
    for owner in KNOWN_CLASSES:
        if name in torch_surface.torch_names_by_module().get(owner, ()) and not any(
            hasattr(k, name) for k in KNOWN_CLASSES.values()
        ):
            return _describe_missing(f"{owner}.{name}", f"{owner}.{name}", None)
    return None


def _find_missing_in_shim(name: str, is_import: bool) -> MissingName | None:
    """Return the MissingName of the first part of a dotted name that does not exist, or None.

    A name whose every use is refused counts as missing, unless it is only imported. Members of classes are not checked.
    """
    key = _root_package(name)
    try:
        value: Any = importlib.import_module(key)
    except ModuleNotFoundError as e:
        return _describe_missing(key, key, e)
    # Each further part is an attribute. The first one that does not exist is the missing name.
    path = key
    for part in name.removeprefix(key).strip(".").split("."):
        # Attributes of classes and values cannot be judged without running the script.
        if not part or not isinstance(value, ModuleType):
            return None
        path, owner = f"{path}.{part}", path
        try:
            value = getattr(value, part)
        except AttributeError as e:
            return _describe_missing(path, f"{shim.find_mirror_path(owner) or owner}.{part}", e)
    # A refused name may be imported but not used.
    refused = vars(value).get("refused") if isinstance(value, type | FunctionType) and not is_import else None
    return None if refused is None else MissingName(path, "PyTorch", reason=refused[0], way_out=refused[1], places=())


def _describe_missing(name: str, full: str, error: Exception | None) -> MissingName:
    """Return the MissingName of `name` with its reason and way out.

    `full` is its name in the lists of PyTorch and the Cerebras API; `error` is the exception of the lookup.
    """
    cause = error if isinstance(error, LazyError) else error.__cause__ if error is not None else None
    if manifest.is_known(full):
        known = "PyTorch" if full.startswith("torch") else "the Cerebras API"
        return MissingName(name, known, manifest.find_missing_reason(full), manifest.find_workaround(full), ())
    if isinstance(cause, LazyError):
        return MissingName(name, "no package", cause.what, cause.hint, ())
    first = str(error).partition("\n")[0]
    return MissingName(name, "no package", first, "Check the spelling, and which release has the name.", ())


def format_missing_names(names: Sequence[MissingName], short: Callable[[str], str]) -> str:
    """Return the names as a text table. `short` abbreviates the path of a file."""
    columns = (
        Column("name", is_words=True),
        Column("used at", is_words=True),
        Column("known to", is_words=True),
        Column("what to do", is_words=True),
    )
    rows = [(m.name, _format_places(m.places, short), m.known, m.way_out) for m in names]
    return Table(columns, rows).text()


def _format_places(places: Sequence[Where], short: Callable[[str], str]) -> str:
    """Return the first MAX_SHOWN_PLACES places and the number of the remaining ones as text."""
    shown = ", ".join(f"{short(p.file)}:{p.line}" for p in places[:MAX_SHOWN_PLACES])
    rest = len(places) - MAX_SHOWN_PLACES
    return f"{shown} and {rest} more" if rest > 0 else shown
