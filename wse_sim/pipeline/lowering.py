"""Lower a chain of layers to the programs of all cores and the routes between them.

Every core runs one task. All cores of a layer use the same schedule of micro-batches. Words of different micro-batches
therefore never overtake each other on a colour, and cores synchronize only through the words themselves.
"""

from collections import defaultdict
from collections.abc import Sequence

from wse_sim.fabric.lowering.moves import make_forward, make_receive, make_send
from wse_sim.fabric.lowering.reductions import WordBlock
from wse_sim.fabric.mesh import Mesh
from wse_sim.isa.core_program import CoreProgram, Instruction, check_program
from wse_sim.machine import Machine
from wse_sim.pipeline.core_bodies import CoreBodies
from wse_sim.pipeline.layer_chain import StepPart, ValueLocation
from wse_sim.pipeline.layer_placement import ChainPlacement
from wse_sim.pipeline.layer_region import CoreCoordinates
from wse_sim.pipeline.layer_routes import lay_layer_routes
from wse_sim.pipeline.route_colours import RouteColours


def lower_pipeline(sites: ChainPlacement, machine: Machine) -> Mesh:
    """Return the mesh with the programs and routes of a step, as small as the rectangles of the layers allow.

    Memories of the cores are not loaded or checked. Raise PlacementError if a route finds no free colour.
    """
    rects = [seat.rect for seat in sites.seats]
    width, height = max(r.x + r.width for r in rects), max(r.y + r.height for r in rects)
    return _PipelineLowering(sites, Mesh(machine, width, height)).mesh()


class _PipelineLowering:
    """Writes the programs of one pipeline.

    - `programs`: the instructions of each core so far
    - `words`: the largest memory that transfers need
    - `routes`: the colours of each layer
    """

    def __init__(self, sites: ChainPlacement, mesh: Mesh):
        self.sites, self.chain, self.micro, self.on_mesh = sites, sites.chain, sites.micro, mesh
        self.programs: dict[CoreCoordinates, list[Instruction]] = defaultdict(list)
        self.words = 0
        self.bodies = CoreBodies(sites)
        self.routes = lay_layer_routes(sites.seats, RouteColours(mesh), self.chain.is_training)

    def mesh(self) -> Mesh:
        """Write the programs of all cores and return the mesh with programs and routes. Call it once.

        All programs have the memory size of the core that needs most.
        """
        self._feed()
        for n in range(len(self.chain.layers)):
            self._layer(n)
        self._end()
        words = max(self.words, self.bodies.words, self.bodies.end_words)
        # Cores with equal instructions share a program.
        alike: dict[tuple[Instruction, ...], list[CoreCoordinates]] = defaultdict(list)
        for cell, body in self.programs.items():
            alike[tuple(body)].append(cell)
        for number, (instructions, cells) in enumerate(alike.items()):
            program = CoreProgram(f"p{number}", words, (("main", instructions),))
            check_program(program)
            self.on_mesh.run(program, [x for x, _ in cells], [y for _, y in cells])
        return self.on_mesh

    def _do(self, cell: CoreCoordinates, *instructions: Instruction) -> None:
        self.programs[cell] += instructions

    def _feed(self) -> None:
        """Append the program of the core that sends the samples, one micro-batch after the other.

        It stores the whole batch.
        """
        # The whole batch is stored here from the start: over the edge it would arrive ahead of its use.
        words = self.chain.layers[0].inputs * self.micro
        on, colour = self.sites.seats[0], self.routes[0].enter[0]
        for m in range(self.sites.count):
            self._do(on.before, make_send(colour, m * words, words))
        self.words = max(self.words, self.sites.count * words)

    def _layer(self, n: int) -> None:
        """Append the programs of the cores and ports of layer `n`.

        A port sends to the next layer, except in the last one, and in training to the previous layer, except in the
        first one.
        """
        on, last = self.sites.seats[n], len(self.sites.seats) - 1
        self._once(n, "before")
        for sweep, m in self.sites.turns(n):
            if sweep == "forward":
                self._forward(n, m)
            else:
                self._backward(n, m)
        self._once(n, "after")
        # A port stores one micro-batch and sends it while its layer works on the next.
        if n < last:
            self._pass_on(on.after, on.outputs, self.routes[n].leave[-1], self.routes[n + 1].enter[0])
        if n and self.chain.is_training:
            self._pass_on(on.before, on.inputs, self.routes[n].back_leave[-1], self.routes[n - 1].back_enter[-1])

    def _once(self, n: int, when: StepPart) -> None:
        """Append the work that all cores of layer `n` do once, "before" or "after" all samples, to their programs."""
        on = self.sites.seats[n]
        for u, v in on.positions:
            size = len(on.inner(u)), len(on.outer(v))
            self._do(on.cell(u, v), *self.bodies.once(n, size, is_edge=u == 0, when=when))

    def _pass_on(self, cell: CoreCoordinates, columns: int, source: int, target: int) -> None:
        """Append the program of a port at `cell`, which buffers one micro-batch of `columns` words for each sample.

        It receives each micro-batch on colour `source` and sends it on colour `target`.
        """
        words = columns * self.micro
        for _ in range(self.sites.count):
            self._do(cell, make_receive(source, 0, words), make_send(target, 0, words))
        self.words = max(self.words, words)

    def _forward(self, n: int, m: int) -> None:
        """Append the forward sweep of layer `n` for micro-batch `m` to the programs of its cores.

        Activations are distributed over the cores and multiplied. Results are summed to u = 0, processed at this edge,
        and sent.
        """
        on, memory, routes, micro = self.sites.seats[n], self.sites.maps[n], self.routes[n], self.micro
        at, result = memory.activations(m), self.chain.layers[n].result
        for u, v in on.positions:
            cell, inner, outer = on.cell(u, v), on.inner(u), on.outer(v)
            size = len(inner), len(outer)
            words, beyond = len(inner) * micro, (on.inputs - inner.stop) * micro
            # A core on the way keeps its part and forwards the rest.
            if v == 0:
                self._do(cell, make_receive(routes.enter[u], at, words))
                if beyond:
                    self._do(cell, make_forward(routes.enter[u], routes.enter[u + 1], beyond))
                if on.height > 1:
                    self._do(cell, make_send(routes.down, at, words))
            else:
                self._do(cell, make_receive(routes.down, at, words))
            # Sums are stored where the edge works on them. The end has a separate copy of the last layer's results.
            is_own = u == 0 and result.home == ValueLocation("edge", n)
            target = memory.at(result, m) if is_own else memory.partial
            self._do(cell, *self.bodies.product(n, "forward", size, at, target))
            self._do(cell, *_chain_sum_instructions(routes.sums, u, on.width, WordBlock(target, len(outer) * micro)))
            if u == 0:
                self._do(cell, *self.bodies.edge(n, len(outer), m, is_back=False))
                self._leave(n, v, m, target)

    def _leave(self, n: int, v: int, m: int, target: int) -> None:
        """Append the sending of the results of position v at address `target`, after those of the positions before it.

        The last layer sends the results themselves, any other what its edge made of them. Columns stay in order.
        """
        on, memory, leave = self.sites.seats[n], self.sites.maps[n], self.routes[n].leave
        outer, is_last = on.outer(v), n == len(self.chain.layers) - 1
        at = target if is_last else memory.at(self.chain.layers[n + 1].source, m)
        # Columns stay in order, so that the receiver can cut them differently.
        if v:
            self._do(on.cell(0, v), make_forward(leave[v - 1], leave[v], outer.start * self.micro))
        self._do(on.cell(0, v), make_send(leave[v], at, len(outer) * self.micro))

    def _backward(self, n: int, m: int) -> None:
        """Append the backward sweep of layer `n` for micro-batch `m` to the programs of its cores.

        Gradients are received and distributed. The gradient of activations is computed, summed and sent, except in the
        first layer. The weight gradient is accumulated last.
        """
        on, memory, routes, micro = self.sites.seats[n], self.sites.maps[n], self.routes[n], self.micro
        arrived, gradient = self.chain.arriving(n), self.chain.gradient(n)
        for u, v in on.positions:
            cell, inner, outer = on.cell(u, v), on.inner(u), on.outer(v)
            size, words = (len(inner), len(outer)), len(outer) * micro
            is_own = u == 0 and gradient.home == ValueLocation("edge", n)
            at = memory.at(gradient, m) if is_own else memory.gradient
            if u == 0:
                if v:
                    self._do(cell, make_forward(routes.back_enter[v], routes.back_enter[v - 1], outer.start * micro))
                # The arriving gradient is that after the activation function; the product needs the one before it.
                put = memory.at(arrived, m) if arrived.home == ValueLocation("edge", n) else memory.gradient
                self._do(cell, make_receive(routes.back_enter[v], put, words))
                self._do(cell, *self.bodies.edge(n, len(outer), m, is_back=True))
                if on.width > 1:
                    self._do(cell, make_send(routes.back_along, at, words))
            else:
                self._do(cell, make_receive(routes.back_along, at, words))
            if n:
                self._do(cell, *self.bodies.product(n, "input", size, at, memory.partial))
                self._do(
                    cell,
                    *_chain_sum_instructions(
                        routes.back_sums, v, on.height, WordBlock(memory.partial, len(inner) * micro)
                    ),
                )
                if v == 0:
                    if u:
                        self._do(
                            cell, make_forward(routes.back_leave[u - 1], routes.back_leave[u], inner.start * micro)
                        )
                    self._do(cell, make_send(routes.back_leave[u], memory.partial, len(inner) * micro))
            # The weight gradient comes last, while the gradient of the activations is transferred.
            self._do(cell, *self.bodies.product(n, "weight", size, at, memory.activations(m)))

    def _end(self) -> None:
        """Append the program of the core after the last layer.

        For each micro-batch it receives results, computes the loss and, in training, sends the gradient. Work on the
        whole batch comes before or after all of them.
        """
        chain, memory = self.chain, self.sites.end
        on, last = self.sites.seats[-1], len(chain.layers) - 1
        cell, words = on.after, on.outputs * self.micro
        result = chain.layers[-1].result
        self._do(cell, *self.bodies.end("before", 0))
        for m in range(self.sites.count):
            self._do(cell, make_receive(self.routes[last].leave[-1], memory.at(result, m), words))
            self._do(cell, *self.bodies.end("sample", m))
            if chain.is_training:
                gradient = memory.at(chain.gradient(last), m)
                self._do(cell, make_send(self.routes[last].back_enter[-1], gradient, words))
        self._do(cell, *self.bodies.end("after", 0))


def _chain_sum_instructions(
    colours: Sequence[int], position: int, length: int, block: WordBlock
) -> tuple[Instruction, ...]:
    """Return one core's part of a sum along a line of `length` cores to position 0. `colours[i]` leads from i + 1 to i.

    The far end sends its block, cores in between add theirs to the stream, and position 0 stores the sum in its block.
    There are no instructions for a line of one core.
    """
    # Cores in between forward sums without storing them, so that the whole chain is one stream.
    if length == 1:
        return ()
    if position == 0:
        return (block.gather(colours[0]),)
    if position == length - 1:
        return (block.send(colours[position - 1]),)
    return (block.relay(colours[position], colours[position - 1]),)
