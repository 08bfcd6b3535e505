"""A chain of layers as the programs of all cores and the routes between them.

Every core runs one task, in the order of a schedule of micro-batches that all cores of a layer share: so words of two
micro-batches never change places on a colour, and nothing but the words themselves keeps cores in step.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wse_sim.fabric.lowering.moves import forward, send, store
from wse_sim.fabric.lowering.reductions import Block
from wse_sim.fabric.mesh import Mesh
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import CoreProgram, Instruction, check_program
from wse_sim.kernels.kernel import body_of
from wse_sim.kernels.tiles import MatrixView, multiply
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.pipeline.chain import Chain, Home, Loss, Pointwise, When
from wse_sim.pipeline.layer_routes import routes_of
from wse_sim.pipeline.losses import lower_loss
from wse_sim.pipeline.memory_map import LayerMap, MemoryMap, end_map, layer_map
from wse_sim.pipeline.seats import Cell, Seat, seat
from wse_sim.pipeline.tile_nests import Placing, Tile, emit_nest, kind_of
from wse_sim.pipeline.wires import Wires

WIDE = "float32"
Turn = tuple[str, int]
"""A sweep, "forward" or "backward", and the number of a micro-batch."""


def turns(count: int, flights: int, is_training: bool) -> list[Turn]:
    """The order of a layer: `flights` micro-batches forward, then one back and one forward in turn."""
    # As many forward as layers follow: when they are through, the first gradient is on its way back.
    order = [("forward", m) for m in range(min(flights, count) if is_training else count)]
    if is_training:
        for m in range(count):
            order.append(("backward", m))
            if m + flights < count:
                order.append(("forward", m + flights))
    return order


@dataclass(frozen=True)
class Pipeline:
    """A chain on its cores, ready to run: `seats` by layer, `maps` by layer, and `end` for the core behind them."""

    chain: Chain
    micro: int
    seats: Sequence[Seat]
    maps: Sequence[LayerMap]
    end: MemoryMap
    mesh: Mesh

    @property
    def count(self) -> int:
        """Micro-batches of a step."""
        return self.chain.samples // self.micro


def pipeline_of(chain: Chain, rects: Sequence[Rect], machine: Machine, micro: int) -> Pipeline:
    """Put a chain on rectangles, one for each layer, with `micro` samples at a time.

    Raises PlacementError for rectangles that are too small or routes that have no colour left.
    """
    seats = [
        seat(r, one.inputs, one.outputs, f"layer {n}")
        for n, (r, one) in enumerate(zip(rects, chain.layers, strict=True))
    ]
    count = chain.samples // micro
    maps = [
        layer_map(chain, n, one, micro, flights_of(n, len(seats), count, chain.is_training))
        for n, one in enumerate(seats)
    ]
    width, height = max(r.x + r.width for r in rects), max(r.y + r.height for r in rects)
    mesh = Mesh(machine, width, height)
    pipeline = Pipeline(chain=chain, micro=micro, seats=seats, maps=maps, end=end_map(chain, micro), mesh=mesh)
    _Lowering(pipeline).run()
    return pipeline


def flights_of(layer: int, layers: int, count: int, is_training: bool) -> int:
    """Micro-batches that wait in a layer: one for each layer from it to the last."""
    return min(count, layers - layer) if is_training else 1


class _Lowering:
    """Writes the programs of one pipeline."""

    def __init__(self, pipeline: Pipeline):
        self.pipeline, self.chain, self.micro = pipeline, pipeline.chain, pipeline.micro
        wires = Wires(pipeline.mesh)
        self.programs: dict[Cell, list[Instruction]] = defaultdict(list)
        self.words = 0
        self._bodies: dict[object, tuple[Instruction, ...]] = {}
        self.routes = routes_of(pipeline.seats, wires, self.chain.is_training)

    def run(self) -> None:
        """All cores, then the mesh."""
        count, layers = self.pipeline.count, self.chain.layers
        self._feed(count)
        for n in range(len(layers)):
            self._layer(n, count)
        self._end(count)
        # Equal cores share a program: the engine keeps each once.
        alike: dict[tuple[Instruction, ...], list[Cell]] = defaultdict(list)
        for cell, body in self.programs.items():
            alike[tuple(body)].append(cell)
        for number, (instructions, cells) in enumerate(alike.items()):
            program = CoreProgram(f"p{number}", self.words, (("main", instructions),))
            check_program(program)
            self.pipeline.mesh.run(program, [x for x, _ in cells], [y for _, y in cells])

    def _do(self, cell: Cell, *instructions: Instruction) -> None:
        self.programs[cell] += instructions

    def _feed(self, count: int) -> None:
        # The whole batch lies there from the start, as what comes over the edge would arrive ahead of its turn.
        words = self.chain.layers[0].inputs * self.micro
        on, colour = self.pipeline.seats[0], self.routes[0].enter[0]
        for m in range(count):
            self._do(on.before, send(colour, m * words, words))
        self.words = max(self.words, count * words)

    def _layer(self, n: int, count: int) -> None:
        on, last = self.pipeline.seats[n], len(self.pipeline.seats) - 1
        self._pointwise_all(n, "before")
        for sweep, m in turns(count, self.pipeline.maps[n].flights, self.chain.is_training):
            if sweep == "forward":
                self._forward(n, m)
            else:
                self._backward(n, m)
        self._pointwise_all(n, "after")
        # A port holds one micro-batch, and passes it on while its layer works on the next.
        if n < last:
            self._pass_on(on.after, on.outputs, self.routes[n].leave[-1], self.routes[n + 1].enter[0], count)
        if n and self.chain.is_training:
            self._pass_on(on.before, on.inputs, self.routes[n].back_leave[-1], self.routes[n - 1].back_enter[-1], count)

    def _pass_on(self, cell: Cell, columns: int, source: int, target: int, count: int) -> None:
        words = columns * self.micro
        for _ in range(count):
            self._do(cell, store(source, 0, words), send(target, 0, words))
        self.words = max(self.words, words)

    def _forward(self, n: int, m: int) -> None:
        on, memory, routes, micro = self.pipeline.seats[n], self.pipeline.maps[n], self.routes[n], self.micro
        at, result = memory.activations(m), self.chain.layers[n].result
        for u, v in on.positions:
            cell, inner, outer = on.cell(u, v), on.inner(u), on.outer(v)
            words, beyond = len(inner) * micro, (on.inputs - inner.stop) * micro
            # The first core on the way keeps what is its own and passes the rest on.
            if v == 0:
                self._do(cell, store(routes.enter[u], at, words))
                if beyond:
                    self._do(cell, forward(routes.enter[u], routes.enter[u + 1], beyond))
                if on.height > 1:
                    self._do(cell, send(routes.down, at, words))
            else:
                self._do(cell, store(routes.down, at, words))
            # Sums end where the edge works on them; the end has its own copy of those of the last layer.
            is_own = u == 0 and result.home == Home("edge", n)
            target = memory.at(result, m) if is_own else memory.partial
            self._do(cell, *self._product(n, "forward", len(inner), len(outer), at, target))
            self._do(cell, *_summed(routes.sums, u, on.width, Block(target, len(outer) * micro)))
            if u == 0:
                self._do(cell, *self._pointwise(n, len(outer), m, self.chain.edge_works(n)[0]))
                self._leave(n, v, m, target)

    def _leave(self, n: int, v: int, m: int, target: int) -> None:
        """Results in order: those of the positions before, then its own."""
        on, memory, leave = self.pipeline.seats[n], self.pipeline.maps[n], self.routes[n].leave
        outer, is_last = on.outer(v), n == len(self.chain.layers) - 1
        at = target if is_last else memory.at(self.chain.layers[n + 1].source, m)
        # Columns stay in their order on the wire, so that whoever takes them can cut them as it likes.
        if v:
            self._do(on.cell(0, v), forward(leave[v - 1], leave[v], outer.start * self.micro))
        self._do(on.cell(0, v), send(leave[v], at, len(outer) * self.micro))

    def _backward(self, n: int, m: int) -> None:
        on, memory, routes, micro = self.pipeline.seats[n], self.pipeline.maps[n], self.routes[n], self.micro
        arrived, gradient = self.chain.arriving(n), self.chain.gradient(n)
        for u, v in on.positions:
            cell, inner, outer = on.cell(u, v), on.inner(u), on.outer(v)
            words = len(outer) * micro
            is_own = u == 0 and gradient.home == Home("edge", n)
            at = memory.at(gradient, m) if is_own else memory.gradient
            if u == 0:
                if v:
                    self._do(cell, forward(routes.back_enter[v], routes.back_enter[v - 1], outer.start * micro))
                # What arrives is the gradient after the activation; what is multiplied the one before it.
                put = memory.at(arrived, m) if arrived.home == Home("edge", n) else memory.gradient
                self._do(cell, store(routes.back_enter[v], put, words))
                self._do(cell, *self._pointwise(n, len(outer), m, self.chain.edge_works(n)[1]))
                if on.width > 1:
                    self._do(cell, send(routes.back_along, at, words))
            else:
                self._do(cell, store(routes.back_along, at, words))
            if n:
                self._do(cell, *self._product(n, "input", len(inner), len(outer), at, memory.partial))
                self._do(cell, *_summed(routes.back_sums, v, on.height, Block(memory.partial, len(inner) * micro)))
                if v == 0:
                    if u:
                        self._do(cell, forward(routes.back_leave[u - 1], routes.back_leave[u], inner.start * micro))
                    self._do(cell, send(routes.back_leave[u], memory.partial, len(inner) * micro))
            # Last, while the gradient of the activations is on its way.
            self._do(cell, *self._product(n, "weight", len(inner), len(outer), at, memory.activations(m)))

    def _product(self, n: int, which: str, inner: int, outer: int, at: int, other: int) -> tuple[Instruction, ...]:
        """Products of a micro-batch on one core, whose tile of the weight lies [inner, outer]."""
        key = n, which, inner, outer, at, other
        # Equal tiles and addresses make equal bodies: most cores of a layer, and every micro-batch in a slot.
        if key not in self._bodies:
            memory, builder = self.pipeline.maps[n], Builder("product", self.pipeline.maps[n].room.words)
            # One tile serves all three products: it is only read the other way, and nobody moves a weight.
            tile = matrix(memory.at(self.chain.layers[n].weight, 0), inner, outer)
            if which == "forward":
                multiply(builder, tile.turned(), matrix(at, inner, self.micro), matrix(other, outer, self.micro), True)
            elif which == "input":
                multiply(builder, tile, matrix(at, outer, self.micro), matrix(other, inner, self.micro), True)
            else:
                change = matrix(memory.at(self.chain.weight_gradient(n).result, 0), inner, outer)
                multiply(builder, matrix(other, inner, self.micro), matrix(at, outer, self.micro).turned(), change)
            self._bodies[key] = body_of(builder)
            self.words = max(self.words, memory.room.words)
        return self._bodies[key]

    def _end(self, count: int) -> None:
        chain, memory = self.chain, self.pipeline.end
        on, last = self.pipeline.seats[-1], len(chain.layers) - 1
        cell, words = on.after, on.outputs * self.micro
        result = chain.layers[-1].result
        self._do(cell, *self._end_works("before", 0, chain.samples))
        for m in range(count):
            self._do(cell, store(self.routes[last].leave[-1], memory.at(result, m), words))
            self._do(cell, *self._end_works("sample", m, self.micro))
            if chain.is_training:
                gradient = memory.at(self.chain.gradient(last), m)
                self._do(cell, send(self.routes[last].back_enter[-1], gradient, words))
        self._do(cell, *self._end_works("after", 0, chain.samples))

    def _end_works(self, when: When, m: int, samples: int) -> tuple[Instruction, ...]:
        memory, tile = self.pipeline.end, Tile(self.chain.layers[-1].outputs, samples)
        return self._emitted(memory, tile, m, self.chain.due(Home("end"), when))

    def _pointwise_all(self, n: int, when: When) -> None:
        """What a layer does once for a step: on all cores with tiles, and on those at the edge."""
        on, memory = self.pipeline.seats[n], self.pipeline.maps[n]
        for u, v in on.positions:
            tiles = self.chain.due(Home("tiles", n), when)
            tile = Tile(len(on.inner(u)), len(on.outer(v)))
            self._do(on.cell(u, v), *self._emitted(memory, tile, 0, tiles, "matrix"))
            edge = self.chain.due(Home("edge", n), when)
            if u == 0:
                self._do(on.cell(u, v), *self._emitted(memory, Tile(len(on.outer(v)), self.micro), 0, edge))

    def _pointwise(self, n: int, outer: int, m: int, works: Sequence[Loss | Pointwise]) -> tuple[Instruction, ...]:
        return self._emitted(self.pipeline.maps[n], Tile(outer, self.micro), m, works)

    def _emitted(
        self, memory: MemoryMap, tile: Tile, m: int, works: Iterable[Loss | Pointwise], kind: str = ""
    ) -> tuple[Instruction, ...]:
        # Words to work in are free again after each micro-batch: they begin behind all values every time.
        room, builder = memory.scratch(), Builder("between", 0)
        for work in works:
            if isinstance(work, Loss):
                lower_loss(work, memory, tile, m, room, builder)
                continue
            accesses = zip((*work.nest.reads, *work.nest.writes), (*work.reads, *work.writes), strict=True)
            placings = [
                Placing(memory.at(value, m), kind or kind_of(a, work.nest, self.chain.samples)) for a, value in accesses
            ]
            reads, writes = placings[: len(work.reads)], placings[len(work.reads) :]
            emit_nest(work.nest, reads, writes, tile, room, builder)
        self.words = max(self.words, room.words)
        return body_of(builder)


def _summed(colours: Sequence[int], position: int, length: int, block: Block) -> tuple[Instruction, ...]:
    """A part of a chain of sums to position 0; `colours[i]` leads from i + 1 to i."""
    # In the middle a sum goes on as it comes and is not stored, so that a chain is one long stream.
    if length == 1:
        return ()
    if position == 0:
        return (block.gather(colours[0]),)
    if position == length - 1:
        return (block.send(colours[position - 1]),)
    return (block.relay(colours[position], colours[position - 1]),)


def matrix(address: int, rows: int, columns: int) -> MatrixView:
    """A whole matrix of float32 in a core's memory."""
    return MatrixView(address, rows=rows, columns=columns, row_stride=columns, column_stride=1, dtype=WIDE)
