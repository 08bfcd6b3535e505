"""Register tiles: innermost loops of matrix products and convolutions, written with explicit vector registers.

LLVM does not find these by itself: a tile of sums has to stay in registers while one loop runs over the products.
Operands are raw addresses, which the kernel computes. Width and height of a tile depend on the processor: enough
independent sums to hide the latency of a multiply-add, and few enough to stay in registers.
"""

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import binding, ir

Emit = Callable[[Any, Any], None]
"""A function (llvmlite builder, arguments) that writes the instructions of a tile."""
DOTS = 3
"""The number of taps of a weight gradient that a register tile sums at a time."""
_FEATURES = binding.get_host_cpu_features()
LANES = 16 if _FEATURES.get("avx512f") else 8 if _FEATURES.get("avx") else 4  # float32 elements in a register
ROWS = 8 if LANES == 16 else 4  # rows of a tile
VECTORS = 2 if LANES == 16 else 3  # registers per row of a tile
PAIR = 2 * LANES  # columns of a `block` tile
SINGLE, WORD, PLACE = ir.FloatType(), ir.IntType(64), ir.IntType(32)
REGISTER = ir.VectorType(SINGLE, LANES)


class _Tile:
    """Writes one loop over `count`, in steps of `step`, that keeps vector sums in registers."""

    def __init__(self, builder: Any, count: Any, step: int):
        self.builder, self.count, self.step = builder, count, step

    def address(self, base: Any, *elements: Any) -> Any:
        """Return the address `base` plus the given numbers of float32 elements."""
        for e in elements:
            base = self.builder.add(base, self.builder.mul(e, WORD(4)))
        return base

    def load(self, kind: Any, address: Any) -> Any:
        pointer = self.builder.inttoptr(address, kind.as_pointer())
        return self.builder.load(pointer, align=8 if kind is WORD else 4)

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer()), align=4)

    def ask(self, address: Any) -> None:
        """Prefetch the cache line at an address into the second-level cache."""
        pointer, name = ir.IntType(8).as_pointer(), "llvm.prefetch.p0"
        kind = ir.FunctionType(ir.VoidType(), [pointer, PLACE, PLACE, PLACE])
        ask = self.builder.module.globals.get(name) or ir.Function(self.builder.module, kind, name)
        # Arguments: 0 = read, 2 = into the second-level cache, 1 = data cache.
        self.builder.call(ask, (self.builder.inttoptr(address, pointer), PLACE(0), PLACE(2), PLACE(1)))

    def spread(self, value: Any) -> Any:
        """Return a vector with a number in all lanes."""
        empty = ir.Constant(REGISTER, ir.Undefined)
        first = self.builder.insert_element(empty, value, PLACE(0))
        return self.builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(PLACE, LANES), [0] * LANES))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self.named("llvm.fmuladd", REGISTER, [REGISTER] * 3), (a, b, c))

    def total(self, vector: Any) -> Any:
        add = self.named("llvm.vector.reduce.fadd", SINGLE, [SINGLE, REGISTER])
        return self.builder.call(add, (SINGLE(0.0), vector), fastmath=("reassoc",))

    def named(self, name: str, result: Any, arguments: list[Any], suffix: str = "") -> Any:
        """Return the LLVM intrinsic `name` for vectors of LANES float32, declared in the module if needed.

        `result` and `arguments` are its types. llvmlite has no names for these.
        """
        full = f"{name}.v{LANES}f32{suffix}"
        known = self.builder.module.globals.get(full)
        return known or ir.Function(self.builder.module, ir.FunctionType(result, arguments), full)

    def loop(self, sums: int, body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """Write a loop that calls `body(k, sums)` for k = 0, step, ... below the count; `body` returns the new sums.

        `sums` is the number of vector sums, which start at zero. Return the final sums.
        """
        builder = self.builder
        entry = builder.block
        head, inside, end = (builder.append_basic_block(name) for name in ("tile", "tile.body", "tile.end"))
        builder.branch(head)
        builder.position_at_end(head)
        k = builder.phi(WORD)
        accumulators = [builder.phi(REGISTER) for _ in range(sums)]
        builder.cbranch(builder.icmp_signed("<", k, self.count), inside, end)
        builder.position_at_end(inside)
        grown = body(k, accumulators)
        after = builder.add(k, WORD(self.step))
        k.add_incoming(WORD(0), entry)
        k.add_incoming(after, builder.block)
        for accumulator, value in zip(accumulators, grown, strict=True):
            accumulator.add_incoming(ir.Constant(REGISTER, [0.0] * LANES), entry)
            accumulator.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(end)
        return accumulators


def _products(vectors: int) -> Emit:
    """Return the writer of a tile that sets c[r, lane] = sum over k of a[k, r] * b[offsets[k] + lane], for ROWS rows of
    c.

    `vectors` is the number of registers per row. Rows of c are `pitch` elements apart.
    """

    def emit(builder: Any, arguments: Any) -> None:
        a, offsets, count, b, c, pitch = arguments
        tile = _Tile(builder, count, 1)

        def body(k: Any, sums: list[Any]) -> list[Any]:
            offset = tile.load(WORD, builder.add(offsets, builder.mul(k, WORD(8))))
            start = tile.address(b, offset)
            values = [tile.load(REGISTER, tile.address(start, WORD(v * LANES))) for v in range(vectors)]
            row = tile.address(a, builder.mul(k, WORD(ROWS)))
            factors = [tile.spread(tile.load(SINGLE, tile.address(row, WORD(r)))) for r in range(ROWS)]
            return [tile.fma(factors[r], values[v], sums[r * vectors + v]) for r in range(ROWS) for v in range(vectors)]

        sums = tile.loop(ROWS * vectors, body)
        for r in range(ROWS):
            for v in range(vectors):
                place = tile.address(c, builder.mul(pitch, WORD(r)), WORD(v * LANES))
                tile.store(sums[r * vectors + v], place)

    return emit


def _dots() -> Emit:
    """Return the writer of a tile that adds to c[r, j] the sum over q of a[r, q] * b[offsets[j] + q], for ROWS rows and
    DOTS columns.

    Rows of a are `reach` elements apart. The number of terms is rounded up to a multiple of LANES.
    """

    def emit(builder: Any, arguments: Any) -> None:
        a, reach, offsets, count, b, c, pitch = arguments
        tile = _Tile(builder, count, LANES)
        starts = [tile.address(b, tile.load(WORD, builder.add(offsets, WORD(8 * j)))) for j in range(DOTS)]
        lines = [tile.address(a, builder.mul(reach, WORD(r))) for r in range(ROWS)]

        def body(q: Any, sums: list[Any]) -> list[Any]:
            values = [tile.load(REGISTER, tile.address(start, q)) for start in starts]
            factors = [tile.load(REGISTER, tile.address(line, q)) for line in lines]
            return [tile.fma(factors[r], values[j], sums[r * DOTS + j]) for r in range(ROWS) for j in range(DOTS)]

        sums = tile.loop(ROWS * DOTS, body)
        for r in range(ROWS):
            for j in range(DOTS):
                place = tile.address(c, builder.mul(pitch, WORD(r)), WORD(j))
                tile.store(builder.fadd(tile.load(SINGLE, place), tile.total(sums[r * DOTS + j])), place)

    return emit


def _block(is_sum: bool) -> Emit:
    """Return the writer of a tile that sets c[r, lane] = sum over k of a[r * a_row + k * a_step] * b[k, lane], for ROWS
    rows.

    A row has PAIR lanes. If `is_sum`, the tile adds to c instead. Further arguments are pairs: an address to prefetch,
    and the bytes by which it advances with each k.
    """

    def emit(builder: Any, arguments: Any) -> None:
        a, a_row, a_step, count, b, c, pitch, *places = arguments
        tile = _Tile(builder, count, 1)
        lines = [tile.address(a, builder.mul(a_row, WORD(r))) for r in range(ROWS)]

        def body(k: Any, sums: list[Any]) -> list[Any]:
            for start, apart in zip(places[::2], places[1::2], strict=True):
                tile.ask(builder.add(start, builder.mul(k, apart)))
            row = tile.address(b, builder.mul(k, WORD(PAIR)))
            values = [tile.load(REGISTER, tile.address(row, WORD(v * LANES))) for v in range(2)]
            step = builder.mul(k, a_step)
            factors = [tile.spread(tile.load(SINGLE, tile.address(line, step))) for line in lines]
            return [tile.fma(factors[r], values[v], sums[r * 2 + v]) for r in range(ROWS) for v in range(2)]

        for k, total in enumerate(tile.loop(ROWS * 2, body)):
            place = tile.address(c, builder.mul(pitch, WORD(k // 2)), WORD(k % 2 * LANES))
            tile.store(builder.fadd(tile.load(REGISTER, place), total) if is_sum else total, place)

    return emit


def _sandwich(matrix: tuple[tuple[float, ...], ...]) -> Emit:
    """Return the writer of a tile that sets target[i, j, lane] = (matrix @ source[:, :, lane] @ matrix.T)[i, j].

    `matrix` is constant. The argument `count` is the number of lanes, a multiple of LANES.
    """

    def emit(builder: Any, arguments: Any) -> None:
        source, source_row, source_column, target, target_row, target_column, count = arguments
        tile = _Tile(builder, count, LANES)
        inner = range(len(matrix[0]))

        def sum(factors: tuple[float, ...], values: list[Any]) -> Any:
            total = None
            for factor, value in zip(factors, values, strict=True):
                if factor:
                    size = ir.Constant(REGISTER, [abs(factor)] * LANES)
                    term = value if abs(factor) == 1 else builder.fmul(value, size)
                    add = builder.fadd if factor > 0 else builder.fsub
                    total = add(total, term) if total else term if factor > 0 else builder.fneg(term)
            return total

        def place(base: Any, row: Any, column: Any, i: int, j: int, k: Any) -> Any:
            return tile.address(base, builder.mul(row, WORD(i)), builder.mul(column, WORD(j)), k)

        def body(k: Any, sums: list[Any]) -> list[Any]:
            columns = []
            for j in inner:
                values = [tile.load(REGISTER, place(source, source_row, source_column, i, j, k)) for i in inner]
                columns.append([sum(row, values) for row in matrix])
            for i in range(len(matrix)):
                for j, row in enumerate(matrix):
                    tile.store(sum(row, [c[i] for c in columns]), place(target, target_row, target_column, i, j, k))
            return []

        tile.loop(0, body)

    return emit


def _turned(builder: Any, arguments: Any) -> None:
    """Write the tile that transposes a block: target[i, j] = source[j, i] for i < rows <= LANES and j < lanes <= LANES.

    LANES rows of the source are read, even if `lanes` is less.
    """
    source, source_pitch, target, target_pitch, rows, lanes = arguments
    tile = _Tile(builder, rows, 1)
    kind = ir.VectorType(WORD, LANES)
    truth = ir.VectorType(ir.IntType(1), LANES)
    numbers = ir.Constant(kind, list(range(LANES)))

    def mask(count: Any) -> Any:
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), count, PLACE(0))
        spread = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(PLACE, LANES), [0] * LANES))
        return builder.icmp_signed("<", numbers, spread)

    pointer = REGISTER.as_pointer()
    load = tile.named("llvm.masked.load", REGISTER, [pointer, PLACE, truth, REGISTER], ".p0")
    store = tile.named("llvm.masked.store", ir.VoidType(), [REGISTER, pointer, PLACE, truth], ".p0")
    zero, inside = ir.Constant(REGISTER, [0.0] * LANES), mask(rows)
    # Each round interleaves the two halves of the rows (a perfect shuffle); log2(LANES) rounds transpose the block.
    low, high = (
        ir.Constant(ir.VectorType(PLACE, LANES), [half + k // 2 + k % 2 * LANES for k in range(LANES)])
        for half in (0, LANES // 2)
    )

    def turn(is_whole: bool) -> None:
        values = []
        for j in range(LANES):
            at = tile.address(source, builder.mul(source_pitch, WORD(j)))
            some = (builder.inttoptr(at, pointer), PLACE(4), inside, zero)
            values.append(tile.load(REGISTER, at) if is_whole else builder.call(load, some))
        for _ in range(LANES.bit_length() - 1):
            pairs = zip(values[: LANES // 2], values[LANES // 2 :], strict=True)
            values = [builder.shuffle_vector(a, b, order) for a, b in pairs for order in (low, high)]
        for i, value in enumerate(values):
            at = tile.address(target, builder.mul(target_pitch, WORD(i)))
            if is_whole:
                tile.store(value, at)
                continue
            count = builder.select(builder.icmp_signed("<", WORD(i), rows), lanes, WORD(0))
            builder.call(store, (value, builder.inttoptr(at, pointer), PLACE(4), mask(count)))

    # Masked loads and stores are slow, and most blocks are full.
    full = builder.icmp_signed("==", builder.add(rows, lanes), WORD(2 * LANES))
    with builder.if_else(full) as (whole, part):
        with whole:
            turn(is_whole=True)
        with part:
            turn(is_whole=False)


# The matrices of F(2x2, 3x3): Lavin and Gray, Fast algorithms for convolutional neural networks, 2016.
FROM_IMAGE = (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)
TO_RESULT = (1, 1, 1, 0), (0, 1, -1, -1)
FROM_WEIGHT = (1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)

TILES: dict[str, tuple[Emit, int]] = {
    "products": (_products(VECTORS), 6),
    "products_narrow": (_products(1), 6),
    "dots": (_dots(), 7),
    "block": (_block(is_sum=False), 7),
    "block_more": (_block(is_sum=True), 7),
    "block_asking": (_block(is_sum=False), 11),
    "turned": (_turned, 6),
    "from_image": (_sandwich(FROM_IMAGE), 7),
    "to_result": (_sandwich(TO_RESULT), 7),
    "from_result": (_sandwich(tuple(zip(*TO_RESULT, strict=True))), 7),
    "from_weight": (_sandwich(FROM_WEIGHT), 7),
    "to_weight": (_sandwich(tuple(zip(*FROM_WEIGHT, strict=True))), 7),
}
"""By name: the function that writes the tile, and its number of integer arguments."""


def tiles_text(names: Iterable[str]) -> str:
    """Return the LLVM text of the named tiles as functions `tile_NAME`. Raise KeyError for an unknown name.

    They are not inlined: a call costs less than the registers that the surrounding code would need.
    """
    module = ir.Module()
    for name in sorted(names):
        emit, arity = TILES[name]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * arity), f"tile_{name}")
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        emit(builder, function.args)
        builder.ret_void()
    # The kernel's module sets the target.
    return "\n".join(line for line in str(module).splitlines() if not line.startswith("target "))
