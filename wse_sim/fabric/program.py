"""Programs of one core: vector operations over memory and fabric, in tasks.

An instruction names its destination first, then its sources. A vector operation takes `length` elements from each
source, one after another: from memory (`memory(base, stride)`), from a colour (`received(colour)`), or one constant
again and again. Its destination is memory or a colour (`sent(colour)`).

| instruction | meaning for each element |
|---|---|
| `move d, a` | d = a |
| `add d, a, b` | d = a + b |
| `mul d, a, b` | d = a * b |
| `max d, a, b` | d = the larger of a and b |
| `fmac d, a, b, c` | d = a * b + c, rounded after each of the two |
| `loop n` ... `end` | the instructions between, n times |
| `branch a ? x, task` | go on in `task` if the word at address a compares so with x |
| `activate`, `block`, `unblock` | change what a task may do |

A task runs to its end once it is active and not blocked; of several the one that was declared first. A vector operation
that is `asynchronous` runs beside the task and may activate or unblock a task when it completes. Elements are float32
words, one to a wavelet.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lazytensor.errors import LazyError

VECTOR_OPS = {"move": 1, "add": 2, "mul": 2, "max": 2, "fmac": 3}
"""Name -> number of sources."""
COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")
TASKS_MOST = 30
LOOPS_DEEPEST = 4


@dataclass(frozen=True)
class Memory:
    """Words of the core's memory: `base`, `base + stride`, ..., as many as the instruction is long."""

    base: int
    stride: int = 1

    def __str__(self) -> str:
        return f"[{self.base}]" if self.stride == 1 else f"[{self.base} by {self.stride}]"


@dataclass(frozen=True)
class Received:
    """Wavelets that the router gives to the core on a colour."""

    colour: int

    def __str__(self) -> str:
        return f"in{self.colour}"


@dataclass(frozen=True)
class Sent:
    """Wavelets that the core gives to its router on a colour."""

    colour: int

    def __str__(self) -> str:
        return f"out{self.colour}"


Operand = Memory | Received | Sent | float


@dataclass(frozen=True)
class Vector:
    """A vector operation. `then` is what completion does: (), ("activate", task) or ("unblock", task)."""

    op: str
    operands: tuple[Operand, ...]
    length: int
    is_async: bool = False
    then: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.op} {', '.join(map(str, self.operands))} x{self.length}"
        if self.is_async:
            text += " async"
        return f"{text}, then {' '.join(self.then)}" if self.then else text


@dataclass(frozen=True)
class Loop:
    """Start of a counted loop."""

    times: int

    def __str__(self) -> str:
        return f"loop {self.times}"


@dataclass(frozen=True)
class End:
    """End of the innermost loop."""

    def __str__(self) -> str:
        return "end"


@dataclass(frozen=True)
class Branch:
    """Leave this task for the start of another, if the word at `address` compares with `value`."""

    address: int
    comparison: str
    value: float
    task: str

    def __str__(self) -> str:
        return f"branch [{self.address}] {self.comparison} {self.value}, {self.task}"


@dataclass(frozen=True)
class Change:
    """Change the state of a task: `verb` is "activate", "block" or "unblock"."""

    verb: str
    task: str

    def __str__(self) -> str:
        return f"{self.verb} {self.task}"


Instruction = Vector | Loop | End | Branch | Change


@dataclass(frozen=True)
class Program:
    """What a core runs: `words` of memory and tasks by name. The first task is active from the start."""

    name: str
    words: int
    tasks: tuple[tuple[str, tuple[Instruction, ...]], ...]

    def numbered(self) -> Iterator[tuple[str, Instruction]]:
        """Every instruction with its place, as in "main.3"."""
        for name, body in self.tasks:
            for i, instruction in enumerate(body):
                yield f"{name}.{i}", instruction

    def __str__(self) -> str:
        lines = [f"program {self.name}, {self.words} words"]
        for name, body in self.tasks:
            lines.append(f"task {name}")
            depth = 1
            for i, instruction in enumerate(body):
                depth -= isinstance(instruction, End)
                lines.append(f"{i:4} {'  ' * depth}{instruction}")
                depth += isinstance(instruction, Loop)
        return "\n".join(lines)


class Builder:
    """Collects the instructions of a program; they go to the task that was opened last, at first to "main"."""

    def __init__(self, name: str, words: int):
        self._name, self._words = name, words
        self._tasks: dict[str, list[Instruction]] = {"main": []}
        self._current = "main"

    def task(self, name: str) -> None:
        """Open a task: what follows belongs to it."""
        if name in self._tasks:
            raise LazyError(f"program {self._name!r} has two tasks {name!r}", todo="Give each task its own name.")
        self._tasks[name] = []
        self._current = name

    def move(self, to: Operand, a: Operand, length: int, **more) -> None:
        self._vector("move", (to, a), length, **more)

    def add(self, to: Operand, a: Operand, b: Operand, length: int, **more) -> None:
        self._vector("add", (to, a, b), length, **more)

    def mul(self, to: Operand, a: Operand, b: Operand, length: int, **more) -> None:
        self._vector("mul", (to, a, b), length, **more)

    def max(self, to: Operand, a: Operand, b: Operand, length: int, **more) -> None:
        self._vector("max", (to, a, b), length, **more)

    def fmac(self, to: Operand, a: Operand, b: Operand, c: Operand, length: int, **more) -> None:
        self._vector("fmac", (to, a, b, c), length, **more)

    def _vector(
        self, op: str, operands: tuple[Operand, ...], length: int, asynchronous: bool = False, **then: str
    ) -> None:
        """`then` is activate=TASK or unblock=TASK."""
        self._append(Vector(op, operands, length, asynchronous, next(iter(then.items()), ())))

    @contextmanager
    def loop(self, times: int) -> Iterator[None]:
        """Run what is built inside `times` times."""
        self._append(Loop(times))
        yield
        self._append(End())

    def branch(self, address: int, comparison: str, value: float, task: str) -> None:
        self._append(Branch(address, comparison, value, task))

    def activate(self, task: str) -> None:
        self._append(Change("activate", task))

    def block(self, task: str) -> None:
        self._append(Change("block", task))

    def unblock(self, task: str) -> None:
        self._append(Change("unblock", task))

    def build(self) -> Program:
        """The finished program. Raises LazyError, naming the instruction, if it cannot run on any mesh."""
        program = Program(self._name, self._words, tuple((n, tuple(body)) for n, body in self._tasks.items()))
        check_program(program)
        return program

    def _append(self, instruction: Instruction) -> None:
        self._tasks[self._current].append(instruction)


def check_program(program: Program) -> None:
    """Raise LazyError, naming the instruction, for a program that cannot run on any mesh."""
    names = [name for name, _ in program.tasks]
    if len(names) > TASKS_MOST:
        raise LazyError(f"{program.name!r} has {len(names)} tasks", todo=f"A core has at most {TASKS_MOST}.")
    for place, instruction in program.numbered():
        try:
            _check_instruction(instruction, program.words, names)
        except LazyError as error:
            raise LazyError(
                f"{error.what} in `{instruction}`", where=f"{program.name}, {place}", todo=error.todo
            ) from None
    for name, body in program.tasks:
        _check_nesting(f"{program.name}, {name}", body)


def _check_instruction(instruction: Instruction, words: int, tasks: list[str]) -> None:
    match instruction:
        case Vector():
            _check_vector(instruction, words, tasks)
        case Loop(times) if times < 1:
            raise LazyError(f"a loop of {times} rounds", todo="Give a count of at least 1.")
        case Branch(address, comparison, _, task):
            _check_memory(Memory(address), 1, words)
            _check_task(task, tasks)
            if comparison not in COMPARISONS:
                raise LazyError(f"no comparison {comparison!r}", todo=f"Use one of {' '.join(COMPARISONS)}.")
        case Change(_, task):
            _check_task(task, tasks)


def _check_vector(vector: Vector, words: int, tasks: list[str]) -> None:
    target, *sources = vector.operands
    if vector.length < 1:
        raise LazyError(f"a length of {vector.length}", todo="Give a length of at least 1.")
    if not isinstance(target, Memory | Sent):
        raise LazyError(f"{target} cannot be written", todo="The first operand is memory or a colour to send on.")
    if any(isinstance(s, Sent) for s in sources):
        raise LazyError("a colour to send on stands as a source", todo="Read with received(colour).")
    colours = [s.colour for s in sources if isinstance(s, Received)]
    if len(set(colours)) < len(colours):
        raise LazyError("two sources read one colour", todo="Move one of them to memory first.")
    for operand in vector.operands:
        if isinstance(operand, Memory):
            _check_memory(operand, vector.length, words)
    if vector.then:
        if vector.then[0] not in ("activate", "unblock"):
            raise LazyError(f"completion cannot {vector.then[0]!r}", todo="Use activate=TASK or unblock=TASK.")
        _check_task(vector.then[1], tasks)


def _check_memory(vector: Memory, length: int, words: int) -> None:
    last = vector.base + (length - 1) * vector.stride
    if min(vector.base, last) < 0 or max(vector.base, last) >= words:
        raise LazyError(
            f"{vector} x{length} reaches from word {vector.base} to {last} of {words}", todo="Stay inside the memory."
        )


def _check_task(task: str, tasks: list[str]) -> None:
    if task not in tasks:
        raise LazyError(f"no task {task!r}", todo=f"The tasks are {', '.join(tasks)}.")


def _check_nesting(where: str, body: tuple[Instruction, ...]) -> None:
    depth = 0
    for instruction in body:
        depth += isinstance(instruction, Loop) - isinstance(instruction, End)
        if depth > LOOPS_DEEPEST:
            raise LazyError(f"loops nest {depth} deep", where=where, todo=f"Nest at most {LOOPS_DEEPEST}.")
