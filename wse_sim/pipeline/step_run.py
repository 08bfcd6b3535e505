"""Run a step of a pipeline in one simulation: load inputs and state, simulate, and read the results back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazytensor.errors import LazyError, PlacementError
from lazytensor.ir.program import Program
from lazytensor.runtime.backend import Store
from wse_sim.fabric.mesh import Mesh
from wse_sim.fabric.run import RunResult, simulate
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.pipeline.layer_chain import ChainValue, LossWork, chain_of
from wse_sim.pipeline.layer_placement import ChainPlacement, sites_of
from wse_sim.pipeline.lowering import lower_pipeline
from wse_sim.pipeline.memory_map import MemoryMap, find_external_values


@dataclass(frozen=True)
class PipelineRun:
    """The results of a step: fetches in order, new state by name, the placement, and the result of the simulation."""

    fetches: tuple[np.ndarray, ...]
    state: dict[str, np.ndarray]
    sites: ChainPlacement
    result: RunResult

    @property
    def cycles(self) -> int:
        """Return the cycles of the step."""
        return self.result.cycles


class PipelineStep:
    """A program lowered to `rects`, one for each layer, with micro-batches of `micro` samples.

    Routes and core programs are created once, in the constructor. It raises LazyError if the program is no chain of
    layers or `micro` does not divide the batch, and PlacementError if the rectangles are unsuitable.
    """

    def __init__(self, program: Program, rects: Sequence[Rect], machine: Machine, micro: int = 1):
        self.program, self.sites = program, sites_of(chain_of(program), rects, micro)
        self.mesh = lower_pipeline(self.sites, machine)

    def load(self, store: Store, batch: Sequence[np.ndarray]) -> None:
        """Write state and batch into the memories of the cores, and zeros elsewhere.

        `batch` has the order of `program.batch`. State that the step does not use is not loaded. Raise PlacementError
        if a core does not have enough memory.
        """
        # State that the step does not use is not loaded.
        states = {old: name for name, (old, _) in self.program.state.items()}
        values = find_external_values(self.sites.chain).values()
        arrays = {value.buffer: store.array(states[value.buffer]) for value in values if value.buffer in states}
        arrays |= dict(zip(self.program.batch, batch, strict=True))
        self.mesh.reload(_initial_memories(self.sites, self.mesh, arrays))

    def read(self, result: RunResult) -> PipelineRun:
        """Return fetches and new state from the memories of a finished simulation, as new float32 arrays.

        State that the step does not use is left out. Raise LazyError for a fetch of samples between layers.
        """
        program, finals = self.program, self.sites.chain.finals
        reader = _ArrayAccess(self.sites, result.memory)
        state = {name: reader.array(finals[new]) for name, (_, new) in program.state.items() if new in finals}
        fetches = tuple(reader.array(finals[f]) for f in program.fetches)
        return PipelineRun(fetches, state, sites=self.sites, result=result)

    def run(self, store: Store, batch: Sequence[np.ndarray]) -> PipelineRun:
        """Load `store` and `batch`, run one step and return its results. `store` is not modified.

        Raise an error if the simulation does not finish.
        """
        # Reload everything: leftovers of the last step must not enter sums of this one.
        self.load(store, batch)
        return self.read(simulate(self.mesh).expect_finished())


def run_pipeline(
    program: Program, store: Store, batch: Sequence[np.ndarray], rects: Sequence[Rect], machine: Machine, micro: int = 1
) -> PipelineRun:
    """Lower a program and run a single step; see `PipelineStep`."""
    return PipelineStep(program, rects, machine, micro).run(store, batch)


def _initial_memories(sites: ChainPlacement, mesh: Mesh, arrays: dict[int, np.ndarray]) -> np.ndarray:
    """Return the memories [height, width, words] of all cores before the step, as float32.

    `arrays` has an array for each input buffer. Labels are written as one-hot rows. Raise PlacementError if a core
    needs more memory than it has.
    """
    machine = mesh.machine
    if mesh.words * WORD_BYTES > machine.usable_bytes_per_pe:
        text = f"a core needs {mesh.words * WORD_BYTES:,} bytes and has {machine.usable_bytes_per_pe:,} usable bytes"
        raise PlacementError(text, hint="Use larger rectangles or fewer samples.")
    reader = _ArrayAccess(sites, np.zeros((mesh.height, mesh.width, mesh.words), np.float32))
    for value in find_external_values(sites.chain).values():
        reader.put(value, np.asarray(arrays[value.buffer], np.float32))
    for work in sites.chain.works:
        if isinstance(work, LossWork):
            # Cores have no gather, so the lookup of a label becomes a product with a one-hot row.
            labels = np.asarray(arrays[work.labels.buffer]).reshape(-1, 1)
            reader.put_targets((labels == np.arange(work.logits.shape[-1])).astype(np.float32))
    return reader.memory


class _ArrayAccess:
    """Reads and writes the host's arrays in `memory` [height, width, words] of all cores."""

    def __init__(self, sites: ChainPlacement, memory: np.ndarray):
        self.sites, self.memory = sites, memory

    def put(self, value: ChainValue, array: np.ndarray) -> None:
        """Write an array to the cores that store its value. Raise LazyError for per-sample values between layers."""
        pieces = self._pieces(value, array)
        for where, piece in pieces:
            where[:] = piece.reshape(-1)

    def array(self, value: ChainValue) -> np.ndarray:
        """Return a new float32 array with the value, collected from the cores that store it.

        Raise LazyError for per-sample values between layers.
        """
        array = np.zeros(value.shape, np.float32)
        for where, piece in self._pieces(value, array):
            piece[...] = where.reshape(piece.shape)
        return array

    def put_targets(self, rows: np.ndarray) -> None:
        """Write the one-hot labels `rows` [samples, classes] of a loss to the core at the end."""
        x, y = self.sites.seats[-1].after
        words, at = self._batch_columns(rows).reshape(-1), self.sites.end.targets
        self.memory[y, x, at : at + words.size] = words

    def _pieces(self, value: ChainValue, array: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs of a range of memory and the part of the array that is stored there, both as views.

        The elements of a pair are in equal order but may differ in shape. Raise LazyError for per-sample values inside
        the pipeline, which are not kept.
        """
        site, n = value.home.site, value.home.layer
        if site == "feed":
            return [(self._words(self.sites.seats[0].before, 0, array.size), self._batch_columns(array))]
        if site == "end":
            is_rows = len(array.shape) > 1
            words = self._words(self.sites.seats[-1].after, self.sites.end.at(value, 0), array.size)
            return [(words, self._batch_columns(array) if is_rows else array)]
        on, memory = self.sites.seats[n], self.sites.maps[n]
        if value.when == "sample":
            raise LazyError(
                f"buffer {value.buffer} has a value for each sample, which the pipeline does not keep",
                hint="Fetch results of the last layer.",
            )
        if site == "edge":
            parts = [array[on.outer(v).start : on.outer(v).stop] if array.shape else array for v in range(on.height)]
            return [(self._at(on.cell(0, v), memory, value, part.size), part) for v, part in enumerate(parts)]
        # A core stores its tile with inputs outermost, whatever the host's layout is.
        tiles = array.T if self.sites.chain.layers[n].is_turned else array
        pieces = []
        for u, v in on.positions:
            tile = tiles[on.inner(u).start : on.inner(u).stop, on.outer(v).start : on.outer(v).stop]
            pieces.append((self._at(on.cell(u, v), memory, value, tile.size), tile))
        return pieces

    def _batch_columns(self, array: np.ndarray) -> np.ndarray:
        """Return rows of samples as [micro-batch, column, sample]."""
        return array.reshape(self.sites.count, self.sites.micro, -1).swapaxes(1, 2)

    def _at(self, cell: tuple[int, int], memory: MemoryMap, value: ChainValue, words: int) -> np.ndarray:
        """Return a view of the `words` words of a value on core `cell`."""
        return self._words(cell, memory.at(value, 0), words)

    def _words(self, cell: tuple[int, int], at: int, words: int) -> np.ndarray:
        """Return a view of `words` words from address `at` on, on core `cell` (column, row)."""
        return self.memory[cell[1], cell[0], at : at + words]
