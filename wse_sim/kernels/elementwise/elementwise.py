"""Kernels without communication: bias with an activation, and optimizer steps."""

from collections.abc import Sequence

from wse_sim.isa.builder import Builder
from wse_sim.kernels.kernel import BANK_PAIRS, WIDE, Allocator, MeshKernel, Placed
from wse_sim.kernels.scalars import POINTWISE, append_steps
from wse_sim.layout import Rect
from wse_sim.phase import Local


def bias_relu(rect: Rect, rows: int, columns: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes y = max(x + bias, 0) of x [rows, columns] and bias [1, columns].

    Every PE has the part of bias for its columns.
    """
    room, x, y, bias = _with_bias(rect, rows, columns, dtype)
    build = room.builder()
    _add_bias(build, y, x, bias)
    build.max(y.vector(), y.vector(), 0.0, y.elements)
    return MeshKernel(Local(rect, build.body()), (x, bias), (y,), room.words)


def bias_gelu(rect: Rect, rows: int, columns: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes GELU's tanh form, y = u (1 + tanh(sqrt(2 / pi) (u + 0.044715 u^3))) / 2 of u = x +
    bias.

    x and y are [rows, columns], bias is [1, columns]. It is computed in float32 and rounded once.
    """
    room, x, y, bias = _with_bias(rect, rows, columns, dtype)
    u, t = room.wide(x, "u"), room.wide(x, "t")
    build = room.builder()
    _add_bias(build, u, x, bias)
    POINTWISE["gelu tanh"].emit(build, y.vector(), [u.vector()], x.elements, [t.vector()])
    return MeshKernel(Local(rect, build.body()), (x, bias), (y,), room.words)


def _with_bias(rect: Rect, rows: int, columns: int, dtype: str) -> tuple[Allocator, Placed, Placed, Placed]:
    room = Allocator()
    x, y = (room.place(name, rect, rows, columns, dtype) for name in "xy")
    return room, x, y, room.place("bias", rect, 1, columns, dtype, row_kind="replicated")


def _add_bias(build: Builder, target: Placed, x: Placed, bias: Placed) -> None:
    steps = (x.tile_columns,)
    # The bias is one row: with a step of zero it stays the same for all rows.
    with build.loop(x.tile_rows):
        build.add(target.vector(steps=steps), x.vector(steps=steps), bias.vector(), x.tile_columns)


def sgd_momentum(
    rect: Rect, rows: int, columns: int, dtype: str = "float32", rate: float = 0.1, momentum: float = 0.9
) -> MeshKernel:
    """Return a kernel that computes velocity = momentum velocity + gradient; weight = weight - rate velocity.

    All are [rows, columns]. The velocity is float32. Operands are weight, gradient and velocity; results are weight and
    velocity.
    """
    steps = (
        f"velocity = fmac velocity {momentum} gradient",
        f"change = mul velocity {-rate}",
        "weight = add weight change",
    )
    return _update(rect, rows, columns, dtype, ("velocity",), steps)


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
    """Return a kernel of one step of Adam (Kingma and Ba, ICLR 2015) on a weight [rows, columns].

    `rate` is the learning rate, and `step`, which counts from 1, determines the bias corrections; both are constants of
    the kernel. Operands are weight, gradient, first and second, the moments, which are float32. Results are weight,
    first and second. There is no weight decay.
    """
    # The bias corrections of both moments are known when the kernel is built, so they are constants.
    steps = (
        f"change = mul gradient {1 - betas[0]}",
        f"first = fmac first {betas[0]} change",
        "change = mul gradient gradient",
        f"change = mul change {1 - betas[1]}",
        f"second = fmac second {betas[1]} change",
        f"change = mul second {1 / (1 - betas[1] ** step)}",
        "change = sqrt change",
        f"change = add change {eps}",
        "change = reciprocal change",
        "change = mul change first",
        f"change = mul change {-rate / (1 - betas[0] ** step)}",
        "weight = add weight change",
    )
    return _update(rect, rows, columns, dtype, ("first", "second"), steps)


def _update(
    rect: Rect, rows: int, columns: int, dtype: str, moments: tuple[str, ...], steps: Sequence[str]
) -> MeshKernel:
    """Return the kernel that runs `steps`, as in `append_steps`, on every element of `weight`, `gradient` and
    `moments`.

    The moments are float32, and so is `change`, a scratch tile. Operands are all of these tiles but `change`; results
    are the weight and the moments.
    """
    room = Allocator()
    types = {"weight": dtype, "gradient": dtype, **dict.fromkeys(moments, WIDE)}
    tiles = {name: room.place(name, rect, rows, columns, type) for name, type in types.items()}
    # No step reads `change` together with `gradient`, so both may start in the same pair of banks.
    bank = tiles["gradient"].address % BANK_PAIRS
    change, build = room.place("change", rect, rows, columns, WIDE, bank), room.builder()
    named = {name: tile.vector() for name, tile in {**tiles, "change": change}.items()}
    append_steps(build, steps, named, change.elements)
    weight, gradient, *others = tiles.values()
    return MeshKernel(Local(rect, build.body()), (weight, gradient, *others), (weight, *others), room.words)
