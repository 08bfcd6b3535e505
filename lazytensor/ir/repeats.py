"""Repeats: stretches of a list of records that are equal copies of each other, but for numbers on straight lines.

A record has a kind and references, numbers such as the places of what it reads. Copies are equal where kinds are, and
where every reference goes on by the same step from each copy to the next: to a neighbour in its own copy, to its like
in another stretch that goes on as well, or back, or to one record that all of them share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

WINDOW = 4
"""Kinds in a row by which a period is looked for: alone most of them are common."""
CANDIDATES = 12
"""Periods that are tried: distances between equal windows."""
MULTIPLES = 4
"""Fewer times as long a period is tried too."""
LEAST = 3
"""Copies: with fewer of them there is a straight line through anything."""


@dataclass(frozen=True)
class Repeat:
    """`copies` stretches of `period` records, one behind the other from `start` on."""

    start: int
    period: int
    copies: int

    @property
    def end(self) -> int:
        """The first record behind it."""
        return self.start + self.period * self.copies

    @property
    def likes(self) -> int:
        """Records that have a like in the copy before."""
        return self.period * (self.copies - 1)


def repeats(kinds: Numbers, references: Numbers) -> list[Repeat]:
    """The repeats of a list, in order and apart from each other: always the longest of what is left.

    `references` has a row for each record, filled up with any one number.
    """
    waiting, results = [(0, len(kinds))], []
    while waiting:
        first, end = waiting.pop()
        repeat = longest_repeat(kinds[first:end], references[first:end])
        if repeat is not None:
            own = Repeat(first + repeat.start, repeat.period, repeat.copies)
            results.append(own)
            waiting += [(first, own.start), (own.end, end)]
    return sorted(results, key=lambda repeat: repeat.start)


def longest_repeat(kinds: Numbers, references: Numbers) -> Repeat | None:
    """The repeat in which most records have a like in the copy before; None if nothing repeats."""
    best: Repeat | None = None
    for period in _periods(kinds):
        # Kinds may repeat within a layer, and references with the layers alone.
        for times in range(1, MULTIPLES):
            repeat = _longest_of(kinds, references, times * period, best.likes if best is not None else 0)
            if repeat is not None:
                best = repeat
                break
    return best


def _periods(kinds: Numbers) -> Iterator[int]:
    """Distances at which windows of kinds come again, shortest first."""
    if len(kinds) < LEAST + WINDOW:
        return
    windows = _mixed([kinds[k : len(kinds) - WINDOW + 1 + k] for k in range(WINDOW)])
    order = np.argsort(windows, kind="stable")
    distances = np.diff(order)[np.diff(windows[order]) == 0]
    counts = np.bincount(distances[distances * LEAST <= len(kinds)])
    # By what they may cover: within a layer many short distances come more often than the way to the next layer.
    frequent = np.argsort(counts * np.arange(len(counts)), kind="stable")[::-1][:CANDIDATES]
    yield from sorted(int(p) for p in frequent if counts[p])


def _longest_of(kinds: Numbers, references: Numbers, period: int, least: int) -> Repeat | None:
    """The longest repeat of one period; None without any, and where no more than `least` records have a like."""
    if LEAST * period > len(kinds):
        return None
    alike = kinds[period:] == kinds[:-period]
    # Most periods are none, as kinds alone tell.
    if int(alike.sum()) <= least:
        return None
    on_line = alike[:-period] & alike[period:]
    for column in references.T:
        # From each record to its like in the next copy, and in the one behind that.
        steps = column[period:] - column[:-period]
        on_line &= steps[:-period] == steps[period:]
    edges = np.flatnonzero(np.diff(np.concatenate(([0], on_line.view(np.int8), [0]))))
    if not len(edges):
        return None
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    copies = int(lengths[longest]) // period + 2
    return Repeat(int(starts[longest]), period, copies) if copies >= LEAST and period * (copies - 1) > least else None


def _mixed(columns: list[Numbers]) -> Numbers:
    """A number for each row of some columns, equal for equal rows and hardly ever for others."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        # The multiplier of Knuth's linear congruential generator: odd, and with bits all over.
        mixed = mixed * np.uint64(6364136223846793005) + column.astype(np.uint64) + np.uint64(1)
        mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)


def kinds_within(kinds: Numbers, roles: Numbers) -> Numbers:
    """Kinds that tell apart records whose references have other roles; `roles` has a row for each record."""
    return _mixed([kinds, *roles.T])
