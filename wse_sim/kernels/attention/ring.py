"""Attention and its gradient with memory that grows with the number of tokens and not with its square.

Tokens are distributed along y and heads, of all samples together, along x. A PE has the queries of its tokens. Keys and
values shift around the columns on a folded ring, a block of tokens at a time, with their positions. The scores of a
block are computed, used and discarded. In the forward pass their maximum and sum are updated, and earlier sums are
rescaled (Milakov and Gimelshein 2018; Dao et al. 2022). In the backward pass scores are recomputed from the logarithm
of the sum. Scores and sums are in float32. Any rectangle is allowed; at most as many rows are used as there are tokens.
"""

from dataclasses import dataclass

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.isa.packing import word_count
from wse_sim.kernels.kernel import WIDE, Allocator, MeshKernel, Placed
from wse_sim.kernels.rows.softmax import LOWEST
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Local, Phase, Repeat, Seq, Shift

NOWHERE = 2.0**30
"""The position of a padding key, beyond every limit."""


@dataclass(frozen=True)
class Heads:
    """Extents of an attention: tokens, heads of all samples, and the channels (`width`) of a head."""

    tokens: int
    heads: int
    width: int


class _Blocks:
    """The tiles of an attention: those that stay with the queries, and the block that shifts from PE to PE.

    The block has the positions of its tokens in float32, and then the matrices in `turning`, a map from their names to
    their element types. `rect` is limited to as many columns as heads and as many rows as tokens.
    """

    def __init__(self, rect: Rect, heads: Heads, dtype: str, turning: dict[str, str]):
        self.rect = rect = rect.limit_size(heads.heads, heads.tokens)
        self.heads, self.dtype, self.room = heads, dtype, Allocator()
        self.tokens, self.own = ceil_div(heads.tokens, rect.height), ceil_div(heads.heads, rect.width)
        # One after the other without gaps, so that one move sends all of them.
        self.elements = self.tokens * self.own * heads.width
        words = self.tokens + sum(word_count(self.elements, type) for type in turning.values())
        self.first, self.words = self.room.take(words, WIDE), words
        at = self.first + self.tokens
        self.blocks: dict[str, Placed] = {}
        for name, type in turning.items():
            self.blocks[name] = self.matrix(name, type, at)
            at += word_count(self.elements, type)
        self.positions = self.column("positions", fill=NOWHERE, address=self.first)
        self.limits = self.column("limits", fill=0)
        self.scores = self.square()

    def matrix(self, name: str, dtype: str = "", address: int | None = None) -> Placed:
        """Return the placement of a matrix [tokens, heads x width].

        `dtype` is by default that of the attention. `address` is in words; if it is None, new memory is allocated.
        """
        heads, dtype = self.heads, dtype or self.dtype
        at = self.room.take(self.elements, dtype) if address is None else address
        return Placed(name, self.rect, heads.tokens, heads.heads, dtype, at, depth=heads.width)

    def column(self, name: str, fill: float, address: int | None = None) -> Placed:
        """Return the placement of a float32 number for each token, which is the same on all PEs of a row.

        Padding tokens have the value `fill`. `address` is in words; if it is None, new memory is allocated.
        """
        at = self.room.take(self.tokens, WIDE) if address is None else address
        return Placed(name, self.rect, self.heads.tokens, 1, WIDE, at, column_kind="replicated", fill=fill)

    def statistic(self, name: str) -> Placed:
        """Allocate a float32 number for each token and head, and return its placement."""
        return self.room.place(name, self.rect, self.heads.tokens, self.heads.heads, WIDE)

    def square(self) -> Memory:
        """Allocate float32 numbers for all pairs of a token of the PE and a token of a block, and return them as an
        operand.
        """
        return self.room.vector(self.tokens * self.tokens)

    def rounds(self, work: Local) -> Phase:
        """Return a phase that runs `work` once for each block, and shifts the blocks along the folded ring after each
        time.

        So every block ends on the PE where it began. With a single row of PEs it is `work` itself.
        """
        if self.rect.height == 1:
            return work
        turn = Shift(self.rect, axis="y", words=self.words, hops=-1, wrap="folded", take=self.first, put=self.first)
        return Repeat(self.rect.height, Seq((work, turn)))

    # Operands within a loop over heads; their steps are for that loop and those inside it.

    def row(self, placed: Placed, loops: int = 1) -> Memory:
        """Return the row of one token and head as an operand within a loop over heads and `loops` further loops.

        The innermost of these loops goes through the tokens; the others do not move the operand.
        """
        return placed.vector(steps=(self.heads.width, *(0,) * (loops - 1), self.line))

    def one(self, placed: Placed, steps: tuple[int, int]) -> Memory:
        """Return one element of a head, repeated, as an operand within a loop over heads and two further loops.

        `steps` is how far a round of each of these two loops moves it: 1 for the next channel, `line` for the next
        token.
        """
        return placed.vector(stride=0, steps=(self.heads.width, *steps))

    @property
    def line(self) -> int:
        """Elements from one token to the next."""
        return self.own * self.heads.width

    def of_head(self, placed: Placed) -> Memory:
        """Return a statistic of all tokens as a vector, for the current head of a loop over heads."""
        return placed.vector(stride=self.own, steps=(1,))

    def of_token(self, placed: Placed) -> Memory:
        """Return a statistic of one token, repeated, within a loop over heads and one over tokens."""
        return placed.vector(stride=0, steps=(1, self.own))

    def pairs(self, square: Memory) -> Memory:
        """Return the row of `square` for one token, within a loop over heads and one over tokens."""
        return Memory(square.base, steps=(0, self.tokens))

    def product(self, build: Builder, square: Memory, a: Placed, b: Placed) -> None:
        """Append square = a b^T for the current head: element [i, j] is the product of token i of a and token j of b.

        Previous values of `square` are overwritten.
        """
        count = self.tokens
        build.move(square, 0.0, count * count)
        with build.loop(self.heads.width), build.loop(count):
            target = Memory(square.base, steps=(0, 0, count))
            # One channel at a time, for all tokens of b: vectors are as long as a block instead of a head.
            columns = b.vector(stride=self.line, steps=(self.heads.width, 1))
            build.fmac(target, self.one(a, (1, self.line)), columns, target, count)

    def masked(self, build: Builder, scale: float, work: Memory) -> None:
        """Append the multiplication of all scores by `scale`, and the addition of `LOWEST` where a key does not count.

        A key does not count if its position exceeds the token's limit. `work` is a scratch vector of a number per
        token.
        """
        count = self.tokens
        build.mul(self.scores, self.scores, scale, count * count)
        with build.loop(count):
            # An addition instead of a selection: comparisons of cores give 1 or 0.
            build.greater(work, self.positions.vector(), self.limits.vector(stride=0, steps=(0, 1)), count)
            build.fmac(self.pairs(self.scores), work, LOWEST, self.pairs(self.scores), count)

    def weighted(self, build: Builder, target: Placed, square: Memory, rows: Placed, is_turned: bool = False) -> None:
        """Append target += square rows for the current head, or target += square^T rows with `is_turned`.

        `target` and `rows` are matrices of `matrix`, and `square` has an element for each pair of tokens.
        """
        count, steps = self.tokens, (0, 1, self.tokens)
        with build.loop(count), build.loop(count):
            to, source = self.row(target, 2), rows.vector(steps=(self.heads.width, self.line))
            # The outer loop runs over the tokens that are summed; the inner one over those of the target.
            pair = (0, self.tokens, 1) if is_turned else steps
            build.fmac(to, Memory(square.base, stride=0, steps=pair), source, to, self.heads.width)


def attention(rect: Rect, heads: Heads, scale: float, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes y = softmax(q k^T scale) v for each head, and `log_sums`.

    q, k, v and y are [tokens, heads x width]. `log_sums`, [tokens, heads] in float32, are the logarithms of the sums of
    exponentials of the scores. `positions` and `limits` [tokens] are a mask: a key counts if its position is at most
    the token's limit. Every token needs at least one such key among the tokens of its own PE, which holds for a causal
    mask and without a mask. Scores and sums are in float32.
    """
    on = _Blocks(rect, heads, dtype, {"k": dtype, "v": dtype})
    q, y, total = on.matrix("q"), on.matrix("y"), on.matrix("total", WIDE)
    largest, sums = on.statistic("log_sums"), on.statistic("sums")
    newest, factor, work = (on.room.vector(on.tokens) for _ in range(3))
    build, count = on.room.builder(), on.tokens
    with build.loop(on.own):
        on.product(build, on.scores, q, on.blocks["k"])
        on.masked(build, scale, work)
        build.move(newest, on.of_head(largest), count)
        _each(on, build, "max", Memory(newest.base, stride=0, steps=(0, 1)))
        # Earlier sums are relative to the old maximum: they shrink by as much as the maximum grew.
        build.sub(factor, on.of_head(largest), newest, count)
        build.special("exp", factor, factor, count)
        build.move(on.of_head(largest), newest, count)
        with build.loop(count):
            build.sub(on.pairs(on.scores), on.pairs(on.scores), Memory(newest.base, stride=0, steps=(0, 1)), count)
        # No score exceeds the maximum, so no exponential exceeds one.
        build.special("exp", on.scores, on.scores, count * count)
        build.mul(on.of_head(sums), on.of_head(sums), factor, count)
        _each(on, build, "add", on.of_token(sums))
        with build.loop(count):
            build.mul(on.row(total), on.row(total), Memory(factor.base, stride=0, steps=(0, 1)), heads.width)
        on.weighted(build, total, on.scores, on.blocks["v"])
    work_phase = on.rounds(Local(on.rect, build.body()))
    parts = (_begin(on, largest, sums, total), work_phase, _finish(on, y, total, largest, sums))
    operands = (q, *on.blocks.values(), on.positions, on.limits)
    return MeshKernel(Seq(parts), operands, (y, largest), on.room.words)


def _each(on: _Blocks, build: Builder, op: str, statistic: Memory) -> None:
    """Append statistic = `op`(statistic, score) over all scores of a token, for each token.

    `op` is the name of a method of `Builder`, such as "max" or "add".
    """
    with build.loop(on.tokens):
        getattr(build, op)(statistic, statistic, on.pairs(on.scores), on.tokens)


def _begin(on: _Blocks, largest: Placed, sums: Placed, total: Placed) -> Local:
    """Return a phase that sets the maxima to `LOWEST`, and the sums and the weighted total to 0."""
    build = on.room.builder()
    # A finite number: minus infinity minus itself would be NaN in the first factor.
    build.move(largest.vector(), LOWEST, largest.elements)
    build.move(sums.vector(), 0.0, sums.elements)
    build.move(total.vector(), 0.0, total.elements)
    return Local(on.rect, build.body())


def _finish(on: _Blocks, y: Placed, total: Placed, largest: Placed, sums: Placed) -> Local:
    """Return a phase that computes y = total / sums, and the result log_sums = largest + log(sums) in place of
    `largest`.

    Overwrites `sums` by their logarithms.
    """
    build, width = on.room.builder(), on.heads.width
    inverse = Memory(on.scores.base)
    # The memory of the scores is reused if it is large enough.
    if sums.elements > on.tokens * on.tokens:
        inverse = on.room.vector(sums.elements)
        build = on.room.builder()
    build.special("reciprocal", inverse, sums.vector(), sums.elements)
    with build.loop(sums.elements):
        row = total.vector(steps=(width,))
        build.mul(y.vector(steps=(width,)), row, Memory(inverse.base, stride=0, steps=(1,)), width)
    # One number for the backward pass instead of two: exp(score - it) is the probability.
    build.special("log", sums.vector(), sums.vector(), sums.elements)
    build.add(largest.vector(), largest.vector(), sums.vector(), sums.elements)
    return Local(on.rect, build.body())


def attention_gradient(rect: Rect, heads: Heads, scale: float, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes dq, dk and dv of `attention`.

    Operands are q, k, v, y, dy, `log_sums`, `positions` and `limits`, in the shapes of `attention`. The results are
    [tokens, heads x width] of type `dtype`. Sums are in float32 and rounded once.
    """
    turning = {"k": dtype, "v": dtype, "dk_sum": WIDE, "dv_sum": WIDE}
    on = _Blocks(rect, heads, dtype, turning)
    q, y, dy, dq = (on.matrix(name) for name in ("q", "y", "dy", "dq"))
    dk, dv, dq_sum = on.matrix("dk"), on.matrix("dv"), on.matrix("dq_sum", WIDE)
    log_sums, shared = on.statistic("log_sums"), on.statistic("shared")
    slopes, work = on.square(), on.room.vector(on.tokens)
    build, count = on.room.builder(), on.tokens
    with build.loop(on.own):
        on.product(build, on.scores, q, on.blocks["k"])
        on.masked(build, scale, work)
        with build.loop(count):
            build.sub(on.pairs(on.scores), on.pairs(on.scores), on.of_token(log_sums), count)
        build.special("exp", on.scores, on.scores, count * count)
        # Scores are probabilities now. The sums for keys and values shift with their block and accumulate on each PE.
        on.weighted(build, on.blocks["dv_sum"], on.scores, dy, is_turned=True)
        on.product(build, slopes, dy, on.blocks["v"])
        with build.loop(count):
            build.sub(on.pairs(slopes), on.pairs(slopes), on.of_token(shared), count)
        build.mul(slopes, slopes, on.scores, count * count)
        build.mul(slopes, slopes, scale, count * count)
        on.weighted(build, dq_sum, slopes, on.blocks["k"])
        on.weighted(build, on.blocks["dk_sum"], slopes, q, is_turned=True)
    sums = (dq_sum, on.blocks["dk_sum"], on.blocks["dv_sum"])
    parts = (
        _shared(on, shared, y, dy, sums),
        on.rounds(Local(on.rect, build.body())),
        _round(on, (dq, dk, dv), sums),
    )
    operands = (q, on.blocks["k"], on.blocks["v"], y, dy, log_sums, on.positions, on.limits)
    return MeshKernel(Seq(parts), operands, (dq, dk, dv), on.room.words)


def _shared(on: _Blocks, shared: Placed, y: Placed, dy: Placed, sums: tuple[Placed, ...]) -> Local:
    """Return a phase that computes `shared` and sets the tiles `sums` to zero.

    `shared` is the sum of y dy over the channels, for each token and head.
    """
    build, width = on.room.builder(), on.heads.width
    for placed in (shared, *sums):
        build.move(placed.vector(), 0.0, placed.elements)
    with build.loop(shared.elements):
        target = shared.vector(stride=0, steps=(1,))
        build.fmac(target, y.vector(steps=(width,)), dy.vector(steps=(width,)), target, width)
    return Local(on.rect, build.body())


def _round(on: _Blocks, results: tuple[Placed, ...], sums: tuple[Placed, ...]) -> Local:
    build = on.room.builder()
    for result, total in zip(results, sums, strict=True):
        build.convert(result.vector(), total.vector(), result.elements)
    return Local(on.rect, build.body())
