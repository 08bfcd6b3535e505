"""Programs: what a backend sees. Buffers, instructions with declared reads and writes, and the maps to the outside.

This is the waist of the house: everything above produces a `Program`, everything below consumes one. It is plain
data, so that the simulator can be taught and fuzzed with hand-written programs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazytensor.display.table import Column, Table
from lazytensor.errors import CompileError
from lazytensor.ir.micro_batching import AUTO, MicroBatching
from lazytensor.ir.nest import Nest
from lazytensor.ir.types import StateId, Type, Where, Work

MAX_SHOWN_INSTRUCTIONS = 60
_COLUMNS = (
    Column("kernel", is_words=True),
    Column("sweep", is_words=True),
    Column("reads", is_words=True),
    Column("writes", is_words=True),
    Column("flops", "{:,}".format),
    Column("line", is_words=True),
)


@dataclass(frozen=True)
class ProgramBuffer:
    """One value with a place in memory.

    kind: "state" (loop-carried, `name` is its StateId), "batch" (an input of the step, `name` is its path in the
    batch), "const" (`value` holds its data), "temp" (lives within a step).
    """

    index: int
    type: Type
    kind: str
    name: str = ""
    value: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Density:
    """Of a state tensor that a mask keeps sparse: the share of its elements that are not zero, and that mask.

    Each of `out_groups` parts of its rows has as many of them as every other, and each of `in_groups` parts of its
    columns.
    """

    share: float
    mask: StateId
    out_groups: int = 1
    in_groups: int = 1


@dataclass(frozen=True)
class Instr:
    """One kernel call.

    `kernel` names an entry of the kernel library ("matmul", "softmax_cross_entropy", ...), or is "nest", and then
    `nest` holds the loops. `reads` and `writes` are buffer indices in the order of the kernel's operands; an index in
    both is updated in place.
    `direction` is "forward", "backward" or "update": the sweep of a training step that it belongs to.
    """

    kernel: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    nest: Nest | None = None
    work: Work = Work()
    where: Where | None = None
    direction: str = "forward"

    @property
    def label(self) -> str:
        """A short name for reports: the module path, if known, and the kernel."""
        scope = self.where.scope if self.where else ""
        name = self.nest.name if self.nest else self.kernel
        return f"{scope}/{name}" if scope else name


@dataclass(frozen=True)
class Program:
    """One step as a list of instructions over buffers.

    `state` maps a StateId to (buffer read at the start, buffer that holds the new value at the end); the two are
    equal when the instruction updates in place or nothing changes. `batch` and `fetches` are buffer indices in order.
    Only plans look at `density`, which has the states that are sparse, at `precision_level`, the vendor's level of how
    wide a wafer's sums are, and at what the script asks for: `micro_batching` and the number of `systems`.
    """

    buffers: tuple[ProgramBuffer, ...]
    instrs: tuple[Instr, ...]
    state: Mapping[StateId, tuple[int, int]]
    batch: tuple[int, ...]
    fetches: tuple[int, ...]
    fetch_names: tuple[str, ...] = ()
    density: Mapping[StateId, Density] = field(default_factory=dict)
    precision_level: int = 1
    micro_batching: MicroBatching = AUTO
    systems: int = 1

    @property
    def work(self) -> Work:
        """Total of all instructions."""
        total = Work()
        for instr in self.instrs:
            total = total + instr.work
        return total

    def _repr_html_(self) -> str:
        """A row for each instruction: what it reads and writes, its work, and the line that it comes from."""
        rows = [
            (
                i.label,
                i.direction,
                self._types(i.reads),
                self._types(i.writes),
                i.work.flops,
                str(i.where.line) if i.where else "",
            )
            for i in self.instrs[:MAX_SHOWN_INSTRUCTIONS]
        ]
        rest = len(self.instrs) - len(rows)
        head = f"{len(self.instrs)} instructions, {len(self.state)} pieces of state, {self.work.flops:,} flops"
        return f"<p>{head}</p>{Table(_COLUMNS, rows).html()}" + (f"<p>... and {rest} more</p>" if rest else "")

    def _types(self, indices: tuple[int, ...]) -> str:
        return ", ".join(str(self.buffers[i].type) for i in indices)

    def check(self) -> "Program":
        """Raise CompileError unless every read is of something written before; returns self."""
        # State, batch and constants are there before the first instruction.
        known = {b.index for b in self.buffers if b.kind != "temp"}
        # Instructions name buffers by their place in the tuple.
        for n, b in enumerate(self.buffers):
            if b.index != n:
                raise CompileError(f"buffer {n} calls itself {b.index}")
        for instr in self.instrs:
            for r in instr.reads:
                if r not in known:
                    raise CompileError(f"{instr.label} reads buffer {r} before it is written", where=instr.where)
            known.update(instr.writes)
        missing = [i for i in (*self.fetches, *(o for _, o in self.state.values())) if i not in known]
        if missing:
            raise CompileError(f"buffers {missing} are asked for and never written")
        return self
