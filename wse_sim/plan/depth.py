"""Depth: what is looked up of a deep net, told from the same of the shallow one that its program grew from.

A fact is said of an instruction or of a buffer, its key, in terms of others: who made what it reads, or what lies in
its layer. Of the layer in the middle it is said of each of its likes in terms of their likes: numbers alone change.
That holds where the layers around it say the same, each in its own terms: then one more in between does so too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

import numpy as np

from lazytensor.ir.growth import Uneven
from lazytensor.ir.program import Program
from lazytensor.ir.types import Where
from wse_sim.plan.blocks import Blocked, calls_of
from wse_sim.plan.layers import STEP, SWEEPS, Layer
from wse_sim.plan.likes import FIRST, LAST, MIDDLE, ONCE, Likes, Places, likes_of
from wse_sim.plan.wiring import OUTSIDE, BufferVersion, Wiring, batch_size

Fact = tuple[Sequence[int], Sequence[int]]
"""Numbers of instructions, and of buffers."""
_ROWS = {FIRST: slice(0, 1), MIDDLE: slice(None), LAST: slice(-1, None)}
"""Which likes there are of what is in a zone."""


@dataclass(frozen=True)
class Depth:
    """The wiring and the layers of a deep program, and what it computes again, told by its likes."""

    likes: Likes
    wiring: Wiring
    layers: tuple[Layer, ...]
    again: frozenset[BufferVersion]


def depth_of(
    deep: Program, blocked: Blocked, shallow: Wiring, layers: Sequence[Layer], again: frozenset[BufferVersion]
) -> Depth | None:
    """What is told from the same of the shallow program; None where its layers differ."""
    # A net whose layers differ in what is told of them is looked up as a whole.
    with suppress(Uneven):
        for likes in likes_of(deep, shallow, blocked):
            with suppress(Uneven):
                wiring = _wiring(likes, program_in_blocks(likes, deep, blocked), shallow)
                return Depth(likes, wiring, _layers(likes, wiring, shallow, layers), _again(likes, again))
    return None


def program_in_blocks(likes: Likes, deep: Program, blocked: Blocked) -> Program:
    """The deep program with the blocks of the shallow one."""
    instrs, short = [deep.instrs[n] for n in likes.order.tolist()], blocked.program.instrs
    facts = {
        i: ((origin.named, *origin.draws), (*short[i].reads, *short[i].writes)) for i, origin in blocked.origins.items()
    }
    for i, own, ((named, *draws), buffers) in _told(likes.instrs, facts, likes.before, likes.buffers):
        like = short[own]
        reads, writes = buffers[: len(like.reads)], buffers[len(like.reads) :]
        block = like.like(tuple(reads), tuple(writes), deep.instrs[named].where)
        # Numbers of draws are each layer's own, and all else of equal layers is one object.
        instrs[i] = replace(block, attrs={**like.attrs, "attrs": {"call": calls_of(deep.instrs, draws)}})
    return replace(deep, instrs=tuple(instrs))


def _wiring(likes: Likes, program: Program, shallow: Wiring) -> Wiring:
    count, places, buffers = len(program.instrs), likes.instrs, likes.buffers
    operands: list[tuple[BufferVersion, ...]] = [()] * count
    results: list[tuple[int, ...]] = [()] * count
    touched = {i: _parts(shallow.operands[i], shallow.results[i]) for i in shallow.kernels}
    for i, _, (sources, own) in _of_instrs(likes, touched):
        operands[i] = tuple(map(BufferVersion, own, sources))
        results[i] = tuple(own[len(sources) :])
    groups = _of_buffers(likes, {b: ((), (parameter,)) for b, parameter in shallow.groups.items()})
    final = _of_buffers(likes, {b: _parts([version]) for b, version in shallow.final.items()})
    gradients = _by_source((b, i, parameter) for (b, i), parameter in shallow.gradients.items())
    return Wiring(
        program=program,
        kernels=tuple(sorted(_every(places, shallow.kernels, count))),
        operands=tuple(operands),
        results=tuple(results),
        resident=_every(buffers, shallow.resident, len(program.buffers)),
        per_sample=_every(buffers, shallow.per_sample, len(program.buffers)),
        preparing=_every(places, shallow.preparing, count),
        settling=_every(places, shallow.settling, count),
        groups={b: parameter for b, _, (_, (parameter,)) in groups},
        gradients={
            BufferVersion(b, i): parameter
            for i, _, (_, own) in _of_instrs(likes, gradients)
            for b, parameter in zip(own[::2], own[1::2], strict=True)
        },
        final={b: BufferVersion(*own, *source) for b, _, (source, own) in final},
        batch_size=batch_size(program),
        precision_level=shallow.precision_level,
        alike=tuple(places.shallow(count).tolist()),
    )


def _again(likes: Likes, again: frozenset[BufferVersion]) -> frozenset[BufferVersion]:
    told = _of_instrs(likes, _by_source((b, i) for b, i in sorted(again)))
    return frozenset(BufferVersion(b, i) for i, _, (_, buffers) in told for b in buffers)


def _layers(likes: Likes, wiring: Wiring, shallow: Wiring, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers, in the order of their first kernels."""
    zones = likes.instrs.zones.tolist()
    deep, narrow = list[Layer](), dict[int, Layer]()
    for layer in layers:
        # One that goes through all of the depth, as what is done with all gradients together, becomes wider.
        if {FIRST, LAST} <= {zones[i] for i in layer.every_kernel}:
            deep.append(_widened(likes, wiring, layer))
        else:
            key = next((i for i in layer.every_kernel if zones[i] != ONCE), layer.every_kernel[0])
            narrow[key] = layer
    for _, key, fact in _of_instrs(likes, {key: _contents(shallow, key, layer) for key, layer in narrow.items()}):
        deep.append(_renewed(wiring, narrow[key], *fact))
    # What is told of one layer by another one's kernels would be told twice.
    if sorted(chain.from_iterable(layer.every_kernel for layer in deep)) != list(wiring.kernels):
        raise Uneven("a kernel is in no layer, or in two")
    return tuple(sorted(deep, key=lambda layer: min(layer.every_kernel)))


def _contents(shallow: Wiring, key: int, layer: Layer) -> Fact:
    """The kernel whose line a layer has, all of its kernels and those that run again; and its buffers."""
    instrs = shallow.program.instrs
    # A layer has the very line of one of its kernels.
    named = next((i for i in layer.every_kernel if instrs[i].where is layer.where), key)
    return (named, *layer.every_kernel, *layer.recomputed), (*layer.parameters, *layer.states, *sorted(layer.inner))


def _renewed(wiring: Wiring, like: Layer, instrs: Sequence[int], buffers: Sequence[int]) -> Layer:
    """A layer that is like another one, of these contents."""
    ends = accumulate((1, *(len(like.kernels[s]) for s in SWEEPS), len(like.recomputed)))
    *sweeps, recomputed = (tuple(instrs[start:end]) for start, end in pairwise(ends))
    ends = accumulate((0, len(like.parameters), len(like.states), len(like.inner)))
    parameters, states, inner = (tuple(buffers[start:end]) for start, end in pairwise(ends))
    where = wiring.program.instrs[instrs[0]].where
    return replace(
        like,
        name=_renamed(like, where),
        where=where,
        kernels=dict(zip(SWEEPS, sweeps, strict=True)),
        parameters=parameters,
        states=states,
        inner=frozenset(inner),
        recomputed=recomputed,
    )


def _renamed(like: Layer, where: Where | None) -> str:
    """The name with the scope of another line."""
    scope = like.where.scope if like.where else ""
    is_scoped = scope and where and like.name != STEP
    return where.scope + like.name.removeprefix(scope) if is_scoped and where else like.name


def _widened(likes: Likes, wiring: Wiring, layer: Layer) -> Layer:
    """A layer with all likes of what is in it."""

    def every(places: Places, own: tuple[int, ...], count: int) -> tuple[int, ...]:
        # Likes of several layers have no order of their own.
        if own != tuple(sorted(own)):
            raise Uneven("a layer is not in the order of the program")
        return tuple(sorted(_every(places, own, count)))

    instrs, buffers = len(wiring.program.instrs), len(wiring.program.buffers)
    return replace(
        layer,
        kernels={s: every(likes.instrs, layer.kernels[s], instrs) for s in SWEEPS},
        parameters=every(likes.buffers, layer.parameters, buffers),
        states=every(likes.buffers, layer.states, buffers),
        inner=_every(likes.buffers, layer.inner, buffers),
        recomputed=every(likes.instrs, layer.recomputed, instrs),
    )


def _parts(versions: Sequence[BufferVersion], further: Sequence[int] = ()) -> Fact:
    """Sources of versions; and their buffers, with further ones behind them."""
    return [source for _, source in versions], [*(buffer for buffer, _ in versions), *further]


def _by_source(rows: Iterator[tuple[int, ...]]) -> dict[int, Fact]:
    """Facts of instructions from rows of a buffer, the instruction that makes it, and further buffers."""
    own: dict[int, list[int]] = {}
    for buffer, source, *further in rows:
        own.setdefault(source, []).extend((buffer, *further))
    return {i: ((), buffers) for i, buffers in own.items()}


def _of_instrs(likes: Likes, facts: Mapping[int, Fact]) -> "Iterator[tuple[int, int, Fact]]":
    return _told(likes.instrs, facts, likes.instrs, likes.buffers)


def _of_buffers(likes: Likes, facts: Mapping[int, Fact]) -> "Iterator[tuple[int, int, Fact]]":
    return _told(likes.buffers, facts, likes.instrs, likes.buffers)


def _told(keys: Places, facts: Mapping[int, Fact], instrs: Places, buffers: Places) -> Iterator[tuple[int, int, Fact]]:
    """Facts of the deep program: the key, that in the shallow one, and what is said. Raises Uneven if layers differ."""
    _require_even(keys, facts, instrs, buffers)
    zones = keys.zones.tolist()
    for zone in (FIRST, MIDDLE, LAST, ONCE):
        own = [key for key in facts if zones[key] == zone]
        numbers, named = ([*chain.from_iterable(facts[key][n] for key in own)] for n in (0, 1))
        # All likes of a zone at once: what is said of a layer is a row, cut into facts.
        tables = (_rows(p, some, zone) for p, some in ((keys, own), (instrs, numbers), (buffers, named)))
        ends = (pairwise(accumulate([len(facts[key][n]) for key in own], initial=0)) for n in (0, 1))
        cuts = [(key, slice(*one), slice(*other)) for key, one, other in zip(own, *ends, strict=True)]
        for own_row, instr_row, buffer_row in zip(*tables, strict=True):
            for number, (key, one, other) in zip(own_row, cuts, strict=True):
                yield number, key, (instr_row[one], buffer_row[other])


def _rows(places: Places, numbers: Sequence[int], zone: int) -> list[list[int]]:
    """For each like of what is in a zone the likes of what is said of it."""
    own = np.array(numbers, np.int64)
    # How the first layers follow the last ones depends on how many lie between.
    if zone in (FIRST, LAST) and (places.zones[own] == -zone).any():
        raise Uneven("first layers have to do with last ones")
    table = places.alone[own][None] if zone == ONCE else places.likes[_ROWS[zone]][:, own]
    # What belongs to no layer may have to do with the ends of the net, and not with one layer among many.
    if (table < OUTSIDE).any():
        raise Uneven("what is there once has to do with a layer in the middle")
    rows: list[list[int]] = table.tolist()
    return rows


def _every(places: Places, numbers: Collection[int], count: int) -> frozenset[int]:
    """All likes of some instructions or buffers, of so many in the deep program."""
    # Who is in a set is a fact without further numbers.
    is_in = np.zeros(len(places.zones), bool)
    is_in[list(numbers)] = True
    if (is_in[places.around] != is_in[places.following[places.around]]).any():
        raise Uneven("a layer has what the next one has not")
    return frozenset(np.flatnonzero(is_in[places.shallow(count)]).tolist())


def _require_even(keys: Places, facts: Mapping[int, Fact], instrs: Places, buffers: Places) -> None:
    """Raise Uneven unless the layers around the middle one say what it says."""
    following, *ahead = (p.following.tolist() for p in (keys, instrs, buffers))
    for key in keys.around.tolist():
        one, other = facts.get(key), facts.get(following[key])
        told = one and [[places[n] for n in numbers] for places, numbers in zip(ahead, one, strict=True)]
        if told != (other and [list(numbers) for numbers in other]):
            raise Uneven("a layer is not like the next one")
