"""Growth: the program of a deep net from those of two shallow ones, of which the second has one layer more.

What one more layer adds to a program, every further one adds too: the same instructions at the same places, and each
number of a buffer goes on by the same steps, from layer to layer and with the number of layers. Whatever does not lie
on such straight lines is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from lazytensor.ir.program import Buffer, Grown, Instr, Program
from lazytensor.ir.repeats import Numbers, Repeat, repeats
from lazytensor.ir.skeleton import DRAW, Skeleton, Stretch
from lazytensor.ir.types import Type, Where

LinesOf = Callable[[Sequence[Where], int], Sequence[Where | None]]
"""The lines of so many copies of an instruction, of which the first and the last are known."""


RATES = 5
"""A layer adds fewer copies than that to any repeat."""


class Uneven(Exception):
    """Layers that look alike are not; says in what."""


@dataclass(frozen=True)
class _Rows:
    """What a program consists of, row by row: instructions, then states, then the batch and what is fetched.

    The references of an instruction are the buffers that it reads and writes, those of a state its two ends.
    """

    program: Program
    kinds: Numbers
    references: Numbers
    widths: tuple[int, int]  # columns for what is read, and for what is written


def _rows(program: Program, numbers: dict[Any, int], widths: tuple[int, int]) -> _Rows:
    buffers = [_buffer_kind(b) for b in program.buffers]
    kinds: list[Any] = []
    lists: list[tuple[Sequence[int], Sequence[int]]] = []
    for i in program.instrs:
        kinds.append(_kind(i, buffers))
        lists.append((i.reads, i.writes))
    for start, end in program.state.values():
        kinds.append(("state", buffers[start]))
        lists.append(((start,), (end,)))
    for name, indices in (("batch", program.batch), ("fetch", program.fetches)):
        kinds += [(name, k, buffers[b]) for k, b in enumerate(indices)]
        lists += [((b,), ()) for b in indices]
    wide, high = widths
    table = [[*r, *[-1] * (wide - len(r)), *w, *[-1] * (high - len(w))] for r, w in lists]
    kind_numbers = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)
    return _Rows(program, kind_numbers, np.array(table, np.int64), widths)


def _widths(*programs: Program) -> tuple[int, int]:
    instrs = [i for p in programs for i in p.instrs]
    return max(1, *(len(i.reads) for i in instrs)), max(1, *(len(i.writes) for i in instrs))


def _buffer_kind(b: Buffer) -> tuple[Any, ...]:
    return b.type, b.kind, None if b.value is None else (b.value.dtype.str, b.value.tobytes())


def _kind(i: Instr, buffers: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    operands = tuple(buffers[b] for b in i.reads), tuple(buffers[b] for b in i.writes)
    nest = None if i.nest is None else i.nest.key
    return i.kernel, i.direction, i.work, nest, operands, _attributes(i.attrs)


def _attributes(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((k, _attributes(v) if isinstance(v, Mapping) else repr(v)) for k, v in attrs.items() if k != DRAW)


@dataclass(frozen=True)
class _Part:
    """Rows that belong together, from `short` on in one program and from `long` on in the other.

    Without a `period` they are `count` rows that are there once. With one they are so many copies in the short one, and
    `rate` more with each layer: there may be several equal ones in a layer.
    """

    short: int
    long: int
    count: int
    period: int = 0
    rate: int = 0


def _parts(short: _Rows, long: _Rows) -> Iterator[_Part]:
    """Both programs from the first row to the last. Raises Uneven if one is not the other with a layer more."""
    at, place = 0, 0
    for repeat in repeats(long.kinds, long.references):
        yield from _once(short, long, at, place, repeat.start - place)
        at, place = at + repeat.start - place, repeat.start
        size = repeat.end - repeat.start
        rate = _rate(short, long, at, repeat)
        if rate:
            yield _Part(at, place, repeat.copies - rate, repeat.period, rate)
            _require_line(short, long, at, repeat, rate)
        else:
            yield from _once(short, long, at, place, size)
        at += size - rate * repeat.period
        place = repeat.end
    if len(short.kinds) - at != len(long.kinds) - place:
        raise Uneven("one more layer is more than one more copy")
    yield from _once(short, long, at, place, len(short.kinds) - at)


def _are_equal(short: _Rows, long: _Rows, at: int, place: int, count: int) -> bool:
    return np.array_equal(short.kinds[at : at + count], long.kinds[place : place + count])


def _rate(short: _Rows, long: _Rows, at: int, repeat: Repeat) -> int:
    """How many copies a layer adds to a repeat; what does not grow with the layers has as many in both."""
    # Where it is counted right, what follows goes together for longest.
    ends = [at + (repeat.copies - rate) * repeat.period for rate in range(RATES)]
    return max(range(RATES), key=lambda rate: _in_common(short, long, ends[rate], repeat.end))


def _in_common(short: _Rows, long: _Rows, at: int, place: int) -> int:
    """How many rows from there on are equal."""
    count = min(len(short.kinds) - at, len(long.kinds) - place)
    if count <= 0:
        return count
    differ = np.flatnonzero(short.kinds[at : at + count] != long.kinds[place : place + count])
    return int(differ[0]) if len(differ) else count


def _once(short: _Rows, long: _Rows, at: int, place: int, count: int) -> Iterator[_Part]:
    if not _are_equal(short, long, at, place, count):
        raise Uneven("what stands beside the layers depends on their number")
    if count:
        yield _Part(at, place, count)


def _require_line(short: _Rows, long: _Rows, at: int, repeat: Repeat, rate: int) -> None:
    period, copies = repeat.period, repeat.copies - rate
    own = short.kinds[at : at + copies * period]
    like = long.kinds[repeat.start : repeat.start + copies * period]
    # A single copy has no step to the next: nothing tells where further ones lie.
    if copies < 2 or not np.array_equal(own, like):
        raise Uneven("copies differ with the number of layers")
    steps = np.diff(short.references[at : at + copies * period].reshape(copies, period, -1), axis=0)
    further = np.diff(long.references[repeat.start : repeat.end].reshape(repeat.copies, period, -1), axis=0)
    if (steps != steps[0]).any() or (further != steps[0]).any():
        raise Uneven("copies are not on a straight line")


def skeleton_of(short: Program, long: Program, count: int, states: Mapping[str, Type], lines: LinesOf) -> Skeleton:
    """The skeleton of the program that has `count` layers more than `short`, `long` having one more.

    `states` are those of the deep program. Raises Uneven where layers are not equal.
    """
    numbers: dict[Any, int] = {}
    widths = _widths(short, long)
    rows, longer = _rows(short, numbers, widths), _rows(long, numbers, widths)
    places: list[Numbers] = []
    references: list[Numbers] = []
    wheres: list[Where | None] = []
    draws: dict[int, int] = {}
    stretches: list[Stretch] = []
    for part in _parts(rows, longer):
        own = np.arange(part.short, part.short + (part.period or part.count))
        base = rows.references[own]
        # With one layer more a number is so much larger, wherever it stands.
        base = base + count * (longer.references[part.long : part.long + len(own)] - base)
        copies = part.count + count * part.rate if part.period else 1
        # And from copy to copy of one program by a step that no number of layers changes (`_require_line`).
        steps = rows.references[own + part.period] - rows.references[own] if part.period else 0 * base
        block = base + np.arange(copies)[:, None, None] * steps
        start = sum(map(len, places))
        places.append(np.tile(own, copies))
        references.append(block.reshape(-1, block.shape[-1]))
        if own[0] < len(short.instrs):
            last = own + (part.count - 1) * part.period if part.period else own
            wheres += _wheres(short, part, copies, lines)
            # What is there once may run on into the states.
            period = part.period or min(part.count, len(short.instrs) - part.short)
            stretches.append(Stretch(start, part.short, period, copies, part.count if part.period else 1))
            draws |= _draws(short, own.tolist(), last.tolist(), copies, start)
    return _skeleton(rows, np.concatenate(places), np.concatenate(references), states, wheres, draws, tuple(stretches))


def _wheres(short: Program, part: _Part, copies: int, lines: LinesOf) -> Iterator[Where | None]:
    end = min(len(short.instrs), part.short + part.count * max(1, part.period))
    # Rows behind the instructions, of states and fetches, have no line.
    own = [i.where for i in short.instrs[part.short : end]]
    if not part.period:
        return iter(own)
    columns: list[Sequence[Where | None]] = []
    for phase in range(part.period):
        known = [where for where in own[phase :: part.period] if where is not None]
        if known and len(known) < part.count:
            raise Uneven("one layer has a line of the script, and another has none")
        columns.append(lines(known, copies) if known else [None] * copies)
    return chain.from_iterable(zip(*columns, strict=True))


def _draws(short: Program, own: Sequence[int], last: Sequence[int], copies: int, start: int) -> dict[int, int]:
    """The numbers of draws in repeated instructions, between those of the first and of the last layer."""
    draws: dict[int, int] = {}
    for place, (i, k) in enumerate(zip(own, last, strict=True)):
        if copies == 1 or i >= len(short.instrs) or (first := _draw(short.instrs[i].attrs)) is None:
            continue
        step, rest = divmod((_draw(short.instrs[k].attrs) or 0) - first, copies - 1)
        if rest:
            raise Uneven("draws of random bits are not on a straight line")
        draws |= {start + c * len(own) + place: first + c * step for c in range(copies)}
    return draws


def _draw(attrs: Mapping[str, Any]) -> int | None:
    inner = (_draw(v) for v in attrs.values() if isinstance(v, Mapping))
    return attrs[DRAW] if DRAW in attrs else next((number for number in inner if number is not None), None)


def _skeleton(
    rows: _Rows,
    places: Numbers,
    references: Numbers,
    states: Mapping[str, Type],
    wheres: list[Where | None],
    draws: dict[int, int],
    stretches: tuple[Stretch, ...],
) -> Skeleton:
    short = rows.program
    # Instructions come first, as `_rows` has them: a repeat that runs on into the states would mix both.
    is_instr = places < len(short.instrs)
    counts = [int(n) for n in (is_instr.sum(), len(states), len(short.batch), len(short.fetches))]
    if sum(counts) != len(places) or not is_instr[: counts[0]].all():
        raise Uneven("the states are not those of equal layers")
    ends = np.cumsum(counts)
    # A row of the table is filled up with -1; how many operands it has its instruction says.
    wide, instrs = rows.widths[0], short.instrs
    operands = [references[: counts[0], :wide].tolist(), references[: counts[0], wide:].tolist()]
    sizes = [len(i.reads) for i in instrs], [len(i.writes) for i in instrs]
    reads, writes = (
        tuple([tuple(row[: own[i]]) for i, row in zip(places.tolist(), table, strict=False)])
        for own, table in zip(sizes, operands, strict=True)
    )
    state_rows = references[ends[0] : ends[1]]
    if (state_rows[:, 0] != np.arange(len(states))).any():
        raise Uneven("states are in another order")
    buffers = _buffers(rows, places, references)
    skeleton = Skeleton(
        instrs=tuple(places[: counts[0]].tolist()),
        reads=reads,
        writes=writes,
        buffers=buffers,
        names=tuple(states),
        ends=tuple(state_rows[:, wide].tolist()),
        batch=tuple(references[ends[1] : ends[2], 0].tolist()),
        fetches=tuple(references[ends[2] :, 0].tolist()),
        stretches=stretches,
        wheres=tuple(wheres),
        draws=draws,
    )
    require_states(short, skeleton, list(states.values()))
    return skeleton


def require_states(short: Program, skeleton: Skeleton, types: Sequence[Type]) -> None:
    """Raise Uneven unless the deep program of a skeleton has states of these types."""
    if [short.buffers[b].type for b in skeleton.buffers[: len(types)]] != types:
        raise Uneven("states are of other types")


def is_alike(a: Program, b: Program) -> bool:
    """Whether what is the skeleton of one program is that of the other: they differ in types and amounts alone."""
    widths = _widths(a)
    if widths != _widths(b) or tuple(a.state) != tuple(b.state):
        return False
    # Kinds are numbered as they come, so that equal numbers stand for the same rows being alike.
    x, y = _rows(a, {}, widths), _rows(b, {}, widths)
    return (
        np.array_equal(x.kinds, y.kinds)
        and np.array_equal(x.references, y.references)
        and [own.kind for own in a.buffers] == [own.kind for own in b.buffers]
        and all(
            i.where == k.where and i.kernel == k.kernel and _draw(i.attrs) == _draw(k.attrs)
            for i, k in zip(a.instrs, b.instrs, strict=True)
        )
    )


def _buffers(rows: _Rows, places: Numbers, references: Numbers) -> tuple[int, ...]:
    """The like of each buffer in the shallow program: every row that names one has to agree."""
    short = rows.program
    numbers: dict[Any, int] = {}
    kinds = np.array([numbers.setdefault(_buffer_kind(b), len(numbers)) for b in short.buffers], np.int64)
    own = rows.references[places]
    named = own >= 0
    if (references[named] < 0).any():
        raise Uneven("buffers are counted below 0")
    # A number that no row names keeps -1: every buffer is read or written by something.
    likes = np.full(int(references.max()) + 1, -1)
    likes[references[named]] = own[named]
    if (likes < 0).any() or (kinds[likes[references[named]]] != kinds[own[named]]).any():
        raise Uneven("a buffer is of two types")
    return tuple(likes.tolist())


def sharing(own: Program, other: Program) -> Program:
    """The program of another batch, with the records of `other` that the batch does not change."""
    instrs = [b if a == b else a for a, b in zip(own.instrs, other.instrs, strict=True)]
    # Buffers compare without their values.
    buffers = [b if a == b and a.value is b.value else a for a, b in zip(own.buffers, other.buffers, strict=True)]
    return replace(own, instrs=tuple(instrs), buffers=tuple(buffers))


def grown(short: Program, skeleton: Skeleton, other: Program | None = None) -> Program:
    """The deep program of a skeleton. Raises CompileError if it reads what nothing writes.

    With `other`, that of another batch and the same skeleton, records that both shallow programs have are the same in
    both deep ones, and it was checked for both.
    """
    names, known, same = skeleton.names, other or short, set[int]()
    if other is not None and other.grown is not None:
        # By identity: a record that the batch does not change is handed on from program to program as it is.
        same = {id(record) for record in (*other.grown.short.buffers, *other.grown.short.instrs)}
    buffers = [short.buffers[b] for b in skeleton.buffers]
    likes = [short.instrs[k] for k in skeleton.instrs]
    instrs = [
        known.instrs[n] if id(i) in same else i.like(reads, writes, where)
        for n, (i, reads, writes, where) in enumerate(
            zip(likes, skeleton.reads, skeleton.writes, skeleton.wheres, strict=True)
        )
    ]
    for k, number in skeleton.draws.items():
        instrs[k] = replace(instrs[k], attrs=_drawn(instrs[k].attrs, number))
    deep = Program(
        buffers=tuple(
            [
                known.buffers[n] if id(b) in same else b.like(n, names[n] if n < len(names) else b.name)
                for n, b in enumerate(buffers)
            ]
        ),
        instrs=tuple(instrs),
        state={name: (n, end) for n, (name, end) in enumerate(zip(names, skeleton.ends, strict=True))},
        batch=skeleton.batch,
        fetches=skeleton.fetches,
        fetch_names=short.fetch_names,
        density=short.density,
        precision_level=short.precision_level,
        micro_batching=short.micro_batching,
        systems=short.systems,
        grown=Grown(short, skeleton),
    )
    # What is read and written is the skeleton's: it is in order for all batches or for none.
    return deep.check() if other is None else deep


def _drawn(attrs: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {
        name: number if name == DRAW else _drawn(value, number) if isinstance(value, Mapping) else value
        for name, value in attrs.items()
    }
