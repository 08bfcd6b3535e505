"""Programs, the interface between compiler and backends: instructions over buffers, with inputs, outputs and state.

A program is plain data, so that a simulator or a test can also create programs by hand.
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
"""Maximum number of instructions that notebooks show of a program."""
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
    """One array of a program.

    - `index`: its index in `Program.buffers`.
    - `type`: shape and element type.
    - `kind`: "state" (loop-carried), "batch" (an input of the step), "const", or "temp" (only used within a step).
    - `name`: the StateId of a state, or the path of an input in the batch.
    - `value`: the data of a constant.
    """

    index: int
    type: Type
    kind: str
    name: str = ""
    value: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Density:
    """The sparsity of a state tensor that has a mask.

    - `share`: the fraction of its elements that are not zero.
    - `mask`: the StateId of the mask.
    - `out_groups`, `in_groups`: the numbers of equal parts of its rows and columns that have equally many non-zero
      elements.
    """

    share: float
    mask: StateId
    out_groups: int = 1
    in_groups: int = 1


@dataclass(frozen=True)
class Instr:
    """One kernel call.

    - `kernel`: the name of a library kernel, such as "matmul", or "nest" for a loop nest.
    - `reads`, `writes`: indices of buffers, in the order of the kernel's operands. An index in both is updated in
      place.
    - `attrs`: the attributes of the kernel.
    - `nest`: the loop nest if `kernel` is "nest".
    - `work`: flops and bytes.
    - `where`: the user's line.
    - `direction`: the phase of a training step: "forward", "backward" or "update".
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

    - `buffers`, `instrs`: the arrays, and the instructions in order.
    - `state`: for each StateId, (buffer read at the start, buffer with the new value at the end). They are equal if the
      state is updated in place or not changed.
    - `batch`, `fetches`: buffer indices of inputs and outputs, in order.
    - `fetch_names`: the names of the outputs.
    - `density`: the states that are sparse. This field and the following ones are used by planners only.
    - `precision_level`: the vendor's precision level of sums on the wafer.
    - `micro_batching`, `systems`: the script's settings for micro-batches and for the number of systems.
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
        """The total work of all instructions."""
        total = Work()
        for instr in self.instrs:
            total = total + instr.work
        return total

    def _repr_html_(self) -> str:
        """Return a table of the instructions in HTML: kernel, phase, operand types, flops and source line.

        It has the first MAX_SHOWN_INSTRUCTIONS instructions and the number of the others.
        """
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
        """Return the program itself after checking it.

        Raises CompileError if a buffer has a wrong index, an instruction reads a "temp" buffer that no earlier
        instruction writes, or such a buffer is an output or a new state and is never written.
        """
        # State, inputs and constants are available before the first instruction.
        known = {b.index for b in self.buffers if b.kind != "temp"}
        # Instructions refer to buffers by their index in the tuple.
        for n, b in enumerate(self.buffers):
            if b.index != n:
                raise CompileError(
                    f"buffer {n} has the index {b.index}", hint="Report it as a bug of the compiler pass that ran."
                )
        for instr in self.instrs:
            for r in instr.reads:
                if r not in known:
                    raise CompileError(
                        f"{instr.label} reads buffer {r} before it is written",
                        where=instr.where,
                        hint="Report it as a bug of the compiler pass that ran.",
                    )
            known.update(instr.writes)
        missing = [i for i in (*self.fetches, *(o for _, o in self.state.values())) if i not in known]
        if missing:
            raise CompileError(
                f"buffers {missing} are fetched, but never written",
                hint="Report it as a bug of the compiler pass that ran.",
            )
        return self
