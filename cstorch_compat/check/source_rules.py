"""Reads what tracing cannot see in the text of a script: side effects of the traced body, and bodies of closures."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator

from cstorch_compat.check.findings import Findings
from lazytensor.ir.types import Where

WEIGHT_METHODS = frozenset("state_dict parameters named_parameters get_parameter".split())
NONDETERMINISTIC_FUNCTIONS = {
    "time": ("time", "perf_counter", "monotonic"),
    "random": (),
    "np.random": (),
    "numpy.random": (),
}
LIST_GROWING_METHODS = frozenset("append extend appendleft".split())


def check_step_source(findings: Findings, step: Callable[..., object]) -> None:
    """Note the side effects in the body of a traced function."""
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
    inner = inspect.unwrap(function)
    try:
        # The text has to be there: not so in an interactive session, where tracing alone must do.
        lines, first = inspect.getsourcelines(inner)
        return ast.parse(textwrap.dedent("".join(lines))), inspect.getsourcefile(inner) or "", first
    except (OSError, TypeError, SyntaxError):
        return None, "", 0


def _local_names(tree: ast.AST) -> set[str]:
    # Names that the body binds are made anew in each call; changing them is no side effect.
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {a.arg for n in ast.walk(tree) if isinstance(n, ast.arguments) for a in n.args}


def _find_side_effect(n: ast.AST, mine: set[str], shared: set[str]) -> tuple[str, str] | None:
    """The rule that a node of the body breaks, and what it does."""
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
    # A list of the script that the body adds to would grow by one element in all, at tracing.
    if last in LIST_GROWING_METHODS and owner and owner not in mine and "." not in owner:
        return "side effect", f"{name}(...)"
    if owner in NONDETERMINISTIC_FUNCTIONS and (
        not NONDETERMINISTIC_FUNCTIONS[owner] or last in NONDETERMINISTIC_FUNCTIONS[owner]
    ):
        return "side effect", f"{name}(...)"
    return None


def _dotted_name(n: ast.AST) -> str:
    if isinstance(n, ast.Name):
        return n.id
    if isinstance(n, ast.Attribute):
        inner = _dotted_name(n.value)
        return f"{inner}.{n.attr}" if inner else ""
    return ""


def check_closure_sources(findings: Findings, path: str) -> None:
    """Note step closures that fetch weights, wherever they stand in a script."""
    with open(path, encoding="utf-8") as f:
        try:
            tree = ast.parse(f.read(), path)
        except SyntaxError:  # the script has crashed by it already
            return
    # Another API, with other habits:
    if any(isinstance(n, ast.Attribute) and n.attr == "compile_step" for n in ast.walk(tree)):
        return  # release 1.8 saves in step closures
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and any(
            _dotted_name(d).endswith("step_closure") for d in function.decorator_list
        ):
            for n, what in _find_weight_calls(function):
                findings.add("weights in closure", Where(path, n.lineno), what)


def _find_weight_calls(function: ast.FunctionDef) -> Iterator[tuple[ast.Call, str]]:
    for n in ast.walk(function):
        if isinstance(n, ast.Call):
            name = _dotted_name(n.func)
            if name.rpartition(".")[2] in WEIGHT_METHODS and "." in name:
                yield n, f"{name}()"


def examine_learning_rates(
    findings: Findings, place: Where, before: list[tuple[str, float]], after: list[tuple[str, float]]
) -> None:
    """Note learning rates that are Python numbers and were changed by the loop, at the line that changes them."""
    # One rate is enough: all of them are changed by the same line as a rule.
    name, old, new = next((n, a, b) for (n, a), (_, b) in zip(before, after, strict=False) if a != b)
    with open(place.file, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    lines = (n.lineno for n in ast.walk(tree) if isinstance(n, ast.stmt | ast.Call) and _is_learning_rate_change(n))
    line = next((at for at in lines if at >= place.line), place.line)
    findings.add(
        "python learning rate",
        Where(place.file, line),
        name,
        f"lr was {old} in the first step and is {new} in the second",
    )


def _is_learning_rate_change(n: ast.AST) -> bool:
    """Whether a statement assigns to ...["lr"], or makes a step of something called a scheduler."""
    if isinstance(n, ast.Assign | ast.AugAssign):
        targets = n.targets if isinstance(n, ast.Assign) else [n.target]
        return any(
            isinstance(t, ast.Subscript) and isinstance(t.slice, ast.Constant) and t.slice.value == "lr"
            for t in targets
        )
    return isinstance(n, ast.Call) and _dotted_name(n.func).endswith(".step") and "sched" in _dotted_name(n.func)
