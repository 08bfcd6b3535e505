"""Compare closed forms with wavelet simulations: the cycles of every kernel at a few sizes, as a table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.display.table import Column, Table
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.kernels import KERNELS
from wse_sim.kernels.attention.ring import Heads
from wse_sim.kernels.kernel import MeshKernel, blank
from wse_sim.kernels.windows.channel_convolution import Images
from wse_sim.kernels.windows.window import Window
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, Machine

Size = tuple[int, int]
"""(PEs on a side of the mesh, elements on a side of a tile)."""
SIZES: tuple[Size, ...] = ((4, 8), (8, 8), (8, 16))
"""The sizes at which kernels are compared."""
_WINDOW = Window((3, 3), (2, 2), ((1, 1), (1, 1)))


def _pattern(rows: int, columns: int) -> np.ndarray:
    """Return a random matrix of zeros and ones in which about a quarter is ones."""
    return (np.random.default_rng(0).random((rows, columns)) < 0.25).astype(np.float32)


ARGUMENTS: tuple[tuple[str, Callable[[int, int], tuple[Any, ...]]], ...] = (
    (
        "gemv softmax softmax_cross_entropy layer_norm layer_norm_gradient rms_norm rms_norm_gradient "
        "bias_relu bias_gelu sgd_momentum adam",
        lambda pes, tile: (pes * tile, pes * tile),
    ),
    (
        "summa cannon two_hop weight_gradient input_gradient linear_step",
        lambda pes, tile: (pes * tile, pes * tile, pes * tile),
    ),
    ("operand_in_place", lambda pes, tile: (tile, pes * tile, pes * tile)),
    ("result_in_place", lambda pes, tile: (pes * tile, pes * tile, 2 * tile)),
    ("streamed_product", lambda pes, tile: (_pattern(pes * tile, tile), pes * tile)),
    ("spmm", lambda pes, tile: (_pattern(pes * tile, pes * tile), tile)),
    # Two samples and two channels on each PE.
    ("batch_norm batch_norm_gradient", lambda pes, tile: (2 * pes, 2 * pes, tile)),
    ("embedding embedding_gradient", lambda pes, tile: (pes * tile, 2 * tile, pes * tile)),
    # A list for each PE and each row of a tile.
    ("at_places put_places", lambda pes, tile: (pes * tile, pes, 2 * tile, tile)),
    ("convolution", lambda pes, tile: (pes * tile, pes * tile, 2, 3, 1)),
    # Two channels on each PE, and an image for each row of PEs.
    (
        "channel_convolution convolution_input_gradient convolution_weight_gradient",
        lambda pes, tile: (Images(pes, 2 * pes, 2 * pes, (tile, tile)), _WINDOW),
    ),
    ("window_sum window_spread window_argmax", lambda pes, tile: (pes, 2 * pes, (tile, tile), _WINDOW)),
    ("attention attention_gradient", lambda pes, tile: (Heads(pes * tile // 4, pes, tile // 2), 0.5)),
    ("random_uniform", lambda pes, tile: (pes * tile, pes, 0)),
    ("add_counters", lambda pes, tile: (pes * tile,)),
    ("bicgstab", lambda pes, tile: (tile * tile, 2)),
    ("star", lambda pes, tile: (tile * tile, (-6.0, 1.0))),
)
"""Names of kernels -> a function from (PEs, elements on a side of a tile) to their arguments after the rectangle."""
SAMPLES: Mapping[str, Callable[[int, int], tuple[Any, ...]]] = {
    name: extents for names, extents in ARGUMENTS for name in names.split()
}
"""Name of a kernel -> that function."""


def sample(name: str, pes: int, tile: int, dtype: str = "float32") -> MeshKernel:
    """Return the kernel `name` on a mesh of `pes` x `pes`, with tiles of about `tile` x `tile` elements.

    "streamed_product" has one more column, for its feeders. "operand_in_place" and "result_in_place" send chunks of 4
    rows. "add_counters" ignores `dtype`.
    """
    how: dict[str, Any] = {"dtype": dtype} if name != "add_counters" else {}
    if name.endswith("in_place"):
        how["chunk"] = 4
    # One more column, for the feeders.
    rect = Rect(0, 0, pes + (name == "streamed_product"), pes)
    return KERNELS[name](rect, *SAMPLES[name](pes, tile), **how)


@dataclass(frozen=True)
class Comparison:
    """The cycles of one kernel at one size, by closed form (`closed`) and by wavelet simulation (`simulated`)."""

    name: str
    pes: int
    tile: int
    dtype: str
    closed: int
    simulated: int

    @property
    def error(self) -> float:
        """Relative error of the closed form: closed / simulated - 1."""
        return self.closed / self.simulated - 1


def compare(name: str, size: Size, dtype: str = "float32", machine: Machine | str = WSE2) -> Comparison:
    """Return the cycles of the kernel `name` by closed form and by simulation, on memories of zeros.

    `size` is as in `SIZES`, and `machine` is a machine or its name. Raises LazyError if the simulation does not finish.
    """
    # Zeros suffice: the cycles of an instruction do not depend on values.
    pes, tile = size
    kernel = sample(name, pes, tile, dtype)
    done = simulate_phase(kernel.phase, machine, blank(kernel)).expect_finished()
    return Comparison(
        name=name, pes=pes, tile=tile, dtype=dtype, closed=cost(kernel.phase, machine).cycles, simulated=done.cycles
    )


def table(rows: Iterable[Comparison]) -> str:
    """Return comparisons as a table in plain text, with a header and a line for each."""
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
