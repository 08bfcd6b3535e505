"""Code generation: generate the text of one kernel over flat arrays from a loop nest.

Every constant is in the text with its type, because a cached kernel is found by its text. Arithmetic is strict, so that
the bits of a result do not depend on what is fused with it.

A sum along the last dimension has lanes, see `kernels.lane_sums`. Neighbouring reduced dimensions count as one for
this, and outer ones add these sums in order. A sum that keeps the last dimension adds whole rows in order.
`runtime.ordered_sums` computes the same for arrays of any shape.

A scalar is computed in the outermost loop in which its operands are known. An output that shares memory with an input
is the same argument, because LLVM's overlap check before a vector loop would fail otherwise.
"""

import re
from itertools import groupby
from math import prod

from lazytensor.compiler.scalar_bodies import INSTRUCTION_HELPERS, dtype_suffix, literal_text, scalar_text
from lazytensor.core.dtype import DType, bool_
from lazytensor.ir.nest import Access, Nest, NestStore, Scalar, collapse, format_access, reorder
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.kernels.lane_sums import Accumulation, LaneWriter
from lazytensor.kernels.loop_parts import PART_WORK, SPECIAL, Bounds, bounds

MIN_COLUMNS_PER_PART = 2048  # minimum number of columns per part of a column sum: short pieces of rows are slow to read

_HELPER_PATTERN = re.compile(r"\b(?:[a-z]\w*_(?:f4|f8|i)|(?:round|lanes)_\w+)(?=\()")
_MODULE_TEMPLATE = """\
import numpy as np
from lazytensor.runtime.language import typed
{imports}

@typed("void({signature})")
def kernel({arguments}):
"""


def helper_imports(body: str) -> str:
    """Return the import lines for the helpers that a function body calls; "" if it calls none."""
    homes: dict[str, list[str]] = {}
    for name in sorted(set(_HELPER_PATTERN.findall(body))):
        # `round_float16` rounds to a dtype; `round_f4` rounds to an integer and is one instruction.
        home = "rounding" if name.startswith("round_") and name not in INSTRUCTION_HELPERS else "vecmath"
        home = "lanes" if name.startswith("lanes_") else home
        homes.setdefault("intrinsics" if name in INSTRUCTION_HELPERS else home, []).append(name)
    return "".join(f"from lazytensor.runtime.{m} import {', '.join(n)}\n" for m, n in sorted(homes.items()))


def distinct_slots(operands: tuple[int, ...]) -> tuple[int, ...]:
    """Return the argument number of each operand. Operands that are the same buffer share one argument."""
    order = list(dict.fromkeys(operands))
    return tuple(order.index(o) for o in operands)


def generate(nest: Nest, slots: tuple[int, ...] | None = None, is_cut: bool = False) -> str:
    """Return the text of the kernel module of a nest.

    `slots` gives the argument number of each input, then of each output; by default each is a separate argument. If
    `thread_parts` gives several parts, or if `is_cut`, the first two arguments are the bounds of a part.
    """
    slots = slots or tuple(range(len(nest.inputs) + len(nest.outputs)))
    return _KernelText(arrange_loops(nest), slots, is_cut or bool(thread_parts(nest)), _reduction_runs(nest)).module()


def thread_parts(nest: Nest) -> Bounds:
    """Return (first, end) of the parts into which threads may cut the parallel loop of a nest.

    Return () if there is too little work for two parts, or if all loops are one sum.
    """
    nest = arrange_loops(nest)
    loop = parallel_loop(nest)
    if loop is None:
        return ()
    work = sum(SPECIAL if s.unit == "special" else 1 for s in nest.body)
    extent, work = nest.loops[loop].extent, work * prod(each.extent for each in nest.loops)
    if loop > 0:
        # In a column sum, a part reads a piece of every row, and short pieces are slow to read.
        work = min(work, extent // MIN_COLUMNS_PER_PART * PART_WORK)
    parts = bounds(extent, work)
    return parts if len(parts) > 1 else ()


def parallel_loop(nest: Nest) -> int | None:
    """Return the outermost loop whose iterations are independent, or None if all loops are reductions."""
    return next((k for k, loop in enumerate(nest.loops) if not loop.is_reduction), None)


def arrange_loops(nest: Nest) -> Nest:
    """Return the nest with loops collapsed, and reduction loops moved inside all others.

    Collapsing joins neighbouring loops that access memory like one loop. If the last loop is not a reduction, it stays
    innermost. The other loops keep their order.
    """
    nest = collapse(nest)
    loops = nest.loops
    if not any(loop.is_reduction for loop in loops):
        return nest
    inner = [k for k, loop in enumerate(loops) if loop.is_reduction]
    outer = [k for k, loop in enumerate(loops) if not loop.is_reduction]
    # A sum over the rows of a matrix keeps the row loop innermost, where memory is contiguous.
    last = [] if loops[-1].is_reduction else [outer.pop()]
    return reorder(nest, (*outer, *inner, *last))


def _reduction_runs(nest: Nest) -> tuple[int, ...]:
    """Return the number of loops in each run of neighbouring reduced dimensions, after collapsing."""
    loops = collapse(nest).loops
    return tuple(len(list(run)) for is_reduction, run in groupby(loops, lambda k: k.is_reduction) if is_reduction)


def _accumulate_text(reduce: str, dtype: DType, a: str, b: str) -> str:
    """Return the text that combines the texts `a` and `b` by the reduction `reduce`, such as "add", in `dtype`.

    Integers are converted back to `dtype`, so that they wrap around.
    """
    reduction = REDUCTIONS[reduce]
    if dtype.kind == "f" and reduction.is_extreme:
        return f"{reduction.helper}_{dtype_suffix(dtype)}({a}, {b})"
    step = reduction.text.format(a, b)
    # The kernel language widens integers to int64, but NumPy wraps around in their type.
    return f"np.{dtype.host.name}({step})" if dtype.kind == "i" else step


class _KernelText:
    """Collects the lines of one kernel function."""

    def __init__(self, nest: Nest, slots: tuple[int, ...], is_cut: bool, runs: tuple[int, ...]):
        self.nest, self.runs = nest, runs
        self.inputs = [f"a{s}" for s in slots[: len(nest.inputs)]]
        self.outputs = [f"a{s}" for s in slots[len(nest.inputs) :]]
        self.arguments = max(slots) + 1
        # Operands that are one buffer share one argument and have the same type.
        types = dict(zip(slots, (*nest.inputs, *nest.outputs), strict=True))
        self.signature = ", ".join(
            f"{'boolean' if types[k].dtype is bool_ else types[k].dtype.host.name}[::1]" for k in range(self.arguments)
        )
        self.depths = _scalar_depths(nest)
        self.folds = [s for s in nest.stores if s.reduce]
        self.lines: list[str] = []
        self.before: list[str] = []  # allocations of local arrays
        stores_elements = len(self.folds) < len(nest.stores)
        self._lanes = LaneWriter(self._line, [self._accumulation(s) for s in self.folds], stores_elements)
        self.cut = parallel_loop(nest) if is_cut else None

    def module(self) -> str:
        """Return the text of the module. Call it once, because it collects the lines."""
        loops = self.nest.loops
        self._scalars(0, 1)
        if not self.folds:
            self._stores(self._open(0, len(loops), 1))
        else:
            # After `arrange_loops` the reduction loops follow each other: this is the outermost.
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
        body = "\n".join([*(f"    {line}" for line in self.before), *self.lines]) + "\n"
        return _MODULE_TEMPLATE.format(imports=helper_imports(body), signature=signature, arguments=arguments) + body

    def _line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _open(self, first: int, last: int, indent: int, span: str = "") -> int:
        """Open the loops first..last-1, each followed by the scalars that depend on it; return the indent inside.

        `span` replaces the text of the range of each loop.
        """
        for k in range(first, last):
            self._line(indent, f"for {self.nest.loops[k].name} in range({span or self._span(k)}):")
            indent += 1
            self._scalars(k + 1, indent)
        return indent

    def _span(self, k: int) -> str:
        """Return the text of the range of a loop: the bounds of one part for the loop that is cut."""
        # Zero-extended from 32 bits, so that LLVM can prove that no index is negative.
        return "np.int64(first), np.int64(last)" if k == self.cut else str(self.nest.loops[k].extent)

    def _at(self, array: str, access: Access) -> str:
        return f"{array}[{format_access(access, self.nest.loops)}]"

    def _scalars(self, depth: int, indent: int) -> None:
        """Write the scalars that depend on loop depth-1 and on no inner loop."""
        for n, s in enumerate(self.nest.body):
            if self.depths[n] == depth:
                self._line(indent, f"t{n} = {self._scalar_text(s)}")

    def _scalar_text(self, s: Scalar) -> str:
        """Return the kernel text of one scalar of the nest's body."""
        nest = self.nest
        if s.op == "load":
            return self._at(self.inputs[s.attr], nest.reads[s.attr])
        if s.op == "const":
            return literal_text(s.attr, s.dtype)
        if s.op == "index":
            return f"np.int64({format_access(s.attr, nest.loops)})"
        return scalar_text(s.op, s.dtype, s.attr, [f"t{a}" for a in s.args], [nest.body[a].dtype for a in s.args])

    def _stores(self, indent: int) -> None:
        """Write the stores that do not accumulate."""
        for store in self.nest.stores:
            if not store.reduce:
                self._line(indent, f"{self._target(store)} = t{store.value}")

    def _target(self, store: NestStore) -> str:
        return self._at(self.outputs[store.output], self.nest.writes[store.output])

    def _kind(self, store: NestStore) -> DType:
        return self.nest.outputs[store.output].dtype

    def _start(self, store: NestStore) -> str:
        """Return the text of the initial value of an accumulation."""
        kind = self._kind(store)
        return literal_text(REDUCTIONS[store.reduce].identity(kind), kind)

    def _round_text(self, store: NestStore, text: str) -> str:
        kind = self._kind(store)
        return f"round_{kind.name}({text})" if kind.is_half else text

    def _accumulation(self, store: NestStore) -> Accumulation:
        kind = self._kind(store)
        return Accumulation(
            name=str(store.output),
            start=self._start(store),
            step=lambda a, b: _accumulate_text(store.reduce, kind, a, b),
            kind=self._host_type_name(store),
            total=f"lanes_{store.reduce}" if kind.kind == "f" else "",
        )

    def _fold(self, indent: int, store: NestStore, total: str, part: str) -> None:
        self._line(indent, f"{total} = {_accumulate_text(store.reduce, self._kind(store), total, part)}")

    def _rows(self, first: int, indent: int) -> None:
        """Write reductions whose innermost loop is a reduction: accumulate in scalars, then store.

        `first` is the number of the outermost reduction loop, and `indent` the depth of the lines.
        """
        self._level(0, first, indent)
        for s in self.folds:
            self._line(indent, f"{self._target(s)} = {self._round_text(s, f's{s.output}_{indent}')}")

    def _level(self, run: int, first: int, indent: int) -> None:
        """Write the sums over run number `run` of neighbouring reduction loops, and of all inner runs, as scalars.

        `first` is the number of the outermost loop of the run. Each run gets its own accumulators; the innermost is
        summed in lanes.
        """
        end = first + self.runs[run]
        if run + 1 == len(self.runs):
            self.before += self._lanes.allocations()
            self._sum_last_run(first, end, indent)
            return
        for s in self.folds:
            self._line(indent, f"s{s.output}_{indent} = {self._start(s)}")
        inside = self._open(first, end, indent)
        self._level(run + 1, end, inside)
        for s in self.folds:
            self._fold(inside, s, f"s{s.output}_{indent}", f"s{s.output}_{inside}")

    def _sum_last_run(self, first: int, end: int, indent: int) -> None:
        """Write the sums over the innermost run of loops, `first` to `end` - 1, in lanes.

        If the run has several loops, their elements are written to a local array first.
        """
        loops = self.nest.loops
        if end - first == 1:
            self._lanes.write(loops[first].extent, indent, lambda at, inside: self._element(first, at, inside))
            return
        # Several loops that do not collapse: first write their elements to an array in order.
        strides = [prod(loop.extent for loop in loops[k + 1 : end]) for k in range(first, end)]
        size = loops[first].extent * strides[0]
        for s in self.folds:
            self.before.append(f"w{s.output} = np.empty({size}, np.{self._host_type_name(s)})")
        inside = self._open(first, end, indent)
        self._stores(inside)
        place = format_access(Access(tuple(strides)), loops[first:end])
        for s in self.folds:
            self._line(inside, f"w{s.output}[{place}] = t{s.value}")
        self._lanes.write(size, indent, lambda at, inside: [f"w{s.output}[{at}]" for s in self.folds])

    def _element(self, k: int, at: str, indent: int) -> list[str]:
        """Write the body at iteration `at`, a text, of the innermost loop `k`; return the texts of the values to
        accumulate.
        """
        self._line(indent, f"{self.nest.loops[k].name} = {at}")
        self._scalars(k + 1, indent)
        self._stores(indent)
        return [f"t{s.value}" for s in self.folds]

    def _host_type_name(self, store: NestStore) -> str:
        kind = self._kind(store)
        return "bool_" if kind is bool_ else kind.host.name

    def _columns(self, first: int, indent: int) -> None:
        """Write reductions whose innermost loop is not a reduction: accumulate whole rows in the output.

        Outputs of half types are rounded at the end. `first` is the number of the outermost reduction loop.
        """
        loops = self.nest.loops
        header = f"for {loops[-1].name} in range({self._span(len(loops) - 1)}):"
        self._line(indent, header)
        for s in self.folds:
            self._line(indent + 1, f"{self._target(s)} = {self._start(s)}")
        inside = self._open(first, len(loops), indent)
        self._stores(inside)
        for s in self.folds:
            self._fold(inside, s, self._target(s), f"t{s.value}")
        # The output held the sums in float32; round them once, after the last addition.
        halves = [s for s in self.folds if self._kind(s).is_half]
        if halves:
            self._line(indent, header)
        for s in halves:
            self._line(indent + 1, f"{self._target(s)} = {self._round_text(s, self._target(s))}")


def _scalar_depths(nest: Nest) -> list[int]:
    """Return for each scalar of the body the number of loops, from the outermost, that must be open before it can be
    computed.

    No store overwrites an element that an outer loop has loaded: an output shares memory only with inputs of the same
    access, and such an access changes with every loop.
    """
    depths: list[int] = []
    for s in nest.body:
        access = nest.reads[s.attr] if s.op == "load" else s.attr if s.op == "index" else None
        moving = [k + 1 for k, stride in enumerate(access.strides) if stride] if access else []
        depths.append(max([*moving, *(depths[a] for a in s.args)], default=0))
    return depths
