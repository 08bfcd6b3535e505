"""PyTorch's recorded public names: those of its modules, and the members of classes that scripts subclass.

`torch_surface.txt` has one line per module: its path, a colon, and its names. A path without names is a module that can
be imported but has no public names. The script `tests/golden/record_surface.py` writes the file from PyTorch.
"""

import functools
import pathlib

TORCH_RELEASE = "2.13.0"
"""The release of PyTorch whose names were recorded."""


@functools.cache
def torch_names_by_module() -> dict[str, frozenset[str]]:
    """Return the names of each module, and of each class whose members were recorded."""
    lines = pathlib.Path(__file__).with_name("torch_surface.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {path: frozenset(names.split()) for path, _, names in rows}


@functools.cache
def all_torch_names() -> frozenset[str]:
    """Return every public name with its module, and the modules themselves."""
    inside = {f"{path}.{name}" for path, listed in torch_names_by_module().items() for name in listed}
    return frozenset(inside | torch_names_by_module().keys())


def is_torch_name(name: str) -> bool:
    """Return whether PyTorch has a dotted name. A parent package of a listed module counts."""
    return name in all_torch_names() or name in _parent_packages()


@functools.cache
def _parent_packages() -> frozenset[str]:
    """Return all parent packages of listed modules."""
    return frozenset(path[:k] for path in torch_names_by_module() for k, letter in enumerate(path) if letter == ".")
