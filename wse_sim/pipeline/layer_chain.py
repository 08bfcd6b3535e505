"""A compiled step as a chain of linear layers: what is multiplied where, and what happens element by element between.

A layer multiplies rows of activations by a weight whose tiles lie on all of its cores. What is computed element by
element behind it happens where its results leave (its *edge*), and after the last layer at the *end*, on one core that
takes the losses too. Every read is of one `ChainValue`: a buffer that is written twice is two of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lazytensor.errors import LazyError
from lazytensor.ir.nest import Nest, NestStore, Scalar
from lazytensor.ir.program import Instr, Program
from wse_sim.kernels.calls import VIEWS
from wse_sim.kernels.mesh_call import operation

CoreGroup = Literal["tiles", "edge", "end", "feed"]
StepPart = Literal["before", "sample", "after"]
"""In the order of time: of state and labels alone, of samples, and of what was summed over all samples."""
CHAIN_HINT = "Use linear layers, operations element by element between them, and a cross-entropy over rows."


@dataclass(frozen=True)
class ValueLocation:
    """Where a value lies: the site, and the number of its layer."""

    site: CoreGroup
    layer: int = 0


@dataclass(frozen=True)
class ChainValue:
    """Something that is read or written, at its home. `buffer` is where the host would have it at that time.

    What `is_given` comes from outside the step.
    """

    number: int
    buffer: int
    shape: tuple[int, ...]
    home: ValueLocation
    when: StepPart
    is_given: bool = False


@dataclass(frozen=True)
class LinearLayer:
    """A product with a weight; it is given as [out, in] if `is_turned`."""

    weight: ChainValue
    inputs: int
    outputs: int
    is_turned: bool
    source: ChainValue
    result: ChainValue


@dataclass(frozen=True)
class InputGradient:
    """The gradient of a layer's results times its weight: it arrives at the edge of the layer before."""

    layer: int
    source: ChainValue
    result: ChainValue


@dataclass(frozen=True)
class WeightGradient:
    """A layer's activations times the gradient of its results, summed over all samples."""

    layer: int
    source: ChainValue
    result: ChainValue


@dataclass(frozen=True)
class LossWork:
    """Softmax, its loss and the gradient of that, of rows of logits and a label for each."""

    logits: ChainValue
    labels: ChainValue
    losses: ChainValue
    gradient: ChainValue
    home: ValueLocation = ValueLocation("end")
    when: StepPart = "sample"


@dataclass(frozen=True)
class PointwiseWork:
    """Loops over rows, columns or both of them; with a sum over samples its results are there after the last one."""

    nest: Nest
    reads: tuple[ChainValue, ...]
    writes: tuple[ChainValue, ...]
    home: ValueLocation
    when: StepPart


ChainWork = InputGradient | WeightGradient | LossWork | PointwiseWork


@dataclass(frozen=True)
class LayerChain:
    """All of a step. `finals` has the value that each buffer holds at the end."""

    program: Program
    samples: int
    layers: tuple[LinearLayer, ...]
    works: tuple[ChainWork, ...]
    finals: dict[int, ChainValue]

    @property
    def is_training(self) -> bool:
        """Whether something goes backward."""
        return any(isinstance(work, WeightGradient) for work in self.works)

    def elementwise_works(self, home: ValueLocation, when: StepPart) -> "list[LossWork | PointwiseWork]":
        """What happens element by element at a home, in order."""
        return [
            work
            for work in self.works
            if isinstance(work, LossWork | PointwiseWork) and work.home == home and work.when == when
        ]

    def edge_works(self, layer: int) -> "tuple[list[LossWork | PointwiseWork], list[LossWork | PointwiseWork]]":
        """What the edge of a layer does with each sample on its way forward, and on its way back."""
        way_back = next(
            (k for k, w in enumerate(self.works) if isinstance(w, InputGradient) and w.layer == layer + 1), -1
        )
        forward = self.works if way_back < 0 else self.works[:way_back]
        due = self.elementwise_works(ValueLocation("edge", layer), "sample")
        return [w for w in due if w in forward], [w for w in due if w not in forward]

    def weight_gradient(self, layer: int) -> WeightGradient:
        """That of a layer of a training step."""
        return next(w for w in self.works if isinstance(w, WeightGradient) and w.layer == layer)

    def gradient(self, layer: int) -> ChainValue:
        """The gradient of a layer's own results."""
        return self.weight_gradient(layer).source

    def arriving(self, layer: int) -> ChainValue:
        """The gradient that comes to a layer: of its results after what its edge does with them."""
        own = (w for w in self.works if isinstance(w, InputGradient) and w.layer == layer + 1)
        return next((work.result for work in own), self.gradient(layer))


def chain_of(program: Program) -> LayerChain:
    """The chain of a step. Raises LazyError, with the line of the script, for what is none."""
    return _ChainBuilder(program).chain()


def _unsupported_error(instr: Instr, what: str) -> LazyError:
    return LazyError(f"{instr.label}: {what}", where=instr.where, hint=CHAIN_HINT)


class _ChainBuilder:
    """Goes through the instructions in order and gives each value its home."""

    def __init__(self, program: Program):
        self.program = program
        first = (program.buffers[b].type.shape for b in program.batch)
        self.samples = next((shape[0] for shape in first if shape), 1)
        self.values: dict[int, ChainValue] = {}
        self.views: dict[int, int] = {}
        self.layers: list[LinearLayer] = []
        self.works: list[ChainWork] = []
        self._count = 0
        # What lies behind the last layer is told apart from the edges between, so that their number comes first.
        states = {b.index for b in program.buffers if b.kind == "state"}
        products = [i for i in program.instrs if i.kernel == "matmul" and set(i.reads) & states]
        self.depth = len({next(r for r in i.reads if r in states) for i in products})

    def chain(self) -> LayerChain:
        for instr in self.program.instrs:
            if instr.kernel == "matmul":
                self._product(instr)
            elif instr.kernel == "softmax_cross_entropy":
                self._loss(instr)
            elif instr.nest:
                self._nest(instr, instr.nest)
            elif operation(instr) in VIEWS:
                self._view(instr)
            else:
                raise _unsupported_error(instr, "no part of a chain of layers")
        if not self.layers:
            raise LazyError("a step without a linear layer", hint=CHAIN_HINT)
        return LayerChain(self.program, self.samples, tuple(self.layers), tuple(self.works), dict(self.values))

    def _value(self, buffer: int, home: ValueLocation, when: StepPart) -> ChainValue:
        shape = self.program.buffers[buffer].type.shape
        value = ChainValue(number=self._count, buffer=buffer, shape=shape, home=home, when=when)
        self._count += 1
        return value

    def _written(self, buffer: int, home: ValueLocation, when: StepPart) -> ChainValue:
        self.values[buffer] = self._value(buffer, home, when)
        return self.values[buffer]

    def _read(self, buffer: int, home: ValueLocation) -> ChainValue:
        """The value of a buffer; what comes from outside gets the home of its first reader."""
        # Weights, biases and labels have no maker: they are laid down where they are needed first.
        if buffer not in self.values:
            origin = self.views.get(buffer, buffer)
            is_batch = self.program.buffers[origin].kind == "batch"
            value = self._value(buffer, home, "sample" if is_batch else "before")
            self.values[buffer] = replace(value, buffer=origin, is_given=True)
        return self.values[buffer]

    def _edge(self, layer: int) -> ValueLocation:
        """Where the results of a layer are worked on."""
        return ValueLocation("end") if layer == self.depth - 1 else ValueLocation("edge", layer)

    def _product(self, instr: Instr) -> None:
        a, b = instr.reads[:2]
        turned_a, turned_b = (bool(instr.attrs.get(f"transpose_{name}")) for name in "ab")
        if any(len(self.program.buffers[r].type.shape) != len("mk") for r in (a, b)):
            raise _unsupported_error(instr, "a product of other than matrices")
        # The first product with a weight is its layer, the second one goes back through it.
        known = {layer.weight.buffer: n for n, layer in enumerate(self.layers)}
        if turned_a:
            self._weight_gradient(instr, a, b)
        elif b in known:
            self._input_gradient(instr, known[b], turned_b)
        else:
            self._layer(instr, turned_b)

    def _layer(self, instr: Instr, is_turned: bool) -> None:
        number = len(self.layers)
        source = self._read(instr.reads[0], ValueLocation("feed") if not number else self._edge(number - 1))
        # Each layer reads what the one before hands on, and nothing that was made earlier.
        expected = ValueLocation("feed") if not number else self._edge(number - 1)
        if source.home != expected or self.program.buffers[instr.reads[1]].kind != "state":
            raise _unsupported_error(instr, f"reads what {source.home.site} {source.home.layer} has, or no weight")
        weight = self._read(instr.reads[1], ValueLocation("tiles", number))
        rows, columns = weight.shape
        inputs, outputs = (columns, rows) if is_turned else (rows, columns)
        result = self._written(instr.writes[0], self._edge(number), "sample")
        self.layers.append(
            LinearLayer(
                weight=weight, inputs=inputs, outputs=outputs, is_turned=is_turned, source=source, result=result
            )
        )

    def _input_gradient(self, instr: Instr, number: int, is_turned: bool) -> None:
        source = self.values[instr.reads[0]]
        if number == 0 or is_turned == self.layers[number].is_turned or source.home != self._edge(number):
            raise _unsupported_error(instr, "a second product with a weight that is no gradient of the layer before")
        result = self._written(instr.writes[0], self._edge(number - 1), "sample")
        self.works.append(InputGradient(number, source, result))

    def _weight_gradient(self, instr: Instr, a: int, b: int) -> None:
        left, right = self.values.get(a), self.values.get(b)
        # A weight's gradient lies as the weight does, so which of the operands comes first is known.
        for number, layer in enumerate(self.layers):
            activations, gradient = (right, left) if layer.is_turned else (left, right)
            is_own = gradient is not None and gradient.home == self._edge(number)
            if activations == layer.source and is_own and gradient != activations:
                assert gradient is not None
                result = self._written(instr.writes[0], ValueLocation("tiles", number), "after")
                self.works.append(WeightGradient(number, gradient, result))
                return
        raise _unsupported_error(instr, "a product of two tensors that is no gradient of a weight")

    def _loss(self, instr: Instr) -> None:
        logits, labels = (self._read(r, ValueLocation("end")) for r in instr.reads)
        # Only one core sees whole rows of logits.
        if logits.home != ValueLocation("end"):
            raise _unsupported_error(instr, "a loss before the last layer")
        losses, gradient = (self._written(w, ValueLocation("end"), "sample") for w in instr.writes)
        self.works.append(LossWork(logits, labels, losses=losses, gradient=gradient))

    def _nest(self, instr: Instr, nest: Nest) -> None:
        """All stores that are due at the same time stay together: each group is a nest of its own."""
        # One place for all that is read: moving operands together would be routes that nobody laid.
        home = self._work_location(instr)
        reads = [self._read(r, home) for r in instr.reads]
        if any(value.home != home for value in reads):
            raise _unsupported_error(instr, "reads what lies at two places")
        # A loop that adds up labels and losses has to run in two parts: the number of labels divides every gradient.
        due: dict[tuple[StepPart, StepPart], list[NestStore]] = {}
        for store in nest.stores:
            due.setdefault(_store_times(nest, store, reads), []).append(store)
        for (runs, is_there), stores in due.items():
            part, inputs = _select_stores(nest, stores)
            written = tuple(self._value(instr.writes[s.output], home, is_there) for s in stores)
            self.works.append(PointwiseWork(part, tuple(reads[k] for k in inputs), written, home, runs))
        # After all parts: each reads what was there before.
        for work in self.works[-len(due) :]:
            assert isinstance(work, PointwiseWork)
            self.values.update({value.buffer: value for value in work.writes})

    def _view(self, instr: Instr) -> None:
        """Another shape of what comes from outside, as rows of pixels are of pictures: it lies there as it is read."""
        source, target = instr.reads[0], instr.writes[0]
        origin = self.views.get(source, source)
        rows = (self.program.buffers[b].type.shape[:1] for b in (origin, target))
        if self.program.buffers[origin].kind != "batch" or any(r != (self.samples,) for r in rows):
            raise _unsupported_error(instr, "another shape of what is no input")
        self.views[target] = origin

    def _work_location(self, instr: Instr) -> ValueLocation:
        """Where most of what it reads is already; a parameter goes where it is first worked with."""
        # Of what is known the first will do: `_nest` refuses a mixture anyway.
        known = [self.values[r].home for r in instr.reads if r in self.values]
        return known[0] if known else ValueLocation("end")


def _store_times(nest: Nest, store: NestStore, reads: Sequence[ChainValue]) -> tuple[StepPart, StepPart]:
    """When a store runs, and when its result is there."""
    loads = [int(nest.body[n].attr) for n in _required_scalars(nest, [store]) if nest.body[n].op == "load"]
    times = {reads[k].when for k in loads}
    # A store is due with the last thing that it needs; a sum over samples comes after all of them.
    if "sample" not in times:
        return ("after", "after") if "after" in times else ("before", "before")
    if "after" in times:
        raise LazyError(f"{nest.name} needs a sum over all samples for each of them", hint=CHAIN_HINT)
    if not store.reduce:
        return "sample", "sample"
    # All labels lie at the end from the start: what is made of them alone need not wait for the samples.
    is_known = all(reads[k].when == "before" or _is_label(reads[k]) for k in loads)
    # Samples are the outermost axis of everything that has them; a sum over the others is each sample's own.
    if not nest.loops[0].is_reduction:
        return "sample", "sample"
    return ("before", "before") if is_known else ("sample", "after")


def _is_label(value: ChainValue) -> bool:
    return value.home.site == "end" and value.when == "sample" and len(value.shape) == 1 and value.is_given


def _required_scalars(nest: Nest, stores: Sequence[NestStore]) -> list[int]:
    """The scalars that stores need, in order."""
    # Stores of one nest share scalars; of what the others alone need nothing is worked out twice.
    needed: set[int] = set()
    waiting = [store.value for store in stores]
    while waiting:
        scalar = waiting.pop()
        if scalar not in needed:
            needed.add(scalar)
            waiting += nest.body[scalar].args
    return sorted(needed)


def _select_stores(nest: Nest, stores: Sequence[NestStore]) -> tuple[Nest, list[int]]:
    """A nest with some of the stores, and which of the inputs it has."""
    # Scalars name each other by position, and loads name inputs: both are counted anew.
    scalars = _required_scalars(nest, stores)
    inputs = sorted({int(nest.body[n].attr) for n in scalars if nest.body[n].op == "load"})
    places = {old: new for new, old in enumerate(scalars)}

    def moved(scalar: Scalar) -> Scalar:
        attr = inputs.index(int(scalar.attr)) if scalar.op == "load" else scalar.attr
        return replace(scalar, args=tuple(places[a] for a in scalar.args), attr=attr)

    return replace(
        nest,
        inputs=tuple(nest.inputs[k] for k in inputs),
        reads=tuple(nest.reads[k] for k in inputs),
        outputs=tuple(nest.outputs[s.output] for s in stores),
        writes=tuple(nest.writes[s.output] for s in stores),
        body=tuple(moved(nest.body[n]) for n in scalars),
        stores=tuple(NestStore(k, places[s.value], s.reduce) for k, s in enumerate(stores)),
    ), inputs
