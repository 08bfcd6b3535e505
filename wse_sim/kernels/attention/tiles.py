"""The kernel of an attention block, forward or backward: teams of PEs compute tiles of scores, a head on each team.

Keys are distributed along x of a team, and rows (such as queries) along y. Every PE gets the keys and rows of its tile
from the team's first row and first column of PEs. It processes its rows in chunks, and only the scores of one chunk are
in memory at a time. Statistics of rows, as in a softmax, are combined along the team's row. Sums over keys leave along
x in the end, and sums over rows along y. A backward pass recomputes scores, so memory grows with rows and keys and not
with their product.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Instruction, Memory, Operand
from wse_sim.isa.packing import word_count
from wse_sim.kernels.attention.block import Kind, ScoreBlock, Step, Value
from wse_sim.kernels.collective import sum_algorithm
from wse_sim.kernels.elementwise.random_bits import LIMBS, LONGEST, Numbers, draw_key, draw_numbers
from wse_sim.kernels.kernel import INDEX, WIDE, Allocator, Copies, MeshKernel, Placed
from wse_sim.kernels.matmul.tile_product import MatrixView, multiply, multiply_short
from wse_sim.kernels.nest import GIVEN, core_type, last_reads
from wse_sim.kernels.scalars import pointwise
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import AllReduce, Broadcast, Local, Par, Phase, Reduce, Rounds, Seq

LIMB = 1 << 16
"""Number of values of a limb of 16 bits."""
Places = Sequence[Memory | None]
"""The vector of each scalar of a nest; None for scalars that are not computed."""
_KIND: Mapping[str, Kind] = {"row_low": "rows", "row_high": "rows", "column": "keys"}
PLACES = tuple(_KIND)
"""Operands with the numbers of each row's first score, in two limbs, and of each key, for the random number of a
score.
"""


@dataclass(frozen=True)
class Teams:
    """`across` x `down` teams of `width` x `height` PEs, which process `chunk` rows at a time."""

    width: int
    height: int
    across: int
    down: int
    chunk: int

    @property
    def count(self) -> int:
        """Number of heads at the same time."""
        return self.across * self.down

    @property
    def lines(self) -> tuple[tuple[Kind, str, int, int], ...]:
        """(kind, axis, groups, PEs of a group) of the broadcasts and reductions of rows and of keys."""
        return ("rows", "x", self.across, self.width), ("keys", "y", self.down, self.height)

    def rect(self, corner: Rect) -> Rect:
        """Return the rectangle of all teams."""
        return Rect(corner.x, corner.y, self.width * self.across, self.height * self.down)

    def moved(self, placed: Placed, team: int) -> Placed:
        """Return a matrix of the first team moved to team number `team`, counted row after row; ".team" is added to its
        name.
        """
        down, along = divmod(team, self.across)
        x, y = placed.rect.x + along * self.width, placed.rect.y + down * self.height
        return replace(placed, name=f"{placed.name}.{team}", rect=replace(placed.rect, x=x, y=y))


def block_kernel(
    rect: Rect, block: ScoreBlock, teams: Teams, sum_dtype: str = "", calls: Sequence[int] = ()
) -> MeshKernel:
    """Return the kernel of one round of a block: as many heads as there are teams.

    The teams begin at the corner of `rect`, whose size is ignored. `calls` has the number of each draw step. Value n of
    team t is the operand or result "n.t". With draws, each team also has the operands `PLACES`. Products are summed in
    `sum_dtype`, by default the type of their result.
    """
    return _Tiles(rect, block, teams, sum_dtype, tuple(calls)).kernel()


def words_needed(block: ScoreBlock, teams: Teams, sum_dtype: str = "") -> int:
    """Return the words of memory that the kernel of a block needs on each PE with these teams.

    The number of teams does not matter. `sum_dtype` is as in `block_kernel`. Results are cached by the extents of a
    tile.
    """
    rows, columns = ceil_div(block.rows, teams.height), ceil_div(block.keys, teams.width)
    is_padded = columns * teams.width != block.keys
    return _words_of_tile(block, rows, columns, is_padded, min(teams.chunk, rows), sum_dtype)


# Of all candidate teams, on all rectangles of a plan, many have the same tile.
@lru_cache(maxsize=1 << 14)
def _words_of_tile(block: ScoreBlock, rows: int, columns: int, is_padded: bool, chunk: int, sum_dtype: str) -> int:
    # Two PEs with such a tile each; the second may lack a key.
    pair = replace(block, rows=rows, keys=2 * columns - is_padded)
    return _Tiles(Rect(0, 0, 2, 1), pair, Teams(2, 1, 1, 1, chunk), sum_dtype, ()).room.words


class _Pool:
    """A pool of vectors for the rows of a chunk, for reuse.

    The kinds of vectors are the keys of `sizes`: "tile" (a number for each score) and "stat" (one for each row).
    """

    def __init__(self, room: Allocator, sizes: Mapping[str, int]):
        self._room, self._sizes = room, sizes
        self._free: dict[tuple[str, str], list[Memory]] = defaultdict(list)

    def take(self, kind: str, dtype: str) -> Memory:
        """Return a free vector of a kind ("tile" or "stat") and type, or a newly allocated one, with
        undefined contents.
        """
        free = self._free[kind, dtype]
        return free.pop() if free else self._room.vector(self._sizes[kind], dtype)

    def give_back(self, kind: str, memory: Memory) -> None:
        """Return a vector to the pool after its last reader."""
        self._free[kind, memory.dtype].append(memory)


class _Tiles:
    """A builder of a block's kernel: it allocates every value, and then builds the phases of each chunk of rows."""

    def __init__(self, rect: Rect, block: ScoreBlock, teams: Teams, sum_dtype: str, calls: tuple[int, ...]):
        self.block, self.teams, self.sum_dtype, self.calls = block, teams, sum_dtype, calls
        self.room, self.rect = Allocator(), teams.rect(rect)
        self.rows, self.columns = ceil_div(block.rows, teams.height), ceil_div(block.keys, teams.width)
        self.chunk = min(teams.chunk, self.rows)
        self.is_padded = self.columns * teams.width != block.keys
        self.bases: list[Numbers] = []
        self.has_draw = any(step.op == "draw" for step in block.steps)
        self.placed: dict[int, Placed] = {}
        self.own: dict[str, Placed] = {}
        self.arriving = {kind: self._arriving(kind) for kind in ("rows", "keys")}
        for n in (*self._given("grid"), *self._given("state")):
            self.placed[n] = self._place(str(n), block.values[n])
        self.sums: dict[int, Placed] = {}
        self.leaving = {kind: self._leaving(kind) for kind in ("rows", "keys")}
        self.outputs = {n: self._output(n) for n, _ in block.results}
        elements = self.chunk * self.columns
        room_of_tile = elements + self.has_draw * ceil_div(elements, LONGEST)
        self.pool = _Pool(self.room, {"tile": room_of_tile, "stat": self.chunk})
        # Taken before any vector is returned to the pool: these are in use at the same time as all others.
        self.spares = [self.pool.take("tile", WIDE) for _ in range(self._spares())]
        self.statistics = [self.pool.take("stat", WIDE) for _ in range(2)]
        self.tiles: dict[int, Memory] = {}
        self.places: list[list[Memory | None]] = []
        self._lay_out()
        if self.has_draw:
            self.bases = [Numbers(self.room, 1) for step in block.steps if step.op == "draw"]
            self.numbers = Numbers(self.room, min(LONGEST, elements))
            self.low, self.high = (self.flat(self.room.take(room_of_tile, INDEX), INDEX) for _ in range(2))

    # Allocation.

    def _given(self, kind: str) -> list[int]:
        return [g.value for g in self.block.given if self.block.values[g.value].kind == kind]

    def _place(self, name: str, value: Value, fill: float = 0, constant: float | None = None) -> Placed:
        """Allocate a matrix of the first team and return its placement; it depends on the kind of `value`.

        - "rows": [rows, width], on the first column of PEs
        - "keys": [keys, width], on the first row of PEs, with keys along x
        - "grid": [rows, keys], on all PEs, with 1 as padding
        - other kinds: the limbs of a random state, on all PEs

        `fill` and `constant` are as in `Placed`, for rows and keys only.
        """
        block, room = self.block, self.room
        team = Rect(self.rect.x, self.rect.y, self.teams.width, self.teams.height)
        if value.kind in ("rows", "keys"):
            # The rows of a matrix of keys run along x.
            is_turned = value.kind == "keys"
            extent, first = (block.keys, replace(team, height=1)) if is_turned else (block.rows, replace(team, width=1))
            how = {"is_turned": is_turned, "fill": fill, "constant": constant}
            return room.place(name, first, extent, value.width, value.dtype, None, **how)
        if value.kind == "grid":
            return room.place(name, team, block.rows, block.keys, value.dtype, fill=1)
        return room.whole(name, team, LIMBS, 2, INDEX)

    def _arriving(self, kind: Kind) -> tuple[int, int]:
        """Allocate the operands of kind "rows" or "keys" contiguously, and return (address, words) of all.

        With draws these include the operands `PLACES`. If keys are padded, they include two masks: "none" is 0 for keys
        and minus infinity for padding, "real" is 1 and 0. Padding rows of vectors of one element have the number of
        rows.
        """
        first = self.room.words
        for n in self._given(kind):
            # A padding row may attend to all keys: without any key its result would be NaN.
            fill = float(kind == "rows" and self.block.values[n].width == 1)
            self.placed[n] = self._place(str(n), self.block.values[n], fill * self.block.rows)
        if self.has_draw:
            for name in PLACES:
                if _KIND[name] == kind:
                    self.own[name] = self._place(name, Value(kind, WIDE))
        if kind == "keys" and self.is_padded:
            self.own["none"] = self._place("none", Value(kind, WIDE), constant=0, fill=float("-inf"))
            self.own["real"] = self._place("real", Value(kind, WIDE), constant=1)
        return first, self.room.words - first

    def _leaving(self, kind: Kind) -> tuple[int, int]:
        """Allocate the sums of the results of kind "rows" or "keys" contiguously, and return (address, words) of all.

        The sums are added to `self.sums`, in the type `sum_dtype` or that of the result.
        """
        first = self.room.words
        for n, _ in self.block.results:
            value = self.block.values[n]
            if value.kind == kind:
                self.sums[n] = self._place(str(n), replace(value, dtype=self.sum_dtype or value.dtype))
        return first, self.room.words - first

    def _output(self, n: int) -> Placed:
        """Return the placement of result `n` in its own type: that of its sum if the types are equal, else
        a new one.
        """
        value = self.block.values[n]
        return self.sums[n] if self.sums[n].dtype == value.dtype else self._place(str(n), value)

    def flat(self, address: int, dtype: str) -> Placed:
        """Return the placement, on one PE, of the scores of a chunk at `address` (in words) as a single row."""
        elements = self.chunk * self.columns
        return Placed(name="", rect=Rect(0, 0, 1, 1), rows=1, columns=elements, dtype=dtype, address=address)

    def _lay_out(self) -> None:
        """Fill `self.tiles` with the memory of each tile and statistic, and `self.places` with that of each step's
        scalars.

        Memory is reused after the last step that reads it.
        """
        steps, values = self.block.steps, self.block.values
        last = {n: k for k, step in enumerate(steps) for n in (*step.writes, *step.reads)}
        for k, step in enumerate(steps):
            for n in step.writes:
                if values[n].kind in ("tile", "stat"):
                    self.tiles[n] = self.pool.take(values[n].kind, values[n].dtype)
            self.places.append(self._scalars(step) if step.nest else [])
            for n in {*step.reads, *step.writes}:
                if last[n] == k and n in self.tiles:
                    self.pool.give_back(values[n].kind, self.tiles[n])

    def _scalars(self, step: Step) -> list[Memory | None]:
        """Return the vector of each scalar of a step's nest; None for loads, indices and constants.

        A scalar that is stored in its own type is computed in the destination. The other vectors are from the pool, and
        all are returned to it.
        """
        nest = step.nest
        assert nest
        last = last_reads(nest)
        stored = {s.value: self.tiles[step.writes[s.output]] for s in nest.stores if not s.reduce}
        places: list[Memory | None] = []
        own: dict[int, Memory] = {}
        for n, scalar in enumerate(nest.body):
            dtype = core_type(scalar.dtype.name) if scalar.op not in GIVEN else ""
            if not dtype:
                places.append(None)
            elif n in stored and stored[n].dtype == dtype:
                places.append(stored[n])
            else:
                own[n] = self.pool.take("tile", dtype)
                places.append(own[n])
            # After its last reader, the tile of a scalar is free for the next one.
            for a in [a for a in own if last.get(a, n) == n]:
                self.pool.give_back("tile", own.pop(a))
        for place in own.values():
            self.pool.give_back("tile", place)
        return places

    def _spares(self) -> int:
        """Return the number of float32 scratch tiles: the most that a step uses at once, and at least 1."""
        needed = [1, 2 * self.has_draw]
        for step in self.block.steps:
            if step.nest:
                bodies = (pointwise(step.nest, scalar).spares for scalar in step.nest.body if scalar.op not in GIVEN)
                needed += [*bodies, 1 + len(step.nest.stores)]
        return max(needed)

    # Phases.

    def kernel(self) -> MeshKernel:
        """Return the kernel: operands are broadcast, chunk after chunk is processed, and the sums are reduced and
        converted.
        """
        team, rounds = self.teams, self.rows // self.chunk
        parts: list[Phase] = [Par(tuple(self._arrive())), Local(self.rect, self._begin())]
        # The key of a draw is the same for all scores: it is computed once, before the first chunk.
        for base, call in zip(self.bases, self.calls, strict=True):
            parts.append(draw_key(self.rect, self.room, self.placed[self._given("state")[0]], call, base))
        parts.append(Rounds(rounds, lambda number: Seq(tuple(self._chunk(number * self.chunk, self.chunk)))))
        # A partial chunk has shorter vectors.
        if rest := self.rows - rounds * self.chunk:
            parts += self._chunk(self.rows - rest, rest)
        for kind, axis, groups, line in team.lines:
            address, words = self.leaving[kind]
            if words and line > 1:
                algorithm, dtype = sum_algorithm(line), self._sum_type(kind)
                parts.append(Reduce(self.rect, axis, words, groups, algorithm, at=address, dtype=dtype))
        build = self.room.builder()
        for n, output in self.outputs.items():
            if output is not self.sums[n]:
                build.convert(output.vector(), self.sums[n].vector(), output.elements)
        parts.append(Local(self.rect, build.body()))
        operands = Copies((*self.placed.values(), *self.own.values()), team.count, team.moved)
        results = Copies(tuple(self.outputs.values()), team.count, team.moved)
        return MeshKernel(Seq(tuple(parts)), operands, results, self.room.words, self.rect)

    def _sum_type(self, kind: str) -> str:
        return next(self.sums[n].dtype for n, _ in self.block.results if self.block.values[n].kind == kind)

    def _arrive(self) -> Iterator[Phase]:
        """Yield the broadcasts of rows along x and of keys along y, within each team.

        There is none on an axis of one PE, or without operands of that kind.
        """
        for kind, axis, groups, line in self.teams.lines:
            address, words = self.arriving[kind]
            # To the same address everywhere: a PE that has it already copies nothing.
            if words and line > 1:
                yield Broadcast(self.rect, axis=axis, words=words, groups=groups, take=address, put=address)

    def _begin(self) -> tuple[Instruction, ...]:
        """Return instructions that set the sums of kind "keys", to which each chunk adds, to zero.

        Sums of kind "rows" need none, since a single chunk writes each of their rows.
        """
        build = self.room.builder()
        for n, placed in self.sums.items():
            if self.block.values[n].kind == "keys":
                build.move(placed.vector(), 0.0, placed.elements)
        return build.body()

    def _chunk(self, start: int, count: int) -> list[Phase]:
        """Return the phases of all steps on `count` rows from `start` on."""
        return _Chunk(self, start, count).phases()


class _Chunk:
    """The steps of a block on `count` rows of every PE, from `start` on."""

    def __init__(self, on: _Tiles, start: int, count: int):
        self.on, self.start, self.count = on, start, count
        self.length = count * on.columns
        self.build, self.parts = on.room.builder(), list[Phase]()
        self.bases = iter(on.bases)

    def phases(self) -> list[Phase]:
        """Append the phases of all steps to `self.parts`, in order, and return them."""
        emit = {
            "pairs": self._pairs,
            "nest": self._nest,
            "softmax": self._softmax,
            "draw": self._draw,
            "row_sum": self._row_sum,
            "key_sum": self._key_sum,
        }
        for step, places in zip(self.on.block.steps, self.on.places, strict=True):
            emit[step.op](step, places)
        self._run()
        return self.parts

    def _run(self) -> None:
        self.parts.append(Local(self.on.rect, self.build.body()))
        self.build = self.on.room.builder()

    def _combine(self, statistic: Memory, combine: str) -> None:
        """Add the phases that combine a statistic of each row over the PEs of a team's row, by "add" or "max".

        All of these PEs get the result. Nothing is added for teams with one column.
        """
        if self.on.teams.width == 1:
            return
        # Every core has to compute its own number before they are combined.
        self._run()
        self.parts.append(
            AllReduce(
                self.on.rect,
                axis="x",
                words=word_count(self.count, WIDE),
                groups=self.on.teams.across,
                at=statistic.base,
                dtype=WIDE,
                combine=combine,
            )
        )

    # Values as operands: a vector of all scores of the chunk, or one of the same length that repeats numbers of rows or
    # keys.

    def _source(self, value: int) -> Memory:
        """Return value number `value` as an operand for all scores of the chunk.

        A number for each row or key repeats for the scores of that row or key.
        """
        on = self.on
        if value in on.tiles:
            memory = on.tiles[value]
            return self._of_rows(memory) if on.block.values[value].kind == "stat" else memory
        return self._given(on.placed[value], on.block.values[value].kind)

    def _given(self, placed: Placed, kind: Kind) -> Memory:
        """Return the tile `placed`, of this `kind`, as an operand for all scores of the chunk.

        Numbers of keys repeat for each row, and those of rows, from the row `start` on, for each key. A grid is used
        from the row `start` on.
        """
        if kind == "keys":
            return Memory(placed.base, dtype=placed.dtype, outer=((self.count, 0),))
        if kind == "rows":
            return self._of_rows(Memory(placed.base + self.start, dtype=placed.dtype))
        return Memory(placed.base + self.start * self.on.columns, dtype=placed.dtype)

    def _of_rows(self, memory: Memory) -> Memory:
        """Return `memory`, a number for each row of the chunk, as an operand that repeats it for the row's scores.

        As a destination it accumulates: each number gets the result over the row.
        """
        return replace(memory, stride=0, outer=((self.count, 1),))

    def _tile(self, memory: Memory) -> MatrixView:
        return MatrixView.packed(memory.base, self.count, self.on.columns, memory.dtype)

    def _rows(self, placed: Placed) -> MatrixView:
        """Return the rows of the chunk in the tile of `placed`, as a view of the same elements."""
        return MatrixView.of(placed).some(range(self.start, self.start + self.count))

    # Steps.

    def _pairs(self, step: Step, places: Places) -> None:
        """Append the products of the rows and keys that `step` reads, which are the scores of the chunk.

        If `sum_dtype` is another type than theirs, they are summed in a scratch tile and then converted. `places` is
        unused.
        """
        target, (rows, keys) = self.on.tiles[step.writes[0]], (self.on.placed[n] for n in step.reads)
        # Sums may be wider than the values that the program keeps.
        total = target if target.dtype == (self.on.sum_dtype or target.dtype) else self.on.spares[0]
        multiply_short(self.build, self._rows(rows), MatrixView.of(keys).turned(), self._tile(total))
        if total is not target:
            self.build.convert(target, total, self.length)

    def _row_sum(self, step: Step, places: Places) -> None:
        tile, keys = self._tile(self.on.tiles[step.reads[0]]), MatrixView.of(self.on.placed[step.reads[1]])
        multiply(self.build, tile, keys, self._rows(self.on.sums[step.writes[0]]), begins=True)

    def _key_sum(self, step: Step, places: Places) -> None:
        tile, rows = self._tile(self.on.tiles[step.reads[0]]), self._rows(self.on.placed[step.reads[1]])
        multiply(self.build, tile.turned(), rows, MatrixView.of(self.on.sums[step.writes[0]]))

    def _softmax(self, step: Step, places: Places) -> None:
        """Append a softmax of each row of the step's tile, over all keys of the team's row of PEs.

        It is computed in float32 and rounded once. Padding keys do not count.
        """
        length, scores, target = self.length, self._source(step.reads[0]), self.on.tiles[step.writes[0]]
        work, (largest, total) = self.on.spares[0], self.on.statistics
        if self.on.is_padded:
            # Padding keys must neither be the maximum nor count in the sum.
            self.build.add(work, scores, self._given(self.on.own["none"], "keys"), length)
            scores = work
        # The maximum is subtracted, so that no exponential exceeds one.
        self.build.move(largest, float("-inf"), self.count)
        self.build.max(self._of_rows(largest), self._of_rows(largest), scores, length)
        self._combine(largest, "max")
        self.build.sub(work, scores, self._of_rows(largest), length)
        self.build.special("exp", work, work, length)
        self.build.move(total, 0.0, self.count)
        self.build.add(self._of_rows(total), self._of_rows(total), work, length)
        self._combine(total, "add")
        self.build.special("reciprocal", total, total, self.count)
        self.build.mul(work, work, self._of_rows(total), length)
        self.build.convert(target, work, length)

    def _nest(self, step: Step, places: Places) -> None:
        """Append the elementwise operations of a step's nest, and its stores: tiles, or sums of rows if they reduce."""
        nest = step.nest
        assert nest
        indices = iter(step.reads[len(nest.reads) :])
        operands: list[Operand] = []
        for scalar, place in zip(nest.body, places, strict=True):
            if scalar.op == "const":
                operands.append(float(scalar.attr))
            elif scalar.op in GIVEN:
                operands.append(self._source(step.reads[scalar.attr] if scalar.op == "load" else next(indices)))
            else:
                assert place
                arguments = [operands[a] for a in scalar.args]
                pointwise(nest, scalar).emit(self.build, place, arguments, self.length, self.on.spares)
                operands.append(place)
        for store in nest.stores:
            target = self.on.tiles[step.writes[store.output]]
            if store.reduce:
                self._summed(target, operands[store.value])
            elif operands[store.value] is not target:
                self.build.convert(target, operands[store.value], self.length)

    def _summed(self, target: Memory, value: Operand) -> None:
        """Append target = the sum of each row of `value` over the team's row of PEs, in float32 and rounded once.

        Padding keys do not count.
        """
        total = self.on.statistics[0]
        if self.on.is_padded:
            # Nests may have computed any value for padding keys.
            self.build.mul(self.on.spares[0], value, self._given(self.on.own["real"], "keys"), self.length)
            value = self.on.spares[0]
        self.build.move(total, 0.0, self.count)
        self.build.add(self._of_rows(total), self._of_rows(total), value, self.length)
        self._combine(total, "add")
        self.build.convert(target, total, self.count)

    def _draw(self, step: Step, places: Places) -> None:
        """Append a draw of uniform random numbers for all scores of the chunk, into the tile that `step` writes.

        Each depends on the position of the score among those of all heads, a number of 32 bits. Takes the next key of
        `self.bases`. `places` is unused.
        """
        on, build, length, (low, high) = self.on, self.build, self.length, self.on.spares[:2]
        row_low, row_high, column = (self._given(on.own[name], _KIND[name]) for name in PLACES)
        # Limbs of 16 bits as float32 numbers, with a carry from the low to the high one.
        build.add(low, row_low, column, length)
        build.greater(high, low, float(LIMB - 1), length)
        build.fmac(low, high, -float(LIMB), low, length)
        build.add(high, high, row_high, length)
        build.convert(on.low.vector(), low, length)
        build.convert(on.high.vector(), high, length)
        target = on.tiles[step.writes[0]]
        numbers = on.flat(target.base * ITEM_BYTES[target.dtype] // WORD_BYTES, target.dtype)
        # Pieces of equal length; the last one may extend beyond the tile, which has room for that.
        piece = ceil_div(length, ceil_div(length, LONGEST))
        with build.loop(ceil_div(length, piece)):
            draw_numbers(build, on.numbers, next(self.bases), (numbers, on.low, on.high), piece, steps=(piece,))
