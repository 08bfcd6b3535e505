"""The record of a library kernel: which nodes it computes, and how the host runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type, Work
from lazytensor.kernels.loop_parts import Bounds
from lazytensor.ops.op import OPS

Attrs = Mapping[str, Any]
Arrays = tuple[np.ndarray, ...]
Step = Callable[[], object]
Bind = Callable[[Attrs, Arrays, Arrays], Step]
Source = Callable[[Attrs, tuple[Type, ...], tuple[Type, ...]], str]


KNOWN = "known"
"""Name of a kernel attribute that is not part of the operation: a known property that the kernel may use."""


@dataclass(frozen=True)
class Match:
    """The operands and attributes with which a kernel computes one node."""

    operands: tuple[Node, ...]
    attrs: Attrs


@dataclass(frozen=True)
class Kernel:
    """One entry of the kernel library.

    - `match(node)`: returns the operands and attributes, or None if the kernel does not apply.
    - `bind(attrs, outs, ins)`: returns a function without arguments that computes the arrays `outs` from `ins`.
    - `source(attrs, out_types, in_types)`: returns the text of a kernel-language module that defines `kernel(*ins,
      *outs)` over flat arrays. If it is not empty and LT_JIT is on, it replaces `bind`.
    - `parts(attrs, out_types, in_types)`: returns the bounds of the parts that threads share. The compiled kernel then
      takes the bounds of one part as its first two arguments.
    - `cut(attrs, outs, ins)`: returns the same computation as matrix products that threads share, as partial(function,
      a, b, out). The cuts depend only on shapes.
    - `work(attrs, out_types, in_types)`: returns flops and bytes.
    - `benefit`: the kernel with the highest benefit that matches a node computes it.
    - `is_by_rows`: whether the parts are rows along the last dimension of the first operand, and every other operand
      has as many rows.
    """

    name: str
    match: Callable[[Node], Match | None]
    bind: Bind
    work: Callable[[Attrs, tuple[Type, ...], tuple[Type, ...]], Work]
    source: Source | None = None
    parts: Callable[[Attrs, tuple[Type, ...], tuple[Type, ...]], Bounds] | None = None
    cut: Callable[[Attrs, Arrays, Arrays], list[partial[object]]] | None = None
    benefit: int = 0
    is_by_rows: bool = False


def by_op(name: str) -> Callable[[Node], Match | None]:
    """Return a match rule that accepts nodes of operation `name`. The node's inputs are the operands."""
    return lambda n: Match(n.inputs, n.attrs) if n.op == name else None


def own(attrs: Attrs) -> Attrs:
    """Return the attributes of the operation itself, without KNOWN."""
    return {name: value for name, value in attrs.items() if name != KNOWN}


def op_work(name: str) -> Callable[[Attrs, tuple[Type, ...], tuple[Type, ...]], Work]:
    """Return a work rule for kernels that gives the flops and bytes of operation `name`."""

    def work(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Work:
        return OPS[name].work(outs[0] if len(outs) == 1 else outs, *ins, **own(attrs))

    return work
