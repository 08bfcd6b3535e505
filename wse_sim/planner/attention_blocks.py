"""Attention blocks of a program as one kernel each way: what makes scores, what is done with them, what reads them.

A block is found around a softmax: the products, nests and random numbers that share its scores. It becomes one
instruction where the scores are first wanted whole, and one on the way back, which makes the scores it needs again from
what the first was given. Reports price these and `MeshBackend` runs them. A block stays as it is where a reader wants
scores themselves, where a mask has other numbers for each head and pair, or where a loop is not over all scores.
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
"""A buffer, and the instruction that wrote it last; -1 for what was there before the step."""


class _NotABlockError(Exception):
    """What shares these scores is no block."""


def fuse_attention_blocks(program: Program, accepts: Callable[[Instr], bool] = lambda instr: True) -> Program:
    """The program with its attention blocks as single instructions, as far as `accepts` takes all of a block's."""
    if not any(instr.kernel == "softmax" for instr in program.instrs):
        return program
    return _BlockFinder(program, accepts).rewritten()


@dataclass
class _ScoreGroup:
    """Instructions that share scores: the extents, and the versions of scores and statistics by kind."""

    shape: tuple[int, ...]
    members: dict[TensorVersion, Kind] = field(default_factory=dict)
    instrs: set[int] = field(default_factory=set)
    makers: set[int] = field(default_factory=set)


class _BlockFinder:
    def __init__(self, program: Program, accepts: Callable[[Instr], bool]):
        self.program, self.accepts = program, accepts
        self.buffers, self.instrs = program.buffers, program.instrs
        self.reads: list[tuple[TensorVersion, ...]] = []
        self.readers: dict[TensorVersion, list[int]] = defaultdict(list)
        self.writers: dict[int, list[int]] = defaultdict(list)
        holder: dict[int, int] = {}
        # A buffer may be written several times: scores are told apart by who wrote them last.
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
        # A mask that only blocks read is made where it is wanted.
        for m in sorted(makers, reverse=True):
            readers = {r for w in self.instrs[m].writes for r in self.readers[w, m]}
            if readers <= gone and not self.asked_for & {(w, m) for w in self.instrs[m].writes}:
                gone.add(m)
        if not placed:
            return self.program
        # All others keep their places: a sort is stable.
        order = sorted(range(len(self.instrs)), key=lambda i: i in self.late)
        places = [i for i in order if i in placed or i not in gone]
        return replace(self.program, instrs=tuple([placed.get(i) or self.instrs[i] for i in places]))

    # What belongs together.

    def _group(self, softmax: int) -> _ScoreGroup:
        shape = self.buffers[self.instrs[softmax].reads[0]].type.shape
        # With a single row or key its scores and its statistics would look alike.
        if len(shape) < len("hij") or min(shape[-2:]) < 2:
            raise _NotABlockError
        group = _ScoreGroup(shape)
        waiting = [softmax]
        while waiting:
            i = waiting.pop()
            if i in group.instrs:
                continue
            group.instrs.add(i)
            # Whoever makes or reads what is shared belongs to it, the way back too.
            for version, kind in self._shared(group, i):
                # What is fetched has to be whole.
                if group.members.setdefault(version, kind) != kind or version in self.asked_for:
                    raise _NotABlockError
                if version[1] < 0:
                    raise _NotABlockError
                waiting += [version[1], *self.readers[version]]
        return group

    def _shared(self, group: _ScoreGroup, i: int) -> Iterator[tuple[TensorVersion, Kind]]:
        """The scores and statistics that an instruction reads or makes; what else it does has to fit in a block."""
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
            # One that reads scores sums them up; one that makes scores takes two other matrices.
            if not any(version in group.members for version in self.reads[i]):
                if self._shape(own[0]) != group.shape:
                    raise _NotABlockError
                yield own[0], "tile"
        elif instr.nest:
            yield from self._nest_members(group, i, instr.nest)
        else:
            raise _NotABlockError

    def _nest_members(self, group: _ScoreGroup, i: int, nest: Nest) -> Iterator[tuple[TensorVersion, Kind]]:
        nest = _expand_nest(nest, group.shape)
        whole, lines = _strides(group.shape), (*_strides(group.shape[:-1]), 0)
        for version, access in zip(self.reads[i], nest.reads, strict=True):
            buffer = self.buffers[version[0]]
            # By the way it is read: extents alone may be equal by chance.
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
        """Whether a tensor as large as the scores is one of theirs: of a product, of another nest over them, drawn."""
        if version in group.members:
            return True
        maker = self.instrs[version[1]] if version[1] >= 0 else None
        return maker is not None and (maker.kernel == "matmul" or _is_draw(maker) or maker.nest is not None)

    def _maker(self, group: _ScoreGroup, version: TensorVersion, access: Access) -> Nest | None:
        """The nest that makes a mask of rows and keys from their places alone."""
        if version[1] < 0 or access != Access((*(0,) * (len(group.shape) - 2), *_strides(group.shape[-2:]))):
            return None
        nest = self.instrs[version[1]].nest
        if not nest or nest.reads or tuple(loop.extent for loop in nest.loops) != group.shape[-2:]:
            return None
        return nest if len(nest.stores) == 1 and not nest.stores[0].reduce else None

    def _require_vector(self, access: Access, value: np.ndarray | None, shape: tuple[int, ...]) -> Access:
        """An access that needs no number of its own for each head and pair."""
        *lead, along, across = (s if extent > 1 else 0 for s, extent in zip(access.strides, shape, strict=True))
        if along and across and any(lead):
            # A constant may be the same for all heads though it has room for each.
            if value is None or value.shape != shape or (value != value.reshape(-1, *shape[-2:])[0]).any():
                raise _NotABlockError
            lead = [0] * len(lead)
        return Access((*lead, along, across), access.offset)

    def _shape(self, version: TensorVersion) -> tuple[int, ...]:
        return self.buffers[version[0]].type.shape

    # What becomes of it.

    def _instructions(self, group: _ScoreGroup) -> Iterator[tuple[int, Instr]]:
        """One instruction for each sweep, and in whose place."""
        backward: list[int] = []
        # What reads a gradient is of the way back, whoever recorded it.
        for i in sorted(group.instrs):
            if self.instrs[i].direction != "forward" or any(source in backward for _, source in self.reads[i]):
                backward.append(i)
        forward = sorted(group.instrs.difference(backward))
        # Before the last product its other matrix may not be there; on the way back all is there from the first on.
        last = max((i for i in forward if self.instrs[i].kernel == "matmul"), default=-1)
        yield last, self._make_instruction(group, forward, [], last, FORWARD_KERNEL)
        if backward:
            again = self._again(group, forward, backward)
            yield backward[0], self._make_instruction(group, backward, again, backward[0], BACKWARD_KERNEL)

    def _again(self, group: _ScoreGroup, forward: Sequence[int], backward: Sequence[int]) -> list[int]:
        """The forward instructions that make what backward ones read."""
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
            # Numbers of draws stand where prices leave them out: layers that are alike have one price.
            attrs={
                "block": self._shared_block(block.block()),
                "attrs": {"call": draw_call_numbers(self.instrs, draws)},
            },
            work=Work(sum(_flops(self.instrs[i]) for i in own), *sizes),
            where=self.instrs[named].where,
            direction=self.instrs[named].direction,
        )

    def _shared_block(self, block: ScoreBlock) -> ScoreBlock:
        """An equal block of another layer, if there is one: prices know it again at a glance."""
        return self._blocks.setdefault(block, block)

    def _require_movable(self, block: "_BlockBuilder", own: Sequence[int], place: int) -> None:
        """All that is read is there, and nobody has written over it; no one asks for results before, or is in them."""
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
        """That an instruction may come at the end, as what advances the state of a generator may: it goes there."""
        own = self.instrs[i].writes
        is_read = any(self.readers[w, i] for w in own)
        is_changed = any(w > i for b in (*own, *self.instrs[i].reads) for w in self.writers[b])
        if is_read or is_changed:
            raise _NotABlockError
        self.late.add(i)


class _BlockBuilder:
    """Collects the steps of a block; versions become values."""

    def __init__(self, search: _BlockFinder, group: _ScoreGroup):
        self.search, self.group = search, group
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.given: list[Given] = []
        self.arrays: list[TensorVersion] = []
        self.results: list[tuple[TensorVersion, int, bool]] = []
        self._known: dict[object, int] = {}

    def block(self) -> ScoreBlock:
        """What was collected."""
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
        """The step of an instruction."""
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
        """What is given, once for all that want it so."""
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
        """Pairs of rows and keys; or sums over keys or rows, of scores from the left or, the other way, the right."""
        flips = [bool(instr.attrs.get(f"transpose_{name}")) for name in "ab"]
        inside = [version in self.group.members for version in reads]
        lead = self.group.shape[:-2]
        # A matrix that several heads share would have to be broadcast to their teams.
        if any(self.search._shape(version)[:-2] != lead for version in (*reads, own)) or all(inside):
            raise _NotABlockError
        if not any(inside):
            rows = self._matrix("rows", reads[0], flips[0])
            keys = self._matrix("keys", reads[1], not flips[1])
            self._step("pairs", (self._inner(own),), (rows, keys))
            return
        is_right = inside[1]
        # Of a product a b = c with scores on the right, it is the transpose of b^T a^T.
        is_over_rows = flips[is_right] != is_right
        kind: Kind = "rows" if is_over_rows else "keys"
        matrix = self._matrix(kind, reads[1 - is_right], flips[1 - is_right] != is_right)
        width = self.values[matrix].width
        result = self._new("keys" if is_over_rows else "rows", own, width)
        self._step("key_sum" if is_over_rows else "row_sum", (result,), (self._inner(reads[is_right]), matrix))
        self.results.append((own, result, is_right))

    def _nest(self, nest: Nest, reads: Sequence[TensorVersion], own: Sequence[TensorVersion]) -> None:
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
        """A number for each row or each key, or a mask that all heads share."""
        buffer = self.search.buffers[version[0]] if version else None
        access = self.search._require_vector(access, buffer.value if buffer else None, self.group.shape)
        *_, along, across = access.strides
        kind: Kind = "grid" if along and across else "rows" if along else "keys"
        dtype = buffer.type.dtype.name if buffer else "float32"
        if buffer is None and kind == "grid":
            # The place of a pair is the sum of a row's and a key's: two values, which no nest of ours adds.
            raise _NotABlockError
        return self._value(access, Value(kind, dtype), version, access=access)


def draw_call_numbers(instrs: Sequence[Instr], draws: Sequence[int]) -> tuple[int, ...]:
    """The numbers of draws of random bits."""
    return tuple([instrs[i].attrs["attrs"]["call"] for i in draws])


def _is_draw(instr: Instr) -> bool:
    return instr.kernel == "call" and instr.attrs.get("op") == "random_uniform"


def _flops(instr: Instr) -> int:
    return instr.work.flops or (instr.nest.work.flops if instr.nest else 0)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a whole tensor, element after element; 0 where there is but one."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(stride if extent > 1 else 0 for stride, extent in zip(reversed(strides), shape, strict=True))


def _expand_nest(nest: Nest, shape: tuple[int, ...]) -> Nest:
    """The nest with a loop for every extent of `shape`: those of a single round were left out of it."""
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
