"""Which of the names that a script uses are not here: all at once, before anything runs."""

import builtins
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from cstorch_compat.check.own_files import OwnFile, is_importable, own_folders, read_files
from cstorch_compat.check.used_names import Use
from cstorch_compat.names import manifest, releases, shim, surface
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where
from lazytensor.nn import Module
from lazytensor.table import Column, Table
from lazytensor.tensor import Tensor

KINDS: dict[str, type] = {"torch.Tensor": Tensor, "torch.nn.Module": Module}
"""Classes by whose members a method is known to be PyTorch's, whatever it is called on."""
ORDINARY = frozenset().union(
    *map(dir, (*(v for v in vars(builtins).values() if isinstance(v, type)), np.ndarray, ModuleType))
)
"""Members of Python's own types and of arrays: on a value of unknown kind they say nothing."""
SHOWN_PLACES = 3


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


def missing_names(script: str) -> list[MissingName]:
    """Every name that the script and its own modules use and do not get, by the place of its first use."""
    files, folders = read_files(script), own_folders(script)
    defined = frozenset[str]().union(*(f.names.defined for f in files))
    answers: dict[tuple[str, bool], MissingName | None] = {}
    told: dict[str, MissingName] = {}
    lines: dict[str, dict[Where, None]] = {}
    for file in files:
        for use in _asked_for(file, defined):
            # The same name is used in many places and judged once.
            key = use.name, use.is_import
            if key not in answers:
                answers[key] = _judged(use, folders)
            missing = answers[key]
            if missing is not None:
                told[missing.name] = missing
                lines.setdefault(missing.name, {})[use.place] = None
    return [replace(told[name], places=tuple(places)) for name, places in lines.items()]


def _asked_for(file: OwnFile, defined: frozenset[str]) -> list[Use]:
    """The uses of a file that count: what it asks for first it can do without, and what it defines is its own."""
    names = file.names
    sees_torch = any(_is_ours(u.name) for u in names.imports)

    def counts(use: Use) -> bool:
        if use.name.startswith("."):
            return sees_torch and use.name not in names.asked and use.name[1:] not in defined | ORDINARY
        parts = use.name.split(".")
        return not any(".".join(parts[:k]) in names.asked for k in range(1, len(parts) + 1))

    return [use for use in names.uses if counts(use)]


def _key(name: str) -> str:
    """The first module of a name that is more than the way to others."""
    parts = name.split(".")
    k = next((k for k in range(1, len(parts)) if not releases.is_package_above(".".join(parts[:k]))), len(parts))
    return ".".join(parts[:k])


def _is_ours(name: str) -> bool:
    """Whether the shim answers for a name."""
    key = _key(name)
    return shim.path_of(key) is not None or bool(releases.spellings_of(key))


def _judged(use: Use, folders: Sequence[Path]) -> MissingName | None:
    if use.name.startswith("."):
        return _method(use.name[1:])
    if _is_ours(use.name):
        return _of_the_shim(use.name, use.is_import)
    # Without an import it is a name in a module that is judged where it is imported.
    package = _key(use.name)
    if not use.is_import or is_importable(package, folders):
        return None
    return MissingName(package, "other packages", "it is not installed", manifest.package_way_out(package), ())


def _method(name: str) -> MissingName | None:
    for owner in KINDS:
        if name in surface.modules().get(owner, ()) and not any(hasattr(k, name) for k in KINDS.values()):
            return _told(f"{owner}.{name}", f"{owner}.{name}", None)
    return None


def _of_the_shim(name: str, is_import: bool) -> MissingName | None:
    """The first part of a dotted name that is not there, or the name if every use of it is refused."""
    key = _key(name)
    try:
        value: Any = importlib.import_module(key)
    except ModuleNotFoundError as e:
        return _told(key, key, e)
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
            return _told(path, f"{shim.path_of(owner) or owner}.{part}", e)
    # Importing it is fine, using it is not.
    refused = vars(value).get("refused") if isinstance(value, type | FunctionType) and not is_import else None
    return None if refused is None else MissingName(path, "PyTorch", reason=refused[0], way_out=refused[1], places=())


def _told(name: str, full: str, error: Exception | None) -> MissingName:
    """What is said of a name; `full` is how the lists call it."""
    cause = error if isinstance(error, LazyError) else error.__cause__ if error is not None else None
    if manifest.is_known(full):
        known = "PyTorch" if full.startswith("torch") else "the Cerebras API"
        return MissingName(name, known, manifest.reason_for(full), manifest.way_out_for(full), ())
    if isinstance(cause, LazyError):
        return MissingName(name, "nobody", cause.what, cause.hint, ())
    first = str(error).partition("\n")[0]
    return MissingName(name, "nobody", first, "Check the spelling and the release that has it.", ())


def as_table(names: Sequence[MissingName], short: Callable[[str], str]) -> str:
    """The names as a table; `short` shortens the path of a file."""
    columns = (
        Column("name", is_words=True),
        Column("used at", is_words=True),
        Column("known to", is_words=True),
        Column("what to do", is_words=True),
    )
    rows = [(m.name, _places(m.places, short), m.known, m.way_out) for m in names]
    return Table(columns, rows).text()


def _places(places: Sequence[Where], short: Callable[[str], str]) -> str:
    shown = ", ".join(f"{short(p.file)}:{p.line}" for p in places[:SHOWN_PLACES])
    rest = len(places) - SHOWN_PLACES
    return f"{shown} and {rest} more" if rest > 0 else shown
