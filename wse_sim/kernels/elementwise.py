"""Kernels in which no PE needs a word of another: chains over elements, and updates of weights."""

from math import pi, sqrt

from wse_sim.isa.builder import Builder
from wse_sim.kernels.kernel import BANK_PAIRS, WIDE, MeshKernel, Placed, Room
from wse_sim.layout import Rect
from wse_sim.phase import Local

GELU_CUBIC = 0.044715
GELU_SCALE = sqrt(2 / pi)


def bias_relu(rect: Rect, rows: int, columns: int, dtype: str = "float32") -> MeshKernel:
    """y = max(x + bias, 0) of x [rows, columns] and bias [1, columns], which all PEs of a column of PEs share."""
    room, x, y, bias = _with_bias(rect, rows, columns, dtype)
    build = room.builder()
    _add_bias(build, y, x, bias)
    build.max(y.vector(), y.vector(), 0.0, y.elements)
    return MeshKernel(Local(rect, build.body()), (x, bias), (y,), room.words)


def bias_gelu(rect: Rect, rows: int, columns: int, dtype: str = "float32") -> MeshKernel:
    """y = u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))) / 2 of u = x + bias, in float32 and rounded once.

    x and y are [rows, columns], bias [1, columns] is on all PEs of a column of PEs.
    """
    room, x, y, bias = _with_bias(rect, rows, columns, dtype)
    u, t = (
        Placed(name=name, rect=rect, rows=rows, columns=columns, dtype=WIDE, address=room.take(x.elements, WIDE))
        for name in "ut"
    )
    build, count = room.builder(), x.elements
    _add_bias(build, u, x, bias)
    at, of = t.vector(), u.vector()
    build.mul(at, of, of, count)
    # u (1 + c u^2) is u + c u^3 with one operation less.
    build.fmac(at, at, GELU_CUBIC, 1.0, count)
    build.mul(at, at, of, count)
    build.mul(at, at, GELU_SCALE, count)
    build.special("tanh", at, at, count)
    build.fmac(at, at, 0.5, 0.5, count)
    build.mul(at, at, of, count)
    build.convert(y.vector(), at, count)
    return MeshKernel(Local(rect, build.body()), (x, bias), (y,), room.words)


def _with_bias(rect: Rect, rows: int, columns: int, dtype: str) -> tuple[Room, Placed, Placed, Placed]:
    room = Room()
    x, y = (room.place(name, rect, rows, columns, dtype) for name in "xy")
    return room, x, y, room.place("bias", rect, 1, columns, dtype, row_kind="replicated")


def _add_bias(build: Builder, target: Placed, x: Placed, bias: Placed) -> None:
    steps = (x.tile_columns,)
    # The bias is one row for all: with a step of zero it stays while the rows go by.
    with build.loop(x.tile_rows):
        build.add(target.vector(steps=steps), x.vector(steps=steps), bias.vector(), x.tile_columns)


def sgd_momentum(
    rect: Rect, rows: int, columns: int, dtype: str = "float32", rate: float = 0.1, momentum: float = 0.9
) -> MeshKernel:
    """velocity = momentum velocity + gradient, weight = weight - rate velocity, each [rows, columns].

    Velocities are float32; nothing is sent.
    """
    room = Room()
    weight, gradient = (room.place(name, rect, rows, columns, dtype) for name in ("weight", "gradient"))
    velocity, change = (room.place(name, rect, rows, columns, WIDE) for name in ("velocity", "change"))
    build, count = room.builder(), weight.elements
    build.fmac(velocity.vector(), velocity.vector(), momentum, gradient.vector(), count)
    build.mul(change.vector(), velocity.vector(), -rate, count)
    build.add(weight.vector(), weight.vector(), change.vector(), count)
    return MeshKernel(Local(rect, build.body()), (weight, gradient, velocity), (weight, velocity), room.words)


def adam(
    rect: Rect,
    rows: int,
    columns: int,
    dtype: str = "float32",
    rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    step: int = 1,
) -> MeshKernel:
    """One step of Adam (Kingma and Ba, ICLR 2015) on a weight [rows, columns]; nothing is sent.

    Both moments and the change are float32.
    """
    room = Room()
    weight, gradient = (room.place(name, rect, rows, columns, dtype) for name in ("weight", "gradient"))
    first, second = (room.place(name, rect, rows, columns, WIDE) for name in ("first", "second"))
    change = room.place("change", rect, rows, columns, WIDE, bank=gradient.address % BANK_PAIRS)
    build, count = room.builder(), weight.elements
    g, m, v, t = (placed.vector() for placed in (gradient, first, second, change))
    build.mul(t, g, 1 - betas[0], count)
    build.fmac(m, m, betas[0], t, count)
    build.mul(t, g, g, count)
    build.mul(t, t, 1 - betas[1], count)
    build.fmac(v, v, betas[1], t, count)
    # The corrections of both moments are known when the kernel is built, so they are constants.
    build.mul(t, v, 1 / (1 - betas[1] ** step), count)
    build.special("sqrt", t, t, count)
    build.add(t, t, eps, count)
    build.special("reciprocal", t, t, count)
    build.mul(t, t, m, count)
    build.mul(t, t, -rate / (1 - betas[0] ** step), count)
    build.add(weight.vector(), weight.vector(), t, count)
    return MeshKernel(Local(rect, build.body()), (weight, gradient, first, second), (weight, first, second), room.words)
