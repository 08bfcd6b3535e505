"""Emit loop nests over the tile of one core.

Matrices are stored as [columns, samples], so that any range of columns is contiguous. A nest whose operands all have
one layout is a single vector operation per scalar. Otherwise there is a loop over the shorter axis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import LazyError
from lazytensor.ir.nest import Access, Nest, Scalar
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory, Operand
from wse_sim.kernels.kernel import Allocator
from wse_sim.kernels.scalars import append, pointwise
from wse_sim.pipeline.layer_chain import ChainValue

ELEMENT_DTYPE = "float32"
REDUCTION_INSTRUCTIONS = {"add": ("add", 0.0), "maximum": ("max", float("-inf"))}
"""Reduction of a store -> its instruction, and the initial value."""
MATRIX, COLUMN, SAMPLE, SINGLE = "matrix", "column", "sample", "single"
"""Kinds of operands: one element for each column and sample, for each column, for each sample, or a single one."""
NEST_HINT = "Use elementwise operations on rows of activations, and sums over samples or over whole rows."


def operand_kind(access: Access, nest: Nest, value: ChainValue) -> str:
    """Return the kind of an operand, "matrix", "column", "sample" or "single", from the strides of its access.

    Strides of loops of extent 1 do not count. In a nest with one loop the shape and the time of `value` decide. Raise
    LazyError for other strides or an offset.
    """
    extents = [loop.extent for loop in nest.loops]
    strides = [stride if extent > 1 else 0 for stride, extent in zip(access.strides, extents, strict=True)]
    if not any(strides):
        if access.offset or math.prod(value.shape) != 1:
            # Each core has a piece of the value, and not the element.
            raise LazyError(f"{nest.name} reads element {access.offset} of {list(value.shape)}", hint=NEST_HINT)
        return SINGLE
    # The compiler merges two loops if all operands run through both. The value's shape tells which kind it was.
    kinds: dict[tuple[int, ...], str]
    if len(extents) == 1:
        rows = MATRIX if len(value.shape) > 1 else SAMPLE
        kinds = {(1,): rows if value.when == "sample" else COLUMN}
    else:
        kinds = {(extents[1], 1): MATRIX, (0, 1): COLUMN, (1, 0): SAMPLE}
    if access.offset or tuple(strides) not in kinds:
        raise LazyError(f"{nest.name} reads with the unsupported strides {strides}", hint=NEST_HINT)
    return kinds[tuple(strides)]


@dataclass(frozen=True)
class NestTile:
    """The tile of a nest on one core: numbers of columns and samples."""

    columns: int
    samples: int

    def size(self, kind: str) -> int:
        """Return the number of words of an operand: columns x samples, columns, samples, or 1, depending on `kind`."""
        return {MATRIX: self.columns * self.samples, COLUMN: self.columns, SAMPLE: self.samples, SINGLE: 1}[kind]


@dataclass(frozen=True)
class OperandPlacement:
    """The address and the kind of an operand on a core."""

    address: int
    kind: str


def emit_nest(
    nest: Nest,
    reads: Sequence[OperandPlacement],
    writes: Sequence[OperandPlacement],
    tile: NestTile,
    room: Allocator,
    builder: Builder,
) -> None:
    """Append the instructions of a nest over the tile of one core to `builder`.

    `reads` and `writes` have the address and kind of each operand. `room` provides scratch memory. Reductions within a
    sample start at their initial value, which they write first. Sums over samples add to the stored value. Raise
    LazyError for an unsupported operation or reduction. An empty tile has no instructions.
    """
    _NestEmitter(nest, (*reads,), (*writes,), tile, room, builder).run()


class _NestEmitter:
    """Emits one nest over one tile.

    - `flat`: the common kind of all operands, "" if there are several
    - `by_sample`: whether the loop runs over samples, else over columns
    - `rounds`: iterations of the loop
    - `length`: length of the vector operations
    """

    def __init__(
        self,
        nest: Nest,
        reads: tuple[OperandPlacement, ...],
        writes: tuple[OperandPlacement, ...],
        tile: NestTile,
        room: Allocator,
        builder: Builder,
    ):
        self.nest, self.reads, self.writes, self.tile, self.room, self.builder = (
            nest,
            reads,
            writes,
            tile,
            room,
            builder,
        )
        # Single elements are compatible with any layout.
        kinds = {p.kind for p in (*reads, *writes)} - {SINGLE}
        self.flat = next(iter(kinds), SINGLE) if len(kinds) < 2 else ""
        # Loop over the shorter axis, because each iteration costs a jump.
        self.by_sample = tile.samples <= tile.columns
        self.rounds = min(tile.samples, tile.columns)
        self.length = tile.size(self.flat) if self.flat else max(tile.samples, tile.columns)

    def run(self) -> None:
        """Append the instructions of the nest: a single pass if all operands have one kind, else a loop.

        Raise LazyError for an unsupported operation or reduction. An empty tile has no instructions.
        """
        if not self.length:
            return
        for store, write in zip(self.nest.stores, self.writes, strict=True):
            if store.reduce and store.reduce not in REDUCTION_INSTRUCTIONS:
                raise LazyError(f"{self.nest.name} uses the unsupported reduction {store.reduce!r}", hint=NEST_HINT)
            # Reductions within a sample start at their initial value for each micro-batch.
            if store.reduce and write.kind == SAMPLE:
                self.builder.move(Memory(write.address), REDUCTION_INSTRUCTIONS[store.reduce][1], self.tile.samples)
        if self.flat:
            self._body()
            return
        with self.builder.loop(self.rounds):
            self._body()

    def _body(self) -> None:
        """Append the vector operations of one iteration: one for each scalar of the nest, then the stores.

        A store that its scalar has already written has no operation.
        """
        operands: list[Operand] = []
        # Every scalar gets separate scratch memory: tiles at an edge are small and bodies are short.
        for n, scalar in enumerate(self.nest.body):
            operands.append(self._scalar(n, scalar, operands))
        for store, write in zip(self.nest.stores, self.writes, strict=True):
            target, value = self._vector(write), operands[store.value]
            if store.reduce:
                append(self.builder, REDUCTION_INSTRUCTIONS[store.reduce][0], (target, target, value), self.length)
            elif target != value:
                self.builder.move(target, value, self.length)

    def _scalar(self, n: int, scalar: Scalar, operands: Sequence[Operand]) -> Operand:
        """Append the operation of scalar `n` and return the operand with its result.

        A constant gives a number and a load gives its memory, without an operation. The result is written where it is
        stored, or else to scratch memory. Raise LazyError for a loop index or an unsupported operation.
        """
        if scalar.op == "const":
            return float(scalar.attr)
        if scalar.op == "load":
            return self._vector(self.reads[int(scalar.attr)])
        if scalar.op == "index":
            raise LazyError(f"{self.nest.name} reads a loop index, which is not supported", hint=NEST_HINT)
        operation = pointwise(self.nest, scalar)
        # Compute a stored value directly at its destination; operands are read before it is written.
        stores = zip(self.nest.stores, self.writes, strict=True)
        target = next((self._vector(w) for s, w in stores if s.value == n and not s.reduce), None)
        target = target or Memory(self.room.take(self.length, ELEMENT_DTYPE))
        spare = [Memory(self.room.take(self.length, ELEMENT_DTYPE)) for _ in range(operation.spares)]
        operation.emit(self.builder, target, [operands[a] for a in scalar.args], self.length, spare)
        return target

    def _vector(self, placing: OperandPlacement) -> Memory:
        """Return the memory operand of a placement, with strides for the loop unless all operands have one kind."""
        if placing.kind == SINGLE:
            return Memory(placing.address, stride=0)
        if self.flat:
            return Memory(placing.address)
        columns, samples = {MATRIX: (self.tile.samples, 1), COLUMN: (1, 0), SAMPLE: (0, 1)}[placing.kind]
        inner, outer = (columns, samples) if self.by_sample else (samples, columns)
        return Memory(placing.address, stride=inner, steps=(outer,))
