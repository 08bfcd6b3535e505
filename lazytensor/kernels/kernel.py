"""The record of a library kernel: which node it computes, and how the host does it."""

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
"""An attribute that is no part of the operation: what a kernel may make use of."""


@dataclass(frozen=True)
class Match:
    """A kernel's operands and attributes for one node."""

    operands: tuple[Node, ...]
    attrs: Attrs


@dataclass(frozen=True)
class Kernel:
    """One entry of the library.

    match(node) gives the operands, or None where the kernel does not apply; the first match in order of `benefit` wins.
    bind(attrs, outs, ins) gives a function without arguments that computes the arrays `outs` from `ins`.
    source(attrs, out_types, in_types) is, where given, text in the kernel language that defines `kernel(*ins, *outs)`
    over flat arrays; it is used instead of `bind` when kernels are compiled, unless it is empty. Where there are
    `parts(attrs, out_types, in_types)` too, the kernel takes the bounds of one part before all else, and threads share
    them.
    cut(attrs, outs, ins) is, where given, the same in parts that threads may share, cut as shapes alone say; each is a
    product whose arguments are its operands and its result.
    work(attrs, out_types, in_types) counts flops and bytes.
    One that `is_by_rows` has rows of its first operand's last dimension for parts, and so many of all other operands.
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
    """A match rule: the node is an `name`, its inputs are the operands."""
    return lambda n: Match(n.inputs, n.attrs) if n.op == name else None


def own(attrs: Attrs) -> Attrs:
    """The attributes of an operation itself."""
    return {name: value for name, value in attrs.items() if name != KNOWN}


def op_work(name: str) -> Callable[[Attrs, tuple[Type, ...], tuple[Type, ...]], Work]:
    """A work rule: that of the operation `name`."""

    def work(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Work:
        return OPS[name].work(outs[0] if len(outs) == 1 else outs, *ins, **own(attrs))

    return work
