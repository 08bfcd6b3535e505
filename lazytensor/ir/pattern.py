"""Patterns over nodes, rewrite rules, and a driver that applies a set of rules to a graph.

Rules must preserve IEEE arithmetic: `x * 0` is not 0 if x is NaN, and `x + 0` is not x if x is -0.0.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from lazytensor.ir.algebra import Algebra
from lazytensor.ir.graph import Graph, Node, rebuild, replace_inputs
from lazytensor.ir.types import Where

Bindings = dict[str, Node]


@dataclass(frozen=True)
class Pat(Algebra):
    """A pattern that matches nodes with operation `op` whose operands match `inputs`.

    Without `op` it matches any node. If `name` is set, the matched node is bound to it. `when(node)` is an additional
    condition.
    """

    op: str = ""
    inputs: tuple["Pat", ...] = ()
    name: str = ""
    when: Callable[[Node], bool] | None = field(default=None, compare=False)

    def combine(self, name: str, *operands: "Pat | float") -> "Pat":
        """Return the pattern of an operation whose operands match `operands`; a number matches that constant."""
        return pat(name, *(o if isinstance(o, Pat) else splat_pattern(o) for o in operands))

    def match(self, n: Node, bindings: Bindings) -> bool:
        """Return whether `n` matches, and add the bound nodes to `bindings`.

        With `op`, the numbers of operands must be equal and operands must match in order. A name that occurs twice must
        bind the same node. `bindings` may be changed even if there is no match.
        """
        inputs = n.inputs
        if self.op and (n.op != self.op or len(inputs) != len(self.inputs)):
            return False
        if self.when is not None and not self.when(n):
            return False
        if self.name:
            if bindings.get(self.name, n) is not n:
                return False
            bindings[self.name] = n
        return not self.inputs or all(p.match(i, bindings) for p, i in zip(self.inputs, inputs, strict=True))


def any_(name: str) -> Pat:
    """Return a pattern that matches every node and binds it to `name`."""
    return Pat(name=name)


def pat(op: str, *inputs: Pat, name: str = "", when: Callable[[Node], bool] | None = None) -> Pat:
    """Return a pattern that matches the operation `op` with operands that match `inputs`."""
    return Pat(op, inputs, name, when)


@dataclass(frozen=True)
class SplatValue:
    """A condition on a constant of one value: the number is `value` with the same sign, and is not a boolean."""

    value: float

    def __call__(self, n: Node) -> bool:
        """Return whether the elements of `n` are the number."""
        number = n.attrs["value"]
        is_equal = number == self.value and not isinstance(number, bool)
        return is_equal and math.copysign(1, number) == math.copysign(1, self.value)


def splat_pattern(value: float) -> Pat:
    """Return a pattern that matches a constant all of whose elements are `value`. 0.0 does not match -0.0."""
    return Pat("full", (), when=SplatValue(value))


LocationScope = Callable[[Where | None], AbstractContextManager[None]]
"""A function that returns a context manager, in which new nodes have the given location."""


def _any_location(place: Where | None) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Rule:
    """A rewrite rule: a node that `pattern` matches is replaced by `build(bindings, node)`.

    `build` returns a node of the same type, or None to leave the node unchanged.
    """

    name: str
    pattern: Pat
    build: Callable[[Bindings, Node], Node | None]


@dataclass(frozen=True)
class KeepOperand:
    """The result of a rule that replaces a node by the node bound to `name`, if both have the same type."""

    name: str

    def __call__(self, bindings: Bindings, n: Node) -> Node | None:
        """Return the bound node, or None if its type differs from that of `n`."""
        x = bindings[self.name]
        return x if x.type == n.type else None


class RuleSet:
    """Rewrite rules in order of priority, indexed by the operation of the pattern."""

    def __init__(self, name: str, rules: Iterable[Rule]):
        self.name = name
        self.rules = tuple(rules)
        self._by_op: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self._by_op.setdefault(rule.pattern.op, []).append(rule)

    def _step(self, n: Node, place: Where | None, at: LocationScope) -> tuple[Node, Rule] | None:
        """Return the result of the first rule that changes `n`, and the rule; None if no rule applies.

        Only rules whose pattern names the operation of `n` are tried. `at(place)` is entered while a rule builds.
        """
        for rule in self._by_op.get(n.op, ()):
            bindings: Bindings = {}
            if rule.pattern.match(n, bindings):
                with at(place):
                    out = rule.build(bindings, n)
                if out is not None and out is not n:
                    return out, rule
        return None

    def rewrite(
        self, graph: Graph, trace: Callable[[Rule, Node, Node], Any] | None = None, *, at: LocationScope = _any_location
    ) -> Graph:
        """Return the graph after applying the rules to each node, operands first, until no rule applies.

        After each rewrite of a node, the rules are tried again from the first; new operands of the result are not
        visited. `trace(rule, before, after)` is called for each rewrite. `at(location)` is entered during each rewrite
        with the location of the rewritten node: with `source.fixed_location`, new nodes get that location. Raises
        CompileError if a rule changes the type of a node that is used.
        """

        def change(old: Node, inputs: tuple[Node, ...]) -> Node:
            # The operands are final; only the node can still change. Each result is tried again from the first rule.
            n = replace_inputs(old, inputs)
            while (match := self._step(n, old.where, at)) is not None:
                out, rule = match
                if trace is not None:
                    trace(rule, n, out)
                n = out
            return n

        mapping = rebuild(graph.roots(), change)
        return graph.replace_roots(lambda root: mapping[root])
