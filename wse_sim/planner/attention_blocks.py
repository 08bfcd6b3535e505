"""Replace the attention blocks of a program by one fused instruction for each direction.

A block is found around a softmax. It consists of the products, loop nests and random draws that read or write the same
score matrix. The forward part becomes one "attention" instruction at the last forward product. The backward part
becomes one "attention_gradient" instruction, which recomputes the scores that it needs. Reports price these
instructions and `MeshBackend` runs them.

A block is left unchanged if its scores are fetched or read by another instruction, if a mask has separate values for
each head and each (row, key) pair, or if a loop does not cover all scores.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lazytensor.ir.nest import Access, Loop, Nest
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Work
from wse_sim.kernels.attention.block import Given, Kind, ScoreBlock, Step, Value

FORWARD_KERNEL, BACKWARD_KERNEL = "attention", "attention_gradient"
ATTENTION_KERNELS = FORWARD_KERNEL, BACKWARD_KERNEL
TensorVersion = tuple[int, int]
"""A buffer index and the index of the instruction that wrote it last, -1 if it was written before the step."""


class _NotABlockError(Exception):
    """Raised inside this module when instructions that share scores cannot be fused into a block."""


def fuse_attention_blocks(program: Program, accepts: Callable[[Instr], bool] = lambda instr: True) -> Program:
    """Return `program` with each attention block replaced by one forward and at most one backward instruction.

    A block is the softmax of a score matrix with the products, loops and random draws that share the scores. It is
    replaced only if `accepts` returns True for all of its new instructions. Blocks that cannot be fused are unchanged
    (see the module). The same program object is returned if no block is replaced.
    """
    if not any(instr.kernel == "softmax" for instr in program.instrs):
        return program
    return _BlockFinder(program, accepts).rewritten()


@dataclass
class _ScoreGroup:
    """The instructions that share one score matrix.

    - `shape`: the shape of the scores, (..., rows, keys)
    - `members`: each version of scores ("tile") or of a statistic per row ("stat"), with its kind
    - `instrs`: indices of the instructions that read or write members
    - `makers`: indices of nests that compute a mask from row and key indices only
    """

    shape: tuple[int, ...]
    members: dict[TensorVersion, Kind] = field(default_factory=dict)
    instrs: set[int] = field(default_factory=set)
    makers: set[int] = field(default_factory=set)


class _BlockFinder:
    """Find attention blocks in a program and rewrite it.

    - `reads`: for each instruction, the tensor versions that it reads
    - `readers`: for each version, the instructions that read it
    - `writers`: for each buffer, the instructions that write it
    - `late`: instructions that have to move to the end of the program
    - `asked_for`: versions that are fetched or become state
    """

    def __init__(self, program: Program, accepts: Callable[[Instr], bool]):
        self.program, self.accepts = program, accepts
        self.buffers, self.instrs = program.buffers, program.instrs
        self.reads: list[tuple[TensorVersion, ...]] = []
        self.readers: dict[TensorVersion, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        holder: dict[int, int] = {}
        # A buffer may be written several times, so scores are identified by buffer and last writer.
        for i, instr in enumerate(program.instrs):
            self.reads.append(tuple((r, holder.get(r, -1)) for r in instr.reads))
            for version in self.reads[-1]:
                self.readers[version].append(i)
            for w in instr.writes:
                holder[w] = i
                self.writers[w].append(i)
        ends = (*program.fetches, *(end for _, end in program.state.values()))
        self.late: set[int] = set()
        self.asked_for = {(b, holder.get(b, -1)) for b in ends}
        self._blocks: dict[ScoreBlock, ScoreBlock] = {}

    def rewritten(self) -> Program:
        """Return the program with the accepted blocks replaced, or the program itself if there are none.

        A block that shares an instruction with an earlier one is left unchanged. Nests that compute a mask for blocks
        only are removed. Instructions in `late` move to the end.
        """
        placed: dict[int, Instr] = {}
        gone: set[int] = set()
        makers: set[int] = set()
        for i, instr in enumerate(self.instrs):
            if instr.kernel != "softmax" or i in gone:
                continue
            try:
                group = self._group(i)
                if group.instrs & gone:
                    continue
                whole = dict(self._instructions(group))
            except _NotABlockError:
                continue
            if all(self.accepts(one) for one in whole.values()):
                placed |= whole
                gone |= group.instrs
                makers |= group.makers
        # Remove the nest of a mask that only blocks read: the blocks compute the mask themselves.
        for m in sorted(makers, reverse=True):
            readers = {r for w in self.instrs[m].writes for r in self.readers[w, m]}
            if readers <= gone and not self.asked_for & {(w, m) for w in self.instrs[m].writes}:
                gone.add(m)
        if not placed:
            return self.program
        # Move late instructions to the end. The sort is stable, so all others keep their order.
        order = sorted(range(len(self.instrs)), key=lambda i: i in self.late)
        places = [i for i in order if i in placed or i not in gone]
        return replace(self.program, instrs=tuple([placed.get(i) or self.instrs[i] for i in places]))

    # 1. Group the instructions that share scores.

    def _group(self, softmax: int) -> _ScoreGroup:
        """Return the instructions that share scores with the softmax at index `softmax`, directly or through others.

        Raise _NotABlockError in these cases:

        - The scores have fewer than 3 dimensions, or fewer than 2 rows or keys.
        - A shared tensor is fetched, or was written before the step.
        - Two instructions use a shared tensor differently, as scores ("tile") and as statistics ("stat").
        - An instruction does not fit into a block (see `_shared`).
        """
        shape = self.buffers[self.instrs[softmax].reads[0]].type.shape
        # With a single row or key, scores and statistics have the same accesses.
        if len(shape) < len("hij") or min(shape[-2:]) < 2:
            raise _NotABlockError
        group = _ScoreGroup(shape)
        waiting = [softmax]
        while waiting:
            i = waiting.pop()
            if i in group.instrs:
                continue
            group.instrs.add(i)
            # Instructions that write or read a member belong to the group, in both directions.
            for version, kind in self._shared(group, i):
                # Scores that are fetched have to exist as a whole tensor.
                if group.members.setdefault(version, kind) != kind or version in self.asked_for:
                    raise _NotABlockError
                if version[1] < 0:
                    raise _NotABlockError
                waiting += [version[1], *self.readers[version]]
        return group

    def _shared(self, group: _ScoreGroup, i: int) -> Iterator[tuple[TensorVersion, Kind]]:
        """Yield the versions of scores ("tile") and of statistics per row ("stat") that instruction `i` accesses.

        A product that reads members yields nothing. Raise _NotABlockError if the instruction cannot be a part of a
        block: a softmax over another axis than keys, a draw with a fixed seed, a result of another shape, or an unknown
        kernel.
        """
        instr, own = self.instrs[i], [(w, i) for w in self.instrs[i].writes]
        if instr.kernel == "softmax":
            if instr.attrs["dim"] not in (-1, len(group.shape) - 1) or self._shape(own[0]) != group.shape:
                raise _NotABlockError
            yield self.reads[i][0], "tile"
            yield own[0], "tile"
        elif _is_draw(instr):
            if self._shape(own[0]) != group.shape or instr.attrs["attrs"].get("seed") is not None:
                raise _NotABlockError
            yield own[0], "tile"
        elif instr.kernel == "matmul":
            # A product that reads members reduces scores. Any other product makes scores of two matrices.
            if not any(version in group.members for version in self.reads[i]):
                if self._shape(own[0]) != group.shape:
                    raise _NotABlockError
                yield own[0], "tile"
        elif instr.nest:
            yield from self._nest_members(group, i, instr.nest)
        else:
            raise _NotABlockError

    def _nest_members(self, group: _ScoreGroup, i: int, nest: Nest) -> Iterator[tuple[TensorVersion, Kind]]:
        """Yield the scores ("tile") and the sums over keys ("stat") that a nest reads or writes.

        Masks that nests compute from indices are not yielded; these nests are added to `group.makers`. Other operands
        need one value per row, key or pair. Raise _NotABlockError if an access does not fit.
        """
        nest = _expand_nest(nest, group.shape)
        whole, lines = _strides(group.shape), (*_strides(group.shape[:-1]), 0)
        for version, access in zip(self.reads[i], nest.reads, strict=True):
            buffer = self.buffers[version[0]]
            # Decide by the access, because extents may be equal by chance.
            if access == Access(lines) and version in group.members:
                yield version, "stat"
            elif access == Access(whole) and buffer.kind == "temp" and self._is_inner(group, version):
                yield version, "tile"
            elif self._maker(group, version, access) is not None:
                group.makers.add(version[1])
            else:
                self._require_vector(access, buffer.value, group.shape)
        summed = [loop.is_reduction for loop in nest.loops]
        for store in nest.stores:
            version, access = (self.instrs[i].writes[store.output], i), nest.writes[store.output]
            if not store.reduce and access == Access(whole) and not any(summed[:-1]):
                yield version, "tile"
            elif store.reduce == "add" and access == Access(lines) and summed[-1] and not any(summed[:-1]):
                yield version, "stat"
            else:
                raise _NotABlockError

    def _is_inner(self, group: _ScoreGroup, version: TensorVersion) -> bool:
        """Return whether a temporary that is read like the scores belongs to the block.

        It does if it is a member already, or if a product, a nest or a random draw of the program computed it.
        """
        if version in group.members:
            return True
        maker = self.instrs[version[1]] if version[1] >= 0 else None
        return maker is not None and (maker.kernel == "matmul" or _is_draw(maker) or maker.nest is not None)

    def _maker(self, group: _ScoreGroup, version: TensorVersion, access: Access) -> Nest | None:
        """Return the nest that computes `version` from row and key indices only, or None if it is not such a mask.

        `access` has to read the mask at (row, key) without head strides. The nest has no operands, one store, no
        reduction, and loops over rows and keys only.
        """
        if version[1] < 0 or access != Access((*(0,) * (len(group.shape) - 2), *_strides(group.shape[-2:]))):
            return None
        nest = self.instrs[version[1]].nest
        if not nest or nest.reads or tuple(loop.extent for loop in nest.loops) != group.shape[-2:]:
            return None
        return nest if len(nest.stores) == 1 and not nest.stores[0].reduce else None

    def _require_vector(self, access: Access, value: np.ndarray | None, shape: tuple[int, ...]) -> Access:
        """Return `access` without head strides, for an operand with one value per row, per key, or per (row, key) pair.

        Strides of axes of extent 1 count as 0. Raise _NotABlockError if there is a separate value for each head and
        pair. A constant `value` whose heads are all equal is accepted.
        """
        *lead, along, across = (s if extent > 1 else 0 for s, extent in zip(access.strides, shape, strict=True))
        if along and across and any(lead):
            # A constant may be equal for all heads although it has an axis for them.
            if value is None or value.shape != shape or (value != value.reshape(-1, *shape[-2:])[0]).any():
                raise _NotABlockError
            lead = [0] * len(lead)
        return Access((*lead, along, across), access.offset)

    def _shape(self, version: TensorVersion) -> tuple[int, ...]:
        return self.buffers[version[0]].type.shape

    # 2. Build the fused instructions.

    def _instructions(self, group: _ScoreGroup) -> Iterator[tuple[int, Instr]]:
        """Yield (index, instruction) for the forward part of a group and, if there is one, for the backward part.

        The forward instruction replaces the last forward product, the backward one the first backward instruction.
        Raise _NotABlockError if a part cannot be built or moved there.
        """
        backward: list[int] = []
        # Instructions that read a backward result belong to the backward part, even if they were recorded as forward.
        for i in sorted(group.instrs):
            if self.instrs[i].direction != "forward" or any(source in backward for _, source in self.reads[i]):
                backward.append(i)
        forward = sorted(group.instrs.difference(backward))
        # The other operand of the last product may not exist earlier. In backward all operands exist from the start.
        last = max((i for i in forward if self.instrs[i].kernel == "matmul"), default=-1)
        yield last, self._make_instruction(group, forward, [], last, FORWARD_KERNEL)
        if backward:
            again = self._again(group, forward, backward)
            yield backward[0], self._make_instruction(group, backward, again, backward[0], BACKWARD_KERNEL)

    def _again(self, group: _ScoreGroup, forward: Sequence[int], backward: Sequence[int]) -> list[int]:
        """Return the forward instructions, in program order, whose results the backward ones need, directly or not.

        Only scores and statistics of the group count as such results.
        """
        wanted = {v for i in backward for v in self.reads[i] if v in group.members}
        again = []
        for i in reversed(forward):
            if any((w, i) in wanted for w in self.instrs[i].writes):
                again.append(i)
                wanted |= {v for v in self.reads[i] if v in group.members}
        return again[::-1]

    def _make_instruction(
        self, group: _ScoreGroup, own: Sequence[int], again: Sequence[int], place: int, kernel: str
    ) -> Instr:
        """Return the fused instruction for the instructions `own` of a group, placed at index `place`.

        The instructions `again` are recomputed inside it; their operations are not counted as its work. Its script line
        and direction are those of the first product in `own`. Raise _NotABlockError if the block has no result or
        cannot be moved to `place`.
        """
        block = _BlockBuilder(self, group)
        for i in (*again, *own):
            block.add(i)
        if not block.results:
            raise _NotABlockError
        self._require_movable(block, own, place)
        reads, writes = [version[0] for version in block.arrays], [version[0] for version, _, _ in block.results]
        named = next((i for i in own if self.instrs[i].kernel == "matmul"), own[0])
        draws = tuple(i for i in (*again, *own) if _is_draw(self.instrs[i]))
        sizes = [sum(self.buffers[b].type.nbytes for b in some) for some in (reads, writes)]
        return Instr(
            kernel=kernel,
            reads=tuple(reads),
            writes=tuple(writes),
            # Prices ignore the entry "attrs"/"call", so equal layers share one price.
            attrs={
                "block": self._shared_block(block.block()),
                "attrs": {"call": draw_call_numbers(self.instrs, draws)},
            },
            work=Work(sum(_flops(self.instrs[i]) for i in own), *sizes),
            where=self.instrs[named].where,
            direction=self.instrs[named].direction,
        )

    def _shared_block(self, block: ScoreBlock) -> ScoreBlock:
        """Return the first block that equals `block`, so that equal layers share one object and one cached price."""
        return self._blocks.setdefault(block, block)

    def _require_movable(self, block: "_BlockBuilder", own: Sequence[int], place: int) -> None:
        """Raise _NotABlockError unless the block can run at index `place` instead of at the indices `own`.

        Its operands have to be written before `place` and not overwritten in between, unless the overwriting
        instruction can move to the end; it is then added to `late`. No other instruction between a result's old and new
        index may read or write the result.
        """
        for buffer, source in block.arrays:
            if source >= place:
                raise _NotABlockError
            for w in self.writers[buffer]:
                if source < w < place:
                    self._require_late(w)
        for (buffer, source), _, _ in block.results:
            between = range(min(source, place), max(source, place) + 1)
            for i in between:
                others = (*self.instrs[i].reads, *self.instrs[i].writes)
                if i not in own and buffer in others:
                    raise _NotABlockError

    def _require_late(self, i: int) -> None:
        """Add instruction `i` to `late`, so that it moves to the end of the program.

        This is for an instruction that advances the state of a random generator. Raise _NotABlockError if its results
        are read, or if a later instruction writes a buffer that it reads or writes.
        """
        own = self.instrs[i].writes
        is_read = any(self.readers[w, i] for w in own)
        is_changed = any(w > i for b in (*own, *self.instrs[i].reads) for w in self.writers[b])
        if is_read or is_changed:
            raise _NotABlockError
        self.late.add(i)


class _BlockBuilder:
    """Build the `ScoreBlock` of a group from its instructions. Tensor versions become indices of values.

    - `values`: the values of the block
    - `steps`: its operations, in order
    - `given`: how each operand of the block is read
    - `arrays`: the tensor versions that the block reads
    - `results`: (version, value, whether the value is transposed) for each result
    """

    def __init__(self, search: _BlockFinder, group: _ScoreGroup):
        self.search, self.group = search, group
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.given: list[Given] = []
        self.arrays: list[TensorVersion] = []
        self.results: list[tuple[TensorVersion, int, bool]] = []
        self._known: dict[object, int] = {}

    def block(self) -> ScoreBlock:
        """Return the `ScoreBlock` of all steps that were added with `add`. The builder is unchanged."""
        *lead, rows, keys = self.group.shape
        results = tuple((value, is_turned) for _, value, is_turned in self.results)
        return ScoreBlock(
            lead=tuple(lead),
            rows=rows,
            keys=keys,
            values=tuple(self.values),
            steps=tuple(self.steps),
            given=tuple(self.given),
            results=results,
        )

    def add(self, i: int) -> None:
        """Add the step that instruction `i` computes: a softmax, a product, a nest, or else a random draw.

        Raise _NotABlockError if a block has no such step.
        """
        instr, reads = self.search.instrs[i], self.search.reads[i]
        own = [(w, i) for w in instr.writes]
        if instr.kernel == "softmax":
            self._step("softmax", (self._inner(own[0]),), (self._inner(reads[0]),))
        elif instr.kernel == "matmul":
            self._product(instr, reads, own[0])
        elif instr.nest:
            self._nest(instr.nest, reads, own)
        else:
            state = self._value(("state",), Value("state", "uint16", 2), reads[0])
            self._step("draw", (self._inner(own[0]),), (state,))

    def _step(self, op: str, writes: tuple[int, ...], reads: tuple[int, ...], nest: Nest | None = None) -> None:
        self.steps.append(Step(op, writes, reads, nest))  # type: ignore[arg-type]

    def _inner(self, version: TensorVersion) -> int:
        kind = self.group.members[version]
        if version not in self._known:
            self._known[version] = self._new(kind, version)
        return self._known[version]

    def _new(self, kind: Kind, version: TensorVersion, width: int = 1) -> int:
        self.values.append(Value(kind, self.search.buffers[version[0]].type.dtype.name, width))
        return len(self.values) - 1

    def _value(self, key: object, value: Value, version: TensorVersion | None, **how: object) -> int:
        """Return the index of an operand of the block. It is added once for each pair of `key` and `version`.

        A new one is appended to `values` and `given`, and its tensor to `arrays`. Without a `version` it is computed
        and reads no tensor.
        """
        if (key, version) not in self._known:
            self.values.append(value)
            self._known[key, version] = len(self.values) - 1
            if version is not None and version not in self.arrays:
                self.arrays.append(version)
            read = self.arrays.index(version) if version is not None else -1
            self.given.append(Given(len(self.values) - 1, read, **how))  # type: ignore[arg-type]
        return self._known[key, version]

    def _matrix(self, kind: Kind, version: TensorVersion, is_turned: bool) -> int:
        kept = self.search.buffers[version[0]].type
        width = kept.shape[-2 if is_turned else -1]
        return self._value((kind, is_turned), Value(kind, kept.dtype.name, width), version, is_turned=is_turned)

    def _product(self, instr: Instr, reads: Sequence[TensorVersion], own: TensorVersion) -> None:
        """Add a matrix product of the block.

        A product of two other tensors makes scores. A product of scores and a matrix is a sum over keys or over rows,
        and a result of the block. Raise _NotABlockError if leading axes differ from those of the scores, or if both
        operands are scores.
        """
        flips = [bool(instr.attrs.get(f"transpose_{name}")) for name in "ab"]
        inside = [version in self.group.members for version in reads]
        lead = self.group.shape[:-2]
        # A matrix that several heads share would have to be broadcast.
        if any(self.search._shape(version)[:-2] != lead for version in (*reads, own)) or all(inside):
            raise _NotABlockError
        if not any(inside):
            rows = self._matrix("rows", reads[0], flips[0])
            keys = self._matrix("keys", reads[1], not flips[1])
            self._step("pairs", (self._inner(own),), (rows, keys))
            return
        is_right = inside[1]
        # A product a b = c with scores on the right is the transpose of b^T a^T.
        is_over_rows = flips[is_right] != is_right
        kind: Kind = "rows" if is_over_rows else "keys"
        matrix = self._matrix(kind, reads[1 - is_right], flips[1 - is_right] != is_right)
        width = self.values[matrix].width
        result = self._new("keys" if is_over_rows else "rows", own, width)
        self._step("key_sum" if is_over_rows else "row_sum", (result,), (self._inner(reads[is_right]), matrix))
        self.results.append((own, result, is_right))

    def _nest(self, nest: Nest, reads: Sequence[TensorVersion], own: Sequence[TensorVersion]) -> None:
        """Add a nest over the scores, with its operands and its row and key indices as values.

        Loops of extent 1 are added first. Raise _NotABlockError if an operand or the extents do not fit.
        """
        nest = _expand_nest(nest, self.group.shape)
        values = [self._read(version, access) for version, access in zip(reads, nest.reads, strict=True)]
        values += self._indices(nest, 0)
        self._step("nest", tuple(map(self._inner, own)), tuple(values), nest)

    def _indices(self, nest: Nest, lead: int) -> list[int]:
        return [
            self._vector(None, Access((*(0,) * lead, *s.attr.strides), s.attr.offset))
            for s in nest.body
            if s.op == "index"
        ]

    def _read(self, version: TensorVersion, access: Access) -> int:
        if version in self.group.members:
            return self._inner(version)
        if maker := self.search._maker(self.group, version, access):
            if version not in self._known:
                self._known[version] = self._new("tile", version)
                indices = self._indices(maker, len(self.group.shape) - 2)
                self._step("nest", (self._known[version],), tuple(indices), maker)
            return self._known[version]
        return self._vector(version, access)

    def _vector(self, version: TensorVersion | None, access: Access) -> int:
        """Return the value for an operand with one number per row or per key, or for a mask that all heads share.

        Without a `version` the operand is a loop index. Raise _NotABlockError if such an index depends on row and key,
        or if an operand has separate values for each head and pair.
        """
        buffer = self.search.buffers[version[0]] if version else None
        access = self.search._require_vector(access, buffer.value if buffer else None, self.group.shape)
        *_, along, across = access.strides
        kind: Kind = "grid" if along and across else "rows" if along else "keys"
        dtype = buffer.type.dtype.name if buffer else "float32"
        if buffer is None and kind == "grid":
            # The index of a pair is a row term plus a key term. A block has no single value for that.
            raise _NotABlockError
        return self._value(access, Value(kind, dtype), version, access=access)


def draw_call_numbers(instrs: Sequence[Instr], draws: Sequence[int]) -> tuple[int, ...]:
    """Return the call numbers of the random draws at the instruction indices `draws`."""
    return tuple([instrs[i].attrs["attrs"]["call"] for i in draws])


def _is_draw(instr: Instr) -> bool:
    return instr.kernel == "call" and instr.attrs.get("op") == "random_uniform"


def _flops(instr: Instr) -> int:
    return instr.work.flops or (instr.nest.work.flops if instr.nest else 0)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous tensor of `shape`; 0 for axes of extent 1."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(stride if extent > 1 else 0 for stride, extent in zip(reversed(strides), shape, strict=True))


def _expand_nest(nest: Nest, shape: tuple[int, ...]) -> Nest:
    """Return the nest with one loop for each extent of `shape`, where loops of extent 1 had been omitted.

    Their strides are 0. Raise _NotABlockError if the extents of the nest and `shape` differ in more than extents of 1.
    """
    loops = iter(nest.loops)
    if [loop.extent for loop in nest.loops if loop.extent > 1] != [extent for extent in shape if extent > 1]:
        raise _NotABlockError
    if len(nest.loops) == len(shape):
        return nest
    if any(loop.extent == 1 for loop in nest.loops):
        raise _NotABlockError
    every = tuple(next(loops) if extent > 1 else Loop("one", 1) for extent in shape)

    def spread(access: Access) -> Access:
        strides = iter(access.strides)
        return Access(tuple(next(strides) if extent > 1 else 0 for extent in shape), access.offset)

    body = tuple(replace(s, attr=spread(s.attr)) if s.op == "index" else s for s in nest.body)
    reads, writes = (tuple(map(spread, some)) for some in (nest.reads, nest.writes))
    return replace(nest, loops=every, reads=reads, writes=writes, body=body)
