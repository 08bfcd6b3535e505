"""Likes: where what stands in a shallow program stands in the deep one that grew from it, once for each further layer.

The stretches of a deep net that are repeated belong to its layers: forward ones go on through the layers, and backward
ones go back. Copies of two stretches belong to one layer where one reads the other. The deep net has the first layers
of the shallow one, its last ones, and between them the one in its middle as often as it takes.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lazytensor.ir.growth import Uneven
from lazytensor.ir.program import Program
from lazytensor.ir.skeleton import Stretch
from wse_sim.plan.blocks import Blocked
from wse_sim.plan.wiring import OUTSIDE, Wiring

Numbers = NDArray[np.int64]
FIRST, MIDDLE, LAST, ONCE = -1, 0, 1, 2
"""Zones: layers before the middle one, that one, layers behind it, and what belongs to none."""
NOWHERE = -2
"""The number of what has no like."""


@dataclass(frozen=True)
class Places:
    """Instructions or buffers of a shallow program: `likes` [further, n] are their numbers in the deep one.

    Each has a zone, and the number of its like in the next layer of the shallow program itself.
    """

    likes: Numbers
    zones: Numbers
    following: Numbers

    @cached_property
    def alone(self) -> Numbers:
        """The number of the only like, of what is not in the middle layer."""
        known = np.where(self.zones == LAST, self.likes[-1], self.likes[0])
        return np.where(self.zones == MIDDLE, NOWHERE, known)

    @cached_property
    def around(self) -> Numbers:
        """What is in the middle layer, or in that before it, and has a like in the next one."""
        ahead = self.following
        return np.flatnonzero((ahead >= 0) & ((self.zones == MIDDLE) | (self.zones[ahead] == MIDDLE)))

    def with_outside(self) -> "Places":
        """With a last one more, which is `OUTSIDE` in both programs."""
        outside = np.full((len(self.likes), 1), OUTSIDE)
        likes = np.concatenate([self.likes, outside], axis=1)
        return Places(likes, np.append(self.zones, ONCE), np.append(self.following, OUTSIDE))

    def shallow(self, count: int) -> Numbers:
        """For each of `count` numbers of the deep program that of the shallow one. Raises Uneven if one has none."""
        numbers, is_middle = np.full(count, NOWHERE), self.zones == MIDDLE
        repeated, alone = np.flatnonzero(is_middle), np.flatnonzero(~is_middle & (self.alone >= 0))
        numbers[self.likes[:, repeated]] = repeated
        numbers[self.alone[alone]] = alone
        if (numbers == NOWHERE).any():
            raise Uneven("the layers do not make up the deep program")
        return numbers


@dataclass(frozen=True)
class Likes:
    """Where instructions and buffers of a shallow program with blocks are in the deep one.

    `before` is of instructions without blocks, and `order` has those of the deep program that are there with blocks.
    """

    instrs: Places
    buffers: Places
    before: Places
    order: Numbers


def likes_of(deep: Program, shallow: Wiring, blocked: Blocked) -> Iterator[Likes]:
    """Of the program of a deep net and the wiring of the shallow one, with each layer that may be the middle one.

    Raises Uneven where stretches do not belong together.
    """
    assert deep.grown is not None
    short, stretches = deep.grown.short, list(_in_layers(deep.grown.skeleton.stretches))
    stacked = _stacked(stretches, shallow, blocked)
    for middle in stacked.middles:
        before = stacked.places(middle)
        # Layers near the ends may be like no other: then one further away is in the middle.
        with suppress(Uneven):
            instrs, order = _with_blocks(before, blocked, len(short.instrs), len(deep.instrs))
            yield Likes(instrs, _buffers(deep, short, before), before, order)


def _in_layers(stretches: Sequence[Stretch]) -> Iterator[Stretch]:
    """Stretches with one copy for each layer, where a layer has several of them."""
    # Equal parameters of a layer are updated by equal copies. Where no stretch has one for each layer, several are one.
    further = math.gcd(*(s.copies - s.short_copies for s in stretches))
    for s in stretches:
        if s.copies == 1:
            yield s
            continue
        rate = (s.copies - s.short_copies) // further
        layers, rest = divmod(s.short_copies, rate)
        period = rate * s.period
        yield Stretch(s.start, s.short, period, layers + further, layers)
        if rest:
            start, short = (begin + count * period for begin, count in ((s.start, layers + further), (s.short, layers)))
            yield Stretch(start, short, rest * s.period)


@dataclass(frozen=True)
class _Stacked:
    """For each instruction of the shallow program, without blocks, its likes and its layer, if `sign` is not 0.

    `sign` is by how much a layer goes on with a copy, `ends` are the first and the last layer that are whole.
    """

    likes: Numbers
    layer: Numbers
    sign: Numbers
    following: Numbers
    ends: tuple[int, int]

    @property
    def middles(self) -> list[int]:
        """Layers with one on either side, which tell that it goes on: those in between first."""
        first, last = self.ends
        return sorted(range(first + 1, last), key=lambda layer: abs(2 * layer - first - last))

    def places(self, middle: int) -> Places:
        """With that layer in the middle."""
        return Places(self.likes, np.where(self.sign == 0, ONCE, np.sign(self.layer - middle)), self.following)


def _stacked(stretches: Sequence[Stretch], shallow: Wiring, blocked: Blocked) -> _Stacked:
    sizes = [s.period * s.short_copies for s in stretches]
    stretch = np.repeat(np.arange(len(stretches)), sizes)
    start, short, period, copies, short_copies = np.array(
        [(s.start, s.short, s.period, s.copies, s.short_copies) for s in stretches]
    )[stretch].T
    further = max(s.copies - s.short_copies for s in stretches)
    copy, phase = np.divmod(np.arange(len(stretch)) - short, period)
    signs, offsets = _layers_of(stretches, _links(shallow, blocked, stretch, copy, np.where(copies > 1, period, 0)))
    sign, layer = signs[stretch], signs[stretch] * copy + offsets[stretch]
    # So many layers further on, what goes back has as many copies less before it.
    steps = np.arange(further + 1)[:, None]
    shift = np.where(sign > 0, steps, np.where(sign < 0, further - steps, 0))
    ahead = copy + sign
    is_inside = (ahead >= 0) & (ahead < short_copies)
    ranges = [(int(own.min()), int(own.max())) for n in np.flatnonzero(signs) for own in [layer[stretch == n]]]
    return _Stacked(
        likes=start + (copy + shift) * period + phase,
        layer=layer,
        sign=sign,
        following=np.where(is_inside, np.arange(len(stretch)) + sign * period, NOWHERE),
        ends=(max(low for low, _ in ranges), min(high for _, high in ranges)),
    )


Link = tuple[int, int, int, int]
"""Copy `c` of one stretch reads copy `step * c + offset` of another: both stretches, the step and the offset."""


def _links(shallow: Wiring, blocked: Blocked, stretch: Numbers, copy: Numbers, periods: Numbers) -> Iterator[Link]:
    """Who reads whom, of instructions by their stretches, copies and periods, which are 0 for what is there once."""
    places = blocked.places
    numbers = {place: i for i, place in enumerate(places)}
    for i in shallow.kernels:
        place = places[i]
        ahead = numbers.get(place + periods[place])
        # Of the second copy and the third, as the first one may be like no other.
        if not periods[place] or copy[place] != 1 or ahead is None:
            continue
        for one, other in zip(shallow.operands[i], shallow.operands[ahead], strict=False):
            if OUTSIDE not in (one.source, other.source):
                k, m = places[one.source], places[other.source]
                step = int(copy[m] - copy[k])
                if stretch[k] == stretch[m] and abs(step) == 1:
                    yield int(stretch[place]), int(stretch[k]), step, int(copy[k]) - step


def _layers_of(stretches: Sequence[Stretch], links: Iterator[Link]) -> tuple[Numbers, Numbers]:
    """For each stretch the sign and the offset by which copies are counted in layers; zeros for what is there once."""
    repeated = [n for n, s in enumerate(stretches) if s.copies > 1]
    known = {max(repeated, key=lambda n: stretches[n].period): (1, 0)}
    every = list(dict.fromkeys(links))
    # Which layer a copy is counted to is a convention, as stretches are cut anywhere in a layer; its direction is none.
    while len(known) < len(repeated):
        before = len(known)
        for reader, source, step, offset in every:
            if reader in known and source not in known:
                sign = known[reader][0] * step
                known[source] = sign, known[reader][1] - sign * offset
            elif source in known and reader not in known:
                sign = known[source][0]
                known[reader] = sign * step, sign * offset + known[source][1]
        if len(known) == before:
            raise Uneven("a stretch has nothing to do with the others")
    signs, offsets = np.array([known.get(n, (0, 0)) for n in range(len(stretches))]).T
    return signs, offsets


def _with_blocks(before: Places, blocked: Blocked, short_count: int, count: int) -> tuple[Places, Numbers]:
    """Of instructions with blocks, and those that are there of so many in the deep program."""
    places = np.array(blocked.places)
    # They keep their order, and what was put off goes to the end.
    falls = np.flatnonzero(np.diff(places) < 0)
    rank, own = np.full(short_count, NOWHERE), np.full(short_count, NOWHERE)
    rank[places] = 0
    rank[places[falls[0] + 1 :] if len(falls) else []] = 1
    if (rank[before.around] != rank[before.following[before.around]]).any():
        raise Uneven("a layer has blocks which the next one has not")
    ranks = rank[before.shallow(count)]
    order = np.concatenate([np.flatnonzero(ranks == n) for n in (0, 1)])
    numbers = np.full(count, NOWHERE)
    numbers[order], own[places] = np.arange(len(order)), np.arange(len(places))
    ahead = before.following[places]
    following = np.where(ahead == NOWHERE, NOWHERE, own[ahead])
    return Places(numbers[before.likes[:, places]], before.zones[places], following).with_outside(), order


def _buffers(deep: Program, short: Program, before: Places) -> Places:
    """Of buffers: each is where the first instruction that names it has it."""
    # A number of a buffer says nothing of its layer: the one of its instruction does.
    owners: dict[int, tuple[int, int]] = {}
    for i, instr in enumerate(short.instrs):
        for slot, b in enumerate((*instr.reads, *instr.writes)):
            owners.setdefault(b, (i, slot))
    if len(owners) < len(short.buffers):
        raise Uneven("no instruction names some of the buffers")
    slots = [owners[b] for b in range(len(short.buffers))]
    makers, further = np.array([i for i, _ in slots]), len(before.likes) - 1

    def named(program: Program, places: Sequence[int]) -> Numbers:
        instrs = ((program.instrs[i], slot) for i, (_, slot) in zip(places, slots, strict=True))
        return np.array([(*instr.reads, *instr.writes)[slot] for instr, slot in instrs])

    first, second, last = (named(deep, before.likes[n, makers].tolist()) for n in (0, 1, further))
    # What is repeated goes on by equal steps.
    if (first + further * (second - first) != last).any():
        raise Uneven("buffers are not on a straight line")
    ahead, own = before.following[makers], np.arange(len(makers))
    is_last = ahead == NOWHERE
    following = np.where(is_last, NOWHERE, named(short, np.where(is_last, makers, ahead).tolist()))
    # One that all layers share belongs to none of them, whichever names it first.
    is_shared = first == second
    return Places(
        likes=first + np.arange(further + 1)[:, None] * (second - first),
        zones=np.where(is_shared, ONCE, before.zones[makers]),
        following=np.where(is_shared, own, following),
    )
