"""Phases of a decoder-only transformer with its weights in the PEs' memories, as WaferLLM runs it (OSDI 2025).

The activations between layers are distributed along x and replicated along y. Decoding a token is a series of
matrix-vector products, each with an all-reduce. A product from distributed channels along x leaves its result
distributed along y, and the next product brings it back. Prefilling multiplies matrices by the two-hop product.
Activations and the key-value cache have 16 bits. Weights of 8 bits are converted to 16 bits before each product. All
phases are only meant to be priced.
"""

from dataclasses import dataclass

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.kernels.collective import centred_all_reduce, launch
from wse_sim.kernels.matmul.gemm import Tile, two_hop
from wse_sim.kernels.matmul.gemv import gemv
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Phase, Repeat, Seq, Shift
from wse_sim.serving.decoder import Decoder

ITEMSIZE = 2
"""Bytes of an element of activations and of the key-value cache."""


@dataclass(frozen=True)
class LayerMesh:
    """A builder of the phases of one layer on a rectangle of `width` x `height` PEs.

    - `model`: the extents of the layer
    - `width`, `height`: PEs of a row, and of a column
    - `machine`: the machine
    - `weight_bits`: 16 or 8
    """

    model: Decoder
    width: int
    height: int
    machine: Machine
    weight_bits: int = 16

    @property
    def rect(self) -> Rect:
        """The rectangle."""
        return Rect(0, 0, self.width, self.height)

    def part(self, extent: int, axis: str) -> int:
        """Return the elements of one PE if `extent` elements are distributed along `axis`, "x" or "y"."""
        return ceil_div(extent, self.width if axis == "x" else self.height)

    def tile(self, channels: int) -> tuple[int, int]:
        """Return the extents on one PE of a matrix between the activations, along x, and `channels`, along y."""
        return self.part(self.model.width, "x"), self.part(channels, "y")

    def words(self, elements: int) -> int:
        """Return the wavelets that carry `elements`."""
        return wavelet_count(elements, ITEMSIZE, self.machine)

    def elementwise(self, elements: int, adds: int = 0, specials: int = 0) -> Phase:
        """Return a phase of `elements` elements on every PE.

        It has `adds` vector additions over all of them, and then `specials` library routines over all of them.
        """
        return Seq(
            (
                Compute(self.rect, op="add", vectors=adds, length=elements, itemsize=ITEMSIZE),
                Compute(self.rect, op="special", vectors=specials, length=elements, itemsize=ITEMSIZE),
            )
        )

    def norm(self, tokens: int = 1) -> Phase:
        """Return the phase of a normalization of the activations of `tokens` tokens.

        It has the time of three additions for each channel of a PE (a square and two products), an all-reduce of one
        word for each token along x, and two library routines (a root and a division).
        """
        local = self.elementwise(tokens * self.part(self.model.width, "x"), adds=3)
        return Seq((local, self.sum("x", tokens), self.elementwise(tokens, specials=2)))

    def sum(self, axis: str, count: int) -> Phase:
        """Return the all-reduce of `count` words along `axis`."""
        return centred_all_reduce(self.rect, axis, count, self.machine)

    def convert(self, channels: int, matrices: int = 1) -> tuple[Phase, ...]:
        """Return the phase that converts weight tiles of 8 bits to 16 bits; no phase for weights of 16 bits.

        A tile of `channels` channels is moved once, element by element. No figure of this conversion is published.
        """
        if self.weight_bits == 16:
            return ()
        short, long = sorted(self.tile(channels))
        loop = self.machine.loop_cycles
        return (Compute(self.rect, "move", matrices * short, long, itemsize=ITEMSIZE, scalar_cycles=loop),)

    def product(self, channels: int, tokens: int = 1, experts: int = 1) -> Phase:
        """Return the products of the activations of `tokens` tokens with `experts` matrices to `channels` each."""
        turned = Rect(0, 0, self.height, self.width)
        vectors = tokens * experts
        multiply = gemv(turned, self.model.width, channels, ITEMSIZE, self.machine, vectors=vectors)
        return Seq((*self.convert(channels, self._tiles(tokens, experts)), multiply))

    def product_back(self, channels: int, tokens: int = 1, experts: int = 1) -> Phase:
        """Return the products of `channels` with `experts` matrices back to the activations, summed over experts."""
        vectors = tokens * experts
        multiply = gemv(self.rect, channels, self.model.width, ITEMSIZE, self.machine, vectors=vectors, sums=tokens)
        return Seq((*self.convert(channels, self._tiles(tokens, experts)), multiply))

    def _tiles(self, tokens: int, experts: int) -> int:
        """Return the tiles that a product reads: tokens share the matrix of a dense layer, but not their experts."""
        return min(tokens * experts, self.model.experts + self.model.shared_experts) if experts > 1 else 1

    def matmul(self, m: int, k: int, n: int) -> Phase:
        """Return the two-hop product of m x k by k x n.

        It has one round for each PE of the longer side. On a rectangle the tiles along the shorter side move as many
        words in total, in more and smaller shifts.
        """
        rows, columns = self.part(m, "y"), self.part(n, "x")
        # The two-hop product has a round for each PE along x, so a tall rectangle computes the transpose.
        if self.height > self.width:
            return two_hop(
                Rect(0, 0, self.height, self.width), Tile(columns, self.part(k, "y"), rows, ITEMSIZE), self.machine
            )
        return two_hop(self.rect, Tile(rows, self.part(k, "x"), columns, ITEMSIZE), self.machine)

    def weight_matmul(self, m: int, channels: int) -> Phase:
        """Return the two-hop product of the activations of `m` tokens with a matrix, which is converted first."""
        return Seq((*self.convert(channels), self.matmul(m, self.model.width, channels)))

    def weight_matmul_back(self, m: int, channels: int) -> Phase:
        """Return the two-hop product of `channels` of `m` tokens with a matrix back to the activations."""
        return Seq((*self.convert(channels), self.matmul(m, channels, self.model.width)))

    def next_region(self, tokens: int) -> Phase:
        """Return the phase that sends the activations of `tokens` tokens to the next rectangle of the mesh."""
        words = self.words(tokens * self.part(self.model.width, "x"))
        line = Rect(0, 0, self.width, self.height + 1)
        return Seq((launch(line, self.machine), Broadcast(line, axis="y", words=words)))

    def weight_bytes(self, channels: int) -> int:
        """Return the bytes on one PE of a matrix between the activations and `channels`."""
        rows, columns = self.tile(channels)
        return rows * columns * self.weight_bits // 8

    @property
    def layer_bytes(self) -> int:
        """Bytes on one PE of the weights of a layer."""
        return sum(number * self.weight_bytes(channels) for number, channels in self.model.layer_matrices)

    @property
    def table_bytes(self) -> int:
        """Bytes on one PE of the embedding, or of the matrix of the logits."""
        return self.weight_bytes(self.model.vocabulary)

    def cache_bytes(self, context: int) -> int:
        """Return the bytes on one PE of the keys and values of one user in one layer, for `context` tokens."""
        return 2 * self.part(context, "x") * self.part(self.model.kv_width, "y") * ITEMSIZE

    def decoding_bytes(self, context: int, tokens: int) -> int:
        """Return the bytes on one PE of the activations of `tokens` tokens that are decoded together.

        They are the activations, their normalization and their sum, and the larger of attention (queries, keys,
        values, two rows of scores) and the MLP. Weights of 8 bits need a converted tile too.
        """
        m = self.model
        attention = self.part(m.query_width, "y") + 2 * self.part(m.kv_width, "y") + 2 * self.part(context, "x")
        mlp = 2 * (m.experts_per_token + m.shared_experts) * self.part(m.hidden, "y")
        row = 3 * self.part(m.width, "x") + max(attention, mlp)
        return ITEMSIZE * (tokens * row + (self._largest_tile() if self.weight_bits < 16 else 0))

    def _largest_tile(self) -> int:
        """Return the elements of the largest tile of a layer's matrices."""
        rows, columns = self.tile(max(channels for _, channels in self.model.layer_matrices))
        return rows * columns

    def prefill_bytes(self, tokens: int, context: int) -> int:
        """Return the bytes on one PE of `tokens` prompt tokens that are processed together, of `context` in the cache.

        They are two tiles of each operand of the largest product, its result, the activations and the scores.
        """
        m, rows = self.model, self.part(tokens, "y")
        widest = max(self.part(channels, "x") for channels in (m.width, *(c for _, c in m.layer_matrices)))
        scores = 2 * m.heads * rows * self.part(context, "x")
        return ITEMSIZE * (2 * self._largest_tile() + 4 * rows * widest + scores)


def decode_layer(mesh: LayerMesh, context: int, tokens: int = 1) -> Phase:
    """Return a layer for `tokens` tokens of different users, each with `context` earlier tokens in the cache."""
    return Seq((*_decode_attention(mesh, context, tokens), *_decode_mlp(mesh, tokens)))


def decode_head(mesh: LayerMesh, tokens: int = 1) -> Phase:
    """Return a normalization, the logits of `tokens` tokens, and their maximum."""
    return Seq((mesh.norm(tokens), mesh.product(mesh.model.vocabulary, tokens), mesh.sum("y", tokens)))


def decode_token(mesh: LayerMesh, context: int, tokens: int = 1) -> Phase:
    """Return all layers and the logits for `tokens` tokens, on one rectangle."""
    return Seq((Repeat(mesh.model.layers, decode_layer(mesh, context, tokens)), decode_head(mesh, tokens)))


def _decode_attention(mesh: LayerMesh, context: int, tokens: int) -> tuple[Phase, ...]:
    """Return the phases of the attention of a layer, from its normalization to the residual addition.

    Keys and values of `context` tokens have positions along x and channels, head after head, along y. Two shifts along
    x move a part of the new key and value, so that the cache stays balanced over the columns.
    """
    m = mesh.model
    positions, channels = mesh.part(context, "x"), mesh.part(m.query_width, "y")
    # Scores and weighted values have the same cost: each position of the PE times each of its channels.
    lookup = Compute(
        mesh.rect,
        "fma",
        vectors=tokens * channels,
        length=positions,
        itemsize=ITEMSIZE,
        scalar_cycles=mesh.machine.loop_cycles,
    )
    scores = mesh.sum("y", mesh.words(tokens * positions))
    # The maximum of scores and later the sum of exponentials, one word for each.
    over_positions = mesh.sum("x", tokens)
    kept = mesh.words(tokens * mesh.part(m.kv_width, "y"))
    return (
        mesh.norm(tokens),
        mesh.product(m.query_width, tokens),
        Repeat(2, mesh.product(m.kv_width, tokens)),
        mesh.elementwise(tokens * channels, adds=4),  # rotary position embedding
        Repeat(2, Shift(mesh.rect, axis="x", words=kept, put=kept)),  # keep the cache balanced over the PEs
        *(lookup, scores, over_positions),
        *(mesh.elementwise(tokens * positions, adds=2, specials=1), over_positions),
        *(lookup, mesh.sum("x", mesh.words(tokens * channels))),
        # Divide by the sum.
        *(mesh.elementwise(tokens, specials=1), mesh.elementwise(tokens * channels, adds=1)),
        mesh.product_back(m.query_width, tokens),
        mesh.elementwise(tokens * mesh.part(m.width, "x"), adds=1),
    )


def _decode_mlp(mesh: LayerMesh, tokens: int) -> tuple[Phase, ...]:
    """Return the phases of the MLP of a layer: a normalization, the MLP or the experts, and the residual addition.

    The MLP has one or two projections, SiLU, times the second projection if there is one, and the projection back. The
    results of a token's experts are summed on each PE before the all-reduce.
    """
    m = mesh.model
    experts = m.experts_per_token + m.shared_experts
    return (
        mesh.norm(tokens),
        *(_route(mesh, tokens) if m.experts > 1 else ()),
        Repeat(m.mlp_matrices - 1, mesh.product(m.hidden, tokens, experts)),
        mesh.elementwise(tokens * experts * mesh.part(m.hidden, "y"), adds=3 if m.is_gated else 2, specials=2),
        mesh.product_back(m.hidden, tokens, experts),
        mesh.elementwise(tokens * mesh.part(m.width, "x"), adds=1),
    )


def _route(mesh: LayerMesh, tokens: int) -> tuple[Phase, ...]:
    """Return the phases that choose the experts of `tokens` tokens.

    They are a product, an all-reduce after which each PE has the values of all experts, and a pass over these values
    for each expert of a token.
    """
    m = mesh.model
    return (
        mesh.product(m.experts, tokens),
        mesh.sum("y", mesh.words(tokens * m.experts)),
        mesh.elementwise(tokens * m.experts, adds=m.experts_per_token),
        mesh.elementwise(tokens * m.experts_per_token, adds=1, specials=2),
    )


def prefill_layer(mesh: LayerMesh, tokens: int, context: int | None = None) -> Phase:
    """Return a layer for `tokens` tokens of one prompt at once, by two-hop products; tokens are distributed along y.

    Queries of the tokens meet the keys and values of `context` tokens, by default those of the tokens themselves.
    Experts get equal shares of the tokens.
    """
    m, keys = mesh.model, tokens if context is None else context
    rows, q, kv = mesh.part(tokens, "y"), m.query_width, m.kv_width
    # Each head has separate scores, while channels of all heads share one product.
    scores = m.heads * rows * mesh.part(keys, "x")
    share = ceil_div(tokens * m.experts_per_token, m.experts)
    return Seq(
        (
            *(mesh.weight_matmul(tokens, q), Repeat(2, mesh.weight_matmul(tokens, kv))),
            mesh.matmul(tokens, q, keys),  # the products of all heads, whose channels add up to q
            mesh.elementwise(scores, adds=4, specials=1),
            Repeat(2, mesh.sum("x", mesh.words(m.heads * rows))),
            *(mesh.matmul(tokens, keys, q), mesh.weight_matmul_back(tokens, q)),
            *((mesh.weight_matmul(tokens, m.experts),) if m.experts > 1 else ()),
            Repeat(m.experts, Seq(_prefill_mlp(mesh, share, m.hidden))),
            Repeat(m.shared_experts, Seq(_prefill_mlp(mesh, tokens, m.hidden))),
            mesh.elementwise(rows * mesh.part(m.width, "x"), adds=12),
        )
    )


def _prefill_mlp(mesh: LayerMesh, tokens: int, hidden: int) -> tuple[Phase, ...]:
    """Return the products and elementwise phases of an MLP of `hidden` channels for `tokens` tokens."""
    m = mesh.model
    elements = mesh.part(tokens, "y") * mesh.part(hidden, "x")
    return (
        Repeat(m.mlp_matrices - 1, mesh.weight_matmul(tokens, hidden)),
        mesh.weight_matmul_back(tokens, hidden),
        mesh.elementwise(elements, adds=3 if m.is_gated else 2, specials=2),
    )


def prefill(mesh: LayerMesh, tokens: int) -> Phase:
    """Return all layers for a prompt of `tokens` tokens, on one rectangle. Logits are not computed."""
    return Repeat(mesh.model.layers, prefill_layer(mesh, tokens))
