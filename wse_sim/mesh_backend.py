"""Simulated cores as a backend: every kernel of a step runs on a small mesh, and the host only carries arrays between.

A reading says how: as data with NumPy, or as wavelets, cycle by cycle.
"""

from collections.abc import Sequence

import numpy as np

from lazytensor.dtype import round_to
from lazytensor.errors import LazyError, PlacementError
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Type
from lazytensor.runtime.backend import Store
from wse_sim.fabric import simulate_phase
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.kernels.calls import CARRIES, MeshCall, call_of
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, Machine
from wse_sim.numbers.data import apply
from wse_sim.phase import Phase
from wse_sim.price.cost import cost


class MeshBackend:
    """Runs programs on `side` x `side` simulated cores of `machine`; with `wavelets` cycle by cycle, else as data."""

    name = "mesh"

    def __init__(self, side: int = 4, machine: Machine = WSE2, wavelets: bool = False):
        self.rect, self.machine, self.wavelets = Rect(0, 0, side, side), machine, wavelets

    def compile(self, program: Program, store: Store) -> "MeshExecutable":
        """Make the kernels of `program`.

        Raises LazyError for an instruction that has none that runs, PlacementError for one that does not fit.
        """
        return MeshExecutable(self, program, store)


class MeshExecutable:
    """A program whose kernels run on a mesh. `cycles` counts those of all steps so far, in the backend's reading."""

    report = None

    def __init__(self, backend: MeshBackend, program: Program, store: Store):
        self.program, self.cycles = program, 0
        self._backend, self._store = backend, store
        types = [buffer.type for buffer in program.buffers]
        self._calls = [
            None if instr.kernel in CARRIES else _fitting(instr, [types[r] for r in instr.reads], backend)
            for instr in program.instrs
        ]

    def placement(self) -> str:
        """The kernels that share the one rectangle, one after the other; see `Executable`."""
        calls = zip(self.program.instrs, self._calls, strict=True)
        lines = [f"{instr.label}: {'on the cores' if call else 'carried by the host'}" for instr, call in calls]
        return "\n".join([str(self._backend.rect), *lines])

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step; see `Executable`."""
        program = self.program
        arrays = self._arrays(batch)
        for instr, call in zip(program.instrs, self._calls, strict=True):
            reads, writes = [arrays[r] for r in instr.reads], [arrays[w] for w in instr.writes]
            if call:
                call.run(reads, writes, self._read)
            else:
                CARRIES[instr.kernel](instr, reads, writes[0])
            # Cores round to the types of their tiles; the buffer's type may be narrower, as it is for a float32 sum
            # into float16.
            for w in instr.writes:
                arrays[w][...] = round_to(arrays[w], program.buffers[w].type.dtype)
        # All new states are read before any is written: one may be another's old value.
        updates = [(old, arrays[new].copy()) for old, new in program.state.values() if old != new]
        for old, value in updates:
            arrays[old][...] = value
        return [arrays[i] for i in program.fetches]

    def _arrays(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """An array for each buffer: the store's own for state, and new ones for what a step makes."""
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
        machine = self._backend.machine
        # The data reading has no clock of its own, so its cycles are those of the closed forms.
        if not self._backend.wavelets:
            self.cycles += cost(phase, machine).cycles
            return apply(phase, memory, machine)
        done = simulate_phase(phase, machine, memory).expect_finished()
        self.cycles += done.cycles
        return done.memory


def _fitting(instr: Instr, reads: Sequence[Type], backend: MeshBackend) -> MeshCall:
    """The call of an instruction. Raises LazyError, which says where in the program, if cores cannot run or hold it."""
    try:
        call = call_of(instr, reads, backend.rect)
    except LazyError as error:
        raise LazyError(f"{instr.label}: {error.what}", where=instr.where, hint=error.hint) from None
    needed, usable = call.kernel.words * WORD_BYTES, backend.machine.usable_bytes_per_pe
    if needed > usable:
        side = backend.rect.width
        text = f"{instr.label} needs {needed:,} bytes of {usable:,} on each of {side} x {side} cores"
        raise PlacementError(text, where=instr.where, hint="Take more cores.")
    return call
