"""Resolve the names that kernel texts import: functions, constants and tables, read from their source files."""

import ast
import functools
import importlib
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lazytensor.llvm.number_types import Unknown
from lazytensor.llvm.register_tiles import DOTS, LANES, PAIR, ROWS, VECTORS

ROOT = pathlib.Path(__file__).parent.parent
HOMES, NUMBERS = "lazytensor.runtime.", "lazytensor.kernels."
"""Prefixes of the modules from which kernel texts may import: functions and constants from the first, integers from the
second. `np` and `math` are built in.
"""
PANELS, LANES_MODULE = "lazytensor.runtime.panels", "lazytensor.runtime.lanes"
INTRINSICS, THREADS = "lazytensor.runtime.intrinsics", "lazytensor.runtime.atomics"
"""Modules whose functions the compiler generates itself (with PANELS and LANES_MODULE)."""
SIZES = {"LANES": LANES, "ROWS": ROWS, "VECTORS": VECTORS, "DOTS": DOTS, "PAIR": PAIR}
"""The constants of `panels`."""


@dataclass(frozen=True)
class Meaning:
    """The definition of a name.

    - `module`: the module that defines it.
    - `function`: its definition, if it is a function.
    - `value`: its expression, if it is an assignment.
    - `number`: its value, if it is an integer.
    - `table`: its value, if it is an array.
    """

    module: str
    function: ast.FunctionDef | None = None
    value: ast.expr | None = None
    number: int | None = None
    table: np.ndarray | None = None


def meaning(name: str, module: str, text: str = "") -> Meaning:
    """Return the definition of `name` in `module`, following imports, at most three in a row.

    `text` is the source of the module, if it is not a file. Raise Unknown if the name is not defined.
    """
    node: ast.AST | None = None
    for _ in range(4):  # an import of an import
        node = (_names(text) if text else _file_names(module)).get(name)
        if not isinstance(node, ast.ImportFrom):
            break
        module, text = str(node.module), ""
        if module == PANELS:
            return Meaning(module, number=SIZES.get(name))
        if module in (INTRINSICS, THREADS):
            return Meaning(module)
        if module.startswith(NUMBERS):
            return Meaning(module, number=_number(name, module))
        if not module.startswith(HOMES):
            break
    if isinstance(node, ast.FunctionDef):
        return Meaning(module, function=node)
    if isinstance(node, ast.expr):
        return Meaning(module, value=node)
    if module.startswith(HOMES) and isinstance(table := _computed(name, module), np.ndarray):
        return Meaning(module, table=table)
    raise Unknown(f"the name {name} of {module}")


def _computed(name: str, module: str) -> object:
    """Return the value of a name that its module computes when it is imported."""
    return getattr(importlib.import_module(module), name, None)


def _number(name: str, module: str) -> int:
    value = _computed(name, module)
    if not isinstance(value, int):
        raise Unknown(f"the name {name} of {module}")
    return value


@functools.cache
def _file_names(module: str) -> Mapping[str, ast.AST]:
    path = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
    return _names(path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=4)
def _names(text: str) -> Mapping[str, ast.AST]:
    """Return the definitions and imports at the top level of a module text, by name."""
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
