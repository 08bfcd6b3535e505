"""Rules on the source text of a script: side effects in traced functions, and weights in step closures."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator

from cstorch_compat.check.findings import Findings
from lazytensor.ir.types import Where

WEIGHT_METHODS = frozenset("state_dict parameters named_parameters get_parameter".split())
"""Methods of modules and optimizers that return weights."""
NONDETERMINISTIC_FUNCTIONS = {
    "time": ("time", "perf_counter", "monotonic"),
    "random": (),
    "np.random": (),
    "numpy.random": (),
}
"""Functions with a different result in each call, by module name. An empty tuple means all functions of the module."""
LIST_GROWING_METHODS = frozenset("append extend appendleft".split())
"""Methods that append to a list."""


def check_step_source(findings: Findings, step: Callable[..., object]) -> None:
    """Add a finding for each side effect in the source of the traced function `step`.

    Side effects are `print`, assignments to global or nonlocal variables, appending to an outer list, and calls of
    clocks or random number generators. Does nothing if the source is not available, as in an interactive session.
    """
    tree, file, first = _parse_function(step)
    if tree is None:
        return
    mine = _local_names(tree)
    shared = {name for n in ast.walk(tree) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    for n in ast.walk(tree):
        rule = _find_side_effect(n, mine, shared)
        place = Where(file, first + getattr(n, "lineno", 1) - 1)
        if rule is not None and not any(f.rule.key == "print" for f in findings.at(place)):
            findings.add(rule[0], place, rule[1])


def _parse_function(function: Callable[..., object]) -> tuple[ast.AST | None, str, int]:
    """Return the syntax tree of `function`, its file, and its first line.

    Return (None, "", 0) if there is no source text.
    """
    inner = inspect.unwrap(function)
    try:
        # An interactive session has no source files.
        lines, first = inspect.getsourcelines(inner)
        return ast.parse(textwrap.dedent("".join(lines))), inspect.getsourcefile(inner) or "", first
    except (OSError, TypeError, SyntaxError):
        return None, "", 0


def _local_names(tree: ast.AST) -> set[str]:
    """Return the names that the function binds, including its parameters."""
    # Local names are new in each call, so changing them is no side effect.
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {a.arg for n in ast.walk(tree) if isinstance(n, ast.arguments) for a in n.args}


def _find_side_effect(n: ast.AST, mine: set[str], shared: set[str]) -> tuple[str, str] | None:
    """Return the rule that the node `n` breaks and a description, or None.

    `mine` are the local names of the function; `shared` are the names it declares global or nonlocal.
    """
    if isinstance(n, ast.AugAssign | ast.Assign):
        targets = n.targets if isinstance(n, ast.Assign) else [n.target]
        for t in targets:
            if isinstance(t, ast.Name) and t.id in shared:
                return "side effect", f"changes {t.id}"
    if not isinstance(n, ast.Call):
        return None
    name = _dotted_name(n.func)
    if name == "print":
        return "print text", "print(...)"
    owner, _, last = name.rpartition(".")
    # Tracing runs the body once, so an outer list would grow by one element in the whole run.
    if last in LIST_GROWING_METHODS and owner and owner not in mine and "." not in owner:
        return "side effect", f"{name}(...)"
    if owner in NONDETERMINISTIC_FUNCTIONS and (
        not NONDETERMINISTIC_FUNCTIONS[owner] or last in NONDETERMINISTIC_FUNCTIONS[owner]
    ):
        return "side effect", f"{name}(...)"
    return None


def _dotted_name(n: ast.AST) -> str:
    """Return an expression of names and attributes as text, such as "np.random.rand"; "" for any other expression."""
    if isinstance(n, ast.Name):
        return n.id
    if isinstance(n, ast.Attribute):
        inner = _dotted_name(n.value)
        return f"{inner}.{n.attr}" if inner else ""
    return ""


def check_closure_sources(findings: Findings, path: str) -> None:
    """Add a finding for each call in a step closure of the file `path` that returns weights, such as `state_dict()`.

    Lines with a refusal, which the check has found in a call of the closure, are left out. Does nothing for a file with
    a syntax error, and for scripts of release 1.8, which save weights in step closures.
    """
    with open(path, encoding="utf-8") as f:
        try:
            tree = ast.parse(f.read(), path)
        except SyntaxError:  # running the script has reported it already
            return
    # Scripts of release 1.8 save weights in step closures.
    if any(isinstance(n, ast.Attribute) and n.attr == "compile_step" for n in ast.walk(tree)):
        return
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(
            _dotted_name(d).endswith("step_closure") for d in function.decorator_list
        ):
            for n, what in _find_weight_calls(function):
                if not any(f.rule.severity == "refused" for f in findings.at(Where(path, n.lineno))):
                    findings.add("weights in closure", Where(path, n.lineno), what)


def _find_weight_calls(function: ast.FunctionDef) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls in `function` of a method in WEIGHT_METHODS, each with its text."""
    for n in ast.walk(function):
        if isinstance(n, ast.Call):
            name = _dotted_name(n.func)
            if name.rpartition(".")[2] in WEIGHT_METHODS and "." in name:
                yield n, f"{name}()"
