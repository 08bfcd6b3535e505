"""Run patterns of MLIR's dialect `pdl` on a graph.

A pattern matches a node and, through operands, the nodes below it. Nodes without elements of the pattern are not
restricted: a node may have more attributes than the pattern names. `pdl_parser` reads and checks patterns.
"""

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from lazytensor.cirh.generic import LEAF_OPS
from lazytensor.cirh.generic_parser import ParsedOperation, parsed_node
from lazytensor.cirh.pdl_parser import Pattern, PdlOperation
from lazytensor.core import source
from lazytensor.errors import CompileError, LazyError
from lazytensor.ir.graph import Graph, Node, node, rebuild, replace_inputs
from lazytensor.ir.operation import OPS
from lazytensor.ir.types import Type

MIN_REWRITE_LIMIT = 10_000
"""The number of rewrites that is allowed for a small graph. A loop of one pattern reaches it in less than a second."""
REWRITES_PER_NODE = 100
"""The number of rewrites that is allowed for each node of a larger graph."""
MAX_VISITS = 500
"""The number of visits of all nodes. A pattern whose result has a match below its root grows the graph by one match in
each visit, and would reach the limit of rewrites only after minutes."""


@dataclass(frozen=True)
class Natives:
    """Python functions that a pattern calls by name.

    - `constraints`: return whether a match is accepted.
    - `rewrites`: return the new value: a node, a type or an attribute. As the rewriter of a whole pattern they get the
      root first, and may return None, which leaves the root unchanged.

    An operation or value is passed as a node, a type as a `Type`, an attribute as its Python value, a range as a tuple.
    """

    constraints: Mapping[str, Callable[..., bool]] = field(default_factory=dict)
    rewrites: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the constraints and of the rewrites, as `read_patterns` takes them."""
        return tuple(self.constraints), tuple(self.rewrites)


NO_NATIVES = Natives()
Handles = dict[str, Any]
"""What each handle of a pattern is bound to."""


def rewrite_with_patterns(
    graph: Graph, patterns: Iterable[Pattern], natives: Natives = NO_NATIVES
) -> tuple[Graph, collections.Counter[str]]:
    """Return the graph after applying patterns until none applies, and the number of applications of each pattern.

    Nodes are visited operands first. At each node, patterns are tried by benefit, and then in their order; the result
    of an application is tried again. Visits are repeated until a visit of all nodes changes nothing.

    Raise CompileError if a pattern changes the type of a value, creates an operation that the op table refuses, or
    erases an operation that is used. Raise it too after more applications than MIN_REWRITE_LIMIT or REWRITES_PER_NODE
    allow, and after MAX_VISITS visits.
    """
    ordered = sorted(patterns, key=lambda p: -p.benefit)
    rewriter = _Rewriter(ordered, natives, max(MIN_REWRITE_LIMIT, REWRITES_PER_NODE * len(graph.nodes())))
    for _ in range(MAX_VISITS):
        mapping = rebuild(graph.roots(), rewriter.change)
        again = graph.replace_roots(mapping.__getitem__)
        rewriter.check_erased(again)
        if again.roots() == graph.roots():
            return again, rewriter.counts
        graph = again
    return rewriter.refuse_loop(f"{MAX_VISITS} visits of all nodes")


class _Rewriter:
    """Patterns in the order in which they are tried, and the number of applications so far."""

    def __init__(self, patterns: Sequence[Pattern], natives: Natives, limit: int):
        self.patterns, self.natives, self.limit = patterns, natives, limit
        self.counts: collections.Counter[str] = collections.Counter()
        self.erased: dict[Node, Pattern] = {}

    def change(self, old: Node, inputs: tuple[Node, ...]) -> Node:
        """Return the node that replaces `old`, with the operands `inputs`."""
        n = replace_inputs(old, inputs)
        while (result := self.step(n)) is not None:
            n = result
        return n

    def step(self, n: Node) -> Node | None:
        """Return the result of the first pattern that changes `n`, or None."""
        # Results of an operation with several are replaced one by one, where they are used.
        root = n.inputs[0] if n.op == "result" else n
        if root.op in LEAF_OPS or isinstance(n.type, tuple):
            return None
        for pattern in self.patterns:
            if pattern.root_op not in ("", root.op):
                continue
            handles: Handles = {}
            if not self.matches(pattern, root, handles):
                continue
            with source.fixed_location(root.where):
                values = _Rewrite(pattern, handles, self.natives).run(self.erased)
            if values is None:
                continue
            index = n.attrs["index"] if n.op == "result" else 0
            new = self.check_values(pattern, root, values)[index]
            if new is not n:
                self.count(pattern)
                return new
        return None

    def matches(self, pattern: Pattern, root: Node, handles: Handles) -> bool:
        """Return whether the pattern matches at `root`, and bind its handles."""
        match = _Match(pattern, handles)
        if not match.operation(pattern.root, root):
            return False
        for constraint in pattern.constraints:
            arguments = [match.value_of(h) for h in constraint.groups[0]]
            if not self.natives.constraints[constraint.attrs["name"]](*arguments):
                return False
        return True

    def check_values(self, pattern: Pattern, root: Node, values: Sequence[Node]) -> Sequence[Node]:
        """Return the values that replace the results of `root`. Raise CompileError if a number or type differs."""
        types = root.type if isinstance(root.type, tuple) else (root.type,)
        if [v.type for v in values] != list(types):
            new = ", ".join(str(v.type) for v in values) or "nothing"
            raise CompileError(
                f"pattern {pattern.name} ({pattern.at}) replaces {', '.join(map(str, types))} by {new}",
                where=root.where,
                hint="Give the operand and the result one pdl.type, or create an operation with the type of the root.",
            )
        return values

    def count(self, pattern: Pattern) -> None:
        """Count an application. Raise CompileError if there are more than the limit."""
        self.counts[pattern.name] += 1
        if self.counts.total() > self.limit:
            self.refuse_loop(f"{self.limit:,} rewrites")

    def refuse_loop(self, limit: str) -> NoReturn:
        """Raise CompileError with the patterns that were applied most often. `limit` is what was exceeded."""
        shown = ", ".join(f"{name} ({times:,} times)" for name, times in self.counts.most_common(3))
        raise CompileError(
            f"the patterns do not end after {limit}; most frequent: {shown}",
            hint="Let a pattern match only what its result does not contain.",
        )

    def check_erased(self, graph: Graph) -> None:
        """Raise CompileError if an operation that a pattern erased is still used."""
        if not self.erased:
            return
        for n in graph.nodes():
            if n in self.erased:
                raise CompileError(
                    f"pattern {self.erased[n].name} ({self.erased[n].at}) erases {n.op}, which is still used",
                    where=n.where,
                    hint="Remove pdl.erase: operations without users disappear.",
                )
        self.erased.clear()


def attribute_of(n: Node, name: str) -> Any:
    """Return an attribute of a node as MLIR's text has it. Raise KeyError if the node does not have it.

    The only attribute of a constant is `value`, an array.
    """
    if n.op not in ("const", "leaf"):
        return n.attrs[name]
    if name != "value":
        raise KeyError(name)
    return n.value if n.value is not None else np.frombuffer(n.attrs["data"], n.type.dtype.host).reshape(n.type.shape)


def is_same_attribute(a: Any, b: Any) -> bool:
    """Return whether two attributes are equal, of the same class and with the same bits: 1 is not 1.0, 0.0 not -0.0."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        )
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(is_same_attribute, a, b))
    if a.__class__ is not b.__class__:
        return False
    return bool(a.hex() == b.hex() if isinstance(a, float) else a == b)


def results_of(n: Node) -> tuple[Node, ...]:
    """Return the values that an operation defines: the node, or the nodes of its results if it has several."""
    if not isinstance(n.type, tuple):
        return (n,)
    return tuple(node("result", (n,), {"index": k}, t) for k, t in enumerate(n.type))


class _Match:
    """The match of one pattern: its handles, and what they are bound to."""

    def __init__(self, pattern: Pattern, handles: Handles):
        self.pattern, self.handles = pattern, handles

    def bind(self, handle: str, value: Any) -> bool:
        """Bind a handle. Return whether it was unbound, or bound to the same value."""
        if handle not in self.handles:
            self.handles[handle] = value
            return True
        bound = self.handles[handle]
        return bound is value or (not isinstance(value, Node) and is_same_attribute(bound, value))

    def value_of(self, handle: str) -> Any:
        """Return what a handle is bound to. A constant and a result of a matched operation need no binding."""
        if handle in self.handles:
            return self.handles[handle]
        op = self.pattern.handles[handle]
        if op.name in ("result", "results"):
            return _results(op, self.value_of(op.groups[0][0]), self.pattern)
        return _constant(op)

    def operation(self, handle: str, n: Node) -> bool:
        """Return whether `n` matches a `pdl.operation`."""
        op = self.pattern.handles[handle]
        if n.op in LEAF_OPS or op.attrs.get("op", n.op) != n.op or not self.bind(handle, n):
            return False
        operands, values, types = op.groups
        for name, value in zip(op.attrs.get("attributeValueNames", ()), values, strict=True):
            try:
                given = attribute_of(n, name)
            except KeyError:
                return False
            if not self.attribute(value, given):
                return False
        given_types = n.type if isinstance(n.type, tuple) else (n.type,)
        return self.each(operands, n.inputs, self.operand) and self.each(types, given_types, self.type)

    def each(self, handles: tuple[str, ...], given: tuple[Any, ...], matches: Callable[[str, Any], bool]) -> bool:
        """Return whether handles match `given` in order. One handle may be a range, which matches what is left."""
        ranges = [k for k, h in enumerate(handles) if self.pattern.handles[h].kind.startswith("range")]
        if not ranges:
            return len(handles) == len(given) and all(map(matches, handles, given))
        first, after = ranges[0], len(handles) - ranges[0] - 1
        if len(given) < len(handles) - 1:
            return False
        middle = given[first : len(given) - after]
        return (
            all(map(matches, handles[:first], given[:first]))
            and matches(handles[first], middle)
            and all(map(matches, handles[first + 1 :], given[len(given) - after :]))
        )

    def operand(self, handle: str, value: Any) -> bool:
        """Return whether a value, or a tuple of values, matches an operand or a result."""
        op = self.pattern.handles[handle]
        if op.name in ("operand", "operands"):
            types = value.type if isinstance(value, Node) else tuple(v.type for v in value)
            return self.bind(handle, value) and all(self.type(t, types) for t in op.groups[0])
        if op.name == "results":
            parents = {v.inputs[0] if v.op == "result" else v for v in value}
            return (
                len(parents) == 1
                and results_of(parent := parents.pop()) == value
                and self.operation(op.groups[0][0], parent)
                and self.bind(handle, value)
            )
        parent, index = (value.inputs[0], value.attrs["index"]) if value.op == "result" else (value, 0)
        return index == op.attrs["index"] and self.operation(op.groups[0][0], parent) and self.bind(handle, value)

    def type(self, handle: str, given: Any) -> bool:
        """Return whether a type, or a tuple of types, matches a `pdl.type` or `pdl.types`."""
        constant = _constant(self.pattern.handles[handle])
        return (constant is None or is_same_attribute(constant, given)) and self.bind(handle, given)

    def attribute(self, handle: str, given: Any) -> bool:
        """Return whether an attribute matches a `pdl.attribute`."""
        op = self.pattern.handles[handle]
        if "value" in op.attrs and not is_same_attribute(op.attrs["value"], given):
            return False
        return self.bind(handle, given)


def _constant(op: PdlOperation) -> Any:
    """Return the constant of a `pdl.attribute`, `pdl.type` or `pdl.types`, or None if it has none."""
    for name in ("value", "constantType", "constantTypes"):
        if name in op.attrs:
            return op.attrs[name]
    return None


def _results(op: PdlOperation, parent: Node, pattern: Pattern) -> Any:
    results = results_of(parent)
    if op.name == "results":
        return results
    index = op.attrs["index"]
    if index >= len(results):
        raise CompileError(
            f"{op.at}: {parent.op} has {len(results)} results, but pattern {pattern.name} reads number {index}",
            hint="Results are counted from 0.",
        )
    return results[index]


class _Rewrite:
    """The rewrite of one match."""

    def __init__(self, pattern: Pattern, handles: Handles, natives: Natives):
        self.pattern, self.natives = pattern, natives
        self.match = _Match(pattern, handles)

    def run(self, erased: dict[Node, Pattern]) -> Sequence[Node] | None:
        """Return the values that replace the results of the root, or None if a native rewriter refuses.

        Erased operations are added to `erased`.
        """
        rewrite, root = self.pattern.rewrite, self.match.handles[self.pattern.root]
        if "name" in rewrite.attrs:
            arguments = [self.match.value_of(h) for h in rewrite.groups[1]]
            new = self.natives.rewrites[rewrite.attrs["name"]](root, *arguments)
            return None if new is None else results_of(new)
        values: Sequence[Node] = ()
        for op in rewrite.body:
            if op.name == "replace":
                values = results_of(self.match.value_of(op.groups[1][0])) if op.groups[1] else self.flat(op.groups[2])
            elif op.name == "erase":
                erased[self.match.value_of(op.groups[0][0])] = self.pattern
            else:
                self.match.handles[op.result] = self.value(op)
        return values

    def flat(self, handles: Iterable[str]) -> tuple[Any, ...]:
        """Return what handles are bound to, with the elements of ranges."""
        found: list[Any] = []
        for handle in handles:
            value = self.match.value_of(handle)
            found += value if self.pattern.handles[handle].kind.startswith("range") else [value]
        return tuple(found)

    def value(self, op: PdlOperation) -> Any:
        """Return the value of an operation of the rewrite."""
        if op.name == "operation":
            return self.create(op)
        if op.name == "range":
            return self.flat(op.groups[0])
        if op.name in ("result", "results"):
            return _results(op, self.match.value_of(op.groups[0][0]), self.pattern)
        if op.name == "apply_native_rewrite":
            return self.natives.rewrites[op.attrs["name"]](*(self.match.value_of(h) for h in op.groups[0]))
        return _constant(op)

    def create(self, op: PdlOperation) -> Node:
        """Return the new node of a `pdl.operation`. Without types, the types are inferred.

        Raise CompileError if the op table refuses the operation, or infers other types.
        """
        operands, types = self.flat(op.groups[0]), list(self.flat(op.groups[2]))
        attrs = {
            name: self.match.value_of(value)
            for name, value in zip(op.attrs.get("attributeValueNames", ()), op.groups[1], strict=True)
        }
        name = op.attrs["op"]
        try:
            types = types or _infer(name, operands, attrs)
            parsed = ParsedOperation(op.attrs["opName"], [""] * len(types), [], types, attrs, place=str(op.at))
            new = parsed_node(parsed, name, operands)
        except LazyError as e:
            self.refuse(op, e.what.removeprefix(f"line {op.at.line}: "))
        except (TypeError, ValueError, IndexError, KeyError, AttributeError) as e:
            self.refuse(op, f"{op.attrs['opName']}: {e}")
        new.where = new.where or source.where()
        return new

    def refuse(self, op: PdlOperation, what: str) -> NoReturn:
        raise CompileError(
            f"pattern {self.pattern.name}, {op.at}: {what}",
            hint="Correct the operands, attributes or types of the new operation.",
        ) from None


def _infer(name: str, operands: tuple[Node, ...], attrs: dict[str, Any]) -> list[Type]:
    if name in ("const", "leaf"):
        raise CompileError("a constant needs a result type", hint="Write -> (%type : !pdl.type).")
    inferred = OPS[name].infer(*(i.type for i in operands), **attrs)
    return list(inferred) if isinstance(inferred, tuple) else [inferred]
