"""A loop nest of a compiled program as a mesh kernel: its scalars become vector operations over tiles.

The iterations are arranged as a matrix (`nest_domain.py`). An operand that differs in both axes is a matrix in tiles;
one that is constant along an axis is a row or a column that is broadcast. Every scalar of the nest's body becomes a
tile. Sums are in float32, first over the columns of a PE and then along the row of PEs. A sum over everything also goes
over the rows.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lazytensor.core.dtype import DType, dtype_by_name
from lazytensor.errors import LazyError
from lazytensor.ir.nest import Access, Nest, NestStore, Scalar
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import ITEM_BYTES, Instruction, Memory, Operand
from wse_sim.kernels.kernel import WIDE, Allocator, MeshKernel, Placed
from wse_sim.kernels.nest_domain import Domain
from wse_sim.kernels.scalars import append, pointwise
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Broadcast, Local, Par, Phase, Reduce, Seq

LARGEST_INTEGER = 2**24
"""float32 represents every integer up to this one."""
GIVEN = ("load", "index", "const")
"""Scalars that are not computed."""
_LEAST = float("-inf")
_STARTS = {"add": 0.0, "maximum": _LEAST, "minimum": _LEAST, "or": _LEAST, "and": _LEAST}
_COMBINES = {"add": "add", **dict.fromkeys(("maximum", "minimum", "or", "and"), "max")}
"""Reduction of a store -> the instruction of a core, which is also the name of the fabric's reduction."""
NEGATED = ("minimum", "and")
"""Reductions that are computed as a maximum of negated values, since cores and fabric have no minimum."""


def nest_kernel(rect: Rect, nest: Nest) -> MeshKernel:
    """Return the kernel of a nest; its operands are "in0", "in1", ... and its results "out0", "out1", ...

    Operands for loop indices are called "index" and the number of the scalar. Integers and truth values are float32.
    Raises LazyError for operations, types and reductions that cores do not have, and for an integer constant that
    float32 does not represent.
    """
    return _NestBuilder(rect, nest).kernel()


def nest_operands(nest: Nest, rect: Rect, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the operands of a nest's kernel, by name: the arrays `inputs` that it reads, and its loop indices.

    Each is a matrix of the elements that the iterations read, with an extent of 1 along an axis on which they are
    equal. Raises LazyError for integers beyond `LARGEST_INTEGER`, which float32 may not represent.
    """
    domain = Domain(nest, rect)
    operands = {}
    for k, (array, access) in enumerate(zip(inputs, nest.reads, strict=True)):
        if array.dtype.kind in "iu":
            _require_exact(array)
        operands[f"in{k}"] = array.reshape(-1)[domain.read(access)]
    indices = {f"index{n}": domain.read(s.attr) for n, s in enumerate(nest.body) if s.op == "index"}
    return operands | indices


def nest_results(nest: Nest, rect: Rect, results: Mapping[str, np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Write the results of a nest's kernel, by name, to the arrays `outputs`, whose other elements are unchanged.

    Raises LazyError for integer results beyond `LARGEST_INTEGER`.
    """
    domain = Domain(nest, rect)
    for store in nest.stores:
        places = domain.places(nest.writes[store.output])
        if store.reduce:
            # All columns of a sum have the same element, and so do all rows if the sum is over them too.
            places = places[:1, :1] if domain.sums_rows else places[:, :1]
        result = results[f"out{store.output}"]
        if nest.outputs[store.output].dtype.kind == "i":
            _require_exact(result)
        outputs[store.output].reshape(-1)[places] = result


def last_reads(nest: Nest) -> dict[int, int]:
    """Return, for each scalar that is read, the number of its last reader in the body.

    It is the number of scalars of the body if a store reads the scalar. Scalars that are never read are left out.
    """
    last = {a: n for n, scalar in enumerate(nest.body) for a in scalar.args}
    return last | {store.value: len(nest.body) for store in nest.stores}


def _require_exact(numbers: np.ndarray | float) -> None:
    """Raise LazyError for integers that float32 does not represent."""
    # Cores compute in floating point; beyond 2 ** 24 float32 skips integers.
    if np.abs(numbers).max(initial=0) > LARGEST_INTEGER:
        what = f"integers exceed {LARGEST_INTEGER:,}, above which float32 does not represent every integer"
        raise LazyError(what, hint="Use smaller integers, because cores compute with them in float32.")


class _NestBuilder:
    """A builder of a nest's kernel, which allocates a tile for each scalar of the body."""

    def __init__(self, rect: Rect, nest: Nest):
        self.nest, self.room, self.domain = nest, Allocator(), Domain(nest, rect)
        self.rect, self.groups = self.domain.used, self.domain.groups
        self.rows, self.columns = self.domain.extents
        self.inputs = [self._operand(f"in{k}", a, nest.inputs[k].dtype) for k, a in enumerate(nest.reads)]
        self.indices: list[Placed] = []
        self.outputs = {s.output: self._output(s) for s in nest.stores}
        self.scalars = self._scalars()
        self.work = [self._tile("work", WIDE) for _ in range(self._spares())]
        self.sums = {s.output: self._sum() for s in nest.stores if s.reduce}

    def kernel(self) -> MeshKernel:
        """Return the kernel: broadcasts of operands, the body, and the reductions of sums."""
        parts: list[Phase] = [Par(tuple(self._arriving())), Par(tuple(self._work()))]
        for store in self.nest.stores:
            if store.reduce:
                parts += self._leaving(store)
        operands = (*self.inputs, *self.indices)
        return MeshKernel(Seq(tuple(parts)), operands, tuple(self.outputs.values()), self.room.words, self.rect)

    def _tile(self, name: str, dtype: str) -> Placed:
        return self.room.place(name, self.rect, self.rows, self.columns, dtype, groups=self.groups)

    def _operand(self, name: str, access: Access, dtype: DType) -> Placed:
        """Allocate an operand on the first PEs of the lines along which it is constant; broadcasts copy it to the
        others.

        Floating-point operands keep their type; others are float32.
        """
        rows, columns = self.domain.shape(access)
        stored = core_type(dtype.name) if dtype.kind == "f" else WIDE
        # A column starts on the first PE of each group, and a row on the first row of PEs, equally in all groups.
        if rows > 1:
            return self.room.place(name, self.rect, rows, columns, stored, groups=self.groups)
        first = Rect(self.rect.x, self.rect.y, self.rect.width if columns > 1 else 1, 1)
        groups = self.groups if columns > 1 else 1
        return self.room.place(name, first, rows, columns, stored, row_kind="replicated", groups=groups)

    def _arriving(self) -> Iterator[Phase]:
        """Yield the broadcasts of operands that are constant along an axis."""
        for placed in (*self.inputs, *self.indices):
            # A single element has to reach all groups, even if each group has only one column.
            along = placed.columns < self.columns or placed.rect.width < self.rect.width
            axis = "x" * along + "y" * (placed.rows < self.rows)
            if axis and self.rect.area > 1:
                groups, at = self.groups if axis == "x" else 1, placed.address
                yield Broadcast(self.rect, axis=axis, words=placed.words, groups=groups, take=at, put=at)

    def _scalars(self) -> list[Placed | float]:
        """Return the tile or constant of each scalar of the body.

        After its last reader a tile is reused, unless it has an operand or a loop index.
        """
        # 48 KiB hold few tiles: with liveness a long body needs only as many as are alive at once.
        last = last_reads(self.nest)
        free: dict[str, list[Placed]] = {}
        placed: list[Placed | float] = []
        for n, scalar in enumerate(self.nest.body):
            placed.append(self._place(n, scalar, free))
            for a in sorted(set(scalar.args)):
                tile = placed[a]
                if last[a] == n and isinstance(tile, Placed) and self.nest.body[a].op not in GIVEN:
                    free.setdefault(tile.dtype, []).append(tile)
        return placed

    def _place(self, n: int, scalar: Scalar, free: dict[str, list[Placed]]) -> Placed | float:
        """Return the tile of scalar number `n`, or its value if it is a constant.

        A scalar that is stored in its own type gets the tile of the output. `free` has the tiles that can be reused, by
        type; a tile that is taken is removed from it. A loop index is added to `self.indices`. Raises LazyError for an
        integer constant beyond `LARGEST_INTEGER`.
        """
        if scalar.op == "const":
            if scalar.dtype.kind == "i":
                _require_exact(np.asarray(scalar.attr))
            return float(scalar.attr)
        if scalar.op == "load":
            return self.inputs[int(scalar.attr)]
        if scalar.op == "index":
            self.indices.append(self._operand(f"index{n}", scalar.attr, scalar.dtype))
            return self.indices[-1]
        dtype = core_type(scalar.dtype.name)
        # A stored scalar of the output's type is computed in the output's tile.
        for store in self.nest.stores:
            if store.value == n and not store.reduce and self.outputs[store.output].dtype == dtype:
                return self.outputs[store.output]
        return free[dtype].pop() if free.get(dtype) else self._tile("scalar", dtype)

    def _sum(self) -> Placed:
        if self.domain.sums_rows:
            return self.room.whole("sum", self.rect, 1, 1, WIDE)
        return self.room.place("sum", self.rect, self.rows, 1, WIDE, column_kind="replicated", groups=self.groups)

    def _output(self, store: NestStore) -> Placed:
        """Allocate the result of a store and return its placement.

        It is a tile of the matrix or, for a sum, a column on the first PE of each group. A sum of all iterations is one
        element on the first PE.
        """
        dtype = core_type(self.nest.outputs[store.output].dtype.name)
        if store.reduce:
            if self.domain.sums_rows:
                return self.room.place(f"out{store.output}", Rect(self.rect.x, self.rect.y, 1, 1), 1, 1, dtype)
            return self.room.place(f"out{store.output}", self.rect, self.rows, 1, dtype, groups=self.groups)
        return self._tile(f"out{store.output}", dtype)

    def _work(self) -> Iterator[Phase]:
        """Yield the body on all PEs; with a sum, PEs with fewer columns or summed rows run a shorter body."""
        # Without a sum, padding is computed like other elements and never gathered.
        if not self.sums:
            yield Local(self.rect, self._body(self._along, self._down))
            return
        # A sum must not include padding, so PEs with fewer columns, or with fewer rows if rows are summed too, run
        # another body.
        rows, columns = [(0, self.rect.height, self._down)], [(0, self.rect.width, self._along)]
        if self.domain.sums_rows:
            rows = list(_shares(self.rows, self.rect.height))
        # The length of groups is such that all of their PEs have the same number of columns.
        if self.groups == 1:
            columns = list(_shares(self.columns, self.rect.width))
        for y, height, down in rows:
            for x, width, along in columns:
                yield Local(Rect(self.rect.x + x, self.rect.y + y, width, height), self._body(along, down))

    @property
    def _along(self) -> int:
        """Columns of the largest tile."""
        return ceil_div(self.columns, self.rect.width // self.groups)

    @property
    def _down(self) -> int:
        """Rows of the largest tile."""
        return ceil_div(self.rows, self.rect.height * self.groups)

    def _body(self, count: int, rows: int) -> tuple[Instruction, ...]:
        """Return the instructions of the body for `rows` rows of `count` columns.

        Reductions get their start values first. Then every scalar and store runs row after row, or on a whole tile at
        once. The latter needs operands that are no rows or columns, and no sums, or sums over all iterations and full
        rows.
        """
        build = self.room.builder()
        for store in self.nest.stores:
            if store.reduce:
                total = self.sums[store.output]
                build.move(total.vector(), _STARTS[_known(store)], total.elements)
        # Without broadcast rows or columns a tile is one long vector: one setup instead of one for each row.
        whole = (self.rows, self.columns)
        is_whole = all((p.rows, p.columns) in (whole, (1, 1)) for p in (*self.inputs, *self.indices))
        # A sum over everything can process a full tile at once too; the rows of a shorter tile are not contiguous.
        is_whole &= not self.sums or (self.domain.sums_rows and count == self._along)
        if is_whole and rows * count:
            self._row(build, rows * count, is_whole=True)
        elif count and rows:
            with build.loop(rows):
                self._row(build, count)
        return build.body()

    def _row(self, build: Builder, length: int, is_whole: bool = False) -> None:
        """Append every scalar and every store for `length` elements: one row, or with `is_whole` the whole tile.

        A store with a reduction accumulates in float32; others convert to the output's type.
        """
        spare = [_vector(tile, is_whole) for tile in self.work]
        for scalar, place in zip(self.nest.body, self.scalars, strict=True):
            if scalar.op not in GIVEN:
                assert isinstance(place, Placed)
                arguments = [_source(self.scalars[a], is_whole) for a in scalar.args]
                operation = pointwise(self.nest, scalar)
                operation.emit(build, _vector(place, is_whole), arguments, length, spare)
        for store in self.nest.stores:
            value = _source(self.scalars[store.value], is_whole)
            if store.reduce:
                total = _vector(self.sums[store.output])
                if store.reduce in NEGATED:
                    build.mul(spare[0], value, -1.0, length)
                    value = spare[0]
                append(build, _COMBINES[store.reduce], (total, total, value), length)
            elif self.scalars[store.value] is not self.outputs[store.output]:
                build.convert(_vector(self.outputs[store.output], is_whole), value, length)

    def _spares(self) -> int:
        """Return the number of float32 scratch tiles, as many as the operation with the greatest need uses.

        A minimum or "and", which are computed on negated values, needs one.
        """
        turned = any(store.reduce in NEGATED for store in self.nest.stores)
        return max([int(turned), *(pointwise(self.nest, s).spares for s in self.nest.body if s.op not in GIVEN)])

    def _leaving(self, store: NestStore) -> Iterator[Phase]:
        """Yield the phases that finish the reduction of a store: over the PEs of each group, and its rounding to the
        output.

        A reduction of all iterations is over all PEs. The result is on the first PE of the group or rectangle.
        """
        total, out = self.sums[store.output], self.outputs[store.output]
        # In float32: the rounding to the output's type comes after the last addition.
        axis, combine = "xy" if self.domain.sums_rows else "x", _COMBINES[store.reduce]
        yield Reduce(self.rect, axis=axis, words=total.words, groups=self.groups, at=total.address, combine=combine)
        build = self.room.builder()
        if store.reduce in NEGATED:
            build.mul(total.vector(), total.vector(), -1.0, total.elements)
        build.convert(out.vector(), total.vector(), total.elements)
        yield Local(out.rect, build.body())


def _shares(extent: int, pes: int) -> Iterator[tuple[int, int, int]]:
    """Yield stretches of a line of PEs with equal shares of `extent`: (first PE, number of PEs, share of each).

    First come full shares, then a smaller one, then PEs with a share of 0; empty stretches are left out.
    """
    size = ceil_div(extent, pes)
    full = extent // size if size else 0
    counts = [(full, size), (1, extent - full * size), (pes, 0)]
    at = 0
    for pes_alike, share in counts:
        width = min(pes_alike, pes - at) if share or pes_alike == pes else 0
        if width:
            yield at, width, share
            at += width


def _vector(place: Placed, is_whole: bool = False) -> Memory:
    """Return a tile as an operand.

    Inside a loop over rows it is one row, or one number of a column. With `is_whole` it is all elements of the tile.
    """
    if is_whole:
        return place.vector(int(place.elements > 1))
    return place.vector(1 if place.columns > 1 else 0, (place.tile_columns,) if place.rows > 1 else ())


def _source(place: Placed | float, is_whole: bool) -> Operand:
    return _vector(place, is_whole) if isinstance(place, Placed) else place


def core_type(name: str) -> str:
    """Return the element type in which a core computes a value of type `name`: float32 for integers and truth values.

    Raises LazyError for a floating-point type that cores do not have.
    """
    kind = dtype_by_name(name).kind
    if kind in "bi":
        return WIDE
    if name not in ITEM_BYTES:
        raise LazyError(f"cores cannot compute in {name}", hint="Use float32, float16 or bfloat16.")
    return name


def _known(store: NestStore) -> str:
    if store.reduce not in _STARTS:
        raise LazyError(f"cores cannot combine stored values by {store.reduce!r}", hint=f"Use {', '.join(_STARTS)}.")
    return store.reduce
