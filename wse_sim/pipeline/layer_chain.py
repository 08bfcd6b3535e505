"""Convert a compiled step into a chain of linear layers with elementwise work in between.

A layer multiplies rows of activations by a weight that is cut into tiles on all its cores. Elementwise work after a
layer runs at the *edge*, the cores where its results leave. After the last layer it runs at the *end*, a single core
that computes the loss too. Each operand is a `ChainValue`. A buffer that is written twice has two of them.
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
"""Parts of a step in order of time: work on state and labels only, on samples, and on sums over all samples."""
CHAIN_HINT = "Use linear layers, elementwise operations between them, and a cross-entropy loss over rows."


@dataclass(frozen=True)
class ValueLocation:
    """The cores that store a value: the group, and the number of the layer."""

    site: CoreGroup
    layer: int = 0


@dataclass(frozen=True)
class ChainValue:
    """A value of a step.

    - `number`: its unique number
    - `buffer`: the program's buffer that contains it
    - `shape`: its shape
    - `home`: where it is stored
    - `when`: the part of the step in which it is available
    - `is_given`: whether it is an input of the step
    """

    number: int
    buffer: int
    shape: tuple[int, ...]
    home: ValueLocation
    when: StepPart
    is_given: bool = False


@dataclass(frozen=True)
class LinearLayer:
    """A product of activations with a weight. The weight is stored as [out, in] if `is_turned`, else as [in, out].

    - `weight`: the weight
    - `inputs`, `outputs`: numbers of columns
    - `source`: its activations
    - `result`: its results
    """

    weight: ChainValue
    inputs: int
    outputs: int
    is_turned: bool
    source: ChainValue
    result: ChainValue


@dataclass(frozen=True)
class InputGradient:
    """The gradient of a layer's results times its weight. The result arrives at the edge of the previous layer."""

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
    """Softmax, cross-entropy loss and its gradient, for rows of logits with one label each."""

    logits: ChainValue
    labels: ChainValue
    losses: ChainValue
    gradient: ChainValue
    home: ValueLocation = ValueLocation("end")
    when: StepPart = "sample"


@dataclass(frozen=True)
class PointwiseWork:
    """A loop nest over rows, columns or both. Results of a sum over samples are available after the last sample."""

    nest: Nest
    reads: tuple[ChainValue, ...]
    writes: tuple[ChainValue, ...]
    home: ValueLocation
    when: StepPart


ChainWork = InputGradient | WeightGradient | LossWork | PointwiseWork


@dataclass(frozen=True)
class LayerChain:
    """A step as a chain of layers.

    - `program`: the compiled step
    - `samples`: samples of the batch
    - `layers`: the layers in order
    - `works`: gradients, losses and elementwise work in order
    - `finals`: for each buffer, the value that it holds at the end
    """

    program: Program
    samples: int
    layers: tuple[LinearLayer, ...]
    works: tuple[ChainWork, ...]
    finals: dict[int, ChainValue]

    @property
    def is_training(self) -> bool:
        """Return whether the step computes weight gradients."""
        return any(isinstance(work, WeightGradient) for work in self.works)

    def elementwise_works(self, home: ValueLocation, when: StepPart) -> "list[LossWork | PointwiseWork]":
        """Return the losses and elementwise works at a location in one part of the step, in order."""
        return [
            work
            for work in self.works
            if isinstance(work, LossWork | PointwiseWork) and work.home == home and work.when == when
        ]

    def edge_works(self, layer: int) -> "tuple[list[LossWork | PointwiseWork], list[LossWork | PointwiseWork]]":
        """Return the works for each sample at the edge of a layer: those forward, and those backward.

        The edge is the cores where its results leave. Backward works come after the input gradient of the next layer.
        Without one all are forward.
        """
        way_back = next(
            (k for k, w in enumerate(self.works) if isinstance(w, InputGradient) and w.layer == layer + 1), -1
        )
        forward = self.works if way_back < 0 else self.works[:way_back]
        due = self.elementwise_works(ValueLocation("edge", layer), "sample")
        return [w for w in due if w in forward], [w for w in due if w not in forward]

    def weight_gradient(self, layer: int) -> WeightGradient:
        """Return the weight gradient of a layer. The step has to be a training step."""
        return next(w for w in self.works if isinstance(w, WeightGradient) and w.layer == layer)

    def gradient(self, layer: int) -> ChainValue:
        """Return the gradient of a layer's results before elementwise work."""
        return self.weight_gradient(layer).source

    def arriving(self, layer: int) -> ChainValue:
        """Return the gradient that arrives at a layer: that of its results after elementwise work at its edge.

        For the last layer it is `gradient`. The step has to be a training step.
        """
        own = (w for w in self.works if isinstance(w, InputGradient) and w.layer == layer + 1)
        return next((work.result for work in own), self.gradient(layer))


def chain_of(program: Program) -> LayerChain:
    """Return the chain of layers of a step. Raise LazyError with the script line if the step is no such chain."""
    return _ChainBuilder(program).chain()


def _unsupported_error(instr: Instr, what: str) -> LazyError:
    """Return the error for an instruction that cannot be part of a chain."""
    return LazyError(f"{instr.label} {what}", where=instr.where, hint=CHAIN_HINT)


class _ChainBuilder:
    """Converts the instructions in order and gives each value a location.

    - `values`: the current value of each buffer
    - `views`: for each view of a batch tensor, the base buffer
    - `depth`: the number of layers
    """

    def __init__(self, program: Program):
        self.program = program
        first = (program.buffers[b].type.shape for b in program.batch)
        self.samples = next((shape[0] for shape in first if shape), 1)
        self.values: dict[int, ChainValue] = {}
        self.views: dict[int, int] = {}
        self.layers: list[LinearLayer] = []
        self.works: list[ChainWork] = []
        self._count = 0
        # The number of layers is needed first: work after the last layer is at the end, and not at an edge.
        states = {b.index for b in program.buffers if b.kind == "state"}
        products = [i for i in program.instrs if i.kernel == "matmul" and set(i.reads) & states]
        self.depth = len({next(r for r in i.reads if r in states) for i in products})

    def chain(self) -> LayerChain:
        """Return the chain of the program.

        Raise LazyError for an instruction that cannot be part of one, and for a program without a linear layer.
        """
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
                raise _unsupported_error(instr, "is not a part of a chain of layers")
        if not self.layers:
            raise LazyError("the step has no linear layer", hint=CHAIN_HINT)
        return LayerChain(self.program, self.samples, tuple(self.layers), tuple(self.works), dict(self.values))

    def _value(self, buffer: int, home: ValueLocation, when: StepPart) -> ChainValue:
        """Return a new value with the next number and the shape of `buffer`, stored at `home`. It is not recorded."""
        shape = self.program.buffers[buffer].type.shape
        value = ChainValue(number=self._count, buffer=buffer, shape=shape, home=home, when=when)
        self._count += 1
        return value

    def _written(self, buffer: int, home: ValueLocation, when: StepPart) -> ChainValue:
        """Return a new value, stored at `home` and available at `when`, and make it the current one of `buffer`."""
        self.values[buffer] = self._value(buffer, home, when)
        return self.values[buffer]

    def _read(self, buffer: int, home: ValueLocation) -> ChainValue:
        """Return the current value of a buffer. An input of the step is stored where it is first read, at `home`.

        A view of a batch tensor has the buffer of that tensor. Batch tensors are available with each sample, others
        before.
        """
        # Weights, biases and labels are inputs: they are stored where they are needed first.
        if buffer not in self.values:
            origin = self.views.get(buffer, buffer)
            is_batch = self.program.buffers[origin].kind == "batch"
            value = self._value(buffer, home, "sample" if is_batch else "before")
            self.values[buffer] = replace(value, buffer=origin, is_given=True)
        return self.values[buffer]

    def _edge(self, layer: int) -> ValueLocation:
        """Return the location of elementwise work on the results of a layer.

        It is the edge, the cores where results leave, or after the last layer the single core at the end.
        """
        return ValueLocation("end") if layer == self.depth - 1 else ValueLocation("edge", layer)

    def _product(self, instr: Instr) -> None:
        """Add a matrix product: a layer, an input gradient or a weight gradient.

        A transposed first operand means a weight gradient. A second operand that is the weight of a layer means an
        input gradient. Raise LazyError if an operand is no matrix, or if the product is none of the three.
        """
        a, b = instr.reads[:2]
        turned_a, turned_b = (bool(instr.attrs.get(f"transpose_{name}")) for name in "ab")
        if any(len(self.program.buffers[r].type.shape) != len("mk") for r in (a, b)):
            raise _unsupported_error(instr, "multiplies tensors that are not matrices")
        # The first product with a weight is its layer, the second one is its input gradient.
        known = {layer.weight.buffer: n for n, layer in enumerate(self.layers)}
        if turned_a:
            self._weight_gradient(instr, a, b)
        elif b in known:
            self._input_gradient(instr, known[b], turned_b)
        else:
            self._layer(instr, turned_b)

    def _layer(self, instr: Instr, is_turned: bool) -> None:
        """Add a layer. Raise LazyError unless it multiplies the previous layer's results by a state tensor.

        The first layer multiplies an input. `is_turned` tells that the weight is stored as [out, in].
        """
        number = len(self.layers)
        source = self._read(instr.reads[0], ValueLocation("feed") if not number else self._edge(number - 1))
        # Each layer has to read the results of the previous one.
        expected = ValueLocation("feed") if not number else self._edge(number - 1)
        if source.home != expected or self.program.buffers[instr.reads[1]].kind != "state":
            raise _unsupported_error(instr, "does not multiply the results of the previous layer by a weight")
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
        """Add an input gradient of layer `number`, whose result is at the edge of the previous layer.

        Raise LazyError for the first layer, for a weight that is transposed as in the layer, and for a gradient at
        another place.
        """
        source = self.values[instr.reads[0]]
        if number == 0 or is_turned == self.layers[number].is_turned or source.home != self._edge(number):
            raise _unsupported_error(instr, "uses a weight again, but not for the gradient of the input of its layer")
        result = self._written(instr.writes[0], self._edge(number - 1), "sample")
        self.works.append(InputGradient(number, source, result))

    def _weight_gradient(self, instr: Instr, a: int, b: int) -> None:
        """Add the weight gradient of the layer whose activations and result gradients are multiplied.

        The order of the operands has to give the layout of the weight. Raise LazyError if there is no such layer.
        """
        left, right = self.values.get(a), self.values.get(b)
        # The gradient has the layout of the weight, which determines the order of the operands.
        for number, layer in enumerate(self.layers):
            activations, gradient = (right, left) if layer.is_turned else (left, right)
            is_own = gradient is not None and gradient.home == self._edge(number)
            if activations == layer.source and is_own and gradient != activations:
                assert gradient is not None
                result = self._written(instr.writes[0], ValueLocation("tiles", number), "after")
                self.works.append(WeightGradient(number, gradient, result))
                return
        raise _unsupported_error(instr, "multiplies two tensors, but not for the gradient of a weight")

    def _loss(self, instr: Instr) -> None:
        """Add a cross-entropy loss with its gradient, computed by the core after the last layer.

        Raise LazyError if its logits are not there.
        """
        logits, labels = (self._read(r, ValueLocation("end")) for r in instr.reads)
        # Only the core at the end receives whole rows of logits.
        if logits.home != ValueLocation("end"):
            raise _unsupported_error(instr, "computes a loss before the last layer")
        losses, gradient = (self._written(w, ValueLocation("end"), "sample") for w in instr.writes)
        self.works.append(LossWork(logits, labels, losses=losses, gradient=gradient))

    def _nest(self, instr: Instr, nest: Nest) -> None:
        """Add elementwise work, stored where its first known operand is.

        Stores that run in the same part of the step stay in one nest; others are split off. Raise LazyError if operands
        are at different places.
        """
        # All operands have to be in one place: there are no routes to bring them together.
        home = self._work_location(instr)
        reads = [self._read(r, home) for r in instr.reads]
        if any(value.home != home for value in reads):
            raise _unsupported_error(instr, "has operands in two places")
        # A nest that sums both labels and losses has to be split: the number of labels divides every gradient.
        due: dict[tuple[StepPart, StepPart], list[NestStore]] = {}
        for store in nest.stores:
            due.setdefault(_store_times(nest, store, reads), []).append(store)
        for (runs, is_there), stores in due.items():
            part, inputs = _select_stores(nest, stores)
            written = tuple(self._value(instr.writes[s.output], home, is_there) for s in stores)
            self.works.append(PointwiseWork(part, tuple(reads[k] for k in inputs), written, home, runs))
        # Update values after all parts, since each part reads the old ones.
        for work in self.works[-len(due) :]:
            assert isinstance(work, PointwiseWork)
            self.values.update({value.buffer: value for value in work.writes})

    def _view(self, instr: Instr) -> None:
        """Record a reshape of a batch tensor that keeps its rows, such as images as rows of pixels. It adds no work.

        Raise LazyError for any other reshape.
        """
        source, target = instr.reads[0], instr.writes[0]
        origin = self.views.get(source, source)
        rows = (self.program.buffers[b].type.shape[:1] for b in (origin, target))
        if self.program.buffers[origin].kind != "batch" or any(r != (self.samples,) for r in rows):
            raise _unsupported_error(instr, "reshapes a tensor that is not an input")
        self.views[target] = origin

    def _work_location(self, instr: Instr) -> ValueLocation:
        """Return the location of the first operand that has a value, or the end if there is none."""
        # Any operand will do: `_nest` rejects operands in different places.
        known = [self.values[r].home for r in instr.reads if r in self.values]
        return known[0] if known else ValueLocation("end")


def _store_times(nest: Nest, store: NestStore, reads: Sequence[ChainValue]) -> tuple[StepPart, StepPart]:
    """Return the part of the step in which a store runs, and the part in which its result is available.

    A sum over samples runs with each sample and is available after all. Work on labels only, if it is such a sum, runs
    before. Raise LazyError if a store needs both samples and a sum over all of them.
    """
    loads = [int(nest.body[n].attr) for n in _required_scalars(nest, [store]) if nest.body[n].op == "load"]
    times = {reads[k].when for k in loads}
    # A store runs when its last operand is available. The result of a sum over samples comes after all samples.
    if "sample" not in times:
        return ("after", "after") if "after" in times else ("before", "before")
    if "after" in times:
        raise LazyError(f"{nest.name} needs a sum over all samples for each sample", hint=CHAIN_HINT)
    if not store.reduce:
        return "sample", "sample"
    # All labels are at the end from the start, so work on labels only need not wait for samples.
    is_known = all(reads[k].when == "before" or _is_label(reads[k]) for k in loads)
    # Samples are the outermost axis. A sum over other axes is one result per sample.
    if not nest.loops[0].is_reduction:
        return "sample", "sample"
    return ("before", "before") if is_known else ("sample", "after")


def _is_label(value: ChainValue) -> bool:
    """Return whether a value is a batch tensor of one label for each sample."""
    return value.home.site == "end" and value.when == "sample" and len(value.shape) == 1 and value.is_given


def _required_scalars(nest: Nest, stores: Sequence[NestStore]) -> list[int]:
    """Return the indices of the scalars in the body that the stores need, directly or not, in ascending order."""
    # Follow the operands of scalars, so that nothing is computed that only other stores need.
    needed: set[int] = set()
    waiting = [store.value for store in stores]
    while waiting:
        scalar = waiting.pop()
        if scalar not in needed:
            needed.add(scalar)
            waiting += nest.body[scalar].args
    return sorted(needed)


def _select_stores(nest: Nest, stores: Sequence[NestStore]) -> tuple[Nest, list[int]]:
    """Return a nest with only some of the stores, and the indices of the inputs that it keeps.

    Scalars and inputs that only other stores need are left out; outputs have the order of `stores`.
    """
    # Renumber scalars and inputs, which are referred to by index.
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
