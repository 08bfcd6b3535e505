"""Softmax cross-entropy on one core, for logits stored as [columns, samples]."""

from lazytensor.core.dtype import float32
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.types import Type
from wse_sim.isa.builder import Builder
from wse_sim.kernels.kernel import Allocator
from wse_sim.pipeline.layer_chain import LossWork
from wse_sim.pipeline.memory_map import MemoryMap
from wse_sim.pipeline.tile_nests import MATRIX, SAMPLE, NestTile, OperandPlacement, emit_nest

ELEMENT_DTYPE = "float32"


def lower_loss(
    loss: LossWork, memory: MemoryMap, tile: NestTile, batch: int, room: Allocator, builder: Builder
) -> None:
    """Append the instructions of a softmax cross-entropy loss and its gradient for micro-batch `batch`.

    losses = log of the sum of exp(x) - x at the label. The gradient is softmax(x), minus 1 at the label. The maximum of
    a row is subtracted first. Labels are one-hot rows, stored for all samples of the step at `memory.targets`. `room`
    provides scratch memory. `tile` has the columns of the logits and the samples of a micro-batch.
    """
    places = {
        "x": OperandPlacement(memory.at(loss.logits, batch), MATRIX),
        "t": OperandPlacement(memory.targets + batch * tile.columns * tile.samples, MATRIX),
        "y": OperandPlacement(memory.at(loss.gradient, batch), MATRIX),
        "loss": OperandPlacement(memory.at(loss.losses, batch), SAMPLE),
        **{
            name: OperandPlacement(room.take(tile.samples, ELEMENT_DTYPE), SAMPLE)
            for name in ("most", "sum", "aimed", "part")
        },
        "w": OperandPlacement(room.take(tile.columns * tile.samples, ELEMENT_DTYPE), MATRIX),
    }
    # Write the steps as loop nests, so that `tile_nests` can emit them.
    for reads, steps, stores in _LOSS_STEPS:
        names = reads.split()
        body = [Scalar("load", float32, (), k) for k in range(len(names))]
        letters = {name: k for k, name in enumerate(names)}
        for step in steps:
            to, op, *arguments = step.split()
            letters[to] = len(body)
            body.append(Scalar(op, float32, tuple(letters[a] for a in arguments)))
        outputs = [(name, letters[value], reduce) for name, value, reduce in stores]
        nest = _make_nest(len(names), body, outputs)
        emit_nest(nest, [places[n] for n in names], [places[n] for n, _, _ in outputs], tile, room, builder)


_LOSS_STEPS: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, str, str], ...]], ...] = (
    ("x", (), (("most", "x", "maximum"),)),
    (
        "x most t",
        ("d sub x most", "e exp d", "a mul d t"),
        (("w", "e", ""), ("sum", "e", "add"), ("aimed", "a", "add")),
    ),
    ("sum aimed", ("l log sum", "m sub l aimed", "r reciprocal sum"), (("loss", "m", ""), ("part", "r", ""))),
    ("w part t", ("p mul w part", "g sub p t"), (("y", "g", ""),)),
)
"""The loop nests of the loss: operands, operations on scalars, and stores (name, value, reduction over a row)."""


def _make_nest(inputs: int, body: list[Scalar], outputs: list[tuple[str, int, str]]) -> Nest:
    """Return a nest with this body for `emit_nest`. Its extents and strides have no meaning.

    `inputs` is the number of operands. `outputs` are (name, index of the value, reduction or "").
    """
    # `emit_nest` takes the layout of operands from their placement, so extents and strides are not used.
    one, access = Type((1, 1), float32), Access((1, 1))
    stores = tuple(NestStore(k, value, reduce) for k, (_, value, reduce) in enumerate(outputs))
    return Nest(
        name="loss",
        loops=(Loop("i0", 1), Loop("i1", 1)),
        inputs=(one,) * inputs,
        outputs=(one,) * len(outputs),
        reads=(access,) * inputs,
        writes=(access,) * len(outputs),
        body=tuple(body),
        stores=stores,
    )
