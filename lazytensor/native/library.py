"""Library: the functions and constants that kernel texts import, read from the files that Numba compiles too."""

import ast
import functools
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from lazytensor.native.kinds import Unknown

ROOT = pathlib.Path(__file__).parent.parent
HOMES = ("lazytensor.runtime.", "lazytensor.kernels.")
"""The rooms from which texts may import; `np` and `math` are known by themselves."""


@dataclass(frozen=True)
class Meaning:
    """What a name stands for: a function, an expression (an element of one, or all of it), and the module it is in."""

    module: str
    function: ast.FunctionDef | None = None
    value: ast.expr | None = None


def meaning(name: str, module: str, text: str = "") -> Meaning:
    """What `name` stands for in a module, whose text is given or lies in its file. Raises Unknown if it says not."""
    for _ in range(4):  # an import of an import
        node = (_names(text) if text else _file_names(module)).get(name)
        if not isinstance(node, ast.ImportFrom):
            break
        module, text = str(node.module), ""
        if not module.startswith(HOMES):
            break
    if isinstance(node, ast.FunctionDef):
        return Meaning(module, function=node)
    if isinstance(node, ast.expr):
        return Meaning(module, value=node)
    raise Unknown(f"{name} of {module}")


@functools.cache
def _file_names(module: str) -> Mapping[str, ast.AST]:
    path = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return _names(path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=4)
def _names(text: str) -> Mapping[str, ast.AST]:
    names: dict[str, ast.AST] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names |= _assigned(target, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            names[node.target.id] = node.value
    return names


def _assigned(target: ast.expr, value: ast.expr) -> dict[str, ast.AST]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return {t.id: v for t, v in zip(target.elts, value.elts, strict=True) if isinstance(t, ast.Name)}
    return {}
