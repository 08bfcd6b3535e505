"""Parse modules of StableHLO whose operations are custom calls of ATen operations, in the dialect's or generic form."""

import re
from typing import Any

from lazytensor.cirh.generic_parser import (
    GenericParser,
    ParsedOperation,
    constant_node,
    enter_results,
    infer_type,
    read_module,
)
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import CUSTOM_CALL, TARGET_PREFIX
from lazytensor.hlo.printer import CALL_NAME, CONSTANT_NAME
from lazytensor.ir.graph import Graph, Node, new_uninterned_node
from lazytensor.ir.operation import OPS

HLO_HINT = "Pass a graph in MLIR's generic form, or custom calls as in the file hlo.mlir of a run."
_STABLEHLO_LINE_PATTERN = re.compile(r'^[^"\n]*"?stablehlo\.', re.MULTILINE)


def is_hlo(text: str) -> bool:
    """Return whether a text is for `read_hlo`: it is not in MLIR's generic form, or has operations of StableHLO."""
    return text.lstrip().startswith(("module", "builtin.module")) or _STABLEHLO_LINE_PATTERN.search(text) is not None


def read_hlo(text: str) -> Graph:
    """Return the wrapped graph of a module of StableHLO with one function.

    Raise CompileError with the line, the column and what was expected for a syntax error, for an operation that is not
    a custom call of an ATen operation or a constant, and for a result type that differs from the one that the wrapped
    operation infers.
    """
    return read_module(_HloParser(text), _define)


class _HloParser(GenericParser):
    """A parser that also reads the dialect's form of the operations of a wrapped graph."""

    hint = HLO_HINT

    def operation(self) -> ParsedOperation:
        place = self.place()
        results = self.results()
        op = self.generic_operation(results) if self.kind == "string" else self._dialect_operation(results)
        op.place = place
        return op

    def _dialect_operation(self, results: list[str]) -> ParsedOperation:
        """Parse an operation after the left side of its equation. Raise CompileError for an unknown one."""
        forms = {
            "module": self._module,
            "builtin.module": self._module,
            "func.func": self._function,
            "return": self._return,
            "func.return": self._return,
            CALL_NAME: self._call,
            CONSTANT_NAME: self._constant,
        }
        if self.token not in forms:
            self.raise_error(f"one of {', '.join(forms)} is expected, but got {self.token!r}")
        name = self.take()
        op = ParsedOperation(name=name, results=results, operands=[], types=[])
        forms[name](op)
        self.location()
        return op

    def _module(self, op: ParsedOperation) -> None:
        op.name = "builtin.module"
        if self.kind == "symbol":
            self.take()
        if self.takes("attributes"):
            op.attrs |= self.attributes()
        self.region(op)

    def _function(self, op: ParsedOperation) -> None:
        """Parse a function: its arguments and results with their attributes, and its body."""
        if self.token in ("public", "private"):
            self.take("word")
        self.take("symbol")
        self.expect("(")
        leaves, results = [], []
        for _ in self.items(")"):
            name = self.value()[0]
            self.expect(":")
            op.arguments.append((name, self.type()))
            leaves.append(self._optional_attributes())
            self.location()
        if self.takes("->"):
            if self.takes("("):
                for _ in self.items(")"):
                    self.type()
                    results.append(self._optional_attributes())
            else:
                self.type()
        if self.takes("attributes"):
            op.attrs |= self.attributes()
        op.attrs |= {"arg_attrs": tuple(leaves), "res_attrs": tuple(results)}
        self.region(op)

    def _return(self, op: ParsedOperation) -> None:
        op.name = "func.return"
        op.operands = self._values()
        if op.operands:
            self.expect(":")
            self.type()
            for _ in op.operands[1:]:
                self.expect(",")
                self.type()

    def _values(self) -> list[str]:
        values = [self.value()[0]] if self.kind == "value" else []
        while values and self.takes(","):
            values.append(self.value()[0])
        return values

    def _call(self, op: ParsedOperation) -> None:
        op.attrs["call_target_name"] = self.take("symbol").removeprefix("@")
        self.expect("(")
        op.operands = [self.value()[0] for _ in self.items(")")]
        op.attrs |= self._optional_attributes()
        self.expect(":")
        _, op.types = self.function_type()

    def _constant(self, op: ParsedOperation) -> None:
        op.attrs |= self._optional_attributes()
        if not self.takes("dense"):
            self.raise_error(f"'dense' is expected, but got {self.token!r}")
        op.attrs["value"], t = self.dense()
        op.types = [t]

    def _optional_attributes(self) -> dict[str, Any]:
        return self.attributes() if self.kind == "mark" and self.token == "{" else {}


def _define(values: dict[str, Node], op: ParsedOperation, operands: tuple[Node, ...]) -> None:
    """Create the node of a constant or of a custom call, and enter its results in `values` by name."""
    if op.name == CONSTANT_NAME:
        enter_results(values, op, constant_node(op.attrs.get("lt.leaf", "const"), op))
        return
    if op.name != CALL_NAME:
        _refuse(op, f"{CALL_NAME} or {CONSTANT_NAME} is expected, but got {op.name}")
    target, config = op.attrs.get("call_target_name"), op.attrs.get("backend_config", {})
    name = target.removeprefix(TARGET_PREFIX) if isinstance(target, str) else ""
    if name == target or name not in OPS:
        _refuse(op, f"the call target {target!r} is not a known ATen operation; a name such as aten.add is expected")
    if not isinstance(config, dict):
        _refuse(op, f"backend_config is {config!r}, but a dictionary is expected (api_version = 4)")
    t = infer_type(op, name, operands, config)
    attrs = {"call_target_name": target, "backend_config": config}
    enter_results(values, op, new_uninterned_node((CUSTOM_CALL, attrs, (), t, None, False), operands))


def _refuse(op: ParsedOperation, what: str) -> None:
    raise CompileError(f"{op.place}: {what}", hint=HLO_HINT)
