"""The table of `mirrors.txt`: every public module of the emulated packages, and where its names come from.

The table is data because a name is imported when a script first reads it: import statements would load every module.
"""

import functools
import importlib
import operator
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from cstorch_compat.names import torch_surface

ALL_BELOW = ".**"
"""Behind the path of a module in the table: it and all of PyTorch's modules below it."""
REFUSED_MODULE = "cstorch_compat.torch.unavailable"
TABLE_PATH = pathlib.Path(__file__).with_name("mirrors.txt")


@dataclass(frozen=True)
class NameOrigin:
    """Where a public name comes from: a module, and the path of a name in it."""

    module: str
    name: str

    def value(self) -> Any:
        """What the name stands for. Raises AttributeError if the module has no such name."""
        # A public module may take names from another public one; the way goes on from there.
        inner = find_origin(self.module, self.name) if self.module in entries() else None
        if inner is not None:
            return inner.value()
        return operator.attrgetter(self.name)(importlib.import_module(self.module))


@dataclass(frozen=True)
class MirrorEntry:
    """One public module: its docstring, its names by their spelling, and the lists that it takes as they are."""

    path: str
    doc: str
    names: dict[str, NameOrigin]
    lists: tuple[NameOrigin, ...]


@functools.cache
def entries() -> dict[str, MirrorEntry]:
    """Every public module by its path, in the order of the table; behind it the modules that are refused on use."""
    rows = list(_parse_table(TABLE_PATH.read_text(encoding="utf-8")))
    listed = {entry.path: entry for entry in rows if not entry.path.endswith(ALL_BELOW)}
    for entry in rows:
        if entry.path.endswith(ALL_BELOW):
            listed |= {e.path: e for e in _expand_refused(entry, listed)}
    return listed


def _expand_refused(whole: MirrorEntry, listed: dict[str, MirrorEntry]) -> Iterator[MirrorEntry]:
    """PyTorch's modules from a path on down, with all their names: what is not listed of them is refused on use."""
    root, modules = whole.path.removesuffix(ALL_BELOW), torch_surface.torch_names_by_module()
    for path, inside in modules.items():
        if path != root and not path.startswith(f"{root}."):
            continue
        below = {name for name in inside if f"{path}.{name}" in modules}
        # A slash for each dot: what is asked of the module below is one name.
        names = {
            name: NameOrigin(REFUSED_MODULE, f"{path}.{name}".replace(".", "/")) for name in sorted(inside - below)
        }
        own = listed.get(path, MirrorEntry(path, whole.doc, {}, ()))
        yield MirrorEntry(path, own.doc, {**names, **own.names}, own.lists)


def _parse_table(text: str) -> Iterator[MirrorEntry]:
    # The grammar is the indent: 0 a module, 4 where names come from, deeper more of them.
    head, rows = "", list[list[str]]()
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line or line.startswith("#"):
            continue
        if indent == 0:
            if head:
                yield _parse_entry(head, rows)
            head, rows = line, []
        elif indent == 4:
            rows.append(line.split())
        else:
            rows[-1] += line.split()
    yield _parse_entry(head, rows)


def _parse_entry(head: str, rows: list[list[str]]) -> MirrorEntry:
    path, _, doc = head.partition(": ")
    names, lists = {}, []
    for module, *words in rows:
        for word in words:
            public, _, ours = word.partition("=")
            if word.startswith("*"):
                lists.append(NameOrigin(module, word[1:] or "__all__"))
            else:
                names[public] = NameOrigin(module, ours or public)
    return MirrorEntry(path, doc, names, tuple(lists))


def find_submodules(path: str) -> list[str]:
    """The last parts of the modules directly below a module."""
    # A name that is spelled like a module below it wins, as after `from x.configure import configure`.
    return [name for name in _submodules_by_parent().get(path, ()) if name not in entries()[path].names]


@functools.cache
def _submodules_by_parent() -> dict[str, list[str]]:
    """By module, the last parts of those below it: to go through all of them for each took most of a `check`."""
    parts: dict[str, list[str]] = {}
    for path in entries():
        above, _, name = path.rpartition(".")
        parts.setdefault(above, []).append(name)
    return parts


def find_origin(path: str, name: str) -> NameOrigin | None:
    """Where a name of a public module comes from; None if the module has no such name, or it is a module below."""
    entry = entries()[path]
    # Names that stand in the table come first: they replace what a list has under the same spelling.
    if name in entry.names:
        return entry.names[name]
    if name in find_submodules(path):
        return None
    source = next((s for s in entry.lists if name in _names_in_list(s)), None)
    # A namespace is named with a full stop at its end, which is what stands before the names in it.
    prefix = source.name if source is not None and source.name.endswith(".") else ""
    return NameOrigin(source.module, prefix + name) if source is not None else None


def import_sources(path: str) -> None:
    """Import every module of ours that a public module takes names from."""
    for source in (*entries()[path].lists, *entries()[path].names.values()):
        if source.module not in entries():
            importlib.import_module(source.module)


def list_names(path: str) -> list[str]:
    """Every name of a public module, the modules below it left out."""
    entry = entries()[path]
    listed = frozenset[str]().union(*map(_names_in_list, entry.lists))
    return sorted((entry.names.keys() | listed) - set(find_submodules(path)))


@functools.cache
def _names_in_list(where: NameOrigin) -> frozenset[str]:
    """What a list of names has, modules left out; of another public module all names."""
    if where.module in entries():
        return frozenset(list_names(where.module))
    module = importlib.import_module(where.module)
    if where.name.endswith("."):
        return frozenset(vars(getattr(module, where.name[:-1])))
    # Modules stay out: what is public below a public module has a row of its own.
    return frozenset(name for name in where.value() if not isinstance(getattr(module, name), ModuleType))


@functools.cache
def public_module_by_source() -> dict[str, str]:
    """The public module that first takes names from each of ours: where classes say that they live."""
    first: dict[str, str] = {}
    for entry in entries().values():
        for source in (*entry.lists, *entry.names.values()):
            first.setdefault(source.module, entry.path)
    return first
