"""Patterns over nodes, rules that rewrite what they match, and the driver that applies a set of rules.

A rule states an identity that holds in IEEE arithmetic: `x * 0` is not 0 for NaN, and `x + 0` is not x for -0.0.
"""

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
    """A shape of nodes: `op` with inputs that match in turn; without an op it matches anything and binds `name`.

    `when(node)` is a further condition on the node itself.
    """

    op: str = ""
    inputs: tuple["Pat", ...] = ()
    name: str = ""
    when: Callable[[Node], bool] | None = field(default=None, compare=False)

    def combine(self, name: str, *operands: "Pat | float") -> "Pat":
        """The pattern of an operation on what `operands` match; a number matches that constant."""
        return pat(name, *(o if isinstance(o, Pat) else splat_pattern(o) for o in operands))

    def match(self, n: Node, bindings: Bindings) -> bool:
        """Whether n fits; adds what names bind to `bindings`. A name that stands twice must bind the same node."""
        if self.op and (n.op != self.op or len(n.inputs) != len(self.inputs)):
            return False
        if self.when is not None and not self.when(n):
            return False
        if self.name:
            if bindings.get(self.name, n) is not n:
                return False
            bindings[self.name] = n
        return all(p.match(i, bindings) for p, i in zip(self.inputs, n.inputs, strict=True)) if self.op else True


def any_(name: str) -> Pat:
    """Matches every node and binds it."""
    return Pat(name=name)


def pat(op: str, *inputs: Pat, name: str = "", when: Callable[[Node], bool] | None = None) -> Pat:
    """Matches one operation."""
    return Pat(op, inputs, name, when)


def splat_pattern(value: float) -> Pat:
    """Matches a constant that has one value everywhere."""
    return Pat("full", (), when=lambda n: n.attrs["value"] == value and not isinstance(n.attrs["value"], bool))


LocationScope = Callable[[Where | None], AbstractContextManager[None]]
"""Fixes the place of what is made while it is entered."""


def _any_location(place: Where | None) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Rule:
    """What `pattern` matches becomes `build(bindings, node)`, a node of the same type, or None to leave it."""

    name: str
    pattern: Pat
    build: Callable[[Bindings, Node], Node | None]


class RuleSet:
    """Rules in order of benefit, indexed by the operation at their root."""

    def __init__(self, name: str, rules: Iterable[Rule]):
        self.name = name
        self.rules = tuple(rules)
        self._by_op: dict[str, list[Rule]] = {}
        for rule in self.rules:
            self._by_op.setdefault(rule.pattern.op, []).append(rule)

    def _step(self, n: Node, place: Where | None, at: LocationScope) -> tuple[Node, Rule] | None:
        """The first rule that applies to n, with its result."""
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
        """The graph with rules applied bottom-up until none applies; `trace(rule, before, after)` sees each.

        `at(place)` is entered while a rule rewrites an operation of that place: with `source.at`, what it makes belongs
        there, and else to the line that asks for the graph.
        """

        def change(old: Node, inputs: tuple[Node, ...]) -> Node:
            # The inputs are in their last form; only the node itself can still change. Each result is tried again from
            # the first rule.
            n = replace_inputs(old, inputs)
            while (match := self._step(n, old.where, at)) is not None:
                out, rule = match
                if trace is not None:
                    trace(rule, n, out)
                n = out
            return n

        mapping = rebuild(graph.roots(), change)
        return graph.replace_roots(lambda root: mapping[root])
