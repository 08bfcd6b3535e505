"""Codegen: a nest becomes the text of one Numba function over flat arrays.

Every constant stands in the text with its type, since a cached kernel is found by its text alone. Arithmetic is strict
except in the accumulation of reductions, where the helper `sum_f4` allows the additions to be reordered: only so does
LLVM use vector registers for them. A fence keeps it from reordering the sums inside the accumulated value as well.
Long sums go over blocks, which keeps the rounding error small. Scalars stand in the outermost loop in which they are
known. An output that is the same memory as an input is the same argument, because LLVM's overlap check before a vector
loop would fail otherwise.
"""

import re
from math import prod

from lazytensor.compiler.scalars import INSTRUCTIONS, literal, spell, suffix
from lazytensor.dtype import DType, bool_
from lazytensor.ir.nest import Access, Nest, Scalar, Store, collapse, format_access, reorder
from lazytensor.ir.operation import OPS
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.kernels.parts import PART_WORK, SPECIAL, Bounds, bounds

BLOCK = 4096  # elements summed in one go before the partial sum is added to the total
WIDE = 2048  # columns

_HELPER = re.compile(r"\b(?:[a-z]\w*_(?:f4|f8|i)|round_\w+)(?=\()")
_HEADER = """\
import numpy as np
from lazytensor.machine_code import kept
{imports}

@kept("void({signature})", nogil=True)
def kernel({arguments}):
"""


def imports_of(body: str) -> str:
    """The import lines for the helpers that a function body calls."""
    homes: dict[str, list[str]] = {}
    for name in sorted(set(_HELPER.findall(body))):
        # `round_float16` rounds to a type, `round_f4` to a whole number: one instruction.
        home = "rounding" if name.startswith("round_") and name not in INSTRUCTIONS else "vecmath"
        homes.setdefault("intrinsics" if name in INSTRUCTIONS else home, []).append(name)
    return "".join(f"from lazytensor.runtime.{m} import {', '.join(n)}\n" for m, n in sorted(homes.items()))


def distinct_slots(operands: tuple[int, ...]) -> tuple[int, ...]:
    """The argument number of each operand when operands that are the same buffer share one argument."""
    order = list(dict.fromkeys(operands))
    return tuple(order.index(o) for o in operands)


def generate(nest: Nest, slots: tuple[int, ...] | None = None, is_cut: bool = False) -> str:
    """The Numba module of a nest. `slots` gives the argument number of each input, then of each output.

    Where `parts_of` gives parts, or where it `is_cut` all the same, the first two arguments are the bounds of one.
    """
    slots = slots or tuple(range(len(nest.inputs) + len(nest.outputs)))
    return _Text(arranged(nest), slots, is_cut or bool(parts_of(nest))).module()


def parts_of(nest: Nest) -> Bounds:
    """The bounds of the parts in which threads may run a nest; none for little work, or where all is one sum."""
    nest = arranged(nest)
    loop = cut_loop(nest)
    if loop is None:
        return ()
    work = sum(SPECIAL if s.unit == "special" else 1 for s in nest.body)
    extent, work = nest.loops[loop].extent, work * prod(each.extent for each in nest.loops)
    if loop > 0:
        # Sums down columns: a part runs through all rows, and short pieces of rows are slow to read.
        work = min(work, extent // WIDE * PART_WORK)
    parts = bounds(extent, work)
    return parts if len(parts) > 1 else ()


def cut_loop(nest: Nest) -> int | None:
    """The outermost loop whose iterations are independent; None if all are sums."""
    return next((k for k, loop in enumerate(nest.loops) if not loop.is_reduction), None)


def arranged(nest: Nest) -> Nest:
    """Loops collapsed; reduction loops inside all others, except a last loop that is none, which stays innermost."""
    nest = collapse(nest)
    loops = nest.loops
    if not any(loop.is_reduction for loop in loops):
        return nest
    inner = [k for k, loop in enumerate(loops) if loop.is_reduction]
    outer = [k for k, loop in enumerate(loops) if not loop.is_reduction]
    # Summing over rows of a matrix: the row stays innermost, where memory is contiguous and vectors are full.
    last = [] if loops[-1].is_reduction else [outer.pop()]
    return reorder(nest, (*outer, *inner, *last))


def _folded(reduce: str, dtype: DType, a: str, b: str, is_strict: bool = True) -> str:
    """One step of an accumulation; unless strict, LLVM may reorder it."""
    reduction = REDUCTIONS[reduce]
    if dtype.kind == "f" and (not is_strict or reduction.is_extreme):
        return f"{reduction.helper}_{suffix(dtype)}({a}, {b})"
    step = reduction.text.format(a, b)
    # Numba widens integers to int64, where NumPy wraps around in their type.
    return f"np.{dtype.host.name}({step})" if dtype.kind == "i" else step


class _Text:
    """Collects the lines of one function."""

    def __init__(self, nest: Nest, slots: tuple[int, ...], is_cut: bool):
        self.nest = nest
        self.inputs = [f"a{s}" for s in slots[: len(nest.inputs)]]
        self.outputs = [f"a{s}" for s in slots[len(nest.inputs) :]]
        self.arguments = max(slots) + 1
        # Operands that are one buffer are one argument, and have the same type.
        types = dict(zip(slots, (*nest.inputs, *nest.outputs), strict=True))
        self.signature = ", ".join(
            f"{'boolean' if types[k].dtype is bool_ else types[k].dtype.host.name}[::1]" for k in range(self.arguments)
        )
        self.depths = _depths(nest)
        self.folds = [s for s in nest.stores if s.reduce]
        self.lines: list[str] = []
        self.cut = cut_loop(nest) if is_cut else None

    def module(self) -> str:
        """The whole text."""
        loops = self.nest.loops
        self._scalars(0, 1)
        if not self.folds:
            self._stores(self._open(0, len(loops), 1))
        else:
            # After `arranged` the reduction loops follow each other: this is the outermost.
            first = next(k for k, loop in enumerate(loops) if loop.is_reduction)
            indent = self._open(0, first, 1)
            if loops[-1].is_reduction:
                self._rows(first, indent)
            else:
                self._columns(first, indent)
        arguments = ", ".join(f"a{k}" for k in range(self.arguments))
        signature = self.signature
        if self.cut is not None:
            arguments, signature = f"first, last, {arguments}", f"uint32, uint32, {signature}"
        body = "\n".join(self.lines) + "\n"
        return _HEADER.format(imports=imports_of(body), signature=signature, arguments=arguments) + body

    def _line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _open(self, first: int, last: int, indent: int, span: str = "") -> int:
        """Open loops first..last-1, each followed by the scalars that vary with it; the result is the indent inside."""
        for k in range(first, last):
            self._line(indent, f"for {self.nest.loops[k].name} in range({span or self._span(k)}):")
            indent += 1
            self._scalars(k + 1, indent)
        return indent

    def _span(self, k: int) -> str:
        """The iterations of a loop: those of one part where the nest is cut."""
        # Widened from 32 bits without a sign, so that LLVM knows that no index is negative.
        return "np.int64(first), np.int64(last)" if k == self.cut else str(self.nest.loops[k].extent)

    def _at(self, array: str, access: Access) -> str:
        return f"{array}[{format_access(access, self.nest.loops)}]"

    def _scalars(self, depth: int, indent: int) -> None:
        """The scalars that change with loop depth-1 and with none further in."""
        for n, s in enumerate(self.nest.body):
            if self.depths[n] == depth:
                self._line(indent, f"t{n} = {self._spelled(s)}")

    def _spelled(self, s: Scalar) -> str:
        nest = self.nest
        if s.op == "load":
            return self._at(self.inputs[s.attr], nest.reads[s.attr])
        if s.op == "const":
            return literal(s.attr, s.dtype)
        if s.op == "index":
            return f"np.int64({format_access(s.attr, nest.loops)})"
        return spell(s.op, s.dtype, s.attr, [f"t{a}" for a in s.args], [nest.body[a].dtype for a in s.args])

    def _stores(self, indent: int) -> None:
        """The stores that do not accumulate."""
        for store in self.nest.stores:
            if not store.reduce:
                self._line(indent, f"{self._target(store)} = t{store.value}")

    def _target(self, store: Store) -> str:
        return self._at(self.outputs[store.output], self.nest.writes[store.output])

    def _kind(self, store: Store) -> DType:
        return self.nest.outputs[store.output].dtype

    def _start(self, store: Store) -> str:
        """What an accumulation begins with."""
        kind = self._kind(store)
        return literal(REDUCTIONS[store.reduce].identity(kind), kind)

    def _rounded(self, store: Store, text: str) -> str:
        kind = self._kind(store)
        return f"round_{kind.name}({text})" if kind.is_half else text

    def _fold(self, indent: int, store: Store, total: str, part: str) -> None:
        self._line(indent, f"{total} = {_folded(store.reduce, self._kind(store), total, part)}")

    def _fenced(self, store: Store) -> str:
        """The value to accumulate; where it is a sum itself, LLVM must not reorder that together with the total."""
        kind = self._kind(store)
        is_ordered = kind.kind != "f" or REDUCTIONS[store.reduce].is_extreme
        if is_ordered or _is_apart(self.nest.body[store.value], store.reduce):
            return f"t{store.value}"
        return f"fence_{suffix(kind)}(t{store.value})"

    def _rows(self, first: int, indent: int) -> None:
        """The innermost loop is a reduction: accumulate in scalars, then store."""
        self._level(first, indent)
        for s in self.folds:
            self._line(indent, f"{self._target(s)} = {self._rounded(s, f's{s.output}_{indent}')}")

    def _level(self, k: int, indent: int, is_block: bool = False) -> None:
        """One reduction loop with its own accumulators, so that long sums are sums of partial sums."""
        loop = self.nest.loops[k]
        for s in self.folds:
            self._line(indent, f"s{s.output}_{indent} = {self._start(s)}")
        if k + 1 < len(self.nest.loops):
            inside = self._open(k, k + 1, indent)
            self._level(k + 1, inside)
        elif loop.extent > 2 * BLOCK and not is_block:
            self._line(indent, f"for block in range(0, {loop.extent}, {BLOCK}):")
            inside = indent + 1
            # The same loop once more, over one block, with accumulators of its own that start anew.
            self._level(k, inside, is_block=True)
        else:
            inside = self._open(k, k + 1, indent, f"block, min(block + {BLOCK}, {loop.extent})" if is_block else "")
            self._stores(inside)
            for s in self.folds:
                total, part = f"s{s.output}_{indent}", self._fenced(s)
                self._line(inside, f"{total} = {_folded(s.reduce, self._kind(s), total, part, is_strict=False)}")
            return
        for s in self.folds:
            self._fold(inside, s, f"s{s.output}_{indent}", f"s{s.output}_{inside}")

    def _columns(self, first: int, indent: int) -> None:
        """The innermost loop is kept: accumulate whole rows in the output."""
        loops = self.nest.loops
        header = f"for {loops[-1].name} in range({self._span(len(loops) - 1)}):"
        self._line(indent, header)
        for s in self.folds:
            self._line(indent + 1, f"{self._target(s)} = {self._start(s)}")
        inside = self._open(first, len(loops), indent)
        self._stores(inside)
        for s in self.folds:
            self._fold(inside, s, self._target(s), f"t{s.value}")
        # The sums were kept in float32 in the output and are rounded once, behind the last addition.
        halves = [s for s in self.folds if self._kind(s).is_half]
        if halves:
            self._line(indent, header)
        for s in halves:
            self._line(indent + 1, f"{self._target(s)} = {self._rounded(s, self._target(s))}")


def _is_apart(value: Scalar, reduce: str) -> bool:
    """True if nothing in the computation of a value is a step of the reduction itself."""
    if value.op in ("load", "const"):
        return True
    op = OPS.get(value.op)
    return op is not None and op.body is not None and reduce not in op.body.mixes


def _depths(nest: Nest) -> list[int]:
    """How many loops must be open before each scalar is known. No store touches what an outer loop has loaded, since
    an output shares memory only with inputs of the same access, and such an access moves with every loop."""
    depths: list[int] = []
    for s in nest.body:
        access = nest.reads[s.attr] if s.op == "load" else s.attr if s.op == "index" else None
        moving = [k + 1 for k, stride in enumerate(access.strides) if stride] if access else []
        depths.append(max([*moving, *(depths[a] for a in s.args)], default=0))
    return depths
