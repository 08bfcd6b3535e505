"""Build the program of one core, one instruction at each call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypedDict, Unpack

from lazytensor.errors import LazyError
from wse_sim.isa.core_program import (
    Branch,
    ConfigureSwitch,
    ControlWavelet,
    CoreProgram,
    Instruction,
    LoopEnd,
    LoopStart,
    Operand,
    TaskChange,
    Vector,
    check_program,
)


class VectorOptions(TypedDict, total=False):
    """Keyword options of a vector operation.

    - `asynchronous`: run concurrently with the task
    - `advance`: advance the router's switch after the last wavelet
    - `activate`: name of a task to activate on completion
    - `unblock`: name of a task to unblock on completion
    """

    asynchronous: bool
    advance: bool
    activate: str
    unblock: str


class Builder:
    """A builder of a `CoreProgram` with the given `name` and `words` of memory.

    Instructions are appended to the task that was opened last. The first task is "main". In the methods for vector
    operations, `to` is the destination, `a`, `b` and `c` are sources, and `length` is the number of elements; `more` is
    `VectorOptions`.
    """

    def __init__(self, name: str, words: int):
        self._name, self._words = name, words
        # The order of declaration is the priority of active tasks.
        self._tasks: dict[str, list[Instruction]] = {"main": []}
        self._current = "main"

    def task(self, name: str) -> None:
        """Open a new task; the instructions that follow belong to it.

        Of several tasks that can start, the one that was opened first has priority. Raises LazyError if the name is
        taken.
        """
        if name in self._tasks:
            raise LazyError(
                f"program {self._name!r} has two tasks named {name!r}", hint="Give each task a different name."
            )
        self._tasks[name] = []
        self._current = name

    def move(self, to: Operand, a: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = a, the same bits."""
        self._vector("move", (to, a), length, **more)

    def convert(self, to: Operand, a: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = a, converted to the type of `to`."""
        self._vector("convert", (to, a), length, **more)

    def add(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = a + b."""
        self._vector("add", (to, a, b), length, **more)

    def sub(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = a - b."""
        self._vector("sub", (to, a, b), length, **more)

    def mul(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = a * b."""
        self._vector("mul", (to, a, b), length, **more)

    def max(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = the larger of a and b; NaN if one of them is NaN."""
        self._vector("max", (to, a, b), length, **more)

    def greater(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = 1 where a > b, and 0 elsewhere."""
        self._vector("greater", (to, a, b), length, **more)

    def bits(self, op: str, to: Operand, a: Operand, b: Operand, length: int) -> None:
        """Append a bitwise operation on uint16: `op` is "bit_and", "bit_xor", "shift_left" or "shift_right" (a by
        b).
        """
        self._vector(op, (to, a, b), length)

    def fmac(self, to: Operand, a: Operand, b: Operand, c: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append to = a * b + c, rounded after the product and after the sum."""
        self._vector("fmac", (to, a, b, c), length, **more)

    def special(self, op: str, to: Operand, a: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """Append a library routine; `op` is one of `SPECIAL_OPS`."""
        self._vector(op, (to, a), length, **more)

    def _vector(
        self,
        op: str,
        operands: tuple[Operand, ...],
        length: int,
        asynchronous: bool = False,
        advance: bool = False,
        **then: str,
    ) -> None:
        """Append a vector operation.

        `then` has at most one entry that counts, activate=TASK or unblock=TASK: the first one. Nothing is checked
        before `build`.
        """
        completion = next(iter(then.items()), ())
        self.append(
            Vector(op, operands=operands, length=length, is_async=asynchronous, then=completion, advance=advance)
        )

    def control(self, colour: int, commands: Sequence[str] = (), task: str = "") -> None:
        """Append the sending of a control wavelet; see `ControlWavelet`."""
        self.append(ControlWavelet(colour, tuple(commands), task))

    def configure(self, colour: int, position: int = 0) -> None:
        """Append an instruction that sets the router's switch for `colour` to `position`."""
        self.append(ConfigureSwitch(colour, position))

    @contextmanager
    def loop(self, times: int) -> Iterator[None]:
        """Return a context manager; instructions that are appended inside it run `times` times.

        If the block raises an exception, the loop is not closed, and `build` fails.
        """
        self.append(LoopStart(times))
        # If the body raises, the loop stays open; the program is not built then.
        yield
        self.append(LoopEnd())

    def branch(self, address: int, comparison: str, value: float, task: str) -> None:
        """Append a jump to `task` if the float32 word at `address` compares with `value`; see `Branch`."""
        self.append(Branch(address, comparison, value, task))

    def activate(self, task: str) -> None:
        """Append an instruction that activates `task`: it runs once it is not blocked."""
        self.append(TaskChange("activate", task))

    def block(self, task: str) -> None:
        """Append an instruction that blocks `task`: it does not run, active or not, until it is unblocked."""
        self.append(TaskChange("block", task))

    def unblock(self, task: str) -> None:
        """Append an instruction that unblocks `task`: it runs if it is active."""
        self.append(TaskChange("unblock", task))

    def build(self) -> CoreProgram:
        """Return the program of all tasks. Raises LazyError, which names the instruction, if it cannot run
        on any mesh.
        """
        program = CoreProgram(self._name, self._words, tuple((n, tuple(body)) for n, body in self._tasks.items()))
        check_program(program)
        return program

    def body(self) -> tuple[Instruction, ...]:
        """Return the instructions of the first task, without checks."""
        return tuple(next(iter(self._tasks.values())))

    def append(self, instruction: Instruction) -> None:
        """Append an instruction to the current task."""
        self._tasks[self._current].append(instruction)
