"""Programs made by hand, and the Hypothesis strategies of the simulator's tests."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st

from lazytensor.core.dtype import DType, float16, float32, int32
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.program import Instr, Program, ProgramBuffer
from lazytensor.ir.types import Type, Work
from lazytensor.ops import OPS
from wse_sim.layout import Rect
from wse_sim.machine import TINY, Machine
from wse_sim.phase import (
    AllReduce,
    Broadcast,
    Compute,
    Par,
    Phase,
    Reduce,
    Repeat,
    Seq,
    Shift,
    Stream,
)

patient = settings(deadline=None, max_examples=50)
quick = settings(deadline=None, max_examples=20)


def computed(op: str, dtype: DType, args: tuple[int, ...], attr: dict | None = None) -> Scalar:
    """A scalar by an operation of the table, with its unit."""
    body = OPS[op].body
    assert body is not None, f"{op} has no loop body"
    return Scalar(op, dtype, args, attr, body.unit)


class Builder:
    """Collects buffers and instructions; every method gives the index of the buffer it made."""

    def __init__(self, dtype: DType = float32):
        self.dtype = dtype
        self.buffers: list[ProgramBuffer] = []
        self.instrs: list[Instr] = []
        self.state: dict[str, tuple[int, int]] = {}
        self.batch: list[int] = []
        self.fetches: list[int] = []

    def buffer(self, shape, kind="temp", name="", dtype=None):
        self.buffers.append(ProgramBuffer(len(self.buffers), Type(tuple(shape), dtype or self.dtype), kind, name))
        return len(self.buffers) - 1

    def input(self, shape, dtype=None):
        self.batch.append(self.buffer(shape, "batch", f"batch.{len(self.batch)}", dtype))
        return self.batch[-1]

    def weight(self, name, shape):
        index = self.buffer(shape, "state", name)
        self.state[name] = (index, index)
        return index

    def type(self, index):
        return self.buffers[index].type

    def call(self, kernel, reads, shapes, flops, direction="forward", attrs=None, nest=None, writes=None):
        """An instruction with its work: its operands are read and its results written once."""
        written = list(writes) if writes is not None else [self.buffer(shape) for shape in shapes]
        work = Work(flops, sum(self.type(r).nbytes for r in reads), sum(self.type(w).nbytes for w in written))
        self.instrs.append(Instr(kernel, tuple(reads), tuple(written), attrs or {}, nest, work, None, direction))
        return written[0] if len(written) == 1 else tuple(written)

    def view(self, source, shape):
        result = self.buffer(shape, dtype=self.type(source).dtype)
        self.instrs.append(Instr("view", (source,), (result,)))
        return result

    def matmul(self, a, b, direction="forward", transpose_a=False, transpose_b=False):
        m, k = self.type(a).shape[:: -1 if transpose_a else 1]
        n = self.type(b).shape[0 if transpose_b else 1]
        attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return self.call("matmul", (a, b), [(m, n)], 2 * m * n * k, direction, attrs)

    def pointwise(self, op, reads, direction="forward", into=None, name=""):
        """A nest over the shape of the first operand; others of fewer axes are repeated along the leading one."""
        shape = self.type(reads[0]).shape
        loops = tuple(Loop(f"i{n}", extent) for n, extent in enumerate(shape))
        strides = [tuple(_strides(self.type(r).shape, len(shape))) for r in reads]
        types = tuple(self.type(r) for r in reads)
        loads = tuple(Scalar("load", self.type(r).dtype, attr=k) for k, r in enumerate(reads))
        body = (*loads, computed(op, self.dtype, tuple(range(len(loads)))))
        out = Type(shape, self.dtype)
        nest = Nest(
            name or op,
            loops,
            types,
            (out,),
            tuple(Access(s) for s in strides),
            (Access(tuple(_strides(shape, len(shape)))),),
            body,
            (NestStore(0, len(loads)),),
        )
        writes = [into] if into is not None else None
        return self.call(
            "nest", reads, [shape], out.size, direction, nest=nest.check() if out.size else nest, writes=writes
        )

    def sum_rows(self, a, direction="backward"):
        """The sum over the leading axis."""
        rows, columns = self.type(a).shape
        loops = (Loop("j", columns), Loop("i", rows, is_reduction=True))
        nest = Nest(
            "sum",
            loops,
            (self.type(a),),
            (Type((columns,), self.dtype),),
            (Access((1, columns)),),
            (Access((1, 0)),),
            (Scalar("load", self.dtype, attr=0),),
            (NestStore(0, 0, "add"),),
        )
        return self.call("nest", (a,), [(columns,)], rows * columns, direction, nest=nest.check())

    def cross_entropy(self, logits, labels):
        rows, columns = self.type(logits).shape
        shapes = [(rows,), (rows, columns)]
        return self.call("softmax_cross_entropy", (logits, labels), shapes, 8 * rows * columns, "forward")

    def program(self):
        return Program(
            tuple(self.buffers), tuple(self.instrs), self.state, tuple(self.batch), tuple(self.fetches)
        ).check()


def _strides(shape, rank):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return [0] * (rank - len(shape)) + strides[::-1]


def mlp(sizes=(784, 256, 10), batch=64, dtype=float32) -> Program:
    """A training step of an MLP with ReLU, cross-entropy and SGD with momentum."""
    b = Builder(dtype)
    x, labels = b.input((batch, sizes[0])), b.input((batch,), int32)
    layers = []
    for n, (k, m) in enumerate(pairwise(sizes)):
        layers.append((b.weight(f"fc{n}.weight", (m, k)), b.weight(f"fc{n}.bias", (m,)), x))
        x = b.pointwise("add", (b.matmul(x, layers[-1][0], transpose_b=True), layers[-1][1]), name=f"fc{n}.bias")
        if n < len(sizes) - 2:
            x = b.pointwise("relu", (x,), name=f"relu{n}")
    losses, gradient = b.cross_entropy(x, labels)
    b.fetches.append(losses)
    for n, (weight, bias, entering) in reversed(list(enumerate(layers))):
        gradients = {
            weight: b.matmul(gradient, entering, "backward", transpose_a=True),
            bias: b.sum_rows(gradient),
        }
        if n:
            back = b.matmul(gradient, weight, "backward")
            gradient = b.pointwise("mul", (back, entering), "backward", name=f"relu{n - 1}.back")
        for parameter, g in gradients.items():
            slot = b.weight(f"{b.buffers[parameter].name}.momentum", b.type(parameter).shape)
            b.pointwise("add", (slot, g), "update", into=slot, name="momentum")
            b.pointwise("sub", (parameter, slot), "update", into=parameter, name="sgd")
    return b.program()


def tiny_mlp() -> Program:
    return mlp((12, 8, 4), batch=4)


@st.composite
def mlps(draw) -> Program:
    sizes = draw(st.lists(st.integers(1, 200), min_size=2, max_size=5))
    return mlp(tuple(sizes), draw(st.integers(1, 64)), draw(st.sampled_from([float16, float32])))


@st.composite
def machines(draw, base: Machine = TINY) -> Machine:
    return replace(
        base,
        width=draw(st.integers(4, 40)),
        height=draw(st.integers(4, 40)),
        ramp_cycles=draw(st.sampled_from([0.5, 1, 2, 3])),
        hop_cycles=draw(st.sampled_from([1, 2])),
        turn_cycles=draw(st.sampled_from([0, 20])),
        edge_bits_per_s=draw(st.sampled_from([1e9, 1e11, 1.2e12])),
    )


@st.composite
def rects(draw, width: int = 24, height: int = 24) -> Rect:
    return Rect(
        draw(st.integers(0, 8)), draw(st.integers(0, 8)), draw(st.integers(1, width)), draw(st.integers(1, height))
    )


@st.composite
def leaves(draw) -> Phase:
    rect, count = draw(rects()), draw(st.integers(0, 5000))
    kind = draw(st.sampled_from([Compute, Shift, Broadcast, Reduce, AllReduce, Stream]))
    if kind is Compute:
        op = draw(st.sampled_from(["fma", "add", "move", "special"]))
        return Compute(rect, op, draw(st.integers(0, 9)), count, draw(st.sampled_from([1, 2, 4, 8])))
    if kind is Shift:
        return Shift(rect, draw(st.sampled_from(["x", "y"])), count, draw(st.integers(1, 4)))
    if kind is Stream:
        return Stream(rect, count, draw(st.sampled_from(["in", "out"])), draw(st.sampled_from(["fabric", "edge"])))
    axis = draw(st.sampled_from(["x", "y", "xy"]))
    length = {"x": rect.width, "y": rect.height, "xy": 1}[axis]
    return kind(rect, axis, count, draw(st.integers(1, length)))


def phases(has_par: bool = True) -> st.SearchStrategy[Phase]:
    forms = [Seq, Par] if has_par else [Seq]
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            *(st.lists(inner, max_size=3).map(lambda parts, form=form: form(tuple(parts))) for form in forms),
            st.builds(Repeat, st.integers(0, 5), inner),
        ),
        max_leaves=8,
    )
