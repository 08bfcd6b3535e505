"""What cores of a pipeline compute on their own, as instructions: their programs run them, and prices count them."""

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
    """Local work of all cores of a pipeline. `words` are those of the largest memory that any of it needs.

    At the end, where all labels lie, they are `end_words`.
    """

    def __init__(self, sites: ChainPlacement):
        self.sites, self.chain, self.micro = sites, sites.chain, sites.micro
        self.words = self.end_words = 0
        self._products: dict[tuple[int, str, int, int, int, int], CoreBody] = {}

    def product(self, n: int, which: str, size: tuple[int, int], at: int, other: int) -> CoreBody:
        """A product of a micro-batch on one core of layer n, whose tile of the weight is [inner, outer] = `size`.

        "forward" takes activations at `at` and gives results at `other`; "input" takes gradients at `at` and gives
        those of activations at `other`; "weight" adds up the product of activations at `other` and gradients at `at`.
        """
        key = n, which, *size, at, other
        # Equal tiles and addresses make equal bodies: most cores of a layer, and every micro-batch in a slot.
        if key not in self._products:
            self._products[key] = self._product(n, which, size, at, other)
        return self._products[key]

    def _product(self, n: int, which: str, size: tuple[int, int], at: int, other: int) -> CoreBody:
        memory, (inner, outer), micro = self.sites.maps[n], size, self.micro
        builder = Builder("product", memory.room.words)
        # One tile serves all three products: it is only read the other way, and nobody moves a weight.
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
        """What a core at the edge of layer n does with its `outer` columns of a micro-batch."""
        works = self.chain.edge_works(n)[is_back]
        return self._emit_works(self.sites.maps[n], NestTile(outer, self.micro), m, works)

    def once(self, n: int, size: tuple[int, int], is_edge: bool, when: StepPart) -> CoreBody:
        """What a core of layer n does once for a step."""
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
        """What the core at the end does with a micro-batch, or once."""
        samples = self.micro if when == "sample" else self.chain.samples
        tile = NestTile(self.chain.layers[-1].outputs, samples)
        return self._emit_works(self.sites.end, tile, m, self.chain.elementwise_works(ValueLocation("end"), when))

    def _emit_works(
        self, memory: MemoryMap, tile: NestTile, m: int, works: Iterable[LossWork | PointwiseWork], kind: str = ""
    ) -> CoreBody:
        # Words to work in are free again after each micro-batch: they begin behind all values every time.
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
    """A whole matrix of float32 in a core's memory."""
    return MatrixView(address, rows=rows, columns=columns, row_stride=columns, column_stride=1, dtype=ELEMENT_DTYPE)
