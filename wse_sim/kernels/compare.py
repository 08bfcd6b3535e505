"""Closed form against wavelets: the cycles of every kernel that runs, at a few sizes, as a table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lazytensor.table import Column, Table
from wse_sim.fabric import simulate_phase
from wse_sim.kernels import KERNELS
from wse_sim.kernels.attention.ring import Heads
from wse_sim.kernels.channel_convolution import Images
from wse_sim.kernels.kernel import MeshKernel, blank
from wse_sim.kernels.windows import Window
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, Machine
from wse_sim.price.cost import cost

Size = tuple[int, int]
"""PEs on a side of the mesh, and elements on a side of a tile."""
SIZES: tuple[Size, ...] = ((4, 8), (8, 8), (8, 16))
_DENSITY = 0.25
_SEVEN_POINTS = (-6.0, 1.0)


def _tiles(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    """A kernel over a matrix in square tiles."""
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, pes * tile, pes * tile, dtype)


def _product(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, *(pes * tile,) * 3, dtype)


def _streamed(rect: Rect, pes: int, tile: int, dtype: str) -> MeshKernel:
    weights = np.random.default_rng(0).random((pes * tile, tile)) < _DENSITY
    # One column more, for the feeders.
    wider = Rect(0, 0, pes + 1, pes)
    return KERNELS["streamed_product"](wider, weights.astype(np.float32), pes * tile, dtype)


def _sparse(rect: Rect, pes: int, tile: int, dtype: str) -> MeshKernel:
    matrix = np.random.default_rng(0).random((pes * tile, pes * tile)) < _DENSITY
    return KERNELS["spmm"](rect, matrix.astype(np.float32), tile, dtype)


def _lookup(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, pes * tile, 2 * tile, pes * tile, dtype)


def _listed(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    """A list for each PE and each row of a tile."""
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, pes * tile, pes, 2 * tile, tile, dtype)


def _channels(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    """Two channels a PE, and an image for each row of PEs."""
    window = Window((3, 3), (2, 2), ((1, 1), (1, 1)))
    return lambda rect, pes, tile, dtype: KERNELS[name](
        rect, Images(pes, 2 * pes, 2 * pes, (tile, tile)), window, dtype
    )


def _pooled(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    window = Window((3, 3), (2, 2), ((1, 1), (1, 1)))
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, pes, 2 * pes, (tile, tile), window, dtype)


def _heads(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, Heads(pes * tile // 4, pes, tile // 2), 0.5, dtype)


def _batch(name: str) -> Callable[[Rect, int, int, str], MeshKernel]:
    """Two samples and two channels a PE."""
    return lambda rect, pes, tile, dtype: KERNELS[name](rect, 2 * pes, 2 * pes, tile, dtype)


SAMPLES: Mapping[str, Callable[[Rect, int, int, str], MeshKernel]] = {
    "gemv": _tiles("gemv"),
    **{
        name: _product(name)
        for name in ("summa", "cannon", "two_hop", "weight_gradient", "input_gradient", "linear_step")
    },
    "operand_in_place": lambda rect, pes, tile, dtype: KERNELS["operand_in_place"](
        rect, tile, pes * tile, pes * tile, dtype, 4
    ),
    "result_in_place": lambda rect, pes, tile, dtype: KERNELS["result_in_place"](
        rect, pes * tile, pes * tile, 2 * tile, dtype, 4
    ),
    "streamed_product": _streamed,
    **{name: _tiles(name) for name in ("softmax", "softmax_cross_entropy", "layer_norm", "bias_relu", "bias_gelu")},
    **{name: _tiles(name) for name in ("sgd_momentum", "adam")},
    **{name: _tiles(name) for name in ("rms_norm", "rms_norm_gradient", "layer_norm_gradient")},
    **{name: _batch(name) for name in ("batch_norm", "batch_norm_gradient")},
    "embedding": _lookup("embedding"),
    "embedding_gradient": _lookup("embedding_gradient"),
    **{name: _listed(name) for name in ("at_places", "put_places")},
    "spmm": _sparse,
    "convolution": lambda rect, pes, tile, dtype: KERNELS["convolution"](rect, pes * tile, pes * tile, 2, 3, 1, dtype),
    **{
        name: _channels(name)
        for name in ("channel_convolution", "convolution_input_gradient", "convolution_weight_gradient")
    },
    **{name: _pooled(name) for name in ("window_sum", "window_spread", "window_argmax")},
    "random_uniform": lambda rect, pes, tile, dtype: KERNELS["random_uniform"](rect, pes * tile, pes, 0, dtype),
    "add_counters": lambda rect, pes, tile, dtype: KERNELS["add_counters"](rect, pes * tile),
    **{name: _heads(name) for name in ("attention", "attention_gradient")},
    "bicgstab": lambda rect, pes, tile, dtype: KERNELS["bicgstab"](rect, tile * tile, 2, dtype),
    "star": lambda rect, pes, tile, dtype: KERNELS["star"](rect, tile * tile, _SEVEN_POINTS, dtype),
}
"""Name of a kernel -> one of a size: (rectangle, PEs on a side, elements on a side of a tile, type)."""


@dataclass(frozen=True)
class Comparison:
    """Cycles of one kernel at one size, by two readings."""

    name: str
    pes: int
    tile: int
    dtype: str
    closed: int
    simulated: int

    @property
    def error(self) -> float:
        """Of the closed form, relative to the simulation."""
        return self.closed / self.simulated - 1


def compare(name: str, size: Size, dtype: str = "float32", machine: Machine = WSE2) -> Comparison:
    """Price a kernel, and run it on memories of zeros: its cycles do not depend on the numbers."""
    # Zeros will do: no instruction takes longer for one number than for another.
    pes, tile = size
    kernel = SAMPLES[name](Rect(0, 0, pes, pes), pes, tile, dtype)
    done = simulate_phase(kernel.phase, machine, blank(kernel)).expect_finished()
    return Comparison(
        name=name, pes=pes, tile=tile, dtype=dtype, closed=cost(kernel.phase, machine).cycles, simulated=done.cycles
    )


def table(rows: Iterable[Comparison]) -> str:
    """The comparisons as lines of text."""
    shown = [
        (r.name, f"{r.pes} x {r.pes}", f"{r.tile} x {r.tile}", r.dtype, r.closed, r.simulated, r.error) for r in rows
    ]
    return Table(_COLUMNS, shown).text(gap=1)


_COLUMNS = (
    *(Column("kernel", is_words=True, width=22), Column("PEs", width=7), Column("tile", width=7)),
    Column("type", is_words=True, width=9),
    *(Column("closed", "{:,}".format, width=9), Column("simulated", "{:,}".format, width=9)),
    Column("error", "{:+.1%}".format, width=7),
)
