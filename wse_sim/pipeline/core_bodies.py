"""The local instructions of the cores of a pipeline. Core programs run them, and prices count them."""

from collections.abc import Iterable

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Instruction
from wse_sim.kernels.matmul.tile_product import MatrixView, multiply
from wse_sim.pipeline.layer_chain import LossWork, PointwiseWork, StepPart, ValueLocation
from wse_sim.pipeline.layer_placement import ChainPlacement
from wse_sim.pipeline.losses import lower_loss
from wse_sim.pipeline.memory_map import MemoryMap
from wse_sim.pipeline.tile_nests import NestTile, OperandPlacement, emit_nest, operand_kind

ELEMENT_DTYPE = "float32"
CoreBody = tuple[Instruction, ...]


class CoreBodies:
    """The local instructions of all cores of a pipeline.

    `words` is the largest memory that any core of a layer needs, updated as bodies are built. `end_words` is that of
    the core at the end, which stores all labels.
    """

    def __init__(self, sites: ChainPlacement):
        self.sites, self.chain, self.micro = sites, sites.chain, sites.micro
        self.words = self.end_words = 0
        self._products: dict[tuple[int, str, int, int, int, int], CoreBody] = {}

    def product(self, n: int, which: str, size: tuple[int, int], at: int, other: int) -> CoreBody:
        """Return a matrix product of a micro-batch on one core of layer `n`. `size` is its weight tile [inner, outer].

        - `which` = "forward": read activations at `at`, write results to `other`
        - `which` = "input": read gradients at `at`, write gradients of activations to `other`
        - `which` = "weight": add the product of activations at `other` and gradients at `at` to the weight gradient

        Results are cached.
        """
        key = n, which, *size, at, other
        # Most cores of a layer have equal tiles and addresses, and so does every micro-batch in the same slot.
        if key not in self._products:
            self._products[key] = self._product(n, which, size, at, other)
        return self._products[key]

    def _product(self, n: int, which: str, size: tuple[int, int], at: int, other: int) -> CoreBody:
        """Build the instructions of the product that `product` describes. Raises `words` to the memory of the layer."""
        memory, (inner, outer), micro = self.sites.maps[n], size, self.micro
        builder = Builder("product", memory.room.words)
        # All three products use one weight tile, read along rows or columns, so no weight moves.
        tile = make_matrix_view(memory.at(self.chain.layers[n].weight, 0), inner, outer)
        if which == "forward":
            multiply(
                builder,
                tile.turned(),
                make_matrix_view(at, inner, micro),
                make_matrix_view(other, outer, micro),
                begins=True,
            )
        elif which == "input":
            multiply(
                builder, tile, make_matrix_view(at, outer, micro), make_matrix_view(other, inner, micro), begins=True
            )
        else:
            change = make_matrix_view(memory.at(self.chain.weight_gradient(n).result, 0), inner, outer)
            multiply(
                builder, make_matrix_view(other, inner, micro), make_matrix_view(at, outer, micro).turned(), change
            )
        self.words = max(self.words, memory.room.words)
        return builder.body()

    def edge(self, n: int, outer: int, m: int, is_back: bool) -> CoreBody:
        """Return the elementwise work of a core at the edge (u = 0) of layer `n` on its `outer` result columns.

        It is for micro-batch `m`. If `is_back`, it is the work of the backward sweep, else that of the forward sweep.
        """
        works = self.chain.edge_works(n)[is_back]
        return self._emit_works(self.sites.maps[n], NestTile(outer, self.micro), m, works)

    def once(self, n: int, size: tuple[int, int], is_edge: bool, when: StepPart) -> CoreBody:
        """Return the work that a core of layer `n` does once in a step, "before" or "after" all samples (`when`).

        `size` is that of its weight tile [inner, outer]. A core at the edge (u = 0) has work on result columns too.
        """
        memory, (inner, outer) = self.sites.maps[n], size
        tiles = self._emit_works(
            memory, NestTile(inner, outer), 0, self.chain.elementwise_works(ValueLocation("tiles", n), when), "matrix"
        )
        if not is_edge:
            return tiles
        return tiles + self._emit_works(
            memory, NestTile(outer, self.micro), 0, self.chain.elementwise_works(ValueLocation("edge", n), when)
        )

    def end(self, when: StepPart, m: int) -> CoreBody:
        """Return the work of the core after the last layer: for micro-batch `m` if `when` is "sample".

        Otherwise it is the work that is done once, "before" or "after" all samples, on the whole batch.
        """
        samples = self.micro if when == "sample" else self.chain.samples
        tile = NestTile(self.chain.layers[-1].outputs, samples)
        return self._emit_works(self.sites.end, tile, m, self.chain.elementwise_works(ValueLocation("end"), when))

    def _emit_works(
        self, memory: MemoryMap, tile: NestTile, m: int, works: Iterable[LossWork | PointwiseWork], kind: str = ""
    ) -> CoreBody:
        """Return the instructions of elementwise works and losses on one tile, for micro-batch `m`.

        `kind` is the kind of all operands, or "" to derive each from its access. Raises `words`, or `end_words` for the
        core at the end, to the memory with scratch buffers.
        """
        # Scratch memory is reused for each micro-batch: it begins after all values.
        room, builder = memory.scratch(), Builder("between", 0)
        for work in works:
            if isinstance(work, LossWork):
                lower_loss(work, memory, tile, m, room, builder)
                continue
            accesses = zip((*work.nest.reads, *work.nest.writes), (*work.reads, *work.writes), strict=True)
            placings = [
                OperandPlacement(memory.at(value, m), kind or operand_kind(a, work.nest, value))
                for a, value in accesses
            ]
            reads, writes = placings[: len(work.reads)], placings[len(work.reads) :]
            emit_nest(work.nest, reads, writes, tile, room, builder)
        if memory is self.sites.end:
            self.end_words = max(self.end_words, room.words)
        else:
            self.words = max(self.words, room.words)
        return builder.body()


def make_matrix_view(address: int, rows: int, columns: int) -> MatrixView:
    """Return the view of a contiguous float32 matrix in a core's memory."""
    return MatrixView(address, rows=rows, columns=columns, row_stride=columns, column_stride=1, dtype=ELEMENT_DTYPE)
