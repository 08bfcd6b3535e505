"""Prices of a decoder-only transformer with its weights in the PEs' memories, as WaferLLM runs it (OSDI 2025).

Activations are distributed along one axis and replicated along the other. Decoding one token is a series of
matrix-vector products, each with an all-reduce. Prefilling multiplies matrices by the two-hop product. All elements
have 16 bits.
"""

from dataclasses import dataclass

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.kernels.collective import centred_all_reduce
from wse_sim.kernels.matmul.gemm import Tile, two_hop
from wse_sim.kernels.matmul.gemv import gemv
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Phase, Repeat, Seq, Shift

ITEMSIZE = 2
"""Bytes of an element."""


@dataclass(frozen=True)
class TransformerExtents:
    """Extents of a model, as in its published configuration.

    - `layers`: number of layers
    - `width`: channels of activations
    - `heads`, `kv_heads`: heads of queries, and of keys and values
    - `hidden`: channels inside the MLP
    - `vocabulary`: number of tokens
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int

    @property
    def kv_width(self) -> int:
        """Channels of the keys (and of the values) of all `kv_heads` heads."""
        return self.width // self.heads * self.kv_heads


TRANSFORMERS = {
    # From the published configurations of the models.
    "LLaMA3-8B": TransformerExtents(layers=32, width=4096, heads=32, kv_heads=8, hidden=14336, vocabulary=128256),
    "LLaMA2-13B": TransformerExtents(layers=40, width=5120, heads=40, kv_heads=40, hidden=13824, vocabulary=32000),
    "CodeLLaMA-34B": TransformerExtents(layers=48, width=8192, heads=64, kv_heads=8, hidden=22016, vocabulary=32000),
    "QWen2-72B": TransformerExtents(layers=80, width=8192, heads=64, kv_heads=8, hidden=29568, vocabulary=152064),
}


@dataclass(frozen=True)
class _SquareMesh:
    """A builder of the phases of a transformer layer on a square rectangle."""

    rect: Rect
    machine: Machine

    @property
    def pes(self) -> int:
        return self.rect.width

    def part(self, extent: int) -> int:
        return ceil_div(extent, self.pes)

    def elementwise(self, elements: int, adds: int = 0, specials: int = 0) -> Phase:
        """Return a phase, for pricing only, of `elements` elements on every PE.

        It has `adds` vector additions over all of them, and then `specials` library routines over all of them.
        """
        return Seq(
            (
                Compute(self.rect, op="add", vectors=adds, length=elements, itemsize=ITEMSIZE),
                Compute(self.rect, op="special", vectors=specials, length=elements, itemsize=ITEMSIZE),
            )
        )

    def norm(self, width: int) -> Phase:
        """Return the phase of a normalization of `width` channels, which are distributed along x.

        It has the time of three additions for each channel of a PE (a square and two products), an all-reduce of one
        word along x, and two library routines (a root and a division).
        """
        local = self.elementwise(self.part(width), adds=3)
        return Seq((local, self.sum("x", 1), self.elementwise(1, specials=2)))

    def sum(self, axis: str, count: int) -> Phase:
        return centred_all_reduce(self.rect, axis, count, self.machine)

    def gemv(self, inner: int, outer: int) -> Phase:
        return gemv(self.rect, inner, outer, ITEMSIZE, self.machine)

    def gemm(self, m: int, k: int, n: int) -> Phase:
        return two_hop(self.rect, Tile.of(m, k, n, self.pes, ITEMSIZE), self.machine)

    def words(self, elements: int) -> int:
        return wavelet_count(elements, ITEMSIZE, self.machine)


def decode_token(model: TransformerExtents, rect: Rect, context: int, machine: Machine) -> Phase:
    """Return a phase, for pricing only, that computes one token with `context` earlier tokens in the cache.

    It has all layers, then a normalization, the logits and their maximum. `rect` must be square, which is not checked.
    """
    mesh = _SquareMesh(rect, machine)
    layer = Seq((*_decode_attention(model, mesh, context), *_decode_mlp(model, mesh)))
    head = Seq((mesh.norm(model.width), mesh.gemv(model.width, model.vocabulary), mesh.sum("x", 1)))
    return Seq((Repeat(model.layers, layer), head))


def _decode_attention(model: TransformerExtents, mesh: _SquareMesh, context: int) -> tuple[Phase, ...]:
    """Return the phases of the attention of a layer for one token, from its normalization to the residual addition.

    Keys and values of `context` tokens have positions along y and channels, head after head, along x. Two shifts along
    y move a part of the new key and value, so that the cache stays balanced over the rows.
    """
    positions, channels = mesh.part(context), mesh.part(model.width)
    # Scores and weighted values have the same cost: each position of the PE times each of its channels.
    lookup = Compute(
        mesh.rect, "fma", vectors=channels, length=positions, itemsize=ITEMSIZE, scalar_cycles=mesh.machine.loop_cycles
    )
    scores = mesh.sum("x", mesh.words(positions))
    # The maximum of scores and later the sum of exponentials, one word for each.
    over_positions = mesh.sum("y", 1)
    kept = mesh.words(mesh.part(model.kv_width))
    return (
        mesh.norm(model.width),
        mesh.gemv(model.width, model.width),
        mesh.gemv(model.width, model.kv_width),
        mesh.gemv(model.width, model.kv_width),
        mesh.elementwise(channels, adds=4),  # rotary position embedding
        *(Shift(mesh.rect, axis="y", words=kept, put=kept),) * 2,  # keep the cache balanced over the PEs
        *(lookup, scores, over_positions, mesh.elementwise(positions, adds=2, specials=1), over_positions),
        *(lookup, mesh.sum("y", mesh.words(channels))),
        *(mesh.elementwise(1, specials=1), mesh.elementwise(channels, adds=1)),  # divide by the sum
        mesh.gemv(model.width, model.width),
        mesh.elementwise(channels, adds=1),
    )


def _decode_mlp(model: TransformerExtents, mesh: _SquareMesh) -> tuple[Phase, ...]:
    """Return the phases of the MLP of a layer for one token.

    They are a normalization, two projections, SiLU times the second projection, the projection back, and the residual
    addition.
    """
    return (
        mesh.norm(model.width),
        mesh.gemv(model.width, model.hidden),
        mesh.gemv(model.width, model.hidden),
        mesh.elementwise(mesh.part(model.hidden), adds=3, specials=2),  # SiLU, times the other projection
        mesh.gemv(model.hidden, model.width),
        mesh.elementwise(mesh.part(model.width), adds=1),
    )


def prefill(model: TransformerExtents, rect: Rect, tokens: int, machine: Machine) -> Phase:
    """Return a phase, for pricing only, that processes `tokens` tokens at once, through all layers.

    Products are the two-hop product. Logits are not computed. `rect` must be square, which is not checked.
    """
    mesh = _SquareMesh(rect, machine)
    rows, d, kv, h = mesh.part(tokens), model.width, model.kv_width, model.hidden
    # Each head has separate scores, while channels of all heads share one product.
    scores = model.heads * rows * mesh.part(tokens)
    layer = Seq(
        (
            *(mesh.gemm(tokens, d, d), mesh.gemm(tokens, d, kv), mesh.gemm(tokens, d, kv)),
            mesh.gemm(tokens, d, tokens),  # all heads: their channels add up to the width
            mesh.elementwise(scores, adds=4, specials=1),
            *(mesh.sum("x", mesh.words(model.heads * rows)),) * 2,
            *(mesh.gemm(tokens, tokens, d), mesh.gemm(tokens, d, d)),
            *(mesh.gemm(tokens, d, h), mesh.gemm(tokens, d, h), mesh.gemm(tokens, h, d)),
            mesh.elementwise(rows * mesh.part(h), adds=3, specials=2),
            mesh.elementwise(rows * mesh.part(d), adds=12),
        )
    )
    return Repeat(model.layers, layer)
