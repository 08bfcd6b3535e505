"""Parse MLIR's generic form: any module with one function whose operations are in this package's op table.

Names of values, the order of attributes and the spelling of numbers are free, so that a graph can pass through xDSL or
mlir-opt.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from lazytensor.cirh.generic import CONSTANT_OPS, LEAF_ATTRIBUTE_PREFIX, LEAF_OPS
from lazytensor.core.dtype import ALL, DType, bfloat16, cbfloat16
from lazytensor.errors import CompileError, LazyError
from lazytensor.ir.graph import Graph, Node, leaf, node
from lazytensor.ir.operation import OPS
from lazytensor.ir.types import Type

DTYPES = {d.mlir: d for d in ALL if d is not cbfloat16}
TOKEN_PATTERN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<tensor>tensor<[^>]*>)|(?P<value>%[\w$.-]+)(?:(?P<part>[#:])(?P<count>\d+))?
    |(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][-+]?\d+)?|\d+))|(?P<word>[A-Za-z_][\w$.]*)|(?P<symbol>[@^](?:[\w$.-]+|"(?:[^"\\]|\\.)*"))
    |(?P<mark>->|[(){}\[\]<>:,=])|(?P<comment>//[^\n]*))""",
    re.VERBOSE,
)
_ESCAPE_PATTERN = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
MAX_CHARACTERS = 1 << 31
"""The maximum length of a text in characters, and the maximum size of a constant in bytes."""


@dataclass
class ParsedOperation:
    """One parsed operation.

    - `name`: the operation's full name.
    - `results`: names of the results.
    - `operands`: names of the operands.
    - `types`: types of the results.
    - `attrs`: its attributes.
    - `body`: the operations in its regions.
    - `arguments`: names and types of the block arguments.
    - `place`: its line and column in the text, as in "line 4, column 5".
    """

    name: str
    results: list[str]
    operands: list[str]
    types: list[Type]
    attrs: dict[str, Any] = field(default_factory=dict)
    body: list["ParsedOperation"] = field(default_factory=list)
    arguments: list[tuple[str, Type]] = field(default_factory=list)
    place: str = ""


def read_graph(text: str) -> Graph:
    """Return the graph of a module in MLIR's generic form.

    Raise CompileError with the line and the column for a syntax error, for an unknown operation, and for a result type
    that differs from the one the operation infers. Raise it too unless the module has exactly one function.
    """
    return read_module(GenericParser(text), _define)


def read_module(reader: "GenericParser", define: "Define") -> Graph:
    """Return the graph of the module that `reader` parses. `define` creates the node of each of its operations.

    Raise CompileError with the line and the column, as `read_graph` does.
    """
    try:
        operations = [reader.operation()]
        if reader.kind:
            reader.raise_error(f"the end of the text is expected after the module, but got {reader.token!r}")
        while operations and operations[0].name == "builtin.module":
            operations = operations[0].body
        functions = [o for o in operations if o.name == "func.func"]
        if len(functions) != 1:
            reader.raise_error(f"the module has {len(functions)} functions, but exactly one is expected")
        return _graph(functions[0], define)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError) as e:
        # Well-formed MLIR, but not a graph: for example, an attribute is missing or has the wrong type.
        reader.raise_error(f"the text is not a graph: {type(e).__name__}: {e}")


class GenericParser:
    """A recursive-descent parser: a text, a position in it, and the token there. `tokens` matches one token."""

    tokens = TOKEN_PATTERN

    hint = "Pass a graph in MLIR's generic form (mlir-opt --mlir-print-op-generic)."

    def __init__(self, text: str):
        if len(text) > MAX_CHARACTERS:
            raise CompileError(
                f"the text has {len(text):,} characters, but the maximum is {MAX_CHARACTERS:,}",
                hint="Split the module, or shorten its constants.",
            )
        self.text, self.at, self.start = text, 0, 0
        self.kind, self.token = "", ""
        self.match: Any = None
        self.advance()

    def place(self) -> str:
        """Return the line and the column of the current token, both counted from 1."""
        line = self.text.count("\n", 0, self.start) + 1
        return f"line {line}, column {self.start - self.text.rfind(chr(10), 0, self.start)}"

    def raise_error(self, what: str) -> NoReturn:
        """Raise CompileError with the place of the current token and what is wrong there."""
        raise CompileError(f"{self.place()}: {what}", hint=self.hint)

    def advance(self) -> None:
        """Move to the next token. Comments are skipped. At the end of the text, `kind` and `token` are "".

        Raise CompileError for characters that are no token.
        """
        while True:
            self.match = self.tokens.match(self.text, self.at)
            if self.match is None:
                # Spaces at the end of the text are no token either.
                self.start = len(self.text) - len(self.text[self.at :].lstrip())
                if self.start < len(self.text):
                    self.raise_error(f"{self.text[self.at : self.at + 20].strip()!r} is not understood")
                self.kind = self.token = ""
                return
            self.at = self.match.end()
            self.kind = next(k for k, v in self.match.groupdict().items() if v is not None)
            self.token, self.start = self.match[self.kind], self.match.start(self.kind)
            if self.kind != "comment":
                return

    def take(self, kind: str = "") -> str:
        """Return the current token and move past it.

        Raise CompileError if it is not of the given kind, or at the end of the text.
        """
        if not self.kind or (kind and self.kind != kind):
            self.raise_error(f"a {kind or 'token'} is missing before {self.token!r}")
        token = self.token
        self.advance()
        return token

    def takes(self, *marks: str) -> bool:
        """Move past the current token if it is one of these marks or words; return whether it was."""
        if self.kind in ("mark", "word") and self.token in marks:
            self.advance()
            return True
        return False

    def expect(self, mark: str) -> None:
        """Move past a mark. Raise CompileError if the current token is another one."""
        if not self.takes(mark):
            self.raise_error(f"{mark!r} is missing before {self.token!r}")

    def items(self, end: str) -> Iterator[None]:
        """Yield once for each item of a comma-separated list, and move past its end mark.

        The caller parses the items.
        """
        while not self.takes(end):
            yield
            if not self.takes(","):
                self.expect(end)
                return

    def value(self) -> tuple[str, int]:
        """Parse a value such as `%1`; raise CompileError if there is none.

        Return (name, number): `%1#2` gives its whole text and 1, and `%1:2` the name and the count 2. A plain value has
        the count 0.
        """
        if self.kind != "value":
            self.raise_error(f"a value is missing before {self.token!r}")
        name, part, count = self.match["value"], self.match["part"], int((self.match["count"] or "0")[:5])
        self.advance()
        return (f"{name}#{count}", 1) if part == "#" else (name, count)

    def operation(self) -> ParsedOperation:
        """Parse an operation in the generic form, with its regions. The types of its operands and its location are
        dropped.
        """
        place = self.place()
        op = self.generic_operation(self.results())
        op.place = place
        return op

    def generic_operation(self, results: list[str]) -> ParsedOperation:
        """Parse an operation in the generic form after the left side of its equation, without its place."""
        name = unquote(self.take("string"))
        self.expect("(")
        operands = [self.value()[0] for _ in self.items(")")]
        op = ParsedOperation(name=name, results=results, operands=operands, types=[])
        if self.takes("<"):
            op.attrs |= self.attributes()
            self.expect(">")
        if self.takes("("):
            for _ in self.items(")"):
                self.region(op)
        if self.kind == "mark" and self.token == "{":
            op.attrs |= self.attributes()
        self.expect(":")
        _, op.types = self.function_type()
        self.location()
        return op

    def results(self) -> list[str]:
        """Parse the left side of an equation and its mark. Return the names of the values, none if there is no left
        side.
        """
        results: list[str] = []
        while self.kind == "value":
            name, count = self.value()
            results += [f"{name}#{k}" for k in range(count)] if count else [name]
            if not self.takes(","):
                self.expect("=")
        return results

    def location(self) -> None:
        """Skip a location, if there is one."""
        if self.takes("loc"):
            self.expect("(")
            depth = 1
            while depth:
                depth += {"(": 1, ")": -1}.get(self.take(), 0)

    def region(self, op: ParsedOperation) -> None:
        """Parse a region of one block: add its operations to `op.body`, and its block arguments to `op.arguments`."""
        self.expect("{")
        if self.kind == "symbol":
            self.take()
            if self.takes("("):
                for _ in self.items(")"):
                    name = self.value()[0] if self.match["part"] != ":" else self.take()
                    self.expect(":")
                    op.arguments.append((name, self.type()))
                    self.location()
            self.expect(":")
        while not self.takes("}"):
            op.body.append(self.operation())

    def attributes(self) -> dict[str, Any]:
        """Parse a dictionary of attributes."""
        self.expect("{")
        attrs: dict[str, Any] = {}
        for _ in self.items("}"):
            name = unquote(self.take()) if self.kind == "string" else self.take("word")
            attrs[name] = self.attribute() if self.takes("=") else None
        return attrs

    def attribute(self) -> Any:
        """Parse one attribute to a Python value: lists become tuples, and unit becomes None.

        A type becomes a `Type` or `DType`, and a constant an array. Raise CompileError for an attribute that is not
        supported.
        """
        if self.kind == "string":
            return unquote(self.take())
        if self.kind == "number":
            return self.number()
        if self.kind == "tensor" or self.token in DTYPES:
            return self.type() if self.kind == "tensor" else DTYPES[self.take()]
        if self.takes("["):
            return tuple(self.attribute() for _ in self.items("]"))
        if self.kind == "mark" and self.token == "{":
            return self.attributes()
        if self.kind == "mark" and self.token == "(":
            return self.function_type()
        if self.takes("dense"):
            return self.dense()[0]
        for word, value in (("true", True), ("false", False), ("unit", None)):
            if self.takes(word):
                return value
        return self.raise_error(f"{self.token!r} is not a supported attribute")

    def number(self) -> int | float:
        """Parse a number with its type. Without a type it is an int, or a float if it has a decimal point.

        A hexadecimal float has the bits of its type.
        """
        text = self.take("number")
        kind = self.take("word") if self.takes(":") else "i64" if "." not in text else "f64"
        if not kind.startswith(("f", "bf")):
            return int(text, 0)
        if "x" not in text:
            return float(text)
        if kind not in DTYPES:
            self.raise_error(f"{text} : {kind} is a hexadecimal float of an unknown type")
        return float(_parse_element(text, DTYPES[kind]))

    def dense(self) -> tuple[np.ndarray, Type]:
        """Parse the elements of a constant after the word `dense`. Return them as an array, and its type.

        Raise CompileError for more than MAX_CHARACTERS bytes, and for elements that do not fit the type.
        """
        self.expect("<")
        elements: Any = unquote(self.take()) if self.kind == "string" else None
        if elements is None and not (self.kind == "mark" and self.token == ">"):
            elements = self.nested()
        self.expect(">")
        self.expect(":")
        t = self.type()
        if t.nbytes > MAX_CHARACTERS:
            self.raise_error(f"a constant of type {t} has {t.nbytes:,} bytes, but the maximum is {MAX_CHARACTERS:,}")
        try:
            return _array(elements, t), t
        except (ValueError, OverflowError) as e:
            self.raise_error(f"the elements of a constant of type {t} are invalid: {e}")

    def nested(self) -> Any:
        """Parse a number or word, or nested lists of them. Return their texts, not yet converted."""
        if self.takes("["):
            return [self.nested() for _ in self.items("]")]
        return self.take("number") if self.kind == "number" else self.take("word")

    def type(self) -> Type:
        """Parse a tensor type. Raise CompileError for an unknown dtype and for extents that are not numbers."""
        *extents, element = self.take("tensor")[len("tensor<") : -1].split("x")
        if element not in DTYPES or not all(e.isdigit() for e in extents):
            self.raise_error(f"tensor<{'x'.join([*extents, element])}> is not a supported tensor type")
        return Type(tuple(map(int, extents)), DTYPES[element])

    def function_type(self) -> tuple[list[Type], list[Type]]:
        """Parse the types of operands and results."""
        self.expect("(")
        operands = [self.type() for _ in self.items(")")]
        self.expect("->")
        if not self.takes("("):
            return operands, [self.type()]
        return operands, [self.type() for _ in self.items(")")]


def unquote(text: str) -> str:
    r"""Return a string literal without its quotes and escapes. Escapes such as \C3 are bytes of UTF-8."""

    def plain(m: re.Match[str]) -> str:
        known = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}
        return known.get(m[1]) or chr(int(m[1], 16))

    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    # Escapes are bytes of UTF-8.
    return _ESCAPE_PATTERN.sub(plain, inner).encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def _array(elements: Any, t: Type) -> np.ndarray:
    """Return parsed elements as an array of type `t`. One element is repeated; None gives zeros.

    A text that begins with 0x holds the bytes of all elements. Raise ValueError for another number of elements.
    """
    d = t.dtype
    if elements is None:
        return np.zeros(t.shape, d.host)
    if isinstance(elements, str) and elements.startswith("0x") and d.kind != "b":
        stored = np.dtype("<u2" if d is bfloat16 else "<f2" if d.is_half else d.host.newbyteorder("<"))
        values = np.frombuffer(bytes.fromhex(elements[2:]), stored)
        if d is bfloat16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.array([_parse_element(e, d) for e in _flatten_elements(elements)], d.host)
    # A single element is a splat.
    whole = values.reshape(t.shape) if values.size == t.size else np.broadcast_to(values.reshape(()), t.shape)
    return np.ascontiguousarray(whole, d.host)


def _flatten_elements(elements: Any) -> Iterator[str]:
    if isinstance(elements, str):
        yield elements
        return
    for e in elements:
        yield from _flatten_elements(e)


def _parse_element(text: str, d: DType) -> Any:
    """Return one element of a constant as a number. Hexadecimal floats are bits of dtype `d`; words except "true"
    are False.
    """
    if d.kind == "b":
        return text == "true"
    if d.kind != "f":
        return int(text, 0)
    if "x" not in text:
        return float(text)
    # Hexadecimal bits are used for infinities and NaN.
    bits = int(text, 16).to_bytes(d.itemsize, "little")
    if d is bfloat16:
        return np.frombuffer(b"\0\0" + bits, "<f4")[0]
    return np.frombuffer(bits, f"<f{d.itemsize}")[0]


Define = Callable[[dict[str, Node], ParsedOperation, tuple[Node, ...]], None]
"""A function that creates the node of a parsed operation with given operands, and enters its results by name."""


def _graph(function: ParsedOperation, define: Define) -> Graph:
    """Return the graph of a parsed function. Arguments with the attribute `lt.leaf = "state"` are state, others the
    batch.

    Raise CompileError for a value that is used before it is defined.
    """
    values: dict[str, Node] = {}
    inputs: list[Node] = []
    state: dict[str, Node] = {}
    said: Any = function.attrs.get("arg_attrs") or ({},) * len(function.arguments)
    for i, ((name, t), attrs) in enumerate(zip(function.arguments, said, strict=True)):
        values[name] = n = _leaf(i, t, {key.removeprefix(LEAF_ATTRIBUTE_PREFIX): value for key, value in attrs.items()})
        if n.op == "state":
            state[n.attrs["id"]] = n
        else:
            inputs.append(n)
    returned: list[Node] = []
    results = list(function.attrs.get("res_attrs") or ())
    for op in function.body:
        operands = tuple(_lookup_value(values, name, op.place) for name in op.operands)
        if op.name == "func.return":
            returned = list(operands)
        else:
            define(values, op, operands)
    return _graph_of_results(inputs, state, returned, results)


def _graph_of_results(
    inputs: list[Node], state: dict[str, Node], returned: list[Node], said: list[dict[str, Any]]
) -> Graph:
    said += [{}] * (len(returned) - len(said))
    updates = {a["lt.state"]: n for n, a in zip(returned, said, strict=True) if "lt.state" in a}
    outputs = [(n, a.get("cs.output_name")) for n, a in zip(returned, said, strict=True) if "lt.state" not in a]
    names = tuple(name or f"output_{i}" for i, (_, name) in enumerate(outputs))
    # Default names mean that the graph had no output names.
    plain = names == tuple(f"output_{i}" for i in range(len(names)))
    return Graph(tuple(inputs), state, tuple(n for n, _ in outputs), updates, () if plain else names)


def _leaf(place: int, t: Type, attrs: dict[str, Any]) -> Node:
    """Return the leaf node of argument `place`, from its attributes; without attributes it is an array of the batch.

    Removes "leaf" from `attrs`. Raise CompileError for another kind than "batch" and "state".
    """
    kind = attrs.pop("leaf", "batch")
    if kind not in LEAF_OPS:
        raise CompileError(
            f"argument {place} is of kind {kind!r}, but the only kinds are {', '.join(LEAF_OPS)}",
            hint="Correct the attribute lt.leaf of the argument.",
        )
    # In a function of another tool, arguments have no attributes: they are the batch, in order.
    attrs = attrs or {"index": place, "name": f"arg{place}", "type": t}
    return node(kind, (), attrs, t)


def _lookup_value(values: dict[str, Node], name: str, place: str) -> Node:
    if name not in values:
        raise CompileError(
            f"{place}: {name} is used before it is defined",
            hint="Move the operation that defines the value before its uses.",
        )
    return values[name]


def _define(values: dict[str, Node], op: ParsedOperation, operands: tuple[Node, ...]) -> None:
    """Create the node of an operation, and enter its results in `values` by name.

    The dialect prefix of the operation's name is ignored. Raise CompileError if the operation does not exist.
    """
    name = op.name.rpartition(".")[2]
    if name not in OPS:
        raise CompileError(
            f"{op.place}: the operation {op.name!r} does not exist",
            hint="Use an operation of the table, such as torch.aten.add.",
        )
    enter_results(values, op, parsed_node(op, name, operands))


def enter_results(values: dict[str, Node], op: ParsedOperation, n: Node) -> None:
    """Enter the results of a parsed operation in `values` by name. `n` is its node."""
    if not isinstance(n.type, tuple):
        values[op.results[0]] = n
        return
    for k, result in enumerate(op.results):
        values[result] = node("result", (n,), {"index": k}, n.type[k])


def parsed_node(op: ParsedOperation, name: str, operands: tuple[Node, ...]) -> Node:
    """Return the node of a parsed operation.

    Raise CompileError if its operands or attributes do not fit, or if its types differ from the inferred ones.
    """
    if name in CONSTANT_OPS:
        return constant_node(name, op)
    return node(name, operands, op.attrs, infer_type(op, name, operands, op.attrs))


def constant_node(name: str, op: ParsedOperation) -> Node:
    """Return the node of a parsed constant: "const", which is shared with equal constants, or "leaf"."""
    (t,), array = op.types, op.attrs["value"]
    if name == "leaf":
        return leaf(array, t)
    constant = node("const", (), {"data": array.tobytes(), "type": t}, t)
    constant.value = array if constant.value is None else constant.value
    return constant


def infer_type(op: ParsedOperation, name: str, operands: tuple[Node, ...], attrs: dict[str, Any]) -> Any:
    """Return the type, or the types, that the operation `name` infers from its operands and attributes.

    Raise CompileError if they do not fit, or if the parsed operation `op` declares other types.
    """
    try:
        inferred = OPS[name].infer(*(i.type for i in operands), **attrs)
    except (LazyError, TypeError, ValueError, IndexError, KeyError, AttributeError) as e:
        raise CompileError(
            f"{op.place}: {op.name}: {e}", hint="Correct the operands or attributes of this operation."
        ) from e
    given = inferred if isinstance(inferred, tuple) else (inferred,)
    if list(given) != op.types or len(op.results) != len(given):
        shown = ", ".join(map(str, given))
        raise CompileError(
            f"{op.place}: {op.name} returns {shown}, but the text declares {', '.join(map(str, op.types))}",
            hint="Correct the declared result type.",
        )
    return inferred
