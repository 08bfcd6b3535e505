"""Parse rewrite patterns in MLIR's dialect `pdl`, in the custom and the generic assembly form.

The result is data: a `Pattern` holds the operations of one `pdl.pattern`. `compiler.pdl_rewrite` runs patterns.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, NoReturn

from lazytensor.cirh.generic import ATEN_DIALECT, LEAF_OPS
from lazytensor.cirh.generic_parser import TOKEN_PATTERN, GenericParser, unquote
from lazytensor.errors import CompileError
from lazytensor.ir.operation import OPS

PDL_TYPE = r"(?P<handle>!pdl\.(?:range<\s*\w+\s*>|\w+))"
GIVES = {
    "type": "type",
    "types": "range<type>",
    "attribute": "attribute",
    "operand": "value",
    "operands": "range<value>",
    "operation": "operation",
    "result": "value",
    "results": "range<value>",
    "apply_native_rewrite": "",
    "range": "",
}
"""The kind of handle that each operation of the dialect defines; "" if its text declares the kind."""
TAKES: dict[str, tuple[tuple[str, ...], ...]] = {
    "type": (),
    "types": (),
    "attribute": (("type",),),
    "operand": (("type",),),
    "operands": (("range<type>",),),
    "operation": (("value", "range<value>"), ("attribute",), ("type", "range<type>")),
    "result": (("operation",),),
    "results": (("operation",),),
    "rewrite": (("operation",), ()),
    "replace": (("operation",), ("operation",), ("value", "range<value>")),
    "erase": (("operation",),),
    "apply_native_constraint": ((),),
    "apply_native_rewrite": ((),),
    "range": (("type", "range<type>", "value", "range<value>"),),
}
"""The kinds of handles that each operand group of an operation accepts; () accepts all kinds."""
MATCH_ONLY = ("operand", "operands", "apply_native_constraint")
REWRITE_ONLY = ("replace", "erase", "apply_native_rewrite", "range")


@dataclass(frozen=True)
class Position:
    """A place in a text: line and column, from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass
class PdlOperation:
    """One operation of the dialect.

    - `name`: its name without "pdl.".
    - `at`: its place in the text.
    - `result`: the handle that it defines, or "".
    - `groups`: its operands in groups, as in `TAKES`.
    - `attrs`: its attributes under the names of the generic form.
    - `body`: the operations of its region.
    - `kind`: the kind of handle that it defines, or "".
    """

    name: str
    at: Position
    result: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    body: list["PdlOperation"] = field(default_factory=list)
    kind: str = ""


@dataclass(frozen=True)
class Pattern:
    """One checked `pdl.pattern`.

    - `name`: its symbol, or its position if it has none.
    - `benefit`: patterns of higher benefit are tried first.
    - `handles`: the operation that defines each handle.
    - `root`: the handle of the operation where a match begins.
    - `constraints`: its native constraints, in order.
    - `rewrite`: its `pdl.rewrite`.
    - `at`: its place in the text.
    """

    name: str
    benefit: int
    handles: dict[str, PdlOperation]
    root: str
    constraints: tuple[PdlOperation, ...]
    rewrite: PdlOperation
    at: Position

    @property
    def root_op(self) -> str:
        """Return the operation that the pattern replaces, without the dialect; "" if it replaces any operation."""
        return str(self.handles[self.root].attrs.get("op", ""))


def refuse_at(at: object, what: str, hint: str) -> NoReturn:
    """Raise CompileError for the place `at` of a text."""
    raise CompileError(f"{at}: {what}", hint=hint)


def suggest(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return a hint with the name of `names` that is most similar to `name`, or `otherwise` if none is similar."""
    near = get_close_matches(name, list(names), 1)
    return f"Did you mean {near[0]}?" if near else otherwise


def read_patterns(text: str, dialect: str = ATEN_DIALECT, natives: Sequence[Iterable[str]] = ((), ())) -> list[Pattern]:
    """Return the patterns of a text, in its order.

    - `dialect`: the prefix of the names of a graph's operations, "torch.aten" or "cirh".
    - `natives`: the names of the native constraints and of the native rewrites that a pattern may use.

    Raise CompileError with line and column for a syntax error, for a handle that is undefined or of the wrong kind, for
    an operation, attribute or native function that does not exist, and for a pattern that cannot be run on a graph.
    """
    parser = _PdlParser(text)
    patterns = [p for op in parser.all() for p in _find_patterns(op)]
    if not patterns:
        refuse_at(Position(1, 1), "the text has no pdl.pattern", "Write at least one pdl.pattern with a pdl.rewrite.")
    return [_PatternChecker(op, dialect, natives).pattern() for op in patterns]


def _find_patterns(op: PdlOperation) -> Iterator[PdlOperation]:
    if op.name == "pattern":
        yield op
    elif op.name == "builtin.module":
        for inner in op.body:
            yield from _find_patterns(inner)
    else:
        refuse_at(op.at, f"a pdl.pattern is expected, but found pdl.{op.name}", "Put the operation into a pdl.pattern.")


class _PdlParser(GenericParser):
    """A recursive-descent parser of the dialect."""

    tokens = re.compile(TOKEN_PATTERN.pattern.replace(r"\s*(?:", rf"\s*(?:{PDL_TYPE}|", 1), re.VERBOSE)

    def position(self) -> Position:
        """Return the place of the current token; at the end of the text, the place after the last character."""
        if not self.text[self.at :].strip() and not self.kind:
            start = len(self.text.rstrip())
        elif self.match is None:  # the characters at `self.at` are no token
            start = len(self.text) - len(self.text[self.at :].lstrip())
        else:
            start = self.match.start(self.kind)
        return Position(self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start))

    def raise_error(self, what: str) -> NoReturn:
        """Raise CompileError for the current token."""
        refuse_at(
            self.position(),
            what.replace("before ''", "at the end of the text"),
            "Write the pattern as in MLIR's reference of the dialect pdl.",
        )

    def all(self) -> list[PdlOperation]:
        """Parse the whole text."""
        operations = []
        while self.kind:
            operations.append(self.pdl_operation())
        return operations

    def body(self) -> list[PdlOperation]:
        """Parse a region of one block."""
        self.expect("{")
        if self.kind == "symbol":
            self.take()
            self.expect(":")
        operations = []
        while not self.takes("}"):
            operations.append(self.pdl_operation())
        return operations

    def pdl_operation(self) -> PdlOperation:
        """Parse one operation in either form."""
        at, result = self.position(), ""
        if self.kind == "value":
            result = self.value()[0]
            self.expect("=")
        op = PdlOperation("", self.position(), result)
        if self.kind == "string":
            self.generic(op)
        else:
            if self.kind != "word":
                self.raise_error(f"an operation of pdl is missing before {self.token!r}")
            op.name = self._name(self.token)
            self.take()
            self.custom(op)
        self.location()
        gives = GIVES.get(op.name)
        if result and gives is None:
            refuse_at(at, f"pdl.{op.name} has no result", f"Remove {result} =.")
        if gives is not None:
            op.kind = gives or op.kind
            if not op.kind:
                refuse_at(
                    at, f"the type of {result or 'the result'} is not declared", "End the line with : !pdl.value."
                )
        return op

    def _name(self, token: str) -> str:
        """Return the name of an operation without "pdl."; raise CompileError if it does not exist."""
        if token in ("module", "builtin.module"):
            return "builtin.module"
        # In a pattern, MLIR omits the name of the dialect.
        name = token.removeprefix("pdl.")
        names = ("pattern", *TAKES)
        if name not in names:
            hint = suggest(name, names, f"Use one of {', '.join(names)}.")
            refuse_at(self.position(), f"the operation {token!r} does not exist in pdl", hint)
        return name

    def generic(self, op: PdlOperation) -> None:
        """Parse the rest of an operation in the generic form."""
        op.name = self._name(unquote(self.token))
        self.take()
        self.expect("(")
        operands = [self.value()[0] for _ in self.items(")")]
        if self.takes("<"):
            op.attrs |= self.attributes()
            self.expect(">")
        if self.takes("("):
            for _ in self.items(")"):
                op.body += self.body()
        if self.kind == "mark" and self.token == "{":
            op.attrs |= self.attributes()
        self.expect(":")
        self.expect("(")
        for _ in self.items(")"):
            self.handle_type()
        self.expect("->")
        if not self.takes("("):
            op.kind = self.handle_type()
        else:
            op.kind = next(iter([self.handle_type() for _ in self.items(")")]), "")
        sizes = op.attrs.pop("operandSegmentSizes", None)
        count = len(TAKES.get(op.name, ()))
        if sizes is None:
            op.groups = (tuple(operands), *((),) * (count - 1)) if count else ()
        elif len(sizes) != count or sum(sizes) != len(operands):
            refuse_at(op.at, f"the segments {list(sizes)} do not fit {len(operands)} operands", "Correct the segments.")
        else:
            ends = [sum(sizes[: k + 1]) for k in range(count)]
            op.groups = tuple(tuple(operands[e - s : e]) for s, e in zip(sizes, ends, strict=True))
        op.attrs = {name.removesuffix("_"): value for name, value in op.attrs.items()}

    def attribute(self) -> Any:
        if not self.takes("array"):
            return super().attribute()
        self.expect("<")
        self.take("word")
        numbers = []
        if self.takes(":"):
            numbers = [self.number() for _ in self.items(">")]
        else:
            self.expect(">")
        return tuple(numbers)

    def handle_type(self) -> str:
        """Parse a type such as !pdl.value or !pdl.range<type>; return it without "!pdl."."""
        if self.kind != "handle":
            self.raise_error(f"a type such as !pdl.value is missing before {self.token!r}")
        return self.take().removeprefix("!pdl.").replace(" ", "")

    def typed_values(self) -> tuple[str, ...]:
        """Parse handles and their types in parentheses, such as (%0, %1 : !pdl.value, !pdl.value)."""
        self.expect("(")
        names: list[str] = []
        while self.kind == "value":
            names.append(self.value()[0])
            if not self.takes(","):
                break
        if names:
            self.expect(":")
            self.handle_type()
            for _ in names[1:]:
                self.expect(",")
                self.handle_type()
        self.expect(")")
        return tuple(names)

    def optional_value(self, mark: str) -> tuple[str, ...]:
        return (self.value()[0],) if self.takes(mark) else ()

    def text_in_quotes(self) -> str:
        return unquote(self.take("string"))

    def custom(self, op: PdlOperation) -> None:
        """Parse the rest of an operation in the custom form."""
        getattr(self, f"_custom_{op.name.replace('.', '_')}")(op)
        if self.kind == "word" and self.token == "attributes":
            self.take()
            self.attributes()

    def _symbol(self) -> str | None:
        """Parse a symbol such as @name or @"two words", if there is one."""
        if self.kind != "symbol":
            return None
        return self.take()[1:].strip('"')

    def _custom_builtin_module(self, op: PdlOperation) -> None:
        self._symbol()
        if self.takes("attributes"):
            self.attributes()
        op.body = self.body()

    def _custom_pattern(self, op: PdlOperation) -> None:
        op.attrs["sym_name"] = self._symbol()
        for mark in (":", "benefit", "("):
            self.expect(mark)
        op.attrs["benefit"] = self.number()
        self.expect(")")
        op.body = self.body()

    def _custom_type(self, op: PdlOperation) -> None:
        if self.takes(":"):
            op.attrs["constantType"] = self.attribute()

    def _custom_types(self, op: PdlOperation) -> None:
        if self.takes(":"):
            op.attrs["constantTypes"] = self.attribute()

    def _custom_attribute(self, op: PdlOperation) -> None:
        op.groups = (self.optional_value(":"),)
        if self.takes("="):
            op.attrs["value"] = self.attribute()

    def _custom_operand(self, op: PdlOperation) -> None:
        op.groups = (self.optional_value(":"),)

    _custom_operands = _custom_operand

    def _custom_operation(self, op: PdlOperation) -> None:
        if self.kind == "string":
            op.attrs["opName"] = self.text_in_quotes()
        operands = self.typed_values() if self.kind == "mark" and self.token == "(" else ()
        names, values = [], []
        if self.takes("{"):
            for _ in self.items("}"):
                names.append(self.text_in_quotes())
                self.expect("=")
                values.append(self.value()[0])
        op.attrs["attributeValueNames"] = tuple(names)
        op.groups = (operands, tuple(values), self.typed_values() if self.takes("->") else ())

    def _custom_result(self, op: PdlOperation) -> None:
        op.attrs["index"] = int(self.take("number"))
        self.expect("of")
        op.groups = ((self.value()[0],),)

    def _custom_results(self, op: PdlOperation) -> None:
        if self.kind == "number":
            self.raise_error("a part of the results is not supported")
        self.expect("of")
        op.groups = ((self.value()[0],),)

    def _custom_rewrite(self, op: PdlOperation) -> None:
        root = (self.value()[0],) if self.kind == "value" else ()
        arguments: tuple[str, ...] = ()
        if self.takes("with"):
            op.attrs["name"] = self.text_in_quotes()
            if self.kind == "mark" and self.token == "(":
                arguments = self.typed_values()
        elif not (self.kind == "mark" and self.token == "{"):
            self.expect("{")
        else:
            op.body = self.body()
        op.groups = (root, arguments)

    def _custom_replace(self, op: PdlOperation) -> None:
        old = self.value()[0]
        self.expect("with")
        if self.kind == "value":
            op.groups = ((old,), (self.value()[0],), ())
        else:
            op.groups = ((old,), (), self.typed_values())

    def _custom_erase(self, op: PdlOperation) -> None:
        op.groups = ((self.value()[0],),)

    def _custom_apply_native_constraint(self, op: PdlOperation) -> None:
        op.attrs["name"] = self.text_in_quotes()
        op.groups = (self.typed_values(),)
        if self.takes(":"):
            op.kind = self.handle_type()

    _custom_apply_native_rewrite = _custom_apply_native_constraint

    def _custom_range(self, op: PdlOperation) -> None:
        names = []
        while self.kind == "value":
            names.append(self.value()[0])
            if not self.takes(","):
                break
        self.expect(":")
        kinds = [self.handle_type() for _ in range(max(1, len(names)))]
        op.groups = (tuple(names),)
        op.kind = kinds[0] if kinds[0].startswith("range") else f"range<{kinds[0]}>"


@cache
def known_attributes(name: str) -> frozenset[str] | None:
    """Return the names that the attributes of an operation may have, or None if its row does not list them.

    They are the names of the parameters of the row's functions. A row does not list them if both its shape rule and its
    NumPy function accept any keyword.
    """
    if name in ("const", "leaf"):
        return frozenset({"value"})
    record = OPS[name]
    functions = [f for f in (record.infer, record.eval, record.composite, record.vjp) if f is not None]
    signatures = [inspect.signature(f).parameters.values() for f in functions]
    if all(any(p.kind is p.VAR_KEYWORD for p in parameters) for parameters in signatures[:2]):
        return None
    return frozenset(p.name for parameters in signatures for p in parameters if p.kind is not p.VAR_KEYWORD)


class _PatternChecker:
    """Checks the operations of one `pdl.pattern` against the rules of the dialect and against the op table."""

    def __init__(self, op: PdlOperation, dialect: str, natives: Sequence[Iterable[str]]):
        self.op, self.dialect = op, dialect
        self.constraint_names, self.rewrite_names = (tuple(names) for names in natives)
        self.handles: dict[str, PdlOperation] = {}

    def pattern(self) -> Pattern:
        """Return the checked pattern."""
        if not self.op.body or self.op.body[-1].name != "rewrite":
            refuse_at(self.op.at, "the pattern does not end in pdl.rewrite", "Add pdl.rewrite as the last operation.")
        *matcher, rewrite = self.op.body
        for op in matcher:
            if op.name in REWRITE_ONLY or op.name in ("rewrite", "pattern", "builtin.module"):
                refuse_at(op.at, f"pdl.{op.name} is not allowed in the match", "Move it into the pdl.rewrite.")
            self.check(op)
        self.check(rewrite)
        root = self.root(matcher, rewrite)
        self.check_reachable(matcher, root)
        for op in rewrite.body:
            if op.name in MATCH_ONLY or op.name in ("rewrite", "pattern", "builtin.module"):
                refuse_at(op.at, f"pdl.{op.name} is not allowed in a rewrite", "Move it before the pdl.rewrite.")
            self.check(op)
            self.check_rewriting(op, root)
        self.check_replacement(rewrite)
        name = self.op.attrs.get("sym_name") or f"of {self.op.at}"
        constraints = tuple(op for op in matcher if op.name == "apply_native_constraint")
        benefit = self.op.attrs.get("benefit", 1)
        return Pattern(name, benefit, self.handles, root, constraints, rewrite, self.op.at)

    def check(self, op: PdlOperation) -> None:
        """Check the handles, the name and the attributes of an operation, and enter its result in `handles`."""
        for group, kinds in zip(op.groups, TAKES[op.name], strict=False):
            for handle in group:
                self.check_handle(op, handle, kinds)
        if op.name == "operation":
            self.check_operation(op)
        elif op.name in ("apply_native_constraint", "apply_native_rewrite"):
            if op.name == "apply_native_constraint" and op.kind:
                refuse_at(op.at, "results of a native constraint are not supported", "Use pdl.apply_native_rewrite.")
            self.check_native(op, self.constraint_names if op.name.endswith("constraint") else self.rewrite_names)
        elif op.name == "rewrite" and "name" in op.attrs:
            self.check_native(op, self.rewrite_names)
        if op.result in self.handles:
            refuse_at(op.at, f"{op.result} is defined twice", "Rename one of the two handles.")
        if op.result:
            self.handles[op.result] = op

    def check_handle(self, op: PdlOperation, handle: str, kinds: tuple[str, ...]) -> None:
        if handle not in self.handles:
            hint = suggest(handle, self.handles, "Define the handle before its first use.")
            refuse_at(op.at, f"{handle} is used before it is defined", hint)
        kind = self.handles[handle].kind
        if kinds and kind not in kinds:
            expected = " or ".join(f"!pdl.{k}" for k in kinds)
            refuse_at(op.at, f"{handle} is a !pdl.{kind}, but {expected} is expected", "Pass a handle of this type.")

    def check_operation(self, op: PdlOperation) -> None:
        """Check that the operation and its attributes exist. Enter its name without the dialect as attribute "op"."""
        names = op.attrs.get("attributeValueNames", ())
        if "opName" not in op.attrs:
            return
        full = str(op.attrs["opName"])
        name = full.removeprefix(f"{self.dialect}.")
        available = [o for o in OPS if o not in LEAF_OPS and o != "result"]
        if full == name or name not in available:
            bare = full.rpartition(".")[2]
            hint = f"Did you mean {self.dialect}.{bare}?" if bare in available else ""
            near = [f"{self.dialect}.{o}" for o in available]
            hint = hint or suggest(f"{self.dialect}.{bare}", near, f"Use an operation such as {self.dialect}.add.")
            refuse_at(op.at, f"the operation {full!r} does not exist", hint)
        accepted = known_attributes(name)
        for attribute in names:
            if accepted is not None and attribute not in accepted:
                hint = suggest(attribute, accepted, "Print a graph with `lazywafer opt` to see the names.")
                refuse_at(op.at, f"{full} has no attribute {attribute!r}", hint)
        op.attrs["op"] = name

    def check_native(self, op: PdlOperation, names: tuple[str, ...]) -> None:
        name = op.attrs["name"]
        if name not in names:
            hint = suggest(name, names, f"The functions are: {', '.join(names) or 'none'}.")
            refuse_at(op.at, f"the native function {name!r} does not exist", hint)

    def root(self, matcher: list[PdlOperation], rewrite: PdlOperation) -> str:
        """Return the handle of the root: of `pdl.rewrite`, or else the only operation without a user in the match."""
        if rewrite.groups and rewrite.groups[0]:
            return rewrite.groups[0][0]
        used = {self.handles[h].groups[0][0] for o in matcher if o.name == "operation" for h in o.groups[0]
                if self.handles[h].name in ("result", "results")}  # fmt: skip
        roots = [o.result for o in matcher if o.name == "operation" and o.result not in used]
        if len(roots) != 1:
            refuse_at(rewrite.at, f"the pattern has {len(roots)} roots", "Write the root after pdl.rewrite.")
        return roots[0]

    def check_reachable(self, matcher: list[PdlOperation], root: str) -> None:
        """Refuse an operation of the match that is no operand of the root, directly or indirectly."""
        reached, stack = set(), [root]
        while stack:
            handle = stack.pop()
            if handle in reached:
                continue
            reached.add(handle)
            op = self.handles[handle]
            stack += [h for group in op.groups for h in group]
        for op in matcher:
            is_derived = op.name in ("result", "results") and op.groups[0][0] in reached
            is_constant = op.attrs.keys() & {"constantType", "constantTypes", "value"}
            if op.result and op.result not in reached and not is_derived and not is_constant:
                what = f"{op.result} is not an operand, attribute or type of the root {root} or of its operands"
                refuse_at(op.at, what, "Connect it to the root, or remove it.")

    def check_rewriting(self, op: PdlOperation, root: str) -> None:
        """Refuse operations of a rewrite that have no value, or that change another operation than the root."""
        if op.name in ("type", "types", "attribute") and not op.attrs.keys() & {
            "constantType",
            "constantTypes",
            "value",
        }:
            refuse_at(op.at, f"pdl.{op.name} of a rewrite has no value", f"Write a constant after pdl.{op.name}.")
        if op.name == "operation" and "op" not in op.attrs:
            refuse_at(op.at, "the new operation has no name", "Write its name after pdl.operation.")
        if op.name == "replace" and op.groups[0][0] != root:
            refuse_at(op.at, f"{op.groups[0][0]} is not the root {root}", "Write another pattern for this operation.")
        if op.name == "erase" and op.groups[0][0] == root:
            refuse_at(op.at, "the root has uses, so it cannot be erased", "Replace it by a value: pdl.replace.")

    def check_replacement(self, rewrite: PdlOperation) -> None:
        count = sum(op.name == "replace" for op in rewrite.body)
        if "name" not in rewrite.attrs and count != 1:
            refuse_at(rewrite.at, f"the rewrite has {count} pdl.replace, but exactly one is expected",
                      "Replace the root once.")  # fmt: skip
