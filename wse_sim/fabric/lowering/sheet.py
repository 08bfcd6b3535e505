"""A writer of meshes, which collects the steps of each core and assigns them to tasks.

Each concurrent part of a phase has a strand on every core. A strand is a sequence of steps. A step is either a body of
instructions on the core's memory (local), or up to two vector operations at the same time.

A core with one strand runs it in its first task. That task also runs a strand of several steps if the other strands are
single operations, which it starts asynchronously. In all other cases, the first task starts the first operations of all
strands and then runs the local strands. When an operation completes, it starts the task of the strand's next step.
Tasks run to their end, so a strand of several steps continues only after the local ones.
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
"""The instructions of one step."""
StepSequence = tuple[CoreStep, ...]
"""The steps of a strand."""
NamedTasks = tuple[tuple[str, CoreStep], ...]
"""Tasks as pairs (name, instructions)."""
# A shift sends and receives at the same time; no phase needs more.
MAX_CONCURRENT_OPERATIONS = 2
"""Maximum number of vector operations in a step."""


def is_local(step: CoreStep) -> bool:
    """Return True if no instruction of a step uses a colour."""
    return not any(isinstance(operand, Received | Sent) for i in step for operand in getattr(i, "operands", ()) or ())


class MeshWriter:
    """A writer of the routes and programs of `mesh`.

    Routes are added to the mesh immediately, and programs by `finish`. Cores with equal steps share one program.
    `scratch` is the first word that no phase uses; temporaries of the lowering begin there.
    """

    def __init__(self, mesh: Mesh, scratch: int):
        self.mesh, self.scratch = mesh, scratch
        self._words = scratch
        self._strands: list[tuple[np.ndarray, list[StepSequence]]] = []
        self._numbers: dict[StepSequence, int] = {}
        self._colours = 0

    def colours(self, count: int) -> int:
        """Reserve `count` unused colours and return the first one; the others follow it.

        The limit of the machine is checked when a route is added.
        """
        self._colours += count
        return self._colours - count

    def allocate_words(self, words: int) -> int:
        """Reserve `words` words that no phase uses and return their address."""
        self._words += words
        return self._words - words

    def begin_strand(self) -> None:
        """Begin a new strand, without steps, on all cores; later steps are appended to it."""
        self._strands.append((np.zeros((self.mesh.height, self.mesh.width), np.int32), [()]))
        self._numbers = {(): 0}

    def do(self, step: Sequence[Instruction] | Instruction, x: CellIndex, y: CellIndex) -> None:
        """Append one step, an instruction or a sequence of them, to the current strand of the cores at `x`, `y`.

        The instructions of a step that use colours run at the same time. Raises LazyError for more than
        `MAX_CONCURRENT_OPERATIONS` instructions if one of them uses a colour.
        """
        added: CoreStep = tuple(step) if isinstance(step, Sequence) else (step,)
        if not is_local(added) and len(added) > MAX_CONCURRENT_OPERATIONS:
            raise LazyError(
                f"a step runs {len(added)} operations at the same time, but a core can run {MAX_CONCURRENT_OPERATIONS}",
                hint="Split the step.",
            )
        at, lists = self._strands[-1]
        # Strands are interned: a core has a number, and appending a step to a million cores affects only the few
        # distinct strands.
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
        """Assign the programs to the cores, and return the mesh; cores without steps get a program without
        instructions.

        Raises LazyError for an invalid program.
        """
        kinds = np.zeros((self.mesh.height, self.mesh.width), np.int64)
        for at, lists in self._strands:
            # The combination of strands as a number in mixed radix: cores with the same number run the same program.
            kinds = kinds * len(lists) + at
        for number, kind in enumerate(np.unique(kinds)):
            y, x = np.nonzero(kinds == kind)
            strands = [lists[at[y[0], x[0]]] for at, lists in self._strands if at[y[0], x[0]]]
            program = CoreProgram(f"p{number}", self._words, build_tasks(strands))
            check_program(program)
            self.mesh.run(program, x, y)
        return self.mesh


def build_tasks(strands: Sequence[StepSequence]) -> NamedTasks:
    """Return the tasks of a core that runs `strands` concurrently; the first one is "main".

    The docstring of this module describes how steps become tasks. Without strands "main" is empty.
    """
    if len(strands) < 2:
        return _build_single_strand((), *strands or [()])
    local = [s for s in strands if all(map(is_local, s))]
    # Single operations first, since they can be started asynchronously. Strands that begin with local work come last,
    # so that they do not delay the first words of others.
    moving = sorted((s for s in strands if not all(map(is_local, s))), key=lambda s: (len(s) > 1, is_local(s[0])))
    # At most one strand has several steps: it runs in the main task, the others concurrently.
    if not local and len(moving[-2]) == 1:
        started = tuple(i for strand in moving[:-1] for i in _make_async(strand[0], ""))
        return _build_single_strand(started, moving[-1])
    main: list[Instruction] = []
    tasks: list[tuple[str, tuple[Instruction, ...]]] = []
    for number, strand in enumerate(moving):
        begun, *later = _chain_tasks(strand, f"part{number}")
        main += begun[1]
        tasks += later
    # Local work comes after all first operations have started, since it occupies the main task for long.
    main += [i for strand in local for step in strand for i in step]
    # A task that waits for two completions is activated by one and unblocked by the other, as usual on the hardware.
    blocks = tuple(TaskChange("block", name) for name in _initially_blocked_tasks(tasks, main))
    return ("main", (*blocks, *main)), *tasks


def _build_single_strand(started: CoreStep, strand: StepSequence) -> NamedTasks:
    """Return the tasks of one strand that runs after the instructions `started`.

    Its steps run in "main", up to the first step of two operations that other steps follow; the rest are further tasks.
    """
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
    """Yield a strand as tasks (name, instructions); the first one has an empty name, the others are `name`.1, `name`.2,
    ...

    Each task runs the local steps up to the next operations and starts these, whose completion starts the next task.
    """
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
    """Return the operations of a step, at most two, as asynchronous ones.

    If `then` is not empty, the first activates this task and the second unblocks it on completion. A step with one
    operation only activates it.
    """
    verbs = ("activate", "unblock")
    return [
        replace(vector, is_async=True, then=(verb, then) if then else ())
        for vector, verb in zip(step, verbs, strict=False)
        if isinstance(vector, Vector)
    ]


def _initially_blocked_tasks(
    tasks: Sequence[tuple[str, tuple[Instruction, ...]]], main: list[Instruction]
) -> list[str]:
    """Return the names of tasks that start after two completions, since some operation unblocks them.

    They have to be blocked at first.
    """
    vectors = [i for body in (main, *(b for _, b in tasks)) for i in body if isinstance(i, Vector)]
    return [v.then[1] for v in vectors if v.then and v.then[0] == "unblock"]


def make_copy(source: int, target: int, words: int, source_stride: int = 1, target_stride: int = 1) -> Vector:
    """Return an operation that copies `words` words from address `source` to `target` of a core.

    The words are `source_stride` and `target_stride` apart. If both are equal, sources and targets may overlap: the
    operation runs from the last word to the first if `target` is higher.
    """
    to, taken = Memory(target, target_stride), Memory(source, source_stride)
    if target > source:
        to = Memory(target + (words - 1) * target_stride, -target_stride)
        taken = Memory(source + (words - 1) * source_stride, -source_stride)
    return Vector("move", operands=(to, taken), length=words)
