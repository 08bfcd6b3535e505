"""The table `mirrors.txt`: every public module of the emulated packages, and where its names are defined.

The table is data because a name is imported at its first use. Import statements would load every module.
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
"""Suffix of a path in the table that stands for the module and all of PyTorch's modules below it."""
REFUSED_MODULE = "cstorch_compat.torch.unavailable"
"""The module with names that can be imported and refuse every use, and with recorded constants."""
TABLE_PATH = pathlib.Path(__file__).with_name("mirrors.txt")
"""The file of the table."""


@dataclass(frozen=True)
class NameOrigin:
    """Where a public name is defined: a module, and a dotted name in it."""

    module: str
    name: str

    def value(self) -> Any:
        """Return the object.

        Raises AttributeError if the module has no such name. The module may be another public one.
        """
        # A public module may take names from another public one. Follow the chain.
        inner = find_origin(self.module, self.name) if find_entry(self.module) else None
        if inner is not None:
            return inner.value()
        return operator.attrgetter(self.name)(importlib.import_module(self.module))


@dataclass(frozen=True)
class MirrorEntry:
    """A public module: its path, docstring, and the origins of its names.

    `names` maps public names to origins. `lists` are lists of names, such as `__all__`, that are taken unchanged.
    """

    path: str
    doc: str
    names: dict[str, NameOrigin]
    lists: tuple[NameOrigin, ...]


@functools.cache
def entries() -> dict[str, MirrorEntry]:
    """Return all public modules by path.

    Those listed in the table come first, then PyTorch's other modules, whose names are refused on use.
    """
    rows = list(_parse_table(_table_text()))
    listed = {entry.path: entry for entry in rows if not entry.path.endswith(ALL_BELOW)}
    for entry in rows:
        if entry.path.endswith(ALL_BELOW):
            listed |= {e.path: e for e in _expand_refused(entry, listed)}
    return listed


def find_entry(path: str) -> MirrorEntry | None:
    """Return the module `path` of the table, or another module of PyTorch. Return None for other paths."""
    return entries().get(path) or _find_refused_module(path)


@functools.cache
def _find_refused_module(path: str) -> MirrorEntry | None:
    """Return the entry of a module of PyTorch that the table does not list. Return None for other paths.

    Its names can be imported and are refused on use.
    """
    if not path.startswith("torch.") or path in entries() or not torch_surface.is_torch_module(path):
        return None
    names = {name: _make_refused_origin(path, name) for name in torch_surface.torch_names_by_module().get(path, ())}
    return MirrorEntry(path, "A module of PyTorch whose names cannot be used.", names, ())


@functools.cache
def _refuses_names(path: str) -> bool:
    """Return whether PyTorch's undocumented names in the module `path` can be imported and are refused on use.

    These modules are private, below a package with ALL_BELOW, or not in the table.
    """
    is_below = any(f"{path}.".startswith(f"{root}.") for root in _refused_packages())
    return is_below or torch_surface.is_private(path) or path not in entries()


@functools.cache
def _refused_packages() -> tuple[str, ...]:
    """Return the packages of the table with ALL_BELOW."""
    return tuple(line.partition(ALL_BELOW)[0] for line in _table_text().splitlines() if f"{ALL_BELOW}:" in line)


@functools.cache
def _table_text() -> str:
    """Return the text of the table."""
    return TABLE_PATH.read_text(encoding="utf-8")


def _make_refused_origin(path: str, name: str) -> NameOrigin:
    """Return the origin of a name of the module `path` that is refused on use, or is a recorded constant."""
    # Slashes instead of dots make the path one name of the refused module.
    return NameOrigin(REFUSED_MODULE, f"{path}.{name}".replace(".", "/"))


def _expand_refused(whole: MirrorEntry, listed: dict[str, MirrorEntry]) -> Iterator[MirrorEntry]:
    """Yield PyTorch's modules from the path of `whole` on. Names that the table does not list are refused on use."""
    root, modules = whole.path.removesuffix(ALL_BELOW), torch_surface.torch_names_by_module()
    for path, inside in modules.items():
        if path != root and not path.startswith(f"{root}."):
            continue
        below = {name for name in inside if f"{path}.{name}" in modules}
        names = {name: _make_refused_origin(path, name) for name in sorted(inside - below)}
        own = listed.get(path, MirrorEntry(path, whole.doc, {}, ()))
        yield MirrorEntry(path, own.doc, {**names, **own.names}, own.lists)


def _parse_table(text: str) -> Iterator[MirrorEntry]:
    """Yield the entries of the table's text, in order.

    A line without indentation is a module. Lines indented by 4 name a source and its names; deeper lines continue them.
    """
    # Indentation 0 is a module, 4 is a source of names, and a deeper line continues the source.
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
    """Return the entry of a module.

    `head` is its line "path: docstring". Each of `rows` is a source module followed by words: `name`, `public=ours`,
    `*` for its `__all__`, `*LIST` for another list, or `*SPACE.` for the members of an object.
    """
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
    """Return the last parts of the paths directly below `path`, without those that are also names of the module."""
    # A name takes precedence over a submodule, as after `from x.configure import configure`.
    return [name for name in _submodules_by_parent().get(path, ()) if name not in get_entry(path).names]


def has_submodule(path: str, name: str) -> bool:
    """Return whether `path` has the submodule `name`, which may be a private module of PyTorch."""
    return name in find_submodules(path) or _find_refused_module(f"{path}.{name}") is not None


def get_entry(path: str) -> MirrorEntry:
    """Return the entry of a module. Raises KeyError if there is no such module."""
    entry = find_entry(path)
    if entry is None:
        raise KeyError(path)
    return entry


@functools.cache
def _submodules_by_parent() -> dict[str, list[str]]:
    """Return the last parts of all submodules by parent path.

    Cached, because this search took most of the time of a `check`.
    """
    parts: dict[str, list[str]] = {}
    for path in entries():
        above, _, name = path.rpartition(".")
        parts.setdefault(above, []).append(name)
    return parts


def find_origin(path: str, name: str) -> NameOrigin | None:
    """Return where the name `name` of the public module `path` is defined.

    Names in the table take precedence over those of lists, and those over undocumented names that are refused on use.
    Return None for unknown names and for submodules.
    """
    entry = get_entry(path)
    # Names in the table take precedence over those of lists.
    if name in entry.names:
        return entry.names[name]
    if name in find_submodules(path):
        return None
    source = next((s for s in entry.lists if name in _names_in_list(s)), None)
    # The name of a namespace ends with a dot and is the prefix of its names.
    prefix = source.name if source is not None and source.name.endswith(".") else ""
    if source is not None:
        return NameOrigin(source.module, prefix + name)
    if not path.startswith("torch."):
        return None
    # A name that a module has from another one, such as Tensor.
    owner = torch_surface.owner_of_name(path, name)
    elsewhere = find_origin(owner, name) if owner and find_entry(owner) else None
    if elsewhere is not None:
        return elsewhere
    is_refused = _refuses_names(path) and name in torch_surface.undocumented_names(path)
    is_constant = name in torch_surface.recorded_constants(path)
    return _make_refused_origin(path, name) if is_refused or is_constant else None


def import_sources(path: str) -> None:
    """Import every module of this package that the public module `path` takes names from."""
    entry = get_entry(path)
    for source in (*entry.lists, *entry.names.values()):
        if source.module not in entries():
            importlib.import_module(source.module)


def list_names(path: str) -> list[str]:
    """Return the sorted names of a public module, without its submodules."""
    entry = get_entry(path)
    listed = frozenset[str]().union(*map(_names_in_list, entry.lists))
    return sorted((entry.names.keys() | listed) - set(find_submodules(path)))


@functools.cache
def _names_in_list(where: NameOrigin) -> frozenset[str]:
    """Return the names in a list of names, without modules. The modules are imported.

    A public module stands for all of its names, and a name that ends with "." for the members of that object.
    """
    if where.module in entries():
        return frozenset(list_names(where.module))
    module = importlib.import_module(where.module)
    if where.name.endswith("."):
        return frozenset(vars(getattr(module, where.name[:-1])))
    # Public submodules have their own rows.
    return frozenset(name for name in where.value() if not isinstance(getattr(module, name), ModuleType))


@functools.cache
def public_module_by_source() -> dict[str, str]:
    """Return, for each source module, the first public module of the table that takes names from it."""
    first: dict[str, str] = {}
    for entry in entries().values():
        for source in (*entry.lists, *entry.names.values()):
            first.setdefault(source.module, entry.path)
    return first
