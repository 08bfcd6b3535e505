"""A backend that runs every kernel of a step on a small mesh of simulated cores.

The host only moves arrays between kernels. Kernels run either on data with NumPy, or as wavelets, cycle by cycle.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lazytensor.core.dtype import round_to
from lazytensor.errors import LazyError, PlacementError
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Type
from lazytensor.runtime.backend import Store
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.kernels.calls import VIEWS, call_of
from wse_sim.kernels.mesh_call import Cores, MeshCall, operation
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, Machine
from wse_sim.phase import Phase
from wse_sim.planner.attention_blocks import fuse_attention_blocks
from wse_sim.reference.phase_reference import apply


class MeshBackend:
    """A backend that runs programs on simulated cores of `machine`.

    `machine` is a machine or its name. `side` is the side of a square mesh, or its (width, height). If `wavelets` is
    True, kernels are simulated cycle by cycle, else on data with NumPy.

    >>> import lazytensor as lt, numpy as np, wse_sim
    >>> program = lt.trace(lambda x, y: x @ y, lt.ones(4, 4), lt.ones(4, 4))
    >>> run = wse_sim.MeshBackend(4, "wse2").compile(program, {})
    >>> run.step([np.eye(4, dtype=np.float32), np.full((4, 4), 2, np.float32)])[0][0]
    array([2., 2., 2., 2.], dtype=float32)
    """

    name = "mesh"

    def __init__(self, side: int | tuple[int, int] = 4, machine: Machine | str = WSE2, wavelets: bool = False):
        width, height = (side, side) if isinstance(side, int) else side
        self.rect, self.machine, self.wavelets = Rect(0, 0, width, height), Machine.of(machine), wavelets

    def compile(self, program: Program, store: Store) -> "MeshExecutable":
        """Return an executable with a kernel for each instruction of `program`.

        Raise PlacementError if the only problem is that kernels do not fit into memory. Raise LazyError if cores cannot
        run an instruction. The error lists all such instructions with script line and advice.
        """
        return MeshExecutable(self, fuse_attention_blocks(program, self._runs(program)), store)

    def _runs(self, program: Program) -> Callable[[Instr], bool]:
        """Return a predicate that is True for a fused attention block which cores can run and hold in memory."""
        types = [buffer.type for buffer in program.buffers]

        def runs(instr: Instr) -> bool:
            # If the whole block does not fit, its smaller unfused kernels may.
            try:
                _make_fitting_call(instr, [types[r] for r in instr.reads], self)
            except LazyError:
                return False
            return True

        return runs


class MeshExecutable:
    """A program whose kernels run on a mesh. `cycles` is the total of all steps so far.

    >>> import lazytensor as lt, wse_sim
    >>> run = wse_sim.MeshBackend(4).compile(lt.trace(lambda x: x @ x, lt.ones(4, 4)), {})
    >>> print(run.placement())
    4x4+0+0
    matmul: on the cores
    """

    report = None
    owned: frozenset[int] = frozenset()

    def __init__(self, backend: MeshBackend, program: Program, store: Store):
        self.program, self.cycles = program, 0
        self._backend, self._store = backend, store
        self._calls = _make_calls(program, backend)

    def placement(self) -> str:
        """Return the rectangle as "WxH+X+Y", and a line for each instruction: on the cores, or carried by the host.

        The host carries views only. See `Executable`.
        """
        calls = zip(self.program.instrs, self._calls, strict=True)
        lines = [f"{instr.label}: {'on the cores' if call else 'carried by the host'}" for instr, call in calls]
        return "\n".join([str(self._backend.rect), *lines])

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step and return the fetches; see `Executable`. Updates the state in the store and `cycles`.

        Each result is rounded to the type of its buffer. New states are written after the last kernel.
        """
        program = self.program
        arrays = self._arrays(batch)
        for instr, call in zip(program.instrs, self._calls, strict=True):
            reads, writes = [arrays[r] for r in instr.reads], [arrays[w] for w in instr.writes]
            if call:
                call.run(reads, writes, self._read)
            else:
                writes[0].reshape(-1)[:] = reads[0].reshape(-1)
            # Round to the buffer's type, which may be narrower than the core's, as for a float32 sum into float16.
            for w in instr.writes:
                arrays[w][...] = round_to(arrays[w], program.buffers[w].type.dtype)
        # Copy all new states before writing any: one may be another's old value.
        updates = [(old, arrays[new].copy()) for old, new in program.state.values() if old != new]
        for old, value in updates:
            arrays[old][...] = value
        return [arrays[i] for i in program.fetches]

    def _arrays(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return an array for each buffer: the store's own array for state, the batch, constants, and zeros for others.

        Batch arrays are converted to the type of their buffer.
        """
        states = {old: name for name, (old, _) in self.program.state.items()}
        inputs = dict(zip(self.program.batch, batch, strict=True))
        arrays = []
        for buffer in self.program.buffers:
            if buffer.index in states:
                arrays.append(self._store.array(states[buffer.index]))
            elif buffer.index in inputs:
                arrays.append(np.asarray(inputs[buffer.index], buffer.type.dtype.host))
            elif buffer.value is not None:
                arrays.append(np.asarray(buffer.value))
            else:
                arrays.append(np.zeros(buffer.type.shape, buffer.type.dtype.host))
        return arrays

    def _read(self, phase: Phase, memory: np.ndarray) -> np.ndarray:
        """Run a phase program on `memory`, add its cycles to `cycles`, and return the new memory.

        Without `wavelets` it runs on data with NumPy, and the cycles are those of the closed forms.
        """
        machine = self._backend.machine
        # Running on data takes no simulated time, so use the cycles of the closed forms.
        if not self._backend.wavelets:
            self.cycles += cost(phase, machine).cycles
            return apply(phase, memory, machine)
        done = simulate_phase(phase, machine, memory).expect_finished()
        self.cycles += done.cycles
        return done.memory


def _make_calls(program: Program, backend: MeshBackend) -> list[MeshCall | None]:
    """Return the call of each instruction, None for views, which the host carries.

    Raise LazyError that lists all instructions that cannot run. It is a PlacementError if all of them only lack memory.
    """
    types = [buffer.type for buffer in program.buffers]
    calls: list[MeshCall | None] = []
    refusals: list[LazyError] = []
    for instr in program.instrs:
        try:
            is_carried = operation(instr) in VIEWS
            calls.append(None if is_carried else _make_fitting_call(instr, [types[r] for r in instr.reads], backend))
        except LazyError as error:
            refusals.append(error)
    # Report all errors at once.
    if len(refusals) > 1:
        kind = PlacementError if all(isinstance(refusal, PlacementError) for refusal in refusals) else LazyError
        lines = "\n  ".join(_list_refusals(refusals))
        raise kind(f"{len(refusals)} of {len(program.instrs)} kernels do not run on the cores:\n  {lines}")
    if refusals:
        raise refusals[0]
    return calls


def _list_refusals(refusals: Sequence[LazyError]) -> Iterator[str]:
    """Yield the text of each distinct error with its count, grouped by hint, with the hint after each group.

    Texts begin with the script line, if there is one.
    """
    for hint in dict.fromkeys(error.hint for error in refusals):
        counts = Counter(f"{e.where}: {e.what}" if e.where else e.what for e in refusals if e.hint == hint)
        yield from (f"{text} ({count} times)" if count > 1 else text for text, count in counts.items())
        yield f"  {hint}"


def _make_fitting_call(instr: Instr, reads: Sequence[Type], backend: MeshBackend) -> MeshCall:
    """Return the call of an instruction with operand types `reads`.

    Raise LazyError with the script line if cores cannot run it, and PlacementError if it does not fit into their
    memory.
    """
    try:
        call = call_of(instr, reads, Cores(backend.rect, backend.machine))
    except LazyError as error:
        raise LazyError(f"{_kernel_label(instr)}: {error.what}", where=instr.where, hint=error.hint) from None
    needed, usable = call.kernel.words * WORD_BYTES, backend.machine.usable_bytes_per_pe
    if needed > usable:
        rect = backend.rect
        text = (
            f"{_kernel_label(instr)} needs {needed:,} bytes on each of {rect.width} x {rect.height} cores, which have "
            f"{usable:,} usable bytes"
        )
        raise PlacementError(text, where=instr.where, hint="Use more cores.")
    return call


def _kernel_label(instr: Instr) -> str:
    """Return the module and the kernel of an instruction, or the operation of a "call" kernel."""
    return instr.label.removesuffix(instr.kernel) + operation(instr) if instr.kernel == "call" else instr.label
