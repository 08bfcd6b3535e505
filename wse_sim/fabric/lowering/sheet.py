"""A mesh whose programs are still being written, and how the parts of a core's work become tasks.

Each part of a phase writes into a strand of its own. A strand is a list of steps, one after another; a step is either a
body of instructions on the core's memory or up to two vector operations at once. A core with one strand runs it in its
first task; so it does with one strand of several steps, once the operations of the others run beside it. With more of
them, or with local strands, that task starts the first operations of all and then runs what is local; when an operation
completes, the task of the step after it starts. Tasks run to their end: so a strand of several steps goes on only when
the local ones are through.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric.mesh import CellIndex, Mesh
from wse_sim.isa.core_program import (
    CoreProgram,
    Instruction,
    Memory,
    Received,
    Sent,
    TaskChange,
    Vector,
    check_program,
)

CoreStep = tuple[Instruction, ...]
StepSequence = tuple[CoreStep, ...]
NamedTasks = tuple[tuple[str, CoreStep], ...]
# A shift sends and receives at once; no phase needs more.
MAX_CONCURRENT_OPERATIONS = 2


def is_local(step: CoreStep) -> bool:
    """Whether a step touches no colour."""
    return not any(isinstance(operand, Received | Sent) for i in step for operand in getattr(i, "operands", ()) or ())


class MeshWriter:
    """Routes go to `mesh` at once; steps are kept by number, so that equal cores share one program.

    `scratch` is the first word that no phase uses: temporaries of the lowering begin there.
    """

    def __init__(self, mesh: Mesh, scratch: int):
        self.mesh, self.scratch = mesh, scratch
        self._words = scratch
        self._strands: list[tuple[np.ndarray, list[StepSequence]]] = []
        self._numbers: dict[StepSequence, int] = {}
        self._colours = 0

    def colours(self, count: int) -> int:
        """The first of `count` colours that nothing else uses."""
        self._colours += count
        return self._colours - count

    def allocate_words(self, words: int) -> int:
        """The address of `words` that no phase uses."""
        self._words += words
        return self._words - words

    def begin_strand(self) -> None:
        """Begin a new strand on all cores."""
        self._strands.append((np.zeros((self.mesh.height, self.mesh.width), np.int32), [()]))
        self._numbers = {(): 0}

    def do(self, step: Sequence[Instruction] | Instruction, x: CellIndex, y: CellIndex) -> None:
        """Append a step to the strand of these cores: one instruction, or several of one step."""
        added: CoreStep = tuple(step) if isinstance(step, Sequence) else (step,)
        if not is_local(added) and len(added) > MAX_CONCURRENT_OPERATIONS:
            raise LazyError(
                f"a step of {len(added)} operations at once", hint=f"Use at most {MAX_CONCURRENT_OPERATIONS}."
            )
        at, lists = self._strands[-1]
        # Strands are interned: a core holds a number, and appending a step to a million cores touches only the few
        # distinct ones.
        here = at[y, x]
        present, inverse = np.unique(here, return_inverse=True)
        longer = [(*lists[i], added) for i in present]
        for one in longer:
            if one not in self._numbers:
                self._numbers[one] = len(lists)
                lists.append(one)
        numbers = np.array([self._numbers[one] for one in longer], np.int32)
        at[y, x] = numbers[inverse].reshape(here.shape)

    def finish(self) -> Mesh:
        """The mesh with its programs."""
        kinds = np.zeros((self.mesh.height, self.mesh.width), np.int64)
        for at, lists in self._strands:
            # The combination of strands in mixed radix: cores with the same number run the same program.
            kinds = kinds * len(lists) + at
        for number, kind in enumerate(np.unique(kinds)):
            y, x = np.nonzero(kinds == kind)
            strands = [lists[at[y[0], x[0]]] for at, lists in self._strands if at[y[0], x[0]]]
            program = CoreProgram(f"p{number}", self._words, build_tasks(strands))
            check_program(program)
            self.mesh.run(program, x, y)
        return self.mesh


def build_tasks(strands: Sequence[StepSequence]) -> NamedTasks:
    """The tasks of a core that runs these strands at the same time."""
    if len(strands) < 2:
        return _build_single_strand((), *strands or [()])
    local = [s for s in strands if all(map(is_local, s))]
    # Single operations first: they can be started asynchronously and forgotten. What begins with local work comes last,
    # so that it delays no other's first words.
    moving = sorted((s for s in strands if not all(map(is_local, s))), key=lambda s: (len(s) > 1, is_local(s[0])))
    # Only one strand has several steps: it may run in the main task, the others beside it.
    if not local and len(moving[-2]) == 1:
        started = tuple(i for strand in moving[:-1] for i in _make_async(strand[0], ""))
        return _build_single_strand(started, moving[-1])
    main: list[Instruction] = []
    tasks: list[tuple[str, tuple[Instruction, ...]]] = []
    for number, strand in enumerate(moving):
        begun, *later = _chain_tasks(strand, f"part{number}")
        main += begun[1]
        tasks += later
    # After all first operations were started: local work would keep the main task for long.
    main += [i for strand in local for step in strand for i in step]
    # A task that waits for two completions is activated by one and unblocked by the other: the hardware's own way to
    # join.
    blocks = tuple(TaskChange("block", name) for name in _initially_blocked_tasks(tasks, main))
    return ("main", (*blocks, *main)), *tasks


def _build_single_strand(started: CoreStep, strand: StepSequence) -> NamedTasks:
    """One strand after what is `started`: its steps run in one task, up to a step of two that others follow."""
    body: list[Instruction] = list(started)
    for i, step in enumerate(strand):
        if is_local(step) or len(step) == 1:
            body += step
        elif i == len(strand) - 1:
            body += [*_make_async(step[:1], ""), *step[1:]]
        else:
            (_, first), *later = _chain_tasks(strand[i:], "part0")
            blocks = (TaskChange("block", name) for name in _initially_blocked_tasks(later, list(first)))
            return ("main", (*blocks, *body, *first)), *later
    return (("main", tuple(body)),)


def _chain_tasks(strand: StepSequence, name: str) -> Iterator[tuple[str, tuple[Instruction, ...]]]:
    """A strand as tasks: each runs the bodies up to the next operations and starts these; the first has no name."""
    body: list[Instruction] = []
    number = 0
    for i, step in enumerate(strand):
        if is_local(step):
            body += step
            continue
        then = f"{name}.{number + 1}" if i < len(strand) - 1 else ""
        body += _make_async(step, then)
        yield (f"{name}.{number}" if number else ""), tuple(body)
        body, number = [], number + 1
    if body:
        yield f"{name}.{number}", tuple(body)


def _make_async(step: CoreStep, then: str) -> list[Instruction]:
    """All operations of a step as asynchronous ones, of which the last to complete starts the task `then`."""
    verbs = ("activate", "unblock")
    return [
        replace(vector, is_async=True, then=(verb, then) if then else ())
        for vector, verb in zip(step, verbs, strict=False)
        if isinstance(vector, Vector)
    ]


def _initially_blocked_tasks(
    tasks: Sequence[tuple[str, tuple[Instruction, ...]]], main: list[Instruction]
) -> list[str]:
    """The tasks that two completions start: they are blocked at first."""
    vectors = [i for body in (main, *(b for _, b in tasks)) for i in body if isinstance(i, Vector)]
    return [v.then[1] for v in vectors if v.then and v.then[0] == "unblock"]


def make_copy(source: int, target: int, words: int) -> Vector:
    """Words from one address to another on a core; they may overlap."""
    if target > source:
        return Vector("move", operands=(Memory(target + words - 1, -1), Memory(source + words - 1, -1)), length=words)
    return Vector("move", operands=(Memory(target), Memory(source)), length=words)
