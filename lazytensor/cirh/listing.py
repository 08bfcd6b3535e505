"""The lines of a function while it is printed, and the spelling of types, integers and constants."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from lazytensor.cirh.floats import mlir_float
from lazytensor.core.dtype import DType, round_to
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type


def type_text(t: Type) -> str:
    """Return a tensor type, such as tensor<4x6xf32>."""
    return f"tensor<{''.join(f'{e}x' for e in t.shape)}{t.dtype.mlir}>"


def ints_text(values: Iterable[int]) -> str:
    """Return a one-dimensional i64 attribute, such as dense<[0, 1]> : tensor<2xi64>, or a splat if all numbers are
    equal.
    """
    numbers = [int(v) for v in values]
    # MLIR prints equal elements once, and an empty vector without brackets.
    if numbers and all(v == numbers[0] for v in numbers):
        body = str(numbers[0])
    else:
        body = f"[{', '.join(map(str, numbers))}]" if numbers else ""
    return f"dense<{body}> : tensor<{len(numbers)}xi64>"


def _element(v: object, t: Type) -> str:
    if t.dtype.kind == "f":
        return mlir_float(float(v), t.dtype)  # type: ignore[arg-type]
    if t.dtype.kind == "b":
        return "true" if v else "false"
    return str(int(v))  # type: ignore[call-overload]


def dense_text(array: np.ndarray, t: Type) -> str:
    """Return a constant as `dense<...> : type`, as a splat (one element) if all elements are equal.

    NaN counts as different from itself, so an array of NaN is written out.
    """
    flat = array.ravel()
    # MLIR prints a splat once. A NaN differs from itself, so an array of them is written out.
    if flat.size and bool(np.all(flat == flat[0])):
        return f"dense<{_element(flat[0], t)}> : {type_text(t)}"

    def nested(a: np.ndarray) -> str:
        return _element(a.item(), t) if a.ndim == 0 else f"[{', '.join(nested(b) for b in a)}]"

    return f"dense<{nested(array) if flat.size else ''}> : {type_text(t)}"


@dataclass
class Listing:
    """The state of printing a function.

    - `names`: the name of each value.
    - `lines`: the lines of the body, with their nodes.
    - `constants`: the name of each constant, by its text.
    - `bases`: how often each base name was used.
    - `results`: the names of the results of operations with several.
    - `node`: the node that is being printed.
    - `first_users`: the node that first used each constant.
    - `values`: the number of unnamed values.
    - `products`: the number of products of stacks.
    """

    # Values, named results, constants and products of stacks are numbered separately, as in MLIR's printer.
    names: dict[Node, str] = field(default_factory=dict)
    lines: list[tuple[str, Node | None]] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    bases: dict[str, int] = field(default_factory=dict)
    results: dict[Node, list[str]] = field(default_factory=dict)
    node: Node | None = None  # the one that is being printed
    first_users: dict[str, Node | None] = field(default_factory=dict)
    values: int = 0
    products: int = 0

    def next_value_name(self) -> str:
        """Return the next name: %0, %1, ..."""
        self.values += 1
        return f"%{self.values - 1}"

    def named(self, base: str) -> str:
        """Return %base at the first call for `base`, and then %base_0, %base_1, ... Each call uses up a name."""
        uses = self.bases.get(base, 0)
        self.bases[base] = uses + 1
        # MLIR's rule for name clashes: the first keeps the plain name, the second gets number 0.
        return f"%{base}_{uses - 1}" if uses else f"%{base}"

    def product_number(self) -> int:
        """Return the next number of a product of stacks of matrices."""
        self.products += 1
        return self.products - 1

    def constant(self, dense: str) -> str:
        """Return the name of a constant, given its text: %cst, %cst_0, %cst_1, ...

        Equal constants share a name and are printed once.
        """
        # Keyed by text, so that equal constants are printed once.
        if dense not in self.constants:
            n = len(self.constants)
            self.constants[dense] = "%cst" if n == 0 else f"%cst_{n - 1}"
            self.first_users[dense] = self.node
        return self.constants[dense]

    def integers(self, values: Iterable[int]) -> tuple[str, str]:
        """Return an i64 vector as a constant operand: its name and its type."""
        dense = ints_text(values)
        return self.constant(dense), dense.rsplit(" : ", 1)[1]

    def line(self, text: str) -> None:
        """Add a line of the body, which belongs to the current node."""
        self.lines.append(("    " + text, self.node))


def float_text(value: float, dtype: DType) -> str:
    """Return a float attribute such as 1.000000e+00 : f32. The value is rounded to the dtype."""
    return f"{mlir_float(float(round_to(np.asarray(value, dtype.host), dtype)), dtype)} : {dtype.mlir}"
