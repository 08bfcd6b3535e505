"""Programs of one core: tasks of vector operations over memory and fabric.

An instruction names its destination first, then its sources. A vector operation reads `length` elements from each
source, one after another: from memory (`Memory(base, stride)`), from a colour (`Received(colour)`), or the same
constant each time. Its destination is memory or a colour (`Sent(colour)`).

| instruction | meaning for each element |
|---|---|
| `move d, a` | d = a, the same bits |
| `convert d, a` | d = a in another type |
| `add`, `sub`, `mul d, a, b` | d = a + b, a - b, a * b |
| `max d, a, b` | d = the larger of a and b, a if they are equal; NaN if one of them is |
| `greater d, a, b` | d = 1 if a > b, else 0 |
| `bit_and`, `bit_xor`, `shift_left`, `shift_right d, a, b` | bitwise operations on uint16 |
| `fmac d, a, b, c` | d = a * b + c, rounded after each of the two |
| `exp`, `log`, `reciprocal`, `sqrt`, `tanh d, a` | library routines, at the price of the machine's `special` |
| `loop n` ... `end` | the instructions between, n times |
| `branch a ? x, task` | continue in `task` if the float32 word at address a compares so with x |
| `activate`, `block`, `unblock` | change the state of a task |

Sources are rounded to the type of the destination. The result is then rounded to it as well, to nearest, ties to even.
A destination with stride 0 accumulates, since elements are computed one after another. Types are float32, float16,
bfloat16 and uint16 (for indices and bit patterns; a conversion to it drops the fraction). Two elements of 16 bits share
a wavelet; an odd last one has a wavelet of its own.

A task starts when it is active and not blocked, and runs to its end. If several can start, the one that was declared
first does. A vector operation with `is_async` runs concurrently with the task, and may activate or unblock a task when
it completes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from lazytensor.errors import LazyError
from wse_sim.isa.operations import OPERATIONS

# uint16 is for indices and bit patterns; there is no arithmetic on it.
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "uint16": 2}
"""Element type -> bytes of an element."""
WORD_BYTES = 4
COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")
# The engine keeps active and blocked tasks as bits of a signed 32-bit word.
MAX_TASKS = 30
# The engine has round counters and strides for this many nested loops.
MAX_LOOP_DEPTH = 4
# Together with the innermost dimension four, as the vendor's mem4d descriptors have.
MAX_OUTER_DIMENSIONS = 3
SWITCH_COMMANDS = ("nop", "advance", "reset", "teardown")
"""Commands of a control wavelet to the switch of a router."""
# A control wavelet has sixteen bits for commands, two for each.
MAX_SWITCH_COMMANDS = 8
# The same number as in the vendor's SDK.
MAX_SWITCH_POSITIONS = 4


@dataclass(frozen=True)
class Memory:
    """An operand in the core's memory: the elements `base`, `base + stride`, ..., as many as the instruction's length.

    - `base`: first element, counted in elements of `dtype`, so element 1 of a 16-bit type is in word 0
    - `stride`: elements from one to the next
    - `dtype`: element type
    - `steps`: `steps[d]` is added to the base for every finished round of the enclosing loop at depth d, outermost
      first
    - `outer`: up to three pairs (extent, stride) around the innermost dimension, outermost first
    - `index`: None, or the address, in 16-bit elements, of an unsigned number that is read when the operation starts
    - `index_step`: the number at `index` times this is added to the base

    >>> print(Memory(4, stride=6))
    [4 by 6]
    """

    base: int
    stride: int = 1
    dtype: str = "float32"
    steps: tuple[int, ...] = ()
    outer: tuple[tuple[int, int], ...] = ()
    index: int | None = None
    index_step: int = 1

    def __str__(self) -> str:
        text = str(self.base)
        if self.index is not None:
            text += f" + {self.index_step} * ({self.index})"
        text += "".join(f" + {step} a round of loop {d}" for d, step in enumerate(self.steps) if step)
        text += "".join(f" over {extent} by {stride}" for extent, stride in self.outer)
        text += f" by {self.stride}" if self.stride != 1 or self.outer else ""
        return f"[{text}]{_dtype_suffix(self.dtype)}"

    def reach(self, length: int) -> tuple[int, int]:
        """Return (lowest, highest) offset from the base over `length` elements, without loops and an index.

        `length` must be a multiple of the product of the outer extents.
        """
        # The product of the extents divides the length; `_check_memory` has tested that.
        inner = length // prod(extent for extent, _ in self.outer)
        ends = [(n - 1) * stride for n, stride in (*self.outer, (inner, self.stride))]
        return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)

    def span(self, length: int, rounds: Sequence[int]) -> tuple[int, int]:
        """Return (lowest, highest) element over all rounds of the enclosing loops, without the contribution of an
        index.

        `rounds` are the rounds of these loops, outermost first.
        """
        # Loops move the base independently, so the extremes of the sum are the sums of the extremes.
        low, high = self.reach(length)
        moved = [step * (times - 1) for step, times in zip(self.steps, rounds, strict=False)]
        return (
            self.base + low + sum(min(0, m) for m in moved),
            self.base + high + sum(max(0, m) for m in moved),
        )


def _dtype_suffix(dtype: str) -> str:
    return "" if dtype == "float32" else f":{dtype}"


@dataclass(frozen=True)
class Received:
    """An operand: wavelets that the core receives from its router on `colour`, as elements of `dtype`."""

    colour: int
    dtype: str = "float32"

    def __str__(self) -> str:
        return f"in{self.colour}{_dtype_suffix(self.dtype)}"


@dataclass(frozen=True)
class Sent:
    """An operand: wavelets that the core sends to its router on `colour`, as elements of `dtype`."""

    colour: int
    dtype: str = "float32"

    def __str__(self) -> str:
        return f"out{self.colour}{_dtype_suffix(self.dtype)}"


Operand = Memory | Received | Sent | float
"""An operand of a vector operation. A float is a constant."""


@dataclass(frozen=True)
class Vector:
    """A vector operation of `length` elements.

    - `op`: its name in `OPERATIONS`
    - `operands`: the destination, then the sources
    - `is_async`: True if it runs concurrently with its task
    - `then`: the effect of its completion: (), ("activate", task) or ("unblock", task)
    - `advance`: True if the router's switch for the colour of the destination advances to its next position after the
      last wavelet has passed
    """

    op: str
    operands: tuple[Operand, ...]
    length: int
    is_async: bool = False
    then: tuple[str, ...] = ()
    advance: bool = False

    def __str__(self) -> str:
        text = f"{self.op} {', '.join(map(str, self.operands))} x{self.length}"
        if self.is_async:
            text += " async"
        if self.advance:
            text += " advance"
        return f"{text}, then {' '.join(self.then)}" if self.then else text


@dataclass(frozen=True)
class LoopStart:
    """The start of a loop of `times` rounds."""

    times: int

    def __str__(self) -> str:
        return f"loop {self.times}"


@dataclass(frozen=True)
class LoopEnd:
    """The end of the innermost open loop."""

    def __str__(self) -> str:
        return "end"


@dataclass(frozen=True)
class Branch:
    """Leave this task for the start of `task`, if the float32 word at `address` compares with `value`.

    `comparison` is one of `COMPARISONS`.
    """

    address: int
    comparison: str
    value: float
    task: str

    def __str__(self) -> str:
        return f"branch [{self.address}] {self.comparison} {self.value}, {self.task}"


@dataclass(frozen=True)
class TaskChange:
    """Change the state of a task: `verb` is "activate", "block" or "unblock"."""

    verb: str
    task: str

    def __str__(self) -> str:
        return f"{self.verb} {self.task}"


@dataclass(frozen=True)
class ControlWavelet:
    """Send a control wavelet on `colour`.

    Each router that it passes removes and executes the next one of `commands` (see `SWITCH_COMMANDS`); routers after
    the last command execute none. At each core that receives it, it activates `task`. With an empty `task` no core
    receives it.
    """

    colour: int
    commands: tuple[str, ...]
    task: str = ""

    def __str__(self) -> str:
        text = f"control out{self.colour} {' '.join(self.commands)}".rstrip()
        return f"{text}, activate {self.task}" if self.task else text


@dataclass(frozen=True)
class ConfigureSwitch:
    """Set the switch of the core's router for `colour` to `position`; this also ends a teardown."""

    colour: int
    position: int

    def __str__(self) -> str:
        return f"configure colour {self.colour} to position {self.position}"


Instruction = Vector | LoopStart | LoopEnd | Branch | TaskChange | ControlWavelet | ConfigureSwitch


@dataclass(frozen=True)
class CoreProgram:
    """The program of a core: its `name`, `words` of memory, and `tasks` as pairs (name, instructions).

    The first task is active from the start.
    """

    name: str
    words: int
    tasks: tuple[tuple[str, tuple[Instruction, ...]], ...]

    def numbered_instructions(self) -> Iterator[tuple[str, Instruction]]:
        """Yield every instruction with its place, such as "main.3" for instruction 3 of the task "main"."""
        for name, body in self.tasks:
            for i, instruction in enumerate(body):
                yield f"{name}.{i}", instruction

    def __str__(self) -> str:
        lines = [f"program {self.name}, {self.words} words"]
        for name, body in self.tasks:
            lines.append(f"task {name}")
            depth = 1
            for i, instruction in enumerate(body):
                # An end is indented like its loop start, the instructions between them one level more.
                depth -= isinstance(instruction, LoopEnd)
                lines.append(f"{i:4} {'  ' * depth}{instruction}")
                depth += isinstance(instruction, LoopStart)
        return "\n".join(lines)


def check_program(program: CoreProgram) -> None:
    """Raise LazyError, which names the instruction, if a program cannot run on any mesh.

    The instructions, loops and the number of tasks are checked. Routes, and whether the memory fits, are not.
    """
    # All names first, since a task may refer to tasks that are declared later.
    names = [name for name, _ in program.tasks]
    if len(names) > MAX_TASKS:
        what = f"{program.name!r} has {len(names)} tasks, but a core has at most {MAX_TASKS}"
        raise LazyError(what, hint="Use fewer tasks.")
    for name, body in program.tasks:
        check_body(body, program.words, names, f"{program.name}, {name}")


def check_body(body: Sequence[Instruction], words: int, tasks: Sequence[str], where: str) -> None:
    """Raise LazyError for the first invalid instruction of `body`, or for a loop that is not closed.

    `words` is the size of the memory, `tasks` the names of all tasks, and `where` the place for error messages, to
    which the number of the instruction is added.
    """
    # Rounds of the loops that are open here, which determine the reach of operands.
    rounds: list[int] = []
    for i, instruction in enumerate(body):
        try:
            if isinstance(instruction, LoopStart):
                rounds.append(instruction.times)
            elif isinstance(instruction, LoopEnd):
                _require(bool(rounds), "the loop end has no loop start", "Start the loop first.")
                rounds.pop()
            _check_instruction(instruction, words, tasks, rounds)
        # The place is added to the message of the check.
        except LazyError as error:
            raise LazyError(f"{error.what}, in `{instruction}`", where=f"{where}.{i}", hint=error.hint) from None
    if rounds:
        raise LazyError(f"a loop of {rounds[-1]} rounds has no end", where=where, hint="Add the loop end.")


def _require(holds: bool, what: str, hint: str) -> None:
    if not holds:
        raise LazyError(what, hint=hint)


def _check_instruction(instruction: Instruction, words: int, tasks: Sequence[str], rounds: Sequence[int]) -> None:
    """Raise LazyError if one instruction is invalid; `rounds` are those of the enclosing loops, outermost first.

    For a loop start `rounds` include its own. Colours, and the tasks of control wavelets, are not checked here.
    """
    match instruction:
        case Vector():
            _check_vector(instruction, words, rounds)
            if instruction.then:
                _check_completion(instruction.then, tasks)
        case LoopStart(times):
            _require(times >= 1, f"the loop has {times} rounds", "Give a count of at least 1.")
            _require(
                len(rounds) <= MAX_LOOP_DEPTH,
                f"loops are nested {len(rounds)} deep",
                f"Nest at most {MAX_LOOP_DEPTH} loops.",
            )
        case Branch(address, comparison, _, task):
            _check_memory(Memory(address), 1, words, ())
            _check_task(task, tasks)
            _require(
                comparison in COMPARISONS,
                f"comparison {comparison!r} is unknown",
                f"Use one of {' '.join(COMPARISONS)}.",
            )
        # Any task may be changed, including the running one.
        case TaskChange(_, task):
            _check_task(task, tasks)
        case ControlWavelet(_, commands, _):
            _require(
                len(commands) <= MAX_SWITCH_COMMANDS,
                f"a control wavelet has {len(commands)} commands",
                f"Give at most {MAX_SWITCH_COMMANDS} commands.",
            )
            for command in commands:
                _require(
                    command in SWITCH_COMMANDS,
                    f"command {command!r} is unknown",
                    f"Use one of {', '.join(SWITCH_COMMANDS)}.",
                )
        case ConfigureSwitch(_, position):
            _check_position(position)


def _check_position(position: int) -> None:
    _require(
        0 <= position < MAX_SWITCH_POSITIONS,
        f"switch position {position} does not exist",
        f"Use 0 to {MAX_SWITCH_POSITIONS - 1}.",
    )


def _check_completion(then: tuple[str, ...], tasks: Sequence[str]) -> None:
    _require(
        then[0] in ("activate", "unblock"),
        f"a vector operation cannot {then[0]!r} a task when it completes",
        "Use activate=TASK or unblock=TASK.",
    )
    _check_task(then[1], tasks)


def _check_vector(vector: Vector, words: int, rounds: Sequence[int]) -> None:
    """Raise LazyError if a vector operation has invalid operands, length or types.

    The destination has to be memory or a colour to send on, and sources may not read one colour twice. `rounds` are
    those of the enclosing loops.
    """
    _require(vector.op in OPERATIONS, f"operation {vector.op!r} is unknown", f"Use one of {', '.join(OPERATIONS)}.")
    target, *sources = vector.operands
    wanted = OPERATIONS[vector.op].sources
    _require(len(sources) == wanted, f"the operation has {len(sources)} sources", f"Give {wanted} sources.")
    _require(vector.length >= 1, f"the length is {vector.length}", "Give a length of at least 1.")
    _require(
        isinstance(target, Memory | Sent),
        f"{target} cannot be written",
        "Give memory or a colour to send on as the first operand.",
    )
    _require(
        not any(isinstance(s, Sent) for s in sources),
        "a colour to send on is used as a source",
        "Use a received colour as the source.",
    )
    colours = [s.colour for s in sources if isinstance(s, Received)]
    # Both would read the same queue, in an undefined order.
    _require(len(set(colours)) == len(colours), "two sources read the same colour", "Move one of them to memory first.")
    _require(
        isinstance(target, Sent) or not vector.advance,
        "advance is set, but the target is not a colour to send on",
        "Use control() instead.",
    )
    _check_dtypes(vector)
    for operand in vector.operands:
        if isinstance(operand, Memory):
            _check_memory(operand, vector.length, words, rounds)


def _check_dtypes(vector: Vector) -> None:
    """Raise LazyError for unsupported element types or combinations of them; constants have no type.

    A move has one type, and bitwise operations only uint16. Other operations but `convert` have no uint16. Colours of
    one operation have elements of one width.
    """
    # Constants have the type of the destination.
    typed = [o for o in vector.operands if isinstance(o, Memory | Received | Sent)]
    dtypes = {o.dtype for o in typed}
    for dtype in dtypes:
        _require(
            dtype in ITEM_BYTES, f"element type {dtype!r} is not supported", f"Use one of {', '.join(ITEM_BYTES)}."
        )
    # A move copies bits, so a change of type would be a reinterpretation.
    if vector.op == "move":
        _require(len(dtypes) == 1, "a move has operands of different types", "Use convert.")
    else:
        is_integer = OPERATIONS[vector.op].is_integer
        _require(
            is_integer or vector.op == "convert" or "uint16" not in dtypes,
            "arithmetic is not defined for uint16",
            "Convert the operands to a floating-point type first.",
        )
        _require(
            not is_integer or dtypes == {"uint16"},
            f"bitwise operands are {', '.join(sorted(dtypes))}",
            "Give only uint16 operands.",
        )
    widths = {ITEM_BYTES[o.dtype] for o in typed if not isinstance(o, Memory)}
    # An operation advances by whole wavelets: it cannot consume half of one and all of another.
    _require(
        len(widths) < 2,
        "one operation uses wavelets of 32 and of 16 bits",
        "Convert the elements in memory, in two steps.",
    )


def _check_memory(vector: Memory, length: int, words: int, rounds: Sequence[int]) -> None:
    """Raise LazyError if a memory operand of `length` elements has invalid dimensions or leaves `words` of memory.

    `rounds` are those of the enclosing loops. For an operand with an index only the address of the index is checked,
    since the number is known at run time.
    """
    size = words * WORD_BYTES // ITEM_BYTES[vector.dtype]
    extents = [extent for extent, _ in vector.outer]
    _require(
        len(extents) <= MAX_OUTER_DIMENSIONS and min(extents, default=1) >= 1 and length % prod(extents) == 0,
        f"{length} elements do not fit {len(extents)} outer extents {extents}",
        f"Give at most {MAX_OUTER_DIMENSIONS} positive extents, whose product divides the length.",
    )
    _require(
        len(vector.steps) <= len(rounds),
        f"an operand has {len(vector.steps)} steps, but only {len(rounds)} loops enclose it",
        "Give at most one step for each enclosing loop.",
    )
    # The value of an index is known only when the operation starts; the engine checks it then.
    if vector.index is not None:
        halves = words * WORD_BYTES // ITEM_BYTES["uint16"]
        _require(
            0 <= vector.index < halves,
            f"the index is element {vector.index} of {halves}",
            "Use an index inside the memory.",
        )
        return
    first, last = vector.span(length, rounds)
    _require(
        first >= 0 and last < size,
        f"{vector} x{length} reaches from element {first} to {last} of {size}",
        "Use addresses inside the memory.",
    )


def _check_task(task: str, tasks: Sequence[str]) -> None:
    _require(task in tasks, f"task {task!r} does not exist", f"Use one of the tasks {', '.join(tasks)}.")
