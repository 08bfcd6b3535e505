"""Print rewrite rules as patterns of MLIR's dialect `pdl`.

PDL describes a rule completely if its conditions are equal attributes and types, and if its result is an operand. The
other rules have Python functions, which their patterns call by name. `rule_natives` returns these functions.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lazytensor.cirh.generic import ATEN_DIALECT, attribute_text, string_text
from lazytensor.compiler.pdl_rewrite import Natives
from lazytensor.ir.graph import Node
from lazytensor.ir.pattern import Bindings, KeepOperand, Pat, Rule, SplatValue


def print_rules(rules: Iterable[Rule], dialect: str = ATEN_DIALECT) -> str:
    """Return a module with a pattern for each rule; earlier rules have a higher benefit.

    A rule for a constant of one value has a pattern for floating-point numbers and one for integers. A comment before a
    pattern that calls Python functions has their names and their descriptions. `dialect` is the prefix of operations.
    """
    patterns = [(rule, kind) for rule in rules for kind in (_number_kinds(rule.pattern) or (float,))]
    lines = ["module {"]
    for k, (rule, kind) in enumerate(patterns):
        lines += _Printer(rule, kind, dialect).lines(len(patterns) - k)
    return "\n".join([*lines, "}", ""])


def rule_natives(rules: Iterable[Rule]) -> Natives:
    """Return the Python functions that the patterns of `print_rules` call."""
    rules = tuple(rules)
    parts = [p for rule in rules for p in _parts(rule.pattern)]
    conditions = {_function_name(p.when): p.when for p in parts if p.when is not None and _is_python(p)}
    return Natives(conditions, {rule.name: functools.partial(_apply, rule) for rule in rules if not _is_kept(rule)})


def native_reasons(rule: Rule) -> list[str]:
    """Return why PDL cannot describe a rule: one sentence for each Python function. Empty if PDL can."""
    reasons = [f"condition in Python: {_describe(p.when)}" for p in _parts(rule.pattern) if _is_python(p)]
    return reasons if _is_kept(rule) else [*reasons, f"result computed in Python: {_describe(rule.build)}"]


def _apply(rule: Rule, root: Node, *_: Any) -> Node | None:
    """Return what a rule builds for `root`, or None if the rule leaves it unchanged."""
    bindings: Bindings = {}
    return rule.build(bindings, root) if rule.pattern.match(root, bindings) else None


def _parts(p: Pat) -> Iterator[Pat]:
    yield p
    for i in p.inputs:
        yield from _parts(i)


def _is_python(p: Pat) -> bool:
    return p.when is not None and not isinstance(p.when, SplatValue)


def _is_kept(rule: Rule) -> bool:
    return isinstance(rule.build, KeepOperand)


def _number_kinds(p: Pat) -> tuple[type, ...]:
    return (float, int) if any(isinstance(part.when, SplatValue) for part in _parts(p)) else ()


def _function(function: Any) -> Any:
    return function.func if isinstance(function, functools.partial) else function


def _function_name(function: Any) -> str:
    function = _function(function)
    return str(getattr(function, "__name__", type(function).__name__)).removeprefix("_")


def _describe(function: Callable[..., Any] | None) -> str:
    summary = (_function(function).__doc__ or "").strip().partition("\n\n")[0]
    return f"{_function_name(function)}: {' '.join(summary.split())}"


def _symbol(name: str) -> str:
    """Return the name of a rule as a symbol: "x * 1 = x" is x_times_1_is_x."""
    for mark, word in (("*", "times"), ("/", "over"), ("-", "minus"), ("=", "is")):
        name = name.replace(mark, f" {word} ")
    symbol = "_".join(re.findall(r"\w+", name))
    # A symbol of MLIR does not begin with a digit.
    return f"rule_{symbol}" if symbol[0].isdigit() else symbol


@dataclass
class _Printer:
    """The text of one pattern while it is printed.

    - `rule`: the rule, and `kind`: the class of its numbers.
    - `types`: the number of types so far; `operations` likewise.
    - `values`: the handles of named nodes, with their kinds.
    - `kept_type`: the handle of the type of the root, which the kept operand shares.
    """

    rule: Rule
    kind: type
    dialect: str
    body: list[str] = field(default_factory=list)
    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    operations: int = 0
    types: int = 0

    def lines(self, benefit: int) -> list[str]:
        """Return the lines of the pattern, after comments about its Python functions."""
        is_second = self.kind is int and len(_number_kinds(self.rule.pattern)) == 2
        name = _symbol(self.rule.name) + ("_integers" if is_second else "")
        kept = self.rule.build.name if isinstance(self.rule.build, KeepOperand) else ""
        kept_type = self.type() if kept else ""
        root = self.operation(self.rule.pattern, kept, kept_type, kept_type)
        arguments = self.values.values()
        if kept:
            rewrite = [
                f"    pdl.rewrite {root} {{",
                f"      pdl.replace {root} with ({self.values[kept][0]} : !pdl.value)",
                "    }",
            ]
        else:
            given = (
                f"({', '.join(v for v, _ in arguments)} : {', '.join(t for _, t in arguments)})" if arguments else ""
            )
            rewrite = [f"    pdl.rewrite {root} with {string_text(self.rule.name)}{given}"]
        comments = [f"  // {text}" for text in (self.rule.name, *native_reasons(self.rule))]
        return [*comments, f"  pdl.pattern @{name} : benefit({benefit}) {{", *self.body, *rewrite, "  }"]

    def type(self) -> str:
        """Print a type without restriction, and return its handle."""
        handle, self.types = f"%type{self.types}", self.types + 1
        self.body.append(f"    {handle} = pdl.type")
        return handle

    def operand(self, p: Pat, kept: str, kept_type: str) -> tuple[str, str]:
        """Print what an operand matches, and return the handle of the value."""
        if not p.op:
            if p.name not in self.values:
                suffix = f" : {kept_type}" if p.name == kept else ""
                self.body.append(f"    %{p.name} = pdl.operand{suffix}")
                self.values[p.name] = f"%{p.name}", "!pdl.value"
            return self.values[p.name]
        operation = self.operation(p, kept, kept_type, "")
        value = f"{operation}_result"
        self.body.append(f"    {value} = pdl.result 0 of {operation}")
        return value, "!pdl.value"

    def operation(self, p: Pat, kept: str, kept_type: str, type: str) -> str:
        """Print an operation with its operands and conditions, and return its handle. `type` is that of its result."""
        operands = [self.operand(i, kept, kept_type) for i in p.inputs]
        type = type or self.type()
        handle, self.operations = f"%op{self.operations}", self.operations + 1
        given = f"({', '.join(v for v, _ in operands)} : {', '.join(t for _, t in operands)})" if operands else ""
        attrs = ""
        if isinstance(p.when, SplatValue):
            self.body.append(f"    {handle}_value = pdl.attribute = {attribute_text(self.kind(p.when.value))}")
            attrs = f' {{"value" = {handle}_value}}'
        name = string_text(f"{self.dialect}.{p.op}")
        self.body.append(f"    {handle} = pdl.operation {name}{given}{attrs} -> ({type} : !pdl.type)")
        if _is_python(p):
            condition = string_text(_function_name(p.when))
            self.body.append(f"    pdl.apply_native_constraint {condition}({handle} : !pdl.operation)")
        return handle
