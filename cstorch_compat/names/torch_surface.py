"""PyTorch's recorded names: those of its modules, and the members of classes that scripts subclass.

`torch_surface.txt` has the public names and `torch_undocumented.txt` the other ones. Each has one line per module: its
path, a colon, and its names. A path without names is a module that can be imported but has no such names. The second
file has the value of a constant after its name, as in "CHUNK=1024", also if the name is public, and the module that
defines a name, as in "Tensor@torch"; "DeviceLike~" is an alias for annotations. The script
`tests/golden/record_surface.py` writes the files from PyTorch.
"""

import ast
import functools
import pathlib
import re
from typing import Any

TORCH_RELEASE = "2.13.0"
"""The release of PyTorch whose names were recorded."""

CLASSES = ("torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer")
"""The classes whose members were recorded."""


@functools.cache
def torch_names_by_module() -> dict[str, frozenset[str]]:
    """Return the public names of each module, and of each class whose members were recorded."""
    return {path: frozenset(names.split()) for path, names in _read_lines("torch_surface.txt").items()}


@functools.cache
def _undocumented_lines() -> dict[str, str]:
    """Return the undocumented names of each module, separated by spaces. The file is read at the first call."""
    return _read_lines("torch_undocumented.txt")


def _read_lines(file: str) -> dict[str, str]:
    """Return the names in a file by module, as the text of the line."""
    lines = pathlib.Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {path: names for path, _, names in rows}


@functools.cache
def _undocumented_words(path: str) -> dict[str, tuple[str, str]]:
    """Return the names of PyTorch's module `path` in the second file, each with the separator and text that follow."""
    words = (re.split("([=@~])", word, maxsplit=1) for word in _undocumented_lines().get(path, "").split())
    return {name: (after[0], after[1]) if after else ("", "") for name, *after in words}


def undocumented_names(path: str) -> frozenset[str]:
    """Return the names of PyTorch's module `path` that are not public, without its submodules."""
    return frozenset(_undocumented_words(path))


def recorded_constants(path: str) -> dict[str, Any]:
    """Return the constants of PyTorch's module `path` by name: numbers, strings, bools and None.

    Aliases for annotations, such as a union of types, are typing.Any.
    """
    words = _undocumented_words(path).items()
    constants = {name: ast.literal_eval(text) for name, (mark, text) in words if mark == "="}
    return constants | {name: Any for name, (mark, _) in words if mark == "~"}


def owner_of_name(path: str, name: str) -> str:
    """Return the module that defines the undocumented name `name` of the module `path`, or "" if it is not recorded."""
    mark, text = _undocumented_words(path).get(name, ("", ""))
    return text if mark == "@" else ""


def torch_modules() -> list[str]:
    """Return PyTorch's recorded modules, sorted. Private modules count."""
    return sorted({*torch_names_by_module(), *_undocumented_lines()} - {*CLASSES})


def is_torch_module(path: str) -> bool:
    """Return whether PyTorch has a module `path`. Private modules count."""
    return (path in torch_names_by_module() and path not in CLASSES) or path in _undocumented_lines()


def is_private(path: str) -> bool:
    """Return whether a part of a dotted name begins with an underscore."""
    return any(part.startswith("_") for part in path.split("."))


@functools.cache
def all_torch_names() -> frozenset[str]:
    """Return every public name with its module, and the modules themselves."""
    inside = {f"{path}.{name}" for path, listed in torch_names_by_module().items() for name in listed}
    return frozenset(inside | torch_names_by_module().keys())


def is_torch_name(name: str) -> bool:
    """Return whether PyTorch has a dotted name, public or not. A parent package of a listed module counts."""
    path, _, last = name.rpartition(".")
    if name in all_torch_names() or name in _parent_packages() or is_torch_module(name):
        return True
    return last in undocumented_names(path)


@functools.cache
def _parent_packages() -> frozenset[str]:
    """Return all parent packages of listed modules."""
    return frozenset(path[:k] for path in torch_names_by_module() for k, letter in enumerate(path) if letter == ".")
