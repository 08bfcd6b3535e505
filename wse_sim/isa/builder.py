"""Writes programs of one core, an instruction a call, and hands them out checked."""

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
    """How a vector operation runs: beside its task, with an advance of the switch, and what its completion starts."""

    asynchronous: bool
    advance: bool
    activate: str
    unblock: str


class Builder:
    """Collects the instructions of a program; they go to the task that was opened last, at first to "main"."""

    def __init__(self, name: str, words: int):
        self._name, self._words = name, words
        # In the order of declaration, which is the order of priority of active tasks.
        self._tasks: dict[str, list[Instruction]] = {"main": []}
        self._current = "main"

    def task(self, name: str) -> None:
        """Open a task: what follows belongs to it."""
        if name in self._tasks:
            raise LazyError(f"program {self._name!r} has two tasks {name!r}", hint="Give each task its own name.")
        self._tasks[name] = []
        self._current = name

    def move(self, to: Operand, a: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = a, the same bits."""
        self._vector("move", (to, a), length, **more)

    def convert(self, to: Operand, a: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = a in the type of `to`."""
        self._vector("convert", (to, a), length, **more)

    def add(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = a + b."""
        self._vector("add", (to, a, b), length, **more)

    def sub(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = a - b."""
        self._vector("sub", (to, a, b), length, **more)

    def mul(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = a * b."""
        self._vector("mul", (to, a, b), length, **more)

    def max(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = the larger of a and b."""
        self._vector("max", (to, a, b), length, **more)

    def greater(self, to: Operand, a: Operand, b: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = 1 where a > b, else 0."""
        self._vector("greater", (to, a, b), length, **more)

    def bits(self, op: str, to: Operand, a: Operand, b: Operand, length: int) -> None:
        """One of the operations on the bits of uint16: bit_and, bit_xor, shift_left, shift_right by b."""
        self._vector(op, (to, a, b), length)

    def fmac(self, to: Operand, a: Operand, b: Operand, c: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """to = a * b + c, rounded after each of the two."""
        self._vector("fmac", (to, a, b, c), length, **more)

    def special(self, op: str, to: Operand, a: Operand, length: int, **more: Unpack[VectorOptions]) -> None:
        """One of SPECIAL_OPS."""
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
        """`then` is activate=TASK or unblock=TASK."""
        completion = next(iter(then.items()), ())
        self.append(
            Vector(op, operands=operands, length=length, is_async=asynchronous, then=completion, advance=advance)
        )

    def control(self, colour: int, commands: Sequence[str] = (), task: str = "") -> None:
        """Send a control wavelet; see `ControlWavelet`."""
        self.append(ControlWavelet(colour, tuple(commands), task))

    def configure(self, colour: int, position: int = 0) -> None:
        """Put the core's router at a switch position of a colour."""
        self.append(ConfigureSwitch(colour, position))

    @contextmanager
    def loop(self, times: int) -> Iterator[None]:
        """Run what is built inside `times` times."""
        self.append(LoopStart(times))
        # An error inside leaves the loop open, and `build` would not be reached anyway.
        yield
        self.append(LoopEnd())

    def branch(self, address: int, comparison: str, value: float, task: str) -> None:
        """Go on in `task` if the float32 word at `address` compares so with `value`."""
        self.append(Branch(address, comparison, value, task))

    def activate(self, task: str) -> None:
        """Let a task run once it is not blocked."""
        self.append(TaskChange("activate", task))

    def block(self, task: str) -> None:
        """Keep a task from running, active or not."""
        self.append(TaskChange("block", task))

    def unblock(self, task: str) -> None:
        """Let a task run if it is active."""
        self.append(TaskChange("unblock", task))

    def build(self) -> CoreProgram:
        """The finished program. Raises LazyError, naming the instruction, if it cannot run on any mesh."""
        program = CoreProgram(self._name, self._words, tuple((n, tuple(body)) for n, body in self._tasks.items()))
        check_program(program)
        return program

    def body(self) -> tuple[Instruction, ...]:
        """The instructions of the first task, not looked at."""
        return tuple(next(iter(self._tasks.values())))

    def append(self, instruction: Instruction) -> None:
        """Add an instruction to the task that is open."""
        self._tasks[self._current].append(instruction)
