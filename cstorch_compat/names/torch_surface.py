"""PyTorch's public surface as it was recorded: the names of its modules, and of the classes that scripts subclass.

`torch_surface.txt` has a line for each module: its path, a colon, and its names. Behind a path alone there is a module
of which only the path is public enough to be imported. The file is text because a script writes it from PyTorch:
`tests/golden/record_surface.py`.
"""

import functools
import pathlib

TORCH_RELEASE = "2.13.0"
"""The release of PyTorch whose names were recorded."""


@functools.cache
def torch_names_by_module() -> dict[str, frozenset[str]]:
    """The names of each module, and of the classes whose members were recorded too."""
    lines = pathlib.Path(__file__).with_name("torch_surface.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {path: frozenset(names.split()) for path, _, names in rows}


@functools.cache
def all_torch_names() -> frozenset[str]:
    """Every public name with its module in front, the modules themselves included."""
    inside = {f"{path}.{name}" for path, listed in torch_names_by_module().items() for name in listed}
    return frozenset(inside | torch_names_by_module().keys())


def is_torch_name(name: str) -> bool:
    """Whether PyTorch has a dotted name, under its own or as part of a module's path."""
    return name in all_torch_names() or name in _parent_packages()


@functools.cache
def _parent_packages() -> frozenset[str]:
    """Packages that are listed by what is below them alone."""
    return frozenset(path[:k] for path in torch_names_by_module() for k, letter in enumerate(path) if letter == ".")
